"""The settings of a builder, and what its caller provides for one BundleDeployment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from api.errors import BundleError
from api.plugins import Credentials, Limits, LocalContent, Means, Network, endless
from api.v1alpha2.types import Source
from controller.build.pins import Pins
from controller.content.store import Use

_ANYWHERE = Network()
_USUAL = Means()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """Settings of all builds."""

    store_bytes: int
    """Limit of the content store, not counting content in use."""
    limits: Limits
    timeout: float
    """Seconds to resolve one source, and to fetch it."""
    network: Network = _ANYWHERE
    means: Means = _USUAL
    """What rendering may use; each call has its own scratch folder, cancel token and limits. Its confinement also
    applies to sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What the caller provides for one BundleDeployment: values and callbacks, no cluster."""

    credentials: Callable[[int, Source], Credentials | None] = lambda _index, _source: None
    """Reads the Secret of a source, by its index in the spec; raises BundleError."""
    config_map: Callable[[int, str], LocalContent] | None = None
    """Reads a ConfigMap of the install namespace for a source, by its index and the name; raises BundleError."""
    progress: Callable[[int, int, int], None] = lambda _index, _done, _total: None
    """Receives the index of a source, the bytes done, and their total (0: unknown)."""
    ended: Callable[[int, BundleError | None], None] = lambda _index, _failure: None
    """Receives the index of a source that was asked, and its failure."""
    room: Callable[[int, threading.Event], AbstractContextManager[None]] = lambda size, _cancelled: endless(size)
    """Waits for that many bytes of memory and holds them for a block; the event cancels the wait."""
    guard: Callable[[], AbstractContextManager[None]] = nullcontext
    """Records work that might kill the process; raises BundleError if it has."""
    previous: Pins = ()
    """When polling: the current pin of each source."""
    max_ages: Sequence[float] = ()
    """When polling: how old what is shared among the calls of each source may be, in seconds."""
    tenant: str = ""
    """Owner of the disk share, as messages name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the builder, as its parts see it."""

    cancelled: threading.Event
    context: BuildContext
    use: Use
    """Of the disk."""
