"""Advice: how much fast memory a program needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native, _plots
from ._lists import Machine, Policy, machine as described
from ._model import TraceLike, model, trace_name
from ._progress import shown
from ._units import html_table, in_bytes, in_percent, table

if TYPE_CHECKING:
    import matplotlib.axes


@dataclass(frozen=True)
class Answer:
    """Fast memory for a slowdown that is accepted.

    Attributes
    ----------
    max_slowdown
        Slowdown that is accepted: 0.02 for 2 %.
    fast_bytes
        Size from which on it is no more; None where all memory is not enough.
    low_bytes, high_bytes
        Ends of the 95 % interval; None where there is none.
    is_least
        A smaller size was not looked at.
    saved
        Price of the memory that need not be fast, less that of slow memory in its place; None where no prices were given.
    """

    max_slowdown: float
    fast_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    is_least: bool
    saved: float | None = None


@dataclass(frozen=True)
class Advice:
    """Sizes of fast memory that slowdowns take, under a policy.

    Attributes
    ----------
    policy
        The policy.
    footprint_bytes
        Memory of the program at its largest.
    part
        Part of its memory that was replayed; 1 for all.
    replays
        Replays that it took.
    answers
        For each slowdown, in the order of the question.
    curve
        Sizes in bytes and slowdowns, by ascending size.
    """

    policy: str
    footprint_bytes: int
    part: float
    replays: int
    answers: tuple[Answer, ...]
    curve: tuple[tuple[int, float], ...]

    @classmethod
    def _of(cls, told: dict[str, Any], difference: float | None) -> Advice:
        footprint = told["footprint_bytes"]

        def saved(share: float | None) -> float | None:
            return None if share is None or difference is None else (1 - share) * footprint / 2**30 * difference

        def size(share: float | None) -> int | None:
            return None if share is None else round(share * footprint)

        answers = (
            Answer(
                answer["max_slowdown"],
                size(answer["fast_share"]),
                size(answer["low_share"]),
                size(answer["high_share"]),
                answer["is_least"],
                saved(answer["fast_share"]),
            )
            for answer in told["answers"]
        )
        curve = tuple((round(share * footprint), slowdown) for share, slowdown in told["curve"])
        return cls(told["policy"], footprint, told["part"], told["replays"], tuple(answers), curve)

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        def text(size: int | None) -> str:
            return "-" if size is None else in_bytes(size)

        heads = ["at most", "fast memory", "of all", "95 %"]
        rows = [
            [
                in_percent(answer.max_slowdown),
                ("less than " if answer.is_least else "") + text(answer.fast_bytes),
                "-" if answer.fast_bytes is None else in_percent(answer.fast_bytes / self.footprint_bytes),
                f"{text(answer.low_bytes)} to {text(answer.high_bytes)}",
            ]
            for answer in self.answers
        ]
        if any(answer.saved is not None for answer in self.answers):
            heads.append("saves")
            for row, answer in zip(rows, self.answers):
                row.append("-" if answer.saved is None else f"{answer.saved:.2f}")
        return heads, rows

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draw the slowdown by the size of fast memory, and the answers with their intervals.

        Parameters
        ----------
        ax
            Where to draw; None: on a new figure.
        """
        return _plots.advice(self, ax)

    def __str__(self) -> str:
        return table(*self._rows())

    def _repr_html_(self) -> str:
        return html_table(*self._rows())


def advise(
    trace: TraceLike,
    max_slowdown: float | Iterable[float] = (0.01, 0.02, 0.05, 0.1),
    *,
    policy: Policy | str = "frost",
    machine: Machine | str = "dram-nvm",
    price: Mapping[str, float] | None = None,
    exact: bool = False,
    seed: int = 1,
    tlb: bool = True,
    scale: str = "scaled",
    jobs: int | None = None,
    progress: bool | None = None,
) -> Advice:
    """Look for the sizes of fast memory that slowdowns take.

    Parameters
    ----------
    trace
        An object, a file, or ``synth:NAME:key=value...``.
    max_slowdown
        Slowdowns that are accepted, above 0: 0.02 for 2 %.
    price
        Price of a GiB by tier of the machine, ``{"dram": 4, "cxl": 1.5}``: answers say what they save.
    exact
        Whether all of the trace is replayed, and not a part of it where it is large.
    policy, machine, seed, tlb, scale, jobs, progress
        As for `compare`.

    Returns
    -------
    Advice
    """
    difference = _difference(machine, price)
    goals = [max_slowdown] if isinstance(max_slowdown, int | float) else list(max_slowdown)
    request = {
        "trace": trace_name(trace),
        "goals": [float(goal) for goal in goals],
        "exact": exact,
        **model(str(policy), machine, seed, tlb, scale, jobs),
    }
    with shown(progress) as told:
        advice = json.loads(_native.advise(json.dumps(request, allow_nan=False), told))
    if len(advice) != 1:
        raise _native.UsageError(f"{policy} are {len(advice)} policies\nhint: ask about one after the other")
    return Advice._of(advice[0], difference)


def _difference(machine: Machine | str, price: Mapping[str, float] | None) -> float | None:
    """Price of a GiB of the first tier less that of the last."""
    if price is None:
        return None
    tiers = [tier["name"] for tier in described(str(machine)).description["tiers"]]
    for tier in (tiers[0], tiers[-1]):
        if tier not in price:
            raise _native.UsageError(f"price says nothing of {tier}, a tier of {machine}\nhint: tiers are {', '.join(tiers)}")
    return price[tiers[0]] - price[tiers[-1]]
