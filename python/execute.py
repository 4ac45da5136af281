"""Outputs of the tutorials, made anew.

Usage: ``python execute.py``. What goes to standard error, such as progress, is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat


def execute(path: Path) -> None:
    notebook: Any = nbformat.reads(path.read_text(), as_version=4)  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if output.get("name") != "stderr"]
    path.write_text(nbformat.writes(notebook) + "\n")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    for tutorial in sorted((Path(__file__).parent / "tutorials").glob("*.ipynb")):
        execute(tutorial)
