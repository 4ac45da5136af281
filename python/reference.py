"""Reference of the package for ``docs/reference/python.md``, from its docstrings.

Usage: ``python reference.py``, which prints it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import frostline

HEAD = """\
# Python

The package `frostline`, from its own docstrings (`scripts/python reference`). The guide is [Python](../guide/python.md).
"""


def _code(text: str) -> str:
    """Markdown of running text: double backquotes are code, single ones name parts of the package."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Headings of NumPy's style with their lines; what comes first has none."""
    heading, lines = "", list[str]()
    rest = inspect.cleandoc(docstring).splitlines()
    for index, line in enumerate(rest):
        if index + 1 < len(rest) and line and re.fullmatch("-{3,}", rest[index + 1]):
            yield heading, lines
            heading, lines = line, []
        elif not re.fullmatch("-{3,}", line):
            lines.append(line)
    yield heading, lines


def _entries(lines: list[str]) -> Iterator[str]:
    """A line for each entry, its text behind its name."""
    name, text = "", list[str]()
    for line in [*lines, "end"]:
        if line.startswith(" "):
            text.append(line.strip())
        elif line:
            if name:
                yield f"- `{name}`: {_code(' '.join(text))}" if text else f"- `{name}`"
            name, text = line, []


def _described(docstring: str | None) -> Iterator[str]:
    for heading, lines in _sections(docstring or ""):
        if not heading:
            yield _code("\n".join(lines)).strip()
        elif any(lines):
            yield f"**{heading}**"
            yield "\n".join(_entries(lines))


def _signature(item: object) -> str:
    try:
        signature = inspect.signature(item)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=parameters)).replace("'", "")


def _members(kind: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(kind).items():
        if not name.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
            yield name, member


def _item(name: str, item: object) -> Iterator[str]:
    yield f"## `{name}`"
    if inspect.isfunction(item):
        yield f"```python\n{name}{_signature(item)}\n```"
    if not (inspect.isfunction(item) or inspect.isclass(item)):
        yield f"`{item!r}`"
        return
    yield from _described(item.__doc__)
    if inspect.isclass(item):
        for member_name, member in _members(item):
            is_function = inspect.isfunction(member)
            signature = _signature(member) if is_function else ""
            yield f"### `{name}.{member_name}{signature}`"
            yield from _described(member.__doc__)


def reference() -> str:
    """All of it, as Markdown."""
    parts = [HEAD.strip()]
    for name in sorted(frostline.__all__, key=str.lower):
        if name != "__version__":
            parts.extend(_item(name, getattr(frostline, name)))
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
