"""Container images: a tag is resolved by one HEAD, and the layers of exactly that digest are streamed.

Plain http is spoken to loopback registries, unless certificateData or insecureSkipTLSVerify asks for TLS there.

Not here: credentials and OCI artifacts other than images, which this release does not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Entry, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.limits import Rejection, quote
from controller.content.tar import read_tar
from controller.sources.manifest import Image, Index, check_layers, choose, parse_manifest
from controller.sources.reference import ImageReference, parse_reference
from controller.sources.registry import Registry
from controller.sources.transport import Transport, is_certificate_data

_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9]+(?:/[a-z0-9.]+)?")
_DEFAULT_PLATFORM = "linux/amd64"


class ImageSource:
    """The kind `image`. Parameters: ref, platform, insecureSkipTLSVerify, certificateData."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each beginning with its field path below `path`."""
        problems = []
        try:
            parse_reference(parameters.get("ref", ""))
        except ValueError as error:
            problems.append(f"{path}.ref: image reference {quote(parameters.get('ref', ''))} {error}")
        if not _PLATFORM.fullmatch(_platform(parameters)):
            problems.append(
                f"{path}.platform: {quote(_platform(parameters))} is not os/architecture[/variant]; correct it"
            )
        if not is_certificate_data(parameters.get("certificateData", "")):
            problems.append(f"{path}.certificateData: not a bundle of PEM certificates; correct it")
        return problems

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the reference in normal form, and the platform."""
        return {"ref": parse_reference(parameters["ref"]).normal, "platform": _platform(parameters)}

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Ask the registry what the reference names now; for a digest, whether it has it for this caller.

        Raises: BundleError (NotFound, Unauthorized, Unreachable, TLSVerificationFailed, InsecureRefused,
            InvalidReference, NotSupported).
        """
        reference = _parse(parameters, access)
        with _connect(parameters, reference, access) as transport:
            digest = _registry(transport, parameters, reference, access, Reason.NOT_FOUND).resolve(reference.target)
        return Resolution(pinned=f"{reference.name}@{digest}", digest=digest)

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return digest and platform: an index has other content for another platform."""
        return f"{resolution.digest}|{_platform(parameters)}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the entries of all layers, the lowest first; each layer is verified when its last entry was taken.

        Raises: BundleError (PinnedContentGone, DigestMismatch, PlatformNotFound, UnsupportedContent, ContentRejected,
            and those of `resolve`).
        """
        reference = _parse(parameters, access)
        with _connect(parameters, reference, access) as transport:
            registry = _registry(transport, parameters, reference, access, Reason.PINNED_CONTENT_GONE)
            image = _read_image(registry, resolution.digest, _platform(parameters), access)
            check_layers(image, access.limits, access.path)
            yield from _read_layers(registry, image, access)


def _read_image(registry: Registry, digest: str, platform: str, access: Access) -> Image:
    document = parse_manifest(registry.read_manifest(digest), access.path)
    if isinstance(document, Index):
        chosen = choose(document, platform, access.path)
        document = parse_manifest(registry.read_manifest(chosen.digest), access.path)
    if isinstance(document, Index):
        message = f"{access.path}: the index holds another index; push the images into one"
        raise BundleError(Reason.UNSUPPORTED_CONTENT, message)
    return document


def _read_layers(registry: Registry, image: Image, access: Access) -> Iterator[Entry]:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        access.progress(done, image.size)

    for number, descriptor in enumerate(image.layers):
        with closing(registry.open_blob(descriptor, advance)) as blob:
            try:
                yield from read_tar(blob, access.limits, layer=number)
            except Rejection as rejection:  # of the reader, or thrown in by the writer
                blob.verify()  # if it is not what its digest says, then that is the news
                raise rejection.at(access.path) from None
            blob.verify()


def _parse(parameters: Mapping[str, Any], access: Access) -> ImageReference:
    if access.credentials is not None:
        message = f"{access.path}: auth of images is not part of this release; take it out"
        raise BundleError(Reason.NOT_SUPPORTED, message)
    try:
        return parse_reference(parameters["ref"])
    except ValueError as error:
        message = f"{access.path}: image reference {quote(parameters['ref'])} {error}"
        raise BundleError(Reason.INVALID_REFERENCE, message) from None


def _connect(parameters: Mapping[str, Any], reference: ImageReference, access: Access) -> Transport:
    return Transport(
        access,
        certificate_data=parameters.get("certificateData", ""),
        verify=not parameters.get("insecureSkipTLSVerify", False),
        loopback=reference.is_loopback,
    )


def _registry(
    transport: Transport, parameters: Mapping[str, Any], reference: ImageReference, access: Access, missing: Reason
) -> Registry:
    wants_tls = parameters.get("certificateData") or parameters.get("insecureSkipTLSVerify")
    scheme = "http" if reference.is_loopback and not wants_tls else "https"
    return Registry(transport, reference, scheme=scheme, path=access.path, missing=missing)


def _platform(parameters: Mapping[str, Any]) -> str:
    return parameters.get("platform") or _DEFAULT_PLATFORM
