"""The chart that a spec asks for, the files of its archive, and charts in a registry, as `helm push` stores them.

Which version that is, is decided for registries and repositories alike. The files are without the folder of the chart's
name, so that Chart.yaml is at the root.

In a registry tags are versions, with `_` where versions have `+`, and one layer is the packaged chart. A signature is
of the manifest, which has the digest of that layer. Provenance is not read.

Not here: the protocol and logging in (image/registry.py), and finding signatures (image/signed.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Entry, Resolution, Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import strip_components, without_ignore_file
from rukpak.controller.content.digests import digest_of
from rukpak.controller.content.disk import Spool
from rukpak.controller.content.limits import Rejection, describe_bytes, quote
from rukpak.controller.content.tar import is_compressed, read_tar
from rukpak.controller.sources.hosts import Detour, find_problems
from rukpak.controller.sources.http import sha256_problems
from rukpak.controller.sources.image.manifest import (
    CHART,
    OLD_CHART,
    Descriptor,
    Image,
    Index,
    parse_manifest,
    read_chart_config,
)
from rukpak.controller.sources.image.reference import OCI, chart_reference
from rukpak.controller.sources.image.registry import Registry, read_tags
from rukpak.controller.sources.image.registry import connected as connected_to_registry
from rukpak.controller.sources.image.signed import find_signer
from rukpak.controller.sources.pace import check_deadline
from rukpak.controller.sources.versions import (
    Check,
    Choice,
    Range,
    checked,
    is_version,
    parse_loosely,
    parse_version,
    similar,
)

_HEAD_BYTES = 512
_CHART = "Chart.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRequest:
    """A chart, as the spec names it."""

    name: str
    version: str
    """Exact, or a range; '' for the highest release."""
    digest: str
    """Digest of the packaged chart; '' for any."""

    @property
    def is_exact(self) -> bool:
        """Whether the spec names one version, which no downgrade guard refuses."""
        return parse_version(self.version) is not None

    def choose(self, versions: Iterable[str], path: str, check: Check) -> str:
        """Return the version to use, as Helm chooses it: the one that is named, else the highest in the range.

        Args:
            versions: those of the chart; read once, and not kept.
            path: of the source in the spec; starts messages.
            check: called often; raises to stop.

        Raises: BundleError (NotFound, with the nearest versions).
        """
        choice, is_named = Choice(Range(self.version), parse_loosely), False
        for version in checked(versions, check):
            is_named = is_named or version == self.version
            choice.see(version)
        if is_named:
            return self.version
        if choice.highest:
            return choice.highest
        lack = f"no version {'' if self.is_exact else 'in the range '}{quote(self.version)}"
        lack = lack if self.version else "no version that is not a pre-release"
        problem = f"chart {quote(self.name)} has {lack}; {choice.describe_nearest()}"
        raise BundleError(Reason.NOT_FOUND, f"{problem}; correct it, or publish a version", place=f"{path}.version")

    def unknown(self, names: Iterable[str], path: str, check: Check) -> BundleError:
        """Return the error for a repository without the chart, with similar names among those that it has."""
        close = similar(self.name, names, check)
        told = f"; similar names are {', '.join(map(quote, close))}" if close else ""
        problem = f"the repository has no chart {quote(self.name)}{told}"
        return BundleError(Reason.NOT_FOUND, f"{problem}; correct it, or publish the chart", place=f"{path}.name")

    def check_digest(self, version: str, digest: str, path: str) -> None:
        """Check that a version has the digest that the spec asks for, if it asks for one.

        Raises: BundleError (DigestMismatch).
        """
        if self.digest not in ("", digest):
            problem = f"version {quote(version)} has another digest; find out who changed it, or correct sha256"
            raise BundleError(Reason.DIGEST_MISMATCH, problem, place=f"{path}.sha256")

    def pin(self, repository: str, version: str, digest: str, validator: str = "") -> Resolution:
        """Return the resolution for one version of the chart."""
        chosen = "" if self.is_exact else version
        pinned = f"{repository}/{self.name}:{version}@{digest}"
        return Resolution(pinned=pinned, digest=digest, version=chosen, validator=validator, reference=version)


def parse_request(parameters: Mapping[str, Any]) -> ChartRequest:
    """Return what valid parameters ask for."""
    sha256 = parameters.get("sha256") or ""
    return ChartRequest(
        name=parameters["name"],
        version=parameters.get("version") or "",
        digest=f"sha256:{sha256}" if sha256 else "",
    )


def request_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    """Return what is wrong with version and sha256, each with its field path below `path`."""
    return find_problems(parameters.get("version") or "", f"{path}.version", Range) + sha256_problems(parameters, path)


def pinned_version(resolution: Resolution) -> str:
    """Return the version that a resolution names."""
    return resolution.pinned.rpartition("@")[0].rpartition(":")[2]


def read_chart(file: BinaryIO, access: Access) -> Iterator[Entry]:
    """Yield the entries of a packaged chart, which is verified already.

    Raises: BundleError (ContentRejected; UnsupportedContent for anything else than a packaged chart).
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if not is_compressed(head):
        raise _unsupported(access, "is not a tar archive with gzip")
    has_chart = False
    try:
        for entry in strip_components(without_ignore_file(read_tar(file, access.limits)), 1, access.limits):
            has_chart = has_chart or entry.path == _CHART
            yield entry
    except Rejection as rejection:  # by the reader, or thrown by the writer
        raise rejection.at(access.path) from None
    if not has_chart:
        raise _unsupported(access, f"has no {_CHART} in its folder")


def _unsupported(access: Access, problem: str) -> BundleError:
    message = f'{access.path}: the packaged chart {problem}; publish what "helm package" writes'
    return BundleError(Reason.UNSUPPORTED_CONTENT, message)


_CONFIG = "application/vnd.cncf.helm.config.v1+json"
_FIELD = "repository"
_MOST_ENTRIES = 8
_CONFIG_BYTES = MEBIBYTE
_CHUNK = 64 * 1024


class RegistryRepository:
    """The repository of one chart in a registry, for one call of the source."""

    def __init__(self, registry: Registry, repository: str, parameters: Mapping[str, Any], access: Access) -> None:
        self._registry, self._repository, self._parameters, self._access = registry, repository, parameters, access
        self._request = parse_request(parameters)

    def resolve(self) -> Resolution:
        """Return the version to use, and the digest of its layer.

        Raises: BundleError (NotFound, DigestMismatch, UnsupportedContent, and those of the registry).
        """
        pinned = self._access.pinned
        version, manifest = self._read_manifest(pinned_version(pinned)) if pinned else self._choose()
        config, digest = self._read_chart(manifest)
        if pinned and digest != pinned.digest:
            problem = f"version {quote(version)} has another digest by now, so that its signature cannot be checked"
            remedy = "push the recorded one again, or request a new resolution"
            raise BundleError(Reason.PINNED_CONTENT_GONE, f"{problem}; {remedy}", place=f"{self._access.path}.{_FIELD}")
        self._request.check_digest(version, digest, self._access.path)
        signer = self._access.known_signer(digest)
        if signer is None and (signer := self._find_signer(manifest)):
            signer = replace(signer, version=self._signed_version(config))
        if signer and not is_version(version, signer.version):
            problem = f"version {quote(version)} is not that of the signed chart, which is {quote(signer.version)}"
            remedy = "find out who has pushed it, and push the chart again"
            raise BundleError(Reason.VERIFICATION_FAILED, f"{problem}; {remedy}", place=f"{self._access.path}.verify")
        return replace(pinned or self._request.pin(self._repository, version, digest), signer=signer)

    def _find_signer(self, manifest: bytes) -> Signer | None:
        repository = f"{self._repository}/{self._request.name}".removeprefix(OCI)
        return find_signer(
            self._registry, self._parameters, self._access, digest=digest_of(manifest), repository=repository
        )

    def fetch(self, resolution: Resolution) -> Iterator[Entry]:
        """Yield the files of the chart that was resolved; its digest is verified before the first one.

        Raises: BundleError (PinnedContentGone, DigestMismatch, ContentRejected, UnsupportedContent, and those of the
            registry).
        """
        with Spool(self._access.scratch, self._access.path) as spool:
            self._download(resolution.digest, spool)
            if spool.digest != resolution.digest:
                problem = "the registry returned content that does not match its digest; find out who changed it"
                raise BundleError(Reason.DIGEST_MISMATCH, problem, place=f"{self._access.path}.{_FIELD}")
            yield from read_chart(spool.rewind(), self._access)

    def _choose(self) -> tuple[str, bytes]:
        # A version that the spec names is asked for without a list of all.
        if self._request.is_exact:
            try:
                return self._read_manifest(self._request.version)
            except BundleError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
        check = partial(check_deadline, self._access)
        pages = read_tags(self._registry, self._access.room, check)
        versions = (tag.replace("_", "+") for page in pages for tag in page)
        return self._read_manifest(self._request.choose(versions, self._access.path, check))

    def _read_manifest(self, version: str) -> tuple[str, bytes]:
        return version, self._registry.read_manifest(version.replace("+", "_"))

    def _signed_version(self, config: Descriptor) -> str:
        """Return the version in the signed config of a chart, which must have its name.

        Raises: BundleError (VerificationFailed, UnsupportedContent, and those of the registry).
        """
        with closing(self._registry.open_blob(config)) as blob:
            name, version = read_chart_config(blob.read_all(_CONFIG_BYTES))
        if name != self._request.name:
            problem = f"the signed chart is {quote(name)}, and not {quote(self._request.name)}"
            remedy = "find out who has pushed it, and push the chart again"
            raise BundleError(Reason.VERIFICATION_FAILED, f"{problem}; {remedy}", place=f"{self._access.path}.verify")
        return version

    def _read_chart(self, manifest: bytes) -> tuple[Descriptor, str]:
        """Return the config of a packaged chart, which says what it is, and the digest of the chart."""
        image = self._find_chart(parse_manifest(manifest, self._access.path, _FIELD))
        if image is None or image.config is None:
            problem = 'it contains something else than a Helm chart; use kind image, or push a chart with "helm push"'
            raise BundleError(Reason.UNSUPPORTED_CONTENT, problem, place=f"{self._access.path}.{_FIELD}")
        layers = [layer for layer in image.layers if layer.media_type in (CHART, OLD_CHART)]
        if len(layers) != 1:
            problem = f'the artifact has {len(layers)} packaged charts in place of one; push it with "helm push"'
            raise BundleError(Reason.UNSUPPORTED_CONTENT, problem, place=f"{self._access.path}.{_FIELD}")
        return image.config, layers[0].digest

    def _find_chart(self, document: Image | Index) -> Image | None:
        if isinstance(document, Image):
            return document if document.config and document.config.media_type == _CONFIG else None
        # An entry that says what it is comes before one that does not; each costs a request.
        entries = [each for each in document.manifests if each.artifact_type in ("", _CONFIG)]
        for entry in sorted(entries, key=lambda each: not each.artifact_type)[:_MOST_ENTRIES]:
            found = parse_manifest(self._registry.read_manifest(entry.digest), self._access.path, _FIELD)
            if isinstance(found, Image) and (chart := self._find_chart(found)):
                return chart
        return None

    def _download(self, digest: str, spool: Spool) -> None:
        limit = self._access.limits.compressed_bytes
        with closing(self._registry.read_blob(digest)) as response:
            while data := response.read(_CHUNK):
                if spool.size + len(data) > limit:
                    problem = f"the packaged chart exceeds the limit of {describe_bytes(limit)}; make it smaller"
                    raise BundleError(Reason.CONTENT_REJECTED, problem, place=f"{self._access.path}.{_FIELD}")
                spool.append(data)
                response.place.report(self._access, spool.size)
            if spool.digest == digest:
                response.settle()


@contextmanager
def connected(
    parameters: Mapping[str, Any], access: Access, missing: Reason, detour: Detour | None = None
) -> Iterator[RegistryRepository]:
    """Provide the repository of a chart, for one call; `detour` is given if the spec does not name its registry.

    Raises: BundleError (InvalidReference, InsecureRefused, SecretInvalid).
    """
    try:
        reference = chart_reference(parameters["repository"], parameters["name"])
    except ValueError as error:
        problem = f"the registry with the chart {error}"
        raise BundleError(Reason.INVALID_REFERENCE, problem, place=f"{access.path}.{_FIELD}") from None
    if access.credentials and access.credentials.bearer_token:
        problem = 'the Secret has the key "bearerToken", which registries do not take; give it username and password'
        raise BundleError(Reason.SECRET_INVALID, problem, place=f"{access.path}.auth")
    folder = f"{OCI}{reference.registry}/{reference.repository}".removesuffix(f"/{parameters['name']}")
    with connected_to_registry(parameters, reference, access, missing=missing, field=_FIELD, detour=detour) as registry:
        yield RegistryRepository(registry, folder, parameters, access)
