"""Charts, where matplotlib is installed: ``pip install 'frostline[plots]'``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import matplotlib.axes

    from ._advice import Advice
    from ._runs import Run

MIB = 1 << 20


def _axes(ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots()[1]


def run(run: Run, ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Hits and promotions over time."""
    ax = _axes(ax)
    seconds = [point["seconds"] for point in run.series]
    ax.plot(seconds, [100 * point["fast_hit_ratio"] for point in run.series], color="C0")
    ax.set(xlabel="modelled time (s)", ylabel="served by fast memory (%)", ylim=(0, 100))
    ax.set_title(f"{run.policy}, {run.fast}: {run.trace}", wrap=True)
    moved = ax.twinx()
    moved.fill_between(seconds, [point["promoted_bytes"] / MIB for point in run.series], color="C1", alpha=0.3, step="pre")
    moved.set(ylabel="promoted (MiB)", ylim=(0, None))
    return ax


def runs(runs: Iterable[Run], ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Slowdown by size, a line for each policy, and for each trace where there are several."""
    ax = _axes(ax)
    several = list(runs)
    traces = list(dict.fromkeys(run.trace for run in several))
    lines: dict[tuple[str, str], dict[float, list[float]]] = {}
    for run in several:
        share = 100 * run.report["fast_bytes"] / run.report["footprint_bytes"]
        lines.setdefault((run.policy, run.trace), {}).setdefault(share, []).append(run.slowdown)
    for (policy, trace), by_share in lines.items():
        shares = sorted(by_share)
        # Of several seeds, the mean.
        means = [sum(by_share[share]) / len(by_share[share]) for share in shares]
        ax.plot(shares, means, marker="o", label=policy if len(traces) == 1 else f"{policy}, {trace}")
    ax.set(xlabel="fast memory (% of the footprint)", ylabel="time with all memory fast = 1")
    ax.set_ylim(bottom=1)
    if len(traces) == 1:
        ax.set_title(traces[0], wrap=True)
    ax.legend()
    return ax


def advice(advice: Advice, ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """Slowdown by size, and the answers."""
    ax = _axes(ax)
    ax.plot([size / MIB for size, _ in advice.curve], [100 * loss for _, loss in advice.curve], marker=".", color="C0")
    for answer in advice.answers:
        if answer.fast_bytes is None:
            continue
        goal = 100 * answer.max_slowdown
        ax.plot(answer.fast_bytes / MIB, goal, marker="D", color="C1")
        if answer.low_bytes is not None and answer.high_bytes is not None:
            ax.hlines(goal, answer.low_bytes / MIB, answer.high_bytes / MIB, color="C1")
    ax.set(xlabel="fast memory (MiB)", ylabel="slowdown (%)")
    ax.set_ylim(bottom=0)
    ax.set_title(f"{advice.policy}", wrap=True)
    return ax
