"""Calls of source plug-ins: what they may use, who is told how they end, and how several of them fail together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.types import Source
from controller.build.context import BuildContext, BuildSettings, Call
from controller.build.origins import resolution_of
from controller.telemetry import Observer, Phase, SourceResult, timed

SOURCES_AT_ONCE = 4
"""Of one BundleDeployment: with --fetch-workers that bounds threads, connections and children in all."""


class PluginCalls:
    """Prepares and watches over calls of source plug-ins. Thread-safe.

    Args:
        settings: limits, times and what the network allows.
        observer: is told how long the phases take, and what is asked of sources.
    """

    def __init__(self, settings: BuildSettings, observer: Observer) -> None:
        self._settings, self._observer = settings, observer

    @contextmanager
    def asking(self, phase: Phase, index: int, source: Source, call: Call) -> Iterator[None]:
        """Tell how long asking a source takes, and how it ends if it fails."""
        try:
            with timed(self._observer, phase), _telling(index, call.context):
                yield
        except BundleError:
            self._observer.source_asked(source.kind, SourceResult.ERROR)
            raise

    def note(self, source: Source, result: SourceResult) -> None:
        """Tell what came of asking a source."""
        self._observer.source_asked(source.kind, result)

    def access(self, index: int, source: Source, scratch: Path, call: Call) -> Access:
        """Return what a plug-in may use for one source, by its index in the spec; time runs from now on."""
        context = call.context
        previous = context.previous[index] if context.previous else None

        def advance(done: int, total: int) -> None:
            call.use.receive(index, done)
            context.progress(index, done, total)

        return Access(
            path=f"spec.sources[{index}].{source.block}",
            deadline=time.monotonic() + self._settings.timeout,
            cancelled=call.cancelled,
            scratch=scratch,
            limits=self._settings.limits,
            network=self._settings.network,
            credentials=context.credentials(index, source),
            confinement_required=self._settings.means.confinement_required,
            previous=resolution_of(previous) if previous else None,
            room=lambda size: context.room(size, call.cancelled),
            progress=advance,
        )


def first_failure(failures: Sequence[BundleError]) -> BundleError | None:
    """Return the first failure by spec order, which says how many others there are; None if there is none."""
    failures = list({failure.message: failure for failure in reversed(failures)}.values())[::-1]
    if len(failures) < 2:  # noqa: PLR2004 - one failure speaks for itself
        return failures[0] if failures else None
    first = failures[0]
    message = f"{first.message} (and {len(failures) - 1} more)"
    return BundleError(first.reason, message, retry_after=first.retry_after)


@contextmanager
def _telling(index: int, context: BuildContext) -> Iterator[None]:
    """Tell how asking a source ends."""
    try:
        yield
    except BundleError as error:
        context.ended(index, error)
        raise
    context.ended(index, None)
