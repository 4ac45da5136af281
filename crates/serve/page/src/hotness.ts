// Histogram of memory by hotness, divided by tier.

import { svg } from "./dom";
import { bytes } from "./format";
import { kind } from "./tiers";
import type { Bin } from "./types";

const HEIGHT = 100;

export function hotness(bins: Bin[]): Node {
  if (bins.length === 0) {
    const note = document.createElement("p");
    note.textContent = "The policy keeps no histogram.";
    return note;
  }
  const most = Math.max(...bins.map((bin) => bin.bytes), 1);
  const bars = bins.flatMap((bin, index) => {
    let from = HEIGHT;
    return bin.tier_bytes.map((part, tier) => {
      const height = (part / most) * HEIGHT;
      from -= height;
      return svg("rect", { x: index * 10 + 1, y: from, width: 8, height, class: kind(tier) });
    });
  });
  const classes = bins.map((bin, index) =>
    svg("rect", { x: index * 10, y: HEIGHT + 2, width: 10, height: 4, class: bin.class }),
  );
  const told = bins.map((bin) => `from ${bin.least}: ${bytes(bin.bytes)}, ${bin.class}`);
  const view = `0 0 ${bins.length * 10} ${HEIGHT + 6}`;
  const label = `Coldest first. ${told.join("; ")}`;
  return svg(
    "svg",
    { viewBox: view, preserveAspectRatio: "none", class: "hotness", role: "img", "aria-label": label },
    ...bars,
    ...classes,
  );
}
