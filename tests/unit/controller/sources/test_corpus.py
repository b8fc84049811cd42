"""Nothing that comes from outside breaks a parser: the kept corpus, and what is made of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.errors import BundleError
from api.plugins import Limits
from controller.content.archive import write_entries
from controller.content.limits import Rejection
from controller.content.zip_directory import Unsupported
from controller.sources.challenge import parse_challenges
from controller.sources.git_reference import candidates, check_ref, parse_repository
from controller.sources.http_address import parse_address
from controller.sources.http_body import read_body
from controller.sources.layers import plan_layers
from controller.sources.manifest import Image, check_size, choose, parse_manifest
from controller.sources.reference import parse_reference
from controller.sources.transport import read_retry_after
from tests.support.corpus import damaged, garbled, kept_files, kept_texts

LIMITS = Limits(total_bytes=1 << 16, file_bytes=1 << 16, entries=50, ratio_from=1 << 14)
BOUNDED = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


# files


def unpack(data: bytes, folder: pytest.TempPathFactory) -> None:
    around = folder.mktemp("around", numbered=True)
    (around / "out").mkdir()
    with suppress(BundleError, Rejection, Unsupported):
        write_entries(read_body(io.BytesIO(data), len(data), "a", 0, LIMITS), around / "out", LIMITS, "path")
    assert [path.name for path in around.iterdir()] == ["out"]


@pytest.mark.parametrize("name", kept_files("archives"))
def test_an_archive_is_unpacked_or_refused(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    unpack(kept_files("archives")[name], tmp_path_factory)


@given(data=damaged("archives"))
@BOUNDED
def test_so_is_a_damaged_one(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    unpack(data, tmp_path_factory)


def understand(data: bytes) -> None:
    with suppress(BundleError):
        document = parse_manifest(data, "spec.sources[0].image")
        if isinstance(document, Image):
            check_size(document, Limits(), "spec.sources[0].image")
            plan_layers(document, "spec.sources[0].image")
        else:
            choose(document, "linux/amd64", "spec.sources[0].image")


@pytest.mark.parametrize("name", kept_files("manifests"))
def test_a_manifest_is_understood_or_refused(name: str) -> None:
    understand(kept_files("manifests")[name])


@given(data=damaged("manifests"))
@BOUNDED
def test_so_is_a_garbled_one(data: bytes) -> None:
    understand(data)


# texts


def read_git_ref(text: str) -> None:
    check_ref(text)
    candidates(text)


PARSERS: dict[str, Callable[[str], object]] = {
    "references": parse_reference,
    "git-refs": read_git_ref,
    "repositories": parse_repository,
    "addresses": parse_address,
    "http-headers": parse_challenges,
    "retry-after": lambda text: read_retry_after(text, 0.0),
}


@pytest.mark.parametrize("target", PARSERS)
def test_a_text_is_read_or_refused(target: str) -> None:
    for text in kept_texts(target):
        with suppress(ValueError):
            PARSERS[target](text)


@pytest.mark.parametrize("target", PARSERS)
@given(data=st.data())
@BOUNDED
def test_so_is_a_garbled_text(target: str, data: st.DataObject) -> None:
    with suppress(ValueError):
        PARSERS[target](data.draw(garbled(target)))
