// Details of one target: its last hour, and what it is like now.

import { Chart } from "./chart";
import { find, make, text } from "./dom";
import { bytes, count, percent, rate, since } from "./format";
import { hotness } from "./hotness";
import type { History, Target } from "./types";

/** Points that are kept of the present, beside the past. */
const MOST = 1200;

export class Detail {
  private key: string | undefined;
  private past: History | undefined;
  private readonly memory = new Chart(
    find("#memory"),
    [
      { label: "fast", color: "fast", area: true },
      { label: "limit", color: "ink", dashed: true },
      { label: "slow", color: "slow" },
      { label: "saved", color: "saved" },
    ],
    bytes,
  );
  private readonly loss = new Chart(
    find("#loss"),
    [
      { label: "all", color: "ink" },
      { label: "swap-ins", color: "slow", area: true },
      { label: "slow loads", color: "slower" },
      { label: "faults", color: "saved" },
      { label: "ours", color: "fast" },
    ],
    percent,
  );
  private readonly moves = new Chart(
    find("#moves"),
    [
      { label: "to slow", color: "slow" },
      { label: "to fast", color: "fast" },
    ],
    (value) => `${bytes(value)}/s`,
  );

  /** Begins with another target, whose past is asked for once. */
  async select(key: string): Promise<void> {
    if (key === this.key) return;
    this.key = key;
    this.past = undefined;
    const answer = await fetch(`/api/history?target=${encodeURIComponent(key)}`);
    if (answer.ok && this.key === key) this.past = (await answer.json()) as History;
  }

  show(target: Target | undefined, at: number): void {
    find<HTMLElement>("#detail").hidden = target === undefined;
    if (target === undefined || target.key !== this.key) return;
    this.words(target);
    this.add(target, at);
    this.draw();
    find("#hotness").replaceChildren(
      make("figcaption", {}, "Memory by hotness"),
      hotness(target.status.hotness),
    );
  }

  private words({ status, rates, warnings }: Target): void {
    text(find("#detail-heading"), status.name);
    const processes = status.targets.map((one) => `${one.comm} (${one.pid})`).join(", ");
    const about = [
      status.policy,
      `since ${since(status.seconds)}`,
      processes,
      ...(status.dry_run ? ["dry run"] : []),
      ...(status.loss?.goal === undefined ? [] : [`at most ${percent(status.loss.goal)} slower`]),
      `${rate(rates.refaults)} pages back by touch`,
      ...(rates.hits === null ? [] : [`${percent(rates.hits)} of samples in fast memory`]),
      `own memory ${bytes(status.own_rss_bytes)}`,
    ];
    text(find("#about"), about.filter((part) => part !== "").join(" · "));
    find("#warnings").replaceChildren(
      ...warnings.map((one) => make("li", {}, one.text, make("span", {}, ` hint: ${one.hint}`))),
    );
    const sources = status.sources.map((one): [string, string] => [
      `source ${one.name}`,
      `${count(one.touches)} touches, ${count(one.lost)} lost, ${one.cpu_seconds.toFixed(1)} s`,
    ]);
    const metrics = Object.entries(status.metrics).map(([name, value]): [string, string] => [name, count(value)]);
    find("#numbers tbody").replaceChildren(
      ...[...sources, ...metrics].map(([name, value]) =>
        make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "number" }, value)),
      ),
    );
  }

  private add({ status, rates }: Target, at: number): void {
    const past = this.past;
    if (past === undefined || (past.at_ms.at(-1) ?? 0) >= at) return;
    const latest = status.loss?.latest;
    const parts = latest?.parts;
    const fast = status.tiers[0];
    const slow = status.tiers.slice(1).reduce((sum, tier) => sum + tier.used_bytes, 0);
    const values: [number[], number][] = [
      [past.at_ms, at],
      [past.fast_bytes, fast?.used_bytes ?? 0],
      [past.limit_bytes, fast?.capacity_bytes ?? 0],
      [past.slow_bytes, slow],
      [past.saved_bytes, status.saved_bytes],
      [past.loss, latest?.share ?? -1],
      [past.loss_parts[0], parts?.swap_ins ?? 0],
      [past.loss_parts[1], parts?.slow_loads ?? 0],
      [past.loss_parts[2], parts?.faults ?? 0],
      [past.loss_parts[3], parts?.ours ?? 0],
      [past.up_bytes, rates.up_bytes],
      [past.down_bytes, rates.down_bytes],
      [past.refaults, rates.refaults],
      [past.cpu, rates.cpu_share],
    ];
    for (const [column, value] of values) {
      column.push(value);
      if (column.length > MOST) column.shift();
    }
  }

  private draw(): void {
    const past = this.past;
    if (past === undefined) return;
    const times = past.at_ms.map((at) => at / 1000);
    // Less than nothing stands for what nobody has measured.
    const loss = past.loss.map((value) => (value < 0 ? null : value));
    this.memory.show(times, [past.fast_bytes, past.limit_bytes, past.slow_bytes, past.saved_bytes]);
    this.loss.show(times, [loss, ...past.loss_parts]);
    this.moves.show(times, [past.down_bytes, past.up_bytes]);
  }
}
