"""Colors for light and dark backgrounds, and the frame of a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

SANS = "-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colors by what they are for."""

    background: str
    surface: str
    line: str
    text: str
    faint: str
    accent: str
    good: str


THEMES = {
    "light": Theme(
        background="#ffffff",
        surface="#f6f8fa",
        line="#d0d7de",
        text="#1f2328",
        faint="#59636e",
        accent="#0969da",
        good="#1a7f37",
    ),
    "dark": Theme(
        background="#0d1117",
        surface="#161b22",
        line="#3d444d",
        text="#e6edf3",
        faint="#9198a1",
        accent="#4493f8",
        good="#3fb950",
    ),
}


def picture(width: int, height: int, title: str, family: str, parts: Iterable[str]) -> str:
    """Return an SVG; `title` is read aloud instead of it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{family}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>", ""])


def text(
    x: float, y: float, value: str, color: str, *, size: int = 14, anchor: str = "start", bold: bool = False
) -> str:
    """Return one line of text with its baseline at `y`."""
    weight = ' font-weight="600"' if bold else ""
    middle = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}"{weight}{middle} xml:space="preserve">'
        f"{escape(value, quote=False)}</text>"
    )


def box(corner: tuple[float, float], size: tuple[float, float], fill: str, stroke: str) -> str:
    """Return a rectangle with round corners."""
    (x, y), (width, height) = corner, size
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="8" fill="{fill}" stroke="{stroke}"/>'
