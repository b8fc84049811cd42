"""`rukpak reconcile`: set the annotation that makes the controller re-resolve all sources and retry failures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from api import names
from api.v1alpha2.types import BundleDeployment
from controller.cli.deployments import awaits_ready, change_each, condition


def main(arguments: Sequence[str]) -> int:
    """Request a reconciliation; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    requested_at = datetime.now(UTC).isoformat(timespec="microseconds")

    def _awaits(deployment: BundleDeployment) -> str:
        if deployment.status.last_handled_reconcile_at == requested_at:
            return awaits_ready(deployment)
        status, reason, message = condition(deployment, "Unpacked")
        return f"{reason}: {message}" if status == "False" else "waiting for the sources to be re-resolved"

    return change_each(
        arguments,
        "reconcile",
        "Re-resolve all sources and retry failures immediately.",
        {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: requested_at}}},
        done="reconciliation requested",
        awaits=_awaits,
    )
