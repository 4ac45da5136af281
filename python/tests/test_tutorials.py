"""Tutorials do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib.pyplot
import pytest

TUTORIALS = sorted((Path(__file__).parents[1] / "tutorials").glob("*.py"))


def test_there_are_tutorials() -> None:
    assert len(TUTORIALS) >= 3


@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_it_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib.use("Agg")
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert "first-touch" in said or "replays" in said, said
    matplotlib.pyplot.close("all")
