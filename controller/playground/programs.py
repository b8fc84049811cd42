"""The programs: how each reports its version, which versions are suitable, where it is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rukpak.controller.playground.settings import Settings

Version = tuple[int, ...]


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
    version: Callable[[Settings], str]
    fits: Callable[[Version, Settings], bool]
    wanted: Callable[[Settings], str]
    """A description of what `fits` accepts."""
    release: Callable[[Settings], Release]
    version_arguments: tuple[str, ...] = ("--version",)
    aliases: tuple[str, ...] = ()
    """Other names that distributions use."""


def parse_version(text: str) -> Version:
    """Return the numbers of a version without suffix."""
    return tuple(int(number) for number in text.split("."))


def _minor(version: Version) -> Version:
    return version[:2]


def _kubernetes(settings: Settings) -> Version:
    return parse_version(settings.kubernetes_version)


def _is_same_minor(version: Version, settings: Settings) -> bool:
    return _minor(version) == _minor(_kubernetes(settings))


def _is_within_one_minor(version: Version, settings: Settings) -> bool:
    # https://kubernetes.io/releases/version-skew-policy/#kubectl
    wanted = _kubernetes(settings)
    return version[0] == wanted[0] and abs(version[1] - wanted[1]) <= 1


def _kubernetes_release(name: str) -> Callable[[Settings], Release]:
    def release(settings: Settings) -> Release:
        folder = f"{settings.kubernetes_releases}/v{settings.kubernetes_version}/bin/linux/{settings.architecture}"
        return Release(url=f"{folder}/{name}", checksum_url=f"{folder}/{name}.sha256")

    return release


def _etcd_release(settings: Settings) -> Release:
    folder = f"{settings.etcd_releases}/v{settings.etcd_version}"
    stem = f"etcd-v{settings.etcd_version}-linux-{settings.architecture}"
    return Release(url=f"{folder}/{stem}.tar.gz", checksum_url=f"{folder}/SHA256SUMS", member=f"{stem}/etcd")


def _registry_release(settings: Settings) -> Release:
    version = settings.registry_version
    url = f"{settings.registry_releases}/v{version}/registry_{version}_linux_{settings.architecture}.tar.gz"
    return Release(url=url, checksum_url=f"{url}.sha256", member="registry")


def _kwok_release(settings: Settings) -> Release:
    url = f"{settings.kwok_releases}/v{settings.kwok_version}/kwok-linux-{settings.architecture}"
    return Release(url=url, checksum_url=f"{url}.sha256")


def _prometheus_release(name: str) -> Callable[[Settings], Release]:
    def release(settings: Settings) -> Release:
        version = settings.prometheus_version
        stem = f"prometheus-{version}.linux-{settings.architecture}"
        folder = f"{settings.prometheus_releases}/v{version}"
        return Release(url=f"{folder}/{stem}.tar.gz", checksum_url=f"{folder}/sha256sums.txt", member=f"{stem}/{name}")

    return release


def _helm_release(settings: Settings) -> Release:
    platform = f"linux-{settings.architecture}"
    url = f"{settings.helm_releases}/helm-v{settings.helm_version}-{platform}.tar.gz"
    return Release(url=url, checksum_url=f"{url}.sha256sum", member=f"{platform}/helm")


def _sops_release(settings: Settings) -> Release:
    version = settings.sops_version
    folder = f"{settings.sops_releases}/v{version}"
    return Release(
        url=f"{folder}/sops-v{version}.linux.{settings.architecture}",
        checksum_url=f"{folder}/sops-v{version}.checksums.txt",
    )


def _prometheus(name: str) -> Program:
    return Program(
        name=name,
        part="prometheus",
        version=lambda settings: settings.prometheus_version,
        fits=lambda version, _: version >= (3, 0),
        wanted=lambda _: "3.0 or newer",
        release=_prometheus_release(name),
    )


def _kubernetes_component(name: str, part: str = "control-plane") -> Program:
    return Program(
        name=name,
        part=part,
        version=lambda settings: settings.kubernetes_version,
        fits=_is_same_minor,
        wanted=lambda settings: "{}.{}".format(*_kubernetes(settings)),
        release=_kubernetes_release(name),
    )


ETCD = Program(
    name="etcd",
    part="control-plane",
    version=lambda settings: settings.etcd_version,
    fits=lambda version, _: version >= (3, 5),
    wanted=lambda _: "3.5 or newer",
    release=_etcd_release,
)
KUBECTL = Program(
    name="kubectl",
    part="control-plane",
    version=lambda settings: settings.kubernetes_version,
    fits=_is_within_one_minor,
    wanted=lambda settings: "{}.{}, or one minor version apart".format(*_kubernetes(settings)),
    release=_kubernetes_release("kubectl"),
    version_arguments=("version", "--client"),
)
REGISTRY = Program(
    name="registry",
    part="registry",
    version=lambda settings: settings.registry_version,
    # An older one, as Debian has it, ends with a panic when it is to check tokens by `jwks`.
    fits=lambda version, _: version >= (3, 0),
    wanted=lambda _: "3.0 or newer",
    release=_registry_release,
    aliases=("docker-registry",),
)
KWOK = Program(
    name="kwok",
    part="kwok",
    version=lambda settings: settings.kwok_version,
    fits=lambda version, settings: _minor(version) >= _minor(parse_version(settings.kwok_version)),
    wanted=lambda settings: f"{settings.kwok_version} or newer",
    release=_kwok_release,
)
HELM = Program(
    name="helm",
    part="helm",
    version=lambda settings: settings.helm_version,
    fits=lambda version, settings: version[0] == parse_version(settings.helm_version)[0],
    wanted=lambda settings: f"Helm {parse_version(settings.helm_version)[0]}",
    release=_helm_release,
    version_arguments=("version", "--template", "{{.Version}}"),
)
SOPS = Program(
    name="sops",
    part="sops",
    version=lambda settings: settings.sops_version,
    fits=lambda version, _: (3, 9) <= version < (4,),
    wanted=lambda _: "SOPS 3, 3.9 or newer",
    release=_sops_release,
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
