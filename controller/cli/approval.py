"""`rukpak approve` and `rukpak deny`: what waits for approval is shown, and then exactly that is approved or denied.

The request carries the resourceVersion of what was shown: what has changed meanwhile is neither approved nor denied.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from api.v1alpha2.types import BundleDeployment, Pending
from controller.cli.command import FailedError, MisuseError, confirm, connect, tell
from controller.cli.deployments import (
    AWAITING_CONTROLLER,
    DONE,
    Awaited,
    Awaits,
    Deployments,
    Manifest,
    awaits_ready,
    conclude,
    condition,
    wait_if_asked,
)
from controller.cli.output import fit
from controller.cli.parser import program
from controller.kube.errors import ApiError
from controller.status.report import describe_changes, short

TRIES = 5
"""Status may change between reading and writing; what waits usually does not."""
_DIGEST = re.compile(r"(sha256:)?([0-9a-f]{64})").fullmatch
_ABBREVIATED = re.compile(r"(sha256:)?([0-9a-f]{8,64})").fullmatch


@dataclass(frozen=True, slots=True)
class _Choice:
    """A revision to approve or deny, of a BundleDeployment as it was read."""

    deployment: BundleDeployment
    digest: str

    @property
    def pending(self) -> Pending | None:
        """What status says about the revision; None if it does not wait."""
        pending = self.deployment.status.pending
        return pending if pending and pending.revision == self.digest else None


def approve(options: argparse.Namespace) -> int:
    """Approve a revision; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    return _decide("approve", options, "approved", awaits_ready)


def deny(options: argparse.Namespace) -> int:
    """Deny a revision; return the exit status.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    return _decide("deny", options, "denied", _awaits_denial)


def _decide(verb: str, options: argparse.Namespace, done: str, awaits: Awaits) -> int:
    deployments = Deployments(connect(options))
    choice = _choose(deployments, options)
    tell_about(verb, choice.deployment, choice.digest)
    confirm(options, f"nothing was {done}")
    value = _send(verb, deployments, choice, options)
    values, failures = wait_if_asked(options, deployments, awaits, [value])
    return conclude(verb, options, values, failures, done=f"revision {short(choice.digest)} {done}")


def _choose(deployments: Deployments, options: argparse.Namespace) -> _Choice:
    """Return the revision that the options name, or else the one that waits."""
    _, deployment = deployments.read(options.name)
    pending = deployment.status.pending
    if options.revision:
        return _Choice(deployment, _named(options.revision, pending))
    if pending is None:
        raise FailedError(f"{options.name}: no revision waits for approval{_denied(deployment)}")
    return _Choice(deployment, pending.revision)


def _denied(deployment: BundleDeployment) -> str:
    """Return which revision was denied, and how to approve it all the same."""
    if not (digest := deployment.spec.denied_revision):
        return ""
    remedy = f'"{program()} approve {deployment.metadata.name} --revision {digest}" withdraws that and approves it'
    return f"; {short(digest)} was denied (spec.deniedRevision); {remedy}"


def _named(text: str, pending: Pending | None) -> str:
    """Return the digest that `--revision` names: in full, or the beginning of the one that waits.

    Raises: MisuseError.
    """
    if found := _DIGEST(text):
        return f"sha256:{found[2]}"
    found = _ABBREVIATED(text)
    if found and pending and pending.revision.removeprefix("sha256:").startswith(found[2]):
        return pending.revision
    raise MisuseError(f'--revision "{text}": no revision that waits for approval begins so; give the digest in full')


def tell_about(verb: str, deployment: BundleDeployment, digest: str) -> None:
    """Print on stderr what is about to be approved or denied."""
    for line in fit(_describe(verb, _Choice(deployment, digest))).splitlines():
        tell(line)


def _describe(verb: str, choice: _Choice) -> Iterator[str]:
    pending, status = choice.pending, choice.deployment.status
    yield f"{choice.deployment.metadata.name}: {verb} revision {choice.digest}"
    if status.installed_revision:
        yield f"  Installed: {status.installed_revision}"
    if pending is None:
        yield "  It does not wait for approval: it is not known yet, or not what the spec asks for"
        return
    yield f"  Changes:   {describe_changes(pending.changes)}"
    yield f'  Details:   "{program()} diff {choice.deployment.metadata.name}" shows them'
    for line in pending.permissions.added:
        yield f"  Permission: {line}"
    if pending.permissions.truncated:
        yield "  Permission: and more"
    account = pending.service_account_name
    yield f"  Applied as: {f'ServiceAccount {account}' if account else 'the controller'}"
    for pin in pending.sources:
        yield f"  Source:    {pin.kind} {pin.resolved}"
    for problem in pending.problems:
        yield f"  Problem:   {problem}"


def _send(verb: str, deployments: Deployments, choice: _Choice, options: argparse.Namespace) -> Manifest:
    """Write the decision, unless what was shown has changed since; a new status alone changes nothing."""
    for _ in range(TRIES):
        version = choice.deployment.metadata.resource_version
        change = {"metadata": {"resourceVersion": version}, "spec": _change(verb, choice)}
        try:
            value = deployments.change(options.name, change)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            if value is None:
                break
            return value
        again = _choose(deployments, options)
        if _shown(again) != _shown(choice):
            break
        choice = again
    raise FailedError(f'"{options.name}" has changed meanwhile; run the command again')


def _shown(choice: _Choice) -> tuple[object, ...]:
    metadata = choice.deployment.metadata
    return metadata.uid, metadata.generation, choice.digest, choice.pending


def _change(verb: str, choice: _Choice) -> Mapping[str, Any]:
    """Return the fields of the spec that change; None removes one."""
    spec, digest = choice.deployment.spec, choice.digest
    if verb == "deny":
        withdrawn = {"approvedRevision": None, "approvedServiceAccountName": None}
        return {"deniedRevision": digest, **(withdrawn if spec.approved_revision == digest else {})}
    if choice.pending:
        account: str | None = choice.pending.service_account_name
    else:  # the controller may complete an account that is not named
        account = spec.service_account_name or None
    reconsidered = {"deniedRevision": None} if spec.denied_revision == digest else {}
    return {"approvedRevision": digest, "approvedServiceAccountName": account, **reconsidered}


def _awaits_denial(deployment: BundleDeployment) -> Awaited:
    return DONE if condition(deployment, "Installed")[0] else Awaited(AWAITING_CONTROLLER)
