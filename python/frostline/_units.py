"""Numbers as people read them."""

from __future__ import annotations

from html import escape


def in_bytes(count: float) -> str:
    """Memory with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def in_percent(share: float) -> str:
    """A share in percent, with two digits that tell something."""
    percent = share * 100
    return f"{percent:.1f} %" if abs(percent) < 10 else f"{percent:.0f} %"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Columns, numbers to the right, under their heads."""
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    lines = [heads, *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))).rstrip()
        for line in lines
    )


def html_table(heads: list[str], rows: list[list[str]]) -> str:
    """The same in HTML."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
