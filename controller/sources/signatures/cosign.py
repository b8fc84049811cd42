"""Signatures of cosign: simple signing, and Sigstore bundles, made with a key or with the identity of a signer.

- **Simple signing** (`cosign sign` up to 2): the signature is of a small document, which names the digest and usually
  the repository of an image. What it names must be that of the image: else a signature that was copied from elsewhere
  would do.
- **Bundles** (`cosign sign` from 3, `cosign sign-blob --bundle`): the signature is of a digest, or of an in-toto
  statement about it. What it states is left to the caller: an attestation is no signature of an image.

With a key, nothing else is trusted, and no transparency log is asked for: it proves when a certificate was used, and a
key has no certificate. Without a key, the library sigstore checks the certificate chain, its SCT, and the entry of the
transparency log or signed time stamps against the trusted root, without the network. It is an optional dependency, and
imported only then. With simple signing, the log has promised to include the entry, and the promise is checked.

Of ECDSA keys, P-384 and P-521 sign the SHA-256 or their own hash: cosign has changed that. Whatever cannot be read is
no signature. Pure: image/signed.py reads from registries. The formats:
https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md, https://docs.sigstore.dev/about/bundle/, and
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.resources
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import re2

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.digests import digest_of
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.image.reference import has_target, parse_reference
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.untrusted import mapping

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import Certificate
    from sigstore.models import Bundle
    from sigstore.verify.verifier import Verifier

    Key: TypeAlias = EllipticCurvePublicKey | RSAPublicKey | Ed25519PublicKey

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
"""Media type of a Sigstore bundle, as cosign stores it."""
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
"""Media type of the document that is signed."""
SIMPLE_SIGNATURE = "application/vnd.dev.cosign.artifact.sig.v1+json"
"""Type of an artifact with such documents, which refers to the image (OCI 1.1)."""
ENVELOPE = "application/vnd.dsse.envelope.v1+json"
"""Media type of an envelope with an attestation, as cosign 2 stores it."""
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"
"""Predicate type of a statement that is nothing but a signature."""
_BUNDLES = (
    BUNDLE,
    "application/vnd.dev.sigstore.bundle+json;version=0.1",
    "application/vnd.dev.sigstore.bundle+json;version=0.2",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
)
_BY = "cosign"
CERTIFICATE = "dev.sigstore.cosign/certificate"
"""Annotation of what cosign 2 has signed without a key."""
_NO_PROOF = {"logIndex": "0", "treeSize": "1", "rootHash": "", "hashes": [], "checkpoint": {"envelope": "none"}}
_SIGNED_IMAGE = "cosign container image signature"
_STATEMENT_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENTS = ("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1")
_PUBLIC = ".pub"
_ROOT = "trusted_root.json"
_LEAST_RSA_BITS = 2048
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_SHIPPED_ROOT = "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"  # the folder of the public instance in the library


Identity: TypeAlias = Callable[[str, str], bool]
"""Who may sign without a key: whether an issuer and a subject of a certificate are accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whose signature is accepted."""

    keys: tuple[tuple[str, Key], ...] = ()
    """With their digests."""
    identities: tuple[Identity, ...] = ()
    trusted_root: bytes = field(default=b"", repr=False)
    """Empty: the public one, as the library has it."""
    signed_as: str = ""
    """The repository that was signed, in normal form; empty: that of the image."""
    path: str = ""
    """Field path of `verify`; starts messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A signature that is accepted."""

    signer: Signer
    predicate_type: str = ""
    """Type of the statement that was signed; empty if the digest itself was."""


# what is wanted


def read_wanted(verify: Mapping[str, Any], trusted: Mapping[str, Mapping[str, bytes]], path: str) -> Wanted:
    """Return whose signature the block `cosign` of a `verify` accepts.

    Args:
        verify: the block.
        trusted: the data of the Secrets and ConfigMaps that it names, by field path below `verify`.
        path: of the block in the spec.

    Raises: BundleError (InvalidVerification).
    """
    keys = [key for index, each in enumerate(verify.get("keys") or ()) for key in _keys_of(index, each, trusted, path)]
    identities = tuple(
        _read_identity(each, f"{path}.identities[{index}]") for index, each in enumerate(verify.get("identities") or ())
    )
    root = b""
    if "trustedRoot" in verify:
        data = trusted.get(".cosign.trustedRoot.configMap", {})
        if _ROOT not in data:
            raise _invalid(f"{path}.trustedRoot.configMap", f"the ConfigMap has no key {quote(_ROOT)}; add it")
        root = data[_ROOT]
    if not (keys or identities):
        raise _invalid(path, "there is neither a key nor an identity; add one")
    signed_as = _read_repository(verify["signedAs"], f"{path}.signedAs") if verify.get("signedAs") else ""
    return Wanted(keys=tuple(keys), identities=identities, trusted_root=root, signed_as=signed_as, path=path)


def _read_repository(text: str, path: str) -> str:
    repository = _repository_of(text)
    if not repository or has_target(text):
        raise _invalid(path, f"{quote(text)} is not a repository like ghcr.io/acme/shop, without a tag; correct it")
    return repository


def _repository_of(reference: str) -> str:
    try:
        found = parse_reference(reference)
    except ValueError:
        return ""
    return f"{found.registry}/{found.repository}"


def _keys_of(
    index: int, key: Mapping[str, Any], trusted: Mapping[str, Mapping[str, bytes]], path: str
) -> Iterator[tuple[str, Key]]:
    place = f"{path}.keys[{index}]"
    if pem := key.get("pem"):
        yield _read_key(pem.encode(), f"{place}.pem", "the key")
        return
    data = trusted.get(f".cosign.keys[{index}].secret", {})
    names = sorted(name for name in data if name.endswith(_PUBLIC))
    if not names:
        problem = f"the Secret has no key that ends in {quote(_PUBLIC)}; add the public keys in PEM"
        raise _invalid(f"{place}.secret", problem)
    for name in names:
        yield _read_key(data[name], f"{place}.secret", f"key {quote(name)}")


def _read_key(pem: bytes, path: str, what: str) -> tuple[str, Key]:
    # No message has any part of the key: it may be a private one by mistake.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only needed here
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415

    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise _invalid(path, f"{what} is not a public key in PEM; replace it") from None
    is_usable = (
        isinstance(key, ed25519.Ed25519PublicKey)
        or (isinstance(key, rsa.RSAPublicKey) and key.key_size >= _LEAST_RSA_BITS)
        or (isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES)
    )
    if not is_usable:
        usable = f"ECDSA (P-256, P-384, P-521), RSA of at least {_LEAST_RSA_BITS} bits, or Ed25519"
        raise _invalid(path, f"{what} is of a type or size that is not accepted; use {usable}")
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return digest_of(der), key  # type: ignore[return-value]


def _read_identity(identity: Mapping[str, Any], path: str) -> Identity:
    accepts_issuer, accepts_subject = (_read_name(identity, name, path) for name in ("issuer", "subject"))
    return lambda issuer, subject: accepts_issuer(issuer) and accepts_subject(subject)


def _read_name(identity: Mapping[str, Any], name: str, path: str) -> Callable[[str], bool]:
    """Return a function that tells whether a text is the one that is named, exactly or by an expression."""
    pattern, exact = identity.get(f"{name}RegExp"), identity.get(name)
    if not pattern:
        return lambda text: bool(exact) and text == exact
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(pattern, options)
    except re2.error:
        problem = f"{quote(pattern)} is not a regular expression (RE2); correct it"
        raise _invalid(f"{path}.{name}RegExp", problem) from None
    # All of it: an expression without anchors would also be in the identity of somebody who chooses his own.
    return lambda text: bool(expression.fullmatch(text))


def _invalid(path: str, problem: str) -> BundleError:
    return BundleError(Reason.INVALID_VERIFICATION, problem, place=path)


# simple signing


def check_payload(payload: bytes, annotations: Mapping[str, str], subject: Subject, wanted: Wanted) -> Checked:
    """Return who has signed an image by simple signing.

    Args:
        payload: the document that is signed.
        annotations: of its layer: the signature; of one without a key also its certificate and the log's promise.
        subject: the image.
        wanted: whose signature is accepted.

    Raises: SignatureError.
    """
    signer = _signer_of_payload(payload, annotations, wanted)
    document = _parse(payload, "the signed document")
    critical = mapping(document.get("critical"))
    if critical.get("type") != _SIGNED_IMAGE:
        raise SignatureError("what was signed is not an image")
    digest = mapping(critical.get("image")).get("docker-manifest-digest")
    if digest != subject.digest:
        raise SignatureError("it is the signature of another digest")
    named = mapping(critical.get("identity")).get("docker-reference")
    if named and _repository_of(str(named)) not in {subject.repository, wanted.signed_as} - {""}:
        problem = f"it is the signature of an image of another repository ({quote(str(named))})"
        raise SignatureError(f"{problem}; if it was copied from there, name that in verify.cosign.signedAs")
    return Checked(signer=signer)


def _signer_of_payload(payload: bytes, annotations: Mapping[str, str], wanted: Wanted) -> Signer:
    signature = annotations.get("dev.cosignproject.cosign/signature", "")
    has_certificate = CERTIFICATE in annotations
    if wanted.keys or not has_certificate:
        try:
            return _signer_by_key(wanted, _decode(signature, "the signature"), payload)
        except SignatureError:
            if not (has_certificate and wanted.identities):  # a key may have a certificate, too
                raise
    bundle, signed = _make_bundle(signature, annotations), hashlib.sha256(payload).digest()
    return _check_without_key(bundle, wanted, signed, is_promised=True)[0]


def _make_bundle(signature: str, annotations: Mapping[str, str]) -> bytes:
    """Return the bundle that says the same as the annotations of a document that was signed without a key.

    A log has promised in them to include the entry, which it has signed together with the time. The proof of inclusion,
    which bundles have, is missing; what stands in its place is not read (`_Promised`).
    """
    from cryptography import x509  # noqa: PLC0415 - only needed here
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    promise = _parse(annotations.get("dev.sigstore.cosign/bundle", "").encode(), "the promise of the log")
    entry = mapping(promise.get("Payload"))
    body = _parse(_decode(entry.get("body"), "the entry of the log"), "the entry of the log")
    try:
        certificate = x509.load_pem_x509_certificate(annotations[CERTIFICATE].encode()).public_bytes(Encoding.DER)
        log = bytes.fromhex(str(entry.get("logID")))
    except ValueError:
        raise SignatureError("the certificate, or the promise of the log, is malformed") from None
    logged = {
        "logIndex": str(entry.get("logIndex")),
        "logId": {"keyId": _encode(log)},
        "kindVersion": {"kind": body.get("kind"), "version": body.get("apiVersion")},
        "integratedTime": str(entry.get("integratedTime")),
        "inclusionPromise": {"signedEntryTimestamp": promise.get("SignedEntryTimestamp")},
        "inclusionProof": _NO_PROOF,
        "canonicalizedBody": entry.get("body"),
    }
    material = {"x509CertificateChain": {"certificates": [{"rawBytes": _encode(certificate)}]}, "tlogEntries": [logged]}
    bundle = {"mediaType": _BUNDLES[1], "verificationMaterial": material, "messageSignature": {"signature": signature}}
    return json.dumps(bundle).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What must be signed."""

    digest: str
    """`sha256:…`."""
    repository: str = ""
    """Registry and repository in normal form; empty for what is in no registry."""

    @property
    def hexadecimal(self) -> str:
        """The digest without its algorithm."""
        return self.digest.removeprefix("sha256:")


# bundles


def check_bundle(data: bytes, subject: Subject, wanted: Wanted) -> Checked:
    """Return who has signed a digest, or a statement about it, as a Sigstore bundle tells.

    Raises: SignatureError; BundleError (InvalidVerification for a trusted root that cannot be read,
        VerificationUnavailable without the library).
    """
    bundle = _parse(data, "the bundle")
    if bundle.get("mediaType") not in _BUNDLES:
        raise SignatureError("the bundle is of an unknown version")
    has_statement = "dsseEnvelope" in bundle
    if has_statement == ("messageSignature" in bundle):
        raise SignatureError("the bundle must have either a signature or a signed statement")
    if "publicKey" not in mapping(bundle.get("verificationMaterial")):
        signed = None if has_statement else bytes.fromhex(subject.hexadecimal)
        signer, payload = _check_without_key(data, wanted, signed)
    elif has_statement:
        signer, payload = _check_envelope(mapping(bundle["dsseEnvelope"]), wanted)
    else:
        signer, payload = _check_message(mapping(bundle["messageSignature"]), subject, wanted), b""
    return Checked(signer=signer, predicate_type=_read_statement(payload, subject) if has_statement else "")


def check_envelope(data: bytes, subject: Subject, wanted: Wanted) -> Checked:
    """Return who has signed the statement in an envelope with a key.

    Raises: SignatureError.
    """
    signer, payload = _check_envelope(_parse(data, "the envelope"), wanted)
    return Checked(signer=signer, predicate_type=_read_statement(payload, subject))


def _check_envelope(envelope: Mapping[str, Any], wanted: Wanted) -> tuple[Signer, bytes]:
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise SignatureError("the envelope must have one signature")
    if envelope.get("payloadType") != _STATEMENT_PAYLOAD:
        raise SignatureError("the signed statement is of an unknown type")
    payload = _decode(envelope.get("payload"), "the signed statement")
    kind = _STATEMENT_PAYLOAD.encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    return _signer_by_key(wanted, _decode(mapping(signatures[0]).get("sig"), "the signature"), signed), payload


def _check_message(message: Mapping[str, Any], subject: Subject, wanted: Wanted) -> Signer:
    digest = bytes.fromhex(subject.hexadecimal)
    named = message.get("messageDigest")
    if named is not None:
        algorithm = mapping(named).get("algorithm")
        if algorithm != "SHA2_256" or _decode(mapping(named).get("digest"), "the digest") != digest:
            raise SignatureError("it is the signature of another digest")
    return _signer_by_key(wanted, _decode(message.get("signature"), "the signature"), digest, is_digest=True)


def _read_statement(payload: bytes, subject: Subject) -> str:
    statement = _parse(payload, "the signed statement")
    if statement.get("_type") not in _STATEMENTS:
        raise SignatureError("the signed statement is of an unknown type")
    subjects = statement.get("subject")
    each_digest = (mapping(mapping(each).get("digest")) for each in subjects) if isinstance(subjects, list) else ()
    digests = [found.get("sha256") for found in each_digest]
    if subject.hexadecimal not in digests:
        raise SignatureError("the signed statement is about another digest")
    predicate_type = statement.get("predicateType")
    if not isinstance(predicate_type, str) or not predicate_type:
        raise SignatureError("the signed statement has no predicate type")
    return predicate_type


# keys


def _signer_by_key(wanted: Wanted, signature: bytes, data: bytes, *, is_digest: bool = False) -> Signer:
    if not wanted.keys:
        raise SignatureError("it was signed with a key, and verify names none")
    for name, key in wanted.keys:
        if _is_signed(key, signature, data, is_digest=is_digest):
            return Signer(by=_BY, key=name)
    raise SignatureError("none of the keys has made the signature")


def _is_signed(key: Key, signature: bytes, data: bytes, *, is_digest: bool) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only needed here
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils  # noqa: PLC0415

    own: dict[str, hashes.HashAlgorithm] = {"secp384r1": hashes.SHA384(), "secp521r1": hashes.SHA512()}
    sha256 = utils.Prehashed(hashes.SHA256()) if is_digest else hashes.SHA256()
    algorithms: list[hashes.HashAlgorithm | utils.Prehashed] = [sha256]
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in own and not is_digest:
        algorithms.append(own[key.curve.name])
    for algorithm in algorithms:
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, data, ec.ECDSA(algorithm))
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, data, padding.PKCS1v15(), algorithm)
            elif is_digest:  # Ed25519 signs the content, not a digest
                return False
            else:
                key.verify(signature, data)
        except InvalidSignature:
            continue
        return True
    return False


# without keys


def _check_without_key(
    data: bytes, wanted: Wanted, signed: bytes | None, *, is_promised: bool = False
) -> tuple[Signer, bytes]:
    """Return who has signed, and the statement if there is one, as the library finds it.

    Args:
        data: the bundle.
        wanted: whose signature is accepted.
        signed: the SHA-256 of what was signed; None: the bundle has a statement.
        is_promised: whether the log has only promised to include the entry.

    Raises: SignatureError; BundleError as `check_bundle`.
    """
    if not wanted.identities:
        raise SignatureError("it was signed without a key, and verify names no identities")
    verifier = _verifier(wanted)
    policy = _Policy(wanted.identities)
    try:
        from sigstore.hashes import Hashed  # noqa: PLC0415 - optional, and large
        from sigstore.models import Bundle  # noqa: PLC0415
        from sigstore_models.common.v1 import HashAlgorithm  # noqa: PLC0415

        bundle, payload = Bundle.from_json(data), b""
        if is_promised:
            _expect_promise(bundle)
        if signed is None:
            _, payload = verifier.verify_dsse(bundle, policy)
        else:
            hashed = Hashed(algorithm=HashAlgorithm.SHA2_256, digest=signed)
            verifier.verify_artifact(hashed, bundle, policy)
    except SignatureError:
        raise
    except Exception as error:  # noqa: BLE001 - of the library and what it uses, whose errors are of many kinds
        raise SignatureError(policy.problem or f"it cannot be verified ({type(error).__name__})") from None
    if policy.signer is None:
        raise SignatureError("it cannot be verified")
    return policy.signer, payload


def _expect_promise(bundle: Bundle) -> None:
    # The library knows no bundles without a proof.
    from sigstore.models import TransparencyLogEntry  # noqa: PLC0415 - optional, and large

    class _Promised(TransparencyLogEntry):
        def _verify(self, keyring: Any) -> None:
            self._verify_set(keyring)  # raises without a promise

    bundle._log_entry = _Promised(bundle.log_entry._inner)  # noqa: SLF001 - see above


class _Policy:
    """Decides for the library whether the subject of a certificate is one of the identities, and remembers it."""

    def __init__(self, identities: Sequence[Identity]) -> None:
        self._identities = identities
        self.signer: Signer | None = None
        self.problem = ""

    def verify(self, cert: Certificate) -> None:
        """Accept a certificate whose chain was verified. Raises: SignatureError."""
        issuer, subjects = _issuer_of(cert), _subjects_of(cert)
        for subject in subjects:
            if any(accepts(issuer, subject) for accepts in self._identities):
                self.signer = Signer(by=_BY, identity=subject, issuer=issuer)
                return
        self.problem = f"it is by {', '.join(map(quote, subjects)) or 'nobody'}, issued by {quote(issuer)}"
        raise SignatureError(self.problem)


# https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md
_ISSUER, _OLD_ISSUER, _USER = "1.3.6.1.4.1.57264.1.8", "1.3.6.1.4.1.57264.1.1", "1.3.6.1.4.1.57264.1.7"


def _issuer_of(certificate: Certificate) -> str:
    found = {each.oid.dotted_string: each.value for each in certificate.extensions}
    if _ISSUER in found:
        return _read_text(found[_ISSUER].public_bytes())
    return found[_OLD_ISSUER].public_bytes().decode() if _OLD_ISSUER in found else ""


def _subjects_of(certificate: Certificate) -> list[str]:
    from cryptography.x509 import (  # noqa: PLC0415 - only needed here
        OtherName,
        RFC822Name,
        SubjectAlternativeName,
        UniformResourceIdentifier,
    )

    names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    found = [each.value for each in names if isinstance(each, RFC822Name | UniformResourceIdentifier)]
    others = [each for each in names if isinstance(each, OtherName) and each.type_id.dotted_string == _USER]
    return found + [_read_text(each.value) for each in others]


def _read_text(der: bytes) -> str:
    from cryptography.hazmat import asn1  # noqa: PLC0415 - only needed here

    return asn1.decode_der(str, der)


def _verifier(wanted: Wanted) -> Verifier:
    try:
        return _make_verifier(wanted.trusted_root)
    except ImportError:
        remedy = 'use keys, or run pip install ".[sigstore]" in a clone of RukPak'
        problem = f"signatures without keys need the Python package sigstore; {remedy}"
        raise BundleError(Reason.VERIFICATION_UNAVAILABLE, problem, place=f"{wanted.path}.identities") from None
    except Exception:  # noqa: BLE001 - as above
        if not wanted.trusted_root:
            problem = "the trusted root of the Python package sigstore cannot be read; install the package again"
            raise BundleError(Reason.VERIFICATION_UNAVAILABLE, problem, place=f"{wanted.path}.identities") from None
        problem = f"{quote(_ROOT)} of the ConfigMap is not a trusted root; replace it"
        raise _invalid(f"{wanted.path}.trustedRoot.configMap", problem) from None


@lru_cache(maxsize=4)
def _make_verifier(root: bytes) -> Verifier:
    from sigstore.models import TrustedRoot  # noqa: PLC0415 - optional, and large
    from sigstore.verify.verifier import Verifier  # noqa: PLC0415
    from sigstore_models.trustroot.v1 import TrustedRoot as Document  # noqa: PLC0415

    if not root:
        shipped = importlib.resources.files("sigstore._store") / _SHIPPED_ROOT / _ROOT
        root = shipped.read_bytes()
    return Verifier(trusted_root=TrustedRoot(Document.from_json(root)))


# documents


def _parse(data: bytes, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise SignatureError(f"{what} is not JSON") from None
    if not isinstance(found, dict):
        raise SignatureError(f"{what} is not an object")
    return found


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(value: Any, what: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise SignatureError(f"{what} is not base64") from None
