"""Which revision a BundleDeployment asks for: pinned, at hand in the revision store, or being made.

Network and rendering go on elsewhere (background.py): a pass asks, and goes on with what is installed meanwhile.
Pins are recorded in status as soon as a pass knows them, unless what is made of them is at hand by then: with that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import TypeVar

from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment, SourcePin
from controller.build.builder import Builder
from controller.build.context import BuildContext
from controller.build.pins import Pins, Resolved, Sources, match_pins
from controller.build.request import Request, inputs_digest, terms_of
from controller.build.revision import PackedRevision, Revision, measure
from controller.build.validation import check
from controller.kube.discovery import Discovery
from controller.retries import Retries
from controller.revisions.background import Place, Preparations
from controller.revisions.identities import account_to_keep
from controller.revisions.large import LargeRevisions
from controller.revisions.polling import PURPOSE as POLL
from controller.revisions.polling import Poller
from controller.revisions.service_accounts import AccountPolicy
from controller.revisions.source_access import Assistant, Attempt
from controller.revisions.state import RevisionContext
from controller.revisions.store import RevisionStore, unpack_whole
from controller.status.report import Report
from controller.status.summary import summarize
from controller.status.writer import Publisher

log = logging.getLogger(__name__)

PREPARATION = "preparation"
RESOLVE, BUILD = PURPOSES = ("resolve", "build")
RESOLVING = "the sources are being resolved"
FETCHING = "the content is being fetched and rendered"
WAITING = "waiting for a free fetch worker: other BundleDeployments are fetched first"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a spec asks for, as far as that is known in this pass."""

    revision: Revision | None
    """To be worked on: the wanted one, or what was applied last where that cannot be had (rule 2)."""
    current: bool = False
    """Whether the revision is the one that the spec asks for."""
    failure: BundleError | None = None
    pending: str = ""
    """Digest of the one that the spec asks for, where hooks have to run before it is worked on."""
    fetching: str = ""
    """What is being done to get the one that the spec asks for."""
    sources: Sources | None = None
    """What is known of them; None: as status has it."""

    def report(self, context: RevisionContext) -> Report:
        """Return what is known before anything is compared: the rest stays as status has it."""
        status = context.status
        # Where something was begun and not finished, status has to go on telling which revision that was.
        pending = self.pending if status.managed_state else ""
        return Report(
            wanted=self.revision.digest if self.current and self.revision else pending,
            failure=self.failure,
            sources=self.sources.pins if self.sources else None,
            handled_reconcile_at=self.sources.requested_at if self.sources else None,
            fetching=self.fetching,
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )


class Finder:
    """Finds the wanted revision of BundleDeployments."""

    def __init__(
        self,
        *,
        builder: Builder,
        preparations: Preparations,
        revisions: RevisionStore,
        discovery: Discovery,
        retries: Retries,
        assistant: Assistant,
        poller: Poller,
        policy: AccountPolicy,
        publisher: Publisher,
        large: LargeRevisions,
    ) -> None:
        self._large = large
        self._builder, self._preparations, self._revisions = builder, preparations, revisions
        self._discovery, self._retries, self._assistant = discovery, retries, assistant
        self._poller, self._policy, self._publisher = poller, policy, publisher

    def find(self, context: RevisionContext, refusal: BundleError | None = None) -> Wanted:
        """Return what the spec asks for.

        Args:
            context: of the pass.
            refusal: why nothing is done for its sources.

        Raises: ApiError.
        """
        wanted = self._instead(context, refusal) if refusal else self._find(context)
        self._watch_secrets(context)
        return wanted

    def _find(self, context: RevisionContext) -> Wanted:
        sources: Sources | None = None
        try:
            self._check(context)
            sources = self._sources(context)
            revision = self._revision(context, sources) if sources else None
        except BundleError as error:
            return self._instead(context, error, sources)
        if revision is None:
            work = self._describe_work(context, BUILD if sources else RESOLVE)
            return Wanted(revision=self.last_good(context), fetching=work, sources=sources)
        context.state.attempt = Attempt()
        return Wanted(revision=revision, current=True, sources=sources)

    def _instead(self, context: RevisionContext, failure: BundleError, sources: Sources | None = None) -> Wanted:
        return Wanted(revision=self.last_good(context), failure=failure, sources=sources)

    def _describe_work(self, context: RevisionContext, purpose: str) -> str:
        if self._preparations.waits(context.name, purpose):
            return WAITING
        text = context.state.attempt.text
        return f"{FETCHING if purpose == BUILD else RESOLVING}{text and f' ({text})'}"

    def _check(self, context: RevisionContext) -> None:
        try:
            check(context.spec)
            self._policy.check(context.spec)
        except BundleError:
            self._preparations.cancel(context.name, *PURPOSES)
            context.state.attempt = Attempt()
            raise

    def poll(self, context: RevisionContext) -> BundleDeployment:
        """Ask floating refs again where that is due; returns the BundleDeployment with the pins that have changed.

        Raises: ApiError.
        """
        if not self._may_poll(context):
            self._poller.rest(context.deployment, context.state.poll)
            return context.deployment
        pins = self._poller.poll(context.deployment, context.state.poll)
        self._watch_secrets(context)
        return self._record(context, pins) if pins else context.deployment

    def _watch_secrets(self, context: RevisionContext) -> None:
        # Not while sources are asked: that a Secret is not what they failed with is why, and would be told on and on.
        if self._preparations.goes_on(context.name):
            return
        attempts = (context.state.attempt, context.state.poll.attempt)
        self._assistant.watch_secrets(context.name, attempts, share=context.share)

    def seconds_to_poll(self, context: RevisionContext) -> float | None:
        """Return in how many seconds a poll is due; None: none is ever, or one goes on."""
        return self._poller.seconds_to_next(context.deployment, context.state.poll) if self._may_poll(context) else None

    def _may_poll(self, context: RevisionContext) -> bool:
        """Whether a spec asks for polls and can be served, and nobody asks for a new resolution besides."""
        if not any(source.poll_interval for source in context.spec.sources):
            return False
        if context.requested_at != context.status.last_handled_reconcile_at:
            return False
        try:
            check(context.spec)  # what is wrong with it is told by `find`
            self._policy.check(context.spec)
        except BundleError:
            return False
        return True

    def retry(self, name: str) -> None:
        """Let the sources of a BundleDeployment be tried at once."""
        for key in (PREPARATION, POLL):
            self._retries.succeeded(name, key)

    def forget(self, name: str) -> None:
        """Stop what goes on for a BundleDeployment that needs no content any more."""
        self._preparations.cancel(name)
        self._assistant.watch_secrets(name, ())

    def read(self, context: RevisionContext, digest: str) -> Revision | None:
        """Return a revision from the store; None if there is none, or none that is whole.

        Raises: ApiError.
        """
        if digest and digest not in context.state.revisions:
            packed = self._revisions.read_packed(context.name, digest)
            kept = self._unpack(context, packed) if packed else None
            if kept is None:
                return None
            context.state.revisions[digest] = kept
        return context.state.revisions.get(digest)

    def _unpack(self, context: RevisionContext, packed: PackedRevision) -> Revision | None:
        """Return a revision; None if it is not as it was written.

        Raises: CrowdedError where it is large, and there is no room for it now.
        """
        try:
            size = measure(packed.objects)
        except ValueError:
            return None
        if self._large.enter(context.name, context.state.share, size):
            context.state.packed[packed.digest] = packed
        return unpack_whole(packed)

    def last_good(self, context: RevisionContext) -> Revision | None:
        """Return what was applied last: from its first write on that is the revision in status (rule 6).

        Raises: ApiError.
        """
        status = context.status
        # What was only prepared, since it is paused, has no kinds yet: these are written before the first apply.
        begun = status.revision and status.managed_kinds and not status.managed_state
        return self.read(context, status.revision if begun else status.installed_revision)

    def revision_before(self, context: RevisionContext, wanted: str) -> Revision | None:
        """Return the revision whose objects may be left beside the wanted one's (rule 6).

        Raises: ApiError.
        """
        state, status = context.state, context.status
        if status.installed_revision != wanted:
            state.before[wanted] = status.installed_revision
        elif status.managed_state:
            return None
        elif wanted not in state.before:  # since a restart
            state.kept = tuple(self._revisions.digests(context.name)) if state.kept is None else state.kept
            state.before[wanted] = next((each for each in state.kept if each != wanted), "")
        return self.read(context, state.before[wanted])

    def _record(self, context: RevisionContext, pins: tuple[SourcePin, ...]) -> BundleDeployment:
        """Write pins that a poll has found, and that something is being made of them: a kill must lose neither.

        Raises: ApiError.
        """
        status = context.status
        report = Report(
            sources=pins,
            fetching=FETCHING,
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )
        return self._publisher.write_status(context.deployment, summarize(context.deployment, report, context.now()))

    def _sources(self, context: RevisionContext) -> Sources | None:
        """Return a pin for each source; None while they are being resolved."""
        spec, status, requested = context.spec, context.status, context.requested_at
        renew = requested != status.last_handled_reconcile_at
        known = match_pins(spec, () if renew else status.sources)
        if None not in known:
            return Sources(pins=tuple(pin for pin in known if pin), requested_at=requested)
        if context.state.resolved and context.state.resolved[0] == context.spec_version:
            return context.state.resolved[1]
        ticket = f"resolve {context.spec_version}"
        resolved = self._prepare(
            context, ticket, RESOLVE, lambda cancelled, aid: self._resolve(context, known, cancelled, aid)
        )
        if resolved is None:
            return None
        if resolved.failure:
            if not renew:
                self._publisher.write_status(context.deployment, status.model_copy(update={"sources": resolved.found}))
            raise self._remember(context, ticket, resolved.failure)
        self._retries.succeeded(context.name, PREPARATION)
        sources = Sources(pins=resolved.found, requested_at=requested)
        context.state.resolved = (context.spec_version, sources)
        return sources

    def _resolve(self, context: RevisionContext, known: Pins, cancelled: Event, aid: BuildContext) -> Resolved:
        """Resolve sources; for a first install, go on with what comes next before a pass asks for it."""
        resolved = self._builder.resolve(context.spec, known, cancelled, aid)
        status = context.status
        if not (resolved.failure or status.revision or status.installed_revision or cancelled.is_set()):
            request = _request(context, Sources(pins=resolved.found, requested_at=context.requested_at))
            self._preparations.begin(
                context.name,
                _build_ticket(request),
                lambda cancelled: self._make(request, (), cancelled, aid),
                Place(share=context.share, purpose=BUILD),
            )
        return resolved

    def _revision(self, context: RevisionContext, sources: Sources) -> Revision | None:
        """Return the revision of these pins, from the store or made; None while it is being made."""
        name, status = context.name, context.status
        request = _request(context, sources)
        inputs = inputs_digest(request)
        # In memory alone it is while its kinds are not known yet: status names it when it is worked on.
        at_hand: list[Revision | PackedRevision] = []
        for digest in dict.fromkeys((status.revision, status.installed_revision, *context.state.digests)):
            kept = self.read(context, digest)
            if kept and kept.terms.inputs == inputs:
                self._preparations.cancel(name, *PURPOSES)
                self._retries.succeeded(name, PREPARATION)
                return self._with_terms_of(context, request, kept)
            at_hand.extend([context.state.packed.get(digest, kept)] if kept else [])
        ticket = _build_ticket(request)
        made = self._prepare(
            context, ticket, BUILD, lambda cancelled, aid: self._make(request, at_hand, cancelled, aid)
        )
        return self._keep(context, ticket, made) if made else None

    def _with_terms_of(self, context: RevisionContext, request: Request, kept: Revision) -> Revision:
        """Return a revision as the spec wants it treated now; what has changed is kept before it is acted upon.

        Objects and their digest stay: account, drift rules and optional kinds make no other revision (rule 2).
        """
        terms = terms_of(request, kept.terms.install_namespace, kept.terms.rendered_from)
        terms = replace(terms, left=kept.terms.left, account=account_to_keep(context.deployment, kept.terms))
        if terms == kept.terms:
            return kept
        revised = replace(kept, terms=terms)
        self._revisions.write(request.name, revised, context.metadata.uid)
        context.state.learn(revised)
        return revised

    def _keep(self, context: RevisionContext, ticket: str, made: Revision | PackedRevision) -> Revision | None:
        """Keep what was made; the same objects may have been made before, and others be left of older ones."""
        name = context.name
        status = context.status
        is_midway = status.managed_kinds and not status.managed_state  # it may be one of several that are kept
        same: Revision | PackedRevision | None = context.state.revisions.get(made.digest)
        if same is None and is_midway:
            same = self._revisions.read_packed(name, made.digest)
        account = account_to_keep(context.deployment, same.terms if same else None)
        made = replace(made, terms=replace(made.terms, account=account, left=same.terms.left if same else ()))
        try:
            self._revisions.write(name, made, context.metadata.uid)
        except BundleError as error:
            raise self._remember(context, ticket, error) from None
        self._retries.succeeded(name, PREPARATION)
        if isinstance(made, PackedRevision):
            context.state.dropped.add(made.digest)  # should there be no room for it now
            return self.read(context, made.digest)
        context.state.learn(made)
        return made

    def _make(
        self, request: Request, at_hand: Sequence[Revision | PackedRevision], cancelled: Event, aid: BuildContext
    ) -> Revision | PackedRevision:
        return self._builder.build(request, self._discovery.capabilities(), cancelled, aid, kept=at_hand)

    def _prepare(
        self,
        context: RevisionContext,
        ticket: str,
        purpose: str,
        work: Callable[[Event, BuildContext], Result],
    ) -> Result | None:
        """Return the result of slow work; None while it goes on.

        Raises: BundleError with what it failed with, also while it is tried again: an unchanged failure is no news.
        """
        name, tried = context.name, _tried(context, ticket)
        if held := self._retries.holding(name, PREPARATION, tried):
            raise held
        if context.state.attempt.ticket != context.spec_version:
            context.state.attempt = Attempt(context.spec_version)
        aid = self._assistant.aid(context.deployment, context.state.attempt)
        try:
            place = Place(share=context.share, purpose=purpose)
            result = self._preparations.take(name, ticket, lambda cancelled: work(cancelled, aid), place)
        except BundleError as error:
            raise self._remember(context, ticket, error) from None
        if result is None and (last := self._retries.last(name, PREPARATION, tried)):
            raise last
        return result

    def _remember(self, context: RevisionContext, ticket: str, error: BundleError) -> BundleError:
        name = context.name
        self._retries.failed(name, PREPARATION, _tried(context, ticket), error)
        about = {"BundleDeployment": name, "reason": error.reason.value, "problem": error.message}
        log.warning("revision not available", extra=about)
        return error


def _tried(context: RevisionContext, ticket: str) -> str:
    """What was tried: every change of the spec or the annotation lets a failure be tried again at once."""
    return f"{ticket} {context.spec_version}"


def _request(context: RevisionContext, sources: Sources) -> Request:
    return Request(
        name=context.name,
        spec=context.spec,
        pins=sources.pins,
        install_namespace=context.spec.install_namespace or context.status.install_namespace,
        requested_at=sources.requested_at,
    )


def _build_ticket(request: Request) -> str:
    return f"build {inputs_digest(request)}"
