"""Finds the revision that a BundleDeployment asks for: pinned, kept in the revision store, or still being built.

Sources are resolved and revisions built in the background (revisions/background.py); meanwhile a pass continues with
what is installed. A pass asks for a result by a ticket, which identifies the inputs. A failure is recorded for the
ticket and the version of the spec: after a change of the spec or the annotation it is retried immediately. Pins are
recorded in status as soon as a pass knows them, together with the revision if that is available by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.plugins import CustomKind
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin
from rukpak.controller.building.capabilities import recall_custom_kinds, recall_kinds, record_kinds
from rukpak.controller.building.config_values import needs_objects, withhold
from rukpak.controller.building.request import (
    BuildContext,
    Pins,
    Request,
    Resolved,
    check,
    find_unchecked,
    inputs_digest,
    match_pins,
    recall_pins,
    record_pins,
)
from rukpak.controller.building.revision import PackedRevision, Revision, has_objects
from rukpak.controller.formats.applicable import Kind
from rukpak.controller.observe.following import ObjectReference, Topic
from rukpak.controller.observe.health import expressions
from rukpak.controller.reconcile import stored
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.memory import PREPARATION
from rukpak.controller.revisions.approval import refuse_downgrade
from rukpak.controller.revisions.background import Place
from rukpak.controller.revisions.polling import is_polled
from rukpak.controller.revisions.references import KnownConfig
from rukpak.controller.revisions.source_access import SourceProgress, watch_secrets
from rukpak.controller.status.history import find_rollback
from rukpak.controller.status.report import Held, Report, list_some, short
from rukpak.controller.telemetry import keep_first

log = logging.getLogger(__name__)

NAMED = 10
"""Kept revisions that a message names."""
CONFIG = "config"
RESOLVE, BUILD = PURPOSES = ("resolve", "build")
RESOLVING = "resolving the sources"
FETCHING = "fetching and rendering the content"
QUEUED = "queued for a fetch worker behind other BundleDeployments"
Result = TypeVar("Result")


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
    sources: tuple[SourcePin, ...] | None = None
    """The pins of its sources; None: unchanged."""

    def report(self, context: Context) -> Report:
        """Return what is known before anything is compared; the rest is copied from status."""
        # Status must keep naming a revision that was started and not finished.
        pending = self.pending if context.status.managed_state else ""
        return Report(
            wanted=self.revision.digest if self.current and self.revision else pending,
            failure=self.failure,
            held=self.held,
            sources=self.sources,
            handled_reconcile_at=None if self.sources is None else context.requested_at,
            fetching=self.fetching,
        )


def choose(deployment: BundleDeployment, sources: tuple[SourcePin, ...] | None) -> str:
    """Return the digest of the kept revision that is wanted; empty: the one that the sources lead to. Pure.

    What a user pins comes first, then the rollback of an upgrade that has failed.

    Args:
        deployment: with its status.
        sources: pins of its sources; None while they are being resolved.
    """
    if deployment.spec.pinned_revision:
        return deployment.spec.pinned_revision
    rollback = None if sources is None else find_rollback(deployment, sources)
    return rollback.to_revision if rollback else ""


def _is_renewed(context: Context, last: Revision | None, sources: tuple[SourcePin, ...] | None) -> bool:
    status = context.status
    if not context.is_installed or last is None or not last.digest == status.revision == status.installed_revision:
        return False
    known = {(pin.spec_digest, pin.digest) for pin in status.installed_sources}
    return sources is None or {(pin.spec_digest, pin.digest) for pin in sources} == known


def find_wanted(context: Context, refusal: BundleError | None = None) -> Wanted:
    """Return what the spec asks for.

    Args:
        context: of the pass.
        refusal: why its sources may not be used.

    Raises: ApiError.
    """
    wanted = _keep_last(context, refusal) if refusal else _find_wanted(context)
    _watch_secrets(context)
    return wanted


def _find_wanted(context: Context) -> Wanted:
    sources: tuple[SourcePin, ...] | None = None
    try:
        _check(context)
        sources, failure = _sources(context)
        if failure:
            return _keep_last(context, failure, sources)
        if digest := choose(context.deployment, sources):
            return _recall_revision(context, digest, sources)
        revision = None if sources is None else _revision(context, sources)
    except BundleError as error:
        return _keep_last(context, error, sources)
    if revision is None:
        work = _describe_work(context, RESOLVE if sources is None else BUILD)
        last = stored.last_good(context)
        return Wanted(revision=last, current=_is_renewed(context, last, sources), fetching=work, sources=sources)
    stored.drop_replaced(context, revision.digest)
    return Wanted(revision=revision, current=True, sources=sources)


def _recall_revision(context: Context, digest: str, sources: tuple[SourcePin, ...] | None) -> Wanted:
    """Return a revision that is kept, without asking sources or rendering.

    Raises: BundleError (RevisionNotKept, VerificationFailed), CrowdedError, ApiError.
    """
    _end_preparation(context)
    revision = stored.recall(context, digest)
    if revision is None:
        kept = ", ".join(short(each.revision) for each in context.status.history[:NAMED]) or "none"
        message = (
            f"spec.pinnedRevision: revision {short(digest)} is not kept; kept revisions: {kept}; "
            "name one of them in full, or remove the field"
        )
        raise BundleError(Reason.REVISION_NOT_KEPT, message)
    return Wanted(revision=revision, recalled=True, current=True, sources=sources)


def _keep_last(context: Context, failure: BundleError, sources: tuple[SourcePin, ...] | None = None) -> Wanted:
    return Wanted(revision=stored.last_good(context), failure=failure, sources=sources)


def _check(context: Context) -> None:
    try:
        if not context.spec.pinned_revision:
            check(context.spec)
        context.services.accounts.policy.check(context.spec)
        _check_expressions(context)
    except BundleError:
        _end_preparation(context)
        raise


def _check_expressions(context: Context) -> None:
    given = list(_expressions(context))
    if given and not expressions.is_available():
        raise BundleError(Reason.NOT_SUPPORTED, f"{list_some([path for path, _ in given])}: {expressions.MISSING}")
    find_problem = context.services.watches.evaluator.find_problem
    problems = [f"{path}: {problem}" for path, text in given if (problem := find_problem(text))]
    if problems:
        raise BundleError(Reason.INVALID_CONFIG, f"{list_some(problems)}; correct the expression")


def _expressions(context: Context) -> Iterator[tuple[str, str]]:
    for index, each in enumerate(context.spec.health_checks):
        given = each.expressions.model_dump(by_alias=True, exclude_none=True) if each.expressions else {}
        yield from ((f"spec.healthChecks[{index}].expressions.{name}", text) for name, text in given.items())
    for index, dependency in enumerate(context.spec.depends_on):
        if dependency.ready:
            yield f"spec.dependsOn[{index}].ready", dependency.ready


def poll_sources(context: Context) -> Context:
    """Re-resolve the sources that are due; returns the context with changed pins recorded.

    Raises: ApiError.
    """
    poller, memory = context.services.poller, context.memory.sources.poll
    if not _may_poll(context):
        poller.stop(context.deployment, memory)
        return context
    pins = poller.poll(context.deployment, memory)
    _watch_secrets(context)
    # Neither the new pins nor that their content is being fetched may be lost if the process is killed.
    return context.report(Report(sources=pins, fetching=FETCHING)) if pins else context


def seconds_to_poll(context: Context) -> float | None:
    """Return the seconds until the next poll; None without one, or while one is active."""
    poller, memory = context.services.poller, context.memory.sources.poll
    return poller.seconds_to_next(context.deployment, memory) if _may_poll(context) else None


def _may_poll(context: Context) -> bool:
    if context.spec.pinned_revision or not any(map(is_polled, context.spec.sources)):
        return False
    if context.requested_at != context.status.last_handled_reconcile_at:
        return False
    try:
        check(context.spec)  # `find_wanted` reports the failure
        context.services.accounts.policy.check(context.spec)
    except BundleError:
        return False
    return True


def _sources(context: Context) -> tuple[tuple[SourcePin, ...] | None, BundleError | None]:
    """Return the pins of the sources, and why not all of them have one; no pins while none is known."""
    status = context.status
    if context.spec.pinned_revision:  # no source is asked
        return status.sources, None
    renew = context.requested_at != status.last_handled_reconcile_at
    known = match_pins(context.spec, () if renew else status.sources)
    if (found := _known_sources(context, known)) is not None:
        return found, None
    ticket = f"resolve {context.spec_version}"
    resolved = _take(context, ticket, RESOLVE, partial(_resolve, context, known))
    if resolved is None:
        return None, None
    if resolved.failure:
        failure = _note_failure(context, ticket, resolved.failure)
        return None if renew else resolved.found, failure
    context.memory.retries.succeeded(PREPARATION)
    context.memory.sources.resolved = (context.spec_version, resolved.found)
    return resolved.found, None


def _known_sources(context: Context, known: Pins) -> tuple[SourcePin, ...] | None:
    if None not in known:
        return Resolved(pins=known).found
    remembered = context.memory.sources.resolved
    before = remembered[1] if remembered and remembered[0] == context.spec_version else None
    if not context.status.sources and (recalled := _recall(context)):
        # A new revision may be stored before status has its pins; only those in memory have the validators.
        return before if before and record_pins(before) == record_pins(recalled) else recalled
    return before


def _recall(context: Context) -> tuple[SourcePin, ...] | None:
    # A wiped status must not change them (rule 1).
    for digest in stored.named(context):
        found = stored.read(context, digest)
        known = match_pins(context.spec, recall_pins(found.terms.pins)) if found else (None,)
        pins = Resolved(pins=known).found
        if found and None not in known and inputs_digest(_request_with_config(context, pins)) == found.terms.inputs:
            return pins
    return None


def _revision(context: Context, sources: tuple[SourcePin, ...]) -> Revision | None:
    _refuse_downgrade(context, sources)
    request = _request_with_config(context, sources)
    inputs = inputs_digest(request)
    # Until its kinds are known a revision is named only in memory, not in status.
    others: list[Revision | PackedRevision] = []
    for digest in dict.fromkeys((*stored.named(context), *context.memory.stored.digests)):
        found = stored.read(context, digest)
        if found and found.terms.inputs == inputs:
            _end_preparation(context)
            return stored.revise(context, request, found)
        others.extend([context.memory.stored.packed.get(digest, found)] if found else [])
    made = _build_in_background(context, request, others)
    return _keep(context, request, made) if made else None


def _keep(context: Context, request: Request, made: Revision | PackedRevision) -> Revision | None:
    try:
        _refuse_emptiness(context, made)
        made = stored.write(context, made)
    except BundleError as error:
        raise _note_failure(context, build_ticket(request), error) from None
    _end_preparation(context)
    return stored.learn(context, made)


def _refuse_downgrade(context: Context, sources: tuple[SourcePin, ...]) -> None:
    if context.spec.allow_downgrade or not any(pin.version for pin in sources):
        return
    if installed := stored.read(context, context.status.installed_revision):
        refuse_downgrade(sources, recall_pins(installed.terms.pins))


def _refuse_emptiness(context: Context, made: Revision | PackedRevision) -> None:
    if has_objects(made):
        return
    last = stored.last_good(context)
    if last and has_objects(last):
        problem = "the content renders no objects, but the installed revision has some, which would be deleted"
        remedy = "correct the content or spec.config, or delete the BundleDeployment"
        raise BundleError(Reason.NO_CONTENT, f"spec: {problem}; {remedy}")


def _tried(context: Context, ticket: str) -> str:
    return f"{ticket} {context.spec_version}"


def build_ticket(request: Request) -> str:
    """Return the ticket of building a revision."""
    return f"build {inputs_digest(request)}"


def make_request(context: Context, sources: tuple[SourcePin, ...]) -> Request:
    """Return the request to build the revision of a BundleDeployment from its sources."""
    return Request(
        name=context.name,
        spec=context.spec,
        pins=sources,
        install_namespace=context.spec.install_namespace or context.status.install_namespace,
        requested_at=context.requested_at,
    )


def _build_in_background(
    context: Context, request: Request, kept: Sequence[Revision | PackedRevision]
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
    build = partial(_build, context, request, last, given=dict(_find_given(context)))
    return _take(context, build_ticket(request), BUILD, build)


def _find_given(context: Context) -> Iterator[tuple[str, PackedRevision]]:
    """Yield the installed revisions of those that objects are taken over from, by name.

    Raises: ApiError.
    """
    for reference in context.spec.take_over:
        giver = context.services.watches.deployments.outline(reference.name)
        digest = giver.status.installed_revision if giver else ""
        if found := context.services.revisions.read_packed(reference.name, digest):
            yield reference.name, found


def _request_with_config(context: Context, sources: tuple[SourcePin, ...]) -> Request:
    """Return the request to build the revision of a BundleDeployment from its sources, with its config.

    Raises: BundleError if its config is not available; ApiError.
    """
    request, memory = make_request(context, sources), context.memory
    if not needs_objects(context.spec):
        memory.sources.config = None
        memory.retries.succeeded(CONFIG)
        follow_config(context, {})
        return request
    version = context.config_version  # first: what changes while this reads it is read again
    if held := memory.retries.holding(CONFIG, version):
        raise held
    found = memory.sources.config
    if found is None or found.version != version or found.config is None:
        found = memory.sources.config = _read_config(context, version)
    memory.retries.succeeded(CONFIG)
    spec = context.spec.model_copy(update={"config": found.config})
    return replace(request, spec=spec, confidential=found.confidential, secrets=found.secrets)


def _read_config(context: Context, version: str) -> KnownConfig:
    versions: dict[ObjectReference, str | None] = {}
    try:
        found = context.services.read_config(context.deployment, context.account, versions.__setitem__)
    except BundleError as error:
        follow_config(context, versions)
        context.memory.sources.config = None
        context.memory.retries.failed(CONFIG, version, error)
        raise
    follow_config(context, versions)
    return replace(found, version=version)


def follow_config(context: Context, versions: Mapping[ObjectReference, str | None]) -> None:
    """Follow these ConfigMaps and Secrets, from which the config was read, and no others."""
    context.services.follower.follow(context.name, Topic.CONFIG, versions, share=context.share)


def _describe_work(context: Context, purpose: str) -> str:
    if context.services.background.is_queued(context.name, purpose):
        return QUEUED
    text = context.memory.sources.progress.text
    return f"{FETCHING if purpose == BUILD else RESOLVING}{text and f' ({text})'}"


def _watch_secrets(context: Context) -> None:
    # Not while sources are retried because of a changed Secret: that change would be reported over and over.
    if context.services.background.is_busy(context.name):
        return
    progress = (context.memory.sources.progress, context.memory.sources.poll.progress)
    watch_secrets(context.services.follower, context.name, progress, share=context.share)


def _note_failure(context: Context, ticket: str, error: BundleError) -> BundleError:
    is_news = context.note_failure(PREPARATION, _tried(context, ticket), error)
    log.log(logging.WARNING if is_news else logging.DEBUG, "revision not available", extra=context.about(error))
    return error


def _end_preparation(context: Context) -> None:
    # The revision is available, or its spec cannot be used: nothing is being made, or has failed.
    context.services.background.cancel(context.name, *PURPOSES)
    context.memory.retries.succeeded(PREPARATION)
    context.memory.sources.progress = SourceProgress()


def _resolve(context: Context, known: Pins, cancelled: Event, build_context: BuildContext) -> Resolved:
    status = context.status
    if context.requested_at == status.last_handled_reconcile_at:
        build_context = replace(build_context, unchecked=find_unchecked(context.spec, status.sources))
    resolved = context.services.builder.resolve(context.spec, known, cancelled, build_context)
    is_first = not (status.revision or status.installed_revision)
    needs_more = needs_objects(context.spec) or context.spec.take_over  # which only a pass reads
    if is_first and not (resolved.failure or needs_more or cancelled.is_set()):
        request = make_request(context, resolved.found)
        context.services.background.begin(
            context.name,
            build_ticket(request),
            lambda cancelled: _build(context, request, (), cancelled, build_context),
            Place(share=context.share, purpose=BUILD),
        )
    return resolved


def _build(
    context: Context,
    request: Request,
    kept: Sequence[Revision | PackedRevision],
    cancelled: Event,
    build_context: BuildContext,
    *,
    given: Mapping[str, PackedRevision] | None = None,
) -> Revision | PackedRevision:
    known = kept[0].terms if kept else None
    discovery, recorded = context.services.discovery, known.custom if known else ()

    def _ask(kinds: Collection[Kind]) -> Mapping[Kind, CustomKind]:
        return recall_custom_kinds(discovery.custom_kinds(kinds), kinds, recorded)

    capabilities = recall_kinds(discovery.capabilities(), known.kinds if known else None)
    # What the last revision needed, the next one will most likely need: then it is rendered only once.
    capabilities = replace(capabilities, custom=_ask([(group, version, kind) for group, version, kind, _ in recorded]))
    look_up = context.services.look_up
    build_context = replace(build_context, custom_kinds=_ask, look_up=look_up and partial(look_up, context.deployment))
    try:
        made = context.services.builder.build(request, capabilities, cancelled, build_context, kept=kept, given=given)
    except BundleError as error:
        raise withhold(error, request.spec) from None
    return record_kinds(made, capabilities, context.services.watches.served.is_aggregated)


def _take(context: Context, ticket: str, purpose: str, work: Callable[[Event, BuildContext], Result]) -> Result | None:
    name, tried = context.name, _tried(context, ticket)
    if held := context.memory.retries.holding(PREPARATION, tried):
        raise held
    if context.memory.sources.progress.ticket != context.spec_version:
        context.memory.sources.progress = SourceProgress(context.spec_version)
    build_context = context.services.access.build_context(context.deployment, context.memory.sources.progress)
    try:
        place = Place(share=context.share, purpose=purpose)
        result = context.services.background.take(name, ticket, lambda cancelled: work(cancelled, build_context), place)
    except BundleError as error:
        last = context.memory.retries.last(PREPARATION, tried)
        raise _note_failure(context, ticket, keep_first(last, error)) from None
    if result is None and (last := context.memory.retries.last(PREPARATION, tried)):
        raise last
    return result
