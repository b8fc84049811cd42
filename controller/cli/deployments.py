"""Which BundleDeployments a command line names, and `--wait`.

Not here: reading and changing them, and who acts (views/access.py), and what each verb awaits (changes.py).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import DECISIONS, Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.cli.command import FAILED, tell
from rukpak.controller.content.limits import one_line
from rukpak.controller.kube.client import Client
from rukpak.controller.views import MisuseError
from rukpak.controller.views.access import Deployments, Manifest, describe_unserved, explain_unserved
from rukpak.controller.views.texts import name_of, show

POLL_SECONDS = 0.5
MANY = 3
"""From more on, all are listed instead of reading each."""
SHOWN_OBJECTS = 3
AWAITING_CONTROLLER = 'waiting for the controller; "rukpak check" shows whether one is running'
QUIET_SECONDS = 5.0
"""How long a controller may take to notice a change before that is shown."""
_CLEAR = "\r\x1b[K"


def select(options: argparse.Namespace, deployments: Deployments) -> list[Manifest]:
    """Return the BundleDeployments that the options select; report on stderr which names do not exist, or that none do.

    Args:
        options: of the command line, after `check`.
        deployments: of the cluster.

    Raises: ApiError.
    """
    if options.names:
        return find_each(options, deployments.get)
    found = deployments.all(options.selector or "")
    if not found and not options.output:
        tell("no BundleDeployments found")
    return found


def check(options: argparse.Namespace, *, default_all: bool) -> None:
    """Refuse more than one way to select.

    Raises: MisuseError.
    """
    given = [bool(options.names), options.all, bool(options.selector)]
    if sum(given) > 1:
        raise MisuseError("specify only one of NAME, --selector and --all")
    if not any(given) and not default_all:
        raise MisuseError("specify a NAME, --selector or --all")


def find_each(options: argparse.Namespace, find: Callable[[str], Manifest | None]) -> list[Manifest]:
    """Return the BundleDeployments of these names that exist; report the others on stderr."""
    found = [(name, find(name)) for name in dict.fromkeys(options.names)]
    for name in (name for name, value in found if value is None):
        tell(f'rukpak {options.verb}: BundleDeployment "{name}" not found')
    return [value for _, value in found if value is not None]


def is_complete(options: argparse.Namespace, found: Sequence[Manifest]) -> bool:
    """Return whether every name was found."""
    return not options.names or len(found) == len(set(options.names))


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a BundleDeployment is waiting for."""

    text: str = ""
    """Empty: nothing."""
    is_hopeless: bool = False
    """Whether it will not happen until a person acts."""


DONE = Awaited()
Awaits = Callable[[BundleDeployment], Awaited]


@dataclass(frozen=True, slots=True)
class Failure:
    """A BundleDeployment that did not reach what was awaited."""

    name: str
    cause: str
    text: str
    """What was awaited."""


def wait_until(
    deployments: Deployments, awaits: Awaits, seconds: float, values: Iterable[Manifest]
) -> tuple[list[Manifest], list[Failure]]:
    """Wait for BundleDeployments until each is done, is hopeless, or the time is up; stderr shows progress.

    Args:
        deployments: of their cluster.
        awaits: returns what one is waiting for.
        seconds: for all of them together.
        values: the BundleDeployments.

    Returns: the last state of each, and those that are not done.
    Raises: ApiError.
    """
    states = {value["metadata"]["name"]: value for value in values}
    failures: list[Failure] = []
    progress, begun, pending = ProgressLine(), time.monotonic(), list(states)
    try:
        while True:
            waited = time.monotonic() - begun
            is_late = waited >= seconds
            found = {name: _find_awaited(states[name], awaits) for name in pending}
            awaited = {name: each for name, each in found.items() if each.text}
            failures += [
                Failure(name, "waiting cannot help" if each.is_hopeless else "timed out", each.text)
                for name, each in awaited.items()
                if each.is_hopeless or is_late
            ]
            pending = [] if is_late else [name for name, each in awaited.items() if not each.is_hopeless]
            if not pending:
                return list(states.values()), failures
            noteworthy = [
                name for name in pending if awaited[name].text != AWAITING_CONTROLLER or waited >= QUIET_SECONDS
            ]
            progress.show_each({name: _describe_awaited(states[name], awaited[name]) for name in noteworthy})
            time.sleep(POLL_SECONDS)
            now = _read_each(deployments, pending)
            states |= now
            failures += [Failure(name, "deleted", "") for name in pending if name not in now]
            pending = [name for name in pending if name in now]
    finally:
        progress.clear()


def _read_each(deployments: Deployments, wanted: Sequence[str]) -> dict[str, Manifest]:
    if len(wanted) <= MANY:
        return {name: value for name in wanted if (value := deployments.get(name))}
    found = {value["metadata"]["name"]: value for value in deployments.all()}
    return {name: found[name] for name in wanted if name in found}


def wait_if_asked(
    options: argparse.Namespace, deployments: Deployments, awaits: Awaits, values: Sequence[Manifest]
) -> tuple[Sequence[Manifest], list[Failure]]:
    """Return the last state of each and those that are not done; without `--wait` they are returned as they are.

    Raises: ApiError.
    """
    return wait_until(deployments, awaits, options.timeout, values) if options.wait else (values, [])


def conclude(options: argparse.Namespace, values: Sequence[Manifest], failures: Sequence[Failure], *, done: str) -> int:
    """Print what has become of BundleDeployments, and what was not reached; return the exit status.

    Args:
        options: of the command line, with `output`.
        values: the last state of each.
        failures: those that did not reach what was awaited.
        done: what was done with each, for a line of its own.
    """
    lines = "".join(f"{name_of(value)} {done}\n" for value in values)
    print(show(values, options.output) if options.output else lines, end="", flush=True)
    report(options, failures, is_explained=False)
    return FAILED if failures else 0


def report(options: argparse.Namespace, failures: Iterable[Failure], *, is_explained: bool) -> None:
    """Print on stderr what was not reached; without its message if that is explained elsewhere."""
    for failure in failures:
        text = f": {failure.text}" if failure.text and not is_explained else ""
        tell(f"rukpak {options.verb}: {failure.name}: {failure.cause}{text}")


def _find_awaited(value: Manifest, awaits: Awaits) -> Awaited:
    deployment, problem = try_to_read(value)
    if deployment is None:
        return Awaited(f"cannot be read: {problem}", is_hopeless=True)
    return awaits(deployment)


def _describe_awaited(value: Manifest, awaited: Awaited) -> str:
    deployment, _ = try_to_read(value)
    objects = [f"{each.kind} {each.name}" for each in deployment.status.not_ready] if deployment else []
    shown = [name for name in objects[:SHOWN_OBJECTS] if name not in awaited.text]
    more = f"; not ready: {', '.join(shown)}" if shown else ""
    return f"{awaited.text}{more}"


class ProgressLine:
    """Progress on stderr: one line that is overwritten on a terminal, elsewhere a line with the time for each change.

    Args:
        is_logged: whether it is shown where stderr is no terminal.
    """

    def __init__(self, *, is_logged: bool = True) -> None:
        self._is_logged, self._last = is_logged, dict[str, str]()

    def show(self, text: str, about: str = "") -> None:
        """Show a text, unless it is the last one that was shown about this."""
        if text == self._last.get(about):
            return
        self._last[about] = text
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"{_CLEAR}{one_line(text)[:width]}", end="", file=sys.stderr, flush=True)
        elif self._is_logged:
            tell(one_line(f"{time.strftime('%H:%M:%S')} {text}"))

    def show_each(self, awaited: Mapping[str, str]) -> None:
        """Show what each BundleDeployment waits for, by name: on a terminal the first, and how many more there are."""
        if awaited and sys.stderr.isatty():
            name, text = next(iter(awaited.items()))
            also = f" (and {len(awaited) - 1} more)" if len(awaited) > 1 else ""
            self.show(f"{name}{also}: {text}")
            return
        for name, text in awaited.items():
            self.show(f"{name}: {text}", name)

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._last and sys.stderr.isatty():
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def wait_while(find_left: Callable[[], str], seconds: float) -> str:
    """Wait until nothing is left, and show on stderr what is; return what is left when the time is up.

    Args:
        find_left: returns what is left; empty: nothing.
        seconds: how long to wait.

    Raises: as `find_left`.
    """
    line, deadline = ProgressLine(), time.monotonic() + seconds
    try:
        while left := find_left():
            if time.monotonic() >= deadline:
                return left
            line.show(left)
            time.sleep(POLL_SECONDS)
    finally:
        line.clear()
    return ""


def awaits_ready(deployment: BundleDeployment) -> Awaited:
    """Return why a BundleDeployment is not Ready at its current generation."""
    if deployment.metadata.deletion_timestamp:
        return Awaited("it is being deleted", is_hopeless=True)
    status, reason, message = condition(deployment, "Ready")
    if not status:
        return Awaited(AWAITING_CONTROLLER)
    if status == "True":
        return DONE
    text = f"{reason}: {message}"
    if deployment.spec.paused and condition(deployment, "Installed")[1] == Reason.PAUSED_WITH_CHANGES:
        remedy = f'run "rukpak resume {deployment.metadata.name}"'
        return Awaited(f"paused: {message}; {remedy}", is_hopeless=True)
    if reason in (Reason.AWAITING_APPROVAL, *DECISIONS):
        return Awaited(text, is_hopeless=True)
    is_stalled = condition(deployment, "Stalled")[0] == "True"
    return Awaited(f"{text} (paused)" if deployment.spec.paused else text, is_hopeless=is_stalled)


def condition(deployment: BundleDeployment, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; empty ones unless it is about the current generation."""
    found = deployment.status.condition(kind)
    if found is None or found.observed_generation != deployment.metadata.generation:
        return "", "", ""
    return found.status, found.reason, found.message


def tell_unserved(options: argparse.Namespace, client: Client, values: Iterable[Manifest]) -> None:
    """Print on stderr on which BundleDeployments no controller acts, and what to do.

    Nothing is printed if the user may not read Leases.

    Args:
        options: of the command line, with the namespace of the controller.
        client: of the cluster.
        values: the BundleDeployments.

    Raises: ApiError.
    """
    metadata = [value["metadata"] for value in values]
    shards = {each["name"]: (each.get("labels") or {}).get(names.SHARD) or "" for each in metadata}
    for line in describe_unserved(shards, partial(explain_unserved, client, options.namespace)):
        tell(f"rukpak {options.verb}: {line}")
