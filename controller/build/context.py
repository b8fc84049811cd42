"""What a builder works with: settings of its own, and what the caller brings for one BundleDeployment.

Values and callbacks: no cluster takes part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from api.errors import BundleError
from api.plugins import Credentials, Limits, Means, Network, endless
from api.v1alpha2.types import Source
from controller.build.pins import Pins
from controller.content.shares import Use

_ANYWHERE = Network()
_USUAL = Means()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """What holds for all that a builder makes."""

    store_bytes: int
    """What the content store may hold beside what is in use."""
    limits: Limits
    timeout: float
    """Seconds for resolving, and for fetching, one source."""
    network: Network = _ANYWHERE
    """What the administrator says about reaching sources."""
    means: Means = _USUAL
    """What rendering may use; scratch, cancel token and limits are those of each call. What it says of confinement
    holds for sources, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the builder, as its parts see it."""

    cancelled: threading.Event
    context: BuildContext
    use: Use
    """What it takes of the disk."""
