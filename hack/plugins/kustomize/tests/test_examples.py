"""Over kustomize's own test cases, the format makes the objects that kubectl makes, and that kustomize expects."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from content import means, request_of, tree_of, write
from examples import Example, find_examples
from rukpak.plugins import BundleError, read_documents
from rukpak_kustomize import KustomizeFormat

LEAST = 100
"""That are found in the version of the module: fewer mean that they are not recognized."""


def test_objects_are_those_of_kubectl(kustomize: KustomizeFormat, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    assert kubectl, "this test needs kubectl on PATH"
    examples = find_examples(tmp_path)
    differing = [f"{each}: {problem}" for each in examples if (problem := _compare(each, kustomize, kubectl, tmp_path))]
    assert differing == []
    assert len(examples) >= LEAST


def _compare(example: Example, kustomize: KustomizeFormat, kubectl: str, folder: Path) -> str:
    """Return how the objects of an example differ; empty if they do not."""
    root, scratch = write(folder / example.name / "content", example.files), folder / example.name / "scratch"
    scratch.mkdir()
    try:
        rendering = kustomize.render(request_of(tree_of(root), {"path": example.path}, means(scratch)))
    except BundleError as error:
        return str(error)
    done = subprocess.run([kubectl, "kustomize", str(root / example.path)], capture_output=True, check=False)
    if done.returncode or list(rendering.objects) != _read(done.stdout):
        return "not as kubectl makes it"
    # kubectl sorts the objects, and kustomize's tests do not.
    expected = _read(example.expected.encode())
    return "" if _sorted(rendering.objects) == _sorted(expected) else "not as kustomize's test expects it"


def _read(text: bytes) -> list[Any]:
    return [document.value for document in read_documents(text, "output")]


def _sorted(objects: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in objects)
