"""The table of `rukpak status`: one row for each BundleDeployment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.cli.deployments.access import Manifest
from controller.cli.output import to_table

HEADING = ("NAME", "FORMAT", "PAUSED", "READY", "REASON", "REVISION", "OBJECTS", "DRIFTED", "AGE")
_WIDE = ("SOURCES", "MESSAGE")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def tabulate(values: Sequence[Manifest], *, is_wide: bool, least: int = 0) -> str:
    """Return the table; with sources and messages if it is wide. Empty without values; for `least` see to_table."""
    now = datetime.now(UTC)
    rows = [_row(value, now, is_wide=is_wide) for value in values]
    return to_table((*HEADING, *(_WIDE if is_wide else ())), rows, least) if rows else ""


def _row(value: Manifest, now: datetime, *, is_wide: bool) -> tuple[str, ...]:
    deployment, problem = try_to_read(value)
    if deployment is None:
        cells = (value["metadata"]["name"], "", "", "Unknown", "CannotBeRead", "", "", "", "")
        return (*cells, *(("", f"cannot be read: {problem}") if is_wide else ()))
    return (*row(deployment, now), *(_wide(deployment) if is_wide else ()))


def row(deployment: BundleDeployment, now: datetime) -> tuple[str, ...]:
    """Return the cells of a BundleDeployment, in the order of the heading."""
    status, created = deployment.status, deployment.metadata.creation_timestamp
    ready = deployment.status.condition("Ready")
    return (
        deployment.metadata.name,
        deployment.spec.format,
        str(deployment.spec.paused).lower(),
        ready.status if ready else "Unknown",
        "InvalidConfig" if deployment.problem else ready.reason if ready else "",
        status.display.revision,
        status.display.objects,
        str(status.objects.drifted),
        age((now - created).total_seconds()) if created else "",
    )


def _wide(deployment: BundleDeployment) -> tuple[str, str]:
    ready = deployment.status.condition("Ready")
    message = f"cannot be read: {deployment.problem}" if deployment.problem else ready.message if ready else ""
    return deployment.status.display.sources, message


def age(seconds: float) -> str:
    """Return a duration as kubectl shows an age: 5s, 3h, 8d."""
    unit, letter = next((unit for unit in _UNITS if seconds >= 2 * unit[0]), _UNITS[-1])
    return f"{max(int(seconds), 0) // unit}{letter}"
