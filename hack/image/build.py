"""Build the container image from the Dockerfile on a machine without a container engine and without a registry.

    .venv/bin/python -m hack.image.build ARCHIVE

As root on Debian or Ubuntu: buildah runs the steps with chroot isolation. What a registry would have is made here: BASE
is the distribution of this machine (debootstrap) with the Python that runs this, and the stage that compiles helm is
replaced by the helm that tests use. So it is the image of the Dockerfile on another base. It is built once for each
change of what the Dockerfile copies, and kept in the cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from hack.control_plane.builds import BUILDS
from hack.control_plane.packages import install_packages
from rukpak.controller.playground.binaries import Binaries, Cache, MissingError, tell_person
from rukpak.controller.playground.programs import Settings, read_settings

ROOT = Path(__file__).resolve().parents[2]
NAME = "localhost/rukpak:built"
BASE = "localhost/python:local"
PACKAGES = ("buildah", "debootstrap")
"""Each with a program of the same name."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LIBRARIES = "libssl3 libffi8 libsqlite3-0 libreadline8 libbz2-1.0 liblzma5 zlib1g libuuid1 libexpat1 ca-certificates"
"""Packages whose libraries the interpreter and its modules load."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
OF_PIP = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "HTTPS_PROXY", "https_proxy")
"""Variables of this process that reach pip in the build."""


def obtain_image(settings: Settings) -> Path:
    """Return the archive of the image, of which `NAME` is the name.

    Raises: MissingError.
    """
    install_packages(settings.cache, find_lacks, "the image needs {}")
    helm = Binaries(settings, builds=BUILDS).obtain(["helm"])["helm"]
    cache = Cache(settings.cache / "images", tell_person)
    key = f"{platform.freedesktop_os_release()['VERSION_CODENAME']}-{platform.python_version()}-{settings.architecture}"

    def make(folder: Path) -> None:
        base = cache.obtain(f"base-{key}", make_base)
        tell_person("building the image from the Dockerfile: takes two minutes")
        build(base, helm, folder)

    return cache.obtain(f"rukpak-{_digest(settings)}-{key}", make) / "image.tar"


def find_lacks() -> list[str]:
    """Return the packages that building needs and this machine lacks."""
    if os.geteuid() != 0:
        return ["root"]
    return [package for package in PACKAGES if not shutil.which(package)]


def _digest(settings: Settings) -> str:
    """Return what the image depends on besides its base."""
    digest = hashlib.sha256(settings.helm_version.encode())
    for path in list_copied():
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def list_copied() -> Iterator[Path]:
    """Yield the Dockerfile and the files that it copies, in order."""
    dockerfile = ROOT / "Dockerfile"
    yield dockerfile
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE):
        for name in line.split():
            path = ROOT / name
            found = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (each for each in found if each.is_file() and "__pycache__" not in each.parts)


def make_base(base: Path) -> None:
    """Make a root folder of this distribution with this Python below /usr/local, as the official images have it."""
    tell_person("making the base of the image, once: takes a minute")
    _run("debootstrap", "--variant=minbase", platform.freedesktop_os_release()["VERSION_CODENAME"], str(base))
    _run("chroot", str(base), "apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *LIBRARIES.split())
    shutil.copy(CERTIFICATES, base / "certificates.crt")  # those of this machine, for pip
    prefix, local = Path(sys.base_prefix), base / "usr/local"
    (local / "bin").mkdir(exist_ok=True)
    shutil.copy(prefix / "bin" / PYTHON, local / "bin" / PYTHON)
    for name in ("python3", "python"):
        (local / "bin" / name).symlink_to(PYTHON)
    library = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
    ignored = shutil.ignore_patterns("test", "site-packages", "__pycache__", "*.a")
    shutil.copytree(library, local / "lib" / PYTHON, ignore=ignored)
    shutil.copytree(library / "site-packages", local / "lib" / PYTHON / "site-packages", ignore=_all_but_pip)
    for shared in (prefix / "lib").glob("libpython*.so*"):
        shutil.copy(shared, local / "lib", follow_symlinks=False)
    _run("chroot", str(base), "ldconfig")


def _all_but_pip(folder: str, names: list[str]) -> list[str]:
    return [each for each in names if not each.startswith("pip")] if folder.endswith("site-packages") else []


def build(base: Path, helm: Path, folder: Path) -> None:
    """Build the image on this base with this helm, and write `image.tar` into a folder."""
    store = folder / "store"
    buildah = ["buildah", f"--root={store}/root", f"--runroot={store}/run", "--storage-driver=overlay"]
    (folder / "helm/programs").mkdir(parents=True)
    shutil.copy(helm, folder / "helm/programs/helm")
    variables = {"PIP_CERT": "/certificates.crt", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    variables |= {name: value for name in OF_PIP if (value := os.environ.get(name))}
    try:
        container = _run(*buildah, "from", "scratch").strip()
        _run(*buildah, "add", "--quiet", container, str(base), "/")
        _run(*buildah, "config", *(f"--env={name}={value}" for name, value in variables.items()), container)
        _run(*buildah, "commit", "--quiet", "--rm", container, BASE)
        options = ["--isolation=chroot", f"--build-arg=BASE={BASE}", f"--build-context=helm={folder}/helm"]
        _run(*buildah, "build", *options, f"--tag={NAME}", str(ROOT))
        _run(*buildah, "push", "--quiet", NAME, f"docker-archive:{folder}/image.tar:{NAME}")
    finally:
        subprocess.run([*buildah, "rm", "--all"], check=False, capture_output=True)
        shutil.rmtree(folder / "helm")
        shutil.rmtree(store, ignore_errors=True)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise MissingError(f"the image cannot be built: {' '.join(command[:2])}: {said}")
    return done.stdout


def main() -> None:
    match sys.argv[1:]:
        case [archive]:
            shutil.copy(obtain_image(read_settings()), archive)
        case _:
            raise SystemExit("usage: python -m hack.image.build ARCHIVE")


if __name__ == "__main__":
    main()
