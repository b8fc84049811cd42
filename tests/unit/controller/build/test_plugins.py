from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.build import plugins as extensions
from controller.build.plugins import FORMATS, SOURCES, format_of, source_of
from controller.formats.plain import PlainFormat
from controller.sources.image.source import ImageSource


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Clear the cache of plug-ins before and after each test."""
    for lookup in (source_of, format_of):
        lookup.cache_clear()
    yield
    for lookup in (source_of, format_of):
        lookup.cache_clear()


def test_built_in_plug_ins_are_found() -> None:
    assert isinstance(source_of("image"), ImageSource)
    assert isinstance(format_of("plain"), PlainFormat)


def test_a_plug_in_is_created_once() -> None:
    assert source_of("image") is source_of("image")


def test_the_message_for_a_missing_plug_in_says_what_to_do() -> None:
    with pytest.raises(BundleError) as source:
        source_of("example.com/s3")
    assert source.value.reason is Reason.UNKNOWN_SOURCE_KIND
    assert source.value.message == ('no plug-in for sources of kind "example.com/s3"; install one or correct the kind')
    with pytest.raises(BundleError) as rendering:
        format_of("example.com/jsonnet")
    assert rendering.value.reason is Reason.UNKNOWN_FORMAT
    assert rendering.value.message == ('spec.format: no plug-in for "example.com/jsonnet"; install one or correct it')


def test_an_out_of_tree_plug_in_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = EntryPoints(
        [
            EntryPoint("example.com/s3", "controller.sources.image.source:ImageSource", SOURCES),
            EntryPoint("example.com/s3", "controller.formats.plain:PlainFormat", FORMATS),
        ]
    )
    monkeypatch.setattr(extensions, "entry_points", installed.select)
    assert isinstance(source_of("example.com/s3"), ImageSource)
    assert isinstance(format_of("example.com/s3"), PlainFormat)
