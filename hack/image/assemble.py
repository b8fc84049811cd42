#!/usr/bin/env python3
"""Assemble the root file system of the container image: Python, the controller, git, ssh, gpgv, helm, and nothing else.

    hack/image/assemble.py FOLDER HELM

HELM is the program to include. The Dockerfile runs this in a stage of its own, with the programs of its base image;
tests/integration/test_image.py runs it with those of this machine, so both have the same steps. It uses only the
standard library.

The image has no shell. It includes prlimit, env, unshare and true because the controller uses them to start git and
helm with limits of memory and files and without a network.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "hack/requirements.txt"
USER = 65532
FOR_EVERYBODY = 0o1777
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LIBRARIES = f"usr/lib/{sysconfig.get_config_var('MULTIARCH')}"
PROGRAMS = {
    "git": "usr/bin/git",
    "ssh": "usr/bin/ssh",
    "ssh-keygen": "usr/bin/ssh-keygen",
    "gpgv": "usr/bin/gpgv",
    "prlimit": "usr/bin/prlimit",
    "env": "usr/bin/env",
    "unshare": "usr/bin/unshare",
    "true": "usr/bin/true",
}
GIT_HELPERS = ("git-remote-http", "git-remote-https")
"""All other git commands in use are built into the program."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Of the standard library: tests, modules that need a display, and modules that build packages.
LEFT_OUT = (
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "pydoc_data",
    "config-*",
)
# Of the packages: tests, the 64 MiB of the kubernetes package that the client does not use, and the extensions of CEL
# that expressions do not have.
UNUSED = (
    "*/tests",
    "*/test",
    "kubernetes/aio",
    "kubernetes/client/api",
    *(f"cel_expr_python/ext/ext_{name}*" for name in ("bindings", "encoders", "math", "proto")),
)
# Packages that kubernetes needs for kubernetes/aio alone, and sigstore for its command line and for mail addresses.
NOT_INSTALLED = {
    "aiohappyeyeballs",
    "aiohttp",
    "aiohttp-retry",
    "aiosignal",
    "dnspython",
    "email-validator",
    "frozenlist",
    "markdown-it-py",
    "mdurl",
    "multidict",
    "propcache",
    "pygments",
    "rich",
    "yarl",
}
FILES = {
    "etc/passwd": f"root:x:0:0::/nonexistent:/sbin/nologin\nrukpak:x:{USER}:{USER}::/nonexistent:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nrukpak:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# Not compiled in advance: 11 MiB of models, of which the client imports a single one.
UNCOMPILED = "kubernetes/client/models/v"
EPOCH = 946684800
"""2000-01-01: the time of all files, so that equal content gives an equal image."""


def assemble(image: Path, helm: Path) -> None:
    """Run all steps in a folder that must not exist; `helm` is the program to include."""
    image.mkdir(parents=True)
    add_links(image)
    add_files(image)
    add_python(image)
    add_packages(image)
    compile_modules(image)
    add_programs(image, helm)
    add_libraries(image)
    settle(image)


def add_links(image: Path) -> None:
    """Merge /bin and /lib into /usr, as Debian does."""
    for name in ("bin", "lib", "lib64"):
        (image / "usr" / name).mkdir(parents=True)
        (image / name).symlink_to(f"usr/{name}")
    (image / LIBRARIES).mkdir(parents=True)


def add_files(image: Path) -> None:
    """Add the user, the configuration of name lookup, CA certificates, and mount points."""
    for name, text in FILES.items():
        (image / name).parent.mkdir(parents=True, exist_ok=True)
        (image / name).write_text(text, encoding="ascii")
    (image / CERTIFICATES.relative_to("/")).parent.mkdir(parents=True)
    shutil.copy(CERTIFICATES, image / CERTIFICATES.relative_to("/"))
    for name in ("tmp", "var/cache/rukpak"):
        (image / name).mkdir(parents=True)
        (image / name).chmod(FOR_EVERYBODY)
    for name in ("dev", "proc", "sys"):
        (image / name).mkdir()


def add_python(image: Path) -> None:
    """Add the interpreter that runs this script, with its standard library."""
    binaries, library = image / "usr/local/bin", image / "usr/local/lib" / PYTHON
    binaries.mkdir(parents=True)
    shutil.copy(Path(sys.base_prefix) / "bin" / PYTHON, binaries / PYTHON)
    for name in ("python3", "python"):
        (binaries / name).symlink_to(PYTHON)
    ignored = shutil.ignore_patterns(*LEFT_OUT, "__pycache__", "*.a", "_tkinter*", "_test*", "_ctypes_test*")
    shutil.copytree(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}), library, ignore=ignored)


def add_packages(image: Path) -> None:
    """Add the controller and its dependencies."""
    install_packages(image / "usr/local/lib" / PYTHON / "site-packages")


def install_packages(target: Path) -> None:
    """Install the controller and its dependencies, verified by digest, into a folder that must not exist."""
    lock = LOCK.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as builder:
        _install_section(lock, "build", builder)
        _install_section(lock, "controller", str(target))
        project = [*_pip(str(target)), "--no-build-isolation", str(ROOT)]
        subprocess.run(project, check=True, env=os.environ | {"PYTHONPATH": builder})
    shutil.rmtree(target / "bin")
    for found in [found for pattern in UNUSED for found in target.glob(pattern)]:
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def _install_section(lock: str, section: str, target: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as requirements:
        requirements.write("\n".join(find_requirements(lock, section)))
        requirements.flush()
        verified = ["--only-binary=:all:", "--require-hashes", f"--requirement={requirements.name}"]
        subprocess.run([*_pip(target), *verified], check=True)


def find_requirements(lock: str, section: str) -> list[str]:
    """Return the requirements of a section of the lock, without those that nothing here uses."""
    text = lock.partition(f"# Section: {section}\n")[2].partition("# Section: ")[0]
    requirements = re.findall(r"^[a-z0-9].*(?:\n .*)*", text, re.MULTILINE)
    return [requirement for requirement in requirements if requirement.partition("==")[0] not in NOT_INSTALLED]


def _pip(target: str) -> list[str]:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    return [*install, "--root-user-action=ignore", "--no-deps", "--no-warn-script-location", f"--target={target}"]


def compile_modules(image: Path) -> None:
    """Add the bytecode of all modules, since the folders are read-only later; equal sources give equal bytes.

    It is not compared with the sources when it is loaded: neither changes, and all times are equal.
    """
    folder = image / "usr/local/lib" / PYTHON
    compiling = [sys.executable, "-I", "-m", "compileall", "-q", "-j", "1", "-f", "-x", UNCOMPILED]
    where = ["--invalidation-mode", "unchecked-hash", "-s", str(image), "-p", "/", str(folder)]
    subprocess.run([*compiling, *where], check=True)


def add_programs(image: Path, helm: Path) -> None:
    """Add helm, git with its helper for https, ssh, what verifies signatures, and the programs that start them."""
    shutil.copy(helm, image / "usr/local/bin/helm")
    for name, path in PROGRAMS.items():
        found = shutil.which(name)
        if found is None:
            raise SystemExit(f"assemble.py: {name} is missing; install it")
        shutil.copy(found, image / path)
    helpers = Path(subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip())
    (image / helpers.relative_to("/")).mkdir(parents=True, exist_ok=True)
    for name in GIT_HELPERS:
        shutil.copy(helpers / name, image / helpers.relative_to("/") / name)


def add_libraries(image: Path) -> None:
    """Add the shared libraries of the programs and Python modules, where the loader searches for them."""
    for library in sorted(_libraries_of(list(_binaries_in(image)))):
        shutil.copy(library, image / LIBRARIES / library.name)
    loader = next(Path("/lib64").glob("ld-linux*"), None) or next(Path("/lib").glob("ld-linux*"))
    shutil.copy(loader, image / loader.relative_to("/"))


def _binaries_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _libraries_of(binaries: Sequence[Path]) -> set[Path]:
    """Return the libraries that ldd finds, except those that packages include."""
    found: set[Path] = set()
    packaged = {path.name for path in binaries}
    for binary in binaries:
        done = subprocess.run(
            ["ldd", str(binary)], check=False, capture_output=True, text=True
        )  # fails for static ones
        named = re.findall(r"^\s*(\S+) => (/\S+) \(", done.stdout, re.MULTILINE)
        found |= {Path(path) for name, path in named if name not in packaged}
    return found


def settle(image: Path) -> None:
    """Remove write permissions, set-user-id bits and times."""
    for path in [*image.rglob("*"), image]:
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode if mode == FOR_EVERYBODY else 0o755 if path.is_dir() or mode & 0o100 else 0o644)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [folder, helm] if not Path(folder).exists() and Path(helm).is_file():
            assemble(Path(folder).absolute(), Path(helm))
        case _:
            raise SystemExit("usage: hack/image/assemble.py FOLDER HELM: the folder must not exist, HELM is a program")
