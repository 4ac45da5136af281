"""The reference in the documents is that of the package."""

from __future__ import annotations

import runpy
from pathlib import Path

PYTHON = Path(__file__).parents[1]


def test_it_is_up_to_date() -> None:
    reference = runpy.run_path(str(PYTHON / "reference.py"))["reference"]()
    kept = (PYTHON.parent / "docs" / "reference" / "python.md").read_text()
    assert reference == kept, "scripts/python reference writes it"
    assert "## `advise`" in reference and "- `exact`: " in reference
