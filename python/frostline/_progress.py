"""Progress of work that takes more than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int | None], object]
"""Is told what is done, how much of it so far, and of how much."""

PATIENCE_SECONDS = 1.0
"""Work that takes no longer shows nothing."""


class _Bar:
    """A bar for each pass, once the work has taken a while."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._began = time.monotonic()
        self._what: str | None = None
        self._bar: Any = None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if time.monotonic() - self._began < PATIENCE_SECONDS:
            return
        if what != self._what:
            self.close()
            self._what = what
            self._bar = self._make(desc=what, total=total, unit="access", unit_scale=True, leave=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _tqdm(wanted: bool | None) -> Any:
    """What makes bars, where one is to be shown: where None is wanted, where somebody looks at it."""
    if wanted is False or (wanted is None and not sys.stderr.isatty() and "ipykernel" not in sys.modules):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if wanted:
            raise
        return None
    return tqdm


@contextmanager
def counted(what: str, total: int, wanted: bool | None) -> Iterator[Callable[[], object]]:
    """A call for each thing that is done."""
    make = _tqdm(wanted)
    if make is None:
        yield lambda: None
        return
    with make(desc=what, total=total, delay=PATIENCE_SECONDS) as bar:
        yield bar.update


@contextmanager
def shown(wanted: bool | None) -> Iterator[Progress | None]:
    """What is to be told of the progress, for as long as the work takes.

    Parameters
    ----------
    wanted
        Whether a bar is shown. None: where tqdm is installed and somebody looks at it.
    """
    make = _tqdm(wanted)
    if make is None:
        yield None
        return
    bar = _Bar(make)
    try:
        yield bar
    finally:
        bar.close()
