"""What the finder remembers of a BundleDeployment between passes: revisions and sources. It may be lost at any time.

Not here: what the other parts of a pass remember (reconcile/state.py).
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
from controller.revisions.inputs.config_objects import KnownConfig
from controller.revisions.polling import PollState
from controller.revisions.source_access import SourceProgress
from controller.sharing.shares import share_of


@dataclass(slots=True, kw_only=True)
class RevisionState:
    """Used by one pass at a time."""

    revisions: dict[str, Revision] = field(default_factory=dict)
    """By digest, while passes work on them."""
    packed: dict[str, PackedRevision] = field(default_factory=dict)
    """The large ones of these, compressed: both are dropped when a pass ends."""
    dropped: set[str] = field(default_factory=set)
    """The digests of those that were dropped, to be read again."""
    before: dict[str, str] = field(default_factory=dict)
    """The previous digest of a digest, while its objects may be left; empty: none."""
    kept: tuple[str, ...] | None = None
    """Digests of the kept revisions; None: not known."""
    unapplied: set[str] = field(default_factory=set)
    """Digests of the revisions that were stored and that no pass has begun to apply since."""
    targets: dict[tuple[str, str], TargetSet] = field(default_factory=dict)
    """By digest and the parts of the spec that they depend on."""
    poll: PollState = field(default_factory=PollState)
    source_progress: SourceProgress = field(default_factory=SourceProgress)
    """Of the sources that are being resolved or fetched."""
    resolved: tuple[str, Sources] | None = None
    """The version of the spec and its resolved sources, until status records them."""

    config: KnownConfig | None = None
    """What `spec.configFrom` refers to, as it was read last."""
    config_changes: int = 0
    """How often one of its objects has changed; set by watches."""

    def learn(self, revision: Revision) -> None:
        """Remember a new revision, or new terms of one: targets depend on both."""
        self.revisions[revision.digest] = revision
        self._drop_targets({revision.digest})

    def forget(self, digest: str) -> None:
        """Drop a revision that is not stored any more."""
        self.unapplied.discard(digest)
        self.dropped.discard(digest)
        self.packed.pop(digest, None)
        self.revisions.pop(digest, None)
        self._drop_targets({digest})
        self.kept = None

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the revisions that passes work on."""
        return (*self.revisions, *sorted(self.dropped - self.revisions.keys()))

    def drop_large(self) -> None:
        """Drop large revisions until the next pass, which reads them again."""
        self.dropped |= self.packed.keys() & self.revisions.keys()
        self.revisions = {digest: each for digest, each in self.revisions.items() if digest not in self.packed}
        self._drop_targets(self.packed)
        self.packed.clear()

    def rest(self, working_on: Collection[str] = ()) -> None:
        """Drop what only a pass with work to do needs, to save memory.

        Args:
            working_on: digests of the revisions that every pass needs until the wanted one is installed.
        """
        self.resolved = self.kept = None
        self.config = self.config.rest() if self.config else None
        self.before.clear()
        self.revisions = {digest: each for digest, each in self.revisions.items() if digest in working_on}
        self.dropped &= set(working_on)
        self.targets = {key: each for key, each in self.targets.items() if key[0] in working_on}

    def _drop_targets(self, digests: Collection[str]) -> None:
        self.targets = {key: each for key, each in self.targets.items() if key[0] not in digests}


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionContext:
    """The BundleDeployment of a pass as it is known now, and what is remembered of it."""

    deployment: BundleDeployment
    """Completed with its default account; replaced when the pass has written status."""
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
        """The share that pays for what it uses (sharing/shares.py)."""
        return share_of(self.deployment)

    @property
    def requested_at(self) -> str:
        """The annotation that requests re-resolved sources; see `requested_at`."""
        return requested_at(self.deployment)

    @property
    def is_config_known(self) -> bool:
        """Whether what `spec.configFrom` refers to was read for this spec, and has not changed since."""
        known = self.state.config
        return not self.spec.config_from or (known is not None and known.version == self.config_version)

    @property
    def config_version(self) -> str:
        """Identifies the spec, and what its `configFrom` refers to as far as changes are known."""
        return f"{self.spec_version} {self.state.config_changes}"

    @property
    def spec_version(self) -> str:
        """Generation and annotation: when either changes, every failure is retried immediately."""
        return f"{self.deployment.metadata.generation} {self.requested_at}"


def requested_at(deployment: BundleDeployment) -> str:
    """Return the annotation that requests re-resolved sources; removing it requests nothing."""
    handled = deployment.status.last_handled_reconcile_at
    return deployment.metadata.annotations.get(names.RECONCILE_REQUESTED_AT) or handled
