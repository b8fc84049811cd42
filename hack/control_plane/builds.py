"""Builds from Go modules, which work wherever a Go module proxy is reachable.

All programs are compiled with the same flags, so that Go's cache shares the packages that several of them contain.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rukpak.controller.playground.binaries import Build, BuildError, Tell
from rukpak.controller.playground.programs import CONTROL_PLANE, NODE, Settings
from rukpak.controller.processes.memory_limit import find_limit

TELL_SECONDS = 15.0
COMPILER_BYTES = 1 << 30
"""For one of Go's compilers. The linker of the control plane, which runs alone, needs 2 GiB."""
FLAGS = (
    "-gcflags=all=-dwarf=false",
    *(
        f"-gcflags={packages}=-dwarf=false -l"
        for packages in ("k8s.io/api/...", "k8s.io/client-go/...", "k8s.io/kubectl/...", "k8s.io/kubernetes/...")
    ),
)
"""Without debugging information, compilers need a sixth less time, and without inlining another fifth to a third. That
is left out only for what is mostly generated: the server, its storage and their libraries are to be fast. With
-trimpath, Go's cache would tell packages of a replaced module apart by the version that was replaced, and they would be
compiled again for each program."""
ENVIRONMENT = {
    # The user's workspace and flags must not affect these modules.
    "GOWORK": "off",
    "GOFLAGS": "-mod=mod -buildvcs=false",
    # As in releases of Kubernetes and Helm. Threads of C would need far more address space.
    "CGO_ENABLED": "0",
    # Compilers live for a second: with rare garbage collection they need a sixth less CPU time.
    "GOGC": "400",
    "GOMEMLIMIT": str(COMPILER_BYTES),
    # Whatever the user has set: each module is compared with the public log of checksums.
    "GOSUMDB": "sum.golang.org",
    "GONOSUMDB": "",
    "GOPRIVATE": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A Go module, and which of its packages are programs."""

    go_mod: str
    sources: tuple[Path, ...] = ()
    """Files of its main package, if it has one."""
    packages: tuple[str, ...] = (".",)
    linker_flags: str = ""
    tags: str = ""


def read_go_mod(module: str, version: str, folder: Path) -> str:
    """Return the go.mod that a module has published. Raises: BuildError."""
    downloaded = json.loads(run_go(["mod", "download", "-json", f"{module}@{version}"], folder))
    return Path(downloaded["GoMod"]).read_text(encoding="utf-8")


def build_module(module: Module, folder: Path, tell: Tell) -> None:
    """Compile the programs of a module into a folder. Raises: BuildError."""
    source = folder / "source"
    source.mkdir()
    (source / "go.mod").write_text(module.go_mod, encoding="utf-8")
    for file in module.sources:
        shutil.copy(file, source)
    flags = [*FLAGS, *(["-tags", module.tags] if module.tags else [])]
    stale = run_go(["list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", *flags, *module.packages], source)
    linker_flags = f"-s -w {module.linker_flags}".rstrip()
    output = ["-p", str(count_compilers()), "-v", *flags, "-ldflags", linker_flags, "-o", f"{folder}{os.sep}"]
    _compile([*output, *module.packages], source, len(stale.split()), tell)
    shutil.rmtree(source)


def count_compilers() -> int:
    """Return how many compilers may run at a time: one for each processor, as far as memory allows."""
    return max(1, min(len(os.sched_getaffinity(0)), find_limit(0).bytes // 2 // COMPILER_BYTES))


def _compile(arguments: list[str], folder: Path, total: int, tell: Tell) -> None:
    """Run `go build -v`, which prints each package before it is compiled."""
    last, done, told = "nothing", 0, time.monotonic()
    with subprocess.Popen(
        [_go(), "build", *arguments], cwd=folder, env=os.environ | ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as go:
        assert go.stderr is not None  # noqa: S101 -- for the type checker: it is a pipe
        for line in go.stderr:
            last = line.strip() or last
            if not line.startswith("go: "):
                done += 1
            if time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                tell(f"{done} of {total} packages are compiled")
    if go.returncode:
        raise BuildError(f"go build failed: {last}")


def run_go(arguments: list[str], folder: Path) -> str:
    """Return what a command of Go prints. Raises: BuildError."""
    done = subprocess.run(
        [_go(), *arguments], cwd=folder, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise BuildError(f"go {arguments[0]} failed: {said[-1]}")
    return done.stdout


def _go() -> str:
    found = shutil.which("go")
    if not found:
        raise BuildError("Go is not installed")
    return found


SOURCES = Path(__file__).parent
KUBERNETES = "k8s.io/kubernetes"
VERSION_PACKAGE = "k8s.io/component-base/version"
REGISTRY = "github.com/distribution/distribution/v3"
KWOK = "sigs.k8s.io/kwok"
HELM = "helm.sh/helm/v4"
SOPS = "github.com/getsops/sops/v3"
PROMETHEUS = "github.com/prometheus/prometheus"
PROMETHEUS_VERSION_PACKAGE = "github.com/prometheus/common/version"


def build_control_plane(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build a single binary that acts as etcd, a Kubernetes component or kubectl, depending on its name.

    Raises: BuildError.
    """
    _build_kubernetes("controlplane", CONTROL_PLANE, folder, settings, tell)


def build_node(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build a single binary that acts as kubelet or kube-proxy, mostly from the packages of the control plane.

    Raises: BuildError.
    """
    _build_kubernetes("node", NODE, folder, settings, tell)


def _build_kubernetes(name: str, programs: Iterable[str], folder: Path, settings: Settings, tell: Tell) -> None:
    version = settings.kubernetes_version
    go_mod = make_go_mod(name, read_go_mod(KUBERNETES, f"v{version}", folder), version)
    main = SOURCES / name / "main.go"
    build_module(Module(go_mod=go_mod, sources=(main,), linker_flags=_version_flags(version)), folder, tell)
    for program in programs:
        (folder / program).symlink_to(name)


def make_go_mod(name: str, kubernetes: str, version: str) -> str:
    """Return the go.mod of a binary with this name, given that of k8s.io/kubernetes.

    Kubernetes refers to its staging modules by relative path; their published versions are the same code.

    Raises: BuildError if it is not a go.mod of Kubernetes.
    """
    language = re.search(r"^go \S+$", kubernetes, re.MULTILINE)
    etcd = re.search(r"go\.etcd\.io/etcd/client/v3 (v\S+)", kubernetes)
    if not language or not etcd:
        raise BuildError("the go.mod of k8s.io/kubernetes has no Go version or no etcd client")
    staging = _staging_version(version)
    required = {KUBERNETES: f"v{version}", "k8s.io/kubectl": staging, "go.etcd.io/etcd/server/v3": etcd[1]}
    replaced = (f"{module} => {module} {staging}" for module in _staging_modules(kubernetes))
    return _join_go_mod(name, language[0], required, replaced)


def build_registry(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build the OCI registry (CNCF distribution), without storage in clouds. Raises: BuildError."""
    version = f"v{settings.registry_version}"
    go_mod = _join_go_mod("registry", _language(read_go_mod(REGISTRY, version, folder), REGISTRY), {REGISTRY: version})
    build_module(Module(go_mod=go_mod, sources=(SOURCES / "small_registry" / "main.go",)), folder, tell)


def build_kwok(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build kwok, if possible from the packages of which the control plane has been built. Raises: BuildError."""
    version = f"v{settings.kwok_version}"
    kwok = read_go_mod(KWOK, version, folder)
    kubernetes = read_go_mod(KUBERNETES, f"v{settings.kubernetes_version}", folder)
    go_mod = make_kwok_go_mod(kwok, version, kubernetes, settings.kubernetes_version)
    build_module(Module(go_mod=go_mod, packages=(f"{KWOK}/cmd/kwok",)), folder, tell)


def make_kwok_go_mod(kwok: str, version: str, kubernetes: str, kubernetes_version: str) -> str:
    """Return the go.mod of a module that builds kwok, given those of kwok and of k8s.io/kubernetes.

    If both use the same minor version of Kubernetes, kwok gets the modules that Kubernetes requires.

    Raises: BuildError if that of kwok is not a go.mod.
    """
    staging, required = _staging_version(kubernetes_version), {KWOK: version}
    language = _language(kwok, KWOK)
    if f"k8s.io/client-go {staging.rpartition('.')[0]}." not in kwok:
        return _join_go_mod("kwok", language, required)
    pinned = dict(re.findall(r"^\t(\S+) (v\S+)", kubernetes, re.MULTILINE))
    pinned |= dict.fromkeys(_staging_modules(kubernetes), staging)
    return _join_go_mod("kwok", language, required, (f"{module} => {module} {pin}" for module, pin in pinned.items()))


def build_helm(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build Helm 4. Raises: BuildError."""
    version = f"v{settings.helm_version}"
    go_mod = _join_go_mod("helm", _language(read_go_mod(HELM, version, folder), HELM), {HELM: version})
    flags = f"-X {HELM}/internal/version.version={version}"
    build_module(Module(go_mod=go_mod, packages=(f"{HELM}/cmd/helm",), linker_flags=flags), folder, tell)


def build_sops(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build SOPS. Raises: BuildError."""
    version = f"v{settings.sops_version}"
    go_mod = _join_go_mod("sops", _language(read_go_mod(SOPS, version, folder), SOPS), {SOPS: version})
    build_module(Module(go_mod=go_mod, packages=(f"{SOPS}/cmd/sops",)), folder, tell)


def build_prometheus(folder: Path, settings: Settings, tell: Tell) -> None:
    """Build Prometheus and promtool, without service discovery of clouds and without the web UI.

    Its go.mod replaces modules, which counts only in the main module: ours has the same replacements.

    Raises: BuildError.
    """
    version = f"v0.{_prometheus_minor(settings.prometheus_version)}"
    module = Module(
        go_mod=make_prometheus_go_mod(read_go_mod(PROMETHEUS, version, folder), version),
        packages=(f"{PROMETHEUS}/cmd/prometheus", f"{PROMETHEUS}/cmd/promtool"),
        linker_flags=f"-X {PROMETHEUS_VERSION_PACKAGE}.Version={settings.prometheus_version}",
        tags="remove_all_sd",
    )
    build_module(module, folder, tell)


def _prometheus_minor(version: str) -> str:
    """Return the module version without v0.: 3.15.0 is published as v0.315.0."""
    major, minor, patch = version.split(".")
    return f"{int(major) * 100 + int(minor)}.{patch}"


def make_prometheus_go_mod(prometheus: str, version: str) -> str:
    """Return the go.mod of a module that builds Prometheus' programs, given that of Prometheus.

    Raises: BuildError if it is not a go.mod.
    """
    replaced = re.findall(r"^(?:replace )?\s*(\S+(?: v\S+)? => \S+ v\S+)", prometheus, re.MULTILINE)
    return _join_go_mod("prometheus", _language(prometheus, PROMETHEUS), {PROMETHEUS: version}, replaced)


BUILDS: dict[str, Build] = {
    "control-plane": build_control_plane,
    "node": build_node,
    "registry": build_registry,
    "kwok": build_kwok,
    "prometheus": build_prometheus,
    "helm": build_helm,
    "sops": build_sops,
}
"""In this order: the node and kwok are built fastest after the control plane."""


def _language(go_mod: str, module: str) -> str:
    found = re.search(r"^go \S+$", go_mod, re.MULTILINE)
    if not found:
        raise BuildError(f"the go.mod of {module} has no Go version")
    return found[0]


def _staging_version(kubernetes_version: str) -> str:
    return f"v0.{kubernetes_version.removeprefix('1.')}"


def _staging_modules(kubernetes: str) -> list[str]:
    return re.findall(r"^\t(k8s\.io/[a-z-]+) => \./staging", kubernetes, re.MULTILINE)


def _join_go_mod(name: str, language: str, required: dict[str, str], replaced: Iterable[str] = ()) -> str:
    lines = [f"require {module} {version}" for module, version in required.items()]
    return "\n".join([f"module {name}", language, *lines, *(f"replace {line}" for line in replaced), ""])


def _version_flags(version: str) -> str:
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in values.items())
