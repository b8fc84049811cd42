"""`rukpak events` and `rukpak logs`: what the controller reported and logged about one BundleDeployment.

A line of the log belongs to it if one of its values names it, or if a line of the same pass does (`reconcileID`).
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rukpak.controller.cli.command import connect, tell
from rukpak.controller.cli.verbs import LEVELS
from rukpak.controller.content.limits import one_line
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.errors import QUOTING, ApiError
from rukpak.controller.kube.events import EVENTS, NAMESPACE, count_of, last_seen, select_about
from rukpak.controller.untrusted import text
from rukpak.controller.views import FailedError
from rukpak.controller.views.access import PODS, Deployments, Manifest, follow, read_holder, typed
from rukpak.controller.views.texts import age, show, to_table

_HEADING = ("LAST SEEN", "TYPE", "REASON", "MESSAGE")
_GAP = "   "
LABEL = "app.kubernetes.io/name=rukpak"
SILENCE_SECONDS = 3600.0
_STANDARD = ("time", "level", "msg", "logger", "BundleDeployment", "reconcileID")


def show_events(options: argparse.Namespace) -> int:
    """Show Events; return the exit status.

    Raises: FailedError without the one that is named; ApiError, ConfigurationError.
    """
    client = connect(options)
    if not Deployments(client).exists(options.name, ""):
        raise FailedError(f'BundleDeployment "{options.name}" not found')
    if options.watch:
        return _follow_events(client, options)
    path, selector = EVENTS.path(NAMESPACE), select_about(options.name)
    found = sorted((typed(EVENTS, each) for each in client.list(path, field_selector=selector)), key=last_seen)
    if not (found or options.output):
        tell("no Events; the API server deletes them after an hour")
    print(show(found, options.output) if options.output else _tabulate(found), end="")
    return 0


def _follow_events(client: Client, options: argparse.Namespace) -> int:
    seen: dict[str, int] = {}
    for _, event in follow(client, EVENTS.path(NAMESPACE), field_selector=select_about(options.name), order=last_seen):
        name, count = event["metadata"]["name"], count_of(event)
        if seen.get(name) != count:  # deleted Events are not news
            text = show([typed(EVENTS, event)], options.output) if options.output else f"{_event_line(event)}\n"
            print(text, end="", flush=True)
        seen[name] = count
    return 0


def _tabulate(events: Iterable[Manifest]) -> str:
    now = datetime.now(UTC)
    rows = [(_ago(event, now), text(event, "type"), text(event, "reason"), _note(event)) for event in events]
    return to_table(_HEADING, rows) if rows else ""


def _event_line(event: Mapping[str, Any]) -> str:
    time = last_seen(event)[:19]
    return one_line(_GAP.join((time, text(event, "type"), text(event, "reason"), _note(event))))


def _note(event: Mapping[str, Any]) -> str:
    count = count_of(event)
    return f"{text(event, 'note')}{f' (x{count})' if count > 1 else ''}"


def _ago(event: Mapping[str, Any], now: datetime) -> str:
    try:
        return age((now - datetime.fromisoformat(last_seen(event))).total_seconds())
    except ValueError:  # an Event of another client may have no time
        return ""


def show_logs(options: argparse.Namespace) -> int:
    """Show log lines; return the exit status: 1 if no pod of the controller can be read.

    Raises: ApiError, ConfigurationError.
    """
    client = connect(options)
    pods = [item["metadata"]["name"] for item in client.list(PODS.path(options.namespace), label_selector=LABEL)]
    if not pods:
        raise FailedError(f'no pod of the controller in namespace "{options.namespace}"{_holder(client, options)}')
    try:
        for line in select_lines(
            _read_logs(client, options, pods), options.name, LEVELS[LEVELS.index(options.level) :]
        ):
            print(json.dumps(line, ensure_ascii=False) if options.output == "json" else to_text(line), flush=True)
    except ApiError as error:
        if error.status not in QUOTING:
            raise
        # A request for a log has no body that the message could quote; it says, for example, which kubelet is silent.
        raise FailedError(one_line(f"{error.status} {error.reason}: {error.message}")) from None
    return 0


def _holder(client: Client, options: argparse.Namespace) -> str:
    try:
        holder = read_holder(client, options.namespace)
    except ApiError:
        holder = None
    if holder is None:
        return "; --namespace names another one"
    return f'; the controller runs outside of the cluster, on "{holder.host}": read its log there'


def _read_logs(client: Client, options: argparse.Namespace, pods: Iterable[str]) -> Iterator[dict[str, Any]]:
    streams = [_stream_lines(client, options, pod) for pod in pods]
    if options.follow:
        yield from _merge(streams)
    else:
        yield from sorted((line for stream in streams for line in stream), key=lambda line: str(line.get("time")))


def _stream_lines(client: Client, options: argparse.Namespace, pod: str) -> Iterator[dict[str, Any]]:
    query: list[tuple[str, str | int]] = [("follow", "true")] if options.follow else []
    query += [("sinceSeconds", max(int(options.since), 1))] if options.since else []
    with client.stream(
        f"{PODS.path(options.namespace, pod)}/log", query=query, accept="application/json, */*", silence=SILENCE_SECONDS
    ) as stream:
        yield from filter(None, map(_parse, stream))


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


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
    for _ in threads:  # each puts one None, at its end
        while (line := lines.get()) is not None:
            if isinstance(line, ApiError):
                raise line
            yield line


def select_lines(lines: Iterable[Mapping[str, Any]], name: str, levels: Iterable[str]) -> Iterator[Mapping[str, Any]]:
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
