"""One pass as a value: the BundleDeployment, what is remembered of it, and the services that passes use.

It is created when the pass starts, and replaced whenever status is written. Steps are functions that take it. Not here:
what is remembered (memory.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Lookup
from rukpak.api.v1alpha2.conditions import ConditionType, Reason
from rukpak.api.v1alpha2.types import BundleDeployment, ObjectMeta, Spec, Status
from rukpak.controller.apply.execute import Applier
from rukpak.controller.apply.hooks import HookRunner
from rukpak.controller.apply.ownership import Owner, has_all_marks
from rukpak.controller.apply.removal import Remover
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.config_values import needs_objects
from rukpak.controller.building.request import Found, are_checked
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.events import Note
from rukpak.controller.kube.resources import GroupVersionKind, read_kinds, shard_of
from rukpak.controller.observe.explanations import Explainer
from rukpak.controller.observe.following import ObjectFollower
from rukpak.controller.observe.records import Record
from rukpak.controller.observe.watches import Watches
from rukpak.controller.reconcile.memory import InstalledTargetsCache, Memory
from rukpak.controller.revisions.accounts import Account, Accounts, Seen, account_in
from rukpak.controller.revisions.background import BackgroundWork
from rukpak.controller.revisions.polling import Poller
from rukpak.controller.revisions.references import KnownConfig
from rukpak.controller.revisions.source_access import SourceAccess
from rukpak.controller.revisions.store import LargeRevisions, RevisionStore
from rukpak.controller.sharing import share_of
from rukpak.controller.sources.demands import SignaturePolicy
from rukpak.controller.status.report import Deletion, Report
from rukpak.controller.status.summary import summarize
from rukpak.controller.status.writer import StatusWriter
from rukpak.controller.telemetry import DEAF, InternalError, Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What passes use. Thread-safe."""

    # what is known, and what is stored
    watches: Watches
    discovery: Discovery
    revisions: RevisionStore
    large: LargeRevisions
    accounts: Accounts
    signatures: SignaturePolicy = field(default_factory=SignaturePolicy)
    follower: ObjectFollower
    """Watches what BundleDeployments wait for besides their own objects."""
    find_waiting: Callable[[BundleDeployment, Seen], list[str]]
    """See `references.find_waiting`."""
    writer: StatusWriter
    now: Callable[[], datetime]

    # what resolves sources, and fetches and renders content
    builder: Builder
    background: BackgroundWork
    access: SourceAccess
    read_config: Callable[[BundleDeployment, Account | None, Seen], KnownConfig]
    """See `references.read_config`."""
    poller: Poller
    look_up: Callable[[BundleDeployment, Lookup], Found] | None = None
    """Reads what the bundle of a BundleDeployment looks up; None: nothing is looked up."""

    # what acts on the objects of a revision, and explains them
    applier: Applier
    remover: Remover
    hook_runner: HookRunner
    explainer: Explainer
    installed: InstalledTargetsCache = field(default_factory=InstalledTargetsCache)
    observer: Observer = DEAF
    """Gets durations of applying and pruning, and counts of drift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """When the next pass over a BundleDeployment runs if no event triggers one before."""

    after: float | None = None
    """Seconds; None: only an event triggers the next pass."""
    failed: bool = False
    """The pass was aborted: requeue with backoff, after `after` at the earliest."""
    cause: str = field(default="", compare=False)
    """Why, for the log."""


NEVER = Requeue()
UNKNOWN_SECONDS = 30.0
"""Until the next pass while a kind is not listed yet: its first list triggers a pass sooner, and so does a change that
may make the cluster serve it."""
UNLISTED = Requeue(after=UNKNOWN_SECONDS, cause="a kind is not listed yet")
UNSYNCED = Requeue(after=UNKNOWN_SECONDS, cause="BundleDeployments are not listed yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The BundleDeployment of a pass, what is remembered of it, and what several steps of a pass ask."""

    deployment: BundleDeployment
    """Completed with its default account and the signatures that are demanded; replaced when status is written."""
    memory: Memory
    services: Services

    def now(self) -> datetime:
        """Return the time of day."""
        return self.services.now()

    @property
    def metadata(self) -> ObjectMeta:
        """Metadata of the BundleDeployment."""
        return self.deployment.metadata

    @property
    def name(self) -> str:
        """Name of the BundleDeployment."""
        return self.deployment.metadata.name

    @property
    def spec(self) -> Spec:
        """Spec of the BundleDeployment."""
        return self.deployment.spec

    @property
    def status(self) -> Status:
        """Status of the BundleDeployment, as this pass knows it."""
        return self.deployment.status

    @property
    def share(self) -> str:
        """The share that pays for what it uses (sharing.py)."""
        return share_of(self.deployment)

    @property
    def requested_at(self) -> str:
        """The annotation that requests re-resolved sources; removing it requests nothing."""
        handled = self.status.last_handled_reconcile_at
        return self.metadata.annotations.get(names.RECONCILE_REQUESTED_AT) or handled

    @property
    def is_config_known(self) -> bool:
        """Whether what `spec.configFrom` refers to was read for this spec, and has not changed since."""
        known = self.memory.sources.config
        return not needs_objects(self.spec) or (known is not None and known.version == self.config_version)

    @property
    def config_version(self) -> str:
        """Identifies the spec, and what its `configFrom` refers to as far as changes are known."""
        return f"{self.spec_version} {self.memory.sources.config_changes}"

    @property
    def spec_version(self) -> str:
        """Generation and annotation: when either changes, every failure is retried immediately."""
        return f"{self.deployment.metadata.generation} {self.requested_at}"

    def report(self, result: Report | Deletion | InternalError) -> Self:
        """Write to status what the pass has achieved, if that changes it; returns the context with it.

        Args:
            result: all of it at the end of a pass; before the first apply, what must survive a kill.

        Raises: ApiError.
        """
        return self._write(summarize(self.deployment, result, self.now()))

    def note(self, **fields: object) -> Self:
        """Write fields of status that must be there before they count; returns the context with them.

        Args:
            fields: of the model of status (rule 10: the account).

        Raises: ApiError.
        """
        return self._write(self.status.model_copy(update=fields))

    def _write(self, status: Status) -> Self:
        written = self.services.writer.write_status(self.deployment, status)
        return replace(self, deployment=written)

    def note_failure(self, key: Hashable, fingerprint: str, error: BundleError) -> bool:
        """Record a failed attempt, see `Retries.failed`; returns whether the last one had not failed like this."""
        last = self.memory.retries.last(key, fingerprint)
        self.memory.retries.failed(key, fingerprint, error)
        return last is None or last.message != error.message

    def about(self, error: BundleError) -> dict[str, str]:
        """Return what a log record says about a failure."""
        return {"BundleDeployment": self.name, "reason": error.reason.value, "problem": error.message}

    def record(self, notes: Iterable[Note]) -> None:
        """Queue Events about the BundleDeployment."""
        self.services.writer.record_events(self.deployment, notes)

    @property
    def owner(self) -> Owner:
        """The owner of its objects."""
        return Owner(self.metadata.name, self.metadata.uid, orphan=self.spec.deletion_policy == "Orphan")

    @property
    def account(self) -> Account | None:
        """The account that its spec names; None: the controller."""
        return account_in(self.spec)

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
        is_pinned = bool(self.spec.pinned_revision) or are_checked(self.spec, status.sources)
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
        owner = self.owner
        return [record for record in observed.values() if has_all_marks(record, owner)]

    def may_proceed(self) -> bool:
        """Whether the pass may continue to write, as far as the watches know."""
        deployments = self.services.watches.deployments
        return deployments.synced and self.is_same_spec(deployments.outline(self.name))

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
            and shard_of(seen.metadata.labels) == shard_of(self.metadata.labels)
        )
