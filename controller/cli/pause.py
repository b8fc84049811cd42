"""`rukpak pause` and `rukpak resume`: `spec.paused`, and the wait until the controller says so (rule 8)."""

from __future__ import annotations

from collections.abc import Sequence

from api.v1alpha2.types import BundleDeployment
from controller.cli.deployments import change_each, condition


def pause(arguments: Sequence[str]) -> int:
    """Pause BundleDeployments; returns the exit status."""
    return change_each(
        arguments,
        "pause",
        "Keep hands off what BundleDeployments have installed. Health and drift stay visible.",
        {"spec": {"paused": True}},
        done="paused",
        awaits=_awaits_pause,
    )


def resume(arguments: Sequence[str]) -> int:
    """Resume BundleDeployments; returns the exit status."""
    return change_each(
        arguments,
        "resume",
        "Go on with BundleDeployments that are paused: what was changed is put right.",
        {"spec": {"paused": False}},
        done="resumed",
        awaits=awaits_ready,
    )


def _awaits_pause(deployment: BundleDeployment) -> str:
    status, _, _ = condition(deployment, "Paused")
    return "" if status == "True" else "waits until the controller has noticed"


def awaits_ready(deployment: BundleDeployment) -> str:
    """Return why a BundleDeployment is not Ready at this generation; empty: it is."""
    status, reason, message = condition(deployment, "Ready")
    if not status:
        return "waits until the controller has noticed"
    return "" if status == "True" else f"{reason}: {message}"
