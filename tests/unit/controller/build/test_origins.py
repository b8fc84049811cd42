from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.plugins import Access, Entry, Resolution
from api.plugins import Source as Plugin
from controller.build.pins import origin_of, store_key
from controller.build.plugins import source_of
from tests.support.deployments import deployment

OWN, OTHER = "-----BEGIN CERTIFICATE-----\nown", "-----BEGIN CERTIFICATE-----\nother"
IMAGE = {"kind": "image", "image": {"ref": "registry.example.com/shop/app:v1"}}
HTTP = {"kind": "http", "http": {"url": "https://example.com/a.tar?file=a"}}
GIT = {"kind": "git", "git": {"repository": "https://example.com/shop/app"}}


def changed(source: Mapping[str, Any], **block: Any) -> dict[str, Any]:
    kind = source["kind"]
    return {**source, kind: {**source[kind], **block}}


def origin(source: Mapping[str, Any], namespace: str = "shop") -> str:
    read = deployment(spec={"sources": [source], "installNamespace": namespace}).spec.sources[0]
    return origin_of(source_of(read.kind), read, namespace)


class Case(NamedTuple):
    name: str
    source: dict[str, Any]
    other: dict[str, Any]
    same: bool


def secret(name: str, **namespace: str) -> dict[str, Any]:
    return {"secret": {"name": name, **namespace}}


# fmt: off
CASES = [
    Case("another tag of a repository", IMAGE, changed(IMAGE, ref="registry.example.com/shop/app:v2"), same=True),
    Case("a digest in it", IMAGE, changed(IMAGE, ref=f"registry.example.com/shop/app@sha256:{'a' * 64}"), same=True),
    Case("another platform", IMAGE, changed(IMAGE, platform="linux/arm64"), same=True),
    Case("another destination", IMAGE, {**IMAGE, "destination": "a"}, same=True),
    Case("another repository", IMAGE, changed(IMAGE, ref="registry.example.com/shop/other:v1"), same=False),
    Case("another registry", IMAGE, changed(IMAGE, ref="attacker.example.com/shop/app:v1"), same=False),
    Case("another port", IMAGE, changed(IMAGE, ref="registry.example.com:444/shop/app:v1"), same=False),
    Case("nobody verified", IMAGE, changed(IMAGE, insecureSkipTLSVerify=True), same=False),
    Case("an authority", IMAGE, changed(IMAGE, certificateData=OWN), same=False),
    Case("another authority", changed(IMAGE, certificateData=OWN), changed(IMAGE, certificateData=OTHER), same=False),
    Case("a Secret, which may name an authority", IMAGE, changed(IMAGE, auth=secret("s")), same=False),
    Case("another Secret", changed(IMAGE, auth=secret("s")), changed(IMAGE, auth=secret("t")), same=False),
    Case("a Secret of this name elsewhere", changed(IMAGE, auth=secret("s")),
         changed(IMAGE, auth=secret("s", namespace="other")), same=False),
    Case("its namespace written out", changed(IMAGE, auth=secret("s")),
         changed(IMAGE, auth=secret("s", namespace="shop")), same=True),
    Case("what is expected of a file", HTTP, changed(HTTP, sha256="a" * 64), same=True),
    Case("the host in capitals", HTTP, changed(HTTP, url="https://EXAMPLE.com/a.tar?file=a"), same=True),
    Case("another query", HTTP, changed(HTTP, url="https://example.com/a.tar?file=b"), same=False),
    Case("another path", HTTP, changed(HTTP, url="https://example.com/b.tar?file=a"), same=False),
    Case("another scheme", HTTP, changed(HTTP, url="http://example.com/a.tar?file=a"), same=False),
    Case("another branch", GIT, changed(GIT, ref="next"), same=True),
    Case("another directory", GIT, changed(GIT, directory="a"), same=True),
    Case("a fork", GIT, changed(GIT, repository="https://example.com/fork/app"), same=False),
    Case("the same over ssh", GIT, changed(GIT, repository="ssh://git@example.com/shop/app"), same=False),
    Case("another kind", IMAGE, GIT, same=False),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_content_is_shared_within_one_origin(case: Case) -> None:
    assert (origin(case.source) == origin(case.other)) is case.same


def test_an_origin_does_not_reveal_its_parts() -> None:
    found = origin(changed(HTTP, url="https://example.com/a.tar?signature=secret", auth=secret("login")))
    assert found.startswith("v1:sha256:")
    assert len(found) == len("v1:sha256:") + 64


def test_secrets_of_two_namespaces_differ() -> None:
    source = changed(IMAGE, auth=secret("login"))
    assert origin(source, "shop") != origin(source, "other")


# plug-ins


class Forgetful:
    """A source without the method `origin`, as written for an older release."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return []

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        raise NotImplementedError

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        return resolution.digest

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        raise NotImplementedError


class Silent(Forgetful, Plugin):
    """A source that returns no origin."""


class Outspoken(Forgetful):
    """A source that returns its origin."""

    def origin(self, parameters: Mapping[str, Any]) -> str:
        return str(parameters["bucket"])


class OutOfTree(NamedTuple):
    name: str
    plugin: Any
    parameters: dict[str, Any]
    same: bool


BUCKET = {"bucket": "b", "object": "o"}
OUT_OF_TREE = [
    OutOfTree("equal parameters are one origin", Forgetful(), BUCKET, same=True),
    OutOfTree("any other parameter is another, where a source cannot say", Forgetful(), BUCKET | {"x": "1"}, False),
    OutOfTree("or says nothing", Silent(), BUCKET | {"x": "1"}, same=False),
    OutOfTree("one that says who it asks shares more", Outspoken(), BUCKET | {"object": "p"}, same=True),
    OutOfTree("but not what another gave", Outspoken(), BUCKET | {"bucket": "c"}, same=False),
    OutOfTree("nor with whom it trusts otherwise", Outspoken(), BUCKET | {"insecureSkipTLSVerify": True}, same=False),
    OutOfTree("or as another server", Outspoken(), BUCKET | {"auth": secret("login")}, same=False),
]


@pytest.mark.parametrize("case", OUT_OF_TREE, ids=attrgetter("name"))
def test_a_plug_in_without_origin_shares_among_equal_parameters(case: OutOfTree) -> None:
    def find(parameters: dict[str, Any]) -> str:
        source = {"kind": "example.com/s3", "parameters": parameters}
        return origin_of(case.plugin, deployment(spec={"sources": [source]}).spec.sources[0], "shop")

    assert (find(case.parameters) == find(BUCKET)) is case.same


# keys


class Key(NamedTuple):
    name: str
    asked: str
    answered: str


@pytest.mark.parametrize("auth_digest", ["", "sha256:second"])
def test_content_is_not_for_who_was_answered_with_another_secret_of_the_same_name(auth_digest: str) -> None:
    stored = store_key("sha256:a", "own", "own", "sha256:first")
    assert store_key("sha256:a", "own", "own", auth_digest) != stored


KEYS = [
    Key("who trusted nobody when it answered", asked="verified", answered="unverified"),
    Key("who was answered by another Secret", asked="own", answered="other"),
    Key("a pin of an older release", asked="verified", answered="BundleDeployment/mine"),
]


@pytest.mark.parametrize("case", KEYS, ids=attrgetter("name"))
def test_content_of_one_origin_is_not_shared_with(case: Key) -> None:
    opened = store_key("sha256:a", case.asked, case.answered)
    stored = {store_key("sha256:a", each, each) for each in (case.asked, case.answered)}
    assert opened not in stored
