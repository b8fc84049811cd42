"""One pass as a value: created when the pass starts, and replaced whenever status is written. Pure.

The part that the finder needs is in revisions/state.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from api.v1alpha2.conditions import ConditionType, Reason
from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Owner, is_ours, loses_reference
from controller.kube.resources import GroupVersionKind, read_kinds
from controller.kube.shard import wanted_shard
from controller.observe.records import ObjectKey, Record
from controller.reconcile.state import State
from controller.revisions.accounts.account import Account, account_in
from controller.revisions.state import RevisionContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(RevisionContext):
    """The BundleDeployment of a pass, its remembered state, and what several parts of a pass ask."""

    state: State

    @property
    def owner(self) -> Owner:
        """The owner of its objects."""
        return Owner(self.metadata.name, self.metadata.uid, self.status.shard)

    @property
    def account(self) -> Account | None:
        """The account that its spec names; None: the controller."""
        return account_in(self.spec)

    @property
    def orphan(self) -> bool:
        """Whether its objects have no ownerReference, and are kept when it is deleted."""
        return self.spec.deletion_policy == "Orphan"

    @property
    def recorded_kinds(self) -> list[GroupVersionKind]:
        """The kinds of its objects according to status."""
        return read_kinds(self.status.managed_kinds)

    @property
    def is_installed(self) -> bool:
        """Whether status says that this spec is installed."""
        found = self.status.condition(ConditionType.INSTALLED)
        return found is not None and (found.status, found.observed_generation) == ("True", self.metadata.generation)

    @property
    def is_current(self) -> bool:
        """Whether according to status this spec is installed and nothing is left to do."""
        status = self.status
        is_pinned = bool(self.spec.pinned_revision) or len(status.sources) == len(self.spec.sources)
        settled = (
            bool(is_pinned and status.managed_state and status.installed_revision)
            and status.revision == status.installed_revision
        )
        handled = status.last_handled_reconcile_at == self.requested_at
        work, unpacked = status.condition(ConditionType.RECONCILING), status.condition(ConditionType.UNPACKED)
        # The result is not known yet. If content is not available, what is installed counts meanwhile.
        is_renewed = work and unpacked and (work.reason, unpacked.status) == (Reason.FETCHING, "True")
        return self.is_installed and settled and handled and not (self.spec.paused or status.rollback or is_renewed)

    def own_records(self, observed: Mapping[ObjectKey, Record]) -> list[Record]:
        """Return the records of its own objects: operators copy its labels to their children."""
        owner, orphan = self.owner, self.orphan
        return [
            r for r in observed.values() if is_ours(r, owner, carries_reference=not loses_reference(r, orphan=orphan))
        ]

    def is_same_spec(self, seen: BundleDeployment | None) -> bool:
        """Whether a pass may continue to write: spec and shard have not changed and no deletion has started since.

        Args:
            seen: the BundleDeployment as the watches know it now.
        """
        return (
            seen is not None
            and seen.metadata.uid == self.metadata.uid
            and seen.metadata.generation == self.metadata.generation
            and seen.metadata.deletion_timestamp is None
            and wanted_shard(seen.metadata.labels) == wanted_shard(self.metadata.labels)
        )
