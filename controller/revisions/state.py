"""What the finder remembers of a BundleDeployment between passes, and may lose at any moment: revisions and sources.

Not here: what the rest of a pass remembers (reconcile/state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime

from api import names
from api.v1alpha2.types import BundleDeployment, ObjectMeta, Spec, Status
from controller.apply.targets import TargetSet
from controller.build.pins import Sources
from controller.build.revision import PackedRevision, Revision
from controller.revisions.polling import PollState
from controller.revisions.source_access import SourceProgress
from controller.sharing.shares import share_of


@dataclass(slots=True, kw_only=True)
class RevisionState:
    """Used by one pass at a time."""

    revisions: dict[str, Revision] = field(default_factory=dict)
    """By digest, while they are being worked on."""
    packed: dict[str, PackedRevision] = field(default_factory=dict)
    """Of those the large ones, as they are kept: they are dropped when a pass ends."""
    dropped: set[str] = field(default_factory=set)
    """The digests of those that were dropped, and are to be read again."""
    before: dict[str, str] = field(default_factory=dict)
    """The revision that was installed before another was, while its objects may be left; empty: none."""
    kept: tuple[str, ...] | None = None
    """Digests of the revisions that the store held when it was asked, or was known to hold; None: not known."""
    targets: dict[tuple[str, str], TargetSet] = field(default_factory=dict)
    """By revision and what of the spec they depend on, while they are being worked on."""
    poll: PollState = field(default_factory=PollState)
    source_progress: SourceProgress = field(default_factory=SourceProgress)
    """What is known of the sources that are being resolved or fetched."""
    resolved: tuple[str, Sources] | None = None
    """What the sources were last resolved to, and what for, until status has it."""

    def learn(self, revision: Revision) -> None:
        """Take over a revision that was made, or of which the terms have changed: its targets depend on both."""
        self.revisions[revision.digest] = revision
        self.targets = {key: each for key, each in self.targets.items() if key[0] != revision.digest}

    @property
    def digests(self) -> tuple[str, ...]:
        """The revisions that are being worked on."""
        return (*self.revisions, *sorted(self.dropped - self.revisions.keys()))

    def drop_large(self) -> None:
        """Drop what would take too much memory until the next pass, which reads it again."""
        self.dropped |= self.packed.keys() & self.revisions.keys()
        self.revisions = {digest: each for digest, each in self.revisions.items() if digest not in self.packed}
        self.targets = {key: each for key, each in self.targets.items() if key[0] not in self.packed}
        self.packed.clear()

    def rest(self, working_on: Collection[str] = ()) -> None:
        """Drop what only a pass with work to do needs: memory must not grow with objects that nobody works on.

        Args:
            working_on: digests of the revisions that every pass needs while the wanted one is not installed.
        """
        self.resolved = self.kept = None
        self.before.clear()
        self.revisions = {digest: each for digest, each in self.revisions.items() if digest in working_on}
        self.dropped &= set(working_on)
        self.targets = {key: each for key, each in self.targets.items() if key[0] in working_on}


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionContext:
    """What a pass hands on: its BundleDeployment as it is known now, and what is remembered of it."""

    deployment: BundleDeployment
    """Completed with the account that counts; replaced where the pass has written status."""
    state: RevisionState
    now: Callable[[], datetime]
    """The time of day."""

    @property
    def metadata(self) -> ObjectMeta:
        """Of the BundleDeployment."""
        return self.deployment.metadata

    @property
    def name(self) -> str:
        """Of the BundleDeployment."""
        return self.deployment.metadata.name

    @property
    def spec(self) -> Spec:
        """Of the BundleDeployment."""
        return self.deployment.spec

    @property
    def status(self) -> Status:
        """Of the BundleDeployment, as this pass knows it."""
        return self.deployment.status

    @property
    def share(self) -> str:
        """Whose share of what is limited it takes; see sharing/shares.py."""
        return share_of(self.deployment)

    @property
    def requested_at(self) -> str:
        """The annotation that asks for a new resolution; to take it off asks for nothing."""
        return requested_at(self.deployment)

    @property
    def spec_version(self) -> str:
        """What the spec asks for: with another generation or annotation all that failed is tried again at once."""
        return f"{self.deployment.metadata.generation} {self.requested_at}"


def requested_at(deployment: BundleDeployment) -> str:
    """Return the value of the annotation that asks for everything anew; to take it off asks for nothing."""
    obeyed = deployment.status.last_handled_reconcile_at
    return deployment.metadata.annotations.get(names.RECONCILE_REQUESTED_AT) or obeyed
