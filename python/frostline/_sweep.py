"""Sweeps: many replays, on the cores of this machine or of a cluster, each made once."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._lists import Machine, Policy, machine
from ._model import TraceLike, model
from ._named import code_of, is_named, named
from ._policy import adapted
from ._progress import counted
from ._remote import held, local
from ._results import SCHEMA, Results, row_of
from ._traces import SYNTH_PREFIX, Trace

if TYPE_CHECKING:
    import pandas
    from distributed import Client

Rows = Generator[dict[str, Any], None, None]

_PIECE = 1 << 20
_LEAST_BYTES = 64 << 20
_BYTES_PER_PAGE = 96
_BYTES_PER_RECORD = 4.0
_RETRIES = 3


@dataclass(frozen=True)
class Task:
    """A replay that is to be made.

    Attributes
    ----------
    key
        Digest of everything that determines it.
    trace
        As the user named it.
    digest
        Of the trace's contents, or of its description where it is generated.
    code
        Of the file that the policy stands in, where it is written in Python.
    length
        What it is expected to take, in no unit: who takes longest begins first.
    memory_bytes
        That it is expected to need.
    request
        For the native module.
    """

    key: str
    trace: str
    digest: str
    code: str
    length: float
    memory_bytes: int
    request: Mapping[str, Any]


@lru_cache(maxsize=4096)
def _digest_of_file(path: str, size: int, changed_ns: int) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def digest_of(trace: str) -> str:
    """SHA-256 of a trace file, or of the description of one that is generated."""
    if trace.startswith(SYNTH_PREFIX):
        return hashlib.sha256(trace.encode()).hexdigest()
    status = os.stat(trace)
    return _digest_of_file(os.path.abspath(trace), status.st_size, status.st_mtime_ns)


def _expected_of(trace: str) -> tuple[float, int]:
    header = Trace(trace).header
    pages = header.get("expected_pages") or 1 << 20
    memory = _LEAST_BYTES + pages * _BYTES_PER_PAGE
    if not trace.startswith(SYNTH_PREFIX):
        return float(os.path.getsize(trace)), memory
    return _BYTES_PER_RECORD * float(header.get("expected_records") or 1e7), memory


def tasks_of(
    traces: Iterable[str], policies: Iterable[str], fast: Iterable[str], machines: Iterable[str], seeds: list[int], rest: Mapping[str, Any]
) -> list[Task]:
    """A task for each trace, machine, size, policy and seed, in this order."""
    # Whatever a machine is called, and whichever file it is in: what it is like determines a run.
    described = {name: machine(name) for name in machines}
    tasks = []
    for trace in traces:
        # As compare() has it: with several seeds, each has a generated trace of its own.
        named = {seed: trace if len(seeds) == 1 else _native.with_seed(trace, seed) for seed in seeds}
        # Whoever holds what is elsewhere is asked once.
        here = local(trace)
        digests = {seed: digest_of(name if name.startswith(SYNTH_PREFIX) else here) for seed, name in named.items()}
        length, memory = _expected_of(here)
        for name, model_of in described.items():
            for size in fast:
                for policy in policies:
                    for seed in seeds:
                        request = {
                            "traces": [named[seed]],
                            "fast": [size],
                            "seeds": 1,
                            "bound": False,
                            "series": False,
                            **rest,
                            "policies": policy,
                            "machine": name,
                            "seed": seed,
                            "jobs": 1,
                        }
                        code = code_of(policy)
                        told = {**request, "traces": digests[seed], "machine": model_of.description}
                        if code:
                            told["code"] = code
                        text = json.dumps([_native.__version__, told], sort_keys=True)
                        key = hashlib.sha256(text.encode()).hexdigest()
                        tasks.append(Task(key, trace, digests[seed], code, length, memory, request))
    return tasks


def perform(task: Task, stop: threading.Event | None = None, content: bytes | None = None) -> dict[str, Any]:
    """Make a replay. What goes wrong is in its row.

    Parameters
    ----------
    task
        The replay.
    stop
        Ends it early, by KeyboardInterrupt.
    content
        Of the trace, where it was sent.
    """

    def look(*_: object) -> None:
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt

    (trace,) = task.request["traces"]
    policy = task.request["policies"]
    try:
        path = local(trace) if content is None else held(task.digest, content)
        found = digest_of(path)
        if found != task.digest:
            raise _native.FrostlineError(f"{trace} is another trace here: {found[:12]}, not {task.digest[:12]}")
        if code_of(policy) != task.code:
            raise _native.FrostlineError(f"{policy} is written otherwise here\nhint: have the same modules everywhere")
        classes = {policy: adapted(named(policy))} if task.code else None
        request = {**task.request, "traces": [path]}
        (run,) = json.loads(_native.compare(json.dumps(request), look, classes))
    except Exception as error:
        # Whatever a policy in Python raises, too.
        known = isinstance(error, _native.FrostlineError | _native.UsageError | OSError)
        return row_of(task, None, str(error) if known else f"{type(error).__name__}: {error}")
    return row_of(task, run["report"], None)


def version_here() -> str:
    """Version of the package where this is called."""
    return _native.__version__


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


def _sent(tasks: list[Task], client: Client) -> dict[str, Any]:
    """Contents of the traces that are files, by digest, on their way to workers that ask for them."""
    files = {task.digest: task.request["traces"][0] for task in tasks}
    named = {digest: path for digest, path in files.items() if not path.startswith(SYNTH_PREFIX)}
    return {digest: client.scatter(Path(local(path)).read_bytes()) for digest, path in named.items()}


def _on_cluster(tasks: list[Task], client: Client, scatter: bool) -> Rows:
    from distributed import as_completed

    versions: Any = client.run(version_here)
    for worker, version in versions.items():
        if version != _native.__version__:
            raise _native.UsageError(
                f"worker {worker} has frostline {version}, and this is {_native.__version__}\n"
                "hint: install the same version everywhere"
            )
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    declared = bool(workers) and all("MEMORY" in worker.get("resources", {}) for worker in workers)
    contents = _sent(tasks, client) if scatter else {}
    task_of = {}
    futures = []
    for rank, task in enumerate(tasks):
        future = client.submit(
            perform,
            task,
            content=contents.get(task.digest),
            key=f"frostline-{task.key}",
            priority=-rank,
            retries=_RETRIES,
            resources={"MEMORY": task.memory_bytes} if declared else None,
        )
        task_of[future.key] = task
        futures.append(future)
    try:
        for future in as_completed(futures):
            error = future.exception()
            # A run on which workers die again and again is a row as well.
            if error is not None:
                yield row_of(task_of[future.key], None, f"{type(error).__name__}: {error}")
            else:
                yield future.result()
    finally:
        client.cancel(futures)


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
        its unit in the name, and ``error``, which is empty where there was none. The same wherever it was made.

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
        made = _on_cores(missing, jobs) if client is None else _on_cluster(missing, client, scatter)
        with closing(made), counted("replays", len(missing), progress) as bar:
            for row in made:
                kept.keep(row)
                rows[row["key"]] = row
                bar()
    finally:
        if owned is not None:
            owned.close()
    frame = pandas.DataFrame([rows[task.key] for task in tasks], columns=list(SCHEMA))
    return frame.astype(SCHEMA).drop(columns="key")
