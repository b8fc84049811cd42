"""Lets a revision pass that may be applied, and keeps the one on the cluster while another one waits.

It waits for approval, and then for the BundleDeployments that it depends on. One that waits for approval is judged as
far as reading allows, so that people know what they approve. Not here: the rules (revisions/approval.py), and whether
dependencies are ready (dependencies.py).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.status import CONDITION_MESSAGE_LENGTH, PERMISSION_ITEMS, PERMISSION_LENGTH, PROBLEM_ITEMS
from api.v1alpha2.types import NewPermissions, Pending
from controller.apply.execute import Applier
from controller.build.revision import Revision
from controller.content.limits import visible
from controller.permissions.permissions import added, digest_of, permissions_of, summarize
from controller.reconcile.context import Context
from controller.reconcile.installation.work import Planner, Work
from controller.reconcile.state import Preview
from controller.reconcile.waiting.dependencies import Dependencies
from controller.retries import SLOW_SECONDS
from controller.revisions.approval import REPLACED, Decision, decide
from controller.revisions.finder import Wanted
from controller.revisions.kept import KeptRevisions
from controller.status.notes import note_on_approval
from controller.status.report import Held
from controller.status.texts import describe_changes, short
from controller.status.writer import StatusWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """A revision that waits, and the one on the cluster."""

    context: Context
    wanted: Wanted
    revision: Revision
    target: Revision | None
    is_account: bool
    """Only its account waits."""


class Approvals:
    """Thread-safe; one pass at a time for each BundleDeployment."""

    def __init__(
        self,
        *,
        kept: KeptRevisions,
        dependencies: Dependencies,
        planner: Planner,
        applier: Applier,
        writer: StatusWriter,
    ) -> None:
        self._kept, self._dependencies = kept, dependencies
        self._planner, self._applier, self._writer = planner, applier, writer

    def admit(self, context: Context, wanted: Wanted) -> Wanted:
        """Return the wanted revision if it may be applied; else the one on the cluster, and why the wanted one waits.

        Raises: CrowdedError, ApiError.
        """
        spec, revision = context.spec, wanted.revision
        if not wanted.current or revision is None:
            return wanted
        if not (spec.may_hold_revisions or revision.terms.held or spec.denied_revision == revision.digest):
            return wanted
        target = self._kept.last_good(context)
        try:
            adds_permissions = self._adds_permissions(context, revision, target)
            is_recalled = wanted.recalled and any(each.revision == revision.digest for each in context.status.history)
            match decide(spec, revision, target, adds_permissions=adds_permissions, is_recalled=is_recalled):
                case Decision.GO_AHEAD:
                    return self._go_ahead(context, wanted, revision, target)
                case Decision.DENY:
                    self._hold(context, revision)
                    held = Held(revision=revision.digest, error=_denied(revision))
                case decision:
                    is_account = decision is Decision.AWAIT_ACCOUNT
                    revision = revision if is_account else self._hold(context, revision)
                    proposal = _Proposal(
                        context=context, wanted=wanted, revision=revision, target=target, is_account=is_account
                    )
                    held = self._propose(proposal)
        except BundleError as error:
            return replace(wanted, revision=target, current=False, failure=error)
        return replace(wanted, revision=target, current=target is not None, held=held)

    def _go_ahead(self, context: Context, wanted: Wanted, revision: Revision, target: Revision | None) -> Wanted:
        """Return the wanted revision if what it depends on is ready; else the one on the cluster, and why it waits."""
        if target is not None and target.digest == revision.digest:  # from its first write on it is repaired
            return replace(
                wanted, revision=self._let_pass(context, revision), failure=self._dependencies.cycle(context)
            )
        error = self._dependencies.hindrance(context)
        if error is None:
            return replace(wanted, revision=self._let_pass(context, revision))
        revision = self._hold(context, revision)
        if context.spec.paused:
            return replace(wanted, revision=revision)
        return replace(wanted, revision=target, current=False, failure=error, pending=revision.digest)

    def forget(self, name: str) -> None:
        """Wait for nothing any more."""
        self._dependencies.forget(name)

    def _adds_permissions(self, context: Context, revision: Revision, target: Revision | None) -> bool:
        """Whether a revision may do more than the one on the cluster; without that policy it makes no difference."""
        if context.spec.approval != "NewPermissions" or target is None or target.digest == revision.digest:
            return True
        return bool(_find_permissions(context, revision, target).added)

    def commit(self, work: Work) -> None:
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
            self._kept.retire_others(context, revision.digest)
        except BundleError as error:
            about = {"BundleDeployment": context.name, "reason": error.reason.value, "problem": error.message}
            log.warning("older revision can be applied without approval", extra=about)

    def _let_pass(self, context: Context, revision: Revision) -> Revision:
        before = revision.terms
        if not (before.held or context.spec.requires_approval):
            return revision
        admitted = self._kept.admit(context, revision)
        if context.spec.approved_revision == revision.digest and admitted.terms != before:
            self._writer.record_events(context.deployment, [note_on_approval(revision.digest)])
        return admitted

    def _hold(self, context: Context, revision: Revision) -> Revision:
        # It may have been applied under an earlier spec.
        return self._kept.hold(context, revision, revision.terms.held or REPLACED)

    def _propose(self, proposal: _Proposal) -> Held:
        context, digest = proposal.context, proposal.revision.digest
        account, before = context.spec.service_account_name, _proposed_before(proposal)
        preview = self._preview(proposal)
        texts = [visible(error.message)[:CONDITION_MESSAGE_LENGTH] for error in preview.problems[:PROBLEM_ITEMS]]
        sources = proposal.wanted.sources
        pending = Pending(
            revision=digest,
            service_account_name=account,
            since=before.since if before else context.now(),
            changes=preview.differences.counts,
            permissions=_find_permissions(context, proposal.revision, proposal.target),
            problems=tuple(texts),
            sources=sources.pins if sources else context.status.sources,
        )
        error = BundleError(Reason.AWAITING_APPROVAL, _describe(proposal, pending))
        return Held(revision=digest, error=error, pending=pending, problems=preview.problems)

    def _preview(self, proposal: _Proposal) -> Preview:
        """Return what is known of a proposal; if something would prevent it, that is asked again every five minutes."""
        context, target = proposal.context, proposal.target
        state, account = context.state, context.spec.service_account_name
        key = (proposal.revision.digest, target.digest if target else "", account, context.spec_version)
        known, now = state.preview, state.clock()
        if known and known.key == key and not (known.problems and now - known.at >= SLOW_SECONDS):
            return known
        revision = replace(proposal.revision, terms=replace(proposal.revision.terms, service_account_name=account))
        options, differences, hindrance = self._planner.preview(context, revision, target)
        problems = [hindrance] if hindrance else []
        if not (problems or _is_judged(proposal)):
            problems = self._applier.find_problems(options, differences.changed)
        state.preview = Preview(key=key, differences=differences, problems=tuple(problems), at=now)
        return state.preview


def _proposed_before(proposal: _Proposal) -> Pending | None:
    """Return what status says about this proposal; None if it is new."""
    before, account = proposal.context.status.pending, proposal.context.spec.service_account_name
    is_same = before is not None and before.revision == proposal.revision.digest
    return before if before and is_same and before.service_account_name == account else None


def _is_judged(proposal: _Proposal) -> bool:
    """Whether the process before a restart has found that nothing would prevent it."""
    before, context = _proposed_before(proposal), proposal.context
    is_same_spec = context.status.observed_generation == context.metadata.generation
    return before is not None and not before.problems and is_same_spec and context.state.preview is None


def _find_permissions(context: Context, revision: Revision, target: Revision | None) -> NewPermissions:
    """Return what a revision may do and the one on the cluster may not; remembered while neither changes."""
    pair = (revision.digest, target.digest if target else "")
    known = context.state.permissions
    if known and known[0] == pair:
        return known[1]
    all_of_it = permissions_of(revision)
    summary = summarize(added(all_of_it, permissions_of(target) if target else frozenset()), PERMISSION_ITEMS)
    lines = tuple(visible(line)[:PERMISSION_LENGTH] for line in summary.lines)
    found = NewPermissions(digest=digest_of(all_of_it), added=lines, truncated=summary.truncated)
    context.state.permissions = (pair, found)
    return found


def _describe(proposal: _Proposal, pending: Pending) -> str:
    name, spec, terms = proposal.context.name, proposal.context.spec, proposal.revision.terms
    account, bound = _quote(pending.service_account_name), spec.approved_service_account_name
    if proposal.is_account:
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
