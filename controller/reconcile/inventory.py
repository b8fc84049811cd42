"""Which objects belong to a BundleDeployment: it owns nothing else on the cluster (README.md, rule 5).

Its kept revisions name its objects. Objects of kinds that the controller may not watch are read here, as the account,
before a pass decides about them. Strays carry its marks although no revision names them, and are left alone. With
`spec.takeOver`, objects pass from and to other BundleDeployments.

Where two controllers act at once (the BundleDeployment has moved to another shard, by mistake, or one hung and came
back), the watch of the second may not have shown what the first has done: `make_confirmation` binds what a pass
creates, deletes and applies over another revision to the BundleDeployment as the API server has it. A repair needs none
of this: it is bound to the UID that was judged, and both want the same. A request that was sent before may still arrive
after the other one has pruned. Its object is pruned by the next pass of either, because the terms of the installed
revision name the objects of earlier ones (`Terms.past`). It becomes a stray if nobody watches its kind any more, if
more names were needed than fit, or if the revision that named it was lost.

Not here: the marks on one object (apply/ownership.py), and what is done (installation, deletion).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import ConditionType
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.ownership import (
    MORE,
    Giver,
    HandOver,
    Owner,
    RevisionObject,
    describe_past,
    name_objects,
    name_past,
    past_keys,
    write_left,
)
from rukpak.controller.apply.plan import OvertakenError
from rukpak.controller.apply.replies import classify
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.resources import GroupVersionKind, Resource, read_kinds
from rukpak.controller.observe.deployments import find_hindrance
from rukpak.controller.observe.records import Record
from rukpak.controller.reconcile import stored
from rukpak.controller.reconcile.context import Context, Services
from rukpak.controller.revisions.accounts import account_in
from rukpak.controller.revisions.approval import NEW
from rukpak.controller.status.history import choose
from rukpak.controller.status.notes import note_on_strays

BELIEVED_SECONDS = 1.0
"""What was read or written in these last seconds is believed: a pass that creates many objects reads seldom."""
QUIET_SECONDS = 300
"""Between two Events about strays of a BundleDeployment: any client may create many of them in turn."""


def make_confirmation(context: Context, revision: str) -> Callable[[], None]:
    """Return a function that raises OvertakenError once the pass has been overtaken, and ApiError if that is not known.

    Args:
        context: of the pass.
        revision: that is applied; status records it before, except for hooks and if objects are only deleted.
    """
    recorded = {revision, context.status.revision}
    lock = threading.Lock()  # if many threads create objects, only one of them reads

    def _confirm() -> None:
        with lock:
            found = context.services.watches.deployments.confirm(context.name, BELIEVED_SECONDS)
        if found is None or not context.is_same_spec(found) or found.status.revision not in recorded:
            raise OvertakenError(context.name)

    return _confirm


def name_older(context: Context, revision: Revision) -> dict[ObjectKey, RevisionObject]:
    """Return the objects that only older revisions name; some may still exist.

    Of what retired or deleted revisions named, those that exist again.

    Raises: CrowdedError, ApiError.
    """
    others = [each for each in _applied(read_kept(context)) if each.digest != revision.digest]
    past = _name_past([*others, revision], context)
    if not (others or revision.terms.left or past):
        return {}
    own = _name_own(revision, context)
    named = {**past, **_name([*others, revision], context)}
    return {key: each for key, each in named.items() if key not in own}


def name_all(context: Context) -> dict[ObjectKey, RevisionObject] | None:
    """Return all objects that kept revisions name; None if no revision can be read.

    Raises: CrowdedError, ApiError.
    """
    kept = read_kept(context)
    applied = _applied(kept)
    return {**_name_past(applied, context), **_name(applied, context)} if kept else None


def had_any(context: Context, keys: Iterable[ObjectKey]) -> bool:
    """Whether a revision that is retired or deleted named one of these objects.

    Raises: CrowdedError, ApiError.
    """
    digest, known = context.status.installed_revision, context.memory.stored.past
    if known is None or known[0] != digest:
        kept = context.memory.stored.read.get(digest) or context.services.revisions.read_packed(context.name, digest)
        known = context.memory.stored.past = (digest, past_keys(kept.terms) if kept else frozenset())
    return not known[1].isdisjoint(keys)


def named_kinds(context: Context) -> set[GroupVersionKind]:
    """Return the kinds that kept revisions name and that are not skipped: status may have been wiped.

    Raises: CrowdedError, ApiError.
    """
    named = {each.kind for each in (name_all(context) or {}).values()}
    return named - set(read_kinds(context.status.skipped_kinds))


def revisions_with_hooks(context: Context) -> list[Revision]:
    """Return the kept revisions that have hooks, also those that were never applied.

    Raises: CrowdedError, ApiError.
    """
    digests = context.services.revisions.digests(context.name, context.metadata.uid)
    kept = (stored.read(context, each) for each in dict.fromkeys((*digests, *context.memory.stored.read)))
    return [each for each in kept if each and each.hooks]


def read_kept(context: Context) -> list[Revision]:
    """Return the kept revisions.

    Raises: CrowdedError, ApiError.
    """
    status = context.status
    if context.memory.stored.kept is None and status.managed_state:
        installed = stored.read(context, status.installed_revision)
        if installed and MORE not in installed.terms.left:
            context.memory.stored.kept = (status.installed_revision,)  # when settled, no other revision has objects
    digests = dict.fromkeys((*stored.digests(context), *context.memory.stored.read))
    found = [each for digest in digests if (each := stored.read(context, digest))]
    context.memory.stored.kept = tuple(each.digest for each in found)
    return found


def _name_own(revision: Revision, context: Context) -> dict[ObjectKey, RevisionObject]:
    return _name([replace(revision, terms=replace(revision.terms, left=()))], context)


def _name_past(revisions: Iterable[Revision], context: Context) -> dict[ObjectKey, RevisionObject]:
    return name_past(revisions, context.services.watches.objects.of(context.name), orphan=context.owner.orphan)


def _name(revisions: Iterable[Revision], context: Context) -> dict[ObjectKey, RevisionObject]:
    return name_objects(revisions, context.services.watches.served.is_namespaced, orphan=context.owner.orphan)


def read_unwatched(
    context: Context, named: Mapping[ObjectKey, RevisionObject], user: User | None
) -> dict[ObjectKey, BundleError]:
    """Read the named objects that are not watched, and add them to what the watches know.

    Args:
        context: of the pass.
        named: by revisions.
        user: that reads them; None: the controller.

    Returns: why objects could not be read.
    """
    unseen = [(key, resource) for key, each in named.items() if (resource := _unseen(context, each))]
    failures: dict[ObjectKey, BundleError] = {}
    for key, found in context.services.applier.reader.read_all(unseen, user).items():
        if isinstance(found, ApiError):
            failures[key] = classify(found, key, install_namespace="").to_error()
        elif found is None or found.owner != context.name:
            context.services.watches.objects.learn_gone(key)
        else:
            context.services.watches.objects.learn(found)
    return failures


def forget_unwatched(context: Context, keys: Iterable[ObjectKey]) -> None:
    """Drop deleted objects that are not watched: no event reports their deletion."""
    for key in keys:
        if context.services.watches.objects.is_forbidden(key.group, key.kind):
            context.services.watches.objects.learn_gone(key)


def _unseen(context: Context, named: RevisionObject) -> Resource | None:
    if not context.services.watches.objects.is_forbidden(*named.kind.group_kind):
        return None
    discovery = context.services.discovery
    return discovery.resource(named.kind) or discovery.any_version(*named.kind.group_kind)


def keep_only(
    context: Context,
    digests: Iterable[str],
    older: Mapping[ObjectKey, RevisionObject],
) -> None:
    """Record what older revisions leave and what they had, then retire those of the history and delete the others.

    If they leave too much to record, they are kept as they are.

    Args:
        context: of the pass; its memory has the installed revision.
        digests: of the revisions to keep; the first of them is installed.
        older: objects that only older revisions name; the memory has those of them that are kept for good.

    Raises: ApiError.
    """
    kept = list(digests)
    installed = context.memory.stored.read.get(kept[0])
    left = {key: named for key, named in older.items() if key in context.memory.stored.older}
    texts = write_left(left)
    if installed:
        past = _describe_past(context, installed, older)
        with suppress(BundleError):  # without room, what is left over is only reported
            installed = stored.write_terms(context, installed, replace(installed.terms, left=texts, past=past))
        stored.write_terms(context, installed, replace(installed.terms, left=texts))
    entries = choose(context.status.history, kept, context.spec.kept_revisions)
    history = [each.revision for each in entries if each.revision not in kept]
    if MORE in texts or context.services.revisions.is_tidy(context.name, kept, history):
        return
    context.services.revisions.keep_only(context.name, kept, [each for each in history if not _is_new(context, each)])


def _describe_past(context: Context, installed: Revision, older: Mapping[ObjectKey, RevisionObject]) -> tuple[str, ...]:
    others = [each for each in _applied(read_kept(context)) if each.digest != installed.digest]
    if not (older or others):
        return installed.terms.past
    earlier = [text for each in (installed, *others) for text in each.terms.past]
    return describe_past(older, earlier, _name_own(installed, context))


def _is_new(context: Context, digest: str) -> bool:
    if context.services.revisions.is_retired(context.name, digest):
        return False
    found = stored.read(context, digest)
    return found is None or found.terms.held == NEW


def _applied(kept: Iterable[Revision]) -> list[Revision]:
    # A new revision that waits for approval must not name what is deleted.
    return [each for each in kept if each.terms.held != NEW]


def report_strays(context: Context, records: Iterable[Record]) -> tuple[ObjectKey, ...]:
    """Send one Event for those strays that were not reported yet; returns all of them in order."""
    strays, now = context.memory.strays, context.memory.clock()
    found = frozenset(record.key for record in records)
    news = found - strays.reported
    strays.reported &= found
    if news and now >= strays.quiet_until:
        strays.reported, strays.quiet_until = found, now + QUIET_SECONDS
        context.record([note_on_strays(context.name, news)])
    return tuple(sorted(found))


def find_hand_over(context: Context) -> HandOver:
    """Return the BundleDeployments from which and to which objects may pass."""
    found = [context.services.watches.deployments.outline(each.name) for each in context.spec.take_over]
    return HandOver(
        givers={giver.metadata.name: _describe_giver(context.services, giver) for giver in found if giver},
        takers=frozenset(context.services.watches.deployments.takers(context.name)),
        takes=partial(_takes_from, context),
    )


def observe_with_takers(context: Context) -> dict[ObjectKey, Record]:
    """Return the objects with the label of a BundleDeployment, or of one that is known to take from it."""
    owners = (*context.services.watches.deployments.takers(context.name), context.name)
    return {key: record for each in owners for key, record in context.services.watches.objects.of(each).items()}


def describe_awaited_takers(context: Context, left: Collection[ObjectKey]) -> str:
    """Return which objects of a deleted BundleDeployment others are about to take over; empty if none.

    Only while it is paused, as any hand-over: who resumes it has them deleted.

    Args:
        context: of the pass.
        left: the objects that it still has.

    Raises: ApiError.
    """
    if not left or find_hindrance(context.deployment):
        return ""
    deployments = context.services.watches.deployments
    found = map(deployments.outline, deployments.takers(context.name))
    for taker in (each for each in found if each and _still_takes(each)):
        named = _named_by(context, taker)
        awaited = left if named is None else named.intersection(left)
        if awaited:
            return _describe_awaited(len(awaited), taker.metadata.name, is_known=named is not None)
    return ""


def _named_by(context: Context, taker: BundleDeployment) -> frozenset[ObjectKey] | None:
    status = taker.status
    digest = status.pending.revision if status.pending else status.revision
    if not digest or status.observed_generation != taker.metadata.generation:
        return None
    known = context.memory.deletion.named_by_takers.get(digest)
    if known is None and (revision := context.services.revisions.read(taker.metadata.name, digest)):
        named = name_objects([revision], context.services.watches.served.is_namespaced, orphan=False)
        known = context.memory.deletion.named_by_takers[digest] = frozenset(named)
    return known


def _describe_giver(services: Services, giver: BundleDeployment) -> Giver:
    account = account_in(services.accounts.policy.complete(giver).spec)
    return Giver(
        owner=Owner(giver.metadata.name, giver.metadata.uid, orphan=giver.spec.deletion_policy == "Orphan"),
        user=account.user if account else None,
        hindrance=find_hindrance(giver),
    )


def _takes_from(context: Context, taker: str, uid: str) -> bool:
    found = context.services.watches.deployments.outline(taker)
    return bool(found and found.metadata.uid == uid and any(each.name == context.name for each in found.spec.take_over))


def _still_takes(taker: BundleDeployment) -> bool:
    installed, generation = taker.status.condition(ConditionType.INSTALLED), taker.metadata.generation
    has_all = installed is not None and (installed.status, installed.observed_generation) == ("True", generation)
    return taker.metadata.deletion_timestamp is None and not (has_all and not taker.status.pending)


def _describe_awaited(count: int, taker: str, *, is_known: bool) -> str:
    objects = "1 object" if count == 1 else f"{count} objects"
    what = f'waiting until {names.KIND} "{taker}" has taken over {objects}'
    if not is_known:
        what = f'{objects} left; it is not known yet which of them {names.KIND} "{taker}" takes over'
    return f"{what} (spec.takeOver); to delete them now, set spec.paused to false"
