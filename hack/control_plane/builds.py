"""Builds from Go modules, which work wherever a Go module proxy is reachable."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from hack.control_plane.programs import CONTROL_PLANE
from hack.control_plane.settings import Settings

MULTICALL = Path(__file__).parent / "multicall" / "main.go"
VERSION_PACKAGE = "k8s.io/component-base/version"
HELM = "helm.sh/helm/v4"
PROMETHEUS = "github.com/prometheus/prometheus"
PROMETHEUS_VERSION_PACKAGE = "github.com/prometheus/common/version"


class BuildError(Exception):
    """A failed build, with the last line of Go's output."""


def build_control_plane(folder: Path, settings: Settings) -> None:
    """Build a single binary that acts as etcd, a Kubernetes component or kubectl, depending on its name.

    Raises: BuildError.
    """
    version = settings.kubernetes_version
    source = folder / "source"
    source.mkdir()
    shutil.copy(MULTICALL, source)
    downloaded = json.loads(_go(["mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], source))
    kubernetes = Path(downloaded["GoMod"]).read_text(encoding="utf-8")
    (source / "go.mod").write_text(make_go_mod(kubernetes, version), encoding="utf-8")
    _go(["mod", "tidy", "-e"], source)
    binary = folder / "controlplane"
    _go(["build", "-trimpath", "-ldflags", _version_flags(version), "-o", str(binary), "."], source)
    shutil.rmtree(source)
    for name in CONTROL_PLANE:
        (folder / name).symlink_to(binary.name)


def make_go_mod(kubernetes: str, version: str) -> str:
    """Return the go.mod of the binary, given that of k8s.io/kubernetes.

    Kubernetes refers to its staging modules by relative path; their published versions are the same code.

    Raises: BuildError if it is not a go.mod of Kubernetes.
    """
    language = re.search(r"^go \S+$", kubernetes, re.MULTILINE)
    etcd = re.search(r"go\.etcd\.io/etcd/client/v3 (v\S+)", kubernetes)
    if not language or not etcd:
        raise BuildError("the go.mod of k8s.io/kubernetes has no Go version or no etcd client")
    staging = f"v0.{version.removeprefix('1.')}"
    modules = re.findall(r"^\t(k8s\.io/[a-z-]+) => \./staging", kubernetes, re.MULTILINE)
    required = {"k8s.io/kubernetes": f"v{version}", "k8s.io/kubectl": staging, "go.etcd.io/etcd/server/v3": etcd[1]}
    return "\n".join(
        [
            "module controlplane",
            language[0],
            *(f"require {module} {wanted}" for module, wanted in required.items()),
            *(f"replace {module} => {module} {staging}" for module in modules),
            "",
        ]
    )


def build_registry(folder: Path, settings: Settings) -> None:
    """Install the OCI registry (CNCF distribution). Raises: BuildError."""
    _install("github.com/distribution/distribution/v3/cmd/registry", settings.registry_version, folder)


def build_kwok(folder: Path, settings: Settings) -> None:
    """Install kwok. Raises: BuildError."""
    _install("sigs.k8s.io/kwok/cmd/kwok", settings.kwok_version, folder)


def build_helm(folder: Path, settings: Settings) -> None:
    """Install Helm 4, without cgo as its releases: threads of C would need far more address space.

    Raises: BuildError.
    """
    version = settings.helm_version
    flags = f"-s -w -X {HELM}/internal/version.version=v{version}"
    _install(f"{HELM}/cmd/helm", version, folder, "-trimpath", "-ldflags", flags, CGO_ENABLED="0")


def build_prometheus(folder: Path, settings: Settings) -> None:
    """Build Prometheus and promtool, without service discovery of clouds and without the web UI.

    `go install` refuses modules whose go.mod replaces others, so a module of our own requires it with the same
    replacements.

    Raises: BuildError.
    """
    source = folder / "source"
    source.mkdir()
    version = f"v0.{_prometheus_minor(settings.prometheus_version)}"
    downloaded = json.loads(_go(["mod", "download", "-json", f"{PROMETHEUS}@{version}"], source))
    prometheus = Path(downloaded["GoMod"]).read_text(encoding="utf-8")
    (source / "go.mod").write_text(make_prometheus_go_mod(prometheus, version), encoding="utf-8")
    (source / "programs.go").write_text(f'package main\n\nimport _ "{PROMETHEUS}/cmd/prometheus"\n', encoding="utf-8")
    flags = f"-s -w -X {PROMETHEUS_VERSION_PACKAGE}.Version={settings.prometheus_version}"
    for name in ("prometheus", "promtool"):
        build = ["build", "-trimpath", "-tags", "remove_all_sd", "-ldflags", flags, "-o", str(folder / name)]
        _go([*build, f"{PROMETHEUS}/cmd/{name}"], source)
    shutil.rmtree(source)


def _prometheus_minor(version: str) -> str:
    """Return the module version without v0.: 3.15.0 is published as v0.315.0."""
    major, minor, patch = version.split(".")
    return f"{int(major) * 100 + int(minor)}.{patch}"


def make_prometheus_go_mod(prometheus: str, version: str) -> str:
    """Return the go.mod of a module that builds Prometheus' programs, given that of Prometheus.

    Raises: BuildError if it is not a go.mod.
    """
    language = re.search(r"^go \S+$", prometheus, re.MULTILINE)
    if not language:
        raise BuildError(f"the go.mod of {PROMETHEUS} has no Go version")
    replaced = re.findall(r"^(?:replace )?\s*(\S+(?: v\S+)? => \S+ v\S+)", prometheus, re.MULTILINE)
    lines = [f"replace {line}" for line in replaced]
    return "\n".join(["module prometheus", language[0], f"require {PROMETHEUS} {version}", *lines, ""])


BUILDS: dict[str, Callable[[Path, Settings], None]] = {
    "control-plane": build_control_plane,
    "registry": build_registry,
    "kwok": build_kwok,
    "prometheus": build_prometheus,
    "helm": build_helm,
}
MINUTES = {"control-plane": 5, "registry": 2, "kwok": 2, "prometheus": 3, "helm": 3}
"""Duration of each build on two cores with empty caches."""


def _install(package: str, version: str, folder: Path, *flags: str, **environment: str) -> None:
    _go(["install", *flags, f"{package}@v{version}"], folder, GOBIN=str(folder), **environment)


def _version_flags(version: str) -> str:
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


def _go(arguments: list[str], folder: Path, **environment: str) -> str:
    if not shutil.which("go"):
        raise BuildError("Go is not installed")
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        # The user's workspace and flags must not affect this module.
        env=os.environ | {"GOWORK": "off", "GOFLAGS": "-mod=mod -buildvcs=false"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise BuildError(f"go {arguments[0]} failed: {said[-1]}")
    return done.stdout
