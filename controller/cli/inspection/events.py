"""`rukpak events`: the Events about one BundleDeployment, the oldest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from api import names
from controller.cli.command import FAILED, connect, tell
from controller.cli.deployments.access import Deployments, Manifest, follow
from controller.cli.deployments.selection import find_each
from controller.cli.inspection.table import age
from controller.cli.output import one_line, show, to_table
from controller.kube.client import Client
from controller.kube.events import EVENTS, NAMESPACE
from controller.untrusted import integer, text

_HEADING = ("LAST SEEN", "TYPE", "REASON", "MESSAGE")
_GAP = "   "


def main(options: argparse.Namespace) -> int:
    """Show Events; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    client = connect(options)
    if not find_each("events", [options.name], Deployments(client).get):
        return FAILED
    if options.watch:
        return _watch(client, options)
    path, selector = EVENTS.path(NAMESPACE), _selector(options.name)
    found = sorted(map(_typed, client.list(path, field_selector=selector)), key=_last_seen)
    if not (found or options.output):
        tell("no Events; the API server deletes them after an hour")
    print(show(found, options.output) if options.output else _tabulate(found), end="")
    return 0


def _watch(client: Client, options: argparse.Namespace) -> int:
    """Print each Event as it occurs, until the user interrupts."""
    seen: dict[str, int] = {}
    for event in follow(client, EVENTS.path(NAMESPACE), field_selector=_selector(options.name), order=_last_seen):
        name, count = event["metadata"]["name"], _count(event)
        if seen.get(name) != count:  # deleted Events are not news
            text = show([_typed(event)], options.output) if options.output else f"{_line(event)}\n"
            print(text, end="", flush=True)
        seen[name] = count
    return 0


def _selector(name: str) -> str:
    return f"regarding.kind={names.KIND},regarding.name={name}"


def _typed(event: Mapping[str, Any]) -> Manifest:
    return {"apiVersion": EVENTS.api_version, "kind": EVENTS.kind, **event}


def _tabulate(events: Iterable[Manifest]) -> str:
    now = datetime.now(UTC)
    rows = [(_ago(event, now), text(event, "type"), text(event, "reason"), _text(event)) for event in events]
    return to_table(_HEADING, rows) if rows else ""


def _line(event: Mapping[str, Any]) -> str:
    time = _last_seen(event)[:19]
    return one_line(_GAP.join((time, text(event, "type"), text(event, "reason"), _text(event))))


def _text(event: Mapping[str, Any]) -> str:
    count = _count(event)
    return f"{text(event, 'note')}{f' (x{count})' if count > 1 else ''}"


def _count(event: Mapping[str, Any]) -> int:
    return integer(event, "series", "count") or 1


def _last_seen(event: Mapping[str, Any]) -> str:
    return text(event, "series", "lastObservedTime") or text(event, "eventTime")


def _ago(event: Mapping[str, Any], now: datetime) -> str:
    try:
        return age((now - datetime.fromisoformat(_last_seen(event))).total_seconds())
    except ValueError:  # an Event of another client may have no time
        return ""
