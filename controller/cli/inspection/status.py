"""`rukpak status`: spec and status of BundleDeployments, and with `--objects` what they have installed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from controller.cli.command import FAILED, MisuseError, connect
from controller.cli.deployments.access import Deployments, Manifest
from controller.cli.deployments.selection import check, is_complete, select
from controller.cli.deployments.unserved import tell_unserved
from controller.cli.deployments.waiting import Waiter, awaits_ready, report
from controller.cli.inspection.description import describe_all
from controller.cli.inspection.objects import ObjectLister
from controller.cli.inspection.table import tabulate
from controller.cli.output import show
from controller.kube.client import Client

COLUMN = 15
"""Least width of columns that are shown row by row."""


def main(options: argparse.Namespace) -> int:
    """Show BundleDeployments; return the exit status: 1 if one does not exist, or with `--wait` does not become Ready.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    if options.watch and (options.wait or options.objects or options.output not in ("", "wide", "name")):
        raise MisuseError(
            "--watch shows a table; it cannot be combined with --wait, --objects or -o json|yaml|jsonpath"
        )
    check(options, default_all=True)
    client = connect(options)
    deployments = Deployments(client)
    if options.watch:
        return _watch(options, deployments)
    values = select("status", options, deployments, default_all=True)
    waiter = Waiter(deployments, awaits_ready, options.timeout)
    values, failures = waiter.wait(values) if options.wait else (values, [])
    print(_form(client, options, values), end="", flush=True)
    tell_unserved("status", client, options.namespace, values)
    report("status", failures, is_explained=bool(options.names) and not options.output)
    return 0 if not failures and is_complete(options, values) else FAILED


def _form(client: Client, options: argparse.Namespace, values: Sequence[Manifest]) -> str:
    if options.output not in ("", "wide"):
        return show(values, options.output)
    if not (options.names or options.objects):
        return tabulate(values, is_wide=options.output == "wide")
    lister = ObjectLister(client)
    return describe_all(values, [lister.lines(value) if options.objects else [] for value in values])


def _watch(options: argparse.Namespace, deployments: Deployments) -> int:
    """Print a row for each BundleDeployment, and again whenever the row changes, until the user interrupts."""
    rows: dict[str, str] = {}
    for value in deployments.follow(options.selector or ""):
        name = value["metadata"]["name"]
        if options.names and name not in options.names:
            continue
        text = _row(value, options.output)
        row = text.splitlines()[-1]
        if rows.get(name) != row:
            print(row if rows or options.output == "name" else text.rstrip("\n"), flush=True)
        rows[name] = row
    return 0


def _row(value: Manifest, output: str) -> str:
    """Return a name, or the heading and the row of a table whose columns do not depend on other rows."""
    if output == "name":
        return show([value], "name")
    return tabulate([value], is_wide=output == "wide", least=COLUMN)
