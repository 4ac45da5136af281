// Details of one target: its last hour, and what it is like now.

import { Chart } from "./chart";
import { Control } from "./control";
import { find, make, text } from "./dom";
import { bytes, count, percent, rate, since } from "./format";
import { HeatMap } from "./heat";
import { hotness } from "./hotness";
import type { Point, Target } from "./types";

/** Points that are kept of the present, beside the past. */
const MOST = 1200;

export class Detail {
  private key: string | undefined;
  private past: Point[] | undefined;
  private readonly heat = new HeatMap();
  private readonly control = new Control();
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
    void this.heat.select(key);
    void this.control.select(key);
    const answer = await fetch(`/api/history?target=${encodeURIComponent(key)}`);
    if (answer.ok && this.key === key) this.past = (await answer.json()) as Point[];
  }

  show(target: Target | undefined): void {
    find<HTMLElement>("#detail").hidden = target === undefined;
    if (target === undefined || target.key !== this.key) return;
    this.words(target);
    this.add(target);
    this.draw();
    this.heat.show(target);
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

  private add({ point }: Target): void {
    const past = this.past;
    if (past === undefined || (past.at(-1)?.at_ms ?? 0) >= point.at_ms) return;
    past.push(point);
    if (past.length > MOST) past.shift();
  }

  private draw(): void {
    const past = this.past;
    if (past === undefined) return;
    const times = past.map((point) => point.at_ms / 1000);
    const column = (of: (point: Point) => number | null): (number | null)[] => past.map(of);
    this.memory.show(times, [
      column((point) => point.fast_bytes),
      column((point) => point.limit_bytes),
      column((point) => point.slow_bytes),
      column((point) => point.saved_bytes),
    ]);
    const parts = [0, 1, 2, 3].map((part) => column((point) => point.parts[part] ?? 0));
    this.loss.show(times, [column((point) => point.loss), ...parts]);
    this.moves.show(times, [column((point) => point.down_bytes), column((point) => point.up_bytes)]);
  }
}
