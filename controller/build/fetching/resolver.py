"""Resolves the sources of a spec that have no pin; content that a source sends while resolving is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from api.errors import BundleError
from api.plugins import Entry, Limits, Resolution
from api.v1alpha2.types import SourcePin, Spec
from controller.build.context import Call
from controller.build.fetching.plugin_calls import SOURCES_AT_ONCE, PluginCalls, first_failure
from controller.build.origins import content_key, origin_of, store_key
from controller.build.pins import Pins, Resolved, spec_digest
from controller.build.plugins import source_of
from controller.content.archive import write_entries
from controller.content.store import ContentStore
from controller.telemetry import Phase, SourceResult


class Resolver:
    """Resolves sources, a few at a time; `now` is the time of day, for `resolvedAt`. Thread-safe."""

    def __init__(self, store: ContentStore, limits: Limits, calls: PluginCalls, now: Callable[[], datetime]) -> None:
        self._store, self._limits, self._calls, self._now = store, limits, calls, now

    def resolve(self, spec: Spec, pins: Pins, call: Call) -> Resolved:
        """Resolve the sources that have no pin; those that succeed are pinned even if others fail.

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
                failures.append(error)
            elif error is not None:
                raise error
            found.append(None if error else future.result() if future else pin)
        return Resolved(pins=tuple(found), failure=first_failure(failures))

    def _resolve(self, spec: Spec, index: int, call: Call) -> SourcePin:
        source = spec.sources[index]
        plugin = source_of(source.kind)
        origin = origin_of(plugin, source, spec.install_namespace)
        with self._calls.asking(Phase.RESOLVE, index, source, call), self._store.scratch() as scratch:
            access = self._calls.access(index, source, scratch, call)
            auth_digest = access.credentials.identity if access.credentials else ""

            def _key(resolution: Resolution) -> str:
                return store_key(content_key(plugin, source, resolution), origin, origin, auth_digest)

            def _is_stored(resolution: Resolution) -> bool:
                return self._store.get(_key(resolution)) is not None

            def _keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
                self._store.put(
                    _key(resolution),
                    lambda to: write_entries(entries, to, self._limits, access.path, call.use, records=True),
                )

            resolution = plugin.resolve(source.parameters_json, replace(access, is_stored=_is_stored, keep=_keep))
        is_same = access.previous is not None and access.previous.digest == resolution.digest
        self._calls.note(source, SourceResult.NOT_MODIFIED if is_same else SourceResult.RESOLVED)
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
        )
