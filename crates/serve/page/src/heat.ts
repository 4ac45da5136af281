// Where a target's memory was touched in the last hour.

import { bytes, since } from "./format";
import { AccessMap } from "./map";
import type { Heat, Target } from "./types";

/** Milliseconds between two moments, as the server keeps them. */
const EVERY = 5000;
/** Moments of an hour. */
const MOST = 720;

type Place = [pid: number, address: number];

/** Tells the past by other parts, as the server does: each has what the old part had in which it begins. */
function divide(past: Heat, parts: Place[]): void {
  const from = parts.map(([pid, address]) =>
    past.parts.findLastIndex((part) => part[0] === pid && part[1] <= address),
  );
  if (from.length !== past.parts.length || from.some((old, index) => old !== index || past.parts[old]?.[1] !== parts[index]?.[1])) {
    past.touches = past.touches.map((column) => from.map((old) => column[old] ?? 0));
  }
  past.parts = parts;
}

export class HeatMap {
  private readonly map = new AccessMap("#heat");
  private key: string | undefined;
  private past: Heat | undefined;
  private latest = 0;

  /** Begins with another target. */
  async select(key: string): Promise<void> {
    this.key = key;
    this.past = undefined;
    this.latest = 0;
    this.map.clear();
    const answer = await fetch(`/api/heat?target=${encodeURIComponent(key)}`);
    if (answer.ok && this.key === key) this.past = (await answer.json()) as Heat;
  }

  /** Takes a moment, unless the last one was just before. */
  show({ status, point }: Target): void {
    const { past } = this;
    if (past === undefined || point.at_ms < this.latest + EVERY) return;
    this.latest = point.at_ms;
    const parts = status.heat.map(([pid, address]): Place => [pid, address]);
    divide(past, parts);
    past.touches.push(status.heat.map(([, , touches]) => touches));
    if (past.touches.length > MOST) past.touches.shift();
    this.draw(past, status.targets.length > 1);
  }

  private draw({ parts, touches }: Heat, named: boolean): void {
    const ago = (column: number): string => {
      const moments = touches.length - column;
      return moments <= 0 ? "now" : `${since((moments * EVERY) / 1000)} ago`;
    };
    this.map.show({
      counts: parts.map((_, row) => touches.map((column) => column[row] ?? 0)),
      time: ago,
      place: (row) => {
        const [pid, address] = parts[row] ?? [0, 0];
        return named ? `${bytes(address)} (${pid})` : bytes(address);
      },
    });
  }
}
