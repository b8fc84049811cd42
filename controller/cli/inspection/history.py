"""`rukpak history`: the revisions of a BundleDeployment that are kept, and what became of them."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import HistoryEntry, Status, dump
from controller.cli.command import FAILED, connect, tell
from controller.cli.deployments.access import Deployments
from controller.cli.inspection.table import age
from controller.cli.output import to_json, to_table, to_yaml
from controller.status.texts import short

HEADING = ("REVISION", "STATE", "OUTCOME", "INSTALLED", "SOURCES", "MESSAGE")


def main(options: argparse.Namespace) -> int:
    """Show the history of a BundleDeployment, the newest revision first; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    value = Deployments(connect(options)).get(options.name)
    if value is None:
        tell(f'rukpak history: BundleDeployment "{options.name}" not found')
        return FAILED
    deployment, problem = try_to_read(value)
    if deployment is None:
        tell(f"rukpak history: {options.name}: cannot be read: {problem}")
        return FAILED
    entries = deployment.status.history
    if options.output:
        items = dump(deployment.status).get("history", [])
        print(to_json(items) if options.output == "json" else to_yaml(items), end="")
    elif entries:
        now = datetime.now(UTC)
        print(to_table(HEADING, [_row(each, deployment.status, now) for each in entries]), end="")
    else:
        tell(f"{options.name}: no revision was applied yet")
    return 0


def _row(entry: HistoryEntry, status: Status, now: datetime) -> tuple[str, ...]:
    installed = age((now - entry.installed_at).total_seconds()) if entry.installed_at else ""
    return (short(entry.revision), _state(entry, status), entry.outcome or "", installed, entry.sources, entry.message)


def _state(entry: HistoryEntry, status: Status) -> str:
    if entry.revision == status.installed_revision:
        return "installed"
    return "desired" if entry.revision == status.revision else "kept"
