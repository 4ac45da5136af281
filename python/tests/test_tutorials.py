"""Tutorials do what they say."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

TUTORIALS = sorted((Path(__file__).parents[1] / "tutorials").glob("*.ipynb"))


def said(cell: Any) -> str:
    """What a cell has printed, and what its last line is."""
    texts = []
    for output in cell.get("outputs", []):
        assert output["output_type"] != "error", output
        if output.get("name") == "stdout":
            texts.append(output["text"])
        elif "image/png" not in output.get("data", {}):
            texts.append(output.get("data", {}).get("text/plain", ""))
    return "".join(texts)


def test_there_are_tutorials() -> None:
    assert len(TUTORIALS) >= 3


@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_it_says_what_is_kept(path: Path) -> None:
    kept: Any = nbformat.reads(path.read_text(), as_version=4)  # type: ignore[no-untyped-call]
    fresh = copy.deepcopy(kept)
    nbclient.NotebookClient(fresh, timeout=600, kernel_name="python3").execute()
    told = [(said(before), said(after)) for before, after in zip(kept.cells, fresh.cells, strict=True)]
    assert any(before for before, _ in told), "no outputs are kept: scripts/python tutorials"
    for before, after in told:
        assert before == after, "it says something else: scripts/python tutorials"
    images = [output for cell in kept.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    assert images or path.stem == "a_night_of_figures", "no chart is kept"
