"""What hack/demo printed, as a picture of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hack.pictures.theme import MONOSPACE, Theme, box, picture, text

COLUMNS = 104
SIZE, ADVANCE, LEADING = 13, 7.83, 19
MARGIN, BAR = 20, 36
_DOCUMENT = re.compile(r"^\$ kubectl apply -f - <<'EOF'\n.*?^EOF$", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^== (.*?)\n(.*?)(?=^== |\Z)", re.DOTALL | re.MULTILINE)
TITLE = "hack/demo: a bundle is installed, repaired, upgraded, approved and deleted with kubectl"

STEPS = {
    "Installed with a single kubectl apply": r"\$ kubectl (apply|wait|get bd)|bundledeployment|NAME|demo ",
    "A user edits a managed object: the edit is reverted": r".",
    "Upgraded: something changes, something is added, something is pruned": r"\$ kubectl (patch|wait .*bd)|bundled",
    "Upgraded to a version that wants a new permission: it waits, is looked at, and is approved": (
        r"\$ kubectl rukpak (permissions|approve)|Access|  ServiceAccount|bundledeployment\S* revision"
    ),
    "Deleted: only the Job of the hook remains, as with Helm": r"\$ kubectl delete|bundledeployment",
}
"""The headings of the steps that are shown, and a pattern of their lines."""


def draw(lines: list[str], theme: Theme) -> str:
    """Return the picture of lines of a terminal: headings (`== `), commands (`$ `) and output."""
    width = round(COLUMNS * ADVANCE) + 2 * MARGIN
    height = BAR + len(lines) * LEADING + MARGIN
    return picture(width, height, TITLE, MONOSPACE, _parts(lines, theme, width, height))


def _parts(lines: list[str], theme: Theme, width: int, height: int) -> Iterator[str]:
    yield box((0.5, 0.5), (width - 1, height - 1), theme.background, theme.line)
    for index in range(3):
        yield f'<circle cx="{MARGIN + 6 + 20 * index}" cy="18" r="6" fill="{theme.line}"/>'
    for index, line in enumerate(lines):
        yield from _line(line, BAR + (index + 1) * LEADING - 5, theme)


def _line(line: str, y: int, theme: Theme) -> Iterator[str]:
    if line.startswith("== "):
        yield text(MARGIN, y, line.removeprefix("== "), theme.accent, size=SIZE, bold=True)
    elif line.startswith("$ "):
        yield text(MARGIN, y, "$", theme.good, size=SIZE)
        yield text(MARGIN + 2 * ADVANCE, y, line.removeprefix("$ "), theme.text, size=SIZE)
    elif line:
        yield text(MARGIN, y, line, theme.faint, size=SIZE)


def excerpt(transcript: str) -> list[str]:
    """Return the lines of a run of hack/demo that the picture shows, each at most COLUMNS wide.

    Raises: ValueError if the demonstration no longer has a step of the picture.
    """
    sections = dict(_SECTION.findall(transcript))
    found: list[str] = []
    for heading, wanted in STEPS.items():
        if heading not in sections:
            raise ValueError(f'hack/demo has no step "{heading}"')
        lines = [line for line in _lines(sections[heading]) if re.match(wanted, line)]
        found += [f"== {heading}", *(_shortened(line) for line in lines), ""]
    return found[:-1]


def _lines(section: str) -> list[str]:
    """Return the lines of a section; a command with a document is shown as one with a file."""
    return _DOCUMENT.sub("$ kubectl apply -f demo.yaml", section).splitlines()


def _shortened(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
