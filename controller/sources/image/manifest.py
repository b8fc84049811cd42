"""Manifests and indexes of OCI and Docker v2: what they may be, and the choice among platforms.

Pure. Formats: image-spec manifest.md and image-index.md; distribution's manifest-v2-2.md.

Not here: what becomes of the layers (layers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError

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
"""For the header of that name."""

_ATTESTATION = "unknown"  # as BuildKit writes the platform of what is not an image


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True)


class Platform(_Document):
    """What an entry of an index runs on."""

    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def serves(self, wanted: str) -> bool:
        """Return whether this is the platform `os/architecture[/variant]`; a variant counts only if one is wanted."""
        wanted = wanted.replace("arm64/v8", "arm64")  # the only variant of arm64, written or not
        return wanted in (str(self).replace("arm64/v8", "arm64"), f"{self.os}/{self.architecture}")


def _texts(found: Any) -> dict[str, str]:
    """Keep what is text: few annotations mean something here, and the others are no reason to refuse an image."""
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in pairs if isinstance(value, str)}


class Descriptor(_Document):
    """A reference to a manifest or a blob."""

    media_type: str = Field(default="", alias="mediaType")
    digest: Annotated[str, Field(pattern=rf"^{DIGEST.pattern}$")]
    size: Annotated[int, Field(ge=0)]
    platform: Platform | None = None
    annotations: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)


class _Manifest(_Document):
    schema_version: int = Field(default=0, alias="schemaVersion")
    media_type: str = Field(default="", alias="mediaType")
    config: Descriptor | None = None
    # Without FailFast a manifest of a million empty descriptors would be two million errors.
    layers: Annotated[tuple[Descriptor, ...] | None, FailFast()] = None
    manifests: Annotated[tuple[Descriptor, ...] | None, FailFast()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The layers of an image or of another artifact, the lowest first."""

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


def parse_manifest(data: bytes, path: str) -> Image | Index:
    """Read a manifest or an index.

    Args:
        data: the document; its digest was verified.
        path: of the source in the spec; messages begin with it.

    Raises: BundleError (UnsupportedContent).
    """
    try:
        document = _Manifest.model_validate_json(data)
    except ValidationError as error:
        where = (
            ".".join(str(part) for part in error.errors(include_input=False, include_url=False)[0]["loc"]) or "document"
        )
        raise _unsupported(path, f"the manifest is not a valid one, at {quote(where)}; push the image again") from None
    if document.schema_version != 2:  # noqa: PLR2004 - the version of every format above
        raise _unsupported(path, "the manifest has a schema version other than 2; push the image in OCI format")
    if (document.layers is None) == (document.manifests is None):  # both: read differently by different readers
        raise _unsupported(path, "the manifest must have either layers or manifests; push the image again")
    _check_type(document, path)
    if document.manifests is not None:
        return Index(manifests=document.manifests)
    return Image(layers=document.layers or (), config=document.config)


def _check_type(document: _Manifest, path: str) -> None:
    admitted = _MANIFESTS if document.manifests is None else _INDEXES
    if document.media_type and document.media_type not in admitted:
        raise _unsupported(path, f"manifest of media type {quote(document.media_type)}; push an image in OCI format")


def check_size(image: Image, limits: Limits, path: str) -> None:
    """Refuse layers that are too large together.

    Raises: BundleError (ContentRejected).
    """
    if image.size > limits.compressed_bytes:
        budget = describe_bytes(limits.compressed_bytes)
        message = f"{path}.ref: the layers are over the budget of {budget}; make the image smaller"
        raise BundleError(Reason.CONTENT_REJECTED, message)


def choose(index: Index, platform: str, path: str) -> Descriptor:
    """Return the entry of an index for a platform; a sole entry that names none serves all.

    Raises: BundleError (PlatformNotFound) that lists what there is.
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
        return "the index has no image that names its platform; push it again"
    return f"the index has no image for {quote(platform)}, only for {', '.join(names[:20])}; choose one of these"


def _unsupported(path: str, problem: str) -> BundleError:
    return BundleError(Reason.UNSUPPORTED_CONTENT, f"{path}.ref: {problem}")
