"""Finds the revision that a BundleDeployment asks for: pinned, kept in the revision store, or still being built.

Network and rendering are left to making.py: meanwhile a pass continues with what is installed. Pins are recorded in
status as soon as a pass knows them, together with the revision if that is available by then.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.errors import BundleError
from api.v1alpha2.conditions import ConditionType, Reason
from api.v1alpha2.types import BundleDeployment, SourcePin
from controller.build.pins import Sources, match_pins, recall_pins, record_pins
from controller.build.request import Request, inputs_digest
from controller.build.revision import PackedRevision, Revision, has_objects
from controller.build.validation import check
from controller.revisions.accounts.service_accounts import AccountPolicy
from controller.revisions.downgrades import refuse_downgrade
from controller.revisions.kept import KeptRevisions
from controller.revisions.making import BUILD, FETCHING, RESOLVE, Maker, build_ticket, resolve_ticket
from controller.revisions.polling import Poller, is_polled
from controller.revisions.source_access import SourceProgress
from controller.revisions.state import RevisionContext
from controller.status.report import Held, Report
from controller.status.rollback import find_rollback
from controller.status.summary import summarize
from controller.status.texts import short
from controller.status.writer import StatusWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a spec asks for, as far as this pass knows."""

    revision: Revision | None
    """To work on: the wanted one, or if that is not available the one applied last (rule 2)."""
    recalled: bool = False
    """Whether `revision` was applied before and is wanted instead of what the sources lead to."""
    current: bool = False
    """Whether `revision` is the one that the spec asks for, or is kept instead of one that may not be applied."""
    failure: BundleError | None = None
    pending: str = ""
    """Digest of the wanted one while its hooks must run first."""
    held: Held | None = None
    """The one that the spec asks for, if it may not be applied; `revision` is then the one that is kept instead."""
    fetching: str = ""
    """What is being done to make the wanted one available."""
    sources: Sources | None = None
    """None: unchanged."""

    def report(self, context: RevisionContext) -> Report:
        """Return what is known before anything is compared; the rest is copied from status."""
        status = context.status
        # Status must keep naming a revision that was started and not finished.
        pending = self.pending if status.managed_state else ""
        return Report(
            wanted=self.revision.digest if self.current and self.revision else pending,
            failure=self.failure,
            held=self.held,
            sources=self.sources.pins if self.sources else None,
            handled_reconcile_at=self.sources.requested_at if self.sources else None,
            fetching=self.fetching,
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )


NAMED = 10
"""Of the kept revisions, how many a message names."""


def choose(deployment: BundleDeployment, sources: Sources | None) -> str:
    """Return the digest of the kept revision that is wanted; empty: the one that the sources lead to. Pure.

    What a user pins comes first, then the rollback of an upgrade that has failed.

    Args:
        deployment: with its status.
        sources: None while they are being resolved.
    """
    if deployment.spec.pinned_revision:
        return deployment.spec.pinned_revision
    rollback = find_rollback(deployment, sources.pins) if sources else None
    return rollback.to_revision if rollback else ""


def _is_renewed(context: RevisionContext, last: Revision | None, sources: Sources | None) -> bool:
    """Whether what the spec asks for is installed, and is only resolved or rendered once more, as a user asked."""
    status, generation = context.status, context.metadata.generation
    installed = status.condition(ConditionType.INSTALLED)
    is_current = installed is not None and (installed.status, installed.observed_generation) == ("True", generation)
    if not is_current or last is None or not last.digest == status.revision == status.installed_revision:
        return False
    known = {(pin.spec_digest, pin.digest) for pin in status.installed_sources}
    return sources is None or {(pin.spec_digest, pin.digest) for pin in sources.pins} == known


class _UnresolvedError(BundleError):
    """Not all sources could be resolved; `found` are the pins of the others."""

    def __init__(self, cause: BundleError, found: tuple[SourcePin, ...]) -> None:
        super().__init__(cause.reason, cause.message, retry_after=cause.retry_after)
        self.found = found


class Finder:
    """Finds the wanted revision of BundleDeployments."""

    def __init__(
        self, *, maker: Maker, kept: KeptRevisions, poller: Poller, policy: AccountPolicy, writer: StatusWriter
    ) -> None:
        self._maker, self._kept, self._poller = maker, kept, poller
        self._policy, self._writer = policy, writer

    def find(self, context: RevisionContext, refusal: BundleError | None = None) -> Wanted:
        """Return what the spec asks for.

        Args:
            context: of the pass.
            refusal: why its sources may not be used.

        Raises: ApiError.
        """
        wanted = self._keep_last(context, refusal) if refusal else self._find(context)
        self._maker.watch_secrets(context)
        return wanted

    def _find(self, context: RevisionContext) -> Wanted:
        sources: Sources | None = None
        try:
            self._check(context)
            sources = self._sources(context)
            if digest := choose(context.deployment, sources):
                return self._recall_revision(context, digest, sources)
            if sources:
                self._refuse_downgrade(context, sources)
            revision = self._revision(context, sources) if sources else None
        except _UnresolvedError as error:
            return self._keep_last(context, error, Sources(pins=error.found, requested_at=context.requested_at))
        except BundleError as error:
            return self._keep_last(context, error, sources)
        if revision is None:
            work = self._maker.describe(context, BUILD if sources else RESOLVE)
            last = self._kept.last_good(context)
            return Wanted(revision=last, current=_is_renewed(context, last, sources), fetching=work, sources=sources)
        context.state.source_progress = SourceProgress()
        self._kept.drop_replaced(context, revision.digest)
        return Wanted(revision=revision, current=True, sources=sources)

    def _recall_revision(self, context: RevisionContext, digest: str, sources: Sources | None) -> Wanted:
        """Return a revision that is kept, without asking sources or rendering.

        Raises: BundleError (RevisionNotKept), CrowdedError, ApiError.
        """
        self._maker.cancel(context)
        self._maker.succeeded(context)
        context.state.source_progress = SourceProgress()
        revision = self._kept.recall(context, digest)
        if revision is None:
            kept = ", ".join(short(each.revision) for each in context.status.history[:NAMED]) or "none"
            message = (
                f"spec.pinnedRevision: revision {short(digest)} is not kept; kept revisions: {kept}; "
                "name one of them in full, or remove the field"
            )
            raise BundleError(Reason.REVISION_NOT_KEPT, message)
        return Wanted(revision=revision, recalled=True, current=True, sources=sources)

    def _keep_last(self, context: RevisionContext, failure: BundleError, sources: Sources | None = None) -> Wanted:
        return Wanted(revision=self._kept.last_good(context), failure=failure, sources=sources)

    def _check(self, context: RevisionContext) -> None:
        try:
            if not context.spec.pinned_revision:
                check(context.spec)
            self._policy.check(context.spec)
        except BundleError:
            self._maker.cancel(context)
            context.state.source_progress = SourceProgress()
            raise

    def poll(self, context: RevisionContext) -> BundleDeployment:
        """Re-resolve the sources that are due; returns the BundleDeployment with changed pins recorded.

        Raises: ApiError.
        """
        if not self._may_poll(context):
            self._poller.stop(context.deployment, context.state.poll)
            return context.deployment
        pins = self._poller.poll(context.deployment, context.state.poll)
        self._maker.watch_secrets(context)
        return self._record(context, pins) if pins else context.deployment

    def seconds_to_poll(self, context: RevisionContext) -> float | None:
        """Return the seconds until the next poll; None without one, or while one is active."""
        return self._poller.seconds_to_next(context.deployment, context.state.poll) if self._may_poll(context) else None

    def _may_poll(self, context: RevisionContext) -> bool:
        """Whether a valid spec asks for polls, and no annotation asks for a new resolution."""
        if context.spec.pinned_revision or not any(map(is_polled, context.spec.sources)):
            return False
        if context.requested_at != context.status.last_handled_reconcile_at:
            return False
        try:
            check(context.spec)  # `find` reports the failure
            self._policy.check(context.spec)
        except BundleError:
            return False
        return True

    def retry(self, name: str) -> None:
        """Retry the failed sources of a BundleDeployment in its next pass."""
        self._maker.retry(name)
        self._poller.retry(name)

    def forget(self, name: str) -> None:
        """Cancel all work for a BundleDeployment that needs no content any more."""
        self._maker.forget(name)

    def _record(self, context: RevisionContext, pins: tuple[SourcePin, ...]) -> BundleDeployment:
        """Write new pins and that their content is being fetched: neither may be lost if the process is killed."""
        status = context.status
        report = Report(
            sources=pins,
            fetching=FETCHING,
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )
        return self._writer.write_status(context.deployment, summarize(context.deployment, report, context.now()))

    def _sources(self, context: RevisionContext) -> Sources | None:
        """Return a pin for each source; None while they are resolved."""
        spec, status, requested = context.spec, context.status, context.requested_at
        if spec.pinned_revision:  # no source is asked
            return Sources(pins=status.sources, requested_at=requested)
        renew = requested != status.last_handled_reconcile_at
        known = match_pins(spec, () if renew else status.sources)
        if None not in known:
            return Sources(pins=tuple(pin for pin in known if pin), requested_at=requested)
        remembered = context.state.resolved
        before = remembered[1] if remembered and remembered[0] == context.spec_version else None
        if not status.sources and (recalled := self._recall(context)):
            # A new revision may be stored before status has its pins; only those in memory have the validators.
            return before if before and record_pins(before.pins) == record_pins(recalled.pins) else recalled
        if before:
            return before
        resolved = self._maker.resolve(context, known)
        if resolved is None:
            return None
        if resolved.failure:
            failure = self._maker.failed(context, resolve_ticket(context), resolved.failure)
            raise failure if renew else _UnresolvedError(failure, resolved.found)
        self._maker.succeeded(context)
        sources = Sources(pins=resolved.found, requested_at=requested)
        context.state.resolved = (context.spec_version, sources)
        return sources

    def _recall(self, context: RevisionContext) -> Sources | None:
        """Return the pins of a kept revision of exactly this spec, which a wiped status must not change (rule 1)."""
        for digest in self._kept.named(context):
            found = self._kept.read(context, digest)
            known = match_pins(context.spec, recall_pins(found.terms.pins)) if found else (None,)
            pins = tuple(pin for pin in known if pin)
            sources = Sources(pins=pins, requested_at=context.requested_at)
            if (
                found
                and None not in known
                and inputs_digest(self._maker.request(context, sources)) == found.terms.inputs
            ):
                return sources
        return None

    def _revision(self, context: RevisionContext, sources: Sources) -> Revision | None:
        """Return the revision of these pins, kept or new; None while it is built."""
        request = self._maker.request(context, sources)
        inputs = inputs_digest(request)
        # Until its kinds are known a revision is named only in memory, not in status.
        others: list[Revision | PackedRevision] = []
        for digest in dict.fromkeys((*self._kept.named(context), *context.state.digests)):
            found = self._kept.read(context, digest)
            if found and found.terms.inputs == inputs:
                self._maker.cancel(context)
                self._maker.succeeded(context)
                return self._kept.revise(context, request, found)
            others.extend([context.state.packed.get(digest, found)] if found else [])
        made = self._maker.build(context, request, others)
        return self._keep(context, request, made) if made else None

    def _keep(self, context: RevisionContext, request: Request, made: Revision | PackedRevision) -> Revision | None:
        try:
            self._refuse_emptiness(context, made)
            made = self._kept.write(context, made)
        except BundleError as error:
            raise self._maker.failed(context, build_ticket(request), error) from None
        self._maker.succeeded(context)
        return self._kept.learn(context, made)

    def _refuse_downgrade(self, context: RevisionContext, sources: Sources) -> None:
        """Refuse lower versions than those that are installed, unless the spec allows them.

        Raises: BundleError (Downgrade).
        """
        if context.spec.allow_downgrade or not any(pin.version for pin in sources.pins):
            return
        if installed := self._kept.read(context, context.status.installed_revision):
            refuse_downgrade(sources.pins, recall_pins(installed.terms.pins))

    def _refuse_emptiness(self, context: RevisionContext, made: Revision | PackedRevision) -> None:
        """Refuse a revision without objects if there are some, since all of them would be pruned.

        Raises: BundleError (NoContent).
        """
        if has_objects(made):
            return
        last = self._kept.last_good(context)
        if last and has_objects(last):
            problem = "the content renders no objects, but the installed revision has some, which would be deleted"
            remedy = "correct the content or spec.config, or delete the BundleDeployment"
            raise BundleError(Reason.NO_CONTENT, f"spec: {problem}; {remedy}")
