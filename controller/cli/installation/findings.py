"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How a part is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The user may not ask."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a part, how it is, and what to do if it is not in order."""

    level: Level
    subject: str
    text: str

    @property
    def is_failure(self) -> bool:
        """Whether RukPak cannot work with it."""
        return self.level is Level.FAILED


def ok(subject: str, text: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str) -> Finding:
    """Return a finding that may be a problem."""
    return Finding(Level.WARNING, subject, text)


def failed(subject: str, text: str) -> Finding:
    """Return a finding without whose remedy RukPak does not work."""
    return Finding(Level.FAILED, subject, text)


def unknown(subject: str, text: str) -> Finding:
    """Return that something could not be found out."""
    return Finding(Level.UNKNOWN, subject, text)
