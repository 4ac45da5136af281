"""Site of the documentation: the folder `docs` as a book for mdBook, in the order of its index, with links checked in what it makes.

Usage: book.py OUTPUT, with `mdbook` in PATH. The site is in OUTPUT/html.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DOCS = Path("docs")
# Pages of the project that stand beside the folder.
PROJECT = ("CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md")
SETTINGS = """\
[book]
title = "Frostline"
description = "Memory tiering for running programs"
language = "en"

[output.html]
smart-punctuation = false
"""
LINK = re.compile(r"(?<!\\)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


class Fault(Exception):
    """What keeps the site from being made."""


def title(path: Path) -> str:
    """Its first heading."""
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    raise Fault(f"{path} has no title")


def sections(index: Path) -> Iterator[tuple[str, list[Path]]]:
    """Headings of the index, and the pages that are named below each."""
    for part in re.split(r"(?m)^## ", index.read_text())[1:]:
        name, _, text = part.partition("\n")
        targets = [target.split("#")[0] for _, target in LINK.findall(text)]
        if pages := [index.parent / target for target in targets if target.endswith(".md")]:
            yield name.strip(), pages


class Book:
    """Sources of the book, as they are put together."""

    def __init__(self, folder: Path) -> None:
        self.sources = folder / "src"
        # By its path in the repository, where a file is in the book.
        self.placed: dict[Path, Path] = {}
        self.summary = ["# Frostline", ""]

    def place(self, path: Path) -> Path:
        """Where a file of the repository is in the book."""
        inside = path.relative_to(DOCS) if path.is_relative_to(DOCS) else Path("repository", path)
        if inside.name == "README.md":
            inside = inside.with_name("index.md")
        return self.placed.setdefault(path, inside)

    def chapter(self, path: Path, depth: int = 0) -> None:
        self.summary.append(f"{'  ' * depth}- [{title(path)}]({self.place(path)})")

    def write(self) -> None:
        """Everything that was placed, and what it links to, file by file."""
        done: set[Path] = set()
        while todo := [path for path in self.placed if path not in done]:
            for path in todo:
                done.add(path)
                to = self.sources / self.placed[path]
                to.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == ".md":
                    to.write_text(self.linked(path))
                else:
                    shutil.copy(path, to)
        (self.sources / "SUMMARY.md").write_text("\n".join(self.summary) + "\n")

    def linked(self, page: Path) -> str:
        """Its text; links to files go to where these are in the book, and those to folders are plain text."""
        # What is between marks of code is at odd places.
        parts = re.split(r"(?ms)(^ *```.*?^ *```$)", page.read_text())
        parts[::2] = [LINK.sub(lambda link: self.link(page, link), part) for part in parts[::2]]
        return "".join(parts)

    def link(self, page: Path, link: re.Match[str]) -> str:
        text, target = link.groups()
        path, mark, part = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return link[0]
        named = Path(*Path(page.parent, path).resolve().relative_to(Path.cwd()).parts)
        if named.is_dir():
            index = named / "README.md"
            if index not in self.placed:
                return text
            named = index
        if named.suffix == ".md" and named not in self.placed:
            self.chapter(named)
        return f"[{text}]({os.path.relpath(self.place(named), self.placed[page].parent)}{mark}{part})"


class Links(HTMLParser):
    """Places that a page goes to, and places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            if name in ("href", "src"):
                self.targets.add(value)


def check(site: Path) -> int:
    """Every link of the site leads to a file and a place of it; gives how many there are."""
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    count, wrong = 0, []
    for path, page in pages.items():
        # Its links are relative to the root, wherever it is shown.
        if path.name == "404.html":
            continue
        for target in sorted(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = pages.get(to)
            place = unquote(parts.fragment)
            if not to.exists() or (place and there is not None and place not in there.ids):
                wrong.append(f"{path.relative_to(site)}: {target}")
    if not count:
        raise Fault(f"{site} has no page with a link")
    if wrong:
        raise Fault("links that lead nowhere:\n" + "\n".join(wrong))
    return count


def main(output: str) -> None:
    folder = Path(output)
    shutil.rmtree(folder, ignore_errors=True)
    book = Book(folder)
    for page in (Path("README.md"), DOCS / "README.md"):
        book.summary.append(f"[{title(page)}]({book.place(page)})")
    for name, pages in sections(DOCS / "README.md"):
        book.summary += ["", f"# {name}", ""]
        for page in pages:
            book.chapter(page)
    book.summary += ["", "# Decisions", ""]
    decisions = DOCS / "adr/README.md"
    book.chapter(decisions)
    for page in sorted(path for path in DOCS.glob("adr/*.md") if path != decisions):
        book.chapter(page, 1)
    left = set(DOCS.rglob("*.md")) - book.placed.keys()
    if left:
        raise Fault(f"the index names them nowhere: {', '.join(map(str, sorted(left)))}")
    book.summary += ["", "# Project", ""]
    for page in PROJECT:
        book.chapter(Path(page))
    for image in DOCS.glob("images/*"):
        book.place(image)
    book.write()
    (folder / "book.toml").write_text(SETTINGS)
    command = ["mdbook", "build", "--dest-dir", str((folder / "html").resolve()), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or re.search(r"\b(WARN|ERROR)\b", done.stderr):
        raise Fault(f"mdbook: {done.stderr}")
    count = check((folder / "html").resolve())
    print(f"book: {len(book.placed)} files, {count} links, all lead somewhere: {folder}/html/index.html")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Fault as fault:
        sys.exit(f"book: FAILED: {fault}")
