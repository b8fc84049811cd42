"""How RukPak works, as a picture: sources on the left, the controller, the cluster on the right."""

from __future__ import annotations

from collections.abc import Iterator

from hack.pictures.theme import SANS, Theme, box, picture, text

WIDTH, HEIGHT = 880, 372
TITLE = "One controller turns the sources of a BundleDeployment into a revision, and keeps the cluster equal to it"
SOURCES = ("OCI images and artifacts", "git repositories", "archives over https")
STEPS = (
    ("resolve", "references to digests, once"),
    ("fetch", "by digest, verified"),
    ("render", "plain, helm, registry-v1"),
    ("plan and apply", "server-side, in order"),
    ("repair and prune", "drift is seen by watches"),
)
CLUSTER = (
    ("BundleDeployment", "spec, status, conditions", 0, 90),
    ("Revision", "rendered objects, in Secrets", 108, 82),
    ("Managed objects", "Deployments, CRDs, roles, …", 208, 90),
)
"""Name, note, and where the box is in its column."""
LEFT, MIDDLE, RIGHT = (20, 200), (300, 260), (640, 220)
"""Position and width of the columns."""
TOP, STEP_HEIGHT = 52, 50


def draw(theme: Theme) -> str:
    """Return the picture."""
    return picture(WIDTH, HEIGHT, TITLE, SANS, _parts(theme))


def _parts(theme: Theme) -> Iterator[str]:
    yield box((0.5, 0.5), (WIDTH - 1, HEIGHT - 1), theme.background, theme.line)
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{theme.faint}"/></marker></defs>'
    )
    yield from _heading(LEFT, "Sources", theme)
    yield from _heading(MIDDLE, "Controller", theme)
    yield from _heading(RIGHT, "Cluster", theme)
    yield from _sources(theme)
    yield from _steps(theme)
    yield from _cluster(theme)


def _heading(column: tuple[int, int], value: str, theme: Theme) -> Iterator[str]:
    x, width = column
    yield text(x + width / 2, 34, value, theme.accent, size=15, anchor="middle", bold=True)


def _sources(theme: Theme) -> Iterator[str]:
    x, width = LEFT
    yield box((x, TOP), (width, 112), theme.surface, theme.line)
    for index, value in enumerate(SOURCES):
        yield text(x + width / 2, TOP + 29 + 30 * index, value, theme.text, anchor="middle")
    for index in (0, 1):
        yield _arrow(x + width + 4, MIDDLE[0] - 4, index, theme)


def _steps(theme: Theme) -> Iterator[str]:
    x, width = MIDDLE
    for index, (name, note) in enumerate(STEPS):
        y = TOP + index * (STEP_HEIGHT + 12)
        yield box((x, y), (width, STEP_HEIGHT), theme.surface, theme.accent)
        yield text(x + width / 2, y + 21, name, theme.text, size=15, anchor="middle", bold=True)
        yield text(x + width / 2, y + 39, note, theme.faint, size=13, anchor="middle")
        if index:
            yield _line(x + width / 2, y - 12, x + width / 2, y - 1, theme)


def _cluster(theme: Theme) -> Iterator[str]:
    x, width = RIGHT
    for name, note, y, height in CLUSTER:
        yield box((x, TOP + y), (width, height), theme.surface, theme.good)
        yield text(x + width / 2, TOP + y + height / 2 - 4, name, theme.text, size=15, anchor="middle", bold=True)
        yield text(x + width / 2, TOP + y + height / 2 + 16, note, theme.faint, size=13, anchor="middle")
    edge, start = x - 4, MIDDLE[0] + MIDDLE[1] + 4
    yield _arrow(edge, start, 0, theme)
    yield _arrow(start, edge, 2, theme)
    yield _arrow(start, edge, 3, theme)
    yield _arrow(edge, start, 4, theme)


def _arrow(x1: float, x2: float, step: int, theme: Theme) -> str:
    """Return an arrow to or from the middle of a step."""
    y = TOP + step * (STEP_HEIGHT + 12) + STEP_HEIGHT / 2
    return _line(x1, y, x2, y, theme)


def _line(x1: float, y1: float, x2: float, y2: float, theme: Theme) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{theme.faint}" stroke-width="1.5" '
        'marker-end="url(#tip)"/>'
    )
