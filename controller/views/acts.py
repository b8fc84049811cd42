"""What users do to a BundleDeployment, as requests: pause, resume, reconcile, approve, deny, pin.

A decision carries the resourceVersion of what was shown, so that what has changed meanwhile is neither approved nor
denied. Not here: the questions before it, and what it leads to (cli/changes.py, cli/rollback.py, ui/acts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.types import BundleDeployment, Pending, Status
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.views.access import Deployments, Manifest
from rukpak.controller.views.mistakes import FailedError

TRIES = 5
"""Status may change between reading and writing; what waits usually does not."""
PAUSE: Mapping[str, Any] = {"spec": {"paused": True}}
RESUME: Mapping[str, Any] = {"spec": {"paused": False}}


def make_request(requested_at: str) -> Mapping[str, Any]:
    """Return the change that requests to re-resolve all sources; the time tells requests apart."""
    return {"metadata": {"annotations": {names.RECONCILE_REQUESTED_AT: requested_at}}}


@dataclass(frozen=True, slots=True)
class Choice:
    """A revision to approve or deny, of a BundleDeployment as it was read."""

    deployment: BundleDeployment
    digest: str

    @property
    def pending(self) -> Pending | None:
        """What status says about the revision; None if it does not wait."""
        pending = self.deployment.status.pending
        return pending if pending and pending.revision == self.digest else None


def send(verb: str, deployments: Deployments, choice: Choice, choose: Callable[[], Choice]) -> Manifest:
    """Write the decision, unless what was shown has changed since; a new status alone changes nothing.

    Args:
        verb: `approve` or `deny`.
        deployments: of the cluster.
        choice: what was shown.
        choose: reads the BundleDeployment again, and returns what would be shown now.

    Raises: FailedError if it has changed; ApiError.
    """
    name = choice.deployment.metadata.name
    for _ in range(TRIES):
        version = choice.deployment.metadata.resource_version
        change = {"metadata": {"resourceVersion": version}, "spec": _decision(verb, choice)}
        try:
            value = deployments.change(name, change)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            if value is None:
                break
            return value
        again = choose()
        if _shown(again) != _shown(choice):
            break
        choice = again
    raise FailedError(f'"{name}" has changed meanwhile; run the command again')


def _shown(choice: Choice) -> tuple[object, ...]:
    metadata = choice.deployment.metadata
    return metadata.uid, metadata.generation, choice.digest, choice.pending


def _decision(verb: str, choice: Choice) -> Mapping[str, Any]:
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


def kept_revisions(status: Status) -> list[str]:
    """Return the digests of the revisions that status says are kept, newest first."""
    named = [*(each.revision for each in status.history), status.revision, status.installed_revision]
    pending = [status.pending.revision] if status.pending else []
    return [digest for digest in dict.fromkeys([*named, *pending]) if digest]


def find_kept(status: Status, text: str) -> str:
    """Return the digest of the one kept revision that begins so, with or without `sha256:`; empty if there is none."""
    beginning = text.removeprefix("sha256:")
    found = [each for each in kept_revisions(status) if each.removeprefix("sha256:").startswith(beginning)]
    return found[0] if len(found) == 1 else ""


def find_previous(status: Status) -> str:
    """Return the digest of the last revision before the desired one that was healthy; empty if there is none."""
    return next(
        (each.revision for each in status.history if each.outcome == "Healthy" and each.revision != status.revision), ""
    )


def pin(deployments: Deployments, deployment: BundleDeployment, digest: str | None) -> Manifest:
    """Set the field, or remove it, unless the BundleDeployment has changed since it was read.

    Raises: FailedError if it has changed, or does not exist; ApiError.
    """
    metadata = deployment.metadata
    change = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"pinnedRevision": digest}}
    try:
        value = deployments.change(metadata.name, change)
    except ApiError as error:
        if error.status == HTTPStatus.CONFLICT:
            raise FailedError(f"{metadata.name}: changed meanwhile; run the command again") from None
        raise
    if value is None:
        raise FailedError(f"{metadata.name}: not found")
    return value
