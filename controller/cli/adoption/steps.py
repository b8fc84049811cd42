"""Steps that adoptions have in common: each is done before the next one begins, or the adoption ends here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.cli.command import explain, tell
from controller.cli.deployments.access import Deployments, Manifest
from controller.cli.deployments.waiting import Awaits, Waiter, awaits_ready
from controller.kube.errors import ApiError

SHOWN = 10
"""Names that a line lists."""


class UnfinishedError(Exception):
    """The adoption is not complete; the message is one line."""


def apply_and_wait(deployments: Deployments, value: Manifest, seconds: float) -> Manifest:
    """Apply a BundleDeployment, and return it when it is Ready.

    Raises: UnfinishedError, ApiError.
    """
    return wait_until(deployments, deployments.apply(value), awaits_ready, seconds)


def wait_until(deployments: Deployments, value: Manifest, awaits: Awaits, seconds: float) -> Manifest:
    """Wait for a BundleDeployment, and return its last state.

    Raises: UnfinishedError, ApiError.
    """
    values, failures = Waiter(deployments, awaits, seconds).wait([value])
    for failure in failures:
        raise UnfinishedError(f"{failure.cause}{f': {failure.text}' if failure.text else ''}")
    return values[0]


def tell_unfinished(name: str, error: UnfinishedError | ApiError, done: Iterable[str]) -> None:
    """Print why an adoption is not complete, and what stays done."""
    tell(f"rukpak adopt: {name}: {explain(error) if isinstance(error, ApiError) else error}")
    for line in done:
        tell(f"  {line}")
    tell("correct that and run the command again")


def some(texts: Sequence[str]) -> str:
    """Return the first of many names for a line."""
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f"{', '.join(texts[:SHOWN])}{more}"
