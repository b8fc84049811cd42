"""Plug-ins by kind, from entry points: those of this package and of others alike; and what they run.

A package names the versions of the contract that it was written for as entry points of the group `rukpak.plugin_api`,
so that this is known before any of its code runs. Plug-ins of other packages have names that are qualified by a domain,
and are called through a guard (guarding.py). One that cannot be used is refused when it is needed, and nothing else is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from rukpak.api.errors import BundleError
from rukpak.api.plugins import PLUGIN_API, Format, Means, Processor, ProgramVersion, RunsProgram, Source
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.guarding import Calls, PluginError, WrongResultError, guard

SOURCES = "rukpak.sources"
FORMATS = "rukpak.formats"
PROCESSORS = "rukpak.processors"
_API = "rukpak.plugin_api"
_TYPES = {SOURCES: "source", FORMATS: "format", PROCESSORS: "processor"}
_OURS = "rukpak"
_QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A plug-in of an installed package."""

    type: str
    """source, format or processor."""
    name: str
    package: str
    version: str
    api: tuple[str, ...]
    """The versions of the contract that the package names."""
    entry: EntryPoint
    problem: str = ""
    """Why it is refused, as far as that is known without loading it."""

    @property
    def is_builtin(self) -> bool:
        """Whether it is part of this package."""
        return self.package == _OURS

    def make(self) -> Any:
        """Load its code, and return an instance."""
        return self.entry.load()()

    @property
    def calls(self) -> Calls:
        """What is known of its calls in this process."""
        return _calls_of(self.type, self.name, f"{self.package} {self.version}")


@cache
def _calls_of(kind: str, name: str, package: str) -> Calls:
    return Calls((kind, name), package)


def find_installed() -> list[Installed]:
    """Return all plug-ins, by type and name, of this package first."""
    found = [each for group in _TYPES for each in _find(group)]
    return sorted(found, key=lambda each: (not each.is_builtin, each.type, each.name, each.package))


def _find(group: str, name: str | None = None) -> list[Installed]:
    found = entry_points(group=group) if name is None else entry_points(group=group, name=name)
    if not found:
        return []
    declared: dict[str, tuple[str, ...]] = {}
    for entry in entry_points(group=_API):
        package = _package_of(entry)[0]
        declared[package] = (*declared.get(package, ()), entry.name)
    # A package that is installed twice, as it is while it is developed, has each entry point twice.
    unique = {(entry.name, *_package_of(entry)): entry for entry in found}
    installed = []
    for (called, package, version), entry in unique.items():
        api = declared.get(package, ())
        others = {other for same, other, _ in unique if same == called} - {package}
        each = Installed(
            type=_TYPES[group],
            name=called,
            package=package,
            version=version,
            api=api,
            entry=entry,
            problem="" if package == _OURS else _find_problem(called, api, others),
        )
        installed.append(each)
    return installed


def _package_of(entry: EntryPoint) -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist else ("", "")


def _find_problem(name: str, api: Collection[str], others: Collection[str]) -> str:
    if not _QUALIFIED.fullmatch(name):
        return 'has a name that only RukPak itself may use; its package must call it "<domain>/<name>"'
    if others:
        return f"is provided by {' and '.join(sorted(others))}, too; uninstall all but one"
    if not api:
        return f"does not say for which version of the contract it was written (entry point group {_API}); upgrade it"
    if PLUGIN_API not in api:
        wanted = " and ".join(sorted(api))
        return f"was written for version {wanted} of the contract, and this RukPak has {PLUGIN_API}; upgrade either"
    return ""


_MISSING = {
    SOURCES: (Reason.UNKNOWN_SOURCE_KIND, 'no plug-in for sources of kind "{name}"; install one or correct the kind'),
    FORMATS: (Reason.UNKNOWN_FORMAT, '{place}: no plug-in for "{name}"; install one or correct it'),
    PROCESSORS: (
        Reason.UNKNOWN_PROCESSOR,
        '{place}.kind: no plug-in for processors of kind "{name}"; install one or correct it',
    ),
}
_LOADED: dict[tuple[str, str], Any] = {}
"""By group and name. Two threads may load one at the same time, and either is used."""


def _load(group: str, name: str, place: str) -> Any:
    if (group, name) not in _LOADED:
        found = _find(group, name)
        if not found:
            reason, problem = _MISSING[group]
            raise BundleError(reason, problem.format(name=name, place=place))
        _LOADED[group, name] = load(min(found, key=lambda each: (not each.is_builtin, each.package)), place)
    return _LOADED[group, name]


def load(plugin: Installed, place: str) -> Any:
    """Return an instance of a plug-in, which is guarded unless it is part of this package.

    Args:
        place: where the spec names it.

    Raises: BundleError (PluginFailed) if it cannot be used.
    """
    if plugin.is_builtin:
        return plugin.make()
    if plugin.problem:
        raise plugin.calls.fail(place, *plugin.problem.split("; ", 1))

    made = plugin.calls.run("loading", plugin.make, place=place)
    try:
        return guard(made, plugin.calls, plugin.type)
    except WrongResultError as error:
        raise plugin.calls.explain(error, place, "loading") from None


def check(plugin: Installed) -> str:
    """Return why a plug-in cannot be used, without where it is used; empty if it can be."""
    if plugin.problem:
        return plugin.problem
    try:
        load(plugin, "")
    except BundleError as error:
        return error.cause if isinstance(error, PluginError) else error.message
    return ""


def source_of(kind: str) -> Source:
    """Return the source that serves `kind`.

    Raises: BundleError (UnknownSourceKind, PluginFailed).
    """
    return cast("Source", _load(SOURCES, kind, "spec.sources"))


def format_of(name: str) -> Format:
    """Return the format that `spec.format` names.

    Raises: BundleError (UnknownFormat, PluginFailed).
    """
    return cast("Format", _load(FORMATS, name, "spec.format"))


def processor_of(kind: str, path: str) -> Processor:
    """Return the processor of a kind; `path` is its place in the spec.

    Raises: BundleError (UnknownProcessor, PluginFailed).
    """
    return cast("Processor", _load(PROCESSORS, kind, path))


def is_foreign(group: str, name: str) -> bool:
    """Whether a plug-in is of another package."""
    return not any(each.is_builtin for each in _find(group, name))


def count_failure(kind: str, name: str) -> None:
    """Count a failure of a plug-in, by its type and name, that another process has found."""
    for each in find_installed():
        if (each.type, each.name) == (kind, name):
            each.calls.count_failure()


def find_programs(means: Means) -> dict[str, ProgramVersion | BundleError]:
    """Return by format or processor the program that it runs, or why there is none; others are left out.

    Args:
        means: of a rendering, with a scratch folder.
    """
    found: dict[str, ProgramVersion | BundleError] = {}
    for group, place in ((FORMATS, "spec.format"), (PROCESSORS, "spec.processors")):
        for name in sorted(entry_points(group=group).names):
            try:
                plugin = _load(group, name, place)
            except BundleError:
                continue  # `check` tells
            if not isinstance(plugin, RunsProgram):
                continue
            try:
                found[name] = plugin.find_program(means)
            except BundleError as error:
                found[name] = error
    return found
