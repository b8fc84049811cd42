"""Images and other OCI artifacts: one HEAD resolves a tag, and the layers of exactly that digest are streamed.

Not here: connecting and the protocol (registry.py), logging in (login.py), manifests and layers (manifest.py), and who
has signed the digest (signed.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Entry, Resolution, Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import Rejection, quote
from rukpak.controller.content.tar import read_tar
from rukpak.controller.sources.hosts import Place, find_problems
from rukpak.controller.sources.image.manifest import (
    VERSION,
    Image,
    Index,
    Layer,
    check_size,
    choose,
    name_chart,
    parse_manifest,
    plan_layers,
)
from rukpak.controller.sources.image.reference import ImageReference, has_target, parse_reference
from rukpak.controller.sources.image.registry import Registry, connected, read_tags
from rukpak.controller.sources.image.signed import find_signer
from rukpak.controller.sources.pace import check_deadline
from rukpak.controller.sources.trust import certificate_problems
from rukpak.controller.sources.versions import (
    Choice,
    Range,
    checked,
    compile_filter,
    is_version,
    parse_version,
)

_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9._]+)?")
_DEFAULT_PLATFORM = "linux/amd64"
_CHART_CONFIG_BYTES = MEBIBYTE
_MOST_DEPTH = 3
_MOST_INDEXES = 4
"""In one index, of those without a platform: each costs a request."""


class ImageSource:
    """The kind `image`. Parameters: ref, semver, semverFilter, platform, insecureSkipTLSVerify, certificateData."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        ref = parameters.get("ref", "")
        problems = find_problems(ref, f"{path}.ref", parse_reference, f"image reference {quote(ref)}")
        problems += _range_problems(parameters, path)
        if not _PLATFORM.fullmatch(_platform(parameters)):
            problem = f"{quote(_platform(parameters))} is not os/architecture[/variant]"
            problems.append(f"{path}.platform: {problem}; correct it")
        return problems + certificate_problems(parameters, path)

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the reference in normal form, the platform, and the range of versions with its filter, if any."""
        identity = {"ref": parse_reference(parameters["ref"]).normal, "platform": _platform(parameters)}
        return identity | {name: parameters[name] for name in ("semver", "semverFilter") if parameters.get(name)}

    def origin(self, parameters: Mapping[str, Any]) -> str:
        """Return registry and repository as named, even if a mirror of the administrator is used."""
        reference = parse_reference(parameters["ref"])
        return f"{reference.registry}/{reference.repository}"

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Return the digest that the reference names now; of a digest, check that this caller may read it.

        Raises: BundleError (NotFound, Unauthorized, Unreachable, TLSVerificationFailed, InsecureRefused,
            InvalidReference, VerificationFailed, VerificationUnavailable, InvalidVerification).
        """
        reference = _parse(parameters, access)
        missing = Reason.PINNED_CONTENT_GONE if access.pinned else Reason.NOT_FOUND
        with connected(parameters, reference, access, missing=missing) as registry:
            found = _resolve(registry, parameters, reference, access)
            signer = access.known_signer(found.digest) or find_signer(
                registry, parameters, access, digest=found.digest, repository=self.origin(parameters)
            )
            if signer:
                signer = _with_version(signer, registry, parameters, found, access)
        return replace(found, signer=signer)

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return digest and platform: the content of an index depends on the platform."""
        return f"{resolution.digest}|{_platform(parameters)}"

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the entries of all layers, the lowest first; each layer is verified after its last entry.

        Raises: BundleError (PinnedContentGone, DigestMismatch, PlatformNotFound, UnsupportedContent, ContentRejected,
            and those of `resolve`).
        """
        reference = _parse(parameters, access)
        with connected(parameters, reference, access, missing=Reason.PINNED_CONTENT_GONE) as registry:
            image = _read_image(registry, resolution.digest, _platform(parameters), access)
            layers = plan_layers(image, access.path)
            check_size(image, access.limits, access.path)
            yield from _read_layers(registry, _name_files(layers, image, registry, access), access)


def _resolve(
    registry: Registry, parameters: Mapping[str, Any], reference: ImageReference, access: Access
) -> Resolution:
    if access.pinned:
        registry.resolve(access.pinned.digest)
        return access.pinned
    if not parameters.get("semver"):
        digest = registry.resolve(reference.target)
        named = "" if reference.digest else reference.tag
        return Resolution(pinned=f"{reference.name}@{digest}", digest=digest, reference=named)
    tag = _choose_tag(registry, parameters, reference, access)
    digest = registry.resolve(tag)
    return Resolution(pinned=f"{reference.name}:{tag}@{digest}", digest=digest, version=tag)


def _with_version(
    signer: Signer, registry: Registry, parameters: Mapping[str, Any], found: Resolution, access: Access
) -> Signer:
    """Return a signer with the version that the image says it is. A signature is of a digest, and not of a tag.

    Raises: BundleError (VerificationFailed for a tag of another version that a range leads to; as reading a manifest).
    """
    must_match = bool(found.version) and parameters["verify"].get("version") != "Tag"
    is_known = signer is access.known_signer(found.digest) and (bool(signer.version) or not must_match)
    if not is_known and (found.version or parse_version(found.reference)):
        signer = replace(signer, version=_read_version(registry, found.digest, parameters, access))
    if must_match and not is_version(found.version, signer.version):
        says = f"says {quote(signer.version)}" if signer.version else "is missing"
        problem = (
            f"tag {quote(found.version)} is not the version of the signed image, whose annotation {VERSION} {says}"
        )
        remedy = "build the image with it and sign it again, or set verify.version: Tag"
        raise BundleError(Reason.VERIFICATION_FAILED, f"{problem}; {remedy}", place=f"{access.path}.verify.version")
    return signer


def _read_version(registry: Registry, digest: str, parameters: Mapping[str, Any], access: Access) -> str:
    """Return the annotated version; '' for none. Builders annotate an index, or only the images in it.

    Raises: BundleError as reading a manifest.
    """
    document = parse_manifest(registry.read_manifest(digest), access.path)
    if isinstance(document, Index) and not document.version:
        with suppress(BundleError):  # reading the content reports it
            document = _read_image(registry, digest, _platform(parameters), access)
    return document.version


def _range_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    if not parameters.get("semver"):
        return [f"{path}.semverFilter: requires semver; set it"] if parameters.get("semverFilter") else []
    problems = []
    if has_target(parameters.get("ref", "")):
        problems.append(f"{path}.ref: must have neither tag nor digest together with semver; remove it")
    problems += find_problems(parameters["semver"], f"{path}.semver", Range)
    return problems + find_problems(parameters.get("semverFilter") or "", f"{path}.semverFilter", compile_filter)


def _choose_tag(registry: Registry, parameters: Mapping[str, Any], reference: ImageReference, access: Access) -> str:
    choice = Choice(Range(parameters["semver"]))
    is_wanted = compile_filter(parameters.get("semverFilter") or "")
    check = partial(check_deadline, access)
    for page in read_tags(registry, access.room, check):
        for tag in filter(is_wanted, checked(page, check)):
            choice.see(tag)
    if choice.highest:
        return choice.highest
    problem = f"repository {quote(reference.repository)} has no tag in the range {quote(parameters['semver'])}"
    near = choice.describe_nearest()
    raise BundleError(
        Reason.NOT_FOUND, f"{problem}; {near}; correct it, or push a version", place=f"{access.path}.semver"
    )


def _read_image(registry: Registry, digest: str, platform: str, access: Access, depth: int = 0) -> Image:
    """Return an image, found in its index, or in indexes inside that, as some builders push them.

    Raises: BundleError (PlatformNotFound, UnsupportedContent, and those of reading manifests).
    """
    document = parse_manifest(registry.read_manifest(digest), access.path)
    if isinstance(document, Image):
        return document
    if depth == _MOST_DEPTH:
        problem = "indexes are inside each other too deeply; push the images into one"
        raise BundleError(Reason.UNSUPPORTED_CONTENT, problem, place=f"{access.path}.ref")
    missing = None
    try:
        digests = [choose(document, platform, access.path).digest]
    except BundleError as error:  # unless one of the indexes in it has the image
        digests, missing = [entry.digest for entry in document.indexes[:_MOST_INDEXES]], error.without_frames()
    del document  # the registry may take its time to answer
    for each in digests:
        try:
            return _read_image(registry, each, platform, access, depth + 1)
        except BundleError as error:
            if missing is None or error.reason is not Reason.PLATFORM_NOT_FOUND:
                raise
    raise missing or AssertionError


def _name_files(layers: tuple[Layer, ...], image: Image, registry: Registry, access: Access) -> tuple[Layer, ...]:
    if not any(layer.suffix for layer in layers):
        return layers
    config = b""
    if image.config is not None:
        with closing(registry.open_blob(image.config)) as blob:
            config = blob.read_all(_CHART_CONFIG_BYTES)
    name = name_chart(config, access.path)
    return tuple(replace(layer, name=layer.name or name + layer.suffix) for layer in layers)


def _read_layers(registry: Registry, layers: tuple[Layer, ...], access: Access) -> Iterator[Entry]:
    done, total = 0, sum(layer.descriptor.size for layer in layers)

    def _advance(count: int, place: Place) -> None:
        nonlocal done
        done += count
        place.report(access, done, total)

    for number, layer in enumerate(layers):
        with closing(registry.open_blob(layer.descriptor, _advance)) as blob:
            try:
                if layer.name:
                    yield Entry(path=layer.name, size=layer.descriptor.size, data=blob, layer=number)
                else:
                    yield from read_tar(blob, access.limits, layer=number if layer.has_whiteouts else None)
            except Rejection as rejection:  # by the reader, or thrown by the writer
                blob.verify()  # a wrong digest explains it
                raise rejection.at(access.path) from None
            blob.verify()
            access.progress(done, total)


def _parse(parameters: Mapping[str, Any], access: Access) -> ImageReference:
    try:
        return parse_reference(parameters["ref"])
    except ValueError as error:
        problem = f"image reference {quote(parameters['ref'])} {error}"
        raise BundleError(Reason.INVALID_REFERENCE, problem, place=f"{access.path}.ref") from None


def _platform(parameters: Mapping[str, Any]) -> str:
    return parameters.get("platform") or _DEFAULT_PLATFORM
