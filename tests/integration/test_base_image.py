"""The image that the Dockerfiles build on, renewed from a real registry, and refused when it is old."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hack.packaging.base import FILES, ROOT, BaseError, check_base, find_base, read_base, renew_base
from rukpak.api.plugins import Network
from tests.support.registry import CONFIG, INDEX, MANIFEST, RegistryClient

MADE = datetime(2026, 1, 1, tzinfo=UTC)
FRESH, OLD = MADE + timedelta(days=60), MADE + timedelta(days=61)


class Mirror:
    """A repository of its own in place of Docker Hub's."""

    def __init__(self, registry: RegistryClient, name: str) -> None:
        self._registry, self._name = registry, name
        self.network = Network(registry_mirrors={"docker.io": f"{registry.host}/{name}"})

    def push(self, patch: int, *, index: bool = True, config: Mapping[str, Any] | None = None) -> str:
        """Publish a patch release as `3.14-slim-bookworm`; return its digest."""
        repository, tag = f"{self._name}/library/python", "3.14-slim-bookworm"
        about = {"Env": ["PATH=/usr/local/bin", f"PYTHON_VERSION=3.14.{patch}"]}
        made = {"created": "2026-01-01T00:00:00.123456789Z", "config": about} if config is None else config
        blob = self._registry.push_blob(repository, CONFIG, json.dumps(made).encode())
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": blob.as_json(), "layers": []}
        if not index:
            return self._registry.push_manifest(repository, tag, manifest).digest
        image = self._registry.push_manifest(repository, "", manifest).as_json()
        entries = [{**image, "platform": {"os": "linux", "architecture": each}} for each in ("arm64", "amd64")]
        whole = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        return self._registry.push_manifest(repository, tag, whole).digest


@pytest.fixture
def mirror(registry: RegistryClient) -> Mirror:
    return Mirror(registry, f"base{uuid.uuid4().hex}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("index", [True, False], ids=["an index", "a single image"])
def test_all_files_get_the_newest_version_with_its_digest(mirror: Mirror, root: Path, index: bool) -> None:
    before = read_base(root)
    after = f"python:3.14.99-slim-bookworm@{mirror.push(99, index=index)}"
    assert renew_base("3.14", root=root, network=mirror.network) == f"{before} -> {after}"
    for name in FILES:
        old, new = ((folder / name).read_text(encoding="utf-8") for folder in (ROOT, root))
        assert new == old.replace(f"ARG BASE={before}", f"ARG BASE={after}")
        assert f"\nARG BASE={after}\n" in new
    assert renew_base("3.14", root=root, network=mirror.network) == "the base of the images stays"


def test_an_image_without_a_digest_is_refused(mirror: Mirror, root: Path) -> None:
    (root / FILES[0]).write_text("ARG BASE=python:3.14.1-slim-bookworm\n", encoding="utf-8")
    with pytest.raises(
        BaseError, match=r'^python:3.14.1-slim-bookworm has no digest; run "hack/lock --base", and merge'
    ):
        check_base("3.14", MADE, root=root, network=mirror.network)


def test_an_image_is_too_old_after_60_days_if_there_is_a_newer_one(mirror: Mirror, root: Path) -> None:
    mirror.push(1)
    renew_base("3.14", root=root, network=mirror.network)
    check_base("3.14", OLD, root=root, network=mirror.network)
    mirror.push(2)
    check_base("3.14", FRESH, root=root, network=mirror.network)
    with pytest.raises(BaseError, match=r"^python:3.14.1-slim-bookworm@sha256:\w+ is 61 days old, of at most 60; run"):
        check_base("3.14", OLD + timedelta(minutes=1), root=root, network=mirror.network)


@pytest.mark.parametrize(
    "config", [{}, {"config": {"Env": []}}, {"config": {"Env": ["PYTHON_VERSION=3"]}}, {"config": []}]
)
def test_what_is_no_image_of_python(mirror: Mirror, config: dict[str, Any]) -> None:
    mirror.push(1, config=config)
    with pytest.raises(BaseError, match=r"^python: 3.14-slim-bookworm is no image of Python$"):
        find_base("3.14-slim-bookworm", mirror.network)


def test_what_the_registry_does_not_have(mirror: Mirror, root: Path) -> None:
    before = read_base(root)
    with pytest.raises(BaseError, match=r'/library/python" at .* does not exist'):
        renew_base("3.14", root=root, network=mirror.network)
    assert read_base(root) == before
