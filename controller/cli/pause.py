"""`rukpak pause` and `rukpak resume`: set `spec.paused`, and wait for the controller to comply (rule 8)."""

from __future__ import annotations

from collections.abc import Sequence

from api.v1alpha2.types import BundleDeployment
from controller.cli.deployments import AWAITING_CONTROLLER, awaits_ready, change_each, condition


def pause(arguments: Sequence[str]) -> int:
    """Pause BundleDeployments; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    return change_each(
        arguments,
        "pause",
        "Pause BundleDeployments: keep reporting health and drift, but change no object.",
        {"spec": {"paused": True}},
        done="paused",
        awaits=_awaits_pause,
    )


def resume(arguments: Sequence[str]) -> int:
    """Resume BundleDeployments; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    return change_each(
        arguments,
        "resume",
        "Resume paused BundleDeployments: repair drift and install pending revisions.",
        {"spec": {"paused": False}},
        done="resumed",
        awaits=awaits_ready,
    )


def _awaits_pause(deployment: BundleDeployment) -> str:
    status, _, _ = condition(deployment, "Paused")
    return "" if status == "True" else AWAITING_CONTROLLER
