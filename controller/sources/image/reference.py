"""Image references: the grammar of distribution/reference, Docker's short names, and the mirror to fetch from. Pure.

Why not `oras.container.Container`: its expression takes `localhost/foo` for a repository of Docker Hub, and accepts
spaces, upper case and any digest. The administrator configures mirrors (`Network.registry_mirrors`); pins keep the name
that the user wrote, since digests are the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from rukpak.controller.content.digests import is_digest
from rukpak.controller.sources.hosts import HTTPS, PORTS, Location

_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]{1,5})?"
)
_ELEMENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*://).*", re.DOTALL | re.IGNORECASE)
_RANGE = re.compile(r"[<>=~^!*|, ]")
"""Characters of a range of versions, which no tag contains."""
_WILDCARD = re.compile(r"v?\d+(\.\d+)?\.[xX]")
_NAME_LENGTH = 255
OCI = "oci://"
"""What the address of a chart in a registry begins with."""
HUB = "docker.io"
"""The default registry; the normal form of all its names."""
HUB_HOST = "registry-1.docker.io"
HUB_NAMES = (HUB, "index.docker.io", HUB_HOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One repository at one host."""

    host: str
    """With its port, if one was written."""
    repository: str
    name: str
    """Registry and repository in normal form, as credentials name them: `docker.io/library/nginx`."""
    is_mirror: bool = False

    @property
    def location(self) -> Location:
        """Host and port, over https."""
        return locate(self.host)


def find_endpoint(reference: ImageReference, mirrors: Mapping[str, str]) -> Endpoint:
    """Return the repository to fetch a reference from.

    Args:
        reference: its tag and digest are ignored.
        mirrors: registry host to mirror host and optional path; Docker Hub by any of its names.
    """
    names = HUB_NAMES if reference.registry == HUB else (reference.registry,)
    mirror = next((mirrors[name] for name in names if mirrors.get(name)), "")
    if not mirror:
        name = f"{reference.registry}/{reference.repository}"
        return Endpoint(host=reference.host, repository=reference.repository, name=name)
    host, _, path = mirror.strip("/").partition("/")
    repository = f"{path}/{reference.repository}" if path else reference.repository
    return Endpoint(host=host, repository=repository, name=f"{host}/{repository}", is_mirror=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """The parts of an image reference."""

    name: str
    """Registry and repository as written."""
    registry: str
    """Normal form: `docker.io` by default."""
    repository: str
    """Normal form: `library/nginx` for `nginx`."""
    tag: str = ""
    digest: str = ""

    @property
    def host(self) -> str:
        """Host and optional port to connect to."""
        return HUB_HOST if self.registry == HUB else self.registry

    @property
    def target(self) -> str:
        """The digest if there is one, otherwise the tag."""
        return self.digest or self.tag

    @property
    def normal(self) -> str:
        """The reference in normal form."""
        separator = "@" if self.digest else ":"
        return f"{self.registry}/{self.repository}{separator}{self.target}"


def parse_reference(text: str) -> ImageReference:
    """Parse an image reference.

    Raises: ValueError with the problem and the remedy.
    """
    if scheme := _SCHEME.fullmatch(text):
        raise ValueError(f'starts with "{scheme[1]}"; remove that: a reference is host[:port]/repository[:tag]')
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise ValueError('has a digest that is not "sha256:" and 64 hexadecimal digits; correct it')
    name, tag = _split_tag(rest)
    registry, repository = _split_registry(name)
    _check(registry, repository, tag)
    return ImageReference(
        name=name,
        registry=registry,
        repository=repository,
        tag="" if tag is None and digest else tag or "latest",
        digest=digest,
    )


def is_hub(host: str) -> bool:
    """Return whether a host, in any letters and with its port or without, is a name of the default registry."""
    return host.lower().removesuffix(":443") in HUB_NAMES


def has_target(text: str) -> bool:
    """Return whether a reference has a tag or a digest."""
    return "@" in text or _split_tag(text)[1] is not None


def is_wildcard(tag: str) -> bool:
    """Return whether a tag looks like a range of versions: `1.x`."""
    return bool(_WILDCARD.fullmatch(tag))


def _split_tag(text: str) -> tuple[str, str | None]:
    name, colon, tag = text.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (text, None)


def _split_registry(name: str) -> tuple[str, str]:
    # As Docker does: a registry has a dot or a port, or is localhost.
    head, slash, rest = name.partition("/")
    if not slash or not ("." in head or ":" in head or head == "localhost" or head != head.lower()):
        head, rest = HUB, name
    if not is_hub(head):
        return head, rest
    return HUB, rest if "/" in rest else f"library/{rest}"


def _check(registry: str, repository: str, tag: str | None) -> None:
    if not _is_host(registry):
        raise ValueError("has an invalid registry; use host[:port]/repository[:tag]")
    if not all(_ELEMENT.fullmatch(element) for element in repository.split("/")):
        raise ValueError("has a repository with other than lower-case letters, digits and . _ - /; correct it")
    if len(repository) > _NAME_LENGTH:
        raise ValueError(f"has a repository longer than {_NAME_LENGTH} characters; shorten it")
    if tag and _RANGE.search(tag) and tag.isprintable():
        raise ValueError("has a range of versions as its tag, ; use semver for that, or one tag or a digest")
    if tag is not None and not _TAG.fullmatch(tag):
        raise ValueError("has a tag that is not 1 to 128 letters, digits and . _ -; correct it")


def _is_host(registry: str) -> bool:
    try:
        return bool(_HOST.fullmatch(registry)) and locate(registry).port > 0
    except ValueError:  # a port that is too high, or colons in brackets that are no address
        return False


def locate(host: str) -> Location:
    """Return the location of a registry, by its host and optional port.

    Raises: ValueError for an invalid port or address.
    """
    parts = urlsplit(f"//{host}")
    return Location(scheme=HTTPS, host=parts.hostname or "", port=PORTS[HTTPS] if parts.port is None else parts.port)


def chart_reference(repository: str, name: str) -> ImageReference:
    """Return the repository of a chart in the folder of a registry.

    Raises: ValueError with the problem and the remedy.
    """
    host, slash, folder = repository.removeprefix(OCI).partition("/")
    folder = folder.strip("/")
    if "@" in host:
        raise ValueError("must not contain a user or a password; use a Secret in auth")
    if slash and (":" in folder or "@" in folder):
        raise ValueError("must not contain a tag or a digest; use version and sha256")
    reference = parse_reference("/".join(filter(None, (host, folder, name))))
    if reference.registry == HUB and not is_hub(host):
        raise ValueError(f"has no registry; use {OCI}host/folder")
    return reference


def registry_address(repository: str, name: str) -> str:
    """Return the repository of a chart in normal form. Raises: ValueError as `chart_reference`."""
    reference = chart_reference(repository, name)
    return f"{OCI}{reference.registry}/{reference.repository}"
