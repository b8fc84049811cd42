"""When the signature of a source is checked, and that nothing of it is used without that."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Entry, Limits, Resolution, Signer, Source, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import SourcePin, Spec
from rukpak.api.v1alpha2.verification import Demanded
from rukpak.controller.building import fetching
from rukpak.controller.building import request as request_module
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.entry_points import source_of
from rukpak.controller.building.request import (
    BuildContext,
    BuildSettings,
    Pins,
    Resolved,
    find_unchecked,
    match_pins,
    meets_demand,
)
from rukpak.controller.content.store import ContentStore
from tests.support.deployments import DIGEST, OTHER_DIGEST, RESOLVED_AT, image, pin, spec

SIGNER = Signer(by="cosign", key="sha256:a")
VERIFY = {"cosign": {"keys": [{"secret": {"name": "keys"}}]}}
SIGNED = spec(image("registry.example.com/shop:1", verify=VERIFY))
UNSIGNED = BundleError(Reason.VERIFICATION_FAILED, "spec.sources[0].image.verify: no signature")


class Signing(Source):
    """A source whose tag names `digest` now, and that is signed by `signer`."""

    def __init__(self) -> None:
        self.digest, self.signer = DIGEST, SIGNER
        self.checks: list[str] = []
        self.returns_pinned = False
        self.signed_with: set[str] | None = None
        """Which keys have signed it; None: all."""
        self.unsigned = UNSIGNED
        self.answer: BundleError | Resolution | None = None
        self.asked: list[Mapping[str, Any]] = []
        """Parameters of requests."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return []

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"ref": parameters["ref"]}

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        self.asked.append(parameters)
        if isinstance(self.answer, BundleError):
            raise self.answer
        if self.answer:
            return self.answer
        if self.returns_pinned and access.pinned:
            return access.pinned
        digest = access.pinned.digest if access.pinned else self.digest
        signer = access.known_signer(digest)
        if not signer:
            self.checks.append(digest)
            if self.signed_with is not None and not self.signed_with & access.trusted.data.keys():
                raise self.unsigned
        return Resolution(pinned=f"shop@{digest}", digest=digest, signer=signer or self.signer)

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        return resolution.digest

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        self.asked.append(parameters)
        yield Entry(path="a", size=1, data=io.BytesIO(b"a"))


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> Signing:
    made = Signing()
    for module in (fetching, request_module):
        monkeypatch.setattr(module, "source_of", lambda kind: made if kind == "image" else source_of(kind))
    return made


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    settings = BuildSettings(store_bytes=1 << 20, limits=Limits(), timeout=60)
    return Builder(ContentStore(tmp_path / "store"), settings, lambda: RESOLVED_AT)


def context(keys: str = "v1", **fields: Any) -> BuildContext:
    return BuildContext(trusted=lambda _index, _source: Trusted(identity=keys), **fields)


def resolve(builder: Builder, pins: Pins = (None,), made: BuildContext | None = None) -> Resolved:
    return builder.resolve(SIGNED, pins, threading.Event(), made or context())


def test_a_pin_records_who_has_signed(signing: Signing, builder: Builder) -> None:
    (found,) = resolve(builder).found
    assert found.verified is not None
    assert (found.verified.by, found.verified.key, found.verified.at) == ("cosign", "sha256:a", RESOLVED_AT)
    assert match_pins(SIGNED, [found])[0] is not None


def test_a_source_that_checks_nothing_gets_no_pin(signing: Signing, builder: Builder) -> None:
    signing.answer = Resolution(pinned="shop", digest=DIGEST)
    resolved = resolve(builder)
    assert resolved.pins == (None,)
    assert resolved.failure is not None
    assert resolved.failure.reason is Reason.VERIFICATION_FAILED


def test_keys_that_cannot_be_read_end_it_before_the_source_is_asked(signing: Signing, builder: Builder) -> None:
    def _refuse(_index: int, _source: object) -> Trusted:
        raise BundleError(Reason.SECRET_NOT_FOUND, "spec.sources[0].image.verify.cosign.keys[0].secret: it is missing")

    resolved = resolve(builder, made=BuildContext(trusted=_refuse))
    assert resolved.failure is not None
    assert resolved.failure.reason is Reason.SECRET_NOT_FOUND
    assert signing.checks == []


def before(**fields: Any) -> SourcePin:
    """Return a pin that was recorded before `verify` was set."""
    return pin(SIGNED).model_copy(update=fields)


def test_a_new_verify_checks_the_recorded_digest_and_not_what_the_tag_names_now(
    signing: Signing, builder: Builder
) -> None:
    signing.digest = OTHER_DIGEST
    resolved = resolve(builder, made=context(unchecked=find_unchecked(SIGNED, [before()])))
    assert signing.checks == [DIGEST]
    assert [(each.digest, each.resolved_at, each.verified is not None) for each in resolved.found] == [
        (DIGEST, RESOLVED_AT, True)
    ]


def test_a_check_that_fails_leaves_the_pin_so_that_it_is_checked_again(signing: Signing, builder: Builder) -> None:
    signing.answer = UNSIGNED
    resolved = resolve(builder, made=context(unchecked=(before(),)))
    assert resolved.failure is not None
    assert resolved.found == (before(),)
    assert match_pins(SIGNED, resolved.found) == (None,)


def test_the_signature_of_other_content_than_the_recorded_one_is_none(signing: Signing, builder: Builder) -> None:
    signing.answer = Resolution(pinned="shop", digest=OTHER_DIGEST, signer=SIGNER)
    resolved = resolve(builder, made=context(unchecked=(before(),)))
    assert resolved.failure is not None
    assert resolved.failure.reason is Reason.VERIFICATION_FAILED


def test_a_poll_that_finds_the_same_digest_checks_nothing(signing: Signing, builder: Builder) -> None:
    (first,) = resolve(builder).found
    later = first.model_copy(update={"verified": first.verified and first.verified.model_copy(update={"key": "old"})})
    (found,) = resolve(builder, made=context(previous=(later,))).found
    assert signing.checks == [DIGEST]
    assert found.verified == later.verified


def test_a_poll_with_other_keys_checks_the_same_digest_again(signing: Signing, builder: Builder) -> None:
    pins = resolve(builder).pins
    resolve(builder, made=context("v2", previous=pins))
    assert signing.checks == [DIGEST, DIGEST]


def test_a_poll_that_finds_another_digest_checks_that(signing: Signing, builder: Builder) -> None:
    pins = resolve(builder).pins
    signing.digest = OTHER_DIGEST
    resolve(builder, made=context(previous=pins))
    assert signing.checks == [DIGEST, OTHER_DIGEST]


def test_who_signed_before_is_nobody_for_another_digest() -> None:
    previous = Resolution(pinned="a", digest=DIGEST, signer=SIGNER)
    access = replace(_access(), previous=previous)
    assert access.known_signer(DIGEST) is SIGNER
    assert access.known_signer(OTHER_DIGEST) is None
    assert _access().known_signer(DIGEST) is None


def _access() -> Access:
    return Access(path="x", deadline=0, cancelled=threading.Event(), scratch=Path())


DEMANDED = Demanded(verification=SIGNED.sources[0].verification, keys="/keys")
PLAIN = spec(image("registry.example.com/shop:1"))


def demanding(own: Spec, demanded: Demanded = DEMANDED) -> Spec:
    """Return a spec with a signature that the administrator demands."""
    return own.model_copy(update={"sources": tuple(each.demanding(demanded) for each in own.sources)})


def ask(builder: Builder, asked: Spec, **fields: Any) -> Resolved:
    made = BuildContext(
        trusted=lambda _index, _source: Trusted(data={"own": {}}, identity="own"),
        demanded=lambda _index, _source: Trusted(data={"administrator": {}}, identity="administrator"),
        **fields,
    )
    return builder.resolve(asked, (None,), threading.Event(), made)


@pytest.mark.parametrize("own", [PLAIN, SIGNED])
@pytest.mark.parametrize("signed_with", [set[str](), {"own"}])
def test_what_lacks_the_signature_that_the_administrator_demands_gets_no_pin(
    signing: Signing, builder: Builder, own: Spec, signed_with: set[str]
) -> None:
    signing.signed_with = signed_with
    resolved = ask(builder, demanding(own))
    assert resolved.pins == (None,)
    assert resolved.failure is not None
    assert resolved.failure.reason is Reason.VERIFICATION_FAILED


def test_the_signature_that_the_administrator_demands_is_enough_without_a_verify(
    signing: Signing, builder: Builder
) -> None:
    signing.signed_with = {"administrator"}
    assert ask(builder, demanding(PLAIN)).found
    assert not ask(builder, demanding(SIGNED)).found


def test_both_signatures_are_of_one_digest(signing: Signing, builder: Builder) -> None:
    signing.signed_with = {"administrator", "own"}
    (found,) = ask(builder, demanding(SIGNED)).found
    assert found.verified
    assert signing.checks == [DIGEST, DIGEST]


def test_a_plug_in_cannot_pass_off_one_signature_as_the_other(signing: Signing, builder: Builder) -> None:
    """One that returns what it was given, without a look at the signature."""

    signing.returns_pinned = True
    resolved = ask(builder, demanding(SIGNED))
    assert resolved.failure is not None
    assert "the signature was not checked" in resolved.failure.message


def test_a_new_demand_checks_what_is_pinned_and_an_old_pin_is_not_used_without(
    signing: Signing, builder: Builder
) -> None:
    (old,) = ask(builder, SIGNED).found
    asked = demanding(SIGNED)
    assert match_pins(asked, [old]) == (None,)
    signing.digest = OTHER_DIGEST
    signing.checks.clear()
    (new,) = ask(builder, asked, unchecked=find_unchecked(asked, [old])).found
    assert (new.digest, signing.checks) == (DIGEST, [DIGEST, DIGEST])
    assert match_pins(asked, [new])[0] is not None
    other = demanding(SIGNED, replace(DEMANDED, keys="/others"))
    assert match_pins(other, [new]) == match_pins(SIGNED, [new]) == (None,)


def test_a_pin_tells_whether_it_has_passed_a_demand_whatever_its_own_verify_was(
    signing: Signing, builder: Builder
) -> None:
    pinned = {name: ask(builder, made).found[0] for name, made in (("demanded", demanding(SIGNED)), ("own", SIGNED))}
    found = {name: meets_demand(demanding(PLAIN).sources[0], each) for name, each in pinned.items()}
    assert found == {"demanded": True, "own": False}
    other = demanding(PLAIN, replace(DEMANDED, keys="/others")).sources[0]
    assert not meets_demand(other, pinned["demanded"])
    assert meets_demand(PLAIN.sources[0], pinned["own"])


def test_a_request_spells_the_place_as_the_demand_does(signing: Signing, builder: Builder) -> None:
    source = PLAIN.sources[0].requesting("ssh://git@example.com/acme/shop")
    made = PLAIN.model_copy(update={"sources": (source,)})
    assert ask(builder, made).found[0].spec_digest == ask(builder, PLAIN).found[0].spec_digest
    assert [each.get("repository") for each in signing.asked] == ["ssh://git@example.com/acme/shop", None]


@pytest.mark.parametrize("field", [".verify", ".verify.cosign", ".verify.cosign.keys[0].secret", ".verify.secret"])
@pytest.mark.parametrize("own", [PLAIN, SIGNED])
def test_a_failure_of_a_demand_names_no_field_that_the_spec_need_not_have(
    signing: Signing, builder: Builder, own: Spec, field: str
) -> None:
    signing.signed_with = {"own"}
    place = f"spec.sources[0].image{field}"
    signing.unsigned = BundleError(Reason.VERIFICATION_FAILED, "none: at all", place=place, retry_after=7.0)
    failure = ask(builder, demanding(own)).failure
    assert failure is not None
    assert failure.message == "spec.sources[0].image: --require-verified of the administrator: none: at all"
    assert (failure.reason, failure.retry_after) == (Reason.VERIFICATION_FAILED, 7.0)


@pytest.mark.parametrize("field", [".ref", ".verified", ": verify"])
def test_other_failures_of_a_source_with_a_demand_name_their_field(
    signing: Signing, builder: Builder, field: str
) -> None:
    signing.answer = BundleError(Reason.NOT_FOUND, "it is missing", place=f"spec.sources[0].image{field}")
    failure = ask(builder, demanding(PLAIN)).failure
    assert failure is not None
    assert failure.message == f"spec.sources[0].image{field}: it is missing"


def test_a_failure_of_the_own_verify_names_it(signing: Signing, builder: Builder) -> None:
    signing.signed_with = {"administrator"}
    failure = ask(builder, demanding(SIGNED)).failure
    assert failure is not None
    assert failure.message == UNSIGNED.message


def test_what_nobody_can_sign_is_refused_without_asking(signing: Signing, builder: Builder) -> None:
    resolved = ask(builder, demanding(PLAIN, Demanded(verification=None, keys="/keys", problem="nobody can sign it")))
    assert resolved.failure is not None
    assert resolved.failure.message == "spec.sources[0].image: nobody can sign it"
    assert signing.checks == []
