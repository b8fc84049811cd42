"""Content of kustomizations, and rendering it by the kubectl that is on PATH."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from rukpak.plugins import Capabilities, ContentTree, Means, Refusal, Rendering, RenderRequest
from rukpak_kustomize import KustomizeFormat

Render: TypeAlias = Callable[..., Rendering]
"""Renders files, by their paths."""


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Return a folder with files."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def tree_of(root: Path, *destinations: str, refused: Mapping[str, Refusal] | None = None) -> ContentTree:
    """Return the content in a folder."""
    return ContentTree(root=root, destinations=destinations or ("",), refused=refused or {})


def request_of(tree: ContentTree, config: Mapping[str, Any], means: Means) -> RenderRequest:
    """Return a request to render content."""
    return RenderRequest(
        name="example",
        install_namespace="default",
        tree=tree,
        config=config,
        capabilities=Capabilities(kubernetes_version="v1.36.3"),
        means=means,
    )


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
        tree = tree_of(write(root, files), *destinations, refused=options.pop("refused", None))
        means = Means(scratch=scratch, **options)
        return kustomize.render(request_of(tree, {"path": path} if path else {}, means))

    return _render
