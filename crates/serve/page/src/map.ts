// Map of accesses by address over time, of which a part can be looked at.

import { find, text } from "./dom";
import { bytes } from "./format";
import type { Opened } from "./types";

const REGION_BYTES = 2 * 1024 * 1024;
const HEIGHT = 320;
/** Pixels that are a part, and no click. */
const LEAST = 4;

interface Part {
  columns: [number, number];
  rows: [number, number];
}

export class AccessMap {
  private readonly canvas = find<HTMLCanvasElement>("#map canvas");
  private readonly all: Part;
  private readonly most: number;
  private part: Part;

  constructor(private readonly map: Opened["map"]) {
    const columns = Math.max(...map.counts.map((row) => row.length), 1);
    this.all = { columns: [0, columns], rows: [0, map.counts.length] };
    this.part = this.all;
    this.most = map.counts.reduce((most, row) => row.reduce((a, b) => Math.max(a, b), most), 1);
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
      if (event.key === "Escape") this.show(this.all);
      else if (event.key === "+") this.closer();
    });
    find<HTMLButtonElement>("#map-all").addEventListener("click", () => this.show(this.all));
    this.draw();
  }

  /** The middle half. */
  private closer(): void {
    const half = ([from, to]: [number, number]): [number, number] => {
      const quarter = (to - from) / 4;
      return [Math.floor(from + quarter), Math.ceil(to - quarter)];
    };
    this.show({ columns: half(this.part.columns), rows: half(this.part.rows) });
  }

  private choose(from: { x: number; y: number }, to: { x: number; y: number }): void {
    if (Math.abs(from.x - to.x) < LEAST || Math.abs(from.y - to.y) < LEAST) return;
    const { clientWidth, clientHeight } = this.canvas;
    const range = ([least, most]: [number, number], a: number, b: number): [number, number] => {
      const at = (share: number): number => least + Math.min(Math.max(share, 0), 1) * (most - least);
      return [Math.floor(at(Math.min(a, b))), Math.ceil(at(Math.max(a, b)))];
    };
    this.show({
      columns: range(this.part.columns, from.x / clientWidth, to.x / clientWidth),
      // The highest address is at the top.
      rows: range(this.part.rows, 1 - from.y / clientHeight, 1 - to.y / clientHeight),
    });
  }

  private show(part: Part): void {
    this.part = part;
    find<HTMLButtonElement>("#map-all").disabled = part === this.all;
    this.draw();
  }

  private draw(): void {
    const [left, right] = this.part.columns;
    const [low, high] = this.part.rows;
    const [wide, tall] = [Math.max(right - left, 1), Math.max(high - low, 1)];
    const image = new ImageData(wide, tall);
    const full = Math.log1p(this.most);
    for (let row = 0; row < tall; row += 1) {
      const counts = this.map.counts[low + row] ?? [];
      for (let column = 0; column < wide; column += 1) {
        const shade = Math.log1p(counts[left + column] ?? 0) / full;
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
    const seconds = (column: number): string => `${(column * this.map.column_seconds).toPrecision(3)} s`;
    const address = (row: number): string => bytes((this.map.row_regions[row] ?? 0) * REGION_BYTES);
    const last = this.map.row_regions.length - 1;
    text(
      find("#map-range"),
      `${seconds(left)} to ${seconds(right)}; from ${address(low)} to ${address(Math.min(high, last))} of address space`,
    );
  }
}
