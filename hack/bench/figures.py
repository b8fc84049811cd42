"""The figures, their limits, and how runs are combined."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Budget = Callable[[float | None], float]
"""The limit of a figure, given that of the bare client."""
Limits = Mapping[str, Budget]
"""The limits of a scenario, by the key of their figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure of the controller, and of the bare client if it has one."""

    ours: float
    raw: float | None = None
    verbs: Mapping[str, int] = field(default_factory=dict)
    """Requests by verb, where requests are counted."""


Sample = Mapping[str, Measured]
"""The figures of one run by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure and its presentation."""

    key: str
    title: str
    digits: int = 0


def at_most(value: float) -> Budget:
    """Return a limit that does not depend on the bare client."""
    return lambda _raw: value


def twice(raw: float | None) -> float:
    """Return twice the figure of the bare client."""
    return 2 * (raw or 0)


FIGURES = (
    Figure(key="install_seconds", title="install, s", digits=2),
    Figure(key="install_requests", title="requests to install"),
    Figure(key="install_cpu", title="CPU to install, s", digits=2),
    Figure(key="install_server_cpu", title="CPU of API server and etcd meanwhile, s", digits=2),
    Figure(key="idle_requests", title="requests per minute when idle"),
    Figure(key="resident", title="resident memory when idle, MiB"),
    Figure(key="peak", title="peak resident memory, MiB"),
    Figure(key="repair_seconds", title="repair of one edit, s", digits=3),
    Figure(key="repair_requests", title="requests for one repair", digits=1),
    Figure(key="restart_seconds", title="restart until caches are filled, s", digits=2),
    Figure(key="restart_cpu", title="CPU of a restart, s", digits=2),
    Figure(key="restart_requests", title="requests of a restart"),
    Figure(key="restart_writes", title="writes of a restart"),
    Figure(key="delete_seconds", title="deletion, s", digits=2),
    Figure(key="delete_requests", title="requests to delete"),
    Figure(key="delete_cpu", title="CPU to delete, s", digits=2),
)


def medians(samples: Sequence[Sample]) -> Sample:
    """Return the median of each figure; the verbs are those of the last run."""
    return {key: _median([sample[key] for sample in samples]) for key in samples[0]}


def _median(measured: Sequence[Measured]) -> Measured:
    raws = [each.raw for each in measured if each.raw is not None]
    return Measured(
        ours=statistics.median(each.ours for each in measured),
        raw=statistics.median(raws) if raws else None,
        verbs=measured[-1].verbs,
    )
