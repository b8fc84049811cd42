"""Resolves sources and builds revisions in the background (background.py), and records failures for their retries.

A pass asks for a result by a ticket, which identifies the inputs. A failure is recorded for the ticket and the version
of the spec: after a change of the spec or the annotation it is retried immediately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from threading import Event
from typing import TypeVar

from api.errors import BundleError
from controller.bugs import keep_first
from controller.build.builder import Builder
from controller.build.config_values import withhold
from controller.build.context import BuildContext
from controller.build.pins import Pins, Resolved, Sources
from controller.build.recorded_kinds import recall_kinds, record_kinds
from controller.build.request import Request, inputs_digest
from controller.build.revision import PackedRevision, RecordedKind, Revision
from controller.kube.discovery import Discovery
from controller.retries import Retries
from controller.revisions.background import BackgroundWork, Place
from controller.revisions.inputs.config_objects import ConfigObjects
from controller.revisions.source_access import SourceAccess, SourceProgress
from controller.revisions.state import RevisionContext

log = logging.getLogger(__name__)

PREPARATION = "preparation"
RESOLVE, BUILD = PURPOSES = ("resolve", "build")
RESOLVING = "resolving the sources"
FETCHING = "fetching and rendering the content"
QUEUED = "queued for a fetch worker behind other BundleDeployments"
Result = TypeVar("Result")


class Maker:
    """Thread-safe; one pass at a time for each BundleDeployment.

    Args:
        is_aggregated: whether another API server may serve a group and kind.
    """

    def __init__(
        self,
        *,
        builder: Builder,
        discovery: Discovery,
        background: BackgroundWork,
        access: SourceAccess,
        configs: ConfigObjects,
        retries: Retries,
        is_aggregated: Callable[[str, str], bool],
    ) -> None:
        self._builder, self._discovery, self._is_aggregated = builder, discovery, is_aggregated
        self._background, self._access, self._configs, self._retries = background, access, configs, retries

    def resolve(self, context: RevisionContext, known: Pins) -> Resolved | None:
        """Return the resolved sources; None while they are being resolved.

        Args:
            context: of the pass.
            known: a pin for each source that needs no resolution; None for each that does.

        Raises: BundleError, also from an earlier pass while the retry is pending or active.
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
        """Return the revision that was built; None while it is being built.

        Args:
            context: of the pass.
            request: what to build.
            kept: revisions that it may turn out to be.

        Raises: BundleError, also from an earlier pass while the retry is pending or active.
        """
        # What was started last counts if nothing was ever installed completely.
        last = sorted(kept, key=lambda each: each.digest != context.status.installed_revision)
        known = last[0].terms.kinds if last else None
        return self._take(
            context,
            build_ticket(request),
            BUILD,
            lambda cancelled, build_context: self._build(request, kept, cancelled, build_context, known),
        )

    def request(self, context: RevisionContext, sources: Sources) -> Request:
        """Return the request to build the revision of a BundleDeployment from its sources, with its config.

        Raises: BundleError if its config is not available; ApiError.
        """
        request, state = make_request(context, sources), context.state
        if not context.spec.config_from:
            if state.config:
                state.config = None
                self._configs.forget(context.name)
            return request
        # The version first: what changes while this reads it is read again.
        found = self._configs.read(context.deployment, context.config_version, state.config, context.share)
        state.config = found
        if found.failure:
            raise found.failure
        return replace(request, spec=context.spec.model_copy(update={"config": found.config}))

    def describe(self, context: RevisionContext, purpose: str) -> str:
        """Return what is being done for a purpose, for status."""
        if self._background.is_queued(context.name, purpose):
            return QUEUED
        text = context.state.source_progress.text
        return f"{FETCHING if purpose == BUILD else RESOLVING}{text and f' ({text})'}"

    def watch_secrets(self, context: RevisionContext) -> None:
        """Watch the Secrets of sources that fail."""
        # Not while sources are retried because of a changed Secret: that change would be reported over and over.
        if self._background.is_busy(context.name):
            return
        progress = (context.state.source_progress, context.state.poll.progress)
        self._access.watch_secrets(context.name, progress, share=context.share)

    def failed(self, context: RevisionContext, ticket: str, error: BundleError) -> BundleError:
        """Record a failure for its retry, and log it if it is news; returns it."""
        tried = _tried(context, ticket)
        last = self._retries.last(context.name, PREPARATION, tried)
        self._retries.failed(context.name, PREPARATION, tried, error)
        about = {"BundleDeployment": context.name, "reason": error.reason.value, "problem": error.message}
        is_news = last is None or last.message != error.message
        log.log(logging.WARNING if is_news else logging.DEBUG, "revision not available", extra=about)
        return error

    def succeeded(self, context: RevisionContext) -> None:
        """Forget the recorded failure."""
        self._retries.succeeded(context.name, PREPARATION)

    def retry(self, name: str) -> None:
        """Retry a failure in the next pass."""
        self._retries.succeeded(name, PREPARATION)

    def cancel(self, context: RevisionContext) -> None:
        """Cancel resolving and building, but not polls."""
        self._background.cancel(context.name, *PURPOSES)

    def forget(self, name: str) -> None:
        """Cancel all work for a BundleDeployment that needs no content any more."""
        self._background.cancel(name)
        self._access.watch_secrets(name, ())
        self._configs.forget(name)

    def _resolve(
        self, context: RevisionContext, known: Pins, cancelled: Event, build_context: BuildContext
    ) -> Resolved:
        """Resolve sources; for a first install, start to build before a pass asks for it."""
        resolved = self._builder.resolve(context.spec, known, cancelled, build_context)
        status = context.status
        is_first = not (status.revision or status.installed_revision)
        if is_first and not (resolved.failure or context.spec.config_from or cancelled.is_set()):
            request = make_request(context, Sources(pins=resolved.found, requested_at=context.requested_at))
            self._background.begin(
                context.name,
                build_ticket(request),
                lambda cancelled: self._build(request, (), cancelled, build_context),
                Place(share=context.share, purpose=BUILD),
            )
        return resolved

    def _build(
        self,
        request: Request,
        kept: Sequence[Revision | PackedRevision],
        cancelled: Event,
        build_context: BuildContext,
        known: Collection[RecordedKind] | None = None,
    ) -> Revision | PackedRevision:
        """Build with the capabilities of now; `known` are the kinds that the installed revision was rendered with."""
        capabilities = recall_kinds(self._discovery.capabilities(), known)
        try:
            made = self._builder.build(request, capabilities, cancelled, build_context, kept=kept)
        except BundleError as error:
            raise withhold(error, request.spec) from None
        return record_kinds(made, capabilities, self._is_aggregated)

    def _take(
        self,
        context: RevisionContext,
        ticket: str,
        purpose: str,
        work: Callable[[Event, BuildContext], Result],
    ) -> Result | None:
        """Return the result of slow work; None while it is active. A failure is raised until its retry has ended."""
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
            last = self._retries.last(name, PREPARATION, tried)
            raise self.failed(context, ticket, keep_first(last, error)) from None
        if result is None and (last := self._retries.last(name, PREPARATION, tried)):
            raise last
        return result


def _tried(context: RevisionContext, ticket: str) -> str:
    """Return the key of a failure: every change of the spec or the annotation makes a new one."""
    return f"{ticket} {context.spec_version}"


def resolve_ticket(context: RevisionContext) -> str:
    """Return the ticket of resolving sources."""
    return f"resolve {context.spec_version}"


def build_ticket(request: Request) -> str:
    """Return the ticket of building a revision."""
    return f"build {inputs_digest(request)}"


def make_request(context: RevisionContext, sources: Sources) -> Request:
    """Return the request to build the revision of a BundleDeployment from its sources."""
    return Request(
        name=context.name,
        spec=context.spec,
        pins=sources.pins,
        install_namespace=context.spec.install_namespace or context.status.install_namespace,
        requested_at=sources.requested_at,
    )
