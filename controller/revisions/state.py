"""What the finder remembers of a BundleDeployment between passes, and may lose at any moment: revisions and sources.

Not here: what the rest of a pass remembers (reconcile/state.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from controller.apply.targets import TargetSet
from controller.build.pins import Sources
from controller.build.revision import PackedRevision, Revision
from controller.revisions.polling import PollMemory
from controller.revisions.source_access import Attempt


@dataclass(slots=True, kw_only=True)
class RevisionState:
    """Used by one pass at a time."""

    revisions: dict[str, Revision] = field(default_factory=dict)
    """By digest, while they are being worked on."""
    packed: dict[str, PackedRevision] = field(default_factory=dict)
    """Of those the large ones, as they are kept: they are dropped when a pass ends."""
    dropped: set[str] = field(default_factory=set)
    """The digests of those that were dropped, and are to be read again."""
    share: str = ""
    """See `accounts.tenant_of`."""
    before: dict[str, str] = field(default_factory=dict)
    """The revision that was installed before another was, while its objects may be left; empty: none."""
    kept: tuple[str, ...] | None = None
    """Digests of the revisions that the store held when it was asked, or was known to hold; None: not known."""
    targets: dict[tuple[str, str], TargetSet] = field(default_factory=dict)
    """By revision and what of the spec they depend on, while they are being worked on."""
    poll: PollMemory = field(default_factory=PollMemory)
    attempt: Attempt = field(default_factory=Attempt)
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
