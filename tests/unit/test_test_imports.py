"""Integration and e2e tests use RukPak as users do; what they need of its inside is in `tests.support.inside` alone.

Of `rukpak.controller.playground`, which is not the controller, they use what starts their clusters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [path for folder in ("integration", "e2e") for path in sorted((ROOT / "tests" / folder).rglob("*.py"))]
NAMED = re.compile(r"(rukpak\.controller(?:\.\w+)+)[.:]\w+")
"""A name in a module, as monkeypatch and `hurry` take it."""
BARE = re.compile(r"((?:api|controller)\.\w+)[\w.:]*")
"""The same below a folder: in a checkout that imports the module a second time, and in a wheel nothing."""


def find_modules(source: str) -> Iterator[str]:
    """Yield the modules of the controller that a test imports, or of which it changes something by name."""
    yield from (name for name in _named_modules(source) if not name.startswith("rukpak.controller.playground"))


def _named_modules(source: str) -> Iterator[str]:
    if "rukpak.controller" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=imported):
                yield from (each.name for each in imported if each.name.startswith("rukpak.controller"))
            case ast.ImportFrom(module=str(module)) if module.startswith("rukpak.controller"):
                yield module
            case ast.Constant(value=str(text)) if found := NAMED.fullmatch(text):
                if (ROOT / found[1].replace(".", "/")).with_suffix(".py").exists():
                    yield found[1]


def test_the_inside_of_the_controller_is_reached_through_one_module() -> None:
    found = {path: [*find_modules(path.read_text())] for path in FILES}
    assert {path: modules for path, modules in found.items() if modules} == {}


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import rukpak.controller.retries as r", "rukpak.controller.retries"),
        ("def test():\n    from rukpak.controller.apply import plan", "rukpak.controller.apply"),
        ("hurry({'rukpak.controller.retries:SLOW_SECONDS': 1.0})", "rukpak.controller.retries"),
        ("monkeypatch.setattr('rukpak.controller.retries.SLOW_SECONDS', 1.0)", "rukpak.controller.retries"),
    ],
)
def test_it_is_found_by_import_and_by_name(source: str, module: str) -> None:
    assert list(find_modules(source)) == [module]


def find_bare(source: str) -> Iterator[str]:
    """Yield the texts that name a module by its folder, without `rukpak`; linters see only imports."""
    if not re.search(rf"[\"']{BARE.pattern}[\"']", source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (found := BARE.fullmatch(node.value)):
            module = ROOT / found[1].replace(".", "/")
            if module.is_dir() or module.with_suffix(".py").exists():
                yield node.value


@pytest.mark.parametrize("folder", ["api", "controller", "hack", "tests"])
def test_no_text_names_a_module_by_its_folder_alone(folder: str) -> None:
    found = {path: [*find_bare(path.read_text())] for path in sorted((ROOT / folder).rglob("*.py"))}
    assert {path: texts for path, texts in found.items() if texts and path != Path(__file__)} == {}


@pytest.mark.parametrize("text", ["controller.retries.SLOW_SECONDS", "controller.kube:A", "api.errors", "api.v1alpha2"])
def test_a_text_without_the_root_is_found(text: str) -> None:
    assert list(find_bare(f"monkeypatch.setattr({text!r}, 1)")) == [text]
    assert list(find_bare(f"monkeypatch.setattr('rukpak.{text}', 1)")) == []
