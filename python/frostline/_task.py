"""Replays of a sweep: what determines each, and how one is made."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import _native
from ._lists import machine
from ._named import code_of, named
from ._policy import adapted
from ._remote import held, local
from ._results import row_of
from ._traces import SYNTH_PREFIX, Trace

_PIECE = 1 << 20
# Memory that every replay is taken to need, whatever its pages (bytes).
LEAST_BYTES = 64 << 20
_BYTES_PER_PAGE = 96
_BYTES_PER_RECORD = 4.0


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
    memory = LEAST_BYTES + pages * _BYTES_PER_PAGE
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
