"""Content in folders, and requests to render it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rukpak.plugins import Capabilities, ContentTree, Means, Refusal, RenderRequest


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Return a folder with files."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def tree_of(root: Path, *destinations: str, **unusable: Mapping[str, Refusal]) -> ContentTree:
    """Return the content in a folder, of which some must not be read (`refused`, `unprepared`)."""
    return ContentTree(root=root, destinations=destinations or ("",), **unusable)


def means(scratch: Path, **given: Any) -> Means:
    """Return means to run programs, also where the kernel cannot confine them: the content is ours."""
    return Means(scratch=scratch, confinement_required=False, **given)


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
