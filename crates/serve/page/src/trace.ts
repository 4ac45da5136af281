// A trace: how much fast memory it needs, and where it accesses memory.

import { Chart } from "./chart";
import { find, text } from "./dom";
import { bytes, count, percent } from "./format";
import { AccessMap } from "./map";
import type { Opened } from "./types";

export async function trace(): Promise<void> {
  const answer = await fetch("/api/trace");
  const opened = answer.ok ? ((await answer.json()) as Opened | null) : null;
  if (opened === null) return;
  find<HTMLElement>("#trace").hidden = false;
  text(find("#trace-heading"), opened.trace);
  const answers = opened.answers.map(({ max_slowdown, fast_share }) => {
    const size = fast_share === null ? "more than there is" : bytes(fast_share * opened.footprint_bytes);
    return `${size} for at most ${percent(max_slowdown)}`;
  });
  const about = [
    `${count(opened.records)} accesses to ${bytes(opened.touched_bytes)}`,
    `fast memory on ${opened.machine} under ${opened.policy}: ${answers.join(", ")}`,
    `the hottest tenth of the memory has ${percent(opened.map.hottest_tenth)} of the accesses`,
  ];
  text(find("#trace-about"), about.join(" · "));
  const slowdowns = new Chart(find("#slowdowns"), [{ label: "slower by", color: "slow", area: true }], percent, bytes);
  slowdowns.show(
    opened.slowdowns.map(([share]) => share * opened.footprint_bytes),
    [opened.slowdowns.map(([, slowdown]) => slowdown)],
  );
  const misses = new Chart(find("#misses"), [{ label: "misses", color: "fast", area: true }], percent, bytes);
  misses.show(
    opened.miss_curve.map(({ of_pages }) => of_pages * opened.touched_bytes),
    [opened.miss_curve.map((point) => point.misses)],
  );
  new AccessMap(opened.map);
}
