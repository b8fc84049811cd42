"""The verdict on the health of one object: a state, a reason, a message.

Invariant: a message is one printable line of at most `MESSAGE_LENGTH` characters without times or generated names
(README.md), so that an unchanged object never causes a write of status.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

MESSAGE_LENGTH = 300

# What Kubernetes allows in conditions, but shorter.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")

_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?( ?(Z|[+-]\d{2}:?\d{2}))?( UTC)?( m=[+-][\d.]+)?"
# The alphabet of k8s.io/apimachinery/pkg/util/rand: the hash of a ReplicaSet, then the suffix of a pod.
_POD_SUFFIX = r"-[bcdfghjklmnpqrstvwxz2456789]{7,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b"
_UNSTABLE = ((re.compile(_TIME), "…"), (re.compile(_POD_SUFFIX), "-…"))


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


def reason_or(reason: str, default: str) -> str:
    """Return the reason that an object reports if a condition allows it, else the default."""
    return reason if _REASON.fullmatch(reason) else default
