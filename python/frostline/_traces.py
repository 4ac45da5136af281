"""Traces of programs."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import _native
from ._progress import shown
from ._remote import local
from ._units import html_table, in_bytes

if TYPE_CHECKING:
    import pyarrow

SYNTH_PREFIX = "synth:"


class Events:
    """What happened around the accesses of a trace, a stream for whatever reads Arrow.

    Columns: ``record`` (uint64, accesses before, to a block of them), ``clock`` (uint64), ``kind`` (``map``, ``file_read``, ``op_begin``
    and so on), and where an event has them ``process``, ``stream``, ``file`` (uint32, numbers in the trace), ``start`` and ``len_bytes``
    (uint64; address or offset in bytes) and ``text`` (path or command line).
    """

    def __init__(self, native: _native.Trace) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.events(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """All of them as a table."""
        import pyarrow

        return pyarrow.table(self)

    def __repr__(self) -> str:
        return f"<Events of {self._native.name}>"


class Trace:
    """Accesses of a program that reached memory, with what happened around them.

    It can be read any number of times, and is not held in memory. Whatever reads Arrow reads its accesses as a stream
    of record batches: `pyarrow.table(trace)`, `polars.DataFrame(trace)`, DuckDB. Columns: ``page`` (uint32, dense page id, one for
    4 KiB), ``kind`` (uint8: 0 load, 1 store, 2 fetch, 3 write-back), ``stream`` (uint32, thread), ``clock`` (uint64, in units of
    ``header["clock"]``).

    Parameters
    ----------
    name
        A file that ``frostline record`` wrote, or a generator, ``synth:NAME:key=value...``, or an address such as
        ``s3://bucket/program.flt``, of which a copy is kept in the user's cache (needs fsspec).

    Attributes
    ----------
    source
        What it was named.

    Raises
    ------
    FrostlineError
        Where there is no such file, or it is no trace.
    UsageError
        Where there is no such generator.
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self.source = os.fspath(name)
        self._native = _native.Trace(local(self.source))

    @property
    def name(self) -> str:
        """File or generator. Of an address, the copy."""
        return self._native.name

    @cached_property
    def header(self) -> dict[str, Any]:
        """What the trace says about itself."""
        header: dict[str, Any] = json.loads(self._native.header())
        return header

    def info(self, *, progress: bool | None = None) -> dict[str, Any]:
        """Count what it holds, by a pass over all of it.

        Parameters
        ----------
        progress
            Whether a bar is shown; None: where tqdm is installed and somebody looks at it.

        Returns
        -------
        dict
            Among others ``records``, ``pages_touched``, ``footprint_bytes``, ``threads``, ``events``.
        """
        with shown(progress) as told:
            info: dict[str, Any] = json.loads(self._native.info(told))
        return info

    def profile(
        self, *, skip: int | None = None, records: int | None = None, progress: bool | None = None
    ) -> dict[str, Any]:
        """Count how much memory serves how many of its accesses, for memory that keeps what was used last.

        Parameters
        ----------
        skip
            So many accesses at the start are left out; None: what a generator does first, of a file nothing.
        records
            So many accesses are looked at, and no more.
        progress
            As for `info`.

        Returns
        -------
        dict
            Among others ``memory`` (for shares of the accesses, the smallest memory in bytes), ``popularity`` and ``miss_curve`` (for
            shares of the pages, the share of the accesses that miss).
        """
        with shown(progress) as told:
            profile: dict[str, Any] = json.loads(self._native.profile(skip, records, told))
        return profile

    def events(self) -> Events:
        """What happened around its accesses: processes, mappings, files, operations. Reading them passes over all of it."""
        return Events(self._native)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        kind = "synth" if self.source.startswith(SYNTH_PREFIX) else "open"
        name = self.source.removeprefix(SYNTH_PREFIX)
        return f"frostline.{kind}({name!r})"

    def _repr_html_(self) -> str:
        header = self.header
        rows = [["trace", self.source], ["program", str(header["name"])], ["clock", str(header["clock"])]]
        if os.path.exists(self.name):
            rows.append(["file", in_bytes(os.path.getsize(self.name))])
        if header.get("expected_records"):
            rows.append(["records", f"{header['expected_records']:,}"])
        return html_table(["", ""], rows)


def open(path: str | os.PathLike[str]) -> Trace:
    """Open a trace file.

    Parameters
    ----------
    path
        A file that ``frostline record`` or ``frostline trace import`` wrote, or its address.

    Returns
    -------
    Trace
    """
    name = os.fspath(path)
    # Whatever a file is called, it is a file.
    return Trace(os.path.join(".", name) if name.startswith(SYNTH_PREFIX) else name)


def synth(description: str) -> Trace:
    """A trace that is generated as it is read.

    Parameters
    ----------
    description
        Generator with parameters, such as ``zipf:size=1GiB:accesses=20M``; ``frostline list generators`` lists them.

    Returns
    -------
    Trace
    """
    return Trace(SYNTH_PREFIX + description.removeprefix(SYNTH_PREFIX))
