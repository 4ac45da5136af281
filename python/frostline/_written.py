"""Traces of what somebody has in arrays, and of programs that are recorded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._traces import Trace

if TYPE_CHECKING:
    import numpy
    import numpy.typing

_ROWS = 1 << 20


def _column(name: str, values: Any, kind: str) -> numpy.typing.NDArray[Any]:
    """Values of a column, of a type that loses none of them.

    Raises
    ------
    TypeError
        For what is no column of whole numbers, or of truths.
    ValueError
        For numbers that do not fit.
    """
    import numpy

    column = numpy.asarray(values)
    if column.ndim != 1:
        raise TypeError(f"{name} has {column.ndim} dimensions, not one")
    if column.size == 0:
        return column.astype(kind)
    if column.dtype.kind not in "biu":
        raise TypeError(f"{name} is of {column.dtype}, not of whole numbers")
    most = numpy.iinfo(kind).max
    if int(column.min()) < 0 or int(column.max()) > most:
        raise ValueError(f"{name} has numbers beyond 0 to {most}")
    return column.astype(kind, copy=False)


def write(
    path: str | os.PathLike[str],
    times: Any,
    addresses: Any,
    writes: Any = None,
    threads: Any = None,
    *,
    clock: str = "nanoseconds",
    name: str | None = None,
) -> Trace:
    """Write a trace of accesses of one process.

    Columns are whatever NumPy takes: arrays, columns of pandas, Polars and Arrow. Each has a value for each access.

    Parameters
    ----------
    path
        File to write; an existing one is overwritten.
    times
        Whole numbers, not decreasing, in units of `clock`.
    addresses
        Virtual addresses in bytes.
    writes
        Whether an access is a store; None: all are loads.
    threads
        Numbers of threads, 0 to 2**32 - 1; None: there is one.
    clock
        ``nanoseconds`` of real time, or ``instructions``.
    name
        What the trace calls its program; None: the name of the file.

    Returns
    -------
    Trace

    Raises
    ------
    TypeError
        For a column that is no column of whole numbers.
    ValueError
        For numbers that do not fit, times that decrease, and columns of different lengths. There is no file then.
    """
    import numpy

    columns = [_column("times", times, "uint64"), _column("addresses", addresses, "uint64")]
    rows = len(columns[0])
    columns.append(numpy.zeros(rows, "uint8") if writes is None else _column("writes", writes, "uint8"))
    columns.append(numpy.zeros(rows, "uint32") if threads is None else _column("threads", threads, "uint32"))
    if len({len(column) for column in columns}) != 1:
        lengths = [len(column) for column in columns]
        raise _native.UsageError(f"columns of different lengths: {lengths}")
    target = Path(path)
    writer = _native.Writer(target, name or target.stem, clock)
    try:
        for start in range(0, rows, _ROWS):
            writer.append(*(column[start : start + _ROWS].tobytes() for column in columns))
        writer.finish()
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return Trace(target)


def program() -> Path:
    """The program ``frostline`` that came with this package, or else the one that the system finds.

    Raises
    ------
    FrostlineError
        Where there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "frostline"
    if beside.exists():
        return beside
    found = shutil.which("frostline")
    if found is None:
        raise _native.FrostlineError("there is no program frostline\nhint: install a wheel that has it")
    return Path(found)


def record(
    command: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str], *, options: Sequence[str] = ()
) -> Trace:
    """Run a program and record its accesses, by ``frostline record``, which needs Valgrind and a C compiler.

    Parameters
    ----------
    command
        The program and its arguments.
    output
        File to write.
    options
        Further options of ``frostline record``, such as ``["--from", "qemu"]``.

    Returns
    -------
    Trace

    Raises
    ------
    FrostlineError
        Where it cannot be recorded.
    """
    words = [program(), "record", "-o", os.fspath(output), *options, "--", *command]
    done = subprocess.run([os.fspath(word) for word in words], stderr=subprocess.PIPE, text=True, check=False)
    # How the program itself has ended is its own.
    if not Path(output).exists():
        raise _native.FrostlineError(done.stderr.strip() or f"frostline record ended with {done.returncode}")
    if done.stderr:
        print(done.stderr, end="", file=sys.stderr)
    return Trace(output)
