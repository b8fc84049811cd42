"""Signatures without keys: certificates, their time stamps and the promises of a log, of an instance of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import attrgetter

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.cosign import Checked, Subject, Wanted, check_payload, read_wanted
from tests.support.bundles import ROOT
from tests.support.cosigned import make_payload
from tests.support.fulcio import ISSUER, LIFE, SUBJECT, Sigstore

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
REPOSITORY = "registry.example.com/shop/app"
PAYLOAD = make_payload(DIGEST, REPOSITORY)
SIGSTORE, STRANGER = Sigstore(), Sigstore()
SIGNER = Signer(by="cosign", identity=SUBJECT, issuer=ISSUER)


def wanted(root: bytes | None = None, **identity: str) -> Wanted:
    verify = {
        "identities": [identity or {"issuer": ISSUER, "subject": SUBJECT}],
        "trustedRoot": {"configMap": {"name": "root"}},
    }
    data = {"trusted_root.json": SIGSTORE.trusted_root if root is None else root}
    return read_wanted(verify, {".cosign.trustedRoot.configMap": data}, "spec.sources[0].image.verify.cosign")


def check(annotations: dict[str, str], payload: bytes = PAYLOAD, asked: Wanted | None = None) -> Checked:
    return check_payload(payload, annotations, Subject(digest=DIGEST, repository=REPOSITORY), asked or wanted())


def test_who_has_signed_without_a_key_is_told() -> None:
    assert check(SIGSTORE.annotate(PAYLOAD)).signer == SIGNER
    by_expression = wanted(issuerRegExp="https://.*", subjectRegExp=".*@example.com")
    assert check(SIGSTORE.annotate(PAYLOAD), asked=by_expression).signer == SIGNER


def test_a_certificate_that_has_expired_since_counts_for_what_was_signed_before() -> None:
    assert check(SIGSTORE.annotate(PAYLOAD, after=LIFE - timedelta(seconds=1))).signer == SIGNER


@dataclass(frozen=True)
class Refused:
    name: str
    call: Callable[[], object]
    problem: str


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in SIGSTORE.annotate(PAYLOAD).items() if not key.endswith(name)}


def mixed(name: str) -> dict[str, str]:
    """Return annotations of which one is of another signature of the same document."""
    return {**SIGSTORE.annotate(PAYLOAD), name: SIGSTORE.annotate(PAYLOAD)[name]}


UNVERIFIED = "it cannot be verified"
ANOTHER = make_payload(OTHER, REPOSITORY)
REFUSED = [
    Refused(
        "another issuer", lambda: check(SIGSTORE.annotate(PAYLOAD, issuer="https://evil.example.com")), "issued by"
    ),
    Refused(
        "another signer", lambda: check(SIGSTORE.annotate(PAYLOAD, subject="evil@example.com")), "evil@example.com"
    ),
    Refused(
        "an identity that contains the expected one",
        lambda: check(
            SIGSTORE.annotate(PAYLOAD, subject=f"x{SUBJECT}"), asked=wanted(issuer=ISSUER, subjectRegExp=SUBJECT)
        ),
        "it is by",
    ),
    Refused("an expired certificate", lambda: check(SIGSTORE.annotate(PAYLOAD, after=LIFE * 2)), UNVERIFIED),
    Refused("a certificate from later", lambda: check(SIGSTORE.annotate(PAYLOAD, after=-LIFE)), UNVERIFIED),
    Refused("another instance", lambda: check(STRANGER.annotate(PAYLOAD)), UNVERIFIED),
    Refused(
        "another authority",
        lambda: check(replace(SIGSTORE, authority=STRANGER.authority).annotate(PAYLOAD)),
        UNVERIFIED,
    ),
    Refused(
        "a certificate that was not logged",
        lambda: check(replace(SIGSTORE, certificate_log=STRANGER.log).annotate(PAYLOAD)),
        UNVERIFIED,
    ),
    Refused(
        "a promise of another log", lambda: check(replace(SIGSTORE, log=STRANGER.log).annotate(PAYLOAD)), UNVERIFIED
    ),
    Refused(
        "the certificate of another signature", lambda: check(mixed("dev.sigstore.cosign/certificate")), UNVERIFIED
    ),
    Refused("the promise for another signature", lambda: check(mixed("dev.sigstore.cosign/bundle")), UNVERIFIED),
    Refused("another signature", lambda: check(mixed("dev.cosignproject.cosign/signature")), UNVERIFIED),
    Refused("no promise", lambda: check(without("/bundle")), "the promise of the log is not JSON"),
    Refused("no certificate", lambda: check(without("/certificate")), "verify names none"),
    Refused("another document", lambda: check(SIGSTORE.annotate(PAYLOAD), ANOTHER), UNVERIFIED),
    Refused("another digest", lambda: check(SIGSTORE.annotate(ANOTHER), ANOTHER), "another digest"),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_no_signature_without_a_key(case: Refused) -> None:
    with pytest.raises(SignatureError) as caught:
        case.call()
    assert case.problem in str(caught.value)


def test_the_public_root_does_not_trust_another_instance() -> None:
    asked = read_wanted({"identities": [{"issuer": ISSUER, "subject": SUBJECT}]}, {}, "verify")
    with pytest.raises(SignatureError, match=UNVERIFIED):
        check(SIGSTORE.annotate(PAYLOAD), asked=asked)


def test_without_the_library_nothing_is_accepted_and_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = wanted(b"another root, which is not loaded yet")
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    with pytest.raises(BundleError) as caught:
        check(SIGSTORE.annotate(PAYLOAD), asked=asked)
    assert caught.value.reason is Reason.VERIFICATION_UNAVAILABLE
    assert 'use keys, or run pip install ".[sigstore]" in a clone' in caught.value.message


WITH_A_KEY = f"""
import sys
from rukpak.controller.manager import assemble
from rukpak.controller.sources.signatures.cosign import Subject, check_bundle, read_wanted
from tests.support.cosigned import make_key, pem_of, signed_bundle

key = make_key()
wanted = read_wanted({{"keys": [{{"pem": pem_of(key)}}]}}, {{}}, "verify")
check_bundle(signed_bundle(key, "{DIGEST}"), Subject(digest="{DIGEST}"), wanted)
print("sigstore" in sys.modules)
"""


def test_the_library_is_not_imported_to_start_and_to_check_signatures_with_keys() -> None:
    assert subprocess.check_output([sys.executable, "-c", WITH_A_KEY], cwd=ROOT, text=True) == "False\n"
