from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Capabilities, CustomKind, Entry, Resolution
from rukpak.api.plugins import Source as Plugin
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import Verified
from rukpak.api.v1alpha2.types import SourcePin, Spec
from rukpak.controller.building.entry_points import source_of
from rukpak.controller.building.request import (
    Request,
    are_checked,
    check,
    describe_versions,
    find_unchecked,
    inputs_digest,
    match_pins,
    origin_of,
    recall_pins,
    record_pins,
    rendering_digest,
    spec_digest,
    store_key,
    verified_sources,
    verify_digest,
)
from tests.support.deployments import DIGEST, OTHER_DIGEST, RESOLVED_AT, deployment, image, pin, request, spec


class Inputs(NamedTuple):
    name: str
    request: Request
    same: bool


PROCESSOR = {"kind": "metadata", "metadata": {"labels": {"team": "shop"}}}
BASE = request(spec())
INPUTS = [
    Inputs("the same", request(spec()), same=True),
    Inputs("pausing", request(spec(paused=True)), same=True),
    Inputs("how it is pruned, deleted and judged", request(spec(prune="Never", progressDeadline="1h")), same=True),
    Inputs("when it was resolved", replace(BASE, pins=(pin(spec()).model_copy(update={"resolved_at": None}),)), True),
    Inputs("the install namespace that was recorded", replace(BASE, install_namespace="other"), same=True),
    Inputs("other content", request(spec(), OTHER_DIGEST), same=False),
    Inputs("another destination", request(spec(image(beside={"destination": "a"}))), same=False),
    Inputs("another platform", request(spec(image(platform="linux/arm64"))), same=False),
    Inputs("another format", request(spec(format="example.com/x")), same=False),
    Inputs("another config", request(spec(config={"a": 1})), same=False),
    Inputs("another install namespace", request(spec(installNamespace="other")), same=False),
    Inputs("being asked for again", replace(BASE, requested_at="now"), same=False),
    Inputs("a processor", request(spec(processors=[PROCESSOR])), same=False),
    Inputs("one source more", request(spec(image(), image())), same=False),
]


@pytest.mark.parametrize("case", INPUTS, ids=attrgetter("name"))
def test_inputs_that_require_another_rendering(case: Inputs) -> None:
    assert (inputs_digest(case.request) == inputs_digest(BASE)) is case.same


AUTHORITY = "-----BEGIN CERTIFICATE-----"
AUTH: dict[str, Any] = {"auth": {"secret": {"namespace": "shop", "name": "s"}}}


class Identity(NamedTuple):
    name: str
    source: dict[str, Any]
    same: bool


TAG = "registry.example.com/shop:1"
IDENTITIES = [
    Identity("the same", image(TAG), same=True),
    Identity("its default written out", image(TAG, platform="linux/amd64"), same=True),
    Identity("another destination", image(TAG, beside={"destination": "a/b"}), same=True),
    Identity("another interval", image(TAG, beside={"pollInterval": "1m"}), same=True),
    Identity("other credentials", image(TAG, **AUTH), same=True),
    Identity("another authority", image(TAG, certificateData=AUTHORITY), same=True),
    Identity("another tag", image("registry.example.com/shop:2"), same=False),
    Identity("another repository", image("registry.example.com/other:1"), same=False),
    Identity("another registry", image("example.com/shop:1"), same=False),
    Identity("another platform", image(TAG, platform="linux/arm64"), same=False),
]


@pytest.mark.parametrize("case", IDENTITIES, ids=attrgetter("name"))
def test_a_source_is_resolved_again_only_if_its_identity_changes(case: Identity) -> None:
    before = spec(image(TAG))
    assert (match_pins(spec(case.source), [pin(before)])[0] is not None) is case.same


def test_a_short_reference_has_the_same_identity() -> None:
    short, full = spec(image("nginx")), spec(image("docker.io/library/nginx:latest"))
    assert spec_digest(short.sources[0]) == spec_digest(full.sources[0])


def test_a_spec_digest_has_a_version() -> None:
    assert spec_digest(spec().sources[0]).startswith("v1:sha256:")


def test_pins_follow_their_sources_and_not_their_position() -> None:
    before = spec(image("a:1"), image("b:1"))
    pins = [pin(before, 0, DIGEST), pin(before, 1, OTHER_DIGEST)]
    after = spec(image("new:1"), image("b:1", beside={"destination": "moved"}), image("a:1"))
    found = match_pins(after, pins)
    assert [each and (each.digest, each.destination) for each in found] == [
        None,
        (OTHER_DIGEST, "moved"),
        (DIGEST, ""),
    ]


def test_one_pin_matches_two_sources_with_the_same_identity() -> None:
    twice = spec(image(beside={"destination": "a"}), image(beside={"destination": "b"}))
    found = match_pins(twice, [pin(twice)])
    assert [each and each.destination for each in found] == ["a", "b"]


def test_a_pin_of_an_unknown_format_matches_nothing() -> None:
    before = spec()
    unknown = pin(before).model_copy(update={"spec_digest": "v2:" + DIGEST})
    assert match_pins(before, [unknown]) == (None,)


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
    """A source without the method `origin`."""

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
]


@pytest.mark.parametrize("case", KEYS, ids=attrgetter("name"))
def test_content_of_one_origin_is_not_shared_with(case: Key) -> None:
    opened = store_key("sha256:a", case.asked, case.answered)
    stored = {store_key("sha256:a", each, each) for each in (case.asked, case.answered)}
    assert opened not in stored


class Refused(NamedTuple):
    name: str
    spec: Spec
    reason: Reason
    message: str


def patch(**fields: Any) -> dict[str, Any]:
    return {"kind": "patch", "patch": {"target": {"kind": "ConfigMap"}, **fields}}


PLUG_IN = {"kind": "example.com/s3", "parameters": {"bucket": "b"}}
REFUSED = [
    Refused("a reference that cannot be one", spec(image("UPPER")), Reason.INVALID_REFERENCE, "spec.sources[0].image."),
    Refused(
        "the second source", spec(image(), image("x@sha256:1")), Reason.INVALID_REFERENCE, "spec.sources[1].image.ref"
    ),
    Refused("a source that nobody serves", spec(PLUG_IN), Reason.UNKNOWN_SOURCE_KIND, "no plug-in for"),
    Refused("a format that nobody serves", spec(format="example.com/x"), Reason.UNKNOWN_FORMAT, "spec.format:"),
    Refused(
        "a processor that nobody serves",
        spec(processors=[{"kind": "example.com/x"}]),
        Reason.UNKNOWN_PROCESSOR,
        "spec.processors[0].kind: no plug-in",
    ),
    Refused(
        "the second processor",
        spec(processors=[patch(merge={}), patch()]),
        Reason.INVALID_CONFIG,
        "spec.processors[1].patch: set exactly one of",
    ),
    Refused("an option that the format does not know", spec(config={"x": 1}), Reason.INVALID_CONFIG, "spec.config"),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_an_invalid_spec_is_refused_before_anything_is_fetched(case: Refused) -> None:
    with pytest.raises(BundleError) as caught:
        check(case.spec)
    assert caught.value.reason is case.reason
    assert caught.value.message.startswith(case.message)


@pytest.mark.parametrize("levels", [100, 900])
def test_deep_nesting_is_refused_first(levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = {"a": [deep]} if levels == 100 else {"a": deep}
    with pytest.raises(
        BundleError, match=r"^InvalidConfig: spec.config: nested more than 100 levels deep; flatten it$"
    ):
        check(spec(config={"values": deep}))
    with pytest.raises(BundleError, match=r"spec.processors\[0\].patch: nested more than 100 levels deep"):
        check(spec(processors=[patch(json=[{"op": "add", "path": "/data", "value": deep}])]))
    plugged = {"kind": "example.com/s3", "parameters": {"deep": deep}}
    with pytest.raises(BundleError, match=r"spec.sources\[0\].parameters: nested more than 100 levels deep"):
        check(spec(plugged))


def test_a_config_that_is_too_large_is_refused_and_told_where_to_put_its_values() -> None:
    problem = "InvalidConfig: spec.config: larger than 256 KiB of JSON"
    remedy = "move values to a file in the content and list it in valuesFiles"
    with pytest.raises(BundleError, match=f"^{problem}; {remedy}$"):
        check(spec(format="helm", config={"values": {"a": [{}] * 90_000}}))
    check(spec(format="helm", config={"values": {"a": [{}] * 80_000}}))


def test_a_valid_spec_is_not_refused() -> None:
    check(spec())


def test_processors_that_are_too_large_are_refused() -> None:
    with pytest.raises(BundleError, match=r"^InvalidConfig: spec.processors: larger than 256 KiB of JSON; change more"):
        check(spec(processors=[patch(merge={"data": {"a": "x" * 200_000}})] * 2))


COSIGN = {"cosign": {"keys": [{"secret": {"name": "keys"}}]}}
OTHER_COSIGN = {"cosign": {"keys": [{"secret": {"name": "others"}}]}}


def checked(source: dict[str, Any]) -> SourcePin:
    """Return the pin of a source that has passed its `verify`."""
    before = spec(source)
    return pin(before).model_copy(
        update={
            "verified": Verified(by="cosign", key="sha256:a", at=RESOLVED_AT),
            "verify_digest": verify_digest(before.sources[0]),
            "keys_digest": DIGEST,
        }
    )


class Check(NamedTuple):
    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    is_used: bool
    is_checked_again: bool


CHECKS = [
    Check("the same verify", image(TAG, verify=COSIGN), image(TAG, verify=COSIGN), True, False),
    Check(
        "its default written out",
        image(TAG, verify=COSIGN),
        image(TAG, verify={"cosign": {**COSIGN["cosign"], "attestation": ""}}),
        True,
        False,
    ),
    Check("verify is added", image(TAG), image(TAG, verify=COSIGN), False, True),
    Check("verify names other keys", image(TAG, verify=COSIGN), image(TAG, verify=OTHER_COSIGN), False, True),
    Check("verify is removed", image(TAG, verify=COSIGN), image(TAG), True, False),
    Check("another tag", image(TAG, verify=COSIGN), image("registry.example.com/shop:2", verify=COSIGN), False, False),
]


@pytest.mark.parametrize("case", CHECKS, ids=attrgetter("name"))
def test_a_pin_is_used_only_if_it_has_passed_the_verify_of_its_source(case: Check) -> None:
    after, pins = spec(case.after), [checked(case.before)]
    assert (match_pins(after, pins) != (None,)) is case.is_used
    assert (find_unchecked(after, pins) != (None,)) is case.is_checked_again


@pytest.mark.parametrize("case", CHECKS[:-1], ids=attrgetter("name"))
def test_what_is_recorded_is_enough_if_it_may_be_used(case: Check) -> None:
    assert are_checked(spec(case.after), [checked(case.before)]) is case.is_used


@pytest.mark.parametrize("recorded", [(), (COSIGN,), (COSIGN, None), (OTHER_COSIGN, COSIGN), (COSIGN, COSIGN, COSIGN)])
def test_a_pin_that_has_passed_is_enough_only_for_its_own_source(recorded: tuple[dict[str, Any] | None, ...]) -> None:
    """A demand may be extended to one more source of several."""
    refs = ("registry.example.com/a:1", "registry.example.com/b:1", "registry.example.com/c:1")
    after = spec(*(image(ref, verify=COSIGN) for ref in refs[:2]))
    pins = [
        checked(image(ref, **({"verify": verify} if verify else {})))
        for ref, verify in zip(refs, recorded, strict=False)
    ]
    assert not are_checked(after, pins)
    assert are_checked(after, [checked(image(ref, verify=COSIGN)) for ref in refs[:2]])


def test_no_plug_in_is_needed_to_tell_what_is_checked() -> None:
    """It may have been removed since; what was installed with it stays."""
    removed = {"kind": "example.com/removed", "parameters": {"bucket": "a"}}
    recorded = pin(spec()).model_copy(update={"kind": "example.com/removed"})
    assert are_checked(spec(removed), [recorded])


def test_of_two_sources_with_the_same_content_each_gets_the_pin_that_has_passed_its_verify() -> None:
    first, second = image(TAG, verify=COSIGN), image(TAG, verify=OTHER_COSIGN)
    found = match_pins(spec(first, second), [checked(second), checked(first)])
    assert [each and each.verify_digest for each in found] == [
        checked(first).verify_digest,
        checked(second).verify_digest,
    ]


def test_without_verify_nobody_is_said_to_have_signed() -> None:
    after = spec(image(TAG))
    found = match_pins(after, [checked(image(TAG, verify=COSIGN))])[0]
    assert found is not None
    assert (found.verified, found.verify_digest, found.keys_digest) == (None, "", "")


def test_what_was_verified_is_an_input_that_random_values_do_not_depend_on() -> None:
    verified, unverified = spec(image(TAG, verify=COSIGN)), spec(image(TAG))
    signed = replace(request(verified), pins=(checked(image(TAG, verify=COSIGN)),))
    unsigned = replace(request(unverified), pins=(pin(unverified),))
    assert verified_sources(signed) == (True,)
    assert verified_sources(unsigned) == (False,)
    assert inputs_digest(signed) != inputs_digest(unsigned)
    capabilities = Capabilities(kubernetes_version="v1.36.3")
    assert rendering_digest(signed, "shop", capabilities) == rendering_digest(unsigned, "shop", capabilities)


def test_what_is_known_of_custom_kinds_is_an_input_if_it_decides() -> None:
    plain, kind = Capabilities(kubernetes_version="v1.36.3"), ("e.x", "v1", "Thing")
    made = replace(request(spec(image(TAG))), pins=(pin(spec(image(TAG))),))
    digests = [
        rendering_digest(made, "shop", replace(plain, custom={kind: CustomKind(has_status=status, schema=schema)}))
        for status, schema in [(True, {}), (False, {}), (True, {"nullable": True})]
    ]
    # As it was before custom kinds were known.
    expect = "sha256:7b3df266939a594958ad59cb72e2cde3b168d43b50ec92fe47db9ac3f519323d"
    assert rendering_digest(made, "shop", plain) == expect
    assert len({expect, *digests}) == len(digests) + 1


def test_a_pin_with_a_check_is_recorded_with_it_and_without_the_time() -> None:
    recorded = record_pins([checked(image(TAG, verify=COSIGN))])
    assert "verified" not in recorded[0]
    assert recall_pins(recorded)[0].verify_digest == checked(image(TAG, verify=COSIGN)).verify_digest


@pytest.mark.parametrize(
    ("tag", "version", "is_told"),
    [("v9.9.9", "1.0.0", True), ("9.9.9", "v9.9.9", False), ("latest", "1.0.0", False), ("9.9.9", "", False)],
)
def test_a_tag_of_another_version_than_the_signed_one_is_a_warning(tag: str, version: str, *, is_told: bool) -> None:
    made = pin(spec(image(TAG))).model_copy(update={"reference": tag, "verified_version": version})
    found = describe_versions([made])
    assert len(found) == is_told
    assert all(each.startswith(f'spec.sources[0]: "{tag}" leads to what was signed as version') for each in found)
