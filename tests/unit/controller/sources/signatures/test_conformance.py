"""The test cases of the Sigstore project for clients, run through what the sources check bundles with.

They are not part of this project: RUKPAK_CORPUS is a folder with `sigstore-conformance` in it, a clone of
https://github.com/sigstore/sigstore-conformance.
"""

from __future__ import annotations

import base64
import json
import os
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_certificate

from rukpak.api.errors import BundleError
from rukpak.controller.content.digests import digest_of
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.cosign import (
    Checked,
    Subject,
    Wanted,
    check_bundle,
    check_payload,
    read_wanted,
)

CORPUS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent")).resolve()
ASSETS = CORPUS / "sigstore-conformance/test/assets/bundle-verify"
CASES = sorted(path.parent for path in ASSETS.glob("*/bundle.sigstore.json"))
COUNT = 70
REFUSED_BY_LIBRARY = {
    "intoto-with-custom-trust-root": "entries of the kind intoto, which cosign no longer writes, are unknown to it",
    "trust-root-tsa-validity-end-inclusive": "the last second of a time stamp authority counts as too late",
}
"""Cases that should be accepted, and that the library sigstore refuses by itself (4.5.1): it errs to the safe side."""
IDENTITY = (
    "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/"
    "extremely-dangerous-oidc-beacon.yml@refs/heads/main"
)
ISSUER = "https://token.actions.githubusercontent.com"


def _text(path: Path, default: str) -> str:
    return path.read_text(encoding="utf-8").strip() if path.exists() else default


def check(case: Path) -> Checked:
    """Check a bundle as the readme of the cases says."""
    artifact = case / "artifact" if (case / "artifact").exists() else ASSETS / "a.txt"
    identity = {"subject": _text(case / "identity", IDENTITY), "issuer": _text(case / "issuer", ISSUER)}
    key, root = case / "key.pub", case / "trusted_root.json"
    verify = {"keys": [{"pem": key.read_text(encoding="utf-8")}]} if key.exists() else {"identities": [identity]}
    trusted = {}
    if root.exists() and not key.exists():
        verify["trustedRoot"] = {"configMap": {"name": "root"}}  # type: ignore[assignment]
        trusted = {".cosign.trustedRoot.configMap": {"trusted_root.json": root.read_bytes()}}
    wanted = read_wanted(verify, trusted, "spec.sources[0].http.verify.cosign")
    return check_bundle(
        (case / "bundle.sigstore.json").read_bytes(), Subject(digest=digest_of(artifact.read_bytes())), wanted
    )


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_case_of_the_sigstore_project_has_the_expected_verdict(case: Path) -> None:
    if case.name.endswith("_fail") or case.name in REFUSED_BY_LIBRARY:
        with pytest.raises((SignatureError, BundleError)):
            check(case)
    else:
        assert check(case).signer.by == "cosign"


@pytest.mark.skipif(not CASES, reason="RUKPAK_CORPUS is not set")
def test_all_cases_are_there() -> None:
    assert len(CASES) == COUNT


def annotations_of(bundle: dict[str, Any]) -> dict[str, str]:
    """Return what cosign 2 would have stored beside a document, in place of a bundle."""
    [entry], material = bundle["verificationMaterial"]["tlogEntries"], bundle["verificationMaterial"]
    der = base64.b64decode(material["x509CertificateChain"]["certificates"][0]["rawBytes"])
    logged = {
        "body": entry["canonicalizedBody"],
        "integratedTime": int(entry["integratedTime"]),
        "logIndex": int(entry["logIndex"]),
        "logID": base64.b64decode(entry["logId"]["keyId"]).hex(),
    }
    promise = {"SignedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"], "Payload": logged}
    certificate = load_der_x509_certificate(der).public_bytes(Encoding.PEM).decode()
    return {
        "dev.cosignproject.cosign/signature": bundle["messageSignature"]["signature"],
        "dev.sigstore.cosign/certificate": certificate,
        "dev.sigstore.cosign/bundle": json.dumps(promise),
    }


def changed(annotations: dict[str, str], **logged: Any) -> dict[str, str]:
    """Return annotations with another promise of the log."""
    promise = json.loads(annotations["dev.sigstore.cosign/bundle"])
    found = {**promise, "Payload": {**promise["Payload"], **logged}}
    return {**annotations, "dev.sigstore.cosign/bundle": json.dumps(found)}


@pytest.mark.skipif(not CASES, reason="RUKPAK_CORPUS is not set")
def test_a_promise_of_the_log_is_enough_for_a_document_that_was_signed_without_a_key() -> None:
    """The document is one of the cases, which is signed, and then refused since it names no image."""
    annotations = annotations_of(json.loads((ASSETS / "happy-path-v0.1/bundle.sigstore.json").read_bytes()))
    document = (ASSETS / "a.txt").read_bytes()
    asked = read_wanted({"identities": [{"subject": IDENTITY, "issuer": ISSUER}]}, {}, "verify")
    stranger = read_wanted({"identities": [{"subject": f"{IDENTITY}x", "issuer": ISSUER}]}, {}, "verify")

    def problem(document: bytes, annotations: dict[str, str], asked: Wanted = asked) -> str:
        with pytest.raises(SignatureError) as caught:
            check_payload(document, annotations, Subject(digest=digest_of(document)), asked)
        return str(caught.value)

    is_signed, is_not = "the signed document is not JSON", "it cannot be verified"
    assert problem(document, annotations) == is_signed
    assert problem(document + b"x", annotations).startswith(is_not)
    assert problem(document, changed(annotations, integratedTime=1)).startswith(is_not)
    assert problem(document, changed(annotations, integratedTime=None)).startswith(is_not)
    assert problem(document, changed(annotations, logID="00" * 32)).startswith(is_not)
    assert problem(document, changed(annotations, logIndex=1)).startswith(is_not)
    assert problem(document, {**annotations, "dev.cosignproject.cosign/signature": "MA=="}).startswith(is_not)
    assert problem(document, {**annotations, "dev.sigstore.cosign/certificate": "x"}).endswith("is malformed")
    promise = json.loads(annotations["dev.sigstore.cosign/bundle"])
    unsigned = {**annotations, "dev.sigstore.cosign/bundle": json.dumps({**promise, "SignedEntryTimestamp": ""})}
    assert problem(document, unsigned).startswith(is_not)
    assert problem(document, {**annotations, "dev.sigstore.cosign/bundle": ""}) == "the promise of the log is not JSON"
    assert problem(document, annotations, stranger).startswith("it is by")
