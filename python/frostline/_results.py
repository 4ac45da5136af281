"""Rows of a sweep, and the dataset that keeps them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._task import Task

TEXT = "string"
COUNT = "Int64"
NUMBER = "Float64"

# Rows of replays, as they are made.
Rows = Generator[dict[str, Any], None, None]

SCHEMA = {
    "key": TEXT,
    "trace": TEXT,
    "machine": TEXT,
    "fast": TEXT,
    "policy": TEXT,
    "seed": COUNT,
    "scale": NUMBER,
    "footprint_bytes": COUNT,
    "fast_bytes": COUNT,
    "fast_bytes_mean": NUMBER,
    "accesses": COUNT,
    "fast_hit_ratio": NUMBER,
    "slowdown_vs_all_fast": NUMBER,
    "speedup_vs_all_slow": NUMBER,
    "saving_ns": NUMBER,
    "promoted_bytes": COUNT,
    "demoted_bytes": COUNT,
    "splits": COUNT,
    "collapses": COUNT,
    "page_checks": COUNT,
    "hint_faults": COUNT,
    "good_put": NUMBER,
    "fast_pages_accessed_mean": NUMBER,
    "hotness_fragmentation": NUMBER,
    "sampler_cpu_share": NUMBER,
    "tiering_cpu_seconds": NUMBER,
    "metadata_bytes": COUNT,
    "program_rss_bytes": COUNT,
    "modelled_seconds": NUMBER,
    "error": TEXT,
}
"""Columns: what was asked, and the numbers of a run that do not depend on the computer that made it."""


def row_of(task: Task, report: dict[str, Any] | None, error: str | None) -> dict[str, Any]:
    """Row of a replay, or of why there is none."""
    request = task.request
    row: dict[str, Any] = {name: (report or {}).get(name) for name in SCHEMA}
    asked = {"machine": request["machine"], "fast": request["fast"][0], "policy": request["policies"]}
    # The seed has a column of its own, and names that held it would be others to whoever groups by them.
    return {**row, **asked, "key": task.key, "trace": task.trace, "seed": request["seed"], "error": error or ""}


class Results:
    """Rows in a folder: ``TRACE/KEY.parquet``, or nowhere.

    A file is there as a whole or not at all, whoever is killed when.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = None if folder is None else Path(folder)

    def _path(self, trace: str, key: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / re.sub(r"[^A-Za-z0-9._-]+", "-", trace)[-80:] / f"{key}.parquet"

    def find(self, task: Task) -> dict[str, Any] | None:
        """The row of a replay that was made. One that failed is made again."""
        path = self._path(task.trace, task.key)
        if path is None or not path.exists():
            return None
        from pyarrow import parquet

        (row,) = parquet.ParquetFile(path).read().to_pylist()
        return dict(row) if row["error"] == "" else None

    def keep(self, row: dict[str, Any]) -> None:
        """Writes a row."""
        path = self._path(row["trace"], row["key"])
        if path is None:
            return
        import pyarrow
        from pyarrow import parquet

        types = {TEXT: pyarrow.string(), COUNT: pyarrow.int64(), NUMBER: pyarrow.float64()}
        schema = pyarrow.schema([(name, types[kind]) for name, kind in SCHEMA.items()])
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            parquet.write_table(pyarrow.Table.from_pylist([row], schema), file)
        os.replace(file.name, path)
