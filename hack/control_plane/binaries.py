"""Programs, obtained when they are needed: installed, from the cache, by a download or a build, in this order."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from hack.control_plane.builds import BUILDS, SECONDS
from hack.control_plane.cache import Cache, Tell
from hack.control_plane.downloads import DownloadError, download
from hack.control_plane.go import BuildError
from hack.control_plane.installed import find_installed
from hack.control_plane.programs import PROGRAMS, Program
from hack.control_plane.progress import Durations, Progress
from hack.control_plane.settings import Settings


class MissingError(Exception):
    """A program could not be obtained; the message says what to do, in one line."""


def tell_person(line: str) -> None:
    """Print a message to standard error."""
    print(line, file=sys.stderr, flush=True)


class Binaries:
    """Finds programs by name.

    Args:
        settings: versions, addresses and folders.
        tell: called with one line for each program that is skipped, and before slow steps.
    """

    def __init__(self, settings: Settings, tell: Tell = tell_person) -> None:
        self._settings = settings
        self._tell = tell
        self._cache = Cache(settings.cache / "bin", tell)
        self._found: dict[str, Path] = {}

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

    def _find_at_hand(self, programs: list[Program]) -> dict[str, Path]:
        found = {program.name: self._find_one_at_hand(program) for program in programs}
        return {name: path for name, path in found.items() if path}

    def _find_one_at_hand(self, program: Program) -> Path | None:
        installed = find_installed(program, self._settings, self._tell)
        if installed:
            return installed
        folder = self._cache.find(self._download_key(program)) or self._cache.find(self._build_key(program.part))
        return folder / program.name if folder else None

    def _download_all(self, programs: list[Program]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        failed: set[str] = set()
        for program in programs:
            # A build produces all programs of a part: if one download fails, the others are useless.
            if program.part in failed:
                continue
            try:
                found[program.name] = self._download(program)
            except DownloadError as error:
                self._tell(f"{program.name} could not be downloaded: {error}")
                failed.add(program.part)
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
        parts = [part for part in BUILDS if part in wanted]
        progress = Progress(Durations(self._settings.cache / "bin", SECONDS), parts, self._tell)
        folders = {part: self._build(part, programs, progress) for part in parts}
        return {program.name: folders[program.part] / program.name for program in programs}

    def _build(self, part: str, programs: list[Program], progress: Progress) -> Path:
        names = ", ".join(program.name for program in programs if program.part == part)

        def make(folder: Path) -> None:
            progress.begin(part, names)
            BUILDS[part](folder, self._settings, partial(progress.report, part))
            progress.end(part)

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
        versions = {
            "control-plane": self._settings.kubernetes_version,
            "registry": self._settings.registry_version,
            "kwok": self._settings.kwok_version,
            "prometheus": self._settings.prometheus_version,
            "helm": self._settings.helm_version,
        }
        return f"built-{part}-{versions[part]}-{self._settings.architecture}"
