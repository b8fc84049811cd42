"""Manifests and indexes of OCI and Docker v2, and the choice of a platform.

Pure. Formats: image-spec manifest.md and image-index.md; distribution's manifest-v2-2.md.

Not here: how layers are read (layers.py).
"""

from __future__ import annotations

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

from api.errors import BundleError
from api.plugins import Limits
from api.v1alpha2.conditions import Reason
from controller.content.limits import describe_bytes, quote
from controller.sources.image.reference import DIGEST

_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_MANIFESTS, _INDEXES = (_OCI_MANIFEST, _DOCKER_MANIFEST), (_OCI_INDEX, _DOCKER_LIST)

ACCEPT = ", ".join((*_MANIFESTS, *_INDEXES))
"""The header of that name."""

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

    def serves(self, wanted: str) -> bool:
        """Return whether this is the platform `os/architecture[/variant]`; without a wanted variant, any will do."""
        wanted = wanted.replace("arm64/v8", "arm64")  # the only variant of arm64, often omitted
        return wanted in (str(self).replace("arm64/v8", "arm64"), f"{self.os}/{self.architecture}")


def _unless_empty(platform: Platform | None) -> Platform | None:
    """Return a platform; None for one without any text, as builders write for entries of no platform."""
    return platform if platform and str(platform) else None


def _texts(found: Any) -> dict[str, str]:
    """Keep text values only: other annotations are no reason to refuse an image."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The layers of an image or another artifact, the lowest first."""

    layers: tuple[Descriptor, ...]
    config: Descriptor | None = None

    @property
    def size(self) -> int:
        """Compressed bytes of all layers."""
        return sum(layer.size for layer in self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The images of several platforms."""

    manifests: tuple[Descriptor, ...]

    @property
    def indexes(self) -> list[Descriptor]:
        """The entries that are indexes, of any platform."""
        return [each for each in self.manifests if each.platform is None and each.media_type in _INDEXES]


def parse_manifest(data: bytes, path: str, field: str = "ref") -> Image | Index:
    """Parse a manifest or an index.

    Args:
        data: the document, verified.
        path: of the source in the spec; starts messages.
        field: of the spec that names the repository.

    Raises: BundleError (UnsupportedContent).
    """
    subject = f"{path}.{field}"
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
    _check_type(document, subject)
    if document.manifests is not None:
        return Index(manifests=document.manifests)
    return Image(layers=document.layers or (), config=document.config)


def _check_type(document: _Manifest, subject: str) -> None:
    admitted = _MANIFESTS if document.manifests is None else _INDEXES
    if document.media_type and document.media_type not in admitted:
        problem = f"the manifest has the unsupported media type {quote(document.media_type)}"
        raise _unsupported(subject, f"{problem}; push an image in OCI format")


def check_size(image: Image, limits: Limits, path: str) -> None:
    """Refuse layers that are too large together.

    Raises: BundleError (ContentRejected).
    """
    if image.size > limits.compressed_bytes:
        problem = f"the layers exceed the limit of {describe_bytes(limits.compressed_bytes)}"
        raise BundleError(Reason.CONTENT_REJECTED, f"{path}.ref: {problem}; make the image smaller")


def choose(index: Index, platform: str, path: str) -> Descriptor:
    """Return the entry of an index for a platform; a single entry without a platform is for all.

    Raises: BundleError (PlatformNotFound, which lists the platforms).
    """
    images = [entry for entry in index.manifests if entry.platform is None or entry.platform.os != _ATTESTATION]
    serving = [entry for entry in images if entry.platform is not None and entry.platform.serves(platform)]
    if serving:
        return min(serving, key=lambda entry: len(str(entry.platform)))  # the one without a variant, or the first
    if len(images) == 1 and images[0].platform is None:
        return images[0]
    raise BundleError(Reason.PLATFORM_NOT_FOUND, f"{path}.platform: {_describe_choice(images, platform)}")


def _describe_choice(images: Sequence[Descriptor], platform: str) -> str:
    names = sorted({quote(str(entry.platform)) for entry in images if entry.platform})
    if not names:
        return "the index has no image with a platform; push it again"
    return f"the index has no image for {quote(platform)}, only for {', '.join(names[:20])}; use one of these"


def _unsupported(subject: str, problem: str) -> BundleError:
    return BundleError(Reason.UNSUPPORTED_CONTENT, f"{subject}: {problem}")
