"""Integration and e2e tests use RukPak as users do; what they need of its inside is in `tests.support.inside` alone.

Of `controller.playground`, which is not the controller, they use what starts their clusters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [path for folder in ("integration", "e2e") for path in sorted((ROOT / "tests" / folder).rglob("*.py"))]
NAMED = re.compile(r"(controller(?:\.\w+)+)[.:]\w+")
"""A name in a module, as monkeypatch and `hurry` take it."""


def find_modules(source: str) -> Iterator[str]:
    """Yield the modules of the controller that a test imports, or of which it changes something by name."""
    yield from (name for name in _named_modules(source) if not name.startswith("controller.playground"))


def _named_modules(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=imported):
                yield from (each.name for each in imported if each.name.partition(".")[0] == "controller")
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "controller":
                yield module
            case ast.Constant(value=str(text)) if found := NAMED.fullmatch(text):
                if (ROOT / found[1].replace(".", "/")).with_suffix(".py").exists():
                    yield found[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_inside_of_the_controller_is_reached_through_one_module(path: Path) -> None:
    assert list(find_modules(path.read_text())) == []


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import controller.retries as r", "controller.retries"),
        ("def test():\n    from controller.apply import plan", "controller.apply"),
        ("hurry({'controller.retries:SLOW_SECONDS': 1.0})", "controller.retries"),
        ("monkeypatch.setattr('controller.retries.SLOW_SECONDS', 1.0)", "controller.retries"),
    ],
)
def test_it_is_found_by_import_and_by_name(source: str, module: str) -> None:
    assert list(find_modules(source)) == [module]
