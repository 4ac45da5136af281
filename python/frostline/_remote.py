"""Traces that are elsewhere: addresses that fsspec reads, and contents that were sent."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from . import _native


def is_remote(name: str) -> bool:
    """Whether it is an address, ``s3://bucket/program.flt``, and no path."""
    return "://" in name


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "frostline" / "traces"


@contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears at `path` as a whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            yield file
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def local(name: str) -> str:
    """Path of a trace: what is elsewhere is copied into the user's cache, once as long as it stays the same there.

    Raises
    ------
    FrostlineError
        Where it cannot be read, or fsspec is not installed.
    """
    if not is_remote(name):
        return name
    try:
        import fsspec
    except ImportError as error:
        raise _native.FrostlineError(f"{name}: fsspec is not installed\nhint: pip install fsspec, and what it needs") from error
    try:
        files, path = fsspec.core.url_to_fs(name)
        # Whatever tells of the same address that it has changed: size and time, or a tag of the store.
        state = f"{name}\0{files.ukey(path)}"
        copy = _folder() / f"{hashlib.sha256(state.encode()).hexdigest()}.flt"
        if not copy.exists():
            with files.open(path, "rb") as source, _written(copy) as target:
                while piece := source.read(1 << 20):
                    target.write(piece)
    except (OSError, ValueError, ImportError) as error:
        raise _native.FrostlineError(f"{name}: {error}\nhint: check the address, and who may read it") from error
    return str(copy)


def held(digest: str, content: bytes) -> str:
    """Path of a trace that was sent, by its digest."""
    copy = _folder() / f"{digest}.flt"
    if not copy.exists():
        with _written(copy) as target:
            target.write(content)
    return str(copy)
