"""Sweeps: many replays, on the cores of this machine or of a cluster, each made once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any

from . import _native
from ._lists import Machine, Policy
from ._model import TraceLike, model
from ._named import is_named
from ._progress import counted
from ._results import SCHEMA, Results, Rows, row_of
from ._task import Task, perform, tasks_of
from ._traces import Trace

if TYPE_CHECKING:
    import pandas
    from distributed import Client


def _on_cores(tasks: list[Task], jobs: int | None) -> Rows:
    stop = threading.Event()
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        left = {pool.submit(perform, task, stop) for task in tasks}
        try:
            while left:
                done, left = wait(left, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _expanded(policies: Iterable[Policy | str]) -> list[str]:
    """Policies of all lists and groups, those in Python last."""
    items = [item.strip() for policy in policies for item in str(policy).split(",")]
    in_rust = [item for item in items if not is_named(item)]
    in_python = dict.fromkeys(item for item in items if is_named(item))
    return [*(_native.expand(",".join(in_rust)) if in_rust else []), *in_python]


def sweep(
    traces: TraceLike | Iterable[TraceLike],
    policies: Policy | str | Iterable[Policy | str] = "all",
    fast: str | Iterable[str] = ("1:2", "1:8", "1:16"),
    machines: Machine | str | Iterable[Machine | str] = "dram-nvm",
    seeds: int | Iterable[int] = 1,
    *,
    results: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    scheduler: str | None = None,
    scatter: bool = False,
    tlb: bool = True,
    scale: str = "scaled",
    jobs: int | None = None,
    progress: bool | None = None,
    dry_run: bool = False,
) -> pandas.DataFrame:
    """Make every replay of a grid, once.

    Parameters
    ----------
    traces, policies, fast
        As for `compare`, but for classes: of policies in Python, those that a module defines, ``module:Class:key=value``,
        which the workers have to find as well. Files have to be where they are named on every worker, with the same contents,
        or be named by addresses, or be sent (`scatter`).
    machines
        Presets or TOML files, with parameters; of files, those that the workers find.
    seeds
        So many, from 1 upwards, or these.
    results
        Folder of a Parquet dataset, by trace, that holds a file for each replay by a digest of all that determines it.
        What is there is not made again, so that a sweep that was interrupted goes on. None: nothing is kept.
    client, scheduler
        A client of Dask, or the address of its scheduler, ``tcp://...``. None: the cores of this machine.
    scatter
        Whether trace files are sent to the workers of a cluster, each once to a worker that needs it. They have to fit into its
        memory.
    jobs
        Replays at the same time on this machine; None for one on each core.
    tlb, scale, progress
        As for `compare`.
    dry_run
        Whether nothing is made: replays that are not in `results` have no numbers then.

    Returns
    -------
    pandas.DataFrame
        A row for each trace, machine, size, policy and seed, in this order: what was asked, every number of the run with
        its unit in the name, and ``error``, which is empty where there was none. The same wherever it was made. A run's
        ``slowdown`` is over the least time that any policy's takes with all memory fast, of the same trace, machine, size
        and seed; ``slowdown_vs_all_fast`` is over its own.

    Raises
    ------
    UsageError
        For a policy or machine that is not known, and where workers have another version.
    FrostlineError, OSError
        For a trace that is not there. What goes wrong with a single replay is in its row.
    """
    import pandas

    names = [traces] if isinstance(traces, Trace | str | os.PathLike) else traces
    sizes = [fast] if isinstance(fast, str) else list(fast)
    several = [machines] if isinstance(machines, Machine | str) else machines
    numbers = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    rest = model("", "", 1, tlb, scale, 1)
    tasks = tasks_of(
        [trace.source if isinstance(trace, Trace) else os.fspath(trace) for trace in names],
        _expanded([policies] if isinstance(policies, Policy | str) else policies),
        sizes,
        [str(machine) for machine in several],
        numbers,
        rest,
    )
    kept = Results(results)
    rows = {task.key: row for task in tasks if (row := kept.find(task)) is not None}
    missing = sorted({task.key: task for task in tasks if task.key not in rows}.values(), key=lambda task: -task.length)
    if dry_run:
        rows |= {task.key: row_of(task, None, None) for task in missing}
        missing = []
    owned = None
    if client is None and scheduler is not None:
        from distributed import Client

        client = owned = Client(scheduler)
    try:
        if client is None:
            made = _on_cores(missing, jobs)
        else:
            from ._cluster import on_cluster

            made = on_cluster(missing, client, scatter)
        with closing(made), counted("replays", len(missing), progress) as bar:
            for row in made:
                kept.keep(row)
                rows[row["key"]] = row
                bar()
    finally:
        if owned is not None:
            owned.close()
    frame = pandas.DataFrame([rows[task.key] for task in tasks], columns=list(SCHEMA))
    frame = frame.astype(SCHEMA).drop(columns="key")
    frame.insert(list(frame).index("slowdown_vs_all_fast"), "slowdown", _slowdowns(frame))
    return frame


def _slowdowns(frame: pandas.DataFrame) -> pandas.Series[float]:
    """Times of all runs over the least that one of each group would take with all memory fast."""
    all_fast = frame["modelled_seconds"] / frame["slowdown_vs_all_fast"]
    group = [frame[name] for name in ("trace", "machine", "fast", "seed")]
    return frame["modelled_seconds"] / all_fast.groupby(group).transform("min")
