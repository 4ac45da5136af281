// Map of accesses by address over time, of which a part can be looked at.

import { find, text } from "./dom";

const HEIGHT = 320;
const NOTHING: Shown = { counts: [], time: () => "", place: () => "" };
/** Pixels that are a part, and no click. */
const LEAST = 4;

/** What is shown: counts by row, the lowest address first, and by column, the oldest first. */
export interface Shown {
  counts: number[][];
  /** When a column begins. */
  time: (column: number) => string;
  /** Where a row begins. */
  place: (row: number) => string;
}

interface Part {
  columns: [number, number];
  rows: [number, number];
}

export class AccessMap {
  private readonly canvas: HTMLCanvasElement;
  private readonly range: HTMLElement;
  private readonly all: HTMLButtonElement;
  private shown = NOTHING;
  /** What is looked at, where that is not all. */
  private part: Part | undefined;

  /** In a figure with a canvas, a text and a button. */
  constructor(figure: string) {
    this.canvas = find(`${figure} canvas`);
    this.range = find(`${figure} span`);
    this.all = find(`${figure} button`);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    let from: { x: number; y: number } | undefined;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.offsetX, y: event.offsetY };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from !== undefined) this.choose(from, { x: event.offsetX, y: event.offsetY });
      from = undefined;
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.look(undefined);
      else if (event.key === "+") this.closer();
    });
    this.all.addEventListener("click", () => this.look(undefined));
  }

  show(shown: Shown): void {
    this.shown = shown;
    this.draw();
  }

  /** Begins with nothing shown, and all of it. */
  clear(): void {
    this.shown = NOTHING;
    this.look(undefined);
  }

  private get whole(): Part {
    const { counts } = this.shown;
    return { columns: [0, Math.max(...counts.map((row) => row.length), 1)], rows: [0, counts.length] };
  }

  /** The middle half. */
  private closer(): void {
    const half = ([from, to]: [number, number]): [number, number] => {
      const quarter = (to - from) / 4;
      return [Math.floor(from + quarter), Math.ceil(to - quarter)];
    };
    const part = this.part ?? this.whole;
    this.look({ columns: half(part.columns), rows: half(part.rows) });
  }

  private choose(from: { x: number; y: number }, to: { x: number; y: number }): void {
    if (Math.abs(from.x - to.x) < LEAST || Math.abs(from.y - to.y) < LEAST) return;
    const { clientWidth, clientHeight } = this.canvas;
    const part = this.part ?? this.whole;
    const range = ([least, most]: [number, number], a: number, b: number): [number, number] => {
      const at = (share: number): number => least + Math.min(Math.max(share, 0), 1) * (most - least);
      return [Math.floor(at(Math.min(a, b))), Math.ceil(at(Math.max(a, b)))];
    };
    this.look({
      columns: range(part.columns, from.x / clientWidth, to.x / clientWidth),
      // The highest address is at the top.
      rows: range(part.rows, 1 - from.y / clientHeight, 1 - to.y / clientHeight),
    });
  }

  private look(part: Part | undefined): void {
    this.part = part;
    this.all.disabled = part === undefined;
    this.draw();
  }

  private draw(): void {
    const { counts, time, place } = this.shown;
    const {
      columns: [left, right],
      rows: [low, high],
    } = this.part ?? this.whole;
    const [wide, tall] = [Math.max(right - left, 1), Math.max(high - low, 1)];
    const image = new ImageData(wide, tall);
    const most = counts.reduce((most, row) => row.reduce((a, b) => Math.max(a, b), most), 1);
    const full = Math.log1p(most);
    for (let row = 0; row < tall; row += 1) {
      const touches = counts[low + row] ?? [];
      for (let column = 0; column < wide; column += 1) {
        const shade = Math.log1p(touches[left + column] ?? 0) / full;
        const at = 4 * ((tall - 1 - row) * wide + column);
        image.data.set([255 * Math.min(1, 2 * shade), 255 * shade ** 2, 255 * (0.25 - (shade - 0.25) ** 2), 255], at);
      }
    }
    const whole = document.createElement("canvas");
    [whole.width, whole.height] = [wide, tall];
    whole.getContext("2d")?.putImageData(image, 0, 0);
    [this.canvas.width, this.canvas.height] = [Math.max(this.canvas.clientWidth, 1), HEIGHT];
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    context.imageSmoothingEnabled = false;
    context.drawImage(whole, 0, 0, this.canvas.width, this.canvas.height);
    const last = Math.max(counts.length - 1, 0);
    text(
      this.range,
      counts.length === 0
        ? "Nothing is known yet."
        : `${time(left)} to ${time(right)}; from ${place(low)} to ${place(Math.min(high, last))} of address space`,
    );
  }
}
