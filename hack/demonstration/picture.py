"""The picture of README.md: what hack/demo printed, as a terminal, as SVG for light and dark backgrounds.

`hack/demo > hack/demonstration/demo.txt` records it again, and hack/generate draws it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

TRANSCRIPT = Path(__file__).with_name("demo.txt")
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_PARTS = ("background", "line", "text", "faint", "accent", "good")
THEMES = {
    "light": dict(zip(_PARTS, ("#ffffff", "#d0d7de", "#1f2328", "#59636e", "#0969da", "#1a7f37"), strict=True)),
    "dark": dict(zip(_PARTS, ("#0d1117", "#3d444d", "#e6edf3", "#9198a1", "#4493f8", "#3fb950"), strict=True)),
}
"""Colors by what they are for."""
COLUMNS = 104
SIZE, ADVANCE, LEADING = 13, 7.83, 19
MARGIN, BAR = 20, 36
_SECTION = re.compile(r"^== (.*?)\n(.*?)(?=^== |\Z)", re.DOTALL | re.MULTILINE)
TITLE = "hack/demo: a folder is installed, repaired, upgraded, rolled back, approved and deleted"

STEPS = {
    "A folder becomes a running bundle with one command": r"\$ rukpak (install|tree)|bundled|OBJECT|Bundle|[├└]",
    "A user edits a managed object: the edit is reverted": r".",
    "Changed and installed again: something changes, something is added, something is pruned": (
        r"\$ rukpak install|  (the cluster|Changed|Deleted)|    [-+]|bundledeployment"
    ),
    "A wrong image: rolled back, corrected, and the rollback undone": (
        r"\$ rukpak (rollback|push)|rukpak install|bundledeployment\S* (rolled|rollback)"
    ),
    "A version that wants a new permission: it waits, is looked at, and is approved": (
        r"\$ rukpak (permissions|approve)|Access|  ServiceAccount|bundledeployment\S* revision"
    ),
    "Deleted: only the Job of the hook remains, as with Helm": r"\$ kubectl delete|bundledeployment",
}
"""The headings of the steps that are shown, and a pattern of their lines."""


def picture_files() -> dict[str, str]:
    """Return the text of each picture, by its name."""
    lines = excerpt(TRANSCRIPT.read_text(encoding="utf-8"))
    return {f"demo-{theme}.svg": draw(lines, colors) for theme, colors in THEMES.items()}


def draw(lines: list[str], colors: dict[str, str]) -> str:
    """Return the picture of lines of a terminal: headings (`== `), commands (`$ `) and output."""
    width = round(COLUMNS * ADVANCE) + 2 * MARGIN
    height = BAR + len(lines) * LEADING + MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    frame = f'x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
        f"<title>{escape(TITLE)}</title>",
        f'<rect {frame} fill="{colors["background"]}" stroke="{colors["line"]}"/>',
        *(f'<circle cx="{MARGIN + 6 + 20 * index}" cy="18" r="6" fill="{colors["line"]}"/>' for index in range(3)),
    ]
    for index, line in enumerate(lines):
        parts += _draw_line(line, BAR + (index + 1) * LEADING - 5, colors)
    return "\n".join([*parts, "</svg>", ""])


def _draw_line(line: str, y: int, colors: dict[str, str]) -> Iterator[str]:
    if line.startswith("== "):
        yield _text(MARGIN, y, line.removeprefix("== "), f'{colors["accent"]}" font-weight="600')
    elif line.startswith("$ "):
        yield _text(MARGIN, y, "$", colors["good"])
        yield _text(MARGIN + 2 * ADVANCE, y, line.removeprefix("$ "), colors["text"])
    elif line:
        yield _text(MARGIN, y, line, colors["faint"])


def _text(x: float, y: float, value: str, color: str) -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{SIZE}" fill="{color}"'
    return f'<text {place} xml:space="preserve">{escape(value, quote=False)}</text>'


def excerpt(transcript: str) -> list[str]:
    """Return the lines of a run of hack/demo that the picture shows, each at most COLUMNS wide.

    Raises: ValueError if the demonstration no longer has a step of the picture.
    """
    sections = dict(_SECTION.findall(transcript))
    found: list[str] = []
    for heading, wanted in STEPS.items():
        if heading not in sections:
            raise ValueError(f'hack/demo has no step "{heading}"')
        lines = [line for line in sections[heading].splitlines() if re.match(wanted, line)]
        found += [f"== {heading}", *(_shortened(line) for line in lines), ""]
    return found[:-1]


def _shortened(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
