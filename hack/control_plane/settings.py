"""Versions, addresses and folders, each configurable by an environment variable."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which programs to obtain, from where, and where to store them."""

    kubernetes_version: str = "1.36.3"
    etcd_version: str = "3.6.8"
    """Of downloads; a build uses the version in Kubernetes' go.mod."""
    registry_version: str = "3.1.2"
    kwok_version: str = "0.8.0"
    prometheus_version: str = "3.15.0"
    helm_version: str = "4.3.1"
    kubernetes_releases: str = "https://dl.k8s.io"
    etcd_releases: str = "https://github.com/etcd-io/etcd/releases/download"
    registry_releases: str = "https://github.com/distribution/distribution/releases/download"
    kwok_releases: str = "https://github.com/kubernetes-sigs/kwok/releases/download"
    prometheus_releases: str = "https://github.com/prometheus/prometheus/releases/download"
    helm_releases: str = "https://get.helm.sh"
    cache: Path
    search: tuple[Path, ...] = ()
    """Folders with installed programs, in order."""
    architecture: str = "amd64"
    """In Go's spelling."""

    @property
    def running(self) -> Path:
        """Return the folder that has a subfolder for each running cluster."""
        return self.cache / "running"


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read RUKPAK_KUBERNETES_VERSION, RUKPAK_ETCD_RELEASES and so on; empty means the default."""
    names = [name for name in Settings.__dataclass_fields__ if name.endswith(("_version", "_releases"))]
    given = {name: environment.get(f"RUKPAK_{name.upper()}", "") for name in names}
    machine = platform.machine()
    return Settings(
        **{name: _normalise(value) for name, value in given.items() if value},
        cache=_cache(environment),
        search=_search(environment),
        architecture=ARCHITECTURES.get(machine, machine),
    )


def _normalise(value: str) -> str:
    return value.removeprefix("v").rstrip("/")


def _cache(environment: Mapping[str, str]) -> Path:
    if own := environment.get("RUKPAK_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "rukpak"


def _search(environment: Mapping[str, str]) -> tuple[Path, ...]:
    assets = environment.get("KUBEBUILDER_ASSETS", "")
    folders = [assets, *environment.get("PATH", os.defpath).split(os.pathsep)]
    return tuple(dict.fromkeys(Path(folder) for folder in folders if folder))
