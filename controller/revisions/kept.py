"""The kept revisions of a BundleDeployment: read from the store once while passes work on them.

A large one is in memory only while there is room (large.py).
"""

from __future__ import annotations

from dataclasses import replace

from controller.build.request import Request, terms_of
from controller.build.revision import PackedRevision, Revision, measure
from controller.revisions.identities import account_to_keep
from controller.revisions.large import LargeRevisions
from controller.revisions.state import RevisionContext
from controller.revisions.store import RevisionStore, unpack_whole


class KeptRevisions:
    """Thread-safe; revisions that were read are in the state of each BundleDeployment."""

    def __init__(self, store: RevisionStore, large: LargeRevisions) -> None:
        self._store, self._large = store, large

    def read(self, context: RevisionContext, digest: str) -> Revision | None:
        """Return a revision from the store; None if it is missing or damaged.

        Raises: CrowdedError if it is large and there is no room for it now; ApiError.
        """
        if digest and digest not in context.state.revisions:
            packed = self._store.read_packed(context.name, digest)
            kept = self._unpack(context, packed) if packed else None
            if kept is None:
                return None
            context.state.revisions[digest] = kept
        return context.state.revisions.get(digest)

    def _unpack(self, context: RevisionContext, packed: PackedRevision) -> Revision | None:
        try:
            size = measure(packed.objects)
        except ValueError:
            return None
        if self._large.enter(context.name, context.share, size):
            context.state.packed[packed.digest] = packed
        return unpack_whole(packed)

    def last_good(self, context: RevisionContext) -> Revision | None:
        """Return the revision that was applied last: from its first write on the one in `status.revision` (rule 6).

        Raises: CrowdedError, ApiError, as `read`.
        """
        status = context.status
        # A revision that is only kept, while paused, has no kinds yet: these are written before the first apply.
        begun = status.revision and status.managed_kinds and not status.managed_state
        return self.read(context, status.revision if begun else status.installed_revision)

    def revision_before(self, context: RevisionContext, wanted: str) -> Revision | None:
        """Return the previous revision, whose objects may still exist alongside those of the wanted one (rule 6).

        Raises: CrowdedError, ApiError, as `read`.
        """
        state, status = context.state, context.status
        if status.installed_revision != wanted:
            state.before[wanted] = status.installed_revision
        elif status.managed_state:
            return None
        elif wanted not in state.before:  # since a restart
            state.kept = tuple(self._store.digests(context.name)) if state.kept is None else state.kept
            state.before[wanted] = next((each for each in state.kept if each != wanted), "")
        return self.read(context, state.before[wanted])

    def revise(self, context: RevisionContext, request: Request, kept: Revision) -> Revision:
        """Return a revision with the terms of the current spec, and keep them first if they have changed.

        Objects and digest remain: account, drift rules and optional kinds make no new revision (rule 2).

        Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
        """
        terms = terms_of(request, kept.terms.install_namespace, kept.terms.rendered_from)
        account = account_to_keep(context.deployment, kept.terms)
        terms = replace(terms, left=kept.terms.left, kinds=kept.terms.kinds, account=account)
        if terms == kept.terms:
            return kept
        revised = replace(kept, terms=terms)
        self._store.write(request.name, revised, context.metadata.uid)
        context.state.learn(revised)
        return revised

    def write(self, context: RevisionContext, made: Revision | PackedRevision) -> Revision | PackedRevision:
        """Keep a new revision. If one with the same objects is kept already, its account and leftovers remain.

        Returns: the revision with these terms.
        Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
        """
        status = context.status
        is_midway = status.managed_kinds and not status.managed_state  # it may be one of several kept revisions
        same: Revision | PackedRevision | None = context.state.revisions.get(made.digest)
        if same is None and is_midway:
            same = self._store.read_packed(context.name, made.digest)
        account = account_to_keep(context.deployment, same.terms if same else None)
        made = replace(made, terms=replace(made.terms, account=account, left=same.terms.left if same else ()))
        self._store.write(context.name, made, context.metadata.uid)
        return made

    def learn(self, context: RevisionContext, made: Revision | PackedRevision) -> Revision | None:
        """Return a revision that was written, unpacked, and remember it.

        Raises: CrowdedError, ApiError, as `read`.
        """
        if isinstance(made, PackedRevision):
            context.state.dropped.add(made.digest)  # in case there is no room for it now
            return self.read(context, made.digest)
        context.state.learn(made)
        return made
