"""Which revision a BundleDeployment asks for: pinned, at hand in the revision store, or being made.

Network and rendering go on elsewhere (preparations.py): a pass asks, and goes on with what is installed meanwhile.
Pins are recorded in status before anything is made of them, so that a kill loses none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Protocol, TypeVar

from api import names
from api.errors import BundleError
from api.v1alpha2.types import BundleDeployment, SourcePin, Status
from controller.desired import Builder, Request, check, inputs_digest, match_pins
from controller.kube.discovery import Discovery
from controller.memory import Memory
from controller.preparations import Preparations
from controller.retries import Retries
from controller.revision import Revision
from controller.revisions import RevisionStore

PREPARATION = "preparation"
Result = TypeVar("Result")


class StatusWriter(Protocol):
    """Writes a status at once and returns the BundleDeployment as it is then."""

    def __call__(self, deployment: BundleDeployment, status: Status, /) -> BundleDeployment:
        """Write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a spec asks for, as far as that is known in this pass."""

    revision: Revision | None
    """To be worked on: the wanted one, or what was applied last where that cannot be had (DESIGN, rule 2)."""
    current: bool = False
    """Whether the revision is the one that the spec asks for."""
    failure: BundleError | None = None
    fetching: str = ""
    """What is being done to get the one that the spec asks for."""


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
        write_status: StatusWriter,
    ) -> None:
        self._builder, self._preparations, self._revisions = builder, preparations, revisions
        self._discovery, self._retries, self._write_status = discovery, retries, write_status

    def find(self, deployment: BundleDeployment, memory: Memory) -> tuple[Wanted, BundleDeployment]:
        """Return what the spec asks for, and the BundleDeployment with the pins that were recorded.

        Raises: ApiError.
        """
        try:
            check(deployment.spec)
            pins, deployment = self._pins(deployment)
            revision = self._revision(deployment, pins, memory) if pins else None
        except BundleError as error:
            return Wanted(revision=self._last_good(deployment, memory), failure=error), deployment
        if revision is None:
            work = "the content is being fetched and rendered" if pins else "the sources are being resolved"
            return Wanted(revision=self._last_good(deployment, memory), fetching=work), deployment
        return Wanted(revision=revision, current=True), deployment

    def read(self, name: str, digest: str, memory: Memory) -> Revision | None:
        """Return a revision from the store; None if there is none, or none that is whole.

        Raises: ApiError.
        """
        if digest and digest not in memory.revisions:
            kept = self._revisions.read(name, digest)
            if kept is None:
                return None
            memory.revisions[digest] = kept
        return memory.revisions.get(digest)

    def revision_before(self, deployment: BundleDeployment, wanted: str, memory: Memory) -> Revision | None:
        """Return the revision whose objects may be left beside the wanted one's (DESIGN, rule 6).

        Raises: ApiError.
        """
        name, status = deployment.metadata.name, deployment.status
        if status.installed_revision != wanted:
            return self.read(name, status.installed_revision, memory)
        if status.managed_state:
            return None
        others = [digest for digest in self._revisions.digests(name) if digest != wanted]
        return self.read(name, others[0], memory) if others else None

    def _pins(self, deployment: BundleDeployment) -> tuple[tuple[SourcePin, ...] | None, BundleDeployment]:
        """Return a pin for each source, recorded in status; None while they are being resolved."""
        spec, status, requested = deployment.spec, deployment.status, requested_at(deployment)
        renew = requested != status.last_handled_reconcile_at
        known = match_pins(spec, () if renew else status.sources)
        if None not in known:
            pins = tuple(pin for pin in known if pin)
            return pins, self._write_status(deployment, status.model_copy(update={"sources": pins}))
        ticket = f"resolve {deployment.metadata.generation} {requested}"
        resolved = self._prepare(deployment, ticket, lambda cancelled: self._builder.resolve(spec, known, cancelled))
        if resolved is None:
            return None, deployment
        found = tuple(pin for pin in resolved.pins if pin)
        changes: dict[str, object] = {} if renew and resolved.failure else {"sources": found}
        if not resolved.failure:
            changes["last_handled_reconcile_at"] = requested
        deployment = self._write_status(deployment, status.model_copy(update=changes))
        if resolved.failure:
            raise self._remember(deployment, ticket, resolved.failure)
        self._retries.succeeded(deployment.metadata.name, PREPARATION)
        return found, deployment

    def _revision(self, deployment: BundleDeployment, pins: tuple[SourcePin, ...], memory: Memory) -> Revision | None:
        """Return the revision of these pins, from the store or made; None while it is being made."""
        name, status = deployment.metadata.name, deployment.status
        request = Request(
            name=name,
            spec=deployment.spec,
            pins=pins,
            install_namespace=deployment.spec.install_namespace or status.install_namespace,
            requested_at=status.last_handled_reconcile_at,
        )
        inputs = inputs_digest(request)
        for digest in dict.fromkeys((status.revision, status.installed_revision)):
            kept = self.read(name, digest, memory)
            if kept and kept.terms.inputs == inputs:
                self._preparations.cancel(name)
                self._retries.succeeded(name, PREPARATION)
                return kept
        ticket = f"build {inputs}"
        made = self._prepare(deployment, ticket, lambda cancelled: self._make(request, cancelled))
        if made:
            self._keep(deployment, ticket, made, memory)
        return made

    def _keep(self, deployment: BundleDeployment, ticket: str, made: Revision, memory: Memory) -> None:
        name = deployment.metadata.name
        try:
            self._revisions.write(name, made)
        except BundleError as error:
            raise self._remember(deployment, ticket, error) from None
        self._retries.succeeded(name, PREPARATION)
        memory.revisions[made.digest] = made

    def _make(self, request: Request, cancelled: Event) -> Revision:
        return self._builder.build(request, self._discovery.capabilities(), cancelled)

    def _prepare(self, deployment: BundleDeployment, ticket: str, work: Callable[[Event], Result]) -> Result | None:
        """Return the result of slow work; None while it goes on.

        Raises: BundleError with what it failed with, also while it is tried again: an unchanged failure is no news.
        """
        name, attempt = deployment.metadata.name, _attempt(deployment, ticket)
        if held := self._retries.holding(name, PREPARATION, attempt):
            raise held
        try:
            result = self._preparations.take(name, ticket, work)
        except BundleError as error:
            raise self._remember(deployment, ticket, error) from None
        if result is None and (last := self._retries.last(name, PREPARATION, attempt)):
            raise last
        return result

    def _remember(self, deployment: BundleDeployment, ticket: str, error: BundleError) -> BundleError:
        self._retries.failed(deployment.metadata.name, PREPARATION, _attempt(deployment, ticket), error)
        return error

    def _last_good(self, deployment: BundleDeployment, memory: Memory) -> Revision | None:
        """Return what was applied last: from its first write on that is the revision in status (DESIGN, rule 6)."""
        status = deployment.status
        begun = status.revision and not status.managed_state
        return self.read(deployment.metadata.name, status.revision if begun else status.installed_revision, memory)


def _attempt(deployment: BundleDeployment, ticket: str) -> str:
    """What was tried: every change of the spec or the annotation lets a failure be tried again at once."""
    return f"{ticket} {deployment.metadata.generation} {requested_at(deployment)}"


def requested_at(deployment: BundleDeployment) -> str:
    """Return the value of the annotation that asks for everything anew; to take it off asks for nothing."""
    obeyed = deployment.status.last_handled_reconcile_at
    return deployment.metadata.annotations.get(names.RECONCILE_REQUESTED_AT) or obeyed
