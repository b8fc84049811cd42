"""Versions, addresses and folders, each configurable by an environment variable."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
KUBERNETES_RELEASES = {"1.37": "1.37.2", "1.36": "1.36.3", "1.35": "1.35.4"}
"""By minor version the release that is taken for it: the three that the project tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which programs to obtain, from where, and where to store them."""

    kubernetes_version: str = "1.36.3"
    etcd_version: str = "3.6.8"
    """Version of downloads; a build uses the version in Kubernetes' go.mod."""
    registry_version: str = "3.1.2"
    kwok_version: str = "0.8.0"
    prometheus_version: str = "3.15.0"
    helm_version: str = "4.3.1"
    sops_version: str = "3.13.3"
    kubernetes_releases: str = "https://dl.k8s.io"
    etcd_releases: str = "https://github.com/etcd-io/etcd/releases/download"
    registry_releases: str = "https://github.com/distribution/distribution/releases/download"
    kwok_releases: str = "https://github.com/kubernetes-sigs/kwok/releases/download"
    prometheus_releases: str = "https://github.com/prometheus/prometheus/releases/download"
    helm_releases: str = "https://get.helm.sh"
    sops_releases: str = "https://github.com/getsops/sops/releases/download"
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
    """Read RUKPAK_KUBERNETES_VERSION, RUKPAK_ETCD_RELEASES and so on; empty means the default.

    The version of Kubernetes may be a minor version of `KUBERNETES_RELEASES`.
    """
    names = [name for name in Settings.__dataclass_fields__ if name.endswith(("_version", "_releases"))]
    given = {name: environment.get(f"RUKPAK_{name.upper()}", "") for name in names}
    machine = platform.machine()
    chosen = {name: _normalize(value) for name, value in given.items() if value}
    if version := chosen.get("kubernetes_version"):
        chosen["kubernetes_version"] = KUBERNETES_RELEASES.get(version, version)
    return Settings(
        **chosen,
        cache=_cache(environment),
        search=_search(environment),
        architecture=ARCHITECTURES.get(machine, machine),
    )


def _normalize(value: str) -> str:
    return value.removeprefix("v").rstrip("/")


def _cache(environment: Mapping[str, str]) -> Path:
    if own := environment.get("RUKPAK_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "rukpak"


def _search(environment: Mapping[str, str]) -> tuple[Path, ...]:
    assets = environment.get("KUBEBUILDER_ASSETS", "")
    folders = [assets, *environment.get("PATH", os.defpath).split(os.pathsep)]
    return tuple(dict.fromkeys(Path(folder) for folder in folders if folder))
