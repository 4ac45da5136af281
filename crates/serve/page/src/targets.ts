// List of targets. Rows stay where they are as long as their targets do, so that focus does.

import { find, make, svg, text } from "./dom";
import { bytes, percent } from "./format";
import { kind } from "./tiers";
import type { Status, Target } from "./types";

interface Row {
  element: HTMLTableRowElement;
  button: HTMLButtonElement;
  cells: HTMLTableCellElement[];
  bar: SVGElement;
}

export class List {
  private readonly body = find<HTMLTableSectionElement>("#targets tbody");
  private readonly rows = new Map<string, Row>();

  constructor(private readonly select: (key: string) => void) {}

  show(targets: Target[], selected: string | undefined): void {
    const keys = new Set(targets.map((target) => target.key));
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
    for (const target of targets) {
      const row = this.rows.get(target.key) ?? this.add(target.key);
      fill(row, target);
      row.button.setAttribute("aria-pressed", String(target.key === selected));
    }
    const order = targets.map((target) => this.rows.get(target.key)?.element);
    if (order.some((element, index) => this.body.children[index] !== element)) {
      this.body.append(...order.filter((element) => element !== undefined));
    }
    find<HTMLElement>("#nothing").hidden = targets.length > 0;
    find<HTMLElement>("#targets").hidden = targets.length === 0;
  }

  private add(key: string): Row {
    const button = make("button", { type: "button" });
    button.addEventListener("click", () => this.select(key));
    const cells = ["number", "number", "", "number", "number", "number"].map((kind) =>
      make("td", kind === "" ? {} : { class: kind }),
    );
    const bar = svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "bar", role: "img" });
    cells[2]?.append(bar);
    const element = make("tr", {}, make("th", { scope: "row" }, button), ...cells);
    const row = { element, button, cells, bar };
    this.rows.set(key, row);
    return row;
  }
}

function fill(row: Row, target: Target): void {
  const { status, rates, warnings } = target;
  const mark = warnings.length > 0 ? " ⚠" : "";
  text(row.button, `${status.name}${mark}`);
  const fast = status.tiers[0]?.used_bytes ?? 0;
  const loss = status.loss?.latest;
  const runs = status.targets.length > 0;
  const values = [
    runs ? bytes(status.footprint_bytes) : "does not run",
    runs ? bytes(fast) : "",
    undefined,
    runs ? bytes(status.saved_bytes) : "",
    loss === undefined ? "" : percent(loss.share),
    runs ? percent(rates.cpu_share) : "",
  ];
  values.forEach((value, index) => {
    const cell = row.cells[index];
    if (value !== undefined && cell !== undefined) text(cell, value);
  });
  bar(row.bar, status);
}

function bar(element: SVGElement, status: Status): void {
  const all = status.tiers.reduce((sum, tier) => sum + tier.used_bytes, 0);
  let from = 0;
  const parts = status.tiers.map((tier, index) => {
    const width = all > 0 ? (100 * tier.used_bytes) / all : 0;
    const part = svg("rect", { x: from, y: 0, width, height: 8, class: kind(index) });
    from += width;
    return part;
  });
  element.replaceChildren(...parts);
  const told = status.tiers.map((tier) => `${tier.name} ${bytes(tier.used_bytes)}`);
  element.setAttribute("aria-label", told.join(", ") || "no memory");
}
