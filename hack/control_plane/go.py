"""Go, which compiles the programs from modules of a proxy.

All programs are compiled with the same flags, so that Go's cache shares the packages that several of them contain.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controller.processes.memory_limit import find_limit

Report = Callable[[int, int], None]
"""Called with the number of packages that are compiled, and that have to be, during a build."""

COMPILER_BYTES = 1 << 30
"""For one of Go's compilers. The linker of the control plane, which runs alone, needs 2 GiB."""
FLAGS = ("-gcflags=all=-dwarf=false",)
"""Without debugging information, compilers need a sixth less time. With -trimpath, Go's cache would tell packages of a
replaced module apart by the version that was replaced, and they would be compiled again for each program."""
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


class BuildError(Exception):
    """A failed build, with the last line of Go's output."""


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


def build_module(module: Module, folder: Path, report: Report) -> None:
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
    _compile([*output, *module.packages], source, lambda done: report(done, len(stale.split())))
    shutil.rmtree(source)


def count_compilers() -> int:
    """Return how many compilers may run at a time: one for each processor, as far as memory allows."""
    return max(1, min(len(os.sched_getaffinity(0)), find_limit(0).bytes // 2 // COMPILER_BYTES))


def _compile(arguments: list[str], folder: Path, report: Callable[[int], None]) -> None:
    """Run `go build -v`, which prints each package before it is compiled."""
    last, done = "nothing", 0
    with subprocess.Popen(
        [_go(), "build", *arguments], cwd=folder, env=os.environ | ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as go:
        assert go.stderr is not None  # noqa: S101 -- for the type checker: it is a pipe
        for line in go.stderr:
            last = line.strip() or last
            if not line.startswith("go: "):
                done += 1
                report(done)
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
