"""Programs, obtained when they are needed: installed, from the cache, by a download or a build, in this order.

Builds are for development: hack/control_plane has them, and hands them in.

Installed programs of an unsuitable version are skipped and reported. A download is used only if its SHA-256 is the one
that the project publishes; urllib handles redirects and proxies. What was downloaded or built stays in the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from rukpak.controller.playground.programs import PROGRAMS, Program, Release, Settings, Version, parse_version

Tell = Callable[[str], None]
"""Called with a line for the person who waits."""
Build = Callable[[Path, Settings, Tell], None]
"""Makes all programs of a part in a folder. Raises: BuildError."""


class BuildError(Exception):
    """A failed build; the message is one line."""


class Cache:
    """Folders by name, below one root.

    Args:
        root: created when missing.
        tell: called with one line before waiting for another process.
    """

    def __init__(self, root: Path, tell: Tell) -> None:
        self._root = root
        self._tell = tell

    def find(self, name: str) -> Path | None:
        """Return the folder, or None if it does not exist."""
        folder = self._root / name
        return folder if folder.is_dir() else None

    def obtain(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the folder; if it is missing, `make` fills an empty one, which gets the name when `make` returns."""
        self._root.mkdir(parents=True, exist_ok=True)
        with self._locked(name):
            return self.find(name) or self._make(name, make)

    def _make(self, name: str, make: Callable[[Path], None]) -> Path:
        partial = self._root / f".{name}.partial"
        # This process holds the lock, so files found here were left by a process that was killed.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            make(partial)
            return partial.rename(self._root / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        lock = os.open(self._root / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._tell(f"waiting for another process to obtain {name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)?)")
VERSION_SECONDS = 10


def find_installed(program: Program, settings: Settings, tell: Tell) -> Path | None:
    """Return the first program in `settings.search` with a suitable version.

    Reports each unsuitable one in one line.
    """
    for path in _candidates(program, settings):
        version = version_of(path, program.version_arguments)
        if version and program.fits(version, settings):
            return path
        shown = ".".join(map(str, version)) if version else "unknown version"
        tell(f"{path}: {shown}, not used: need {program.wanted(settings)}")
    return None


def _candidates(program: Program, settings: Settings) -> Iterator[Path]:
    seen = set()
    for folder in settings.search:
        for name in (program.name, *program.aliases):
            path = folder / name
            # /bin and /usr/bin are one folder on most machines.
            place = path.parent.resolve() / name
            if place not in seen and os.access(path, os.X_OK) and path.is_file():  # in this order: access never raises
                seen.add(place)
                yield path.absolute()


def version_of(path: Path, arguments: Sequence[str]) -> Version | None:
    """Return the version that a program reports when it is called with these arguments; None if it reports none."""
    try:
        told = subprocess.run(
            [path, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=VERSION_SECONDS,
            text=True,
            check=False,
        )
    except (OSError, UnicodeDecodeError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(told.stdout or told.stderr)
    return parse_version(found[1]) if found and told.returncode == 0 else None


FIRST_ANSWER_SECONDS = 5.0
"""Timeout for the checksum, including name resolution: without a network, a download fails after this."""
STALLED_SECONDS = 20.0
SHA256 = re.compile(r"[0-9a-f]{64}")


class DownloadError(Exception):
    """A failed download; the message is one line."""


def download(release: Release, destination: Path) -> None:
    """Write a released program to `destination` and make it executable.

    Raises: DownloadError if the server does not respond, lacks the file, or sends one with another checksum.
    """
    expected = find_checksum(_read_within(release.checksum_url), release.url)
    received = destination.with_name(f"{destination.name}.received")
    try:
        _receive(release.url, received, expected)
        if release.member:
            _extract(received, release, destination)
        else:
            received.replace(destination)
    finally:
        received.unlink(missing_ok=True)
    destination.chmod(0o755)


def find_checksum(text: str, url: str) -> str:
    """Return the SHA-256 of the file at `url`, from a checksum file: only a digest, or lines of sha256sum.

    Raises: DownloadError if there is none.
    """
    name = PurePosixPath(url).name
    lines = [line.split() for line in text.splitlines() if line.strip()]
    alone = [words[0] for words in lines if len(words) == 1 and len(lines) == 1]
    named = [words[0] for words in lines if len(words) > 1 and PurePosixPath(words[1].lstrip("*")).name == name]
    digest = next(iter(alone + named), "").lower()
    if not SHA256.fullmatch(digest):
        raise DownloadError(f"no SHA-256 of {name} is published")
    return digest


def _read_within(url: str) -> str:
    # No timeout covers name resolution.
    answers: list[str | DownloadError] = []

    def read() -> None:
        try:
            with _opened(url, FIRST_ANSWER_SECONDS) as response:
                answers.append(response.read(1 << 20).decode("utf-8", "replace"))
        except DownloadError as error:
            answers.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(FIRST_ANSWER_SECONDS)
    answer = answers[0] if answers else DownloadError(f"{url}: no response within {FIRST_ANSWER_SECONDS:g} s")
    if isinstance(answer, DownloadError):
        raise answer
    return answer


def _receive(url: str, destination: Path, expected: str) -> None:
    digest = hashlib.sha256()
    with _opened(url, STALLED_SECONDS) as response, destination.open("wb") as file:
        while block := response.read(1 << 20):
            digest.update(block)
            file.write(block)
    if digest.hexdigest() != expected:
        raise DownloadError(f"{url}: SHA-256 is {digest.hexdigest()}, published is {expected}; not used")


@contextmanager
def _opened(url: str, seconds: float) -> Iterator[IO[bytes]]:
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:  # noqa: S310 -- set by the user
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{url}: {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(f"{url}: {getattr(error, 'reason', error)}") from error


def _extract(archive: Path, release: Release, destination: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile(release.member)
            if member is None:
                raise DownloadError(f"{release.url}: {release.member} is not a file")
            with member, destination.open("wb") as file:
                shutil.copyfileobj(member, file)
    except (KeyError, tarfile.TarError, OSError) as error:
        raise DownloadError(f"{release.url}: {error}") from error


class MissingError(Exception):
    """A program could not be obtained; the message says what to do, in one line."""


def tell_person(line: str) -> None:
    """Print a message to standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 -- to a person


class Binaries:
    """Finds programs by name.

    Args:
        settings: versions, addresses and folders.
        tell: called with one line for each program that is skipped, and before slow steps.
        builds: by part how to build what cannot be downloaded, in the order in which builds share most.
    """

    def __init__(
        self, settings: Settings, tell: Tell = tell_person, *, builds: Mapping[str, Build] | None = None
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._builds = builds or {}
        self._cache = Cache(settings.cache / "bin", tell)
        self._found: dict[str, Path] = {}
        self._failures: dict[str, DownloadError] = {}
        """By part."""

    def obtain(self, names: Iterable[str]) -> dict[str, Path]:
        """Return the path of each program.

        Raises: MissingError.
        """
        wanted = [PROGRAMS[name] for name in names]
        for find in (self._find_at_hand, self._download_all, self._build_all):
            missing = [program for program in wanted if program.name not in self._found]
            if missing:
                self._found |= find(missing)
        return {program.name: self._found[program.name] for program in wanted}

    def find(self, names: Iterable[str]) -> dict[str, Path]:
        """Return the path of each program that is installed or in the cache."""
        return self._find_at_hand([PROGRAMS[name] for name in names])

    def _find_at_hand(self, programs: Iterable[Program]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for program in programs:
            if installed := find_installed(program, self._settings, self._tell):
                found[program.name] = installed
            elif folder := self._cache.find(self._download_key(program)) or self._cache.find(
                self._build_key(program.part)
            ):
                found[program.name] = folder / program.name
        return found

    def _download_all(self, programs: list[Program]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for program in programs:
            # A build produces all programs of a part: if one download fails, the others are useless.
            if program.part in self._failures:
                continue
            try:
                found[program.name] = self._download(program)
            except DownloadError as error:
                self._failures[program.part] = error
                if program.part in self._builds:
                    self._tell(f"{program.name} could not be downloaded: {error}")
        return found

    def _download(self, program: Program) -> Path:
        version = program.version(self._settings)

        def make(folder: Path) -> None:
            self._tell(f"downloading {program.name} {version}")
            download(program.release(self._settings), folder / program.name)

        return self._cache.obtain(self._download_key(program), make) / program.name

    def _build_all(self, programs: list[Program]) -> dict[str, Path]:
        # One after the other: Go keeps all processors busy, and two builds would need twice the memory.
        wanted = {program.part for program in programs}
        if missing := [program.name for program in programs if program.part not in self._builds]:
            failures = "; ".join(str(error) for part, error in self._failures.items() if part not in self._builds)
            raise MissingError(
                f"{', '.join(missing)}: not on PATH or in KUBEBUILDER_ASSETS, and not downloaded ({failures}); "
                "allow the downloads, install what is missing, or run hack/demo in a clone of RukPak, which builds it"
            )
        folders = {part: self._build(part, programs) for part in self._builds if part in wanted}
        return {program.name: folders[program.part] / program.name for program in programs}

    def _build(self, part: str, programs: list[Program]) -> Path:
        names = ", ".join(program.name for program in programs if program.part == part)

        def make(folder: Path) -> None:
            self._tell(f"building {names} from Go modules, once: takes minutes")
            self._builds[part](folder, self._settings, self._tell)

        try:
            return self._cache.obtain(self._build_key(part), make)
        except BuildError as error:
            raise MissingError(
                f"{names}: not on PATH or in KUBEBUILDER_ASSETS, no download, and no build ({error}); "
                "install Go or the programs, or allow the downloads"
            ) from error

    def _download_key(self, program: Program) -> str:
        return f"{program.name}-{program.version(self._settings)}-{self._settings.architecture}"

    def _build_key(self, part: str) -> str:
        project = "kubernetes" if part in ("control-plane", "node") else part
        version = getattr(self._settings, f"{project}_version")
        return f"built-{part}-{version}-{self._settings.architecture}"
