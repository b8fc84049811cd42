"""What renders content, by the kustomize or kubectl that is on PATH."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from content import means, request_of, tree_of, write
from rukpak.plugins import Rendering
from rukpak_kustomize import KustomizeFormat

Render: TypeAlias = Callable[..., Rendering]
"""Renders files, by their paths."""


@pytest.fixture(scope="session")
def kustomize() -> KustomizeFormat:
    """The format."""
    return KustomizeFormat()


@pytest.fixture
def render(kustomize: KustomizeFormat, tmp_path: Path) -> Render:
    """Return what renders files."""

    def _render(files: Mapping[str, str], *destinations: str, path: str = "", **options: Any) -> Rendering:
        root, scratch = tmp_path / "content", tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        unusable = {name: options.pop(name) for name in ("refused", "unprepared") if name in options}
        tree = tree_of(write(root, files), *destinations, **unusable)
        config = {"path": path} if path else {}
        return kustomize.render(request_of(tree, config, means(scratch, **options)))

    return _render
