"""Calls of source plug-ins: what they may use, how their results are reported, and how several failures become one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Source
from controller.build.context import BuildSettings, Call
from controller.build.origins import resolution_of
from controller.retries import OF_SECRETS
from controller.telemetry import Observer, Phase, SourceResult, timed

# Then its Secret could not be used, and the source was not queried.
_BEFORE_QUERY = OF_SECRETS | {
    Reason.SERVICE_ACCOUNT_NOT_FOUND,
    Reason.SERVICE_ACCOUNT_REPLACED,
    Reason.NAMESPACE_NOT_FOUND,
    Reason.NAMESPACE_REPLACED,
}
SOURCES_AT_ONCE = 4
"""Per BundleDeployment. Together with --fetch-workers this limits the threads, connections and children of all."""


class PluginCalls:
    """Prepares calls of source plug-ins, and reports their results to the observer. Thread-safe."""

    def __init__(self, settings: BuildSettings, observer: Observer) -> None:
        self._settings, self._observer = settings, observer

    @contextmanager
    def asking(self, phase: Phase, index: int, source: Source, call: Call) -> Iterator[None]:
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

    def note(self, source: Source, result: SourceResult) -> None:
        """Report the result of a call that succeeded."""
        self._observer.source_asked(source.kind, result)

    def access(self, index: int, source: Source, scratch: Path, call: Call) -> Access:
        """Return what a plug-in may use for one source, by its index in the spec; its deadline starts now.

        Raises: BundleError if the credentials cannot be read.
        """
        context = call.context
        previous = context.previous[index] if context.previous else None

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
            progress=_advance,
            receive=lambda done: call.use.receive(index, done),
        )
        return replace(access, config_map=lambda name: read(index, name)) if read else access


def first_failure(failures: Sequence[BundleError]) -> BundleError | None:
    """Return the first failure by spec order, with the number of others in its message; None if there is none."""
    failures = list({failure.message: failure for failure in reversed(failures)}.values())[::-1]
    if len(failures) < 2:  # noqa: PLR2004 - one failure speaks for itself
        return failures[0] if failures else None
    first = failures[0]
    message = f"{first.message} (and {len(failures) - 1} more)"
    return BundleError(first.reason, message, retry_after=first.retry_after)
