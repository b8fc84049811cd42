"""Signatures as cosign makes them, by keys that are made here, and how they are stored in a registry."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from tests.support.faulty_registry import OCI_INDEX, OCI_MANIFEST, FaultyRegistry

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
SIMPLE_SIGNATURE = "application/vnd.dev.cosign.artifact.sig.v1+json"
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"
EMPTY = "application/vnd.oci.empty.v1+json"


def make_key() -> ec.EllipticCurvePrivateKey:
    """Return a key as cosign generate-key-pair makes it."""
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(key: PrivateKey) -> str:
    """Return the public key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def sign(key: PrivateKey, data: bytes, algorithm: hashes.HashAlgorithm | None = None) -> bytes:
    """Sign data; the algorithm is SHA-256 by default."""
    return _sign(key, data, algorithm or hashes.SHA256())


def _sign(key: PrivateKey, data: bytes, algorithm: hashes.HashAlgorithm | utils.Prehashed) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(data, ec.ECDSA(algorithm))
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), algorithm)
    return key.sign(data)


def encode(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()


def make_payload(digest: str, reference: Any = "", **critical: Any) -> bytes:
    """Return the document of simple signing."""
    found = {
        "identity": {"docker-reference": reference},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
        **critical,
    }
    return json.dumps({"critical": found, "optional": None}).encode()


def make_statement(digest: str, predicate_type: str = SIGNATURE, **changes: Any) -> bytes:
    """Return a statement about a digest."""
    subject = [{"digest": {"sha256": digest.removeprefix("sha256:")}}]
    kind = {"_type": "https://in-toto.io/Statement/v1", "predicateType": predicate_type}
    return json.dumps({**kind, "subject": subject, "predicate": {}, **changes}).encode()


def make_envelope(key: PrivateKey, payload: bytes, algorithm: hashes.HashAlgorithm | None = None) -> dict[str, Any]:
    """Return a signed statement (DSSE)."""
    kind = "application/vnd.in-toto+json"
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
    return {
        "payload": encode(payload),
        "payloadType": kind,
        "signatures": [{"sig": encode(sign(key, signed, algorithm))}],
    }


def make_message(key: PrivateKey, digest: str) -> dict[str, Any]:
    """Return the signature of a digest."""
    raw = bytes.fromhex(digest.removeprefix("sha256:"))
    signature = _sign(key, raw, utils.Prehashed(hashes.SHA256()))
    return {"messageDigest": {"algorithm": "SHA2_256", "digest": encode(raw)}, "signature": encode(signature)}


def make_bundle(**content: Any) -> bytes:
    """Return a Sigstore bundle that was made with a key."""
    return json.dumps({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": "x"}}, **content}).encode()


class FileSigner:
    """Signs files as cosign sign-blob --bundle does, with a new key."""

    def __init__(self) -> None:
        self.key = make_key()
        self.verify = {"cosign": {"keys": [{"pem": pem_of(self.key)}]}}
        """What a source has in `verify`."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        raw = self.key.public_key().public_bytes(serialization.Encoding.DER, form)
        self.name = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        """The key, as status names it."""

    def sign(self, content: bytes) -> bytes:
        """Return the bundle of a file."""
        return make_bundle(messageSignature=make_message(self.key, hashlib.sha256(content).hexdigest()))


def signed_bundle(key: PrivateKey, digest: str, predicate_type: str = SIGNATURE) -> bytes:
    """Return a bundle with a signed statement about a digest."""
    return make_bundle(dsseEnvelope=make_envelope(key, make_statement(digest, predicate_type)))


def store_simply(registry: FaultyRegistry, digest: str, *signed: tuple[bytes, bytes]) -> None:
    """Store documents and their signatures as cosign 2 does: at the tag that is named like the digest."""
    layers = _documents(registry, signed)
    registry.add_manifest(f"{digest.replace(':', '-')}.sig", OCI_MANIFEST, layers=layers)


def store_referring(registry: FaultyRegistry, digest: str, *signed: tuple[bytes, bytes]) -> None:
    """Store them as cosign 2 does with --registry-referrers-mode=oci-1-1: in an artifact that refers to the image."""
    manifest = registry.add_manifest(
        "",
        OCI_MANIFEST,
        subject={"mediaType": OCI_MANIFEST, "digest": digest, "size": 1},
        config=registry.add_blob(b"{}", SIMPLE_SIGNATURE),
        layers=_documents(registry, signed),
    )
    _list_at_tag(registry, digest, manifest, {"artifactType": SIMPLE_SIGNATURE})


def _documents(registry: FaultyRegistry, signed: Iterable[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    return [
        {
            **registry.add_blob(payload, SIMPLE_SIGNING),
            "annotations": {"dev.cosignproject.cosign/signature": encode(signature)},
        }
        for payload, signature in signed
    ]


def _list_at_tag(registry: FaultyRegistry, digest: str, manifest: str, about: dict[str, Any]) -> None:
    """List an artifact where registries do that which do not list referrers: in the index at a tag."""
    if registry.lists_referrers:
        return
    tag = digest.replace(":", "-")
    entries = json.loads(registry.manifests[tag][1])["manifests"] if tag in registry.manifests else []
    entry = {"mediaType": OCI_MANIFEST, "digest": manifest, "size": len(registry.manifests[manifest][1]), **about}
    registry.add_manifest(tag, OCI_INDEX, manifests=[*entries, entry])


def store_bundle(
    registry: FaultyRegistry,
    digest: str,
    bundle: bytes,
    predicate_type: str = SIGNATURE,
    kind: str = BUNDLE,
    *,
    listed_as: str = "",
) -> None:
    """Store a bundle as cosign 3 does: as a referrer, and where those are not listed, in the index at the tag."""
    annotations = {"dev.sigstore.bundle.predicateType": predicate_type} if predicate_type else {}
    manifest = registry.add_manifest(
        "",
        OCI_MANIFEST,
        artifactType=kind,
        subject={"mediaType": OCI_MANIFEST, "digest": digest, "size": 1},
        config=registry.add_blob(b"{}", EMPTY),
        layers=[registry.add_blob(bundle, kind)],
        annotations=annotations,
    )
    _list_at_tag(registry, digest, manifest, {"artifactType": listed_as or kind, "annotations": annotations})
