// The page in a browser, beside what `frostline status --json` says.
//
// Usage: node browser.mjs FROSTLINE TARGET SCREENSHOTS, with CHROMIUM set to a browser. The target runs under a frostline, and
// is killed and begun again by lines on standard output that the caller answers on standard input.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [frostline, target, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const LONG = 30_000;
const TRACE = "synth:shift:size=32MiB:accesses=1M";

/** Has the caller do something. */
async function ask(what) {
  console.log(what);
  const { value } = await answers.next();
  assert.equal(value, "done", what);
}

/** A server, and the address that it prints. */
async function serve(listen, ...more) {
  const server = spawn(frostline, ["serve", "--listen", listen, ...more], { stdio: ["ignore", "inherit", "pipe"] });
  const lines = createInterface({ input: server.stderr })[Symbol.asyncIterator]();
  const next = async () => {
    for (;;) {
      const { value, done } = await lines.next();
      assert.ok(!done, "the server has ended");
      const url = /http:\/\/\S+/.exec(value)?.[0];
      if (url !== undefined) return url;
    }
  };
  return { server, next, url: await next() };
}

function status() {
  const all = JSON.parse(execFileSync(frostline, ["status", "--json"], { encoding: "utf8" }));
  return all.runs.find((one) => one.name === target);
}

/** As the page writes it. */
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

mkdirSync(folder, { recursive: true });
let { server, url, next } = await serve("127.0.0.1:0", "--allow-control", TRACE);
const origin = new URL(url).origin;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });

try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const [complaints, asked] = [[], []];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => asked.push(request.url()));

  const stranger = await context.newPage();
  assert.equal((await stranger.goto(origin)).status(), 401);
  await stranger.close();
  await page.goto(url);
  assert.equal(new URL(page.url()).search, "", "the token does not stay in the address");
  const spent = await context.request.get(url, { maxRedirects: 0, headers: { cookie: "" } });
  assert.equal(spent.status(), 401, "an address is good once");
  console.log("PASS entering takes the address that was printed, once");

  const row = page.locator("#targets tbody tr", { hasText: target });
  await row.waitFor({ timeout: LONG });
  await page.locator("#connection", { hasText: "live" }).waitFor({ timeout: LONG });
  let seen;
  for (let tries = 0; ; tries += 1) {
    // Both follow the same file, at moments of their own.
    const told = status();
    seen = [await row.locator("td").nth(0).textContent(), await row.locator("td").nth(1).textContent()];
    const right = [bytes(told.footprint_bytes), bytes(told.tiers[0].used_bytes)];
    if (right.every((value, index) => value === seen[index])) break;
    assert.ok(tries < 40, `the page says ${seen}, status ${right}`);
    await page.waitForTimeout(250);
  }
  console.log(`PASS the page says what status says: ${seen.join(", ")}`);

  await row.locator("button").focus();
  await page.keyboard.press("Enter");
  await page.locator("#detail-heading", { hasText: target }).waitFor({ timeout: LONG });
  for (const chart of ["memory", "loss", "moves"]) {
    await page.locator(`#${chart} canvas`).waitFor({ timeout: LONG });
  }
  console.log("PASS a target is chosen by keyboard, and has charts");

  const fast = async (least, most) => {
    for (let tries = 0; ; tries += 1) {
      const { tiers, footprint_bytes } = status();
      const share = tiers[0].capacity_bytes / footprint_bytes;
      if (share >= least && share <= most) return share;
      assert.ok(tries < 60, `${share} of its memory may be fast`);
      await page.waitForTimeout(250);
    }
  };
  const begun = await fast(0.5, 0.7);
  await page.locator("#size").fill("a lot");
  await page.keyboard.press("Enter");
  await page.locator("#control span", { hasText: "hint: " }).waitFor({ timeout: LONG });
  // The browser tells its console that a request was refused.
  assert.deepEqual(complaints.splice(0).map((text) => /status of 400/.test(text)), [true]);
  await page.locator("#size").fill("90%");
  await page.keyboard.press("Enter");
  const wished = await fast(0.85, 0.95);
  await page.locator("#control button", { hasText: "As at the start" }).click();
  await fast(0.5, 0.7);
  const forged = await context.request.post(`${origin}/api/fast?target=x&size=1%25`);
  assert.equal(forged.status(), 403, "the cookie alone changes nothing");
  console.log(`PASS fast memory is set by the page: ${begun.toFixed(2)}, ${wished.toFixed(2)}, and back`);

  await page.locator("#opened-heading", { hasText: TRACE }).waitFor({ timeout: LONG });
  const canvas = page.locator("#map canvas");
  const shades = (figure) =>
    page.locator(`${figure} canvas`).evaluate((element) => {
      const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
      return new Set(new Uint32Array(data.buffer)).size;
    });
  const dark = await shades("#map");
  assert.ok(dark > 3, `${dark} shades`);
  const whole = await page.locator("#map span").textContent();
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + box.height * 0.25);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.75);
  await page.mouse.up();
  assert.notEqual(await page.locator("#map span").textContent(), whole, "a part is looked at");
  await page.locator("#map button").click();
  assert.equal(await page.locator("#map span").textContent(), whole);
  assert.match(await page.locator("#advised-about").textContent(), /for at most 2\.0 %/);
  console.log(`PASS a trace has a map that can be looked into: ${whole}`);

  const policies = page.locator("#compared tbody tr");
  assert.ok((await policies.count()) > 6, "policies are compared");
  const slower = async (row) => parseFloat(await policies.nth(row).locator("td").first().textContent());
  assert.ok((await slower(0)) <= (await slower(1)), "the fastest comes first");
  assert.equal(await page.locator("#compared table").count(), 2, "a table for each size");
  console.log(`PASS ${await policies.count()} runs are compared`);

  // Touches come every second, columns every five.
  for (let tries = 0; (await shades("#heat")) < 3; tries += 1) {
    assert.ok(tries < 60, "touches are seen by address");
    await page.waitForTimeout(500);
  }
  const live = await page.locator("#heat span").textContent();
  assert.match(live, /ago to now; from .* of address space/);
  console.log(`PASS touches of a target are seen by address: ${live}`);

  // One connection tells what happens; nothing is asked for again and again.
  asked.length = 0;
  await page.waitForTimeout(5000);
  assert.deepEqual(asked, [], "the page polls");
  console.log("PASS events are told, not asked for");

  for (const [name, scheme, width, height] of [
    ["light", "light", 1280, 900],
    ["dark", "dark", 1280, 900],
    ["phone", "light", 390, 844],
  ]) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(1500);
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(over <= 0, `${name}: ${over} pixels too wide`);
  }
  console.log("PASS light, dark and narrow");
  assert.deepEqual(complaints, [], "the browser complains");

  for (const scheme of ["light", "dark"]) {
    // Tools of a test are no part of the page, which lets nothing in.
    const looked = await browser.newContext({
      bypassCSP: true,
      colorScheme: scheme,
      storageState: await context.storageState(),
    });
    const again = await looked.newPage();
    await again.goto(origin);
    await again.locator("#detail:not([hidden])").waitFor({ timeout: LONG });
    await again.evaluate(axe);
    const { violations, passes } = await again.evaluate(() => window.axe.run());
    const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
    assert.deepEqual(told, [], scheme);
    console.log(`PASS axe has nothing to say, ${scheme}: ${passes.length} rules hold`);
    await looked.close();
  }

  await page.setViewportSize({ width: 1280, height: 900 });
  await ask("KILL");
  await row.waitFor({ state: "detached", timeout: LONG });
  await page.locator("#nothing").waitFor({ timeout: LONG });
  console.log("PASS a target that is gone is gone");
  await ask("BEGIN");
  await row.waitFor({ timeout: LONG });
  console.log("PASS it comes back by itself");

  complaints.length = 0;
  server.kill("SIGKILL");
  await page.locator("#connection.lost", { hasText: "lost" }).waitFor({ timeout: LONG });
  console.log("PASS the page says that nobody is there");
  ({ server, url, next } = await serve(new URL(origin).host));
  await page.locator("#connection.lost", { hasText: "open the address" }).waitFor({ timeout: LONG });
  const other = await context.newPage();
  await other.goto(url);
  await page.locator("#connection", { hasText: "live" }).waitFor({ timeout: LONG });
  assert.notEqual(await next(), url, "another address is printed");
  console.log("PASS the page goes on once its browser has entered again");
} finally {
  await browser.close();
  server.kill();
  // Whoever answers would be waited for.
  process.stdin.destroy();
}
