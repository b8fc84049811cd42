"""Fetches the pinned content of a request into the content store, unless it is stored already.

content/archive.py writes the files.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from api.errors import BundleError
from api.plugins import Refusal
from controller.build.context import BuildSettings, Call
from controller.build.fetching.plugin_calls import SOURCES_AT_ONCE, PluginCalls, first_failure
from controller.build.origins import resolution_of
from controller.build.plugins import source_of
from controller.build.request import Request, store_keys
from controller.content.archive import write_entries
from controller.content.store import ContentStore
from controller.telemetry import Phase, SourceResult


class Fetcher:
    """Fetches content, a few sources at a time. Thread-safe."""

    def __init__(self, store: ContentStore, settings: BuildSettings, calls: PluginCalls) -> None:
        self._store, self._settings, self._calls = store, settings, calls
        self._in_use: Counter[str] = Counter()
        self._lock = threading.Lock()

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
            call.use.add_stored(stored)
            self._calls.note(source, SourceResult.REUSED)
            return stored

        written: list[Path] = []

        def _write(folder: Path) -> Mapping[str, Refusal]:
            written.append(folder)
            with self._store.scratch() as scratch:
                access = self._calls.access(index, source, scratch, call)
                entries = plugin.fetch(source.parameters_json, resolution, access)
                return write_entries(entries, folder, self._settings.limits, access.path, call.use, records=True)

        with self._calls.asking(Phase.FETCH, index, source, call):
            folder = self._store.put(key, _write)
            if not written:  # another build has
                call.use.add_stored(folder)
        self._calls.note(source, SourceResult.FETCHED)
        return folder
