"""Both spellings of a source mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from rukpak.api.v1alpha2.fields import SecretReference
from rukpak.api.v1alpha2.types import Source

IMAGE = {"ref": "foo/bar:v1"}
GIT = {"repository": "https://github.com/foo/bar"}
HTTP = {"url": "https://example.com/a.tgz"}
SECRET = {"namespace": "ns", "name": "secret"}


def image(**block: Any) -> Source:
    return Source.model_validate({"kind": "image", "image": IMAGE | block})


DESTINATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no destination is the root": ({"kind": "git", "git": GIT}, ""),
    "the root may be spelled out": ({"kind": "git", "git": GIT, "destination": ""}, ""),
    "beside the block": ({"kind": "git", "git": GIT, "destination": "a/b"}, "a/b"),
    "inside git": ({"kind": "git", "git": GIT | {"destination": "a/b"}}, "a/b"),
    "inside http": ({"kind": "http", "http": HTTP | {"destination": "a/b"}}, "a/b"),
    "of a plug-in": ({"kind": "example.com/s3", "destination": "a"}, "a"),
}


@pytest.mark.parametrize(("given", "target"), DESTINATIONS.values(), ids=DESTINATIONS.keys())
def test_the_destination_is_found_in_either_spelling(given: dict[str, Any], target: str) -> None:
    assert Source.model_validate(given).target == target


SECRETS: dict[str, tuple[dict[str, Any], SecretReference | None]] = {
    "none": ({"kind": "image", "image": IMAGE}, None),
    "below secret": (
        {"kind": "git", "git": GIT | {"auth": {"secret": SECRET}}},
        SecretReference(namespace="ns", name="secret"),
    ),
    "without secret": (
        {"kind": "http", "http": HTTP | {"auth": SECRET}},
        SecretReference(namespace="ns", name="secret"),
    ),
    "without namespace": ({"kind": "image", "image": IMAGE | {"auth": {"name": "a"}}}, SecretReference(name="a")),
    "of a plug-in": ({"kind": "a.io/b", "parameters": {"auth": {"name": "a"}}}, SecretReference(name="a")),
    "of a plug-in without parameters": ({"kind": "a.io/b"}, None),
}


@pytest.mark.parametrize(("given", "secret"), SECRETS.values(), ids=SECRETS.keys())
def test_the_secret_is_found_in_either_spelling(given: dict[str, Any], secret: SecretReference | None) -> None:
    assert Source.model_validate(given).secret == secret


def test_parameters_are_the_block_without_credentials_and_destination() -> None:
    block = GIT | {"auth": SECRET, "destination": "a"}
    assert Source.model_validate({"kind": "git", "git": block}).parameters_json == {
        "repository": "https://github.com/foo/bar",
        "ref": "HEAD",
        "directory": "",
        "insecureSkipTLSVerify": False,
        "certificateData": "",
    }


def test_parameters_of_a_plug_in_are_kept_as_they_are() -> None:
    parameters = {"bucket": {"some_name": ["a", 1, None]}, "camelCase": True, "auth": SECRET}
    source = Source.model_validate({"kind": "example.com/s3", "parameters": parameters})
    assert source.parameters_json == {"bucket": {"some_name": ["a", 1, None]}, "camelCase": True}


def test_a_source_without_its_block_has_no_parameters() -> None:
    assert Source(kind="git").parameters_json == {}


@pytest.mark.parametrize(("interval", "seconds"), [("", None), ("90s", 90.0)])
def test_polling_is_off_or_in_seconds(interval: str, seconds: float | None) -> None:
    assert Source(kind="git", poll_interval=interval).poll_interval_seconds == seconds


def test_equal_sources_in_either_spelling_have_equal_parameters() -> None:
    assert image(auth=SECRET).parameters_json == image(auth={"secret": SECRET}).parameters_json
