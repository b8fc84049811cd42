"""Colors of the page: every text can be read on whatever may be behind it, also while that is marked as changed."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.support.bundles import ROOT

SHEET = (ROOT / "controller/ui/static/page.css").read_text(encoding="utf-8")
LIGHT, DARK = SHEET.split("@media (prefers-color-scheme: dark)", 1)
COLOR = re.compile(r"--([a-z]+): #([0-9a-f]{6})")
BEHIND = ("back", "card", "hover", "changed", "added", "removed")
TEXT = ("text", "quiet", "link", "ready", "stalled", "progressing", "waiting", "paused", "drift")
ENOUGH = 4.5
"""WCAG 2.2, 1.4.3: contrast of texts."""


def luminance(color: str) -> float:
    """Return the relative luminance of a color of six hexadecimal digits, as WCAG defines it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("sheet", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_can_be_read(sheet: str) -> None:
    colors = dict(COLOR.findall(sheet))
    pairs = {(text, behind): contrast(colors[text], colors[behind]) for text, behind in product(TEXT, BEHIND)}
    assert {pair: round(value, 2) for pair, value in pairs.items() if value < ENOUGH} == {}
