"""The BundleDeployment that a plan is for, and the rules of one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.policies import CrdUpgradeSafety
from controller.apply.drift.ledger import Ledger
from controller.apply.ownership import NO_HAND_OVER, Exists, HandOver, Owner
from controller.apply.possession import RevisionObject
from controller.apply.targets import Target, TargetSet
from controller.kube.client import User
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey


class OvertakenError(Exception):
    """The BundleDeployment is not any more what a pass knows: the pass ends and writes nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """One BundleDeployment in one pass."""

    owner: Owner
    user: User | None
    """The account that reads and writes objects; None: the controller."""
    orphan: bool
    """Whether the deletionPolicy is Orphan: no object carries an ownerReference."""
    collision_protection: str
    install_namespace: str
    spec_version: str
    """Generation and reconcile-requested-at: a new one retries every failure immediately."""
    wanted: TargetSet
    older: Mapping[ObjectKey, RevisionObject] = field(default_factory=dict)
    """Objects that only older revisions name, and that may still exist."""
    withdrawn: Collection[GroupVersionKind] = ()
    """Kinds of the revision whose CustomResourceDefinition serves other versions only."""
    dropped_replicas: Mapping[ObjectKey, ObjectKey | None] = field(default_factory=dict)
    """Objects whose spec.replicas the revision before has set; see `find_dropped_replicas`."""
    left_behind: Mapping[ObjectKey, tuple[str, ...]] = field(default_factory=dict)
    """By object, the fields that the API server would keep; see `find_left_behind`."""
    warnings: tuple[str, ...] = ()
    """About the revision, for status."""
    conceals: bool = False
    """Whether values of Secrets were rendered, so that no text of an object may be shown with a refusal."""
    repairs: bool = True
    """Whether drift is repaired, and not only reported (spec.drift.mode)."""
    installed: bool
    """Whether the wanted revision is already installed in full."""
    started: Collection[str] = ()
    """Of the Jobs with a TTL that have been created, as `Target.started_as` says."""
    ledger: Ledger
    """How the last apply left the objects."""
    exists: Exists
    hand_over: HandOver = NO_HAND_OVER
    crd_upgrade_safety: CrdUpgradeSafety = field(default_factory=CrdUpgradeSafety)
    proceed: Callable[[], bool]
    """False once the BundleDeployment is paused, deleted or changed: then nothing more is sent."""
    confirm: Callable[[], None] = lambda: None
    """Called before objects are created or deleted; raises OvertakenError if the API server has another spec or
    revision now, whatever the watches say, and ApiError if it does not answer."""
    gate: Callable[[], BundleError | None] = lambda: None
    """Called once, after Namespaces, CustomResourceDefinitions and classes; returns why all other objects wait."""

    def is_started(self, target: Target) -> bool:
        """Whether an object has been created as it is, although it may be gone."""
        return self.installed or target.started_as in self.started

    def attempt(self, target: Target, seen: str) -> str:
        """Return the fingerprint under which a failure to apply an object in a state is remembered."""
        return f"{target.digest} {self.spec_version} {seen}"
