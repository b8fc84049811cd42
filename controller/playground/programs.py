"""The programs: how each reports its version, which versions are suitable, where it is released, where it is stored.

Versions, addresses and folders are configurable by environment variables.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Version = tuple[int, ...]
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
    chosen = {name: value.removeprefix("v").rstrip("/") for name, value in given.items() if value}
    if version := chosen.get("kubernetes_version"):
        chosen["kubernetes_version"] = KUBERNETES_RELEASES.get(version, version)
    return Settings(
        **chosen,
        cache=_cache(environment),
        search=_search(environment),
        architecture=ARCHITECTURES.get(machine, machine),
    )


def _cache(environment: Mapping[str, str]) -> Path:
    if own := environment.get("RUKPAK_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "rukpak"


def _search(environment: Mapping[str, str]) -> tuple[Path, ...]:
    assets = environment.get("KUBEBUILDER_ASSETS", "")
    folders = [assets, *environment.get("PATH", os.defpath).split(os.pathsep)]
    return tuple(dict.fromkeys(Path(folder) for folder in folders if folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A file that a project publishes, and the file with its SHA-256."""

    url: str
    checksum_url: str
    member: str = ""
    """Path of the program in a tar archive; empty if the file is the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that is needed, and what is suitable."""

    name: str
    part: str
    """The build that produces it; programs of the same part are built together."""
    project: str
    """Who releases it: `Settings` has the version as `<project>_version`, the address as `<project>_releases`."""
    file: str
    """Path of the released file below that address, with `{version}` and `{architecture}`."""
    checksum: str = "{file}.sha256"
    """Path of the file with its SHA-256, likewise."""
    member: str = ""
    """As `Release` has it, likewise."""
    fits: Callable[[Version, Settings], bool]
    wanted: Callable[[Settings], str]
    """A description of what `fits` accepts."""
    version_arguments: tuple[str, ...] = ("--version",)
    aliases: tuple[str, ...] = ()
    """Other names that distributions use."""

    def version(self, settings: Settings) -> str:
        """Return the version to obtain."""
        return str(getattr(settings, f"{self.project}_version"))

    def release(self, settings: Settings) -> Release:
        """Return where that version is released."""
        root = getattr(settings, f"{self.project}_releases")
        words = {"version": self.version(settings), "architecture": settings.architecture}
        file = self.file.format(**words)
        checksum = self.checksum.format(file=file, **words)
        return Release(url=f"{root}/{file}", checksum_url=f"{root}/{checksum}", member=self.member.format(**words))


def parse_version(text: str) -> Version:
    """Return the numbers of a version without suffix."""
    return tuple(int(number) for number in text.split("."))


def _kubernetes(settings: Settings) -> Version:
    return parse_version(settings.kubernetes_version)


def _is_within_one_minor(version: Version, settings: Settings) -> bool:
    # https://kubernetes.io/releases/version-skew-policy/#kubectl
    wanted = _kubernetes(settings)
    return version[0] == wanted[0] and abs(version[1] - wanted[1]) <= 1


def _prometheus(name: str) -> Program:
    return Program(
        name=name,
        part="prometheus",
        project="prometheus",
        fits=lambda version, _: version >= (3, 0),
        wanted=lambda _: "3.0 or newer",
        file="v{version}/prometheus-{version}.linux-{architecture}.tar.gz",
        checksum="v{version}/sha256sums.txt",
        member=f"prometheus-{{version}}.linux-{{architecture}}/{name}",
    )


def _kubernetes_component(name: str, part: str = "control-plane") -> Program:
    return Program(
        name=name,
        part=part,
        project="kubernetes",
        fits=lambda version, settings: version[:2] == _kubernetes(settings)[:2],
        wanted=lambda settings: "{}.{}".format(*_kubernetes(settings)),
        file=f"v{{version}}/bin/linux/{{architecture}}/{name}",
    )


def _alone(name: str, **options: Any) -> Program:
    return Program(name=name, part=name, project=name, **options)


ETCD = Program(
    name="etcd",
    part="control-plane",
    project="etcd",
    fits=lambda version, _: version >= (3, 5),
    wanted=lambda _: "3.5 or newer",
    file="v{version}/etcd-v{version}-linux-{architecture}.tar.gz",
    checksum="v{version}/SHA256SUMS",
    member="etcd-v{version}-linux-{architecture}/etcd",
)
KUBECTL = replace(
    _kubernetes_component("kubectl"),
    fits=_is_within_one_minor,
    wanted=lambda settings: "{}.{}, or one minor version apart".format(*_kubernetes(settings)),
    version_arguments=("version", "--client"),
)
REGISTRY = _alone(
    "registry",
    # An older one, as Debian has it, ends with a panic when it is to check tokens by `jwks`.
    fits=lambda version, _: version >= (3, 0),
    wanted=lambda _: "3.0 or newer",
    file="v{version}/registry_{version}_linux_{architecture}.tar.gz",
    member="registry",
    aliases=("docker-registry",),
)
KWOK = _alone(
    "kwok",
    fits=lambda version, settings: version[:2] >= parse_version(settings.kwok_version)[:2],
    wanted=lambda settings: f"{settings.kwok_version} or newer",
    file="v{version}/kwok-linux-{architecture}",
)
HELM = _alone(
    "helm",
    fits=lambda version, settings: version[0] == parse_version(settings.helm_version)[0],
    wanted=lambda settings: f"Helm {parse_version(settings.helm_version)[0]}",
    file="helm-v{version}-linux-{architecture}.tar.gz",
    checksum="{file}.sha256sum",
    member="linux-{architecture}/helm",
    version_arguments=("version", "--template", "{{.Version}}"),
)
SOPS = _alone(
    "sops",
    fits=lambda version, _: (3, 9) <= version < (4,),
    wanted=lambda _: "SOPS 3, 3.9 or newer",
    file="v{version}/sops-v{version}.linux.{architecture}",
    checksum="v{version}/sops-v{version}.checksums.txt",
    version_arguments=("--disable-version-check", "--version"),
)
PROGRAMS = {
    program.name: program
    for program in (
        ETCD,
        _kubernetes_component("kube-apiserver"),
        _kubernetes_component("kube-controller-manager"),
        _kubernetes_component("kube-scheduler"),
        KUBECTL,
        _kubernetes_component("kubelet", "node"),
        _kubernetes_component("kube-proxy", "node"),
        REGISTRY,
        KWOK,
        _prometheus("prometheus"),
        _prometheus("promtool"),
        HELM,
        SOPS,
    )
}
CONTROL_PLANE = tuple(program.name for program in PROGRAMS.values() if program.part == "control-plane")
NODE = tuple(program.name for program in PROGRAMS.values() if program.part == "node")
