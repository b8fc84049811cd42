"""`rukpak pause`, `resume` and `reconcile`: a change of spec or annotation, and with `--wait` what it leads to."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from api import names
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import BundleDeployment
from controller.cli.command import FAILED, connect
from controller.cli.deployments import (
    AWAITING_CONTROLLER,
    DONE,
    Awaited,
    Awaits,
    Deployments,
    Manifest,
    awaits_ready,
    check,
    conclude,
    condition,
    find_each,
    is_complete,
    select,
    wait_if_asked,
)

RETRY_SECONDS = 10.0
"""After a request that changes no condition, the failure from before it counts as that of the retry, too."""


def pause(options: argparse.Namespace) -> int:
    """Pause BundleDeployments (rule 8); return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    return _change("pause", options, {"spec": {"paused": True}}, done="paused", awaits=awaits_pause)


def resume(options: argparse.Namespace) -> int:
    """Resume BundleDeployments; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    return _change("resume", options, {"spec": {"paused": False}}, done="resumed", awaits=awaits_ready)


def reconcile(options: argparse.Namespace) -> int:
    """Set the annotation that makes the controller re-resolve all sources; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    requested_at = datetime.now(UTC).isoformat(timespec="microseconds")
    change = {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: requested_at}}}
    awaits = _Reconciliation(requested_at).awaits
    return _change("reconcile", options, change, done="reconciliation requested", awaits=awaits)


def _change(verb: str, options: argparse.Namespace, change: Mapping[str, Any], *, done: str, awaits: Awaits) -> int:
    check(options, default_all=False)
    deployments = Deployments(connect(options))
    found = _apply(verb, options, deployments, change)
    values, failures = wait_if_asked(options, deployments, awaits, found)
    status = conclude(verb, options, values, failures, done=done)
    return status or (0 if is_complete(options, found) else FAILED)


def _apply(
    verb: str, options: argparse.Namespace, deployments: Deployments, change: Mapping[str, Any]
) -> list[Manifest]:
    """Merge a change into each BundleDeployment that is selected; return those that exist."""
    if not options.names:
        selected = select(verb, options, deployments, default_all=False)
        options.names = [value["metadata"]["name"] for value in selected]
    return find_each(verb, options.names, lambda name: deployments.change(name, change))


def awaits_pause(deployment: BundleDeployment) -> Awaited:
    """Return why a BundleDeployment is not Paused at its current generation."""
    status, _, _ = condition(deployment, "Paused")
    return DONE if status == "True" else Awaited(AWAITING_CONTROLLER)


class _Reconciliation:
    """A request, from when it is sent until the controller has handled it."""

    def __init__(self, requested_at: str) -> None:
        self._requested_at, self._sent_at = requested_at, time.monotonic()

    def awaits(self, deployment: BundleDeployment) -> Awaited:
        """Return what is left to do."""
        if deployment.status.last_handled_reconcile_at == self._requested_at:
            is_working, reason, message = condition(deployment, "Reconciling")
            return Awaited(message) if is_working and reason == Reason.FETCHING else awaits_ready(deployment)
        status, reason, message = condition(deployment, "Unpacked")
        if status != "False":
            return Awaited(f"sources are not re-resolved yet: {AWAITING_CONTROLLER}")
        is_retried = time.monotonic() - self._sent_at >= RETRY_SECONDS
        return Awaited(f"{reason}: {message}", is_hopeless=is_retried and _stalls(reason))


def _stalls(reason: str) -> bool:
    """Return whether a failed source is not expected to recover: what is installed may be Ready meanwhile."""
    return any(each.value == reason and each.retry.stalls for each in Reason)
