"""Which revision a BundleDeployment asks for: pinned, at hand in the revision store, or being made.

Network and rendering go on elsewhere (background.py): a pass asks, and goes on with what is installed meanwhile.
Pins are recorded in status as soon as a pass knows them, unless what is made of them is at hand by then: with that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event
from typing import TypeVar

from api import names
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
from controller.revisions.state import RevisionState
from controller.revisions.store import RevisionStore, unpack_whole
from controller.sharing.shares import share_of
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

    def report(self, deployment: BundleDeployment) -> Report:
        """Return what is known before anything is compared: the rest stays as status has it."""
        status = deployment.status
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
        now: Callable[[], datetime],
    ) -> None:
        self._large = large
        self._builder, self._preparations, self._revisions = builder, preparations, revisions
        self._discovery, self._retries, self._assistant = discovery, retries, assistant
        self._poller, self._policy, self._publisher, self._now = poller, policy, publisher, now

    def find(self, deployment: BundleDeployment, memory: RevisionState, refusal: BundleError | None = None) -> Wanted:
        """Return what the spec asks for.

        Args:
            deployment: whose it is.
            memory: of it.
            refusal: why nothing is done for its sources.

        Raises: ApiError.
        """
        wanted = self._instead(deployment, refusal, memory) if refusal else self._find(deployment, memory)
        self._watch_secrets(deployment, memory)
        return wanted

    def _find(self, deployment: BundleDeployment, memory: RevisionState) -> Wanted:
        sources: Sources | None = None
        try:
            self._check(deployment, memory)
            sources = self._sources(deployment, memory)
            revision = self._revision(deployment, sources, memory) if sources else None
        except BundleError as error:
            return self._instead(deployment, error, memory, sources)
        if revision is None:
            work = self._describe_work(deployment, memory, BUILD if sources else RESOLVE)
            return Wanted(revision=self.last_good(deployment, memory), fetching=work, sources=sources)
        memory.attempt = Attempt()
        return Wanted(revision=revision, current=True, sources=sources)

    def _instead(
        self, deployment: BundleDeployment, failure: BundleError, memory: RevisionState, sources: Sources | None = None
    ) -> Wanted:
        return Wanted(revision=self.last_good(deployment, memory), failure=failure, sources=sources)

    def _describe_work(self, deployment: BundleDeployment, memory: RevisionState, purpose: str) -> str:
        if self._preparations.waits(deployment.metadata.name, purpose):
            return WAITING
        text = memory.attempt.text
        return f"{FETCHING if purpose == BUILD else RESOLVING}{text and f' ({text})'}"

    def _check(self, deployment: BundleDeployment, memory: RevisionState) -> None:
        try:
            check(deployment.spec)
            self._policy.check(deployment.spec)
        except BundleError:
            self._preparations.cancel(deployment.metadata.name, *PURPOSES)
            memory.attempt = Attempt()
            raise

    def poll(self, deployment: BundleDeployment, memory: RevisionState) -> BundleDeployment:
        """Ask floating refs again where that is due; returns the BundleDeployment with the pins that have changed.

        Raises: ApiError.
        """
        if not self._may_poll(deployment):
            self._poller.rest(deployment, memory.poll)
            return deployment
        pins = self._poller.poll(deployment, memory.poll)
        self._watch_secrets(deployment, memory)
        return self._record(deployment, pins) if pins else deployment

    def _watch_secrets(self, deployment: BundleDeployment, memory: RevisionState) -> None:
        # Not while sources are asked: that a Secret is not what they failed with is why, and would be told on and on.
        if self._preparations.goes_on(deployment.metadata.name):
            return
        attempts = (memory.attempt, memory.poll.attempt)
        self._assistant.watch_secrets(deployment.metadata.name, attempts, share=share_of(deployment))

    def seconds_to_poll(self, deployment: BundleDeployment, memory: RevisionState) -> float | None:
        """Return in how many seconds a poll is due; None: none is ever, or one goes on."""
        return self._poller.seconds_to_next(deployment, memory.poll) if self._may_poll(deployment) else None

    def _may_poll(self, deployment: BundleDeployment) -> bool:
        """Whether a spec asks for polls and can be served, and nobody asks for a new resolution besides."""
        if not any(source.poll_interval for source in deployment.spec.sources):
            return False
        if requested_at(deployment) != deployment.status.last_handled_reconcile_at:
            return False
        try:
            check(deployment.spec)  # what is wrong with it is told by `find`
            self._policy.check(deployment.spec)
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

    def read(self, name: str, digest: str, memory: RevisionState) -> Revision | None:
        """Return a revision from the store; None if there is none, or none that is whole.

        Raises: ApiError.
        """
        if digest and digest not in memory.revisions:
            packed = self._revisions.read_packed(name, digest)
            kept = self._unpack(name, packed, memory) if packed else None
            if kept is None:
                return None
            memory.revisions[digest] = kept
        return memory.revisions.get(digest)

    def _unpack(self, name: str, packed: PackedRevision, memory: RevisionState) -> Revision | None:
        """Return a revision; None if it is not as it was written.

        Raises: CrowdedError where it is large, and there is no room for it now.
        """
        try:
            size = measure(packed.objects)
        except ValueError:
            return None
        if self._large.enter(name, memory.share, size):
            memory.packed[packed.digest] = packed
        return unpack_whole(packed)

    def last_good(self, deployment: BundleDeployment, memory: RevisionState) -> Revision | None:
        """Return what was applied last: from its first write on that is the revision in status (rule 6).

        Raises: ApiError.
        """
        status = deployment.status
        # What was only prepared, since it is paused, has no kinds yet: these are written before the first apply.
        begun = status.revision and status.managed_kinds and not status.managed_state
        return self.read(deployment.metadata.name, status.revision if begun else status.installed_revision, memory)

    def revision_before(self, deployment: BundleDeployment, wanted: str, memory: RevisionState) -> Revision | None:
        """Return the revision whose objects may be left beside the wanted one's (rule 6).

        Raises: ApiError.
        """
        name, status = deployment.metadata.name, deployment.status
        if status.installed_revision != wanted:
            memory.before[wanted] = status.installed_revision
        elif status.managed_state:
            return None
        elif wanted not in memory.before:  # since a restart
            memory.kept = tuple(self._revisions.digests(name)) if memory.kept is None else memory.kept
            memory.before[wanted] = next((each for each in memory.kept if each != wanted), "")
        return self.read(name, memory.before[wanted], memory)

    def _record(self, deployment: BundleDeployment, pins: tuple[SourcePin, ...]) -> BundleDeployment:
        """Write pins that a poll has found, and that something is being made of them: a kill must lose neither.

        Raises: ApiError.
        """
        status = deployment.status
        report = Report(
            sources=pins,
            fetching=FETCHING,
            install_namespace=status.install_namespace,
            managed_state=status.managed_state,
            managed_kinds=status.managed_kinds,
        )
        return self._publisher.write_status(deployment, summarize(deployment, report, self._now()))

    def _sources(self, deployment: BundleDeployment, memory: RevisionState) -> Sources | None:
        """Return a pin for each source; None while they are being resolved."""
        spec, status, requested = deployment.spec, deployment.status, requested_at(deployment)
        renew = requested != status.last_handled_reconcile_at
        known = match_pins(spec, () if renew else status.sources)
        if None not in known:
            return Sources(pins=tuple(pin for pin in known if pin), requested_at=requested)
        if memory.resolved and memory.resolved[0] == _asked(deployment):
            return memory.resolved[1]
        ticket = f"resolve {_asked(deployment)}"
        resolved = self._prepare(
            deployment, ticket, memory, RESOLVE, lambda cancelled, aid: self._resolve(deployment, known, cancelled, aid)
        )
        if resolved is None:
            return None
        if resolved.failure:
            if not renew:
                self._publisher.write_status(deployment, status.model_copy(update={"sources": resolved.found}))
            raise self._remember(deployment, ticket, resolved.failure)
        self._retries.succeeded(deployment.metadata.name, PREPARATION)
        sources = Sources(pins=resolved.found, requested_at=requested)
        memory.resolved = (_asked(deployment), sources)
        return sources

    def _resolve(self, deployment: BundleDeployment, known: Pins, cancelled: Event, aid: BuildContext) -> Resolved:
        """Resolve sources; for a first install, go on with what comes next before a pass asks for it."""
        resolved = self._builder.resolve(deployment.spec, known, cancelled, aid)
        status = deployment.status
        if not (resolved.failure or status.revision or status.installed_revision or cancelled.is_set()):
            request = _request(deployment, Sources(pins=resolved.found, requested_at=requested_at(deployment)))
            self._preparations.begin(
                deployment.metadata.name,
                _build_ticket(request),
                lambda cancelled: self._make(request, (), cancelled, aid),
                Place(share=share_of(deployment), purpose=BUILD),
            )
        return resolved

    def _revision(self, deployment: BundleDeployment, sources: Sources, memory: RevisionState) -> Revision | None:
        """Return the revision of these pins, from the store or made; None while it is being made."""
        name, status = deployment.metadata.name, deployment.status
        request = _request(deployment, sources)
        inputs = inputs_digest(request)
        # In memory alone it is while its kinds are not known yet: status names it when it is worked on.
        at_hand: list[Revision | PackedRevision] = []
        for digest in dict.fromkeys((status.revision, status.installed_revision, *memory.digests)):
            kept = self.read(name, digest, memory)
            if kept and kept.terms.inputs == inputs:
                self._preparations.cancel(name, *PURPOSES)
                self._retries.succeeded(name, PREPARATION)
                return self._with_terms_of(deployment, request, kept, memory)
            at_hand.extend([memory.packed.get(digest, kept)] if kept else [])
        ticket = _build_ticket(request)
        made = self._prepare(
            deployment, ticket, memory, BUILD, lambda cancelled, aid: self._make(request, at_hand, cancelled, aid)
        )
        return self._keep(deployment, ticket, made, memory) if made else None

    def _with_terms_of(
        self, deployment: BundleDeployment, request: Request, kept: Revision, memory: RevisionState
    ) -> Revision:
        """Return a revision as the spec wants it treated now; what has changed is kept before it is acted upon.

        Objects and their digest stay: account, drift rules and optional kinds make no other revision (rule 2).
        """
        terms = terms_of(request, kept.terms.install_namespace, kept.terms.rendered_from)
        terms = replace(terms, left=kept.terms.left, account=account_to_keep(deployment, kept.terms))
        if terms == kept.terms:
            return kept
        revised = replace(kept, terms=terms)
        self._revisions.write(request.name, revised, deployment.metadata.uid)
        memory.learn(revised)
        return revised

    def _keep(
        self, deployment: BundleDeployment, ticket: str, made: Revision | PackedRevision, memory: RevisionState
    ) -> Revision | None:
        """Keep what was made; the same objects may have been made before, and others be left of older ones."""
        name = deployment.metadata.name
        status = deployment.status
        is_midway = status.managed_kinds and not status.managed_state  # it may be one of several that are kept
        same: Revision | PackedRevision | None = memory.revisions.get(made.digest)
        if same is None and is_midway:
            same = self._revisions.read_packed(name, made.digest)
        account = account_to_keep(deployment, same.terms if same else None)
        made = replace(made, terms=replace(made.terms, account=account, left=same.terms.left if same else ()))
        try:
            self._revisions.write(name, made, deployment.metadata.uid)
        except BundleError as error:
            raise self._remember(deployment, ticket, error) from None
        self._retries.succeeded(name, PREPARATION)
        if isinstance(made, PackedRevision):
            memory.dropped.add(made.digest)  # should there be no room for it now
            return self.read(name, made.digest, memory)
        memory.learn(made)
        return made

    def _make(
        self, request: Request, at_hand: Sequence[Revision | PackedRevision], cancelled: Event, aid: BuildContext
    ) -> Revision | PackedRevision:
        return self._builder.build(request, self._discovery.capabilities(), cancelled, aid, kept=at_hand)

    def _prepare(
        self,
        deployment: BundleDeployment,
        ticket: str,
        memory: RevisionState,
        purpose: str,
        work: Callable[[Event, BuildContext], Result],
    ) -> Result | None:
        """Return the result of slow work; None while it goes on.

        Raises: BundleError with what it failed with, also while it is tried again: an unchanged failure is no news.
        """
        name, attempt = deployment.metadata.name, _attempt(deployment, ticket)
        if held := self._retries.holding(name, PREPARATION, attempt):
            raise held
        if memory.attempt.ticket != (asked := _asked(deployment)):
            memory.attempt = Attempt(asked)
        aid = self._assistant.aid(deployment, memory.attempt)
        try:
            place = Place(share=share_of(deployment), purpose=purpose)
            result = self._preparations.take(name, ticket, lambda cancelled: work(cancelled, aid), place)
        except BundleError as error:
            raise self._remember(deployment, ticket, error) from None
        if result is None and (last := self._retries.last(name, PREPARATION, attempt)):
            raise last
        return result

    def _remember(self, deployment: BundleDeployment, ticket: str, error: BundleError) -> BundleError:
        name = deployment.metadata.name
        self._retries.failed(name, PREPARATION, _attempt(deployment, ticket), error)
        about = {"BundleDeployment": name, "reason": error.reason.value, "problem": error.message}
        log.warning("revision not available", extra=about)
        return error


def _attempt(deployment: BundleDeployment, ticket: str) -> str:
    """What was tried: every change of the spec or the annotation lets a failure be tried again at once."""
    return f"{ticket} {_asked(deployment)}"


def _asked(deployment: BundleDeployment) -> str:
    """What both resolving and fetching are for."""
    return f"{deployment.metadata.generation} {requested_at(deployment)}"


def _request(deployment: BundleDeployment, sources: Sources) -> Request:
    return Request(
        name=deployment.metadata.name,
        spec=deployment.spec,
        pins=sources.pins,
        install_namespace=deployment.spec.install_namespace or deployment.status.install_namespace,
        requested_at=sources.requested_at,
    )


def _build_ticket(request: Request) -> str:
    return f"build {inputs_digest(request)}"


def requested_at(deployment: BundleDeployment) -> str:
    """Return the value of the annotation that asks for everything anew; to take it off asks for nothing."""
    obeyed = deployment.status.last_handled_reconcile_at
    return deployment.metadata.annotations.get(names.RECONCILE_REQUESTED_AT) or obeyed
