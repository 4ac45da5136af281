"""Replays on the workers of a cluster of Dask."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Client, Worker, WorkerPlugin, as_completed

from . import _native
from ._remote import local
from ._results import Rows, row_of
from ._task import LEAST_BYTES, Task, perform, version_here
from ._traces import SYNTH_PREFIX

# As often as a worker may die under a replay.
_RETRIES = 3
# Parameters of mallopt() of the GNU C library, their values where nothing is set, and the greatest that is allowed (bytes).
_M_TRIM_THRESHOLD, _TRIM_BYTES = -1, 128 << 10
_M_MMAP_THRESHOLD, _MMAP_BYTES = -3, 128 << 10
_GREATEST_MMAP_BYTES = 32 << 20


def _keep_freed(trim_bytes: int, mmap_bytes: int) -> None:
    # Other C libraries have no such functions.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_TRIM_THRESHOLD, trim_bytes)
        libc.mallopt(_M_MMAP_THRESHOLD, mmap_bytes)
        libc.malloc_trim(0)


class _KeptMemory(WorkerPlugin):
    """Memory that one replay frees is kept for the next, while a sweep lasts.

    Dask sets MALLOC_TRIM_THRESHOLD_ for its workers, so that each replay would fault in all of its memory again: 5 % of the
    time of short ones.
    """

    name = "frostline-kept-memory"

    def setup(self, worker: Worker) -> None:
        _keep_freed(LEAST_BYTES, _GREATEST_MMAP_BYTES)

    def teardown(self, worker: Worker) -> None:
        _keep_freed(int(os.environ.get("MALLOC_TRIM_THRESHOLD_", _TRIM_BYTES)), _MMAP_BYTES)


@contextmanager
def _memory_kept(client: Client) -> Iterator[None]:
    # A worker that dies while it is told keeps nothing, and fails nothing.
    with suppress(OSError):
        client.register_plugin(_KeptMemory())
    try:
        yield
    finally:
        with suppress(OSError):
            client.unregister_worker_plugin(_KeptMemory.name)


def _sent(tasks: list[Task], client: Client) -> dict[str, Any]:
    """Contents of the traces that are files, by digest, on their way to workers that ask for them."""
    files = {task.digest: task.request["traces"][0] for task in tasks}
    named = {digest: path for digest, path in files.items() if not path.startswith(SYNTH_PREFIX)}
    return {digest: client.scatter(Path(local(path)).read_bytes()) for digest, path in named.items()}


def on_cluster(tasks: list[Task], client: Client, scatter: bool) -> Rows:
    """Rows of replays that are made on the workers of a cluster, those first that come first."""
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
    with _memory_kept(client):
        try:
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
            for future in as_completed(futures):
                error = future.exception()
                # A run on which workers die again and again is a row as well.
                if error is not None:
                    yield row_of(task_of[future.key], None, f"{type(error).__name__}: {error}")
                else:
                    yield future.result()
        finally:
            client.cancel(futures)
