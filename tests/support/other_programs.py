"""Programs of others, to compare with what they do: those on PATH, else built from Go modules, once per machine.

kubectl's reader of YAML (k8s.io/apimachinery, sigs.k8s.io/yaml) is built from `go_yaml/`, the health checks of Argo CD
and Flux from `go_health/`, and a registry that lists referrers from `go_registry/`. That needs Go and its modules, from
the module cache or a proxy.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hack.control_plane.builds import ENVIRONMENT, FLAGS
from rukpak.controller.playground.binaries import Cache, Tell, version_of
from rukpak.controller.playground.programs import Settings, parse_version, read_settings
from tests.support.bundles import ROOT

_SECONDS = 280


class UnavailableError(Exception):
    """The program cannot be built here."""


def build(source: Path) -> Path:
    """Return the program of the module in a folder.

    Raises: UnavailableError without Go, or without the modules.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(source.iterdir()))).hexdigest()
    name = f"built-{source.name}-{digest[:12]}"
    return (
        _cache(read_settings()).obtain(name, lambda made: _go(["build", *FLAGS, "-o", f"{made}/program", "."], source))
        / "program"
    )


def install(package: str, version: str, settings: Settings, program: str = "", *, seconds: float = _SECONDS) -> Path:
    """Return a published program, which has the name of its package unless another is given.

    Building it may take so many seconds.

    Raises: UnavailableError without Go, or without the modules.
    """
    program = program or package.rpartition("/")[2]
    name = _key(program, version, settings)
    installed = ["install", *FLAGS, f"{package}@v{version}"]
    return _cache(settings).obtain(name, lambda made: _go(installed, made, seconds=seconds, GOBIN=str(made))) / program


def _key(program: str, version: str, settings: Settings) -> str:
    return f"built-{program}-{version}-{settings.architecture}"


def _cache(settings: Settings) -> Cache:
    return Cache(settings.cache / "bin", print)


def _go(arguments: list[str], folder: Path, *, seconds: float = _SECONDS, **environment: str) -> None:
    if not (go := shutil.which("go")):
        raise UnavailableError("no go on PATH")
    try:
        subprocess.run(
            [go, *arguments],
            cwd=folder,
            # Modules have a go.sum here, and what is installed is compared with the public log of checksums.
            env=os.environ | ENVIRONMENT | {"GOFLAGS": "-buildvcs=false"} | environment,
            check=True,
            capture_output=True,
            timeout=seconds,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode(errors="replace")[-500:]
        raise UnavailableError(f"go {arguments[0]} failed: {said}") from error


def find(name: str, least: str, below: str, tell: Tell = print) -> Path | None:
    """Return the program on PATH if its version is from `least` on, but `below`, which says that in one line if not.

    None also if another program has the name: it reports no version.
    """
    if not (found := shutil.which(name)):
        return None
    version = version_of(Path(found), ["version"])
    if version and parse_version(least) <= version < parse_version(below):
        return Path(found)
    shown = ".".join(map(str, version)) if version else "unknown version"
    tell(f"{found}: {shown}, not used: need {least} or newer, below {below}")
    return None


CRANE_VERSION = "0.20.3"


def obtain_crane(settings: Settings) -> Path:
    """Return the program.

    Raises: UnavailableError without Go, or without the module.
    """
    # What it reads is compared with what we read: an older one knows fewer compressions.
    if found := find("crane", "0.20", "1"):
        return found
    return install("github.com/google/go-containerregistry/cmd/crane", CRANE_VERSION, settings)


ORAS_VERSION = "1.2.3"


def obtain_oras(settings: Settings) -> Path:
    """Return the program.

    Raises: UnavailableError without Go, or without the module.
    """
    if found := find("oras", "1.2", "2"):
        return found
    return install("oras.land/oras/cmd/oras", ORAS_VERSION, settings)


COSIGN_VERSION, OLDER_COSIGN_VERSION = "3.1.3", "2.6.5"
_COSIGN_SECONDS = 1800
"""It contains the clients of several clouds."""


def obtain_cosign(settings: Settings, version: str = COSIGN_VERSION, *, may_build: bool = True) -> Path:
    """Return the program; that on PATH may be of another line.

    Raises: UnavailableError without Go, or without the module, or if it has not been built and must not be.
    """
    if not may_build and not _cache(settings).find(_key("cosign", version, settings)):
        raise UnavailableError("it has not been built yet; hack/test --all builds it")
    package = f"github.com/sigstore/cosign/v{version[0]}/cmd/cosign"
    return install(package, version, settings, seconds=_COSIGN_SECONDS)


KUSTOMIZE_VERSION = "5.8.1"


def obtain_kustomize(settings: Settings) -> Path:
    """Return the program, in the version that kubectl contains.

    Raises: UnavailableError without Go, or without the module.
    """
    return install("sigs.k8s.io/kustomize/kustomize/v5", KUSTOMIZE_VERSION, settings, "kustomize")


YAML_READER = Path(__file__).with_name("go_yaml")


def build_reader() -> Path:
    """Return the path of the program.

    Raises: UnavailableError without Go, or without the modules.
    """
    return build(YAML_READER)


def read_all(program: Path, files: Iterable[bytes]) -> list[list[Any] | str]:
    """Return the documents of each file as kubectl reads them, or its error."""
    lines = "\n".join(json.dumps(base64.b64encode(data).decode()) for data in files)
    output = subprocess.run([program], input=lines.encode(), check=True, capture_output=True).stdout
    answers = (json.loads(line, parse_int=_read_integer) for line in output.splitlines())
    return [answer.get("error") or answer["documents"] for answer in answers]


def _read_integer(text: str) -> int | float:
    """Return an integer as Kubernetes reads it from JSON: beyond int64, it is a float."""
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else float(text)


JUDGE = Path(__file__).with_name("go_health")


def build_judge() -> Path:
    """Return the path of the program.

    Raises: UnavailableError without Go, or without the modules.
    """
    return build(JUDGE)


def judge(program: Path, questions: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """Return an answer with `status` and `message` for each question: an `object`, and by what to judge it."""
    lines = "\n".join(map(json.dumps, questions))
    output = subprocess.run([program], input=lines, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


REFERRERS_REGISTRY = Path(__file__).with_name("go_registry")


def build_registry() -> Path:
    """Return the path of the program.

    Raises: UnavailableError without Go, or without the modules.
    """
    return build(REFERRERS_REGISTRY)


CHART = ROOT / "config/chart"
HELM = Path(sys.executable).with_name("helm")


def helm(*arguments: str, kubeconfig: Path | None = None, status: int = 0) -> str:
    """Run helm and return its output; of a failure, which is expected with a status above 0, its error."""
    variables = os.environ | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
    done = subprocess.run([HELM, *arguments], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout
