"""What is said about the health of one object: a state, a reason, a message.

Invariant: a message is one printable line of at most `MESSAGE_LENGTH` characters, and equal for an equal state of
affairs: no times, no generated names (README.md). So a status that holds it is not written again and again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

MESSAGE_LENGTH = 300

# What conditions of Kubernetes allow, shorter.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")

_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?( ?(Z|[+-]\d{2}:?\d{2}))?( UTC)?( m=[+-][\d.]+)?"
# The alphabet of k8s.io/apimachinery/pkg/util/rand: a ReplicaSet's hash, then what is generated for each pod.
_POD_SUFFIX = r"-[bcdfghjklmnpqrstvwxz2456789]{7,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b"
_UNSTABLE = ((re.compile(_TIME), "…"), (re.compile(_POD_SUFFIX), "-…"))


def stable(text: str) -> str:
    """Return a text as one printable line of at most `MESSAGE_LENGTH` characters, without times and names of pods."""
    beginning = text[: 8 * MESSAGE_LENGTH]  # far more than is kept, far less than an object may say
    line = " ".join("".join(letter for letter in beginning if letter.isprintable() or letter.isspace()).split())
    for pattern, replacement in _UNSTABLE:
        line = pattern.sub(replacement, line)
    return line if len(line) <= MESSAGE_LENGTH else f"{line[: MESSAGE_LENGTH - 1]}…"


class State(Enum):
    """What becomes of an object; kstatus' names are Current, InProgress, Failed, Terminating and NotFound."""

    HEALTHY = "Healthy"
    """It has reached its desired state, or has none to reach."""
    PROGRESSING = "Progressing"
    """It is on its way, or nothing was reported yet."""
    FAILED = "Failed"
    """It needs a change, or its deadline has passed. It may always recover."""
    TERMINATING = "Terminating"
    """It is being deleted."""
    MISSING = "Missing"
    """It is not on the cluster."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The health of one object.

    Args:
        state: how it is.
        reason: stable, CamelCase, never empty.
        message: why; made stable and cut here.
        deadline: whether `spec.progressDeadline` turns it into Failed. Where not, it does not hold up prune either.
    """

    state: State
    reason: str
    message: str = ""
    deadline: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", stable(self.message))


HEALTHY = Verdict(State.HEALTHY, "Healthy")


def healthy(reason: str, message: str = "") -> Verdict:
    """Return a Healthy verdict that has something to say; `HEALTHY` is the one that has not."""
    return Verdict(State.HEALTHY, reason, message)


def progressing(reason: str, message: str = "", *, deadline: bool = True) -> Verdict:
    """Return a Progressing verdict."""
    return Verdict(State.PROGRESSING, reason, message, deadline)


def failed(reason: str, message: str = "") -> Verdict:
    """Return a Failed verdict."""
    return Verdict(State.FAILED, reason, message)


def reason_or(reason: str, default: str) -> str:
    """Return the reason that an object gives if it can stand in a condition, else the default."""
    return reason if _REASON.fullmatch(reason) else default
