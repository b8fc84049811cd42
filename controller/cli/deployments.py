"""BundleDeployments on a cluster, for verbs that show or change them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from api import names
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.cli.command import FAILED, add_cluster_options, add_output, connect, make_parser, tell
from controller.cli.output import name_of, one_line, show
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.replies import Response
from controller.kube.resources import DEPLOYMENTS

Manifest = dict[str, Any]
Awaits = Callable[[BundleDeployment], str]
"""Returns what a BundleDeployment is waiting for; empty: nothing."""
MANAGER = "kubectl-rukpak"
POLL_SECONDS = 0.5
AWAITING_CONTROLLER = "waiting for the controller"
_CLEAR = "\r\x1b[K"


class NoApiError(ApiError):
    """The cluster does not serve BundleDeployments."""

    def __str__(self) -> str:
        """Return the message, with the remedy."""
        remedy = 'run "rukpak crd | kubectl apply --server-side -f -" to install the API'
        return f"the cluster does not serve BundleDeployments; {remedy}"


class Deployments:
    """The BundleDeployments of a cluster. Every method raises ApiError, NoApiError where the API is not installed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(self) -> list[Manifest]:
        """Return all BundleDeployments.

        Raises: ApiError.
        """
        try:
            found = self._client.list(DEPLOYMENTS.path())
            return [{"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, **item} for item in found]
        except ApiError as error:
            raise _explain(error) from None

    def get(self, name: str) -> Manifest | None:
        """Return a BundleDeployment; None if it does not exist.

        Raises: ApiError.
        """
        return _value_unless_missing(lambda: self._client.get(DEPLOYMENTS.path(name=name)))

    def change(self, name: str, change: Mapping[str, Any]) -> Manifest | None:
        """Merge a change into a BundleDeployment and return the result; None if it does not exist.

        Raises: ApiError.
        """
        path = DEPLOYMENTS.path(name=name)
        return _value_unless_missing(lambda: self._client.merge_patch(path, change, manager=MANAGER))

    def delete(self, name: str) -> None:
        """Request the deletion of a BundleDeployment, if it exists.

        Raises: ApiError.
        """
        _value_unless_missing(lambda: self._client.delete(DEPLOYMENTS.path(name=name)))


def _value_unless_missing(request: Callable[[], Response]) -> Manifest | None:
    try:
        value: Manifest = request().value
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND and error.reason:
            return None
        raise _explain(error) from None
    return value


def _explain(error: ApiError) -> ApiError:
    # Only an object that does not exist has a reason: for an unknown path the reply is plain text.
    if error.status == HTTPStatus.NOT_FOUND and not error.reason:
        return NoApiError(error.status, error.reason, error.message)
    return error


# changing and waiting


def change_each(
    arguments: Sequence[str], verb: str, description: str, change: Mapping[str, Any], *, done: str, awaits: Awaits
) -> int:
    """Run a verb that merges a change into each BundleDeployment named, and with `--wait` waits for `awaits`.

    Returns: the exit status.
    Raises: ApiError, ConfigurationError.
    """
    parser = make_parser(verb, description)
    options = parse_names(parser, arguments, nargs="+", wait="wait until the controller is done")
    deployments = Deployments(connect(options))
    found = find_each(verb, options.names, lambda name: deployments.change(name, change))
    values, in_time = wait_each(deployments, found, awaits, options.timeout) if options.wait else (found, True)
    lines = "".join(f"{name_of(value)} {done}\n" for value in values)
    print(show(values, options.output) if options.output else lines, end="")
    return 0 if in_time and len(found) == len(options.names) else FAILED


def parse_names(
    parser: argparse.ArgumentParser, arguments: Sequence[str], *, nargs: str, wait: str
) -> argparse.Namespace:
    """Return the options of a verb that takes names; `wait` is the help of `--wait`."""
    parser.add_argument("names", nargs=nargs, metavar="NAME", help="name of a BundleDeployment")
    parser.add_argument("--wait", action="store_true", help=wait)
    add_timeout(parser)
    add_output(parser, ("json", "yaml", "name"))
    add_cluster_options(parser)
    return parser.parse_args(arguments)


def find_each(verb: str, wanted: Iterable[str], find: Callable[[str], Manifest | None]) -> list[Manifest]:
    """Return the BundleDeployments that exist; report the others on stderr."""
    found = [(name, find(name)) for name in wanted]
    for name in (name for name, value in found if value is None):
        tell(f'rukpak {verb}: BundleDeployment "{name}" not found')
    return [value for _, value in found if value is not None]


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add `--timeout`."""
    text = "how long to wait, such as 30s or 5m [default: 5m]"
    parser.add_argument("--timeout", type=_seconds, default=300.0, metavar="DURATION", help=text)


def _seconds(text: str) -> float:
    from api.v1alpha2.types import parse_duration  # noqa: PLC0415 - argparse wants its own error

    try:
        return float(text) if text.isdecimal() else parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def wait_each(
    deployments: Deployments, values: Iterable[Manifest], awaits: Awaits, seconds: float
) -> tuple[list[Manifest], bool]:
    """Wait for one BundleDeployment after the other, each for so many seconds, with progress on stderr.

    Returns: their last state, and whether none of them timed out.
    Raises: ApiError.
    """
    waited = [_wait(deployments, value, awaits, seconds) for value in values]
    return [value for value, _ in waited], all(in_time for _, in_time in waited)


def _wait(deployments: Deployments, value: Manifest, awaits: Awaits, seconds: float) -> tuple[Manifest, bool]:
    name, line = value["metadata"]["name"], ProgressLine()
    deadline = time.monotonic() + seconds
    while awaited := _find_awaited(value, awaits):
        if time.monotonic() >= deadline:
            line.clear()
            tell(f"{name}: timed out: {awaited}")
            return value, False
        line.show(f"{name}: {awaited}")
        time.sleep(POLL_SECONDS)
        value = deployments.get(name) or value
    line.clear()
    return value, True


def _find_awaited(value: Manifest, awaits: Awaits) -> str:
    deployment, problem = try_to_read(value)
    return f"cannot be read: {problem}" if deployment is None else awaits(deployment)


class ProgressLine:
    """Progress on stderr: one line that is overwritten; where that is no terminal, a line for each change."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, text: str) -> None:
        """Show a text, unless it is shown already."""
        if text == self._last:
            return
        self._last = text
        if sys.stderr.isatty():
            print(f"{_CLEAR}{one_line(text)[:120]}", end="", file=sys.stderr, flush=True)
        else:
            tell(text)

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._last and sys.stderr.isatty():
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def awaits_ready(deployment: BundleDeployment) -> str:
    """Return why a BundleDeployment is not Ready at its current generation; empty: it is."""
    status, reason, message = condition(deployment, "Ready")
    if not status:
        return AWAITING_CONTROLLER
    return "" if status == "True" else f"{reason}: {message}"


def condition(deployment: BundleDeployment, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; empty ones unless it is about the current generation."""
    found = deployment.status.condition(kind)
    if found is None or found.observed_generation != deployment.metadata.generation:
        return "", "", ""
    return found.status, found.reason, found.message
