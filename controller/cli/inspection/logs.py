"""`rukpak logs`: what the pods of the controller logged about one BundleDeployment.

A line belongs to it if one of its values names it, or if a line of the same pass does (`reconcileID`).
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from api import names
from controller.cli.command import FAILED, connect, tell
from controller.cli.output import one_line
from controller.cli.parsing.arguments import LEVELS
from controller.kube.client import Client
from controller.kube.errors import QUOTING, ApiError
from controller.kube.lease import LEASES
from controller.kube.resources import Resource

PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
LABEL = "app.kubernetes.io/name=rukpak"
SILENCE_SECONDS = 3600.0
_STANDARD = ("time", "level", "msg", "logger", "BundleDeployment", "reconcileID")


def main(options: argparse.Namespace) -> int:
    """Show log lines; return the exit status: 1 if no pod of the controller can be read.

    Raises: ApiError, ConfigurationError.
    """
    client = connect(options)
    pods = [item["metadata"]["name"] for item in client.list(PODS.path(options.namespace), label_selector=LABEL)]
    if not pods:
        tell(f'rukpak logs: no pod of the controller in namespace "{options.namespace}"{_holder(client, options)}')
        return FAILED
    try:
        for line in select(_read(client, options, pods), options.name, LEVELS[LEVELS.index(options.level) :]):
            print(json.dumps(line, ensure_ascii=False) if options.output == "json" else to_text(line), flush=True)
    except ApiError as error:
        if error.status not in QUOTING:
            raise
        # A request for a log has no body that the message could quote; it says, for example, which kubelet is silent.
        tell(one_line(f"rukpak logs: {error.status} {error.reason}: {error.message}"))
        return FAILED
    return 0


def _holder(client: Client, options: argparse.Namespace) -> str:
    try:
        lease = client.get(LEASES.path(options.namespace, names.LEASE)).value
    except ApiError:
        return "; --namespace names another one"
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]
    return f'; the controller runs outside of the cluster, on "{holder}": read its log there' if holder else ""


def _read(client: Client, options: argparse.Namespace, pods: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of all pods: in order of time, or with `--follow` as they arrive."""
    streams = [_lines(client, options, pod) for pod in pods]
    if options.follow:
        yield from _merge(streams)
    else:
        yield from sorted((line for stream in streams for line in stream), key=lambda line: str(line.get("time")))


def _lines(client: Client, options: argparse.Namespace, pod: str) -> Iterator[dict[str, Any]]:
    query: list[tuple[str, str | int]] = [("follow", "true")] if options.follow else []
    query += [("sinceSeconds", max(int(options.since), 1))] if options.since else []
    with client.stream(
        f"{PODS.path(options.namespace, pod)}/log", query=query, accept="application/json, */*", silence=SILENCE_SECONDS
    ) as stream:
        for line in stream:
            yield from _parse(line)


def _parse(line: bytes) -> Iterator[dict[str, Any]]:
    """Yield a line if it is one of the log: programs may write others to stderr."""
    try:
        value = json.loads(line)
    except ValueError:
        return
    if isinstance(value, dict):
        yield value


def _merge(streams: Iterable[Iterator[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    lines: queue.Queue[dict[str, Any] | ApiError | None] = queue.Queue()

    def _forward(stream: Iterator[dict[str, Any]]) -> None:
        try:
            for line in stream:
                lines.put(line)
        except ApiError as error:
            lines.put(error)
        lines.put(None)

    threads = [threading.Thread(target=_forward, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    open_streams = len(threads)
    while open_streams:
        line = lines.get()
        if isinstance(line, ApiError):
            raise line
        if line is None:
            open_streams -= 1
        else:
            yield line


def select(lines: Iterable[Mapping[str, Any]], name: str, levels: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the lines about a BundleDeployment that have one of these levels."""
    passes, shown = set[str](), set(levels)
    for line in lines:
        reconcile_id = str(line.get("reconcileID") or "")
        is_named = line.get("BundleDeployment") == name
        if is_named and reconcile_id:
            passes.add(reconcile_id)
        if (is_named or (reconcile_id and reconcile_id in passes)) and line.get("level") in shown:
            yield line


def to_text(line: Mapping[str, Any]) -> str:
    """Return a line for people: time, level, message, pairs."""
    pairs = (f" {key}={json.dumps(value, ensure_ascii=False)}" for key, value in line.items() if key not in _STANDARD)
    return one_line(
        f"{str(line.get('time'))[:23]} {str(line.get('level')).upper():7} {line.get('msg')}{''.join(pairs)}"
    )
