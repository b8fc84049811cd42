from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ReadsPart
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building import entry_points as extensions
from rukpak.controller.building.entry_points import FORMATS, SOURCES, format_of, source_of
from rukpak.controller.formats.plain import PlainFormat
from rukpak.controller.sources.image.source import ImageSource
from tests.support.installed_plugins import install_plugins


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Clear the cache of plug-ins before and after each test."""
    extensions._LOADED.clear()
    yield
    extensions._LOADED.clear()


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


def test_a_plug_in_of_another_package_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, {(SOURCES, "example.com/s3"): ImageSource, (FORMATS, "example.com/s3"): PlainFormat})
    assert source_of("example.com/s3").identity({"ref": "quay.io/a/b:1"}) == ImageSource().identity(
        {"ref": "quay.io/a/b:1"}
    )
    assert isinstance(format_of("example.com/s3"), ReadsPart)
    found = [each for each in extensions.find_installed() if not each.is_builtin]
    assert [(each.type, each.name, each.package, each.version, each.api, each.problem) for each in found] == [
        ("format", "example.com/s3", "acme-plugins", "1.2", ("1",), ""),
        ("source", "example.com/s3", "acme-plugins", "1.2", ("1",), ""),
    ]


class Raising:
    def __init__(self) -> None:
        raise ValueError("a secret")


class Leaving:
    def __init__(self) -> None:
        sys.exit(1)


class Refused(NamedTuple):
    problem: str
    name: str = "example.com/s3"
    factory: type = PlainFormat
    api: Sequence[str] = ("1",)


REFUSED = {
    "without a domain": Refused(
        'has a name that only RukPak itself may use; its package must call it "<domain>/<name>"', name="s3"
    ),
    "the name of one of ours": Refused(
        'has a name that only RukPak itself may use; its package must call it "<domain>/<name>"', name="Plain"
    ),
    "no version": Refused(
        "does not say for which version of the contract it was written (entry point group rukpak.plugin_api); "
        "upgrade it",
        api=(),
    ),
    "a later version": Refused(
        "was written for version 2 of the contract, and this RukPak has 1; upgrade either", api=("2",)
    ),
    "versions before and after": Refused(
        "was written for version 0 and 2 of the contract, and this RukPak has 1; upgrade either", api=("2", "0")
    ),
    "raises": Refused("failed: loading raised ValueError at building/test_entry_points.py:", factory=Raising),
    "ends the program": Refused("failed: loading raised SystemExit at building/test_entry_points.py:", factory=Leaving),
    "no plug-in": Refused(
        "does not keep its contract: loading returns an object without the method validate", factory=object
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_by_name(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, name, factory, api = REFUSED[case]
    install_plugins(monkeypatch, {(FORMATS, name): factory}, api=api)
    with pytest.raises(BundleError) as raised:
        format_of(name)
    message = raised.value.message
    assert raised.value.reason is Reason.PLUGIN_FAILED
    assert message.startswith(f'spec.format: plug-in "{name}" of acme-plugins 1.2 {problem}')
    assert "a secret" not in message
    found = [each for each in extensions.find_installed() if not each.is_builtin]
    assert [extensions.check(each).startswith(problem) for each in found] == [True]
    assert isinstance(format_of("plain"), PlainFormat)


def test_two_packages_with_one_name_are_both_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, {(FORMATS, "example.com/s3"): PlainFormat})
    install_plugins(monkeypatch, {(FORMATS, "example.com/s3"): PlainFormat}, package="other")
    with pytest.raises(BundleError, match="is provided by other, too; uninstall all but one"):
        format_of("example.com/s3")


def test_a_package_that_supports_several_versions_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, {(FORMATS, "example.com/s3"): PlainFormat}, api=("1", "2"))
    assert format_of("example.com/s3").validate({"a": 1})
