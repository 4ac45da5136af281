"""Examples of the README and of the tutorials: their types, and what the first one prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1]
README = (PYTHON / "README.md").read_text()
TUTORIALS = sorted((PYTHON / "tutorials").glob("*.ipynb"))


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def code_of(tutorial: Path) -> str:
    cells = json.loads(tutorial.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("example", [README, *TUTORIALS], ids=["README", *(path.stem for path in TUTORIALS)])
def test_examples_are_typed(example: str | Path, tmp_path: Path) -> None:
    codes = blocks(example) if isinstance(example, str) else [code_of(example)]
    assert codes and all(codes)
    for number, code in enumerate(codes):
        file = tmp_path / f"example{number}.py"
        file.write_text(code)
        words = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(PYTHON.parent / "pyproject.toml"), str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_first_example_prints_a_table(tmp_path: Path) -> None:
    example = blocks(README)[0]
    assert len(example.strip().splitlines()) <= 6
    done = subprocess.run([sys.executable, "-P", "-c", example], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert len(done.stdout.splitlines()) > 3, done.stdout
