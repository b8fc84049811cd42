"""The one error that a user can cause. What the controller does about it hangs on the reason."""

from __future__ import annotations

from api.bounds import clamp_retry_after
from api.v1alpha2.conditions import Reason


class BundleError(Exception):
    """A failure that a user can cause, and is told about in a condition.

    Args:
        reason: carries the retry class, see `api.v1alpha2.conditions`.
        message: where, what is wrong, what to do; one line, lower case, values quoted, no full stop. Equal for an
            equal failure (no times, ports or counters); never a secret.
        retry_after: seconds, if the other side asked for that; at most an hour of them counts.
    """

    def __init__(self, reason: Reason, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{reason.value}: {message}")
        self.reason = reason
        self.message = message
        self.retry_after = clamp_retry_after(retry_after)
