"""How each layer is read: of an image as a layer; of another artifact as a file, an archive or a chart.

The manifest's config distinguishes images from other artifacts, since `oras push` gives files the media types of
layers. The annotation `org.opencontainers.image.title` names files, as in oras. Folders packed by oras, archives of
Flux, and those that are pushed with the type of a layer are unpacked. A Helm chart keeps the name that `helm package`
gave it.

Not here: reading them (source.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel, ValidationError

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.image.manifest import Descriptor, Image

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
_EMPTY = "application/vnd.oci.empty.v1+json"  # the placeholder in a list that must not be empty
_TITLE = "org.opencontainers.image.title"
_ARCHIVES = (".tar", ".tar.gz", ".tar.zst")  # .tgz is how charts are packed, which stay files
_UNPACK = "io.deis.oras.content.unpack"


class Role(Enum):
    """How a layer is read."""

    LAYER = "layer of an image"
    """As an archive with whiteouts."""
    ARCHIVE = "archive"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer to read."""

    descriptor: Descriptor
    role: Role
    name: str = ""
    """Of a file; '' for a chart without a title, which the config names."""
    suffix: str = ""
    """Of the name in the config."""


def plan_layers(image: Image, path: str) -> tuple[Layer, ...]:
    """Return the layers of an image or artifact to read, in order.

    Raises: BundleError (UnsupportedContent; ContentRejected for two files of one name).
    """
    is_image = image.config is None or image.config.media_type in _IMAGE_CONFIGS
    layers = tuple(_plan(image, is_image=is_image, path=path))
    names = Counter(layer.name for layer in layers if layer.name)
    for name, count in names.items():
        if count > 1:
            message = f"{path}.ref: {count} layers have the title {quote(name)}; give them different titles"
            raise BundleError(Reason.CONTENT_REJECTED, message)
    return layers


def _plan(image: Image, *, is_image: bool, path: str) -> Iterator[Layer]:
    for index, descriptor in enumerate(image.layers):
        if descriptor.media_type == _EMPTY:
            continue
        layer = _image_layer(descriptor) if is_image else _artifact_layer(descriptor)
        layer = layer or _chart_layer(descriptor)
        if layer is None:
            problem = f"layer {index} has the unsupported media type {quote(descriptor.media_type)}"
            remedy = f"push it with the annotation {_TITLE}, which names the file"
            if is_image:
                remedy = "push it as tar, tar+gzip or tar+zstd, neither encrypted nor foreign"
            raise BundleError(Reason.UNSUPPORTED_CONTENT, f"{path}.ref: {problem}; {remedy}")
        yield layer


def _image_layer(descriptor: Descriptor) -> Layer | None:
    return Layer(descriptor=descriptor, role=Role.LAYER) if descriptor.media_type in _IMAGE_LAYERS else None


def _artifact_layer(descriptor: Descriptor) -> Layer | None:
    title = descriptor.annotations.get(_TITLE, "")
    if descriptor.media_type == _FLUX or (title and descriptor.annotations.get(_UNPACK) == "true"):
        return Layer(descriptor=descriptor, role=Role.ARCHIVE)
    if title and descriptor.media_type in _IMAGE_LAYERS and title.endswith(_ARCHIVES):
        return Layer(descriptor=descriptor, role=Role.ARCHIVE)
    if title:
        return Layer(descriptor=descriptor, role=Role.FILE, name=title)
    return _image_layer(descriptor)


def _chart_layer(descriptor: Descriptor) -> Layer | None:
    suffix = {CHART: ".tgz", OLD_CHART: ".tgz", _PROVENANCE: ".tgz.prov"}.get(descriptor.media_type)
    return Layer(descriptor=descriptor, role=Role.FILE, suffix=suffix) if suffix else None


class _Chart(BaseModel):
    """The config of a chart, which is its Chart.yaml."""

    name: str
    version: str


_CHART_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)


def name_chart(config: bytes, path: str) -> str:
    """Return `<name>-<version>`, as `helm package` names a chart.

    Args:
        config: of the artifact, verified.
        path: of the source in the spec; starts messages.

    Raises: BundleError (UnsupportedContent).
    """
    name = ""
    try:
        chart = _Chart.model_validate_json(config)
        name = f"{chart.name}-{chart.version}"
    except ValidationError:
        pass  # refused below, like a name that is a path
    if not _CHART_NAME.fullmatch(name):
        message = f'{path}.ref: the config of the chart has no valid name and version; push the chart with "helm push"'
        raise BundleError(Reason.UNSUPPORTED_CONTENT, message)
    return name
