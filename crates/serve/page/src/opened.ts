// What was opened beside the targets: a trace, which is advised on, or runs of policies, which are compared.

import { Chart } from "./chart";
import { find, make, text } from "./dom";
import { bytes, count, percent } from "./format";
import { AccessMap } from "./map";
import type { Advised, Compared, Opened } from "./types";

const REGION_BYTES = 2 * 1024 * 1024;

export async function opened(): Promise<void> {
  const answer = await fetch("/api/opened");
  const opened = answer.ok ? ((await answer.json()) as Opened | null) : null;
  if (opened === null) return;
  find<HTMLElement>("#opened").hidden = false;
  text(find("#opened-heading"), opened.name);
  if (opened.trace !== null) advised(opened.trace);
  compared(opened.compared);
}

function advised(trace: Advised): void {
  find<HTMLElement>("#advised").hidden = false;
  const answers = trace.answers.map(({ max_slowdown, fast_share }) => {
    const size = fast_share === null ? "more than there is" : bytes(fast_share * trace.footprint_bytes);
    return `${size} for at most ${percent(max_slowdown)}`;
  });
  const about = [
    `${count(trace.records)} accesses to ${bytes(trace.touched_bytes)}`,
    `fast memory on ${trace.machine} under ${trace.policy}: ${answers.join(", ")}`,
    `the hottest tenth of the memory has ${percent(trace.map.hottest_tenth)} of the accesses`,
  ];
  text(find("#advised-about"), about.join(" · "));
  const slowdowns = new Chart(find("#slowdowns"), [{ label: "slower by", color: "slow", area: true }], percent, bytes);
  slowdowns.show(
    trace.slowdowns.map(([share]) => share * trace.footprint_bytes),
    [trace.slowdowns.map(([, slowdown]) => slowdown)],
  );
  const misses = new Chart(find("#misses"), [{ label: "misses", color: "fast", area: true }], percent, bytes);
  misses.show(
    trace.miss_curve.map(({ of_pages }) => of_pages * trace.touched_bytes),
    [trace.miss_curve.map((point) => point.misses)],
  );
  const { map } = trace;
  new AccessMap("#map").show({
    counts: map.counts,
    time: (column) => `${(column * map.column_seconds).toPrecision(3)} s`,
    place: (row) => bytes((map.row_regions[row] ?? 0) * REGION_BYTES),
  });
}

/** A table for each program, machine and size, the fastest policy first. */
function compared(runs: Compared[]): void {
  const tables = new Map<string, Compared[]>();
  for (const run of runs) {
    const key = JSON.stringify([run.trace, run.machine, run.fast]);
    tables.set(key, [...(tables.get(key) ?? []), run]);
  }
  find<HTMLElement>("#compared").hidden = runs.length === 0;
  find("#compared").append(
    ...[...tables.values()].map((runs) => {
      const heading = headingOf(runs);
      return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": heading }, table(heading, runs));
    }),
  );
}

/** With all memory fast there is more of it than was asked for. */
function headingOf(runs: Compared[]): string {
  const [run] = runs;
  const least = Math.min(...runs.map((run) => run.fast_bytes));
  return run === undefined ? "" : `${run.trace} on ${run.machine}, fast memory ${run.fast} (${bytes(least)})`;
}

function table(heading: string, runs: Compared[]): HTMLTableElement {
  const seeds = new Set(runs.map((run) => run.seed)).size > 1;
  const titles = ["Slower by", "Fast accesses", "Of bound", "Moved"];
  const number = (value: string): Node => make("td", { class: "number" }, value);
  const rows = runs
    .toSorted((a, b) => a.slowdown - b.slowdown)
    .map((run) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, seeds ? `${run.policy}, seed ${run.seed}` : run.policy),
        number(percent(run.slowdown)),
        number(percent(run.fast_hits)),
        number(run.share_of_bound === null ? "–" : percent(run.share_of_bound)),
        number(bytes(run.moved_bytes)),
      ),
    );
  const head = titles.map((title) => make("th", { scope: "col", class: "number" }, title));
  return make(
    "table",
    {},
    make("caption", {}, heading),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Policy"), ...head)),
    make("tbody", {}, ...rows),
  );
}
