// Charts over time, in the colors of the page.

import uPlot from "uplot";
import { color } from "./dom";

export interface Line {
  label: string;
  color: string;
  /** Filled down to the axis. */
  area?: boolean;
  dashed?: boolean;
}

const HEIGHT = 200;

export class Chart {
  private plot: uPlot | undefined;
  private data: uPlot.AlignedData = [[]];

  constructor(
    private readonly element: HTMLElement,
    private readonly lines: Line[],
    private readonly format: (value: number) => string,
    /** Of what lies along the lower axis, where that is no time. */
    private readonly along?: (value: number) => string,
  ) {
    new ResizeObserver(() => this.resize()).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Seconds, or what else lies along the axis, ascending; and values by line. */
  show(times: number[], values: (number | null)[][]): void {
    this.data = [times, ...values];
    if (this.plot === undefined) this.draw();
    else this.plot.setData(this.data);
  }

  private width(): number {
    return Math.max(this.element.clientWidth, 120);
  }

  private resize(): void {
    this.plot?.setSize({ width: this.width(), height: HEIGHT });
  }

  private draw(): void {
    this.plot?.destroy();
    const [ink, grid] = [color("ink"), color("grid")];
    const show = (value: number | null): string => (value === null ? "" : this.format(value));
    const along = this.along;
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    this.plot = new uPlot(
      {
        width: this.width(),
        height: HEIGHT,
        scales: { x: { time: along === undefined }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] } },
        axes: [
          along === undefined ? axis : { ...axis, values: (_, splits) => splits.map((value) => along(value)) },
          { ...axis, size: 76, values: (_, splits) => splits.map(show) },
        ],
        series: [
          along === undefined ? {} : { label: "memory", value: (_, value) => (value === null ? "" : along(value)) },
          ...this.lines.map((line) => ({
            label: line.label,
            stroke: color(line.color),
            width: 1.5,
            points: { show: false },
            value: (_: uPlot, value: number | null) => show(value),
            ...(line.area ? { fill: `${color(line.color)}55` } : {}),
            ...(line.dashed ? { dash: [6, 4] } : {}),
          })),
        ],
        cursor: { drag: { x: true, y: false } },
      },
      this.data,
      this.element,
    );
  }
}
