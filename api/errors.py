"""The error for failures that a user can cause. Its reason decides what the controller does about it."""

from __future__ import annotations

from typing import Self

from rukpak.api.bounds import clamp_retry_after
from rukpak.api.v1alpha2.conditions import Reason


class BundleError(Exception):
    """A failure that a user can cause and that a condition reports.

    Args:
        reason: determines the retry class, see `rukpak.api.v1alpha2.conditions`.
        problem: what is wrong, what to do; one line, lower case, values quoted, no full stop. The same failure has the
            same message (no times, ports or counters); never a secret.
        place: where, such as a field path of the spec or a file; the message starts with it. Empty: the problem says
            it.
        retry_after: seconds, if the server asked for a delay; limited to one hour.
    """

    def __init__(self, reason: Reason, problem: str, *, place: str = "", retry_after: float | None = None) -> None:
        self.reason = reason
        self.problem = problem
        self.place = place
        self.message = f"{place}: {problem}" if place else problem
        self.retry_after = clamp_retry_after(retry_after)
        super().__init__(f"{reason.value}: {self.message}")

    def at(self, place: str) -> BundleError:
        """Return the same failure at another place."""
        return BundleError(self.reason, self.problem, place=place, retry_after=self.retry_after)

    def reworded(self, message: str) -> BundleError:
        """Return the same failure, about the same place, with another message as a whole."""
        error = BundleError(self.reason, message, retry_after=self.retry_after)
        error.place = self.place
        return error

    def without_frames(self) -> Self:
        """Return this error, which is kept from now on: without what led to it, whose frames hold all they worked on.

        A server could make the controller keep a list of megabytes for each source that fails because of it.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self
