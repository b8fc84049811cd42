"""A verdict on the health of an object, and the object as rules see it. Pure.

Invariant: a message is one printable line of at most `MESSAGE_LENGTH` characters without times or generated names
(README.md), so that an unchanged object never causes a write of status.

A field that is null or of the wrong type counts as missing, and a missing number as 0. A condition whose own
observedGeneration differs from metadata.generation counts as missing, too (flux2#5855), but `Subject.outdated` has its
type. Of two conditions of one type the first counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Generic, TypeVar

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import NOT_READY_ITEMS, ConditionStatus
from rukpak.controller.observe.health.expressions import Answer
from rukpak.controller.untrusted import field, integer, mappings, text

MESSAGE_LENGTH = 300
MOST_CONDITIONS, TEXT_CHARACTERS = 1000, 4096
"""Conditions of an object that are read, and characters of each of their texts: others write them with each event."""
_TEXTS = ("type", "status", "reason", "message")
# What Kubernetes allows in conditions, but shorter.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")
_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?( ?(Z|[+-]\d{2}:?\d{2}))?( UTC)?( m=[+-][\d.]+)?"
# The alphabet of k8s.io/apimachinery/pkg/util/rand: the hash of a ReplicaSet, then the suffix of a pod.
_POD_SUFFIX = r"-[bcdfghjklmnpqrstvwxz2456789]{7,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b"
_UNSTABLE = ((re.compile(_TIME), "…"), (re.compile(_POD_SUFFIX), "-…"))
Manifest = Mapping[str, Any]


def stable(text: str) -> str:
    """Return a text as one printable line of at most `MESSAGE_LENGTH` characters, without times or names of pods."""
    beginning = text[: 8 * MESSAGE_LENGTH]  # far more than is kept, far less than an object may contain
    line = " ".join("".join(letter for letter in beginning if letter.isprintable() or letter.isspace()).split())
    for pattern, replacement in _UNSTABLE:
        line = pattern.sub(replacement, line)
    return line if len(line) <= MESSAGE_LENGTH else f"{line[: MESSAGE_LENGTH - 1]}…"


class State(Enum):
    """The state of an object; in kstatus Current, InProgress, Failed, Terminating and NotFound."""

    HEALTHY = "Healthy"
    """It reached its desired state, or has none."""
    PROGRESSING = "Progressing"
    """It is on its way, or has not reported yet."""
    FAILED = "Failed"
    """It needs a change, or its deadline passed. It may always recover."""
    TERMINATING = "Terminating"
    """It is being deleted."""
    MISSING = "Missing"
    """It is not on the cluster."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The health of one object.

    Args:
        state: of the object.
        reason: CamelCase, never empty.
        message: why; passed through `stable`.
        deadline: whether `spec.progressDeadline` turns it into Failed. If not, it does not delay pruning either.
        hint: what to do where the cluster may lack what the object waits for; never shortened.
    """

    state: State
    reason: str
    message: str = ""
    deadline: bool = True
    hint: str = ""

    @property
    def text(self) -> str:
        """Return the message with the hint."""
        return "; ".join(filter(None, (self.message, self.hint)))

    @property
    def is_timed(self) -> bool:
        """Return whether it becomes Failed once the deadline has passed."""
        return self.deadline and self.state in (State.PROGRESSING, State.MISSING)

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", stable(self.message))


HEALTHY = Verdict(State.HEALTHY, "Healthy")


def healthy(reason: str, message: str = "") -> Verdict:
    """Return a Healthy verdict with a reason of its own; see `HEALTHY`."""
    return Verdict(State.HEALTHY, reason, message)


def progressing(reason: str, message: str = "", *, deadline: bool = True, hint: str = "") -> Verdict:
    """Return a Progressing verdict."""
    return Verdict(State.PROGRESSING, reason, message, deadline, hint)


def failed(reason: str, message: str = "", *, hint: str = "") -> Verdict:
    """Return a Failed verdict."""
    return Verdict(State.FAILED, reason, message, hint=hint)


def terminating(finalizers: Iterable[str]) -> Verdict:
    """Return the verdict on an object that is being deleted."""
    listed = ", ".join(finalizers)
    return Verdict(State.TERMINATING, "Terminating", f"finalizers: {listed}" if listed else "")


def joined(*parts: str) -> str:
    """Return the parts of a message that are not empty, from the general to the particular."""
    return ": ".join(filter(None, parts))


def reason_or(reason: str, default: str) -> str:
    """Return the reason that an object reports if a condition allows it, else the default."""
    return reason if _REASON.fullmatch(reason) else default


Evaluate = Callable[[Sequence[str], Manifest], Sequence[Answer]]
"""Returns what expressions say about an object, see `expressions.evaluate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What health depends on outside the object."""

    binding_mode: Callable[[str | None], str | None] = lambda _name: None
    """Returns the volumeBindingMode of a StorageClass, of the default one for None: Immediate, WaitForFirstConsumer, or
    '' if there is no such class; None if StorageClasses cannot be read."""
    reports_status: bool | None = None
    """Whether the schema of a custom resource declares a status (definitions.py); None if unknown."""
    evaluate: Evaluate | None = None
    """None: that takes too long here, so an object that has expressions is NotEvaluated."""
    checks: tuple[Manifest, ...] = ()
    """Entries of `spec.healthChecks` that apply to this object: see `rules.matching`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition. A missing text is empty."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def holds(self) -> bool:
        """Whether its status is True."""
        return self.status == "True"


def kind_of(manifest: Manifest) -> tuple[str, str]:
    """Return the API group, empty for the core group, and the kind of an object."""
    return text(manifest, "apiVersion").rpartition("/")[0], text(manifest, "kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object under judgment."""

    manifest: Manifest
    context: Context
    conditions: Mapping[str, Condition]
    """`status.conditions` by type."""
    outdated: frozenset[str]
    """Types of conditions that describe another generation."""

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return kind_of(self.manifest)[0]

    @property
    def kind(self) -> str:
        """Kind."""
        return text(self.manifest, "kind")

    @property
    def generation(self) -> int | None:
        """`metadata.generation`; not every kind has one."""
        return integer(self.manifest, "metadata", "generation")

    @property
    def observed_generation(self) -> int | None:
        """`status.observedGeneration`."""
        return integer(self.manifest, "status", "observedGeneration")

    @property
    def replicas(self) -> int:
        """`spec.replicas`, 1 by default."""
        replicas = integer(self.manifest, "spec", "replicas")
        return 1 if replicas is None else replicas

    def spec(self, *path: str) -> Any:
        """Return a field below spec, or None."""
        return field(self.manifest, "spec", *path)

    def count(self, name: str) -> int:
        """Return a number of status, 0 if it is missing."""
        return integer(self.manifest, "status", name) or 0

    def holds(self, condition_type: str) -> bool:
        """Return whether a condition is True."""
        return self.held(condition_type) is not None

    def held(self, condition_type: str) -> Condition | None:
        """Return a condition if it is True."""
        condition = self.conditions.get(condition_type)
        return condition if condition and condition.holds else None

    def denied(self, condition_type: str) -> Condition | None:
        """Return a condition if it is False."""
        condition = self.conditions.get(condition_type)
        return condition if condition and condition.status == "False" else None


def subject_of(manifest: Manifest, context: Context) -> Subject:
    """Return an object ready for judgment."""
    items, generation = field(manifest, "status", "conditions"), integer(manifest, "metadata", "generation")
    current, outdated = read_conditions(items, generation)
    return Subject(manifest=manifest, context=context, conditions=current, outdated=outdated)


def read_conditions(items: Any, generation: int | None) -> tuple[dict[str, Condition], frozenset[str]]:
    """Return conditions by type, and the types of those that describe another generation."""
    current: dict[str, Condition] = {}
    outdated = set()
    for item in islice(mappings(items), MOST_CONDITIONS):
        condition = Condition(**{name: text(item, name)[:TEXT_CHARACTERS] for name in _TEXTS})
        observed = integer(item, "observedGeneration")
        if condition.type and None not in (observed, generation) and observed != generation:
            outdated.add(condition.type)
        elif condition.type:
            current.setdefault(condition.type, condition)
    return current, frozenset(outdated - current.keys())


FALL_SECONDS = 15.0
"""Delay before a change from Healthy to Progressing is published, so that scaling and pod restarts do not flap it."""
COUNTS_SECONDS = 5.0
"""Minimum interval between updates that change only the counts."""

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Generic[Id]):
    """The health of all objects of one revision."""

    status: ConditionStatus
    reason: Reason
    message: str
    total: int
    healthy: int
    progressing: int
    """Terminating and Missing objects included."""
    failed: int
    not_ready: tuple[tuple[Id, Verdict], ...]
    """Worst first, at most `NOT_READY_ITEMS`."""
    truncated: bool
    """Whether `not_ready` omits some."""
    settled: bool
    """Whether pruning may proceed: each object is healthy, or waits for something that no deadline covers."""
    awaited: str = ""
    """The worst of the objects that a wave waits for, and how many more there are; empty: no wave waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Generic[Id]):
    """The health that status shows, or would show."""

    health: Health[Id]
    revision: str
    """The wanted revision."""
    at: float
    """When it is written."""
    holds: bool = False
    """Whether nothing was waited for but that it holds."""


def deadline_start(*, applied: float, left_healthy: float | None, now: float) -> float:
    """Return when the deadline of an object starts.

    Args:
        applied: `time` of our managedFields entry, which survives restarts.
        left_healthy: when this process saw the object leave Healthy; None if it did not.
        now: upper bound of the result, since the clock of the API server may be ahead of ours.
    """
    return min(now, applied if left_healthy is None else max(applied, left_healthy))


def with_deadline(verdict: Verdict, *, since: float, now: float, deadline: float) -> Verdict:
    """Return the verdict, or Failed if it has been Progressing or Missing for `deadline` seconds since `since`."""
    if not verdict.is_timed or now - since < deadline:
        return verdict
    message = joined(verdict.reason, verdict.message)
    return failed(str(Reason.PROGRESS_DEADLINE_EXCEEDED), message, hint=verdict.hint)


def aggregate(verdicts: Iterable[tuple[Id, Verdict]], *, others: int = 0, awaited: Collection[Id] = ()) -> Health[Id]:
    """Return the health of a revision.

    Args:
        verdicts: one for each object, deadlines applied; `str()` of an id is `Deployment foo/web`.
        others: how many more objects there are, all of them healthy.
        awaited: those that a wave waits for.
    """
    pairs = list(verdicts)
    total = len(pairs) + others
    not_ready = sorted((pair for pair in pairs if pair[1].state is not State.HEALTHY), key=_severity)
    failures = [verdict for _, verdict in not_ready if verdict.state is State.FAILED]
    reason = _reason(not_ready, failures)
    return Health(
        status="True" if reason is Reason.HEALTHY else "False",
        reason=reason,
        message=_message(not_ready),
        total=total,
        healthy=total - len(not_ready),
        progressing=len(not_ready) - len(failures),
        failed=len(failures),
        not_ready=tuple(not_ready[:NOT_READY_ITEMS]),
        truncated=len(not_ready) > NOT_READY_ITEMS,
        settled=not any(verdict.deadline for _, verdict in not_ready),
        awaited=_message([pair for pair in not_ready if pair[0] in awaited]) if awaited else "",
    )


def publish_after(
    current: Published[Id], shown: Published[Id] | None, *, fallen_since: float | None, lasts: bool = False
) -> float | None:
    """Return in how many seconds to write a health to status: 0 for immediately, None for not at all.

    Args:
        current: what would be written now.
        shown: what status shows; None if nothing yet.
        fallen_since: when it left Healthy; None if it never was Healthy.
        lasts: whether it is known that the fall will not be over soon.
    """
    now, reason = current.at, current.health.reason
    if shown is None or shown.revision != current.revision:
        return 0.0
    if current.health == shown.health:
        return None
    if shown.health.reason is Reason.HEALTHY and reason is Reason.PROGRESSING and not lasts:
        return max(0.0, (now if fallen_since is None else fallen_since) + FALL_SECONDS - now)
    if reason is not shown.health.reason or (current.holds and not shown.holds):
        return 0.0
    return max(0.0, shown.at + COUNTS_SECONDS - now)


def _reason(not_ready: list[tuple[Id, Verdict]], failures: list[Verdict]) -> Reason:
    if not not_ready:
        return Reason.HEALTHY
    if not failures:
        return Reason.PROGRESSING
    only_late = all(_is_late(verdict) for verdict in failures)
    return Reason.PROGRESS_DEADLINE_EXCEEDED if only_late else Reason.FAILED


def _message(not_ready: list[tuple[Id, Verdict]]) -> str:
    if not not_ready:
        return "every object is healthy"
    worst, verdict = not_ready[0]
    more = f" (and {len(not_ready) - 1} more)" if len(not_ready) > 1 else ""
    return f"{joined(str(worst), verdict.reason, verdict.text)}{more}"


def _severity(pair: tuple[Id, Verdict]) -> tuple[bool, bool, bool, str]:
    identity, verdict = pair
    return verdict.state is not State.FAILED, _is_late(verdict), not verdict.deadline, str(identity)


def _is_late(verdict: Verdict) -> bool:
    return verdict.reason == str(Reason.PROGRESS_DEADLINE_EXCEEDED)
