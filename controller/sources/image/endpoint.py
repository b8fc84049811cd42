"""The repository that an image reference is fetched from: at the registry that it names, or at a mirror.

Pure. The administrator configures mirrors (`Network.registry_mirrors`); pins keep the name that the user wrote, since
digests are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from controller.sources.hosts import is_loopback
from controller.sources.image.reference import HUB, HUB_NAMES, ImageReference


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
    def host_name(self) -> str:
        """The host without a port."""
        return urlsplit(f"//{self.host}").hostname or ""

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine by name, to which plain http is the default."""
        return is_loopback(self.host_name)


def find_endpoint(reference: ImageReference, mirrors: Mapping[str, str]) -> Endpoint:
    """Return the repository to fetch a reference from.

    Args:
        reference: its tag and digest are ignored.
        mirrors: registry host to mirror host and optional path; Docker Hub by any of its names.
    """
    mirror = _mirror_of(reference.registry, mirrors)
    if not mirror:
        name = f"{reference.registry}/{reference.repository}"
        return Endpoint(host=reference.host, repository=reference.repository, name=name)
    host, _, path = mirror.strip("/").partition("/")
    repository = f"{path}/{reference.repository}" if path else reference.repository
    return Endpoint(host=host, repository=repository, name=f"{host}/{repository}", is_mirror=True)


def _mirror_of(registry: str, mirrors: Mapping[str, str]) -> str:
    names = HUB_NAMES if registry == HUB else (registry,)
    return next((mirrors[name] for name in names if mirrors.get(name)), "")
