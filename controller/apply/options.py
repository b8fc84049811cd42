"""For whom, and under which rules, a plan is made and carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from api.errors import BundleError
from api.v1alpha2.policies import CrdUpgradeSafety
from controller.apply.drift.ledger import Ledger
from controller.apply.ownership import Exists, Owner
from controller.apply.possession import Named
from controller.apply.targets import Target, TargetSet
from controller.kube.client import User
from controller.observe.records import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """One BundleDeployment in one pass."""

    owner: Owner
    user: User | None
    """As whom objects are read and written; None: as the controller."""
    orphan: bool
    """The deletionPolicy is Orphan: nothing carries an ownerReference."""
    collision_protection: str
    install_namespace: str
    wish: str
    """Generation and annotation: another one lets everything that failed be tried again at once."""
    wanted: TargetSet
    older: Mapping[ObjectKey, Named] = field(default_factory=dict)
    """Objects that only older revisions name, and that may be left."""
    warnings: tuple[str, ...] = ()
    """About what the revision does, for status."""
    repairs: bool = True
    """Whether drift is put right, as spec.drift.mode says, and not only told."""
    installed: bool
    """The wanted revision is installed in full already."""
    ledger: Ledger
    """How the objects were left."""
    exists: Exists
    crd_upgrade_safety: CrdUpgradeSafety = field(default_factory=CrdUpgradeSafety)
    proceed: Callable[[], bool]
    """False as soon as the BundleDeployment is paused, deleted or changed: then nothing more is sent."""
    gate: Callable[[], BundleError | None] = lambda: None
    """Asked once, before anything but Namespaces, CustomResourceDefinitions and classes is sent: why that waits."""

    def attempt(self, target: Target) -> str:
        """Return what is tried with an object: its failures are remembered by that."""
        return f"{target.digest} {self.wish}"
