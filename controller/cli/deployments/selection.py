"""Which BundleDeployments a command line names: by name, by labels, or all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from controller.cli.command import MisuseError, tell
from controller.cli.deployments.access import Deployments, Manifest


def select(verb: str, options: argparse.Namespace, deployments: Deployments, *, default_all: bool) -> list[Manifest]:
    """Return the BundleDeployments that the options select; report on stderr which names do not exist, or that none do.

    Raises: MisuseError for options that contradict each other; ApiError.
    """
    check(options, default_all=default_all)
    if options.names:
        return find_each(verb, options.names, deployments.get)
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


def find_each(verb: str, wanted: Iterable[str], find: Callable[[str], Manifest | None]) -> list[Manifest]:
    """Return the BundleDeployments that exist; report the others on stderr."""
    found = [(name, find(name)) for name in dict.fromkeys(wanted)]
    for name in (name for name, value in found if value is None):
        tell(f'rukpak {verb}: BundleDeployment "{name}" not found')
    return [value for _, value in found if value is not None]


def is_complete(options: argparse.Namespace, found: list[Manifest]) -> bool:
    """Return whether every name was found."""
    return not options.names or len(found) == len(set(options.names))
