"""`rukpak reconcile`: the annotation that asks all sources anew, and lets what failed be tried at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from api import names
from api.v1alpha2.types import BundleDeployment
from controller.cli.deployments import change_each, condition
from controller.cli.pause import awaits_ready


def main(arguments: Sequence[str]) -> int:
    """Ask for it; returns the exit status."""
    asked = datetime.now(UTC).isoformat(timespec="microseconds")

    def awaits(deployment: BundleDeployment) -> str:
        if deployment.status.last_handled_reconcile_at == asked:
            return awaits_ready(deployment)
        status, reason, message = condition(deployment, "Unpacked")
        return f"{reason}: {message}" if status == "False" else "waits until the sources were asked"

    return change_each(
        arguments,
        "reconcile",
        "Ask all sources anew, and try at once what failed.",
        {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: asked}}},
        done="asked to reconcile",
        awaits=awaits,
    )
