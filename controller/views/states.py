"""What a BundleDeployment is doing, as people call it, and in which color words about that are. Pure."""

from __future__ import annotations

from enum import Enum

from rukpak.api.v1alpha2.conditions import DECISIONS, Reason, Retry
from rukpak.api.v1alpha2.status import NotReady, Stray
from rukpak.api.v1alpha2.types import BundleDeployment, Verified
from rukpak.controller.views.texts import Color

WAITING = frozenset({each.value for each in Reason if each.retry is Retry.WAIT} | {each.value for each in DECISIONS})
"""Reasons of what waits for something else in the cluster, or for a decision."""
_FAILED = (Reason.FAILED, Reason.PROGRESS_DEADLINE_EXCEEDED)
STALLING = frozenset(each.value for each in Reason if each.retry.stalls or each in _FAILED)
"""Reasons for which a person must act on an object."""
_COLORS = {
    "healthy": Color.GREEN,
    "ready": Color.GREEN,
    "progressing": Color.YELLOW,
    "terminating": Color.YELLOW,
    "missing": Color.YELLOW,
    "waiting": Color.YELLOW,
    "failed": Color.RED,
    "stalled": Color.RED,
}
"""Colors of the states of objects and BundleDeployments."""


class DeploymentState(Enum):
    """What a BundleDeployment is doing, as people call it; the worst first."""

    STALLED = "stalled"
    """A person must act."""
    PROGRESSING = "progressing"
    WAITING = "waiting"
    """For something else in the cluster, or for a decision."""
    PAUSED = "paused"
    READY = "Ready"

    @property
    def color(self) -> Color:
        """Color of words that tell it."""
        return color_of(self.value.lower())


def color_of(state: str) -> Color:
    """Return the color of words that tell the state of an object or a BundleDeployment."""
    return _COLORS.get(state, Color.NONE)


def state_of(deployment: BundleDeployment) -> DeploymentState:
    """Return the state of a BundleDeployment, which is progressing until the controller has observed its spec."""
    ready = deployment.status.condition("Ready")
    if deployment.problem:
        return DeploymentState.STALLED
    if ready is None or describe_unobserved(deployment):
        return DeploymentState.PROGRESSING
    if deployment.status.condition("Stalled"):
        return DeploymentState.STALLED
    if deployment.spec.paused:
        return DeploymentState.PAUSED
    if ready.status == "True":
        return DeploymentState.READY
    return DeploymentState.WAITING if ready.reason in WAITING else DeploymentState.PROGRESSING


def describe_unobserved(deployment: BundleDeployment) -> str:
    """Return what the controller has not observed yet, so that conditions are about what was before; empty: nothing."""
    if deployment.status.observed_generation == deployment.metadata.generation:
        return ""
    since = deployment.metadata.deletion_timestamp
    what = f"being deleted since {since:%Y-%m-%dT%H:%M:%SZ}, " if since else ""
    if not deployment.status.conditions:
        return f"{what}not yet observed by the controller"
    return f"{what}generation {deployment.metadata.generation} not yet observed by the controller"


def name_of_reported(each: NotReady | Stray) -> str:
    """Return the name of an object in status, such as `ConfigMap shop/settings`."""
    return f"{each.kind} {f'{each.namespace}/' if each.namespace else ''}{each.name}"


def describe_signer(verified: Verified) -> str:
    """Return who has signed the content of a source, and how."""
    who = verified.identity or verified.key
    more = f", key {verified.key}" if verified.identity and verified.key else ""
    issuer = f", issuer {verified.issuer}" if verified.issuer else ""
    return f"signed by {who} ({verified.by}{more}{issuer})"
