"""What becomes of each layer: of an image it is unpacked; of another artifact it is a file, an archive or a chart.

The manifest's config tells an image from another artifact, since `oras push` gives files the media types of layers.
Files are named by the annotation `org.opencontainers.image.title`, as oras names them; folders that oras has packed,
and archives of Flux, are unpacked; a chart of Helm keeps the name that `helm package` gave it.

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
_CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_PROVENANCE = "application/vnd.cncf.helm.chart.provenance.v1.prov"
_FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
_EMPTY = "application/vnd.oci.empty.v1+json"  # stands where a list must not be empty
_TITLE = "org.opencontainers.image.title"
_UNPACK = "io.deis.oras.content.unpack"


class Role(Enum):
    """What a layer is."""

    LAYER = "layer of an image"
    """An archive with whiteouts."""
    ARCHIVE = "archive"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer that is to be read."""

    descriptor: Descriptor
    role: Role
    name: str = ""
    """Of a file; '' for a chart without a title, which the config names."""
    suffix: str = ""
    """Behind the name that the config gives."""


def plan_layers(image: Image, path: str) -> tuple[Layer, ...]:
    """Return the layers of an image or artifact that are to be read, in order.

    Raises: BundleError (UnsupportedContent; ContentRejected for two files of one name).
    """
    is_image = image.config is None or image.config.media_type in _IMAGE_CONFIGS
    layers = tuple(_plan(image, is_image=is_image, path=path))
    names = Counter(layer.name for layer in layers if layer.name)
    for name, count in names.items():
        if count > 1:
            message = f"{path}.ref: {count} layers are called {quote(name)}; give them different titles"
            raise BundleError(Reason.CONTENT_REJECTED, message)
    return layers


def _plan(image: Image, *, is_image: bool, path: str) -> Iterator[Layer]:
    for index, descriptor in enumerate(image.layers):
        if descriptor.media_type == _EMPTY:
            continue
        layer = _image_layer(descriptor) if is_image else _artifact_layer(descriptor)
        layer = layer or _chart_layer(descriptor)
        if layer is None:
            what = f"layer {index} is of media type {quote(descriptor.media_type)}"
            remedy = "push it as tar, tar+gzip or tar+zstd, not encrypted and not foreign"
            if not is_image:
                remedy = f"push it with the annotation {_TITLE}, which names the file"
            raise BundleError(Reason.UNSUPPORTED_CONTENT, f"{path}.ref: {what}; {remedy}")
        yield layer


def _image_layer(descriptor: Descriptor) -> Layer | None:
    return Layer(descriptor=descriptor, role=Role.LAYER) if descriptor.media_type in _IMAGE_LAYERS else None


def _artifact_layer(descriptor: Descriptor) -> Layer | None:
    title = descriptor.annotations.get(_TITLE, "")
    if descriptor.media_type == _FLUX or (title and descriptor.annotations.get(_UNPACK) == "true"):
        return Layer(descriptor=descriptor, role=Role.ARCHIVE)
    if title:
        return Layer(descriptor=descriptor, role=Role.FILE, name=title)
    return _image_layer(descriptor)


def _chart_layer(descriptor: Descriptor) -> Layer | None:
    suffix = {_CHART: ".tgz", _PROVENANCE: ".tgz.prov"}.get(descriptor.media_type)
    return Layer(descriptor=descriptor, role=Role.FILE, suffix=suffix) if suffix else None


class _Chart(BaseModel):
    """What Helm writes as the config of a chart: its Chart.yaml."""

    name: str
    version: str


_CHART_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)


def name_chart(config: bytes, path: str) -> str:
    """Return `<name>-<version>`, as `helm package` names a chart.

    Args:
        config: of the artifact; its digest was verified.
        path: of the source in the spec; messages begin with it.

    Raises: BundleError (UnsupportedContent).
    """
    name = ""
    try:
        chart = _Chart.model_validate_json(config)
        name = f"{chart.name}-{chart.version}"
    except ValidationError:
        pass  # refused below, like a name that would be a path
    if not _CHART_NAME.fullmatch(name):
        message = f"{path}.ref: the config of the chart has no name and version; push it by helm push"
        raise BundleError(Reason.UNSUPPORTED_CONTENT, message)
    return name
