"""`rukpak rollback`: name a kept revision in spec.pinnedRevision, so that it is applied again."""

from __future__ import annotations

import argparse
from http import HTTPStatus

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment, Status
from controller.cli.command import FAILED, connect, tell
from controller.cli.deployments.access import Deployments
from controller.cli.deployments.waiting import awaits_ready, report, wait_if_asked
from controller.cli.output import name_of, show
from controller.cli.rendering.stored import find_kept, kept_revisions
from controller.kube.errors import ApiError
from controller.status.texts import short


class _UnchangedError(Exception):
    """Nothing was changed; the message is one line."""


def main(options: argparse.Namespace) -> int:
    """Roll a BundleDeployment back; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    deployments = Deployments(connect(options))
    try:
        deployment = _read(deployments, options.name)
        digest = _choose(deployment, options.to)
        value = _pin(deployments, deployment, digest)
    except _UnchangedError as error:
        tell(f"rukpak rollback: {options.name}: {error}")
        return FAILED
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    lines = "".join(f"{name_of(each)} rolled back to revision {short(digest)}\n" for each in values)
    print(show(values, options.output) if options.output else lines, end="", flush=True)
    tell("its sources and config do not count until spec.pinnedRevision is removed")
    report("rollback", failures, is_explained=False)
    return FAILED if failures else 0


def _read(deployments: Deployments, name: str) -> BundleDeployment:
    value = deployments.get(name)
    if value is None:
        raise _UnchangedError("not found")
    deployment, problem = try_to_read(value)
    if deployment is None:
        raise _UnchangedError(f"cannot be read: {problem}")
    return deployment


def _choose(deployment: BundleDeployment, text: str) -> str:
    """Return the digest of the revision that the user names, or else of the last one that was healthy."""
    status = deployment.status
    if not text:
        if found := find_previous(status):
            return found
        raise _UnchangedError("no earlier revision that was healthy is kept; name one with --to")
    if found := find_kept(status, text):
        return found
    kept = ", ".join(map(short, kept_revisions(status))) or "none"
    raise _UnchangedError(f"--to: not one of the revisions that are kept: {kept}")


def find_previous(status: Status) -> str:
    """Return the digest of the last revision before the desired one that was healthy; empty if there is none."""
    return next(
        (each.revision for each in status.history if each.outcome == "Healthy" and each.revision != status.revision), ""
    )


def _pin(deployments: Deployments, deployment: BundleDeployment, digest: str) -> dict[str, object]:
    """Set the field, unless the BundleDeployment has changed since it was read."""
    metadata = deployment.metadata
    change = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"pinnedRevision": digest}}
    try:
        value = deployments.change(metadata.name, change)
    except ApiError as error:
        if error.status == HTTPStatus.CONFLICT:
            raise _UnchangedError("changed meanwhile; run the command again") from None
        raise
    if value is None:
        raise _UnchangedError("not found")
    return value
