"""The pictures as files: `<name>-<theme>.svg`."""

from __future__ import annotations

from pathlib import Path

from hack.pictures import architecture, recording
from hack.pictures.theme import THEMES

TRANSCRIPT = Path(__file__).with_name("demo.txt")
"""What hack/demo printed: `hack/demo > hack/pictures/demo.txt` records it again."""


def picture_files() -> dict[str, str]:
    """Return the text of each picture, by its name."""
    lines = recording.excerpt(TRANSCRIPT.read_text(encoding="utf-8"))
    return {
        f"{name}-{theme}.svg": svg
        for theme, colors in THEMES.items()
        for name, svg in (("demo", recording.draw(lines, colors)), ("architecture", architecture.draw(colors)))
    }
