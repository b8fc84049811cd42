"""Plug-ins by kind, from entry points: those of this repository and of other packages alike; and what they run."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import cast

from api.errors import BundleError
from api.plugins import Format, Means, Processor, ProgramVersion, RunsProgram, Source
from api.v1alpha2.conditions import Reason

SOURCES = "rukpak.sources"
FORMATS = "rukpak.formats"
PROCESSORS = "rukpak.processors"


def find_programs(means: Means) -> dict[str, ProgramVersion | BundleError]:
    """Return by format the program that it runs, or why there is none; formats that run no program are left out.

    Args:
        means: of a rendering, with a scratch folder.
    """
    formats = {name: plugin for name, plugin in installed_formats().items() if isinstance(plugin, RunsProgram)}
    return {name: _find(plugin, means) for name, plugin in formats.items()}


def _find(plugin: RunsProgram, means: Means) -> ProgramVersion | BundleError:
    try:
        return plugin.find_program(means)
    except BundleError as error:
        return error


@cache
def source_of(kind: str) -> Source:
    """Return the source that serves `kind`.

    Raises: BundleError (UnknownSourceKind).
    """
    found = entry_points(group=SOURCES, name=kind)
    if not found:
        raise BundleError(
            Reason.UNKNOWN_SOURCE_KIND, f'no plug-in for sources of kind "{kind}"; install one or correct the kind'
        )
    return cast("Source", next(iter(found)).load()())


def installed_formats() -> dict[str, Format]:
    """Return all formats by name."""
    return {name: format_of(name) for name in sorted(entry_points(group=FORMATS).names)}


@cache
def format_of(name: str) -> Format:
    """Return the format that `spec.format` names.

    Raises: BundleError (UnknownFormat).
    """
    found = entry_points(group=FORMATS, name=name)
    if not found:
        raise BundleError(Reason.UNKNOWN_FORMAT, f'spec.format: no plug-in for "{name}"; install one or correct it')
    return cast("Format", next(iter(found)).load()())


def processor_of(kind: str, path: str) -> Processor:
    """Return the processor of a kind; `path` is its place in the spec.

    Raises: BundleError (UnknownProcessor).
    """
    found = _find_processor(kind)
    if found is None:
        problem = f'{path}.kind: no plug-in for processors of kind "{kind}"; install one or correct it'
        raise BundleError(Reason.UNKNOWN_PROCESSOR, problem)
    return found


@cache
def _find_processor(kind: str) -> Processor | None:
    found = entry_points(group=PROCESSORS, name=kind)
    return cast("Processor", next(iter(found)).load()()) if found else None
