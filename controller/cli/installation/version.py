"""`rukpak version`: of this program, of the controller and of the API in the cluster, and how they differ."""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from api.plugins import ProgramVersion
from controller.build.plugins import find_programs
from controller.cli.command import FAILED, connect, explain
from controller.cli.installation.release import DEFINITION, Holder, compare_definitions, find, read_holder
from controller.cli.output import one_line, to_json, to_yaml
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.settings import Settings

NOT_INSTALLED = "not installed"
UNKNOWN = "unknown"


def main(options: argparse.Namespace) -> int:
    """Print the versions; return the exit status: 1 if a part could not be read.

    Raises: ConfigurationError.
    """
    client = {"version": version("rukpak"), "python": platform.python_version(), "programs": _programs(options.helm)}
    found: dict[str, Any] = {"client": client}
    if not options.client:
        found |= _read_cluster(connect(options), options.namespace)
    if options.output:
        print(to_json(found) if options.output == "json" else to_yaml(found), end="")
    else:
        print("".join(f"{one_line(line)}\n" for line in _lines(found)), end="")
    return FAILED if any("error" in part for part in found.values()) else 0


def _programs(helm: str) -> dict[str, str]:
    """Return by format the version of the program that `rukpak run` and `rukpak render` would start for it."""
    with tempfile.TemporaryDirectory(prefix="rukpak-") as scratch:
        settings = Settings(helm=helm, confinement="best-effort")
        found = find_programs(replace(settings.means(), scratch=Path(scratch)))
    return {name: program.version for name, program in found.items() if isinstance(program, ProgramVersion)}


def _read_cluster(client: Client, namespace: str) -> dict[str, Any]:
    """Return what is found in the cluster; parts that the user may not read have only an `error`."""
    return {
        "controller": _guard(lambda: _describe(read_holder(client, namespace))),
        "api": _guard(lambda: _read_api(client)),
        "kubernetes": _guard(lambda: {"version": Discovery(client).version()}),
    }


def _guard(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read()
    except ApiError as error:
        return {"error": explain(error)}


def _read_api(client: Client) -> dict[str, Any]:
    definition = find(client, DEFINITION)
    if definition is None:
        return {"installed": False, "versions": [], "difference": ""}
    versions = [each["name"] for each in definition.value["spec"]["versions"] if each.get("served")]
    return {"installed": True, "versions": versions, "difference": compare_definitions(definition.value)}


def _describe(holder: Holder | None) -> dict[str, Any]:
    if holder is None:
        return {"running": False, "version": "", "host": ""}
    return {"running": holder.is_running, "version": holder.version or UNKNOWN, "host": holder.host}


def _lines(found: dict[str, Any]) -> list[str]:
    client = found["client"]
    programs = "".join(f", {name} {found}" for name, found in client["programs"].items())
    lines = [f"Client:      {client['version']} (Python {client['python']}{programs})"]
    if "controller" not in found:
        return lines
    return [*lines, *_cluster_lines(found, client["version"])]


def _cluster_lines(found: dict[str, Any], own: str) -> list[str]:
    return [
        f"Controller:  {_show(found['controller'], lambda part: _controller(part, own))}",
        f"API:         {_show(found['api'], _api)}",
        f"Kubernetes:  {_show(found['kubernetes'], lambda part: str(part['version']))}",
    ]


def _show(part: dict[str, Any], show: Callable[[dict[str, Any]], str]) -> str:
    return f"unknown: {part['error']}" if "error" in part else show(part)


def _controller(controller: dict[str, Any], own: str) -> str:
    if not controller["running"]:
        return 'not running; "rukpak check" says what to do'
    differs = "" if controller["version"] in (own, UNKNOWN) else f", which is not that of the client ({own})"
    return f'{controller["version"]} on "{controller["host"]}"{differs}'


def _api(api: dict[str, Any]) -> str:
    if not api["installed"]:
        return f'{NOT_INSTALLED}; run "rukpak crd | kubectl apply --server-side -f -"'
    versions = ", ".join(api["versions"])
    if not api["difference"]:
        return f"{versions}, as in the client"
    return f"{versions}; differs from the client: {api['difference']}"
