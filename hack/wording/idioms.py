"""Idioms that the style guide forbids, wherever the repository has them.

The list is the column "not" of the table in `.github/CONTRIBUTING.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

STYLE_GUIDE = Path(".github/CONTRIBUTING.md")
_TABLE = re.compile(r"^\| write \| not \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)
_BETWEEN_WORDS = r"""[\s"'#]+(?:f["'])?"""
"""Also across lines of a comment and parts of a string."""
_READ = {".py", ".md", ".yaml", ".toml", ".sh", ""}
"""Suffixes of files that people read and write."""
_PLACES = ("api", "controller", "config", "hack", "tests", ".github")
_NOT_READ = ("tests/data/", "config/crd/")
"""Inputs of tests, and what is generated from strings that are read elsewhere."""
_RELEASE = re.compile(r"^## \[\d", re.MULTILINE)


def read_idioms(guide: str) -> list[str]:
    """Return the forbidden idioms of the style guide.

    Raises: ValueError if the guide has no table of them.
    """
    table = _TABLE.search(guide)
    if table is None:
        raise ValueError(f'{STYLE_GUIDE}: no table "write | not"')
    rows = (line.strip("|\n ").split("|") for line in table[1].splitlines())
    return [idiom.strip() for _, forbidden in rows for idiom in forbidden.split(",")]


def find_idioms(text: str, idioms: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield line number and idiom for each use of an idiom, also where it is broken over two lines."""
    words = "|".join(_BETWEEN_WORDS.join(map(re.escape, idiom.split())) for idiom in idioms)
    for use in re.finditer(rf"\b(?:{words})\b", text, re.IGNORECASE):
        yield text.count("\n", 0, use.start()) + 1, " ".join(re.split(_BETWEEN_WORDS, use[0]))


def read_prose(root: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of the repository that is to be written in good English."""
    files = [*root.iterdir(), *(file for place in _PLACES for file in (root / place).rglob("*"))]
    for file in sorted(files):
        path = file.relative_to(root).as_posix()
        if file.is_file() and file.suffix in _READ and not path.startswith(_NOT_READ) and not file.name.startswith("."):
            yield path, _written_by_us(path, file)


def _written_by_us(path: str, file: Path) -> str:
    """Return the text of a file without the table of idioms, and without released parts of the changelog."""
    text = file.read_text("utf-8")
    if path == "CHANGELOG.md":
        return _RELEASE.split(text)[0]
    return _TABLE.sub("", text) if path == str(STYLE_GUIDE) else text
