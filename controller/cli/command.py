"""Shared by the verbs: exit statuses, the client of the cluster, reading of files, messages and questions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rukpak.controller.content.limits import visible
from rukpak.controller.views import FailedError, MisuseError

if TYPE_CHECKING:
    from rukpak.controller.kube.client import Client
FAILED = 1
MISUSE = 2
TERMINAL = Path("/dev/tty")


class NoConsentError(Exception):
    """The user does not consent to the use of Secrets."""


def connect(options: argparse.Namespace, pool: int = 0) -> Client:
    """Return a client for the cluster that the options select, with the user's credentials.

    Args:
        options: of the command line.
        pool: connections at the same time; 0: as many as requests are sent.

    Raises: ConfigurationError; MisuseError for a user that cannot be impersonated.
    """
    from rukpak.controller.kube import client  # noqa: PLC0415 - slow to import, and render may not need it
    from rukpak.controller.views.access import REQUESTS  # noqa: PLC0415

    connected = client.connect(
        kubeconfig=options.kubeconfig or None,
        context=options.context or None,
        pool=pool or REQUESTS,
        user_agent=f"rukpak-cli/{version('rukpak')}",
    )
    name, groups = getattr(options, "as_user", None), getattr(options, "as_groups", None)
    if groups and name is None:
        raise MisuseError("--as-group requires --as")
    try:
        return connected.acting_as(None if name is None else client.User(name, tuple(groups or ())))
    except ValueError as error:
        raise MisuseError(f"--as: {error}") from None


def explain(error: Exception) -> str:
    """Return the message of an error; that of an ApiError with a remedy if the server did not answer."""
    from rukpak.controller.kube.errors import UNREACHABLE, ApiError  # noqa: PLC0415 - slow to import, not for --help

    if not isinstance(error, ApiError):
        return str(error)
    is_silent = error.reason == UNREACHABLE
    return f"{error.message}; check the kubeconfig and the network" if is_silent else error.tell_user()


def read_file(name: str) -> bytes:
    """Return the content of a file; `-` is stdin.

    Raises: MisuseError.
    """
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise MisuseError(f'"{name}": {error.strerror or "cannot be read"}') from error


def tell(line: str) -> None:
    """Print a line that is not a result to stderr, with control characters escaped."""
    print(visible(line), file=sys.stderr, flush=True)


def confirm(options: argparse.Namespace, declined: str) -> None:
    """Ask whether to continue, unless `--yes` is given.

    Raises: FailedError with the message `declined`; MisuseError if there is no terminal.
    """
    if not (options.yes or ask("no terminal to ask for confirmation; pass --yes")):
        raise FailedError(declined)


def ask(no_terminal: str) -> bool:
    """Ask whether to continue, and return the answer.

    Args:
        no_terminal: the message where nobody can be asked.

    Raises: MisuseError if there is no terminal.
    """
    try:
        with TERMINAL.open("w", encoding="utf-8") as screen, TERMINAL.open(encoding="utf-8") as keys:
            screen.write("Do you want to continue? (y/N): ")
            screen.flush()
            return keys.readline().strip().lower() in ("y", "yes")
    except OSError:
        raise MisuseError(no_terminal) from None


def tell_all(lines: Iterable[str]) -> None:
    """Print lines that are no results to stderr, fitted."""
    from rukpak.controller.views.texts import fit  # noqa: PLC0415 - slow to import

    for line in fit(lines).splitlines():
        tell(line)
