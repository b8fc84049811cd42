"""`rukpak version`: of this program, of the controller and of the API in the cluster, and how they differ."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from typing import Any

from controller.cli.command import connect
from controller.cli.installation.release import DEFINITION, Holder, compare_definitions, find, read_holder
from controller.cli.output import one_line, to_json, to_yaml
from controller.kube.client import Client
from controller.kube.discovery import Discovery

NOT_INSTALLED = "not installed"
UNKNOWN = "unknown"


def main(options: argparse.Namespace) -> int:
    """Print the versions; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    found: dict[str, Any] = {"client": {"version": version("rukpak"), "python": platform.python_version()}}
    if not options.client:
        found |= _read_cluster(connect(options), options.namespace)
    if options.output:
        print(to_json(found) if options.output == "json" else to_yaml(found), end="")
    else:
        print("".join(f"{one_line(line)}\n" for line in _lines(found)), end="")
    return 0


def _read_cluster(client: Client, namespace: str) -> dict[str, Any]:
    definition = find(client, DEFINITION)
    api = {"installed": definition is not None, "versions": [], "difference": ""}
    if definition:
        api["versions"] = [each["name"] for each in definition.value["spec"]["versions"] if each.get("served")]
        api["difference"] = compare_definitions(definition.value)
    return {
        "controller": _describe(read_holder(client, namespace)),
        "api": api,
        "kubernetes": {"version": Discovery(client).version()},
    }


def _describe(holder: Holder | None) -> dict[str, Any]:
    if holder is None:
        return {"running": False, "version": "", "host": ""}
    return {"running": holder.is_running, "version": holder.version or UNKNOWN, "host": holder.host}


def _lines(found: dict[str, Any]) -> list[str]:
    client = found["client"]
    lines = [f"Client:      {client['version']} (Python {client['python']})"]
    if "controller" not in found:
        return lines
    return [*lines, *_cluster_lines(found, client["version"])]


def _cluster_lines(found: dict[str, Any], own: str) -> list[str]:
    controller, api = found["controller"], found["api"]
    return [
        f"Controller:  {_controller(controller, own)}",
        f"API:         {_api(api)}",
        f"Kubernetes:  {found['kubernetes']['version']}",
    ]


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
