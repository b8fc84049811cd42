"""Resolves the sources of a spec that have no pin, and fetches pinned content into the content store.

Sources are plug-ins: here is what they may use, how their results are reported, and how several failures become one.
Content that a source sends while it is resolved is stored.

A source with `verify` checks the signature while it is resolved, before it reads content. Here is the one place that
asks for that, and that makes no pin without it: whatever a source forgets, content that nobody has signed is not used.
If the administrator demands a signature, too, the source is asked twice, for the signature of the same digest.

Not here: how files are written (content/archive.py).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Entry, Refusal, Resolution
from rukpak.api.v1alpha2.conditions import OF_ACCOUNT, Reason
from rukpak.api.v1alpha2.status import Verified
from rukpak.api.v1alpha2.types import Source, SourcePin, Spec
from rukpak.controller.building.entry_points import source_of
from rukpak.controller.building.request import (
    BuildSettings,
    Call,
    Pins,
    Request,
    Resolved,
    content_key,
    origin_of,
    resolution_of,
    spec_digest,
    store_key,
    store_keys,
    verify_digest,
    verify_json,
)
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.content.store import ContentStore, count_stored
from rukpak.controller.retries import OF_SECRETS
from rukpak.controller.sources.demands import name_demand
from rukpak.controller.telemetry import Observer, Phase, SourceResult, timed

_Asked = tuple[dict[str, Any], Access]
"""The parameters of a source, and what its plug-in may use."""
# Then its Secret could not be used, and the source was not queried.
_BEFORE_QUERY = OF_SECRETS | OF_ACCOUNT
SOURCES_AT_ONCE = 4
"""Per BundleDeployment. Together with --fetch-workers this limits the threads, connections and children of all."""


def _at(pins: Pins, index: int) -> SourcePin | None:
    return pins[index] if pins else None


@contextmanager
def _naming_demand(path: str) -> Iterator[None]:
    try:
        yield
    except BundleError as error:
        verify = f"{path}.verify"
        if error.place != verify and not error.place.startswith(f"{verify}."):
            raise
        raise error.at(name_demand(path)) from None


def _check_signer(source: Source, resolution: Resolution, access: Access) -> None:
    if not source.needs_signature:
        return
    problem = "" if resolution.signer else "the signature was not checked"
    if access.pinned and access.pinned.digest != resolution.digest:
        problem = "the signature of other content than the recorded one was checked"
    if problem:
        raise BundleError(Reason.VERIFICATION_FAILED, f"{problem}; report this as a bug", place=f"{access.path}.verify")


def first_failure(failures: Sequence[BundleError]) -> BundleError | None:
    """Return the first failure by spec order, with the number of others in its message; None if there is none."""
    failures = list({failure.message: failure for failure in reversed(failures)}.values())[::-1]
    if len(failures) < 2:  # noqa: PLR2004 - one failure speaks for itself
        return failures[0] if failures else None
    return failures[0].reworded(f"{failures[0].message} (and {len(failures) - 1} more)")


class Fetcher:
    """Resolves sources and fetches content, a few sources at a time. Thread-safe.

    Args:
        now: the time of day, for `resolvedAt`.
    """

    def __init__(
        self, store: ContentStore, settings: BuildSettings, observer: Observer, now: Callable[[], datetime]
    ) -> None:
        self._store, self._settings, self._observer, self._now = store, settings, observer, now
        self._in_use: Counter[str] = Counter()
        self._lock = threading.Lock()

    def resolve(self, spec: Spec, pins: Pins, call: Call) -> Resolved:
        """Resolve the sources that have no pin; those that succeed are pinned even if others fail.

        A pin whose check fails is returned as it was, so that it is checked again instead of the name resolved.

        Raises: nothing that a user can cause: the first BundleError becomes the failure of the result.
        """
        with ThreadPoolExecutor(SOURCES_AT_ONCE) as pool:
            asked = [
                pool.submit(self._resolve, spec, index, call) if pin is None else None for index, pin in enumerate(pins)
            ]
        found: list[SourcePin | None] = []
        failures: list[BundleError] = []
        for pin, future in zip(pins, asked, strict=True):
            error = future.exception() if future else None
            if isinstance(error, BundleError):
                failures.append(error.without_frames())
            elif error is not None:
                raise error
            found.append(_at(call.context.unchecked, len(found)) if error else future.result() if future else pin)
        return Resolved(pins=tuple(found), failure=first_failure(failures))

    def _resolve(self, spec: Spec, index: int, call: Call) -> SourcePin:
        source, unchecked = spec.sources[index], _at(call.context.unchecked, index)
        plugin = source_of(source.kind)
        origin = origin_of(plugin, source, spec.install_namespace)
        with self._asking(Phase.RESOLVE, index, source, call), self._store.scratch() as scratch:
            asked = self._accesses_to_resolve(index, source, scratch, call)
            access = asked[-1][1]
            auth_digest = access.credentials.identity if access.credentials else ""

            def _key(resolution: Resolution) -> str:
                return store_key(content_key(plugin, source, resolution), origin, origin, auth_digest)

            def _is_stored(resolution: Resolution) -> bool:
                return self._store.get(_key(resolution)) is not None

            def _keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
                self._store.put(
                    _key(resolution),
                    lambda to: write_entries(entries, to, self._settings.limits, access.path, call.use, records=True),
                )

            resolution: Resolution | None = None
            for number, (parameters, each) in enumerate(asked, 1):
                # The second signature is that of what the first one was found to be of, whatever the name leads to now.
                pinned = replace(resolution, signer=None) if resolution else each.pinned
                used = replace(each, pinned=pinned, is_stored=_is_stored, keep=_keep)
                is_demand = source.demanded and number == len(asked)
                with _naming_demand(used.path) if is_demand else nullcontext():
                    resolution = plugin.resolve(parameters, used)
                    _check_signer(source, resolution, used)
            assert resolution  # noqa: S101 - it is asked at least once
        is_same = access.previous is not None and access.previous.digest == resolution.digest
        self._observer.source_asked(source.kind, SourceResult.NOT_MODIFIED if is_same else SourceResult.RESOLVED)
        checked = self._checked(source, resolution, access, _at(call.context.previous, index))
        if unchecked:
            return unchecked.model_copy(update={"origin": origin, "auth_digest": auth_digest, **checked})
        return SourcePin(
            destination=source.target,
            kind=source.kind,
            resolved=resolution.pinned,
            digest=resolution.digest,
            spec_digest=spec_digest(source),
            origin=origin,
            auth_digest=auth_digest,
            resolved_at=self._now(),
            validator=resolution.validator,
            version=resolution.version,
            reference=resolution.reference or resolution.version,
            **checked,
        )

    def _checked(
        self, source: Source, resolution: Resolution, access: Access, previous: SourcePin | None
    ) -> dict[str, Any]:
        if (signer := resolution.signer) is None:
            return {}
        if previous is not None and signer is access.known_signer(resolution.digest):
            verified = previous.verified
        else:
            verified = Verified(
                by=signer.by, key=signer.key, identity=signer.identity, issuer=signer.issuer, at=self._now()
            )
        return {
            "verified": verified,
            "verified_version": signer.version,
            "verify_digest": verify_digest(source),
            "keys_digest": access.trusted.identity,
        }

    @contextmanager
    def _asking(self, phase: Phase, index: int, source: Source, call: Call) -> Iterator[None]:
        """Report how long a call of a source takes, and whether it fails; not as a query if its Secret is missing."""
        try:
            with timed(self._observer, phase):
                yield
        except BundleError as error:
            call.context.ended(index, error)
            if error.reason not in _BEFORE_QUERY:
                self._observer.source_asked(source.kind, SourceResult.ERROR)
            raise
        call.context.ended(index, None)

    def _accesses_to_resolve(self, index: int, source: Source, scratch: Path, call: Call) -> list[_Asked]:
        """Return how a plug-in is asked to resolve a source: once, or once for each signature that it must have.

        Raises: BundleError if the credentials or keys cannot be read, or the administrator demands what cannot be.
        """
        parameters, access = source.request_json, self._access(index, source, scratch, call)
        if not source.needs_signature:
            return [(parameters, access)]
        unchecked, previous = _at(call.context.unchecked, index), _at(call.context.previous, index)
        keys = []
        if source.verification:
            keys.append((parameters, call.context.trusted(index, source)))
        if demanded := source.demanded:
            if demanded.problem:
                raise BundleError(Reason.VERIFICATION_FAILED, demanded.problem, place=access.path)
            verify = verify_json(demanded.verification)
            keys.append(({**parameters, "verify": verify}, call.context.demanded(index, source)))
        identities = [trusted.identity for _, trusted in keys]
        identity = identities[0] if len(identities) == 1 else digest_of_json(identities)
        is_known = previous is not None and previous.keys_digest == identity
        access = replace(
            access,
            pinned=resolution_of(unchecked) if unchecked else None,
            previous=access.previous and (access.previous if is_known else replace(access.previous, signer=None)),
        )
        return [(asked, replace(access, trusted=replace(trusted, identity=identity))) for asked, trusted in keys]

    def _access(self, index: int, source: Source, scratch: Path, call: Call) -> Access:
        """Return what a plug-in may use for one source, by its index in the spec; its deadline starts now.

        Raises: BundleError if the credentials cannot be read.
        """
        context = call.context
        previous = _at(context.previous, index)

        def _advance(done: int, total: int) -> None:
            call.use.receive(index, done)
            context.progress(index, done, total)

        read = context.config_map
        access = Access(
            path=f"spec.sources[{index}].{source.block}",
            deadline=time.monotonic() + self._settings.timeout,
            cancelled=call.cancelled,
            scratch=scratch,
            limits=self._settings.limits,
            network=self._settings.network,
            credentials=context.credentials(index, source),
            confinement_required=self._settings.means.confinement_required,
            previous=resolution_of(previous) if previous else None,
            max_age=context.max_ages[index] if context.max_ages else 0.0,
            room=lambda size: context.room(size, call.cancelled),
            computing=lambda: self._settings.places.here.room(context.tenant, 1, call.cancelled),
            progress=_advance,
            receive=lambda done: call.use.receive(index, done),
        )
        return replace(access, config_map=lambda name: read(index, name)) if read else access

    @contextmanager
    def using(self, request: Request) -> Iterator[None]:
        """Keep the content of a request in the store for a block, and evict unused content afterwards."""
        keys = store_keys(request)
        with self._lock:
            self._in_use.update(keys)
        try:
            yield
        finally:
            with self._lock:
                self._in_use.subtract(keys)
                in_use = set(+self._in_use)
            self._store.collect(in_use, self._settings.store_bytes)

    def fetch(self, request: Request, call: Call) -> list[tuple[str, str, Path]]:
        """Return the path in the spec, the destination, and the folder in the store of each source.

        Raises: BundleError with a reason of Unpacked: the first failure by spec order.
        """
        sources, keys = request.spec.sources, store_keys(request)
        with ThreadPoolExecutor(SOURCES_AT_ONCE) as pool:
            fetched = [pool.submit(self._fetch, request, index, key, call) for index, key in enumerate(keys)]
        failures = [error for future in fetched if isinstance(error := future.exception(), BundleError)]
        if failure := first_failure(failures):
            raise failure
        return [
            (f"spec.sources[{i}]", source.target, future.result())
            for i, (source, future) in enumerate(zip(sources, fetched, strict=True))
        ]

    def _fetch(self, request: Request, index: int, key: str, call: Call) -> Path:
        source, resolution = request.spec.sources[index], resolution_of(request.pins[index])
        plugin = source_of(source.kind)
        if stored := self._store.get(key):
            count_stored(stored, call.use)
            self._observer.source_asked(source.kind, SourceResult.REUSED)
            return stored

        written: list[Path] = []

        def _write(folder: Path) -> Mapping[str, Refusal]:
            written.append(folder)
            with self._store.scratch() as scratch:
                access = self._access(index, source, scratch, call)
                entries = plugin.fetch(source.request_json, resolution, access)
                return write_entries(entries, folder, self._settings.limits, access.path, call.use, records=True)

        with self._asking(Phase.FETCH, index, source, call):
            folder = self._store.put(key, _write)
            if not written:  # another build has
                count_stored(folder, call.use)
        self._observer.source_asked(source.kind, SourceResult.FETCHED)
        return folder
