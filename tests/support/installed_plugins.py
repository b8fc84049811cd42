"""Plug-ins of a package that is not installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from rukpak.controller.building import entry_points

_GROUPS = (entry_points.SOURCES, entry_points.FORMATS, entry_points.PROCESSORS, "rukpak.plugin_api")


class Distribution:
    """What an entry point knows of its package."""

    def __init__(self, name: str, version: str) -> None:
        self.name, self.version = name, version


def install_plugins(
    monkeypatch: pytest.MonkeyPatch,
    provided: Mapping[tuple[str, str], Callable[[], Any]],
    *,
    package: str = "acme-plugins",
    api: Sequence[str] = ("1",),
) -> None:
    """Install plug-ins, by group and name, as those of a package beside the ones that are installed."""
    distribution = Distribution(package, "1.2")
    made: dict[EntryPoint, Callable[[], Any]] = {}
    lookup = vars(entry_points)["entry_points"]
    known: list[EntryPoint] = [entry for group in _GROUPS for entry in lookup(group=group)]
    for (group, name), factory in provided.items():
        entry = EntryPoint(name, f"{package.replace('-', '_')}:Plugin", group)
        vars(entry)["dist"] = distribution
        made[entry] = factory
    for version in api:
        entry = EntryPoint(version, package.replace("-", "_"), "rukpak.plugin_api")
        vars(entry)["dist"] = distribution
        known.append(entry)
    before = EntryPoint.load
    monkeypatch.setattr(EntryPoint, "load", lambda entry: made[entry] if entry in made else before(entry))
    monkeypatch.setattr(entry_points, "entry_points", lambda **wanted: EntryPoints([*known, *made]).select(**wanted))
    monkeypatch.setattr(entry_points, "_LOADED", {})
