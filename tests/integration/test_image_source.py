"""The image source, archive, store and tree against a real registry: from a reference to files."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.errors import BundleError
from api.plugins import Access, Limits, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.archive import write_entries
from controller.content.store import ContentStore
from controller.content.tree import assemble
from controller.sources.image import ImageSource
from tests.support.registry import Compression, LocalRegistry
from tests.support.tarballs import Link, tarball

PATH = "spec.sources[0].image"
LOWER = {"manifests/a.yaml": b"a: 1\n", "manifests/b.yaml": b"b: 1\n"}
UPPER = {"manifests/.wh.b.yaml": b"", "manifests/c.yaml": b"c: 1\n"}
EXPECTED = {"manifests/a.yaml": "a: 1\n", "manifests/c.yaml": "c: 1\n"}
SOURCE = ImageSource()


@pytest.fixture
def repository() -> str:
    return f"image-source/{uuid.uuid4().hex[:10]}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ContentStore]:
    with ContentStore(tmp_path / "store") as store:
        yield store


def access(scratch: Path) -> Access:
    return Access(path=PATH, deadline=time.monotonic() + 60, cancelled=threading.Event(), scratch=scratch)


def resolve(ref: str, store: ContentStore) -> Resolution:
    with store.scratch() as scratch:
        return SOURCE.resolve({"ref": ref}, access(scratch))


def fetch(ref: str, resolution: Resolution, store: ContentStore, platform: str = "linux/amd64") -> Path:
    parameters = {"ref": ref, "platform": platform}

    def write(folder: Path) -> None:
        with store.scratch() as scratch:
            entries = SOURCE.fetch(parameters, resolution, access(scratch))
            write_entries(entries, folder, Limits(), PATH)

    return store.put(SOURCE.content_key(parameters, resolution), write)


def read(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.message.startswith(f"{PATH}: ")
    return caught.value


@pytest.mark.parametrize("docker", [False, True], ids=["OCI", "Docker"])
@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_tag_becomes_files(
    compression: Compression, docker: bool, registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    digest = registry.push_image(repository, "v1", [LOWER, UPPER], compression=compression, docker=docker)
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    assert resolution == Resolution(pinned=f"{registry.host}/{repository}@{digest}", digest=digest)
    assert read(fetch(ref, resolution, store)) == EXPECTED


def test_a_moved_tag_changes_nothing_that_is_pinned(
    registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    registry.push_image(repository, "v1", [LOWER, UPPER])
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    registry.push_image(repository, "v1", [{"moved": b""}])
    assert read(fetch(ref, resolution, store)) == EXPECTED


def test_an_index_leads_to_the_platform(registry: LocalRegistry, repository: str, store: ContentStore) -> None:
    images = {"linux/amd64": [{"amd64": b""}], "linux/arm64": [{"arm64": b""}]}
    registry.push_index(repository, "v1", images)
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    assert read(fetch(ref, resolution, store)) == {"amd64": ""}
    assert read(fetch(ref, resolution, store, "linux/arm64")) == {"arm64": ""}
    error = failure(lambda: fetch(ref, resolution, store, "linux/s390x"))
    assert error.reason is Reason.PLATFORM_NOT_FOUND


def test_two_sources_make_one_tree(
    registry: LocalRegistry, repository: str, store: ContentStore, tmp_path: Path
) -> None:
    parts = []
    for index, layer in enumerate(({"a.yaml": b"1"}, {"b.yaml": b"2"})):
        registry.push_image(repository, f"v{index}", [layer])
        ref = f"{registry.host}/{repository}:v{index}"
        parts.append((f"spec.sources[{index}]", "manifests", fetch(ref, resolve(ref, store), store)))
    assert read(assemble(parts, tmp_path / "tree").root) == {"manifests/a.yaml": "1", "manifests/b.yaml": "2"}


def test_a_digest_must_be_in_the_repository_that_is_named(
    registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    digest = registry.push_image(repository, "v1", [LOWER])
    registry.push_image(f"{repository}/other", "v1", [UPPER])
    assert resolve(f"{registry.host}/{repository}@{digest}", store).digest == digest
    error = failure(lambda: resolve(f"{registry.host}/{repository}/other@{digest}", store))
    assert error.reason is Reason.NOT_FOUND


@pytest.mark.parametrize("name", [":v2", "/missing:v1"])
def test_what_is_not_there_is_named(name: str, registry: LocalRegistry, repository: str, store: ContentStore) -> None:
    registry.push_image(repository, "v1", [LOWER])
    error = failure(lambda: resolve(f"{registry.host}/{repository}{name}", store))
    assert error.reason is Reason.NOT_FOUND
    assert f'"{repository}{name.replace(":", " manifests/")}"' in error.message


def test_content_that_went_away_after_it_was_pinned(
    registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    digest = registry.push_image(repository, "v1", [LOWER])
    ref = f"{registry.host}/{repository}:v1"
    resolution = resolve(ref, store)
    registry.delete_manifest(repository, digest)
    assert failure(lambda: fetch(ref, resolution, store)).reason is Reason.PINNED_CONTENT_GONE


def test_an_attack_leaves_nothing(
    registry: LocalRegistry, repository: str, store: ContentStore, tmp_path: Path
) -> None:
    registry.push_image(repository, "v1", [tarball(("ok", b"1"), ("l", Link("../../../../etc")), ("l/passwd", b"x"))])
    ref = f"{registry.host}/{repository}:v1"
    error = failure(lambda: fetch(ref, resolve(ref, store), store))
    assert error.reason is Reason.CONTENT_REJECTED
    assert 'entry "l" links out of the tree' in error.message
    assert not any(path.is_file() for path in (tmp_path / "store" / "entries").rglob("*"))
    assert store.bytes_used() == 0


def test_a_registry_that_is_down_and_comes_back(
    fresh_registry: LocalRegistry, repository: str, store: ContentStore
) -> None:
    fresh_registry.push_image(repository, "v1", [LOWER, UPPER])
    ref = f"{fresh_registry.host}/{repository}:v1"
    fresh_registry.stop()
    error = failure(lambda: resolve(ref, store))
    assert error.reason is Reason.UNREACHABLE
    assert "it refuses the connection" in error.message
    fresh_registry.start()
    assert read(fetch(ref, resolve(ref, store), store)) == EXPECTED
