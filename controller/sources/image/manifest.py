"""Manifests and indexes of OCI and Docker v2, the choice of a platform, and how each layer is read.

Formats: image-spec manifest.md and image-index.md; distribution's manifest-v2-2.md.

A layer of an image is read as a layer; of another artifact as a file, an archive or a chart. The manifest's config
distinguishes images from other artifacts, since `oras push` gives files the media types of layers. The annotation
`org.opencontainers.image.title` names files, as in oras. Folders packed by oras, archives of Flux, and those that are
pushed with the type of a layer are unpacked. A Helm chart keeps the name that `helm package` gave it.

Pure. Not here: reading them (source.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
    ValidationError,
)

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.digests import DIGEST
from rukpak.controller.content.limits import describe_bytes, quote

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_MANIFESTS, _INDEXES = (OCI_MANIFEST, _DOCKER_MANIFEST), (_OCI_INDEX, _DOCKER_LIST)

ACCEPT = ", ".join((*_MANIFESTS, *_INDEXES))
"""The header of that name."""

VERSION = "org.opencontainers.image.version"
"""Annotation of a manifest. The label of that name in a config is often that of a base image."""
_MOST_OF_VERSION = 256
MOST_VALUES = 20_000
"""Commas and brackets of a document: each costs a kilobyte of memory while it is parsed. An image of 100 layers has a
thousand, a list of 2,000 files 14,000."""
_ATTESTATION = "unknown"  # BuildKit's platform for entries that are not images


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)


_Lower = Annotated[str, StringConstraints(to_lower=True)]


class Platform(_Document):
    """The platform of an entry of an index, in lower case, as spec.platform has it."""

    os: _Lower = ""
    architecture: _Lower = ""
    variant: _Lower = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


def _unless_empty(platform: Platform | None) -> Platform | None:
    # Builders write empty texts for entries of no platform.
    return platform if platform and str(platform) else None


def _texts(found: Any) -> dict[str, str]:
    # Other annotations are no reason to refuse an image.
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in pairs if isinstance(value, str)}


class Descriptor(_Document):
    """A reference to a manifest or a blob."""

    media_type: str = Field(default="", alias="mediaType")
    digest: Annotated[str, Field(pattern=rf"^{DIGEST.pattern}$")]
    size: Annotated[int, Field(ge=0)]
    platform: Annotated[Platform | None, AfterValidator(_unless_empty)] = None
    artifact_type: str = Field(default="", alias="artifactType")
    annotations: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)


class _Manifest(_Document):
    schema_version: int = Field(default=0, alias="schemaVersion")
    media_type: str = Field(default="", alias="mediaType")
    config: Descriptor | None = None
    # Without FailFast, a million empty descriptors would produce two million errors.
    layers: Annotated[tuple[Descriptor, ...] | None, FailFast()] = None
    manifests: Annotated[tuple[Descriptor, ...] | None, FailFast()] = None
    annotations: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The layers of an image or another artifact, the lowest first."""

    layers: tuple[Descriptor, ...]
    config: Descriptor | None = None
    version: str = ""
    """By its annotation."""

    @property
    def size(self) -> int:
        """Compressed bytes of all layers."""
        return sum(layer.size for layer in self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The images of several platforms."""

    manifests: tuple[Descriptor, ...]
    version: str = ""
    """By its annotation."""

    @property
    def indexes(self) -> list[Descriptor]:
        """The entries that are indexes, of any platform."""
        return [each for each in self.manifests if each.platform is None and each.media_type in _INDEXES]


class ValueCounter:
    """Counts the values of a document, which may arrive in pieces; `subject` starts messages."""

    def __init__(self, subject: str) -> None:
        self._subject, self._count = subject, 0

    def add(self, data: bytes) -> None:
        """Count a piece. Raises: BundleError (ContentRejected) for more than `MOST_VALUES`."""
        self._count += sum(map(data.count, (b",", b"{", b"[")))
        if self._count > MOST_VALUES:
            problem = f"the manifest exceeds the limit of {MOST_VALUES} values"
            raise BundleError(Reason.CONTENT_REJECTED, f"{problem}; push fewer files or platforms", place=self._subject)


def parse_manifest(data: bytes, path: str, field: str = "ref") -> Image | Index:
    """Parse a manifest or an index.

    Args:
        data: the document, verified.
        path: of the source in the spec; starts messages.
        field: of the spec that names the repository.

    Raises: BundleError (UnsupportedContent; ContentRejected for one of more than `MOST_VALUES`).
    """
    subject = f"{path}.{field}"
    ValueCounter(subject).add(data)
    if data.lstrip()[:1] == b"<":
        problem = "the registry answered with a web page in place of a manifest"
        raise _unsupported(subject, f"{problem}; correct the name of the registry, or what is in front of it")
    try:
        document = _Manifest.model_validate_json(data)
    except ValidationError as error:
        location = error.errors(include_input=False, include_url=False)[0]["loc"]
        field = ".".join(map(str, location)) or "document"
        raise _unsupported(subject, f"the manifest is invalid at {quote(field)}; push the image again") from None
    if document.schema_version != 2:  # noqa: PLR2004 - the version of every format above
        raise _unsupported(subject, "the manifest has a schema version other than 2; push the image in OCI format")
    if (document.layers is None) == (document.manifests is None):  # readers differ on a document with both
        raise _unsupported(subject, "the manifest must have either layers or manifests; push the image again")
    admitted = _MANIFESTS if document.manifests is None else _INDEXES
    if document.media_type and document.media_type not in admitted:
        problem = f"the manifest has the unsupported media type {quote(document.media_type)}"
        raise _unsupported(subject, f"{problem}; push an image in OCI format")
    version = document.annotations.get(VERSION, "")[:_MOST_OF_VERSION]
    if document.manifests is not None:
        return Index(manifests=document.manifests, version=version)
    return Image(layers=document.layers or (), config=document.config, version=version)


def check_size(image: Image, limits: Limits, path: str) -> None:
    """Refuse layers that are too large together.

    Raises: BundleError (ContentRejected).
    """
    if image.size > limits.compressed_bytes:
        problem = f"the layers exceed the limit of {describe_bytes(limits.compressed_bytes)}"
        raise BundleError(Reason.CONTENT_REJECTED, f"{problem}; make the image smaller", place=f"{path}.ref")


def choose(index: Index, platform: str, path: str) -> Descriptor:
    """Return the entry of an index for a platform; a single entry without a platform is for all.

    Raises: BundleError (PlatformNotFound, which lists the platforms).
    """
    images = [entry for entry in index.manifests if entry.platform is None or entry.platform.os != _ATTESTATION]
    serving = [entry for entry in images if entry.platform is not None and _serves(entry.platform, platform)]
    if serving:
        return min(serving, key=lambda entry: len(str(entry.platform)))  # the one without a variant, or the first
    if len(images) == 1 and images[0].platform is None:
        return images[0]
    raise BundleError(Reason.PLATFORM_NOT_FOUND, _describe_choice(images, platform), place=f"{path}.platform")


def _serves(platform: Platform, wanted: str) -> bool:
    # Without a wanted variant, any will do.
    wanted = wanted.replace("arm64/v8", "arm64")  # the only variant of arm64, often omitted
    return wanted in (str(platform).replace("arm64/v8", "arm64"), f"{platform.os}/{platform.architecture}")


def _describe_choice(images: Sequence[Descriptor], platform: str) -> str:
    names = sorted({quote(str(entry.platform)) for entry in images if entry.platform})
    if not names:
        return "the index has no image with a platform; push it again"
    return f"the index has no image for {quote(platform)}, only for {', '.join(names[:20])}; use one of these"


def _unsupported(subject: str, problem: str) -> BundleError:
    return BundleError(Reason.UNSUPPORTED_CONTENT, problem, place=subject)


_IMAGE_CONFIGS = (
    "",
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
_IMAGE_LAYERS = frozenset(
    (
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
    )
)
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
"""The media type of a packaged Helm chart."""
OLD_CHART = "application/tar+gzip"
"""That of Helm before 3.7."""
_PROVENANCE = "application/vnd.cncf.helm.chart.provenance.v1.prov"
_FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
PLACEHOLDER = "application/vnd.oci.empty.v1+json"  # the placeholder in a list that must not be empty
_TITLE = "org.opencontainers.image.title"
_ARCHIVES = (".tar", ".tar.gz", ".tar.zst")  # .tgz is how charts are packed, which stay files
_UNPACK = "io.deis.oras.content.unpack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer to read: a file if it has a name or a suffix, otherwise an archive."""

    descriptor: Descriptor
    has_whiteouts: bool = False
    """Whether it is a layer of an image."""
    name: str = ""
    """Name of a file; '' for a chart without a title, which the config names."""
    suffix: str = ""
    """Suffix of the name in the config."""


def plan_layers(image: Image, path: str) -> tuple[Layer, ...]:
    """Return the layers of an image or artifact to read, in order.

    Raises: BundleError (UnsupportedContent; ContentRejected for two files of one name).
    """
    is_image = image.config is None or image.config.media_type in _IMAGE_CONFIGS
    layers: list[Layer] = []
    for index, descriptor in enumerate(image.layers):
        if descriptor.media_type == PLACEHOLDER:
            continue
        layer = _plan(descriptor, is_image=is_image)
        if layer is None:
            problem = f"layer {index} has the unsupported media type {quote(descriptor.media_type)}"
            remedy = f"push it with the annotation {_TITLE}, which names the file"
            if is_image:
                remedy = "push it as tar, tar+gzip or tar+zstd, neither encrypted nor foreign"
            raise BundleError(Reason.UNSUPPORTED_CONTENT, f"{problem}; {remedy}", place=f"{path}.ref")
        layers.append(layer)
    for name, count in Counter(layer.name for layer in layers if layer.name).items():
        if count > 1:
            problem = f"{count} layers have the title {quote(name)}; give them different titles"
            raise BundleError(Reason.CONTENT_REJECTED, problem, place=f"{path}.ref")
    return tuple(layers)


def _plan(descriptor: Descriptor, *, is_image: bool) -> Layer | None:
    media_type, title = descriptor.media_type, descriptor.annotations.get(_TITLE, "")
    if not is_image:
        is_packed = descriptor.annotations.get(_UNPACK) == "true"
        is_packed = is_packed or (media_type in _IMAGE_LAYERS and title.endswith(_ARCHIVES))
        if media_type == _FLUX or (title and is_packed):
            return Layer(descriptor=descriptor)
        if title:
            return Layer(descriptor=descriptor, name=title)
    if media_type in _IMAGE_LAYERS:
        return Layer(descriptor=descriptor, has_whiteouts=True)
    suffix = {CHART: ".tgz", OLD_CHART: ".tgz", _PROVENANCE: ".tgz.prov"}.get(media_type)
    return Layer(descriptor=descriptor, suffix=suffix) if suffix else None


class _Chart(BaseModel):
    """The config of a chart, which is its Chart.yaml."""

    name: str
    version: str


_CHART_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)


def read_chart_config(config: bytes) -> tuple[str, str]:
    """Return name and version in the config of a chart; empty for one that has none."""
    try:
        chart = _Chart.model_validate_json(config)
    except ValidationError:
        return "", ""
    return chart.name, chart.version[:_MOST_OF_VERSION]


def name_chart(config: bytes, path: str) -> str:
    """Return `<name>-<version>`, as `helm package` names a chart.

    Args:
        config: of the artifact, verified.
        path: of the source in the spec; starts messages.

    Raises: BundleError (UnsupportedContent).
    """
    name = "-".join(read_chart_config(config))  # of a chart without them no name, either
    if not _CHART_NAME.fullmatch(name):
        message = f'{path}.ref: the config of the chart has no valid name and version; push the chart with "helm push"'
        raise BundleError(Reason.UNSUPPORTED_CONTENT, message)
    return name
