"""Signatures of cosign in a registry: where they are found, by how many requests, and what attackers may try."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Resolution, Signer, Trusted
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.chart import ChartSource
from rukpak.controller.sources.image import registry as registry_module
from rukpak.controller.sources.image.signed import MOST_SIGNATURES, SIGNATURE_BYTES
from rukpak.controller.sources.image.source import ImageSource
from tests.support.archives import tarball
from tests.support.cosigned import (
    EMPTY,
    SIGNATURE,
    SIMPLE_SIGNING,
    make_bundle,
    make_envelope,
    make_key,
    make_message,
    make_payload,
    make_statement,
    pem_of,
    sign,
    signed_bundle,
    store_bundle,
    store_referring,
    store_simply,
)
from tests.support.faulty_registry import OCI_MANIFEST, Faults, FaultyRegistry, digest_of
from tests.support.fulcio import ISSUER, SUBJECT, Sigstore

PATH = "spec.sources[0].image"
PROVENANCE = "https://slsa.dev/provenance/v1"
LAYER = tarball(("manifests/a.yaml", b"a: 1\n"))
SOURCE = ImageSource()


@cache
def key(number: int = 0) -> ec.EllipticCurvePrivateKey:
    return make_key()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyRegistry]:
    monkeypatch.setattr(registry_module, "_WITHOUT_REFERRERS", type(registry_module._WITHOUT_REFERRERS)())
    with FaultyRegistry() as registry:
        registry.add_image("v1", LAYER)
        yield registry


def parameters(registry: FaultyRegistry, tag: str = "v1", **cosign: Any) -> dict[str, Any]:
    verify = {"cosign": {"keys": [{"pem": pem_of(key())}], **cosign}}
    return {"ref": f"{registry.host}/org/bundle:{tag}", "verify": verify}


def digest(registry: FaultyRegistry, tag: str = "v1") -> str:
    return digest_of(registry.manifests[tag][1])


def failure(call: Callable[[], object], reason: Reason = Reason.VERIFICATION_FAILED) -> str:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.reason is reason, caught.value
    assert caught.value.message.startswith(f"{PATH}.verify")
    assert "\n" not in caught.value.message
    return caught.value.message


# how they are stored

Store = Callable[[FaultyRegistry], None]


def simply(registry: FaultyRegistry) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/bundle")
    store_simply(registry, digest(registry), (payload, sign(key(), payload)))


def as_bundle(registry: FaultyRegistry) -> None:
    store_bundle(registry, digest(registry), signed_bundle(key(), digest(registry)))


def without_predicate_type(registry: FaultyRegistry) -> None:
    store_bundle(registry, digest(registry), signed_bundle(key(), digest(registry)), "")


def as_message(registry: FaultyRegistry) -> None:
    store_bundle(registry, digest(registry), make_bundle(messageSignature=make_message(key(), digest(registry))), "")


def as_cosign_2_lists_it(registry: FaultyRegistry) -> None:
    store_bundle(registry, digest(registry), signed_bundle(key(), digest(registry)), listed_as=EMPTY)


def as_referrer(registry: FaultyRegistry) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/bundle")
    store_referring(registry, digest(registry), (payload, sign(key(), payload)))


def as_referrer_beside_a_bundle_by_another_key(registry: FaultyRegistry) -> None:
    store_bundle(registry, digest(registry), signed_bundle(key(1), digest(registry)))
    as_referrer(registry)


@pytest.mark.parametrize("lists_referrers", [True, False], ids=["referrers", "tags"])
@pytest.mark.parametrize("store", [as_referrer, as_referrer_beside_a_bundle_by_another_key])
def test_simple_signing_may_refer_to_the_image(
    store: Store, lists_referrers: bool, registry: FaultyRegistry, access: Access
) -> None:
    registry.lists_referrers = lists_referrers
    store(registry)
    assert SOURCE.resolve(parameters(registry), access).signer
    other = make_payload("sha256:" + "0" * 64, f"{registry.host}/org/bundle")
    store_referring(registry, digest(registry), (other, sign(key(), other)))
    assert SOURCE.resolve(parameters(registry), access).signer, "one that is of no use is passed over"


def test_simple_signing_by_another_key_that_refers_to_the_image_is_told(
    registry: FaultyRegistry, access: Access
) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/bundle")
    store_referring(registry, digest(registry), (payload, sign(key(1), payload)))
    assert "none of the keys" in failure(lambda: SOURCE.resolve(parameters(registry), access))


SIGNED_AS = ["ghcr.io/acme/shop", "docker.io/library/nginx", "nginx"]


@pytest.mark.parametrize("repository", SIGNED_AS)
def test_a_signature_that_was_copied_with_its_image_names_where_it_was_made(
    repository: str, registry: FaultyRegistry, access: Access
) -> None:
    """As by cosign copy, or the replication of Harbor."""
    payload = make_payload(digest(registry), repository)
    store_simply(registry, digest(registry), (payload, sign(key(), payload)))
    message = failure(lambda: SOURCE.resolve(parameters(registry), access))
    assert (
        f'another repository ("{repository}"); if it was copied from there, name that in verify.cosign.sig' in message
    )
    assert SOURCE.resolve(parameters(registry, signedAs=repository), access).signer
    failure(lambda: SOURCE.resolve(parameters(registry, signedAs="ghcr.io/acme/other"), access))


@pytest.mark.parametrize("text", ["ghcr.io/acme/shop:v1", "https://ghcr.io/acme/shop", "A B", f"a/b@sha256:{'a' * 64}"])
def test_what_was_signed_as_is_a_repository(text: str, registry: FaultyRegistry, access: Access) -> None:
    message = failure(lambda: SOURCE.resolve(parameters(registry, signedAs=text), access), Reason.INVALID_VERIFICATION)
    assert message.startswith(f"{PATH}.verify.cosign.signedAs: ")


STORES: list[Store] = [simply, as_bundle, without_predicate_type, as_message, as_cosign_2_lists_it]


@pytest.mark.parametrize("lists_referrers", [True, False], ids=["referrers", "tags"])
@pytest.mark.parametrize("store", STORES)
def test_a_signature_is_found_wherever_cosign_stores_it(
    store: Store, lists_referrers: bool, registry: FaultyRegistry, access: Access
) -> None:
    registry.lists_referrers = lists_referrers
    store(registry)
    SOURCE.resolve(parameters(registry), access)  # the first time, a registry may be asked for referrers in vain
    before = len(registry.requests)
    resolution = SOURCE.resolve(parameters(registry), access)
    assert resolution.signer is not None
    assert resolution.signer.by == "cosign"
    verifying = registry.requests[before:]
    assert verifying[0][:2] == ("HEAD", "/v2/org/bundle/manifests/v1")
    assert len(verifying) - 1 <= 3


def test_without_verify_nothing_more_is_asked(registry: FaultyRegistry, access: Access) -> None:
    SOURCE.resolve({"ref": f"{registry.host}/org/bundle:v1"}, access)
    assert len(registry.requests) == 1


def test_a_poll_that_finds_the_same_digest_asks_no_more_than_without(registry: FaultyRegistry, access: Access) -> None:
    signer = Signer(by="cosign", key="known")
    previous = Resolution(pinned="x", digest=digest(registry), signer=signer)
    found = SOURCE.resolve(parameters(registry), replace(access, previous=previous))
    assert found.signer is signer
    assert len(registry.requests) == 1


def test_what_is_pinned_is_checked_and_not_what_the_tag_names(registry: FaultyRegistry, access: Access) -> None:
    as_bundle(registry)
    pinned = Resolution(pinned="x", digest=digest(registry), reference="v1")
    registry.add_image("v1", tarball(("manifests/b.yaml", b"b: 1\n")))
    found = SOURCE.resolve(parameters(registry), replace(access, pinned=pinned))
    assert (found.pinned, found.digest, found.reference) == ("x", pinned.digest, "v1")
    assert found.signer is not None
    assert digest(registry) != pinned.digest
    failure(lambda: SOURCE.resolve(parameters(registry), access))


def test_what_is_pinned_and_gone_is_reported_as_such(registry: FaultyRegistry, access: Access) -> None:
    pinned = Resolution(pinned="x", digest="sha256:" + "0" * 64)
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve(parameters(registry), replace(access, pinned=pinned))
    assert caught.value.reason is Reason.PINNED_CONTENT_GONE


def test_keys_of_a_secret_are_used(registry: FaultyRegistry, access: Access) -> None:
    as_bundle(registry)
    asked = parameters(registry, keys=[{"secret": {"name": "keys"}}])
    keys = Trusted(data={".cosign.keys[0].secret": {"a.pub": pem_of(key()).encode()}})
    assert SOURCE.resolve(asked, replace(access, trusted=keys)).signer
    failure(lambda: SOURCE.resolve(asked, access), Reason.INVALID_VERIFICATION)


def test_an_image_that_was_signed_without_a_key(registry: FaultyRegistry, access: Access) -> None:
    sigstore, payload = Sigstore(), make_payload(digest(registry), f"{registry.host}/org/bundle")
    layer = {**registry.add_blob(payload, SIMPLE_SIGNING), "annotations": sigstore.annotate(payload)}
    registry.add_manifest(f"{digest(registry).replace(':', '-')}.sig", OCI_MANIFEST, layers=[layer])
    identity = {"issuer": ISSUER, "subject": SUBJECT}
    asked = parameters(registry, identities=[identity], trustedRoot={"configMap": {"name": "root"}})
    root = Trusted(data={".cosign.trustedRoot.configMap": {"trusted_root.json": sigstore.trusted_root}})
    signer = SOURCE.resolve(asked, replace(access, trusted=root)).signer
    assert signer == Signer(by="cosign", identity=SUBJECT, issuer=ISSUER)
    failure(lambda: SOURCE.resolve(parameters(registry), access))


# attestations


@pytest.mark.parametrize("lists_referrers", [True, False], ids=["referrers", "tags"])
def test_an_attestation_must_be_there_too(lists_referrers: bool, registry: FaultyRegistry, access: Access) -> None:
    registry.lists_referrers = lists_referrers
    as_bundle(registry)
    asked = parameters(registry, attestation=PROVENANCE)
    assert PROVENANCE in failure(lambda: SOURCE.resolve(asked, access))
    store_bundle(registry, digest(registry), signed_bundle(key(1), digest(registry), PROVENANCE), PROVENANCE)
    assert "none of the keys" in failure(lambda: SOURCE.resolve(asked, access))
    store_bundle(registry, digest(registry), signed_bundle(key(), digest(registry), PROVENANCE), PROVENANCE)
    assert SOURCE.resolve(asked, access).signer


def test_an_attestation_of_cosign_2_is_found_at_its_tag(registry: FaultyRegistry, access: Access) -> None:
    simply(registry)
    envelope = make_envelope(key(), make_statement(digest(registry), PROVENANCE))
    layer = registry.add_blob(json.dumps(envelope).encode(), "application/vnd.dsse.envelope.v1+json")
    about = {**layer, "annotations": {"predicateType": PROVENANCE}}
    registry.add_manifest(f"{digest(registry).replace(':', '-')}.att", OCI_MANIFEST, layers=[about])
    assert SOURCE.resolve(parameters(registry, attestation=PROVENANCE), access).signer


def test_an_attestation_of_cosign_2_without_a_key_is_not_supported(registry: FaultyRegistry, access: Access) -> None:
    simply(registry)
    envelope = make_envelope(key(1), make_statement(digest(registry), PROVENANCE))
    layer = registry.add_blob(json.dumps(envelope).encode(), "application/vnd.dsse.envelope.v1+json")
    about = {**layer, "annotations": {"predicateType": PROVENANCE, "dev.sigstore.cosign/certificate": "PEM"}}
    registry.add_manifest(f"{digest(registry).replace(':', '-')}.att", OCI_MANIFEST, layers=[about])
    signers = {"issuer": "https://issuer.example.com", "subject": "somebody@example.com"}
    asked = parameters(registry, attestation=PROVENANCE)
    asked["verify"]["cosign"]["identities"] = [signers]
    assert "without a key in the form of cosign 2, which is not supported" in failure(
        lambda: SOURCE.resolve(asked, access)
    )


def test_an_attestation_is_no_signature(registry: FaultyRegistry, access: Access) -> None:
    bundle = signed_bundle(key(), digest(registry), PROVENANCE)
    store_bundle(registry, digest(registry), bundle, "")
    assert "it is an attestation of type" in failure(lambda: SOURCE.resolve(parameters(registry), access))


# attacks


@dataclass(frozen=True)
class Attack:
    name: str
    prepare: Callable[[FaultyRegistry], None]
    problem: str


def other(registry: FaultyRegistry) -> str:
    """Add another image, and return its digest."""
    return registry.add_image("other", tarball(("manifests/b.yaml", b"b: 1\n")))


def copy_tag(registry: FaultyRegistry) -> None:
    found, payload = other(registry), make_payload(other(registry), f"{registry.host}/org/bundle")
    store_simply(registry, found, (payload, sign(key(), payload)))
    registry.manifests[f"{digest(registry).replace(':', '-')}.sig"] = registry.manifests[
        f"{found.replace(':', '-')}.sig"
    ]


def copy_bundle(registry: FaultyRegistry) -> None:
    store_bundle(registry, digest(registry), signed_bundle(key(), other(registry)))


def copy_from_repository(registry: FaultyRegistry) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/another")
    store_simply(registry, digest(registry), (payload, sign(key(), payload)))


def another_kind(registry: FaultyRegistry) -> None:
    registry.lists_referrers = True
    store_bundle(registry, digest(registry), signed_bundle(key(), digest(registry)), kind="application/vnd.example.x")


def another_kind_of_layer(registry: FaultyRegistry) -> None:
    layer = registry.add_blob(signed_bundle(key(), digest(registry)), "application/vnd.example.x")
    kind = "application/vnd.dev.sigstore.bundle.v0.3+json"
    subject = {"digest": digest(registry)}
    registry.lists_referrers = True
    registry.add_manifest("", OCI_MANIFEST, artifactType=kind, subject=subject, layers=[layer])


def by_another_key(registry: FaultyRegistry) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/bundle")
    store_simply(registry, digest(registry), (payload, sign(key(1), payload)))
    store_bundle(registry, digest(registry), signed_bundle(key(1), digest(registry)))


def too_large(registry: FaultyRegistry) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/bundle") + b" " * SIGNATURE_BYTES
    store_simply(registry, digest(registry), (payload, sign(key(), payload)))


def changed_on_the_way(registry: FaultyRegistry) -> None:
    simply(registry)
    registry.faults = Faults(where="/blobs/", body=b"{}")


def nonsense(registry: FaultyRegistry) -> None:
    registry.add_document(f"{digest(registry).replace(':', '-')}.sig", OCI_MANIFEST, b"<html>")
    registry.add_document(digest(registry).replace(":", "-"), OCI_MANIFEST, b"nonsense")


ATTACKS = [
    Attack("nobody has signed it", lambda _: None, "has no signature; sign it with cosign"),
    Attack("a copied tag", copy_tag, "another digest"),
    Attack("a copied bundle", copy_bundle, "about another digest"),
    Attack("a copy from another repository", copy_from_repository, "another repository"),
    Attack("a referrer of another type", another_kind, "has no signature; "),
    Attack("a referrer with another content", another_kind_of_layer, "the artifact has no bundle"),
    Attack("signatures by another key", by_another_key, "none of the keys has made the signature (and 1 more)"),
    Attack("an oversized signature", too_large, "it cannot be read"),
    Attack("a signature that was changed", changed_on_the_way, "it cannot be read"),
    Attack("nonsense in place of signatures", nonsense, "it cannot be read"),
]


@pytest.mark.parametrize("case", ATTACKS, ids=attrgetter("name"))
def test_attack(case: Attack, registry: FaultyRegistry, access: Access) -> None:
    case.prepare(registry)
    assert case.problem in failure(lambda: SOURCE.resolve(parameters(registry), access))
    layers = [path for _, path, _ in registry.requests if digest_of(LAYER) in path]
    assert layers == []


def test_attack_an_index_is_signed_and_not_its_images(registry: FaultyRegistry, access: Access) -> None:
    image = digest(registry)
    index = registry.add_index("index", {"linux/amd64": image})
    store_bundle(registry, index, signed_bundle(key(), index))
    assert SOURCE.resolve(parameters(registry, "index"), access).digest == index
    failure(lambda: SOURCE.resolve(parameters(registry), access))


def test_attack_an_image_is_signed_and_not_the_index(registry: FaultyRegistry, access: Access) -> None:
    as_bundle(registry)
    registry.add_index("index", {"linux/amd64": digest(registry)})
    failure(lambda: SOURCE.resolve(parameters(registry, "index"), access))
    assert SOURCE.resolve(parameters(registry), access).signer


@pytest.mark.parametrize("lists_referrers", [True, False], ids=["referrers", "tags"])
def test_attack_a_thousand_referrers_are_not_all_read(
    lists_referrers: bool, registry: FaultyRegistry, access: Access
) -> None:
    registry.lists_referrers = lists_referrers
    bundle = signed_bundle(key(1), digest(registry))
    kind = "application/vnd.dev.sigstore.bundle.v0.3+json"
    layer = registry.add_blob(bundle, kind)
    entries = []
    for number in range(1000):
        about = {
            "artifactType": kind,
            "annotations": {"dev.sigstore.bundle.predicateType": SIGNATURE, "n": str(number)},
        }
        subject = {"digest": digest(registry)}
        made = registry.add_manifest("", OCI_MANIFEST, subject=subject, layers=[layer], **about)
        entries.append({"mediaType": OCI_MANIFEST, "digest": made, "size": 1, **about})
    if not lists_referrers:
        registry.add_manifest(
            digest(registry).replace(":", "-"), "application/vnd.oci.image.index.v1+json", manifests=entries
        )
    message = failure(lambda: SOURCE.resolve(parameters(registry), access))
    assert "none of the keys" in message
    assert len(registry.requests) <= 2 * MOST_SIGNATURES + 8


def test_a_hundred_signatures_at_the_tag_are_not_all_read(registry: FaultyRegistry, access: Access) -> None:
    payloads = [make_payload(digest(registry), f"{registry.host}/org/bundle", n=number) for number in range(100)]
    store_simply(registry, digest(registry), *((each, b"x") for each in payloads))
    assert f"only the first {MOST_SIGNATURES} of 100" in failure(lambda: SOURCE.resolve(parameters(registry), access))
    assert len(registry.requests) <= MOST_SIGNATURES + 8


def test_the_right_one_of_several_signatures_is_found(registry: FaultyRegistry, access: Access) -> None:
    payload = make_payload(digest(registry), f"{registry.host}/org/bundle")
    store_simply(registry, digest(registry), (payload, sign(key(1), payload)), (payload, sign(key(), payload)))
    assert SOURCE.resolve(parameters(registry), access).signer


# a registry in trouble


@pytest.mark.parametrize("where", [".sig", "/blobs/", "/manifests/sha256-"])
def test_a_registry_that_fails_is_asked_again_later(where: str, registry: FaultyRegistry, access: Access) -> None:
    simply(registry)
    registry.faults = Faults(where=where, status=503, headers={"Retry-After": "3599"})
    failure(lambda: SOURCE.resolve(parameters(registry), access), Reason.VERIFICATION_UNAVAILABLE)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 500, 501])
def test_a_registry_that_does_not_know_referrers_may_say_so_as_it_likes(
    status: int, registry: FaultyRegistry, access: Access
) -> None:
    simply(registry)
    registry.faults = Faults(where="/referrers/", status=status)
    assert SOURCE.resolve(parameters(registry), access).signer


def test_another_registry_behind_a_host_without_referrers_is_asked_before_a_signature_is_missed(
    registry: FaultyRegistry, access: Access
) -> None:
    simply(registry)
    SOURCE.resolve(parameters(registry), access)
    registry.add_image("v2", tarball(("manifests/b.yaml", b"b: 1\n")))
    registry.lists_referrers = True
    store_bundle(registry, digest(registry, "v2"), signed_bundle(key(), digest(registry, "v2")))
    assert SOURCE.resolve(parameters(registry, "v2"), access).signer


# charts


def chart(registry: FaultyRegistry, **cosign: Any) -> dict[str, Any]:
    verify = {"cosign": {"keys": [{"pem": pem_of(key())}], **cosign}}
    return {"repository": f"oci://{registry.host}/org", "name": "bundle", "version": "1.0.0", "verify": verify}


def add_chart(registry: FaultyRegistry, name: str = "bundle", version: str = "1.0.0") -> str:
    """Add a chart as helm push does, and return the digest of its manifest."""
    config = registry.add_blob(
        json.dumps({"name": name, "version": version}).encode(), "application/vnd.cncf.helm.config.v1+json"
    )
    layer = registry.add_blob(b"chart", "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
    return registry.add_manifest("1.0.0", OCI_MANIFEST, config=config, layers=[layer])


def test_a_chart_in_a_registry_is_signed_by_its_manifest(registry: FaultyRegistry, access: Access) -> None:
    manifest = add_chart(registry)
    source, asked = ChartSource(), chart(registry)
    failure(lambda: source.resolve(asked, access))
    store_bundle(registry, manifest, signed_bundle(key(), manifest))
    found = source.resolve(asked, access)
    assert (found.digest, found.signer is not None) == (digest_of(b"chart"), True)
    again = source.resolve(asked, replace(access, pinned=found, previous=None))
    assert (again.pinned, again.signer) == (found.pinned, found.signer)


def test_a_pinned_chart_whose_version_was_pushed_again_is_not_checked_by_the_other_one(
    registry: FaultyRegistry, access: Access
) -> None:
    pinned = Resolution(pinned=f"oci://{registry.host}/org/bundle:1.0.0@{digest_of(b'old')}", digest=digest_of(b"old"))
    manifest = add_chart(registry)
    store_bundle(registry, manifest, signed_bundle(key(), manifest))
    with pytest.raises(BundleError) as caught:
        ChartSource().resolve(chart(registry), replace(access, pinned=pinned))
    assert caught.value.reason is Reason.PINNED_CONTENT_GONE


def test_a_signature_of_the_chart_itself_is_none_of_its_manifest(registry: FaultyRegistry, access: Access) -> None:
    manifest = add_chart(registry)
    store_bundle(registry, manifest, signed_bundle(key(), digest_of(b"chart")))
    assert "another digest" in failure(lambda: ChartSource().resolve(chart(registry), access))


# the version that was signed


def annotated(version: str) -> dict[str, Any]:
    return {"annotations": {"org.opencontainers.image.version": version}} if version else {}


def push_signed(registry: FaultyRegistry, tag: str, version: str) -> str:
    """Add a signed image that says it is a version, or nothing."""
    made = registry.add_image(tag, tarball(("manifests/a.yaml", version.encode())), **annotated(version))
    store_bundle(registry, made, signed_bundle(key(), made))
    return made


def in_range(registry: FaultyRegistry, **verify: Any) -> dict[str, Any]:
    cosign = {"keys": [{"pem": pem_of(key())}]}
    ref = f"{registry.host}/org/bundle"
    return {"ref": ref, "semver": ">=1.0.0-0", "verify": {"cosign": cosign, **verify}}


@pytest.mark.parametrize(
    ("tag", "version"),
    [("9.9.9", "9.9.9"), ("v9.9.9", "9.9.9"), ("9.9.9", "v9.9.9"), ("9.9.9_build.1", "9.9.9+build.1")],
)
def test_a_range_leads_to_a_tag_that_is_the_version_of_the_signed_image(
    tag: str, version: str, registry: FaultyRegistry, access: Access
) -> None:
    made = push_signed(registry, tag, version)
    found = SOURCE.resolve(in_range(registry), access)
    assert found.signer
    assert (found.digest, found.version, found.signer.version) == (made, tag, version)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.0.0", 'says "1.0.0"'), ("", "is missing"), ("9.9.9-rc.1", 'says "9.9.9-rc.1"'), ("vv9.9.9", 'says "vv9.9.9"')],
)
def test_attack_a_signed_old_image_under_a_newer_tag(
    version: str, expected: str, registry: FaultyRegistry, access: Access
) -> None:
    """Who may push tags, and not sign, lets 9.9.9 name what was signed as 1.0.0."""
    push_signed(registry, "9.9.9", version)
    found = failure(lambda: SOURCE.resolve(in_range(registry), access))
    assert found.startswith(f'{PATH}.verify.version: tag "9.9.9" is not the version of the signed image')
    assert expected in found
    taken = SOURCE.resolve(in_range(registry, version="Tag"), access)
    assert taken.signer
    assert (taken.version, taken.signer.version) == ("9.9.9", version), "which is compared with what is installed"


def test_attack_a_newer_tag_for_what_is_installed(registry: FaultyRegistry, access: Access) -> None:
    """A poll that finds the digest that it knows checks no signature, but the tag."""
    push_signed(registry, "1.0.0", "1.0.0")
    before = SOURCE.resolve(in_range(registry), access)
    push_signed(registry, "9.9.9", "1.0.0")
    known = replace(access, previous=before)
    assert 'says "1.0.0"' in failure(lambda: SOURCE.resolve(in_range(registry), known))
    del registry.manifests["9.9.9"]
    asked = len(registry.requests)
    again = SOURCE.resolve(in_range(registry), known)
    assert again.signer is before.signer
    assert len(registry.requests) - asked == 2, "the tags, and the digest"


def test_a_label_of_the_config_is_not_the_version(registry: FaultyRegistry, access: Access) -> None:
    """Most images have that of their base image there."""
    text = json.dumps({"config": {"Labels": {"org.opencontainers.image.version": "9.9.9"}}}).encode()
    config = registry.add_blob(text, "application/vnd.oci.image.config.v1+json")
    made = registry.add_image("9.9.9", LAYER, config=config)
    store_bundle(registry, made, signed_bundle(key(), made))
    assert "is missing" in failure(lambda: SOURCE.resolve(in_range(registry), access))


@pytest.mark.parametrize(
    ("of_index", "of_image", "is_accepted"),
    [("9.9.9", "", True), ("", "9.9.9", True), ("9.9.9", "1.0.0", True), ("1.0.0", "9.9.9", False), ("", "", False)],
)
def test_builders_annotate_an_index_or_the_images_in_it(
    of_index: str, of_image: str, *, is_accepted: bool, registry: FaultyRegistry, access: Access
) -> None:
    image = registry.add_image("inner", LAYER, **annotated(of_image))
    made = registry.add_index("9.9.9", {"linux/amd64": image}, **annotated(of_index))
    store_bundle(registry, made, signed_bundle(key(), made))
    if is_accepted:
        assert SOURCE.resolve(in_range(registry), access).digest == made
    else:
        failure(lambda: SOURCE.resolve(in_range(registry), access))


@pytest.mark.parametrize(("tag", "version"), [("9.9.9", "1.0.0"), ("9.9.9", ""), ("latest", "")])
def test_of_a_tag_that_the_spec_names_the_version_is_only_recorded(
    tag: str, version: str, registry: FaultyRegistry, access: Access
) -> None:
    push_signed(registry, tag, version)
    found = SOURCE.resolve(parameters(registry, tag), access)
    assert found.signer
    assert found.signer.version == version


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("bundle", "1.0.0", ""),
        ("bundle", "0.9.0", 'version "1.0.0" is not that of the signed chart, which is "0.9.0"'),
        ("other", "1.0.0", 'the signed chart is "other", and not "bundle"'),
        ("", "", 'the signed chart is "", and not "bundle"'),
    ],
)
def test_attack_a_signed_old_chart_under_a_newer_version(
    name: str, version: str, expected: str, registry: FaultyRegistry, access: Access
) -> None:
    manifest = add_chart(registry, name, version)
    store_bundle(registry, manifest, signed_bundle(key(), manifest))
    asked = chart(registry)
    if expected:
        assert expected in failure(lambda: ChartSource().resolve(asked, access))
    else:
        found = ChartSource().resolve(asked, access)
        assert found.signer
        assert found.signer.version == version
