"""BundleDeployments on a cluster, for verbs that show or change them: read, changed, waited for, printed."""

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
from controller.cli.output import list_of, name_of, one_line, to_json, to_yaml
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.resources import DEPLOYMENTS

Manifest = dict[str, Any]
MANAGER = "kubectl-rukpak"
POLL_SECONDS = 0.5
_CLEAR = "\r\x1b[K"


class NoApiError(ApiError):
    """The cluster does not serve BundleDeployments."""

    def __str__(self) -> str:
        """Return what to do."""
        return 'the cluster serves no BundleDeployments; "rukpak crd | kubectl apply --server-side -f -" makes it'


class Deployments:
    """The BundleDeployments of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def all(self) -> list[Manifest]:
        """Return all of them.

        Raises: ApiError; NoApiError if there is no such kind.
        """
        try:
            found = self._client.list(DEPLOYMENTS.path())
            return [{"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, **item} for item in found]
        except ApiError as error:
            raise _explained(error) from None

    def get(self, name: str) -> Manifest | None:
        """Return one of them; None if there is none of that name.

        Raises: ApiError; NoApiError if there is no such kind.
        """
        try:
            value: Manifest = self._client.get(DEPLOYMENTS.path(name=name)).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.reason:
                return None
            raise _explained(error) from None
        return value

    def change(self, name: str, change: Mapping[str, Any]) -> Manifest | None:
        """Merge a change into one of them and return it; None if there is none of that name.

        Raises: ApiError; NoApiError if there is no such kind.
        """
        try:
            value: Manifest = self._client.merge_patch(DEPLOYMENTS.path(name=name), change, manager=MANAGER).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND and error.reason:
                return None
            raise _explained(error) from None
        return value

    def delete(self, name: str) -> None:
        """Ask for the deletion of one of them.

        Raises: ApiError.
        """
        try:
            self._client.delete(DEPLOYMENTS.path(name=name))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def _explained(error: ApiError) -> ApiError:
    if error.status == HTTPStatus.NOT_FOUND and not error.reason:
        return NoApiError(error.status, error.reason, error.message)
    return error


# what a verb that changes some of them has in common


Changed = Callable[[BundleDeployment], str]
"""Returns what is still awaited of a BundleDeployment; empty: nothing."""


def change_each(
    arguments: Sequence[str],
    verb: str,
    description: str,
    change: Mapping[str, Any],
    *,
    done: str,
    awaits: Changed,
) -> int:
    """Change the BundleDeployments that are named, and wait where that is asked for.

    Args:
        arguments: of the verb.
        verb: its name.
        description: of the verb, in its help.
        change: merged into each of them.
        done: what is said of one that was changed.
        awaits: what `--wait` waits for.

    Returns: the exit status.
    Raises: ApiError, ConfigurationError.
    """
    options = _parse(arguments, verb, description)
    deployments = Deployments(connect(options))
    changed = [(name, deployments.change(name, change)) for name in options.names]
    missing = [name for name, value in changed if value is None]
    for name in missing:
        tell(f'rukpak {verb}: BundleDeployment "{name}" not found')
    found = [value for _, value in changed if value is not None]
    waited = [wait(deployments, value, awaits, options.timeout) for value in found] if options.wait else []
    results = [value for value, _ in waited] if options.wait else found
    print(show(results, options.output) if options.output else _say(results, done), end="")
    return FAILED if missing or not all(in_time for _, in_time in waited) else 0


def _parse(arguments: Sequence[str], verb: str, description: str) -> argparse.Namespace:
    parser = make_parser(verb, description)
    parser.add_argument("names", nargs="+", metavar="NAME", help="name of a BundleDeployment")
    parser.add_argument("--wait", action="store_true", help="wait until the controller has done it")
    add_timeout(parser)
    add_output(parser, ("json", "yaml", "name"))
    add_cluster_options(parser)
    return parser.parse_args(arguments)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add `--timeout`."""
    parser.add_argument("--timeout", type=_seconds, default=300.0, help="how long to wait, like 30s or 5m [5m]")


def _seconds(text: str) -> float:
    from api.v1alpha2.types import parse_duration  # noqa: PLC0415 - argparse wants its own error

    try:
        return float(text) if text.isdecimal() else parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def wait(deployments: Deployments, value: Manifest, awaits: Changed, seconds: float) -> tuple[Manifest, bool]:
    """Wait for a BundleDeployment, with a line on stderr that says for what.

    Returns: as it is at last, and whether it came to what was awaited in time.
    Raises: ApiError.
    """
    name, line = value["metadata"]["name"], ProgressLine()
    deadline = time.monotonic() + seconds
    while awaited := _awaited(value, awaits):
        if time.monotonic() >= deadline:
            line.end()
            tell(f"{name}: not in time: {awaited}")
            return value, False
        line.show(f"{name}: {awaited}")
        time.sleep(POLL_SECONDS)
        value = deployments.get(name) or value
    line.end()
    return value, True


def _awaited(value: Manifest, awaits: Changed) -> str:
    deployment, problem = try_to_read(value)
    return f"cannot be read: {problem}" if deployment is None else awaits(deployment)


class ProgressLine:
    """One line on stderr that changes; where that is no terminal, a line for each change."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, text: str) -> None:
        """Show another text, if it is another."""
        if text == self._last:
            return
        self._last = text
        if sys.stderr.isatty():
            print(f"{_CLEAR}{one_line(text)[:120]}", end="", file=sys.stderr, flush=True)
        else:
            tell(text)

    def end(self) -> None:
        """Take the line away from a terminal."""
        if self._last and sys.stderr.isatty():
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def show(values: Sequence[Manifest], output: str) -> str:
    """Return BundleDeployments as kubectl shows them with `-o`."""
    if output == "name":
        return "".join(f"{name_of(value)}\n" for value in values)
    value = values[0] if len(values) == 1 else list_of(values)
    return to_json(value) if output == "json" else to_yaml(value)


def _say(values: Iterable[Manifest], done: str) -> str:
    return "".join(f"{name_of(value)} {done}\n" for value in values)


def condition(deployment: BundleDeployment, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition about the spec as it is; nothing if there is none yet."""
    found = deployment.status.condition(kind)
    if found is None or found.observed_generation != deployment.metadata.generation:
        return "", "", ""
    return found.status, found.reason, found.message
