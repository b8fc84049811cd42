"""`spec.sources[].*.verify`: who must have signed what a source leads to.

Not here: how signatures are checked (`controller/sources/signatures`), and when (`controller/building/fetching.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from rukpak.api.v1alpha2.fields import Api, AtomicList, ConfigMapReference, SecretReference, model_rules, rule

_Expression = Annotated[str, Field(min_length=1, max_length=512)]


class CosignKey(Api):
    """Public keys of cosign: ECDSA (P-256, P-384, P-521), RSA of at least 2048 bits, or Ed25519."""

    model_config = model_rules(rule("has(self.secret) != has(self.pem)", "set either secret or pem, and not both"))
    secret: SecretReference | None = None
    """The Secret with the keys: the value of each key of its data that ends in .pub, in PEM."""
    pem: Annotated[str, Field(max_length=16384, pattern="^-----BEGIN PUBLIC KEY-----")] | None = None
    """The public key in PEM, as cosign public-key prints it."""


class CosignIdentity(Api):
    """Who has signed without a key, as the certificate of Fulcio names it."""

    model_config = model_rules(
        rule("has(self.issuer) != has(self.issuerRegExp)", "set either issuer or issuerRegExp", ".issuer"),
        rule("has(self.subject) != has(self.subjectRegExp)", "set either subject or subjectRegExp", ".subject"),
    )
    issuer: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Who has vouched for the signer, exactly: https://token.actions.githubusercontent.com."""
    issuer_reg_exp: _Expression | None = None
    """Regular expression (RE2) that all of the issuer must match."""
    subject: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """The signer, exactly: a mail address, or the URL of a workflow."""
    subject_reg_exp: _Expression | None = None
    """Regular expression (RE2) that all of the signer must match, as does
    https://github.com/acme/[^/]+/.github/workflows/release.yml@refs/tags/.*, whether or not it starts with ^."""


class TrustedRoot(Api):
    """The certificates and keys of Sigstore services: those of Fulcio, Rekor, and of time stamps."""

    config_map: ConfigMapReference
    """The ConfigMap with the key trusted_root.json, as cosign trusted-root create writes it."""


class CosignVerification(Api):
    """A signature of cosign: one that any of the keys or identities has made is enough."""

    model_config = model_rules(
        rule("has(self.keys) || has(self.identities)", "set keys, identities, or both"),
        rule("!has(self.trustedRoot) || has(self.identities)", "requires identities", ".trustedRoot"),
    )
    keys: Annotated[AtomicList[CosignKey], Field(min_length=1, max_length=16)] | None = None
    """Keys of signers. No transparency log is asked for with a key."""
    identities: Annotated[AtomicList[CosignIdentity], Field(min_length=1, max_length=16)] | None = None
    """Signers without keys. Their certificates and the entries of the transparency log, or signed time stamps, are
    checked offline."""
    trusted_root: TrustedRoot | None = None
    """Sigstore services to trust. Default: the public ones, as the release knows them."""
    signed_as: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[!-~]+$")] | None = None
    """Repository that was signed, where the image was copied from there together with its signature:
    ghcr.io/acme/shop. Only the form of cosign 2 names one. Default: the repository of the source."""
    attestation: Annotated[str, Field(max_length=512)] = ""
    """Predicate type of an attestation that one of the signers must have made, in addition to the signature:
    https://slsa.dev/provenance/v1. Empty: none."""


class ImageVerification(Api):
    """Who must have signed an image: the digest that status records, which is that of an index if ref names one."""

    cosign: CosignVerification
    """A signature of cosign, stored in the repository of the image."""
    version: Literal["Signed", "Tag"] = "Signed"
    """Which version counts where semver leads to a tag. Signed: the annotation org.opencontainers.image.version of the
    signed manifest must be that version. Tag: it need not be; whoever may push tags can let a higher version lead to
    any image that was ever signed."""


class GitVerification(Api):
    """Who must have signed a commit or a tag."""

    secret: SecretReference
    """The Secret with the keys of signers: PGP public keys in any keys of its data, and keys for ssh in the key
    allowed_signers, in the format of ssh-keygen."""
    object: Literal["Commit", "Tag"] = "Commit"
    """Commit: the commit must be signed. Tag: the annotated tag that ref or semver leads to must be, and the commit
    need not."""


class HttpVerification(Api):
    """Who must have signed a file."""

    cosign: CosignVerification
    """A Sigstore bundle, as cosign sign-blob --bundle writes it, at signatureURL."""
    signature_url: Annotated[str, Field(max_length=2048, pattern=r"^https?://[!-.0-~][!-~]*$")] | None = None
    """URL of the signature. Default: the URL of the file with .sigstore.json at its end."""


class ChartProvenance(Api):
    """The provenance file of a chart, as helm package --sign writes it."""

    secret: SecretReference
    """The Secret with the PGP public keys of signers, in any keys of its data."""


class ChartVerification(Api):
    """Who must have signed a chart."""

    model_config = model_rules(
        rule("has(self.provenance) != has(self.cosign)", "set either provenance or cosign, and not both")
    )
    provenance: ChartProvenance | None = None
    """A provenance file beside the chart. For chart repositories."""
    cosign: CosignVerification | None = None
    """A signature of cosign. For charts in registries (oci://)."""


Verification = ImageVerification | GitVerification | HttpVerification | ChartVerification


@dataclass(frozen=True, slots=True, kw_only=True)
class Demanded:
    """What the administrator demands of a source in addition to its `verify`; no spec contains it."""

    verification: Verification | None
    """Who must have signed it. Its Secret stands for the keys of the administrator. None: `problem` says why nobody
    can."""
    keys: str
    """Where these keys are: a file or folder, or `secret:NAMESPACE/NAME`."""
    problem: str = ""


def secrets_of(verification: Verification) -> Iterator[tuple[str, SecretReference]]:
    """Yield each Secret that a verification names, with its field path below `verify`."""
    if isinstance(verification, GitVerification):
        yield ".secret", verification.secret
        return
    if isinstance(verification, ChartVerification) and verification.provenance:
        yield ".provenance.secret", verification.provenance.secret
    for index, key in enumerate(verification.cosign.keys or () if verification.cosign else ()):
        if key.secret:
            yield f".cosign.keys[{index}].secret", key.secret


def config_maps_of(verification: Verification) -> Iterator[tuple[str, ConfigMapReference]]:
    """Yield each ConfigMap that a verification names, with its field path below `verify`."""
    cosign = None if isinstance(verification, GitVerification) else verification.cosign
    if cosign and cosign.trusted_root:
        yield ".cosign.trustedRoot.configMap", cosign.trusted_root.config_map
