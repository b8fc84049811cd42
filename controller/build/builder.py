"""From a spec to the revision that it asks for: resolve, fetch, assemble, render.

The left half of a pass. It has no cluster to write to, or to read from: the same code renders on a desk. Network is
used only for what is not pinned (resolving) and for what is not stored (fetching), and fetching is by digest only.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import (
    Access,
    Capabilities,
    ContentTree,
    Credentials,
    Entry,
    Limits,
    Means,
    Network,
    RenderRequest,
    Resolution,
    RunsProgram,
    endless,
)
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Drift, Source, SourcePin, Spec
from controller.build.child import render_aside
from controller.build.origins import content_key, digest_of_json, origin_of, resolution_of, store_key
from controller.build.plugins import format_of, source_of
from controller.build.rendering import render
from controller.build.revision import PackedRevision, Revision, Terms
from controller.content.archive import write_entries
from controller.content.disk import walk
from controller.content.shares import Shares, Use
from controller.content.store import ContentStore
from controller.content.tree import assemble
from controller.formats.budget import INLINE, LargeTextError, estimate
from controller.telemetry import DEAF, Observer, Phase, SourceResult, timed

Pins = tuple[SourcePin | None, ...]
SOURCES_AT_ONCE = 4
"""Of one BundleDeployment: with --fetch-workers that bounds threads, connections and children in all."""
LEVELS = 100
"""Of nesting in a config, or in the parameters of a source."""
_ANYWHERE = Network()
_USUAL = Means()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The pins of a spec, one for each source in spec order, and the failure of those that are missing."""

    pins: Pins
    failure: BundleError | None = None

    @property
    def found(self) -> tuple[SourcePin, ...]:
        """The pins that there are."""
        return tuple(pin for pin in self.pins if pin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a spec, all resolved."""

    pins: tuple[SourcePin, ...]
    requested_at: str
    """Value of the annotation that they were resolved for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a revision is made from."""

    name: str
    spec: Spec
    pins: tuple[SourcePin, ...]
    install_namespace: str
    """The one that counts already; '': the format suggests one."""
    requested_at: str
    """Value of the annotation that asks for everything anew."""


def check(spec: Spec) -> None:
    """Refuse a spec that cannot be served, before anything is fetched.

    Raises: BundleError (UnknownSourceKind, UnknownFormat, InvalidReference, InvalidConfig).
    """
    _check_nesting(spec.config, "spec.config", Reason.INVALID_CONFIG)
    for index, source in enumerate(spec.sources):
        path = f"spec.sources[{index}].{source.block}"
        _check_nesting(source.parameters.model_extra if source.parameters else {}, path, Reason.INVALID_REFERENCE)
        _raise_first(Reason.INVALID_REFERENCE, source_of(source.kind).validate(source.parameters_json, path))
    check_config(spec.format, spec.config)


def _check_nesting(value: Any, path: str, reason: Reason) -> None:
    """Refuse what is nested deeper than anybody means, and than what works on it can bear."""
    layer = [value]
    for _ in range(LEVELS):
        layer = [item for each in layer for item in _items(each)]
        if not layer:
            return
    raise BundleError(reason, f"{path}: nested deeper than {LEVELS} levels; make it flatter")


def _items(value: Any) -> Iterable[Any]:
    """Return the values in a mapping or a list that may hold others."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))


def _raise_first(reason: Reason, problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BundleError(reason, problems[0] + more)


def spec_digest(source: Source) -> str:
    """Return the digest of what names a source's content: a new one, and only that, asks for a new resolution."""
    return "v1:" + digest_of_json(
        {"kind": source.kind, "identity": source_of(source.kind).identity(source.parameters_json)}
    )


def match_pins(spec: Spec, recorded: Sequence[SourcePin]) -> Pins:
    """Return the recorded pin of each source, matched by what names the content and not by position."""
    by_digest = {pin.spec_digest: pin for pin in recorded}
    found = [(source, by_digest.get(spec_digest(source))) for source in spec.sources]
    return tuple(pin and pin.model_copy(update={"destination": source.target}) for source, pin in found)


def inputs_digest(request: Request) -> str:
    """Return the digest of all that a rendering depends on, but for the capabilities (rule 9)."""
    return digest_of_json(
        {
            **_inputs(request),
            "installNamespace": request.spec.install_namespace or "",
            "requestedAt": request.requested_at,
        }
    )


def terms_of(request: Request, install_namespace: str, rendered_from: str) -> Terms:
    """Return what is kept beside the objects of a revision, as the spec has it now (rule 2).

    Args:
        request: what the revision is, or was, made from.
        install_namespace: the one that counts.
        rendered_from: digest of what the objects are, or were, rendered from.
    """
    spec = request.spec
    return Terms(
        inputs=inputs_digest(request),
        rendered_from=rendered_from,
        install_namespace=install_namespace,
        service_account_name=spec.service_account_name,
        pins=tuple({"resolved": pin.resolved, "digest": pin.digest} for pin in request.pins),
        drift=spec.drift.model_dump(mode="json", by_alias=True) if spec.drift != Drift() else None,
        optional=tuple(kind.model_dump(mode="json", by_alias=True) for kind in spec.optional),
    )


def _rendering_digest(request: Request, install_namespace: str, capabilities: Capabilities) -> str:
    """Return the digest of all that a rendering depends on: equal ones make equal objects, were it not for chance."""
    kinds = sorted([*kind, scope] for kind, scope in capabilities.kinds.items())
    cluster = {"version": capabilities.kubernetes_version, "kinds": kinds}
    named = {"name": request.name, "installNamespace": install_namespace}
    return digest_of_json({**_inputs(request), **named, "capabilities": cluster})


def _inputs(request: Request) -> dict[str, Any]:
    targets = [source.target for source in request.spec.sources]
    return {
        "format": request.spec.format,
        "config": request.spec.config,
        "sources": list(zip(targets, _content_keys(request), strict=True)),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Aid:
    """What comes from outside while sources are asked for one BundleDeployment: values and callbacks, no cluster."""

    credentials: Callable[[int, Source], Credentials | None] = lambda _index, _source: None
    """Reads the Secret of a source, by its index in the spec; raises BundleError."""
    progress: Callable[[int, int, int], None] = lambda _index, _done, _total: None
    """Told the index of a source, and bytes done and in all (0: not known)."""
    ended: Callable[[int, BundleError | None], None] = lambda _index, _failure: None
    """Told the index of a source that was asked, and what it failed with."""
    room: Callable[[int, threading.Event], AbstractContextManager[None]] = lambda size, _cancelled: endless(size)
    """Waits for so many bytes of memory, and holds them for a block; the event ends the wait."""
    guard: Callable[[], AbstractContextManager[None]] = nullcontext
    """What is done within is remembered should the process die of it; raises BundleError where that has happened."""
    previous: Pins = ()
    """When polling: the pins in use, one for each source."""
    tenant: str = ""
    """Whose share of the disk is used, as a message names it."""


_NO_AID = Aid()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One call of the builder, as those see it who do a part of it."""

    cancelled: threading.Event
    aid: Aid
    use: Use
    """What it takes of the disk."""


class Builder:
    """Makes revisions from specs.

    Args:
        store_bytes: what the content store may hold beside what is in use.
        timeout: seconds for resolving, and for fetching, one source.
        now: the time of day, for `resolvedAt`.
        network: what the administrator says about reaching sources.
        means: what rendering may use; scratch, cancel token and limits are those of each call. What it says of
            confinement holds for sources, too.
        shares: of the disk, while content is fetched and rendered.
        observer: is told how long the phases take, and what is asked of sources.
    """

    def __init__(
        self,
        store: ContentStore,
        store_bytes: int,
        limits: Limits,
        timeout: float,
        now: Callable[[], datetime],
        *,
        network: Network = _ANYWHERE,
        means: Means = _USUAL,
        shares: Shares | None = None,
        observer: Observer = DEAF,
    ) -> None:
        self._store, self._store_bytes = store, store_bytes
        self._limits, self._timeout, self._now, self._network = limits, timeout, now, network
        self._means, self._shares, self._observer = means, shares or Shares(), observer
        self._in_use: Counter[str] = Counter()
        self._lock = threading.Lock()

    def resolve(self, spec: Spec, pins: Pins, cancelled: threading.Event, aid: Aid = _NO_AID) -> Resolved:
        """Resolve the sources that have no pin, a few at the same time; what succeeds is pinned even if others fail."""
        with self._work(cancelled, aid) as work, ThreadPoolExecutor(SOURCES_AT_ONCE) as pool:
            jobs = [
                pool.submit(self._resolve, spec, index, work) if pin is None else None for index, pin in enumerate(pins)
            ]
        found: list[SourcePin | None] = []
        failures: list[BundleError] = []
        for pin, job in zip(pins, jobs, strict=True):
            error = job.exception() if job else None
            if isinstance(error, BundleError):
                failures.append(error)
            elif error is not None:
                raise error
            found.append(None if error else job.result() if job else pin)
        return Resolved(pins=tuple(found), failure=_first(failures))

    def _resolve(self, spec: Spec, index: int, work: _Work) -> SourcePin:
        source = spec.sources[index]
        plugin = source_of(source.kind)
        origin = origin_of(plugin, source, spec.install_namespace)
        with self._asking(Phase.RESOLVE, index, source, work), self._store.scratch() as scratch:
            access = self._access(index, source, scratch, work)

            def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
                key = store_key(content_key(plugin, source, resolution), origin, origin)
                self._store.put(key, lambda to: write_entries(entries, to, self._limits, access.path, work.use))

            resolution = plugin.resolve(source.parameters_json, replace(access, keep=keep))
        is_same = access.previous is not None and access.previous.digest == resolution.digest
        self._observer.source_asked(source.kind, SourceResult.NOT_MODIFIED if is_same else SourceResult.RESOLVED)
        return SourcePin(
            destination=source.target,
            kind=source.kind,
            resolved=resolution.pinned,
            digest=resolution.digest,
            spec_digest=spec_digest(source),
            origin=origin,
            resolved_at=self._now(),
            validator=resolution.validator,
        )

    def build(
        self,
        request: Request,
        capabilities: Capabilities,
        cancelled: threading.Event,
        aid: Aid = _NO_AID,
        *,
        kept: Sequence[Revision | PackedRevision] = (),
    ) -> Revision | PackedRevision:
        """Fetch what is not stored, assemble, and render.

        What depends on chance, such as a password that a chart makes up, is taken over from a revision that was `kept`
        and rendered from the same: only another input throws the dice again.

        Raises: BundleError with a reason of Unpacked or Installed.
        """
        spec = request.spec
        with self._work(cancelled, aid) as work, self._using(_store_keys(request)), self._store.scratch() as scratch:
            tree = assemble(self._parts(request, work), scratch / "tree")

            def make() -> Revision | PackedRevision:
                with self._store.scratch() as own:
                    means = replace(
                        self._means,
                        scratch=own,
                        cancelled=cancelled,
                        limits=self._limits,
                        occupy=work.use.occupy,
                        inline=True,
                    )
                    return render_where_it_fits(spec.format, _render_request(request, tree, capabilities, means), aid)

            with timed(self._observer, Phase.RENDER):
                made = make()
            namespace = made.terms.install_namespace
            terms = terms_of(request, namespace, _rendering_digest(request, namespace, capabilities))
            same = next((each for each in kept if each.terms.rendered_from == terms.rendered_from), None)
            # What differs may be the doing of another release, which is to be had by asking for everything anew. What
            # differs each time is chance.
            if same and made.digest != same.digest and made.digest != make().digest:
                return replace(same, terms=terms)
        return replace(made, terms=terms)

    @contextmanager
    def _work(self, cancelled: threading.Event, aid: Aid) -> Iterator[_Work]:
        with aid.guard(), self._shares.use(aid.tenant, self._limits) as use:
            yield _Work(cancelled=cancelled, aid=aid, use=use)

    @contextmanager
    def _using(self, keys: Sequence[str]) -> Iterator[None]:
        """Keep content in the store while it is in use, and make room for other content afterwards."""
        with self._lock:
            self._in_use.update(keys)
        try:
            yield
        finally:
            with self._lock:
                self._in_use.subtract(keys)
                in_use = set(+self._in_use)
            self._store.collect(in_use, self._store_bytes)

    def _parts(self, request: Request, work: _Work) -> list[tuple[str, str, Path]]:
        sources, keys = request.spec.sources, _store_keys(request)
        with ThreadPoolExecutor(SOURCES_AT_ONCE) as pool:
            jobs = [pool.submit(self._fetch, request, index, key, work) for index, key in enumerate(keys)]
        failures = [error for job in jobs if isinstance(error := job.exception(), BundleError)]
        if failure := _first(failures):
            raise failure
        return [
            (f"spec.sources[{i}]", source.target, job.result())
            for i, (source, job) in enumerate(zip(sources, jobs, strict=True))
        ]

    def _fetch(self, request: Request, index: int, key: str, work: _Work) -> Path:
        source, resolution = request.spec.sources[index], resolution_of(request.pins[index])
        plugin = source_of(source.kind)
        if stored := self._store.get(key):
            work.use.add_stored(stored)
            self._observer.source_asked(source.kind, SourceResult.REUSED)
            return stored

        written: list[Path] = []

        def write(folder: Path) -> None:
            written.append(folder)
            with self._store.scratch() as scratch:
                access = self._access(index, source, scratch, work)
                entries = plugin.fetch(source.parameters_json, resolution, access)
                write_entries(entries, folder, self._limits, access.path, work.use)

        with self._asking(Phase.FETCH, index, source, work):
            folder = self._store.put(key, write)
            if not written:  # somebody else has
                work.use.add_stored(folder)
        self._observer.source_asked(source.kind, SourceResult.FETCHED)
        return folder

    @contextmanager
    def _asking(self, phase: Phase, index: int, source: Source, work: _Work) -> Iterator[None]:
        """Tell how long asking a source takes, and how it ends if it fails."""
        try:
            with timed(self._observer, phase), _telling(index, work.aid):
                yield
        except BundleError:
            self._observer.source_asked(source.kind, SourceResult.ERROR)
            raise

    def _access(self, index: int, source: Source, scratch: Path, work: _Work) -> Access:
        aid = work.aid
        previous = aid.previous[index] if aid.previous else None

        def advance(done: int, total: int) -> None:
            work.use.receive(index, done)
            aid.progress(index, done, total)

        return Access(
            path=f"spec.sources[{index}].{source.block}",
            deadline=time.monotonic() + self._timeout,
            cancelled=work.cancelled,
            scratch=scratch,
            limits=self._limits,
            network=self._network,
            credentials=aid.credentials(index, source),
            confinement_required=self._means.confinement_required,
            previous=resolution_of(previous) if previous else None,
            room=lambda size: aid.room(size, work.cancelled),
            progress=advance,
        )


def check_config(format_name: str, config: Mapping[str, Any]) -> None:
    """Refuse a config that a format does not take.

    Raises: BundleError (UnknownFormat, InvalidConfig).
    """
    _raise_first(Reason.INVALID_CONFIG, format_of(format_name).validate(config))


def render_where_it_fits(format_name: str, request: RenderRequest, aid: Aid) -> Revision | PackedRevision:
    """Render in this process, or, where there is too much text for that, in one of its own.

    Raises: BundleError with a reason of Installed.
    """
    means = request.means
    size = sum((request.tree.root / item.path).stat().st_size for item in walk(request.tree.root) if not item.is_folder)
    needs = max(estimate(min(size, INLINE.text_bytes), INLINE), _program_bytes(format_name, means))
    try:
        with aid.room(needs, means.cancelled):
            return render(format_name, request)
    except LargeTextError as error:
        size = max(size, error.size)
    with aid.room(estimate(size, means.limits), means.cancelled):
        return render_aside(format_name, request)


def _program_bytes(format_name: str, means: Means) -> int:
    plugin = format_of(format_name)
    return plugin.program_bytes(means) if isinstance(plugin, RunsProgram) else 0


def _render_request(request: Request, tree: ContentTree, capabilities: Capabilities, means: Means) -> RenderRequest:
    return RenderRequest(
        name=request.name,
        install_namespace=request.install_namespace,
        tree=tree,
        config=request.spec.config,
        capabilities=capabilities,
        means=means,
    )


def _content_keys(request: Request) -> list[str]:
    pairs = zip(request.spec.sources, request.pins, strict=True)
    return [content_key(source_of(source.kind), source, resolution_of(pin)) for source, pin in pairs]


def _store_keys(request: Request) -> list[str]:
    spec = request.spec
    asked = [origin_of(source_of(source.kind), source, spec.install_namespace) for source in spec.sources]
    return [
        store_key(key, origin, pin.origin or f"BundleDeployment/{request.name}")
        for key, origin, pin in zip(_content_keys(request), asked, request.pins, strict=True)
    ]


@contextmanager
def _telling(index: int, aid: Aid) -> Iterator[None]:
    """Tell how asking a source ends."""
    try:
        yield
    except BundleError as error:
        aid.ended(index, error)
        raise
    aid.ended(index, None)


def _first(failures: Sequence[BundleError]) -> BundleError | None:
    """The first failure by spec order, saying how many others there are."""
    failures = list({failure.message: failure for failure in reversed(failures)}.values())[::-1]
    if len(failures) < 2:  # noqa: PLR2004 - one failure speaks for itself
        return failures[0] if failures else None
    first = failures[0]
    message = f"{first.message} (and {len(failures) - 1} more)"
    return BundleError(first.reason, message, retry_after=first.retry_after)
