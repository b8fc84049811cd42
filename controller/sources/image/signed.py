"""Who has signed an image: signatures of cosign are found in its repository, in both ways in which they are stored.

- **Sigstore bundles** refer to the digest (OCI 1.1): the registry lists them, or the tag `sha256-<digest>` does.
- **Simple signing**: the tag `sha256-<digest>.sig`, or an artifact that refers to the digest; attestations of that
  form: `sha256-<digest>.att`.

At most three requests find a signature that is there: the list or its tag, a manifest, and a blob; one more is sent to
a registry that does not list referrers, once. Where that is known, the list is asked for after all before a signature
is missed, since there may be several registries behind one host.

Anybody who may push to the repository can add to these lists: what is read of them is limited in number and size, and
what cannot be used is passed over.

Not here: what a signature must be (signatures/cosign.py), and the protocol (registry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Signer
from rukpak.api.v1alpha2.conditions import Reason, Retry
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.image.manifest import PLACEHOLDER, Descriptor, Image, Index, parse_manifest
from rukpak.controller.sources.image.registry import Registry
from rukpak.controller.sources.signatures import SignatureError
from rukpak.controller.sources.signatures.cosign import (
    BUNDLE,
    CERTIFICATE,
    ENVELOPE,
    SIGNATURE,
    SIMPLE_SIGNATURE,
    SIMPLE_SIGNING,
    Checked,
    Subject,
    Wanted,
    check_bundle,
    check_envelope,
    check_payload,
    read_wanted,
)

_WITHOUT_KEY = "it was made without a key in the form of cosign 2, which is not supported; make it with cosign 3"
MOST_SIGNATURES = 16
"""Signatures of each way of storing them: each costs two requests, or one."""
SIGNATURE_BYTES = MEBIBYTE
_PREDICATE_TYPE = "dev.sigstore.bundle.predicateType"
_CREATED = "org.opencontainers.image.created"


def find_signer(
    registry: Registry, parameters: Mapping[str, Any], access: Access, *, digest: str, repository: str
) -> Signer | None:
    """Return who has signed a digest, as `verify` of the parameters asks; None if it asks for nobody.

    Args:
        registry: the repository, for one call.
        parameters: of the source.
        access: of the call.
        digest: of the manifest or index.
        repository: that the spec names, in normal form, even if it is read from a mirror.

    Raises: BundleError (VerificationFailed, VerificationUnavailable, InvalidVerification).
    """
    verify = (parameters.get("verify") or {}).get("cosign")
    if not verify:
        return None
    path = f"{access.path}.verify"
    wanted = read_wanted(verify, access.trusted.data, f"{path}.cosign")
    search = _Search(registry=registry, subject=Subject(digest=digest, repository=repository), wanted=wanted, path=path)
    signer = search.find(search.signatures(), "").signer
    if attestation := verify.get("attestation"):
        search.find(search.attestations(attestation), attestation)
    return signer


@dataclass(slots=True, kw_only=True)
class _Search:
    """The search for one signature."""

    registry: Registry
    subject: Subject
    wanted: Wanted
    path: str
    problems: list[str] = field(default_factory=list)
    """Why signatures that were found are not accepted."""
    unavailable: BundleError | None = None
    """Why one could not be read, although it may be there."""
    referrers: list[Descriptor] | None = None
    """What refers to the digest; None: not known yet."""
    is_by_tag: bool = False
    """Whether that is only what the tag lists."""

    def find(self, candidates: Iterator[Callable[[], Checked]], predicate_type: str) -> Checked:
        """Return the first candidate that is accepted.

        Raises: BundleError (VerificationFailed, VerificationUnavailable, InvalidVerification).
        """
        self.problems, self.unavailable = [], None
        for candidate in candidates:
            try:
                checked = candidate()
            except SignatureError as error:
                self.problems.append(str(error))
            except BundleError as error:
                self._note(error)
            else:
                if checked.predicate_type in ((predicate_type,) if predicate_type else ("", SIGNATURE)):
                    return checked
                self.problems.append(f"it is an attestation of type {quote(checked.predicate_type)}")
        raise self._failure(predicate_type)

    def _note(self, error: BundleError) -> None:
        if error.reason in (Reason.INVALID_VERIFICATION, Reason.VERIFICATION_UNAVAILABLE):
            raise error
        if error.reason.retry is Retry.TRANSIENT:
            self.unavailable = error
        else:
            self.problems.append("it cannot be read")

    def _failure(self, predicate_type: str) -> BundleError:
        if cause := self.unavailable:
            problem = f"the signature cannot be read: {cause.problem}"
            return BundleError(Reason.VERIFICATION_UNAVAILABLE, problem, place=self.path, retry_after=cause.retry_after)
        what = f"attestation of type {quote(predicate_type)}" if predicate_type else "signature"
        if not self.problems:
            problem = f"{self.subject.digest} has no {what}; sign it with cosign"
        else:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            problem = f"{self.subject.digest} has no {what} that is accepted: {self.problems[0]}{more}"
            problem += "; sign it, or correct verify"
        return BundleError(Reason.VERIFICATION_FAILED, problem, place=self.path)

    # what may be a signature

    def signatures(self) -> Iterator[Callable[[], Checked]]:
        """Yield what may be a signature: bundles first, then simple signing."""
        yield from self.bundles(SIGNATURE)
        for layer in self._layers(f"{self._tag}.sig", SIMPLE_SIGNING):
            yield partial(self._check_payload, layer)
        yield from self._referring_documents()
        if self.is_by_tag:
            yield from self._bundles_after_all(SIGNATURE)
            yield from self._referring_documents()

    def _referring_documents(self) -> Iterator[Callable[[], Checked]]:
        found = _of_types(self.referrers or (), SIMPLE_SIGNATURE)
        if not (found or self.is_by_tag):
            listed = self._read_document(lambda: self.registry.find_referrers(self.subject.digest, SIMPLE_SIGNATURE))
            found = _of_types(_entries_of(listed), SIMPLE_SIGNATURE)
        for descriptor in found[::-1][:MOST_SIGNATURES]:
            for layer in self._layers(descriptor.digest, SIMPLE_SIGNING):
                yield partial(self._check_payload, layer)

    def attestations(self, predicate_type: str) -> Iterator[Callable[[], Checked]]:
        """Yield what may be an attestation of a type: bundles first, then envelopes."""
        yield from self.bundles(predicate_type)
        for layer in self._layers(f"{self._tag}.att", ENVELOPE):
            if layer.annotations.get("predicateType") in (predicate_type, None):
                yield partial(self._check_envelope, layer)
        yield from self._bundles_after_all(predicate_type)

    def _bundles_after_all(self, predicate_type: str) -> Iterator[Callable[[], Checked]]:
        if self.is_by_tag:
            self.referrers, self.is_by_tag = self._list(), False
            yield from self.bundles(predicate_type)

    def bundles(self, predicate_type: str) -> Iterator[Callable[[], Checked]]:
        """Yield the bundles that may be of a type; those that say so come first, and of these the latest."""
        if self.referrers is None:
            self.is_by_tag = not self.registry.lists_referrers
            self.referrers = self._by_tag() if self.is_by_tag else self._list()
        # cosign 2 lists bundles at the tag by the type of their empty config.
        bundles = _of_types(self.referrers, BUNDLE, PLACEHOLDER)
        found = [each for each in bundles if each.annotations.get(_PREDICATE_TYPE) in (predicate_type, None)]
        found.reverse()  # an index at a tag has no times, and the latest is its last
        found.sort(key=lambda each: each.annotations.get(_CREATED, ""), reverse=True)
        found.sort(key=lambda each: (each.artifact_type != BUNDLE, _PREDICATE_TYPE not in each.annotations))
        for descriptor in found[:MOST_SIGNATURES]:
            yield partial(self._check_bundle, descriptor)
        if len(found) > MOST_SIGNATURES:
            self.problems.append(f"only the latest {MOST_SIGNATURES} of {len(found)} bundles were read")

    @property
    def _tag(self) -> str:
        return self.subject.digest.replace(":", "-")

    def _list(self) -> list[Descriptor]:
        found = self._read_document(lambda: self.registry.find_referrers(self.subject.digest, BUNDLE))
        return self._by_tag() if found is None else _entries_of(found)

    def _by_tag(self) -> list[Descriptor]:
        return _entries_of(self._read_document(lambda: self.registry.find_manifest(self._tag)))

    def _layers(self, target: str, media_type: str) -> list[Descriptor]:
        found = self._read_document(lambda: self.registry.find_manifest(target))
        layers = [each for each in found.layers if each.media_type == media_type] if isinstance(found, Image) else []
        if len(layers) > MOST_SIGNATURES:
            self.problems.append(f"only the first {MOST_SIGNATURES} of {len(layers)} signatures were read")
        return layers[:MOST_SIGNATURES]

    def _read_document(self, read: Callable[[], bytes | None]) -> Image | Index | None:
        try:
            data = read()
            return None if data is None else parse_manifest(data, self.path)
        except BundleError as error:
            self._note(error)
            return None

    def _check_bundle(self, descriptor: Descriptor) -> Checked:
        manifest = parse_manifest(self.registry.read_manifest(descriptor.digest), self.path)
        layers = [each for each in manifest.layers if each.media_type == BUNDLE] if isinstance(manifest, Image) else []
        if len(layers) != 1:
            raise SignatureError("the artifact has no bundle")
        return check_bundle(self._read(layers[0]), self.subject, self.wanted)

    def _check_payload(self, layer: Descriptor) -> Checked:
        return check_payload(self._read(layer), layer.annotations, self.subject, self.wanted)

    def _check_envelope(self, layer: Descriptor) -> Checked:
        try:
            return check_envelope(self._read(layer), self.subject, self.wanted)
        except SignatureError:
            if CERTIFICATE in layer.annotations and self.wanted.identities:
                raise SignatureError(_WITHOUT_KEY) from None
            raise

    def _read(self, descriptor: Descriptor) -> bytes:
        with closing(self.registry.open_blob(descriptor)) as blob:
            return blob.read_all(SIGNATURE_BYTES)


def _entries_of(document: Image | Index | None) -> list[Descriptor]:
    return list(document.manifests) if isinstance(document, Index) else []


def _of_types(descriptors: Iterable[Descriptor], *types: str) -> list[Descriptor]:
    return [each for each in descriptors if each.artifact_type in types]
