"""The kept revisions of a BundleDeployment: read from the store once while passes work on them.

A large one is in memory only while there is room (large.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.build.request import Request, renew_terms, terms_of
from controller.build.revision import PackedRevision, Revision, Terms, measure
from controller.revisions.accounts.identities import account_to_keep
from controller.revisions.approval import NEW, REPLACED, keeps_account
from controller.revisions.large import LargeRevisions
from controller.revisions.state import RevisionContext
from controller.revisions.storage.store import RevisionStore, unpack_whole


class KeptRevisions:
    """Thread-safe; revisions that were read are in the state of each BundleDeployment."""

    def __init__(self, store: RevisionStore, large: LargeRevisions) -> None:
        self._store, self._large = store, large

    def read(self, context: RevisionContext, digest: str) -> Revision | None:
        """Return a revision from memory or the store; None if it is missing or damaged.

        If another client has deleted or changed its Secrets, and it is in memory or still whole, it is stored again,
        unless the BundleDeployment is being deleted.

        Raises: CrowdedError if it is large and there is no room for it now; ApiError.
        """
        if digest and digest not in context.state.revisions:
            packed = self._store.read_packed(context.name, digest)
            kept = self._unpack(context, packed) if packed else None
            if kept is None:
                return None
            context.state.revisions[digest] = kept
        found = context.state.revisions.get(digest)
        if found and not context.metadata.deletion_timestamp and self._store.is_lost(context.name, digest):
            self._store.restore(context.name, context.state.packed.get(digest, found), context.metadata.uid)
        return found

    def is_lost(self, context: RevisionContext) -> bool:
        """Whether another client has deleted or changed the installed revision; sends no request."""
        return self._store.is_lost(context.name, context.status.installed_revision)

    def find_lost(self, context: RevisionContext) -> frozenset[str]:
        """Return the digests of older revisions that are not stored any more, or damaged; sends no request."""
        status = context.status
        older = {each.revision for each in status.history} - {status.revision, status.installed_revision}
        return frozenset(digest for digest in older if self._store.is_lost(context.name, digest))

    def drop_remnants(self, context: RevisionContext, lost: Iterable[str]) -> None:
        """Delete what another client has left of older revisions, which nobody can apply any more.

        Raises: ApiError.
        """
        for digest in lost:
            if digest not in context.state.revisions and self._store.has_remnant(context.name, digest):
                self._store.drop(context.name, digest)

    def stored(self, context: RevisionContext) -> tuple[str, ...]:
        """Return the digests of the stored revisions that are not retired, newest first.

        Raises: ApiError.
        """
        if context.state.kept is None:
            context.state.kept = tuple(self._store.digests(context.name, context.metadata.uid))
        return context.state.kept

    def named(self, context: RevisionContext) -> tuple[str, ...]:
        """Return the digests in status, the wanted one first, and all of the store if status names none of them.

        A denied revision is named, too: it is not built again to find that out.

        Raises: ApiError.
        """
        status = context.status
        pending = status.pending.revision if status.pending else ""
        digests = (pending, status.revision, status.installed_revision, context.spec.denied_revision)
        named = [each for each in digests if each]
        is_none_stored = all(self._store.is_lost(context.name, each) for each in named)
        return tuple(dict.fromkeys([*named, *(self.stored(context) if is_none_stored else ())]))

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

        Never one that waits for approval: if status names such a one, another client has written that.

        Raises: CrowdedError, ApiError, as `read`.
        """
        status = context.status
        # A revision that is only kept, while paused, has no kinds yet: these are written before the first apply.
        begun = status.revision and status.managed_kinds and not status.managed_state
        last = self.read(context, status.revision if begun else status.installed_revision)
        if last and not last.terms.held:
            return last
        if last is None and (status.revision or status.installed_revision):
            return None
        found = (self.read(context, digest) for digest in self.stored(context))
        return next((each for each in found if each and not each.terms.held), None)

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
            return self._find_before(context, wanted)
        return self.read(context, state.before[wanted])

    def _find_before(self, context: RevisionContext, wanted: str) -> Revision | None:
        """Return the newest other stored revision, unless it waits for approval and was never applied."""
        context.state.before[wanted] = ""
        for digest in self.stored(context):
            found = self.read(context, digest) if digest != wanted else None
            if digest != wanted and not (found and found.terms.held == NEW):
                context.state.before[wanted] = digest
                return found
        return None

    def revise(self, context: RevisionContext, request: Request, kept: Revision) -> Revision:
        """Return a revision with the terms of the current spec, and keep them first if they have changed.

        Objects and digest remain: account, drift rules and optional kinds make no new revision (rule 2).

        Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
        """
        terms = terms_of(request, kept.terms.install_namespace, kept.terms.rendered_from)
        account = account_to_keep(context.deployment, kept.terms)
        terms = replace(terms, left=kept.terms.left, past=kept.terms.past, kinds=kept.terms.kinds)
        terms = replace(terms, account=account, held=kept.terms.held)
        if keeps_account(context.spec, kept.terms):
            terms = _with_account_of(terms, kept.terms)
        return self._write_terms(context, kept, terms)

    def recall(self, context: RevisionContext, digest: str) -> Revision | None:
        """Return a revision that was applied once, with the terms of the current spec; None if it is not kept.

        From then on it counts as one that may have objects on the cluster.

        Raises: BundleError (TooLarge, QuotaExceeded) if its terms cannot be kept; CrowdedError, ApiError.
        """
        name, uid = context.name, context.metadata.uid
        kept = self.read(context, digest) if self._store.has(name, digest, uid) else None
        if kept is None:
            return None
        if self._store.is_retired(name, digest):
            self._store.recall(name, digest)
            context.state.kept = None
        terms = replace(renew_terms(context.spec, kept.terms), account=account_to_keep(context.deployment, kept.terms))
        if keeps_account(context.spec, kept.terms):
            terms = _with_account_of(terms, kept.terms)
        return self._write_terms(context, kept, terms)

    def hold(self, context: RevisionContext, kept: Revision, why: str) -> Revision:
        """Record that a revision must not be applied until it is admitted, or with `why` empty that it may be.

        Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
        """
        return self._write_terms(context, kept, replace(kept.terms, held=why))

    def admit(self, context: RevisionContext, kept: Revision) -> Revision:
        """Record that a revision may be applied, as the account that the spec names.

        Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
        """
        account = account_to_keep(context.deployment, kept.terms)
        name = context.spec.service_account_name
        return self._write_terms(
            context, kept, replace(kept.terms, held="", service_account_name=name, account=account)
        )

    def retire_others(self, context: RevisionContext, applied: str) -> None:
        """Record that no other revision may be applied without approval, once one was begun to be applied.

        Raises: BundleError (TooLarge, QuotaExceeded), CrowdedError, ApiError.
        """
        for digest in self.stored(context):
            other = self.read(context, digest) if digest != applied else None
            if other and not other.terms.held:
                self.hold(context, other, REPLACED)

    def _write_terms(self, context: RevisionContext, kept: Revision, terms: Terms) -> Revision:
        if terms == kept.terms:
            return kept
        revised = replace(kept, terms=terms)
        self._store.write(context.name, revised, context.metadata.uid)
        context.state.learn(revised)
        if packed := context.state.packed.get(kept.digest):
            context.state.packed[kept.digest] = replace(packed, terms=terms)
        return revised

    def write(self, context: RevisionContext, made: Revision | PackedRevision) -> Revision | PackedRevision:
        """Keep a new revision. If one with the same objects is kept already, its account and leftovers remain.

        Where revisions may have to wait, it does until it is admitted, and replaces those that were waiting.

        Returns: the revision with these terms.
        Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
        """
        status, is_held = context.status, context.spec.may_hold_revisions
        is_midway = status.managed_kinds and not status.managed_state  # it may be one of several kept revisions
        same: Revision | PackedRevision | None = context.state.revisions.get(made.digest)
        if same is None and (is_midway or is_held):
            same = self._store.read_packed(context.name, made.digest)
        account = account_to_keep(context.deployment, same.terms if same else None)
        terms = replace(made.terms, account=account)
        if same:
            terms = replace(terms, left=same.terms.left, past=same.terms.past)
        if same or is_held:
            terms = replace(terms, held=same.terms.held if same else NEW)
        if same and keeps_account(context.spec, same.terms):
            terms = _with_account_of(terms, same.terms)
        made = replace(made, terms=terms)
        is_named = made.digest in (status.revision, status.installed_revision)
        is_known = is_named or self._store.has(context.name, made.digest, context.metadata.uid)
        self._store.write(context.name, made, context.metadata.uid)
        if not is_known:
            context.state.unapplied.add(made.digest)
        if is_held:
            self._drop_proposals(context, made.digest)
        return made

    def drop_replaced(self, context: RevisionContext, wanted: str) -> None:
        """Delete the revisions that the wanted one replaces before they were applied, as while its spec is paused.

        Raises: ApiError.
        """
        for digest in context.state.unapplied - {wanted}:
            self._drop(context, digest)

    def _drop_proposals(self, context: RevisionContext, proposed: str) -> None:
        """Delete the revisions that waited before this one: nothing else would before an installation."""
        needed = {proposed, context.status.revision, context.status.installed_revision}
        for digest in self._store.digests(context.name, context.metadata.uid):
            packed = None if digest in needed else self._store.read_packed(context.name, digest)
            if packed and packed.terms.held == NEW:
                self._drop(context, digest)
        context.state.kept = None

    def _drop(self, context: RevisionContext, digest: str) -> None:
        self._store.drop(context.name, digest)
        context.state.forget(digest)

    def learn(self, context: RevisionContext, made: Revision | PackedRevision) -> Revision | None:
        """Return a revision that was written, unpacked, and remember it.

        Raises: CrowdedError, ApiError, as `read`.
        """
        if isinstance(made, PackedRevision):
            context.state.dropped.add(made.digest)  # in case there is no room for it now
            return self.read(context, made.digest)
        context.state.learn(made)
        return made


def _with_account_of(terms: Terms, kept: Terms) -> Terms:
    return replace(terms, service_account_name=kept.service_account_name, account=kept.account)
