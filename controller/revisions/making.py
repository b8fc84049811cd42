"""Having sources resolved and revisions built, in the background (background.py), and the book of what failed there.

A pass asks for a result by a ticket, which names what the work depends on. A failure is kept as what was tried, which
is that and what the spec asks for: with another generation or annotation it is tried again at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Event
from typing import TypeVar

from api.errors import BundleError
from controller.build.builder import Builder
from controller.build.context import BuildContext
from controller.build.pins import Pins, Resolved, Sources
from controller.build.request import Request, inputs_digest
from controller.build.revision import PackedRevision, Revision
from controller.kube.discovery import Discovery
from controller.retries import Retries
from controller.revisions.background import BackgroundWork, Place
from controller.revisions.source_access import SourceAccess, SourceProgress
from controller.revisions.state import RevisionContext

log = logging.getLogger(__name__)

PREPARATION = "preparation"
RESOLVE, BUILD = PURPOSES = ("resolve", "build")
RESOLVING = "the sources are being resolved"
FETCHING = "the content is being fetched and rendered"
WAITING = "waiting for a free fetch worker: other BundleDeployments are fetched first"
Result = TypeVar("Result")


class Maker:
    """Makes revisions."""

    def __init__(
        self,
        *,
        builder: Builder,
        discovery: Discovery,
        background: BackgroundWork,
        access: SourceAccess,
        retries: Retries,
    ) -> None:
        self._builder, self._discovery = builder, discovery
        self._background, self._access, self._retries = background, access, retries

    def resolve(self, context: RevisionContext, known: Pins) -> Resolved | None:
        """Return what the sources are resolved to; None while they are being resolved.

        Args:
            context: of the pass.
            known: the pins that stay; None where a source is asked.

        Raises: BundleError.
        """
        return self._take(
            context,
            resolve_ticket(context),
            RESOLVE,
            lambda cancelled, build_context: self._resolve(context, known, cancelled, build_context),
        )

    def build(
        self, context: RevisionContext, request: Request, kept: Sequence[Revision | PackedRevision]
    ) -> Revision | PackedRevision | None:
        """Return the revision that is built; None while it is being built.

        Args:
            context: of the pass.
            request: what is built.
            kept: revisions of which it may be one.

        Raises: BundleError.
        """
        return self._take(
            context,
            build_ticket(request),
            BUILD,
            lambda cancelled, build_context: self._build(request, kept, cancelled, build_context),
        )

    def describe(self, context: RevisionContext, purpose: str) -> str:
        """Return what is being done, for status."""
        if self._background.waits(context.name, purpose):
            return WAITING
        text = context.state.source_progress.text
        return f"{FETCHING if purpose == BUILD else RESOLVING}{text and f' ({text})'}"

    def watch_secrets(self, context: RevisionContext) -> None:
        """Watch the Secrets that sources fail for."""
        # Not while sources are asked: that a Secret is not what they failed with is why, and would be told on and on.
        if self._background.goes_on(context.name):
            return
        progress = (context.state.source_progress, context.state.poll.progress)
        self._access.watch_secrets(context.name, progress, share=context.share)

    def failed(self, context: RevisionContext, ticket: str, error: BundleError) -> BundleError:
        """Note a failure; returns it."""
        self._retries.failed(context.name, PREPARATION, _tried(context, ticket), error)
        about = {"BundleDeployment": context.name, "reason": error.reason.value, "problem": error.message}
        log.warning("revision not available", extra=about)
        return error

    def succeeded(self, context: RevisionContext) -> None:
        """Forget what has failed."""
        self._retries.succeeded(context.name, PREPARATION)

    def retry(self, name: str) -> None:
        """Let what failed be tried at once."""
        self._retries.succeeded(name, PREPARATION)

    def cancel(self, context: RevisionContext) -> None:
        """Stop resolving and building; polls go on."""
        self._background.cancel(context.name, *PURPOSES)

    def forget(self, name: str) -> None:
        """Stop all that goes on for a BundleDeployment that needs no content any more."""
        self._background.cancel(name)
        self._access.watch_secrets(name, ())

    def _resolve(
        self, context: RevisionContext, known: Pins, cancelled: Event, build_context: BuildContext
    ) -> Resolved:
        """Resolve sources; for a first install, go on with what comes next before a pass asks for it."""
        resolved = self._builder.resolve(context.spec, known, cancelled, build_context)
        status = context.status
        if not (resolved.failure or status.revision or status.installed_revision or cancelled.is_set()):
            request = make_request(context, Sources(pins=resolved.found, requested_at=context.requested_at))
            self._background.begin(
                context.name,
                build_ticket(request),
                lambda cancelled: self._build(request, (), cancelled, build_context),
                Place(share=context.share, purpose=BUILD),
            )
        return resolved

    def _build(
        self, request: Request, kept: Sequence[Revision | PackedRevision], cancelled: Event, build_context: BuildContext
    ) -> Revision | PackedRevision:
        return self._builder.build(request, self._discovery.capabilities(), cancelled, build_context, kept=kept)

    def _take(
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
        if context.state.source_progress.ticket != context.spec_version:
            context.state.source_progress = SourceProgress(context.spec_version)
        build_context = self._access.build_context(context.deployment, context.state.source_progress)
        try:
            place = Place(share=context.share, purpose=purpose)
            result = self._background.take(name, ticket, lambda cancelled: work(cancelled, build_context), place)
        except BundleError as error:
            raise self.failed(context, ticket, error) from None
        if result is None and (last := self._retries.last(name, PREPARATION, tried)):
            raise last
        return result


def _tried(context: RevisionContext, ticket: str) -> str:
    """What was tried: every change of the spec or the annotation lets a failure be tried again at once."""
    return f"{ticket} {context.spec_version}"


def resolve_ticket(context: RevisionContext) -> str:
    """Return the ticket of resolving sources."""
    return f"resolve {context.spec_version}"


def build_ticket(request: Request) -> str:
    """Return the ticket of building a revision."""
    return f"build {inputs_digest(request)}"


def make_request(context: RevisionContext, sources: Sources) -> Request:
    """Return what is built of the sources of a BundleDeployment."""
    return Request(
        name=context.name,
        spec=context.spec,
        pins=sources.pins,
        install_namespace=context.spec.install_namespace or context.status.install_namespace,
        requested_at=sources.requested_at,
    )
