"""Lets a revision pass that may be applied, and keeps the one on the cluster while another one waits.

It waits for approval, then for the BundleDeployments and other objects that it depends on, and then for its hooks.
While paused, what waits for these passes all the same: what is on the cluster is only compared (planning.py).

A revision that waits for approval is judged as far as reading allows, so that people know what they approve.
Objects that are no BundleDeployments are read while something waits for them, and followed by name. Not here: the rules
(revisions/approval.py, observe/deployments.py, revisions/references.py), when hooks run (hook_phases.py), and whether
the account may act (planning.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import (
    CONDITION_MESSAGE_LENGTH,
    PERMISSION_ITEMS,
    PERMISSION_LENGTH,
    PROBLEM_ITEMS,
    NewPermissions,
    Pending,
    SourcePin,
)
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.content.limits import shorten, visible
from rukpak.controller.observe.deployments import MISSING, Dependency, find_cycle
from rukpak.controller.observe.following import ObjectReference, Topic
from rukpak.controller.permissions import added, digest_of, permissions_of, summarize
from rukpak.controller.reconcile import hook_phases, stored
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.finding import Wanted
from rukpak.controller.reconcile.memory import Preview
from rukpak.controller.reconcile.planning import Work, preview_work
from rukpak.controller.retries import SLOW_SECONDS
from rukpak.controller.revisions.accounts import Seen
from rukpak.controller.revisions.approval import Decision, decide
from rukpak.controller.status.notes import note_on_approval
from rukpak.controller.status.report import Held, describe_changes, list_some, short

log = logging.getLogger(__name__)
MOST = 256
"""BundleDeployments that are looked at to find a cycle."""


def admit(context: Context, wanted: Wanted) -> Wanted:
    """Return the wanted revision if each gate lets it pass; else the one on the cluster, and why the wanted one waits.

    Raises: CrowdedError, ApiError.
    """
    context.memory.hooks.next_change = None
    try:
        for gate in GATES:
            if wanted.current and wanted.revision:
                wanted = gate(context, wanted, wanted.revision)
    except BundleError as error:
        return replace(wanted, revision=stored.last_good(context), current=False, failure=error)
    return wanted


def _await_approval(context: Context, wanted: Wanted, revision: Revision) -> Wanted:
    if not _may_wait(context, revision):
        return wanted
    target = stored.last_good(context)
    adds_permissions = _adds_permissions(context, revision, target)
    is_recalled = wanted.recalled and any(each.revision == revision.digest for each in context.status.history)
    decision = decide(context.spec, revision, target, adds_permissions=adds_permissions, is_recalled=is_recalled)
    if decision is Decision.GO_AHEAD:
        return wanted
    if decision is not Decision.AWAIT_ACCOUNT:
        revision = stored.hold(context, revision)
    if decision is Decision.DENY:
        held = Held(revision=revision.digest, error=_denied(revision))
    else:
        held = _propose(context, wanted.sources, revision, target)
    return replace(wanted, revision=target, current=target is not None, held=held)


def _await_dependencies(context: Context, wanted: Wanted, revision: Revision) -> Wanted:
    if wanted.held or not _may_wait(context, revision):
        return wanted
    target = stored.last_good(context)
    if target is not None and target.digest == revision.digest:  # from its first write on it is repaired
        return replace(wanted, revision=_let_pass(context, revision), failure=find_dependency_cycle(context))
    error = find_dependency_hindrance(context)
    if error is None:
        return replace(wanted, revision=_let_pass(context, revision))
    revision = stored.hold(context, revision)
    if context.spec.paused:
        return replace(wanted, revision=revision)
    return replace(wanted, revision=target, current=False, failure=error, pending=revision.digest)


def _await_hooks(context: Context, wanted: Wanted, revision: Revision) -> Wanted:
    error = None if context.spec.paused else hook_phases.before_upgrade(context, wanted, revision)
    if error is None:
        return wanted
    return replace(wanted, revision=stored.last_good(context), current=False, failure=error, pending=revision.digest)


GATES: tuple[Callable[[Context, Wanted, Revision], Wanted], ...] = (_await_approval, _await_dependencies, _await_hooks)
"""What a revision passes before it may be applied, in this order. Each returns what may be applied then."""


def _may_wait(context: Context, revision: Revision) -> bool:
    spec = context.spec
    return bool(spec.may_hold_revisions or revision.terms.held or spec.denied_revision == revision.digest)


def _adds_permissions(context: Context, revision: Revision, target: Revision | None) -> bool:
    if context.spec.approval != "NewPermissions" or target is None or target.digest == revision.digest:
        return True
    return bool(_find_permissions(context, revision, target).added)


def commit(work: Work) -> None:
    """Record, once a revision was begun to be applied, that no other one may be applied without approval.

    Raises: CrowdedError, ApiError.
    """
    context, revision = work.context, work.wanted.revision
    if not context.spec.requires_approval or work.only_compare or revision is None or not work.wanted.current:
        return
    status = context.status
    is_begun = status.revision == revision.digest and not status.managed_state
    if not (is_begun or status.installed_revision == revision.digest):
        return
    try:
        stored.retire_others(context, revision.digest)
    except BundleError as error:
        log.warning("older revision can be applied without approval", extra=context.about(error))


def _let_pass(context: Context, revision: Revision) -> Revision:
    before = revision.terms
    if not (before.held or context.spec.requires_approval):
        return revision
    admitted = stored.admit(context, revision)
    if context.spec.approved_revision == revision.digest and admitted.terms != before:
        context.record([note_on_approval(revision.digest)])
    return admitted


def _propose(
    context: Context, sources: tuple[SourcePin, ...] | None, revision: Revision, target: Revision | None
) -> Held:
    before, preview = _proposed_before(context, revision), _preview(context, revision, target)
    texts = [shorten(visible(error.message), CONDITION_MESSAGE_LENGTH) for error in preview.problems[:PROBLEM_ITEMS]]
    pending = Pending(
        revision=revision.digest,
        service_account_name=context.spec.service_account_name,
        since=before.since if before else context.now(),
        changes=preview.differences.counts,
        permissions=_find_permissions(context, revision, target),
        problems=tuple(texts),
        sources=context.status.sources if sources is None else sources,
    )
    only_account = target is not None and target.digest == revision.digest
    error = BundleError(
        Reason.AWAITING_APPROVAL, _describe(context, revision.terms, pending, only_account=only_account)
    )
    return Held(revision=revision.digest, error=error, pending=pending, problems=preview.problems)


def _preview(context: Context, revision: Revision, target: Revision | None) -> Preview:
    # Whether something would prevent it is asked again every five minutes.
    memory, account = context.memory, context.spec.service_account_name
    key = (revision.digest, target.digest if target else "", account, context.spec_version)
    known, now = memory.preview, memory.clock()
    if known and known.key == key and not (known.problems and now - known.at >= SLOW_SECONDS):
        return known
    proposed = replace(revision, terms=replace(revision.terms, service_account_name=account))
    options, differences, hindrance = preview_work(context, proposed, target)
    problems = [hindrance] if hindrance else []
    if not (problems or _is_judged(context, revision)):
        problems = context.services.applier.find_problems(options, differences.changed)
    memory.preview = Preview(key=key, differences=differences, problems=tuple(problems), at=now)
    return memory.preview


def _proposed_before(context: Context, revision: Revision) -> Pending | None:
    before = context.status.pending
    proposed = (revision.digest, context.spec.service_account_name)
    return before if before and (before.revision, before.service_account_name) == proposed else None


def _is_judged(context: Context, revision: Revision) -> bool:
    before = _proposed_before(context, revision)
    is_same_spec = context.status.observed_generation == context.metadata.generation
    return before is not None and not before.problems and is_same_spec and context.memory.preview is None


def _find_permissions(context: Context, revision: Revision, target: Revision | None) -> NewPermissions:
    pair = (revision.digest, target.digest if target else "")
    known = context.memory.permissions
    if known and known[0] == pair:
        return known[1]
    all_of_it = permissions_of(revision)
    summary = summarize(added(all_of_it, permissions_of(target) if target else frozenset()), PERMISSION_ITEMS)
    lines = tuple(visible(line)[:PERMISSION_LENGTH] for line in summary.lines)
    found = NewPermissions(digest=digest_of(all_of_it), added=lines, truncated=summary.truncated)
    context.memory.permissions = (pair, found)
    return found


def _describe(context: Context, terms: Terms, pending: Pending, *, only_account: bool) -> str:
    name, spec = context.name, context.spec
    account, bound = _quote(pending.service_account_name), spec.approved_service_account_name
    if only_account:
        what = f"is applied as {_quote(terms.service_account_name)} until {account} is approved"
        remedy = f'run "kubectl rukpak approve {name}", or change spec.serviceAccountName back'
    else:
        what = f"waits for approval: {describe_changes(pending.changes)}{_more(pending.permissions)}"
        remedy = f'run "kubectl rukpak approve {name}" or "kubectl rukpak deny {name}"'
        if spec.approved_revision == pending.revision:
            approved = _quote(terms.service_account_name if bound is None else bound)
            what = f"is approved for {approved}, but spec.serviceAccountName names {account}"
    count = len(pending.problems)
    found = f"; {count} {'problem' if count == 1 else 'problems'} to solve: {pending.problems[0]}" if count else ""
    return f"revision {short(pending.revision)} {what}; {remedy}{found}"


def _more(permissions: NewPermissions) -> str:
    count = f"{len(permissions.added)}{' or more' if permissions.truncated else ''}"
    noun = "new permission" if count == "1" else "new permissions"
    return f", {count} {noun}" if permissions.added else ""


def _quote(account: str) -> str:
    return f'ServiceAccount "{account}"' if account else "the account of the controller"


def _denied(revision: Revision) -> BundleError:
    remedy = "change the sources or the spec, or remove spec.deniedRevision"
    return BundleError(Reason.DENIED, f"spec.deniedRevision: revision {short(revision.digest)} was denied; {remedy}")


def _cyclic(context: Context, known: Mapping[str, Dependency | None]) -> BundleError | None:
    depends_on = {name: each.depends_on for name, each in known.items() if each}
    way = find_cycle({**depends_on, context.name: context.spec.required_deployments}, context.name)
    if not way:
        return None
    message = f"spec.dependsOn: {' -> '.join(way)} is a cycle; remove one of these dependencies"
    return BundleError(Reason.DEPENDENCY_CYCLE, message)


def _unready(context: Context, known: Mapping[str, Dependency | None], seen: Seen) -> BundleError | None:
    found = [(name, known.get(name)) for name in context.spec.required_deployments]
    hindrances = [(name, each.hindrance if each else MISSING) for name, each in found]
    waiting = [f'"{name}" ({hindrance})' for name, hindrance in hindrances if hindrance]
    waiting += context.services.find_waiting(context.deployment, seen)
    if not waiting:
        return None
    message = f"spec.dependsOn: waiting for {list_some(waiting)}; continues when all of them are ready"
    return BundleError(Reason.DEPENDENCY_NOT_READY, message)


def find_dependency_hindrance(context: Context) -> BundleError | None:
    """Return why nothing new may be applied; whatever ends that triggers a pass.

    Raises: ApiError.
    """
    known = _collect(context)
    read: dict[ObjectReference, str | None] = {}
    try:
        error = _cyclic(context, known) or _unready(context, known, read.__setitem__)
    except BundleError as refusal:
        error = refusal
    context.services.follower.follow(context.name, Topic.DEPENDENCIES, read if error else {}, share=context.share)
    return error


def find_dependency_cycle(context: Context) -> BundleError | None:
    """Return an error if a BundleDeployment depends on itself; sends no request."""
    return _cyclic(context, _collect(context)) if context.spec.depends_on else None


def _collect(context: Context) -> dict[str, Dependency | None]:
    known: dict[str, Dependency | None] = {}
    left = deque(context.spec.required_deployments)
    while left and len(known) < MOST:
        name = left.popleft()
        if name == context.name or name in known:
            continue
        known[name] = context.services.watches.deployments.dependency(name)
        left.extend(found.depends_on if (found := known[name]) else ())
    return known
