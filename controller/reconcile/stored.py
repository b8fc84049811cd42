"""The kept revisions of a BundleDeployment: read from the store once while passes work on them.

A large one is in memory only while there is room (revisions/store.py). Not here: what is in the store
(revisions/store.py).
"""

from __future__ import annotations

from dataclasses import replace

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import Source, SourcePin
from rukpak.controller.building.request import (
    Request,
    inputs_digest,
    meets_demand,
    recall_pins,
    record_pins,
    renew_terms,
)
from rukpak.controller.building.revision import PackedRevision, Revision, Terms, measure
from rukpak.controller.content.limits import quote
from rukpak.controller.reconcile.context import Context
from rukpak.controller.revisions.accounts import account_to_keep
from rukpak.controller.revisions.approval import NEW, REPLACED, keeps_account
from rukpak.controller.revisions.store import unpack_whole
from rukpak.controller.sources.demands import OPTION
from rukpak.controller.status.report import list_some, short


def read(context: Context, digest: str) -> Revision | None:
    """Return a revision from memory or the store; None if it is missing or damaged.

    Raises: CrowdedError if it is large and there is no room for it now; ApiError.
    """
    if digest and digest not in context.memory.stored.read:
        packed = context.services.revisions.read_packed(context.name, digest)
        kept = _unpack(context, packed) if packed else None
        if kept is None:
            return None
        context.memory.stored.read[digest] = kept
    return context.memory.stored.read.get(digest)


def restore(context: Context) -> None:
    """Store the revisions again that passes work on and whose Secrets another client has deleted or changed.

    Raises: ApiError.
    """
    for digest, revision in context.memory.stored.read.items():
        if context.services.revisions.is_lost(context.name, digest):
            whole = context.memory.stored.packed.get(digest, revision)
            context.services.revisions.restore(context.name, whole, context.metadata.uid)


def is_lost(context: Context) -> bool:
    """Whether another client has deleted or changed the installed revision; sends no request."""
    return context.services.revisions.is_lost(context.name, context.status.installed_revision)


def drop_lost(context: Context) -> frozenset[str]:
    """Delete what is left of older revisions that are lost or damaged, which nobody can apply; return their digests.

    Sends requests only if something is left.

    Raises: ApiError.
    """
    status, revisions = context.status, context.services.revisions
    older = {each.revision for each in status.history} - {status.revision, status.installed_revision}
    lost = frozenset(digest for digest in older if revisions.is_lost(context.name, digest))
    for digest in lost - context.memory.stored.read.keys():
        if revisions.has_remnant(context.name, digest):
            revisions.drop(context.name, digest)
    return lost


def digests(context: Context) -> tuple[str, ...]:
    """Return the digests of the stored revisions that are not retired, newest first.

    Raises: ApiError.
    """
    if context.memory.stored.kept is None:
        context.memory.stored.kept = tuple(context.services.revisions.digests(context.name, context.metadata.uid))
    return context.memory.stored.kept


def named(context: Context) -> tuple[str, ...]:
    """Return the digests in status, the wanted one first, and all of the store if status names none of them.

    A denied revision is named, too: it is not built again to find that out.

    Raises: ApiError.
    """
    status = context.status
    pending = status.pending.revision if status.pending else ""
    in_status = (pending, status.revision, status.installed_revision, context.spec.denied_revision)
    named = [each for each in in_status if each]
    is_none_stored = all(context.services.revisions.is_lost(context.name, each) for each in named)
    return tuple(dict.fromkeys([*named, *(digests(context) if is_none_stored else ())]))


def _unpack(context: Context, packed: PackedRevision) -> Revision | None:
    try:
        size = measure(packed.objects)
    except ValueError:
        return None
    if context.services.large.enter(context.name, context.share, size):
        context.memory.stored.packed[packed.digest] = packed
    return unpack_whole(packed)


def last_good(context: Context) -> Revision | None:
    """Return the revision that was applied last: from its first write on the one in `status.revision` (rule 6).

    Never one that waits for approval: if status names such a one, another client has written that.

    Raises: CrowdedError, ApiError, as `read`.
    """
    status = context.status
    # A revision that is only kept, while paused, has no kinds yet: these are written before the first apply.
    begun = status.revision and status.managed_kinds and not status.managed_state
    last = read(context, status.revision if begun else status.installed_revision)
    if last and not last.terms.held:
        return last
    if last is None and (status.revision or status.installed_revision):
        return None
    found = (read(context, digest) for digest in digests(context))
    return next((each for each in found if each and not each.terms.held), None)


def revision_before(context: Context, wanted: str) -> Revision | None:
    """Return the previous revision, whose objects may still exist alongside those of the wanted one (rule 6).

    Raises: CrowdedError, ApiError, as `read`.
    """
    memory, status = context.memory, context.status
    if status.installed_revision != wanted:
        memory.stored.before[wanted] = status.installed_revision
    elif status.managed_state:
        return None
    elif wanted not in memory.stored.before:  # since a restart
        return _find_before(context, wanted)
    return read(context, memory.stored.before[wanted])


def _find_before(context: Context, wanted: str) -> Revision | None:
    context.memory.stored.before[wanted] = ""
    for digest in digests(context):
        found = read(context, digest) if digest != wanted else None
        if digest != wanted and not (found and found.terms.held == NEW):
            context.memory.stored.before[wanted] = digest
            return found
    return None


def revise(context: Context, request: Request, kept: Revision) -> Revision:
    """Return a revision with the terms of the current spec, and keep them first if they have changed.

    Objects and digest remain: account, drift rules and optional kinds make no new revision (rule 2).

    Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
    """
    terms = renew_terms(request.spec, kept.terms)
    terms = replace(terms, inputs=inputs_digest(request), pins=record_pins(request.pins))
    return write_terms(context, kept, _with_account(context, terms, kept.terms))


def recall(context: Context, digest: str) -> Revision | None:
    """Return a revision that was applied once, with the terms of the current spec; None if it is not kept.

    From then on it counts as one that may have objects on the cluster.

    Raises: BundleError (VerificationFailed; TooLarge, QuotaExceeded if its terms cannot be kept); CrowdedError,
        ApiError.
    """
    name, uid = context.name, context.metadata.uid
    kept = read(context, digest) if context.services.revisions.has(name, digest, uid) else None
    if kept is None:
        return None
    _refuse_unverified(context, kept)
    if context.services.revisions.is_retired(name, digest):
        context.services.revisions.recall(name, digest)
        context.memory.stored.kept = None
    terms = renew_terms(context.spec, kept.terms)
    return write_terms(context, kept, _with_account(context, terms, kept.terms))


def _refuse_unverified(context: Context, kept: Revision) -> None:
    """Refuse a revision that was made without what the administrator demands by now: no source is asked for it.

    Raises: BundleError (VerificationFailed).
    """
    signatures, pins = context.services.signatures, recall_pins(kept.terms.pins)
    unmet = [quote(pin.resolved) for pin in pins if not meets_demand(signatures.with_demand(_source_at(pin)), pin)]
    if signatures.demands and (unmet or not pins):
        problem = f"it was made without the check of signatures that {OPTION} of the administrator demands now"
        problem = f"revision {short(kept.digest)} is not applied: {problem} of {list_some(unmet) or 'its sources'}"
        remedy = "name another revision" if context.spec.pinned_revision else "pin another revision"
        path = "spec.pinnedRevision" if context.spec.pinned_revision else "spec.onFailure"
        raise BundleError(Reason.VERIFICATION_FAILED, f"{path}: {problem}; {remedy}, or have the sources signed")


def _source_at(pin: SourcePin) -> Source:
    place = pin.resolved.removesuffix(f"@{pin.digest.partition(':')[2]}")  # of git
    repository, _, name = place.rpartition("@")[0].rpartition(":")[0].rpartition("/")
    blocks: dict[str, dict[str, str]] = {
        "image": {"ref": place},
        "http": {"url": place},
        "git": {"repository": place.removesuffix(f"@{pin.version}") if pin.version else place},
        "chart": {"repository": repository, "name": name},
    }
    return Source.model_validate({"kind": pin.kind, **({pin.kind: blocks[pin.kind]} if pin.kind in blocks else {})})


def hold(context: Context, kept: Revision) -> Revision:
    """Record that a revision must not be applied until it is admitted; it may have been applied before.

    Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
    """
    return write_terms(context, kept, replace(kept.terms, held=kept.terms.held or REPLACED))


def admit(context: Context, kept: Revision) -> Revision:
    """Record that a revision may be applied, as the account that the spec names.

    Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
    """
    account = account_to_keep(context.deployment, kept.terms)
    name = context.spec.service_account_name
    return write_terms(context, kept, replace(kept.terms, held="", service_account_name=name, account=account))


def retire_others(context: Context, applied: str) -> None:
    """Record that no other revision may be applied without approval, once one was begun to be applied.

    Raises: BundleError (TooLarge, QuotaExceeded), CrowdedError, ApiError.
    """
    for digest in digests(context):
        other = read(context, digest) if digest != applied else None
        if other:
            hold(context, other)


def write_terms(context: Context, kept: Revision, terms: Terms) -> Revision:
    """Write the terms of a stored revision if they are new, and return the revision with them.

    Raises: BundleError (TooLarge, QuotaExceeded) if there is no room for them; ApiError.
    """
    if terms == kept.terms:
        return kept
    revised = replace(kept, terms=terms)
    context.services.revisions.write(context.name, revised, context.metadata.uid)
    context.memory.stored.learn(revised)
    context.memory.stored.past = None
    if packed := context.memory.stored.packed.get(kept.digest):
        context.memory.stored.packed[kept.digest] = replace(packed, terms=terms)
    return revised


def write(context: Context, made: Revision | PackedRevision) -> Revision | PackedRevision:
    """Keep a new revision. If one with the same objects is kept already, its account and leftovers remain.

    Where revisions may have to wait, it does until it is admitted, and replaces those that were waiting.

    Returns: the revision with these terms.
    Raises: BundleError (TooLarge, QuotaExceeded) if it cannot be kept; ApiError.
    """
    status, is_held = context.status, context.spec.may_hold_revisions
    is_midway = status.managed_kinds and not status.managed_state  # it may be one of several kept revisions
    same: Revision | PackedRevision | None = context.memory.stored.read.get(made.digest)
    is_stored = context.services.revisions.has(context.name, made.digest, context.metadata.uid)
    if same is None and is_stored and (is_midway or is_held):
        same = context.services.revisions.read_packed(context.name, made.digest)
    terms = _with_account(context, made.terms, same.terms if same else None)
    if same:
        terms = replace(terms, left=same.terms.left, past=same.terms.past)
    if same or is_held:
        terms = replace(terms, held=same.terms.held if same else NEW)
    made = replace(made, terms=terms)
    is_named = made.digest in (status.revision, status.installed_revision)
    context.services.revisions.write(context.name, made, context.metadata.uid)
    if not (is_named or is_stored):
        context.memory.stored.unapplied.add(made.digest)
    if is_held:
        _drop_proposals(context, made.digest)
    return made


def drop_replaced(context: Context, wanted: str) -> None:
    """Delete the revisions that the wanted one replaces before they were applied, as while its spec is paused.

    Raises: ApiError.
    """
    for digest in context.memory.stored.unapplied - {wanted}:
        _drop(context, digest)


def _drop_proposals(context: Context, proposed: str) -> None:
    needed = {proposed, context.status.revision, context.status.installed_revision}
    for digest in context.services.revisions.digests(context.name, context.metadata.uid):
        packed = None if digest in needed else context.services.revisions.read_packed(context.name, digest)
        if packed and packed.terms.held == NEW:
            _drop(context, digest)
    context.memory.stored.kept = None


def _drop(context: Context, digest: str) -> None:
    context.services.revisions.drop(context.name, digest)
    context.memory.stored.drop(digest)


def learn(context: Context, made: Revision | PackedRevision) -> Revision | None:
    """Return a revision that was written, unpacked, and remember it.

    Raises: CrowdedError, ApiError, as `read`.
    """
    if isinstance(made, PackedRevision):
        context.memory.stored.dropped.add(made.digest)  # in case there is no room for it now
        return read(context, made.digest)
    context.memory.stored.learn(made)
    return made


def _with_account(context: Context, terms: Terms, kept: Terms | None) -> Terms:
    if kept and keeps_account(context.spec, kept):
        return replace(terms, service_account_name=kept.service_account_name, account=kept.account)
    return replace(terms, account=account_to_keep(context.deployment, kept))
