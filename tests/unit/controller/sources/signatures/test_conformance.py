"""The test cases of the Sigstore project for clients, run through what the sources check bundles with.

They are not part of this project: RUKPAK_CORPUS is a folder with `sigstore-conformance` in it, a clone of
https://github.com/sigstore/sigstore-conformance.
"""

from __future__ import annotations

import os
from operator import attrgetter
from pathlib import Path

import pytest

from api.errors import BundleError
from controller.content.digests import digest_of
from controller.sources.signatures import SignatureError
from controller.sources.signatures.cosign import Checked, Subject, check_bundle, read_wanted

ASSETS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent")) / "sigstore-conformance/test/assets/bundle-verify"
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
