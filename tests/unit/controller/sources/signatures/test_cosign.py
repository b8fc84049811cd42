"""Which signatures of cosign are accepted: by which keys, of what."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.cosign import (
    SIGNATURE,
    Checked,
    Subject,
    Wanted,
    check_bundle,
    check_envelope,
    check_payload,
    read_wanted,
)
from tests.support.cosigned import (
    PrivateKey,
    encode,
    make_bundle,
    make_envelope,
    make_message,
    make_payload,
    make_statement,
    pem_of,
    sign,
    signed_bundle,
)

PATH = "spec.sources[0].image.verify.cosign"
DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
REPOSITORY = "registry.example.com/shop/app"
SUBJECT = Subject(digest=DIGEST, repository=REPOSITORY)

MAKERS: dict[str, Callable[[], PrivateKey]] = {
    "ECDSA P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ECDSA P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ECDSA P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@cache
def key(kind: str = "ECDSA P-256", number: int = 0) -> PrivateKey:
    return MAKERS[kind]()


def wanted(*keys: PrivateKey) -> Wanted:
    return read_wanted({"keys": [{"pem": pem_of(each)} for each in keys]}, {}, PATH)


def check_signed(payload: bytes, signature: bytes, asked: Wanted | None = None, subject: Subject = SUBJECT) -> Checked:
    annotations = {"dev.cosignproject.cosign/signature": encode(signature)}
    return check_payload(payload, annotations, subject, asked or wanted(key()))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_signature_by_each_type_of_key_is_accepted_in_each_form(kind: str) -> None:
    made, payload = key(kind), make_payload(DIGEST, REPOSITORY)
    asked = wanted(key(number=1), made)
    name = asked.keys[1][0]
    assert check_signed(payload, sign(made, payload), asked).signer.key == name
    checked = check_bundle(signed_bundle(made, DIGEST), SUBJECT, asked)
    assert (checked.signer.key, checked.predicate_type) == (name, SIGNATURE)


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "Ed25519"])
def test_the_signature_of_a_digest_is_accepted_without_the_content(kind: str) -> None:
    checked = check_bundle(make_bundle(messageSignature=make_message(key(kind), DIGEST)), SUBJECT, wanted(key(kind)))
    assert checked.predicate_type == ""


@pytest.mark.parametrize(("kind", "algorithm"), [("ECDSA P-384", hashes.SHA384()), ("ECDSA P-521", hashes.SHA512())])
def test_a_larger_curve_signs_with_its_own_hash_too(kind: str, algorithm: hashes.HashAlgorithm) -> None:
    bundle = make_bundle(dsseEnvelope=make_envelope(key(kind), make_statement(DIGEST), algorithm))
    assert check_bundle(bundle, SUBJECT, wanted(key(kind))).signer.by == "cosign"


@dataclass(frozen=True)
class Refused:
    name: str
    call: Callable[[], object]
    problem: str


def payload_of(digest: str = DIGEST, reference: Any = REPOSITORY, **critical: Any) -> Callable[[], object]:
    payload = make_payload(digest, reference, **critical)
    return lambda: check_signed(payload, sign(key(), payload))


def bundle_of(**content: Any) -> Callable[[], object]:
    return lambda: check_bundle(make_bundle(**content), SUBJECT, wanted(key()))


def envelope_of(payload: bytes, /, **changes: Any) -> Callable[[], object]:
    return bundle_of(dsseEnvelope={**make_envelope(key(), payload), **changes})


def changed(document: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(document), **changes}).encode()


ENVELOPE, MESSAGE = make_envelope(key(), make_statement(DIGEST)), make_message(key(), DIGEST)
ANOTHER = make_envelope(key(number=1), make_statement(DIGEST))
TWICE = {"signatures": [*ENVELOPE["signatures"], *ANOTHER["signatures"]]}
KEYLESS = {"verificationMaterial": {"certificate": {"rawBytes": "MA=="}}}
REFUSED = [
    Refused("the signature of another digest", payload_of(OTHER), "another digest"),
    Refused("a copy from another repository", payload_of(reference="registry.example.com/shop/other"), "another repo"),
    Refused("a copy from another registry", payload_of(reference="example.com/shop/app"), "another repository"),
    Refused("a reference that is none", payload_of(reference="A B"), "another repository"),
    Refused("a reference that is no text", payload_of(reference=[REPOSITORY]), "another repository"),
    Refused("another type of document", payload_of(type="something else"), "not an image"),
    Refused("a document without image", payload_of(image=None), "another digest"),
    Refused(
        "another key", lambda: check_signed(make_payload(DIGEST), sign(key(number=1), make_payload(DIGEST))), "none"
    ),
    Refused("a changed document", lambda: check_signed(make_payload(DIGEST), sign(key(), b"")), "none of the keys"),
    Refused("no signature", lambda: check_signed(make_payload(DIGEST), b""), "none of the keys"),
    Refused(
        "no annotation", lambda: check_payload(make_payload(DIGEST), {}, SUBJECT, wanted(key())), "none of the keys"
    ),
    Refused("a document that is none", lambda: check_signed(b"x", sign(key(), b"x")), "not JSON"),
    Refused("a list as document", lambda: check_signed(b"[]", sign(key(), b"[]")), "not an object"),
    Refused("a deep document", lambda: check_signed(b"[" * 10**5, sign(key(), b"[" * 10**5)), "not JSON"),
    Refused("no bundle", lambda: check_bundle(b"x", SUBJECT, wanted(key())), "not JSON"),
    Refused(
        "an unknown version", lambda: check_bundle(b'{"mediaType":"x"}', SUBJECT, wanted(key())), "unknown version"
    ),
    Refused("neither signature nor statement", bundle_of(), "either"),
    Refused("both", bundle_of(dsseEnvelope=ENVELOPE, messageSignature=MESSAGE), "either"),
    Refused("a statement by another key", bundle_of(dsseEnvelope=ANOTHER), "none of the keys"),
    Refused("two signatures", envelope_of(make_statement(DIGEST), **TWICE), "one signature"),
    Refused("no list of signatures", envelope_of(make_statement(DIGEST), signatures=None), "one signature"),
    Refused("a changed statement", envelope_of(make_statement(OTHER), payload=ENVELOPE["payload"]), "none of the keys"),
    Refused("another type of payload", envelope_of(make_statement(DIGEST), payloadType="text/plain"), "unknown type"),
    Refused("a statement about another digest", envelope_of(make_statement(OTHER)), "another digest"),
    Refused("a statement about nothing", envelope_of(make_statement(DIGEST, subject=None)), "another digest"),
    Refused("a statement about odd things", envelope_of(make_statement(DIGEST, subject=[1, {"digest": 1}])), "another"),
    Refused("another hash of it", envelope_of(make_statement(DIGEST, subject=[{"digest": {"sha1": "a"}}])), "another"),
    Refused("another type of statement", envelope_of(make_statement(DIGEST, _type="x")), "unknown type"),
    Refused("a statement without predicate", envelope_of(make_statement(DIGEST, predicateType=None)), "predicate"),
    Refused("a digest by another key", bundle_of(messageSignature=make_message(key(number=1), DIGEST)), "none of"),
    Refused("another digest", bundle_of(messageSignature=make_message(key(), OTHER)), "another digest"),
    Refused(
        "another digest that it hides",
        bundle_of(messageSignature={**make_message(key(), OTHER), "messageDigest": None}),
        "none of",
    ),
    Refused("a signature that is no base64", bundle_of(messageSignature={**MESSAGE, "signature": "?"}), "base64"),
    Refused("a signature that is a number", bundle_of(messageSignature={**MESSAGE, "signature": 1}), "base64"),
    Refused(
        "a digest by Ed25519",
        lambda: check_bundle(make_bundle(messageSignature=MESSAGE), SUBJECT, wanted(key("Ed25519"))),
        "none of",
    ),
    Refused(
        "a signer without key",
        lambda: check_bundle(make_bundle(dsseEnvelope=ENVELOPE, **KEYLESS), SUBJECT, wanted(key())),
        "no identities",
    ),
    Refused(
        "an envelope by another key",
        lambda: check_envelope(json.dumps(ANOTHER).encode(), SUBJECT, wanted(key())),
        "none of",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_no_signature(case: Refused) -> None:
    with pytest.raises(SignatureError) as caught:
        case.call()
    assert case.problem in str(caught.value)


IDENTITY = {"issuer": "https://issuer.example.com", "subject": "a@example.com"}


def test_a_signature_by_key_is_none_if_only_identities_are_wanted() -> None:
    asked = read_wanted({"identities": [IDENTITY]}, {}, PATH)
    payload = make_payload(DIGEST, REPOSITORY)
    with pytest.raises(SignatureError, match="verify names none"):
        check_signed(payload, sign(key(), payload), asked)
    with pytest.raises(SignatureError, match="verify names none"):
        check_bundle(signed_bundle(key(), DIGEST), SUBJECT, asked)


def test_a_document_that_names_no_repository_is_for_any() -> None:
    payload = make_payload(DIGEST)
    assert check_signed(payload, sign(key(), payload)).signer.by == "cosign"


@pytest.mark.parametrize("reference", ["index.docker.io/library/nginx", "docker.io/library/nginx", "nginx"])
def test_a_repository_may_be_named_in_all_its_spellings(reference: str) -> None:
    payload = make_payload(DIGEST, reference)
    subject = Subject(digest=DIGEST, repository="docker.io/library/nginx")
    assert check_signed(payload, sign(key(), payload), subject=subject).signer.by == "cosign"


def test_a_key_with_a_certificate_counts_as_a_key() -> None:
    payload = make_payload(DIGEST, REPOSITORY)
    about = {
        "dev.cosignproject.cosign/signature": encode(sign(key(), payload)),
        "dev.sigstore.cosign/certificate": "x",
    }
    assert check_payload(payload, about, SUBJECT, wanted(key())).signer.key
    both = read_wanted({"keys": [{"pem": pem_of(key(number=1))}], "identities": [IDENTITY]}, {}, PATH)
    with pytest.raises(SignatureError, match="the promise of the log is not JSON"):
        check_payload(payload, about, SUBJECT, both)


def test_an_envelope_of_cosign_2_is_an_attestation() -> None:
    envelope = make_envelope(key(), make_statement(DIGEST, "https://slsa.dev/provenance/v1"))
    found = check_envelope(json.dumps(envelope).encode(), SUBJECT, wanted(key()))
    assert found.predicate_type == "https://slsa.dev/provenance/v1"


# what is wanted


@dataclass(frozen=True)
class Invalid:
    name: str
    verify: dict[str, Any]
    data: dict[str, bytes]
    problem: str


SECRET = {"keys": [{"secret": {"name": "keys"}}]}
PEM = pem_of(key()).encode()
SMALL = pem_of(rsa.generate_private_key(65537, 1024)).encode()
FOREIGN = b"""-----BEGIN PUBLIC KEY-----
MIIBuDCCASwGByqGSM44BAEwggEfAoGBAPBJmpgKnjvdHJ/zaivsX4rzDLpMk4vK
Oec0ydrv6qXuLB9pFpE2Pa2HJsU9zVctQvCYqOVTdE9sprmzHufGm3X6xFss4jof
zBYZ8YebYc+4rOSvuKlEBwy6iM4lvdtTq5iHRBpkjveV30Tobigm738VKGi9JnO1
fkecLU5HLQ+fAhUAkePzHdZWtntGptyC11bvV8KpASMCgYEAiNnmVjAzoge2WW89
DB7ruPoTZ/5gGJbZqoH7YjJJ3V7n/TQ0fxFeYv3cHKVaX5vsajahChL8kOjz0sUT
wHp2F/yXsAG+fVsuF9LzoTjvyzNB4malYCvK4D3Mu8ycsHXL4PocEhsBQY/boOpJ
WmDAv2ekYY4ANw6Y3QOX0oQCmsADgYUAAoGBAMfxV2JbKRYk2IZvB3q9Jg+c5AC2
khjgx6QwcVUfH7TZIuxy9YN/3LPPXoCr3EYy3kXX1NmViORiMYOr+ukD/mterBDt
kb0vc7bzI0tnLnY68PV3ZXYhoM40VSTz+F7zflHH7FMhs2lwx3XevBYSh3Hl9d1T
9R1jkOUHSFBaWcu8
-----END PUBLIC KEY-----
"""
"""A key of DSA, which takes half a second to generate."""
OLD_CURVE = pem_of(ec.generate_private_key(ec.SECP224R1())).encode()
CANARY = b"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----"
INVALID = [
    Invalid("an empty Secret", SECRET, {}, '.keys[0].secret: the Secret has no key that ends in ".pub"'),
    Invalid("a Secret with private keys only", SECRET, {"cosign.key": CANARY}, "no key that ends in"),
    Invalid("a key that is none", SECRET, {"a.pub": b"canary"}, 'key "a.pub" is not a public key'),
    Invalid("one of several that is none", SECRET, {"a.pub": PEM, "b.pub": b"canary"}, 'key "b.pub" is not'),
    Invalid("a private key", SECRET, {"a.pub": CANARY}, 'key "a.pub" is not a public key'),
    Invalid("an empty key", SECRET, {"a.pub": b""}, "is not a public key"),
    Invalid("a small RSA key", SECRET, {"a.pub": SMALL}, "is of a type or size"),
    Invalid("a DSA key", SECRET, {"a.pub": FOREIGN}, "is of a type or size"),
    Invalid("a small curve", SECRET, {"a.pub": OLD_CURVE}, "is of a type or size"),
    Invalid("nothing at all", {}, {}, "neither a key nor an identity"),
    Invalid(
        "an expression that is none", {"identities": [{"issuer": "i", "subjectRegExp": "("}]}, {}, ".subjectRegExp"
    ),
    Invalid("an issuer that is none", {"identities": [{"issuerRegExp": "*", "subject": "s"}]}, {}, ".issuerRegExp"),
    Invalid(
        "no root", {"identities": [IDENTITY], "trustedRoot": {"configMap": {"name": "x"}}}, {}, "trusted_root.json"
    ),
]


@pytest.mark.parametrize("case", INVALID, ids=attrgetter("name"))
def test_keys_and_expressions_that_are_of_no_use(case: Invalid) -> None:
    with pytest.raises(BundleError) as caught:
        read_wanted(case.verify, {".cosign.keys[0].secret": case.data}, PATH)
    assert caught.value.reason is Reason.INVALID_VERIFICATION
    assert caught.value.message.startswith(PATH)
    assert case.problem in caught.value.message
    assert "canary" not in caught.value.message


def test_all_public_keys_of_a_secret_are_wanted() -> None:
    data = {"a.pub": PEM, "b.pub": pem_of(key("Ed25519")).encode(), "cosign.key": CANARY, "cosign.password": b"x"}
    assert len(read_wanted(SECRET, {".cosign.keys[0].secret": data}, PATH).keys) == len([PEM, "b"])


def test_a_root_that_is_none_is_the_fault_of_the_config_map() -> None:
    root = {".cosign.trustedRoot.configMap": {"trusted_root.json": b"{}"}}
    asked = read_wanted({"identities": [IDENTITY], "trustedRoot": {"configMap": {"name": "x"}}}, root, PATH)
    with pytest.raises(BundleError) as caught:
        check_bundle(make_bundle(dsseEnvelope=ENVELOPE, **KEYLESS), SUBJECT, asked)
    assert caught.value.reason is Reason.INVALID_VERIFICATION
    assert caught.value.message.startswith(f"{PATH}.trustedRoot.configMap: ")


ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "https://github.com/acme/shop/.github/workflows/release.yml@refs/tags/v1"


@dataclass(frozen=True)
class Match:
    name: str
    identity: dict[str, str]
    issuer: str
    subject: str
    is_accepted: bool


ACME = {"issuer": ISSUER, "subjectRegExp": "https://github.com/acme/.*"}
MATCHES = [
    Match("exactly", {"issuer": ISSUER, "subject": WORKFLOW}, ISSUER, WORKFLOW, True),
    Match("another subject", {"issuer": ISSUER, "subject": WORKFLOW}, ISSUER, f"{WORKFLOW}0", False),
    Match("another issuer", {"issuer": ISSUER, "subject": WORKFLOW}, "https://evil.example.com", WORKFLOW, False),
    Match("an issuer in another case", {"issuer": ISSUER, "subject": WORKFLOW}, ISSUER.upper(), WORKFLOW, False),
    Match("an expression", ACME, ISSUER, WORKFLOW, True),
    Match(
        "an expression with anchors", {**ACME, "subjectRegExp": "^https://github.com/acme/.*$"}, ISSUER, WORKFLOW, True
    ),
    Match("no anchors, text before", ACME, ISSUER, f"https://evil.example.com/{WORKFLOW}", False),
    Match("no anchors, text after", {**ACME, "subjectRegExp": "https://github.com/acme"}, ISSUER, WORKFLOW, False),
    Match("no anchors, another line", ACME, ISSUER, f"{WORKFLOW}\nevil", False),
    Match(
        "an alternative without anchors",
        {**ACME, "subjectRegExp": "^https://github.com/acme/x|acme.*"},
        ISSUER,
        WORKFLOW,
        False,
    ),
    Match("no issuer", {**ACME, "issuerRegExp": ".+", "issuer": ""}, "", WORKFLOW, False),
]


@pytest.mark.parametrize("case", MATCHES, ids=attrgetter("name"))
def test_whose_identity_is_accepted(case: Match) -> None:
    (identity,) = read_wanted({"identities": [case.identity]}, {}, PATH).identities
    assert identity(case.issuer, case.subject) is case.is_accepted


def test_an_identity_without_a_name_matches_nobody() -> None:
    (identity,) = read_wanted({"identities": [{}]}, {}, PATH).identities
    assert not identity("", "")
