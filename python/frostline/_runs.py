"""Replays of traces."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from . import _native, _plots
from ._lists import Machine
from ._model import PolicyLike, TraceLike, listed, model, trace_name
from ._progress import shown
from ._traces import Trace
from ._units import html_table, in_percent, table

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import pyarrow

_SHOWN = 20


@dataclass(frozen=True)
class Bound:
    """What fast memory can save at most, whatever is placed where and when.

    Attributes
    ----------
    saving_upper_ns
        No placement saves more, in nanoseconds of modelled time.
    all_fast_saving_ns
        What fast memory without limit would save.
    feasible_share
        Share of `saving_upper_ns` that a plan with knowledge of the future is known to reach.
    gap
        What is left between the two: at most so much of it is out of reach.
    """

    saving_upper_ns: float
    all_fast_saving_ns: float
    feasible_share: float
    gap: float


class Run:
    """A replay of a trace under a policy, with a size of fast memory.

    Everything but ``report["host"]`` is a pure function of trace, machine, policy and seed.

    Attributes
    ----------
    report
        Every number of it, units in the names.
    slowdown
        Modelled time over the least that any of the runs it was compared with takes with all memory fast; 1 for none.
        ``report["slowdown_vs_all_fast"]`` is over its own time, which is longer with small pages.
    series
        The same over time, where it was asked for: a point for each interval.
    bound
        What the fast memory can save at most, where it was asked for and there is a bound.
    """

    def __init__(
        self, report: dict[str, Any], slowdown: float, series: list[dict[str, Any]], bound: Bound | None = None
    ) -> None:
        self.report = report
        self.slowdown = slowdown
        self.series = series
        self.bound = bound

    @property
    def trace(self) -> str:
        """The trace, as it was named."""
        return str(self.report["trace"])

    @property
    def policy(self) -> str:
        """The policy, with the parameters that were named."""
        return str(self.report["policy"])

    @property
    def fast(self) -> str:
        """Size of fast memory, as it was asked for."""
        return str(self.report["fast"])

    @property
    def fast_hit_ratio(self) -> float:
        """Share of the accesses that fast memory served."""
        return float(self.report["fast_hit_ratio"])

    def to_arrow(self) -> pyarrow.Table:
        """Its numbers over time: a row for each interval, units in the names.

        Resident bytes stand in a column for each tier, what a policy tells of itself in ``gauge.NAME``.
        """
        import pyarrow

        tiers = [tier["name"] for tier in self.report["tiers"]]
        rows = []
        for point in self.series:
            row = {name: value for name, value in point.items() if not isinstance(value, dict | list)}
            row |= {f"resident_{tier}_bytes": held for tier, held in zip(tiers, point["resident_bytes"])}
            row |= {f"gauge.{name}": value for name, value in point["gauges"].items()}
            rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pyarrow.table({name: [row.get(name) for row in rows] for name in names})

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draw the share of accesses that fast memory served, over time, and what was promoted.

        Parameters
        ----------
        ax
            Where to draw; None: on a new figure.
        """
        return _plots.run(self, ax)

    def __repr__(self) -> str:
        return f"<Run of {self.policy} with {self.fast} fast: {self.slowdown:.3f} times the time with all memory fast>"


class Runs(Sequence[Run]):
    """Replays, in the order in which they were asked for."""

    def __init__(self, runs: list[Run]) -> None:
        self._runs = runs

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Run | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The numbers of each run that are no tables themselves, and its slowdown."""
        return [
            {key: value for key, value in run.report.items() if not isinstance(value, dict | list)}
            | {"slowdown": run.slowdown}
            for run in self
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each run; columns have their units in their names.

        Raises
        ------
        ImportError
            Where pandas is not installed: ``pip install 'frostline[tables]'``.
        """
        import pandas

        return pandas.DataFrame(self.to_dicts())

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Draw the slowdown of each policy by the size of fast memory.

        Parameters
        ----------
        ax
            Where to draw; None: on a new figure.
        """
        return _plots.runs(self, ax)

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        heads = ["policy", "trace", "fast", "slowdown", "fast hits", "of bound"]
        rows = [
            [
                run.policy,
                run.trace,
                run.fast,
                f"{run.slowdown:.3f}",
                in_percent(run.fast_hit_ratio),
                "-" if run.report["share_of_bound"] is None else in_percent(run.report["share_of_bound"]),
            ]
            for run in self._runs[:_SHOWN]
        ]
        if len(self) > _SHOWN:
            rows.append([f"and {len(self) - _SHOWN} more", "", "", "", "", ""])
        return heads, rows

    def __repr__(self) -> str:
        return table(*self._rows())

    def _repr_html_(self) -> str:
        return html_table(*self._rows())


def compare(
    traces: TraceLike | Iterable[TraceLike],
    policies: PolicyLike | Iterable[PolicyLike] = "all",
    fast: str | Iterable[str] = ("1:2", "1:8", "1:16"),
    *,
    machine: Machine | str = "dram-nvm",
    seed: int = 1,
    seeds: int = 1,
    bound: bool = False,
    series: bool = False,
    tlb: bool = True,
    scale: str = "scaled",
    jobs: int | None = None,
    progress: bool | None = None,
    verify: bool = False,
) -> Runs:
    """Replay traces under policies and sizes of fast memory.

    Parameters
    ----------
    traces
        One or several: objects, files, or ``synth:NAME:key=value...``.
    policies
        Names with parameters, ``memtis:alpha=0.75``, and groups: ``all`` (the principal ones, with references), ``variants``,
        ``baselines``, ``offline``. Classes derived from `PlacementPolicy`, by their names, or what makes such policies by names of
        your own: ``{"mine-3": lambda offer: Mine(offer, 3)}``.
    fast
        Sizes of fast memory: ``1:8`` (fast to slow), ``40%`` of the footprint, ``2GiB``.
    machine
        A preset or a TOML file, with parameters; see `machines`.
    seed
        Of everything random.
    seeds
        So many runs of each, with seeds from `seed` upwards.
    bound
        Whether to compute what no placement can beat: ``share_of_bound``.
    series
        Whether runs have their numbers over time, with the first seed.
    tlb
        Whether the translation lookaside buffer is modelled.
    scale
        Intervals of policies: ``scaled`` (as for a program of 64 GiB), ``paper`` (as published), or the size that they
        are for.
    jobs
        Runs at the same time; None for one on each core.
    progress
        Whether a bar is shown; None: where tqdm is installed and somebody looks at it.
    verify
        Whether policies that are written in Python run twice, to see that they decide the same.

    Returns
    -------
    Runs
        By trace, size, policy and seed.

    Raises
    ------
    UsageError
        For a policy, machine or size that cannot be.
    FrostlineError
        For a trace that cannot be read, and for a policy that does not decide the same with the same seed.
    KeyboardInterrupt
        Within a tenth of a second after Ctrl-C.
    """
    several = [traces] if isinstance(traces, Trace | str | os.PathLike) else traces
    sizes = [fast] if isinstance(fast, str) else list(fast)
    names, classes = listed(policies)
    request = {
        "traces": [trace_name(trace) for trace in several],
        "fast": sizes,
        "seeds": seeds,
        "bound": bound,
        "series": series,
        **model(names, machine, seed, tlb, scale, jobs),
    }
    with shown(progress) as told:
        runs = json.loads(_native.compare(json.dumps(request), told, classes))
        found = Runs([Run(run["report"], run["slowdown"], run["series"], _bound_of(run)) for run in runs])
        if verify and classes:
            again = {**request, "policies": ",".join(classes), "bound": False, "series": False}
            repeated = json.loads(_native.compare(json.dumps(again), told, classes))
            _check_same([run for run in found if run.policy in classes], [run["report"] for run in repeated])
    return found


def _bound_of(run: dict[str, Any]) -> Bound | None:
    return None if run["bound"] is None else Bound(**run["bound"])


def bound(
    trace: TraceLike,
    fast: str,
    *,
    machine: Machine | str = "dram-nvm",
    seed: int = 1,
    tlb: bool = True,
    progress: bool | None = None,
) -> Bound:
    """Compute what a size of fast memory can save at most. Parameters are those of `compare`.

    Returns
    -------
    Bound

    Raises
    ------
    UsageError
        For a machine with more than two tiers, or with one that cannot be accessed directly.
    """
    request = {
        "traces": [trace_name(trace)],
        "fast": [fast],
        "seeds": 1,
        "bound": True,
        "series": False,
        **model("first-touch", machine, seed, tlb, "scaled", None),
    }
    with shown(progress) as told:
        (run,) = json.loads(_native.compare(json.dumps(request), told))
    found = _bound_of(run)
    if found is None:
        raise _native.UsageError(f"there is no bound: {run['no_bound']}\nhint: take another machine, or a shorter trace")
    return found


def _check_same(runs: list[Run], again: list[dict[str, Any]]) -> None:
    name = "policy.decisions_digest"
    asked = ("trace", "policy", "fast", "seed")
    digests = {tuple(report[key] for key in asked): report["counters"][name] for report in again}
    for run in runs:
        if digests[tuple(run.report[key] for key in asked)] != run.report["counters"][name]:
            raise _native.FrostlineError(
                f"{run.policy} decides otherwise the second time, with {run.fast} of {run.trace} and seed {run.report['seed']}\n"
                "hint: take what is random from offer.seed, and iterate over nothing without an order"
            )


def sim(
    trace: TraceLike,
    policy: PolicyLike,
    fast: str,
    *,
    machine: Machine | str = "dram-nvm",
    seed: int = 1,
    series: bool = True,
    tlb: bool = True,
    scale: str = "scaled",
    progress: bool | None = None,
) -> Run:
    """Replay a trace under a policy. Parameters are those of `compare`.

    Returns
    -------
    Run
        With its numbers over time.
    """
    runs = compare(
        trace, policy, fast, machine=machine, seed=seed, series=series, tlb=tlb, scale=scale, progress=progress
    )
    if len(runs) != 1:
        raise _native.UsageError(f"{policy} are {len(runs)} policies\nhint: compare() replays several")
    return runs[0]
