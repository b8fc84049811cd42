"""`rukpak status`: BundleDeployments as a table, or in detail, and with `--objects` what they have installed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from api.v1alpha2.conditions import Reason
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment, Condition, SourcePin
from controller.cli.command import FAILED, MisuseError, connect
from controller.cli.deployments import (
    Deployments,
    Manifest,
    awaits_ready,
    check,
    describe_unobserved,
    is_complete,
    name_of_stray,
    report,
    select,
    tell_unserved,
    wait_if_asked,
)
from controller.cli.output import age, fit, show, to_table
from controller.kube.client import Client
from controller.kube.shard import is_unclaimed, wanted_shard
from controller.status.report import describe_changes

COLUMN = 15
"""Least width of columns that are shown row by row."""
HEADING = ("NAME", "FORMAT", "PAUSED", "READY", "REASON", "REVISION", "OBJECTS", "DRIFTED", "AGE")
_WIDE = ("SOURCES", "MESSAGE")
_FALSE = ("Unpacked", "Installed", "Healthy")
_TRUE = ("Stalled", "Reconciling", "Drifted")
_MORE = re.compile(r" \(and [0-9,]+ more\)$")


def main(options: argparse.Namespace) -> int:
    """Show BundleDeployments; return the exit status: 1 if one does not exist, or with `--wait` does not become Ready.

    Raises: MisuseError, ApiError, ConfigurationError.
    """
    if options.watch and (options.wait or options.objects or options.output not in ("", "wide", "name")):
        raise MisuseError("--watch shows a table; it cannot be combined with --wait, --objects or -o json|yaml")
    check(options, default_all=True)
    client = connect(options)
    deployments = Deployments(client)
    if options.watch:
        return _watch(options, deployments)
    found = select("status", options, deployments, default_all=True)
    values, failures = wait_if_asked(options, deployments, awaits_ready, found)
    print(_show(client, options, values), end="", flush=True)
    tell_unserved("status", client, options.namespace, values)
    report("status", failures, is_explained=bool(options.names) and not options.output)
    return 0 if not failures and is_complete(options, values) else FAILED


def _show(client: Client, options: argparse.Namespace, values: Sequence[Manifest]) -> str:
    if options.output not in ("", "wide"):
        return show(values, options.output)
    if not (options.names or options.objects):
        return tabulate(values, is_wide=options.output == "wide")
    from controller.cli.tree import ObjectLister  # noqa: PLC0415 - slow to import, and the table does not need it

    lister = ObjectLister(client)
    return describe_all(values, [lister.lines(value) if options.objects else [] for value in values])


def _watch(options: argparse.Namespace, deployments: Deployments) -> int:
    """Print a row for each BundleDeployment, and again whenever the row changes, until the user interrupts."""
    rows: dict[str, str] = {}
    for value in deployments.follow(options.selector or ""):
        name = value["metadata"]["name"]
        if options.names and name not in options.names:
            continue
        text = _line(value, options.output)
        row = text.splitlines()[-1]
        if rows.get(name) != row:
            print(row if rows or options.output == "name" else text.rstrip("\n"), flush=True)
        rows[name] = row
    return 0


def _line(value: Manifest, output: str) -> str:
    """Return a name, or the heading and the row of a table whose columns do not depend on other rows."""
    if output == "name":
        return show([value], "name")
    return tabulate([value], is_wide=output == "wide", least=COLUMN)


def tabulate(values: Sequence[Manifest], *, is_wide: bool, least: int = 0) -> str:
    """Return the table; with sources and messages if it is wide. Empty without values; for `least` see to_table."""
    now = datetime.now(UTC)
    rows = [_cells(value, now, is_wide=is_wide) for value in values]
    return to_table((*HEADING, *(_WIDE if is_wide else ())), rows, least) if rows else ""


def _cells(value: Manifest, now: datetime, *, is_wide: bool) -> tuple[str, ...]:
    deployment, problem = try_to_read(value)
    if deployment is None:
        cells = (value["metadata"]["name"], "", "", "Unknown", "CannotBeRead", "", "", "", "")
        return (*cells, *(("", f"cannot be read: {problem}") if is_wide else ()))
    return (*cells_of(deployment, now), *(_wide_cells(deployment) if is_wide else ()))


def cells_of(deployment: BundleDeployment, now: datetime) -> tuple[str, ...]:
    """Return the cells of a BundleDeployment, in the order of the heading."""
    status, created = deployment.status, deployment.metadata.creation_timestamp
    ready = deployment.status.condition("Ready")
    return (
        deployment.metadata.name,
        deployment.spec.format,
        str(deployment.spec.paused).lower(),
        ready.status if ready else "Unknown",
        "InvalidConfig" if deployment.problem else ready.reason if ready else "",
        status.display.revision,
        status.display.objects,
        str(status.objects.drifted),
        age((now - created).total_seconds()) if created else "",
    )


def _wide_cells(deployment: BundleDeployment) -> tuple[str, str]:
    ready = deployment.status.condition("Ready")
    message = f"cannot be read: {deployment.problem}" if deployment.problem else ready.message if ready else ""
    return deployment.status.display.sources, message


def describe_all(values: Sequence[Manifest], objects: Sequence[Sequence[str]]) -> str:
    """Return the details of BundleDeployments; `objects` has further lines for each."""
    texts = [fit([*_describe(value), *more]) for value, more in zip(values, objects, strict=True)]
    return "\n".join(texts)


def _describe(value: Manifest) -> list[str]:
    deployment, problem = try_to_read(value)
    if deployment is None:
        return [f"{value['metadata']['name']}: cannot be read: {problem}"]
    return list(describe(deployment))


def describe(deployment: BundleDeployment) -> Iterator[str]:
    """Yield the lines that describe a BundleDeployment, of any length."""
    status, ready = deployment.status, deployment.status.condition("Ready")
    first = f"{deployment.metadata.name}: {_verdict(deployment, ready)}"
    yield first
    if deployment.problem:
        yield f"Spec:      cannot be read: {deployment.problem}"
    yield from _shard(deployment)
    yield f"Revision:  {status.installed_revision or 'none installed'}"
    if status.revision != status.installed_revision:
        yield f"Desired:   {status.revision}"
    if status.pending:
        yield f"Pending:   {status.pending.revision} ({describe_changes(status.pending.changes)})"
    yield from _sources(deployment)
    yield f"Objects:   {_counts(deployment)}"
    said = [first]
    yield from _not_ready(deployment, said)
    yield from _conditions(deployment, said)
    yield from _takers(deployment, said)
    yield from _strays(deployment)
    if status.skipped_kinds:
        yield f"Skipped:   {', '.join(status.skipped_kinds)}: optional and not served by the cluster"
    for warning in status.warnings:
        yield f"Warning:   {warning}"
    if deployment.spec.paused:
        yield from _resume(deployment)


def _verdict(deployment: BundleDeployment, ready: Condition | None) -> str:
    unobserved = describe_unobserved(deployment)
    if ready is None:
        return unobserved or "without the condition Ready"
    if unobserved:
        return f"{unobserved}; before: {ready.reason}: {ready.message}"
    words = ["Ready" if ready.status == "True" else "not Ready"]
    words += ["stalled"] * bool(deployment.status.condition("Stalled")) + ["paused"] * deployment.spec.paused
    reason = "" if ready.status == "True" else f"{ready.reason}: "
    return f"{', '.join(words)}: {reason}{ready.message}"


def _shard(deployment: BundleDeployment) -> Iterator[str]:
    wanted, recorded = wanted_shard(deployment.metadata.labels), deployment.status.shard
    if wanted or recorded:
        moves = "" if wanted == recorded else f", still held by {recorded or 'the default one'}"
        yield f"Shard:     {wanted or 'the default one'}{'' if is_unclaimed(deployment.status) else moves}"


def _sources(deployment: BundleDeployment) -> Iterator[str]:
    """Yield the sources of the installed revision, and if others are desired, these."""
    desired, installed = deployment.status.sources, deployment.status.installed_sources
    if installed:
        yield "Sources:"
        yield from _pins(installed)
    if desired and (not installed or [pin.digest for pin in desired] != [pin.digest for pin in installed]):
        yield "Sources of the spec:" if installed else "Sources:"
        yield from _pins(desired)


def _pins(pins: Iterable[SourcePin]) -> Iterator[str]:
    for pin in pins:
        name = pin.resolved.removesuffix(f"@{pin.digest}").removesuffix(f"@{pin.digest.partition(':')[2]}")
        is_said = (
            not pin.reference or name == pin.reference or name.endswith((f":{pin.reference}", f"@{pin.reference}"))
        )
        place = f" in {pin.destination}" if pin.destination else ""
        reference = "" if is_said else f"{':' if pin.kind == 'image' else ' '}{pin.reference}"
        yield f"  {pin.kind} {name}{reference}{place}"
        yield f"    {pin.digest}"


def _counts(deployment: BundleDeployment) -> str:
    status = deployment.status
    names = ("progressing", "failed", "drifted", "retained", "handed_over", "strays")
    counts = [f"{count} {name.replace('_', ' ')}" for name in names if (count := getattr(status.objects, name))]
    return ", ".join([f"{status.display.objects or '0/0'} healthy", *counts])


def _not_ready(deployment: BundleDeployment, said: list[str]) -> Iterator[str]:
    """Yield the objects that are not ready, those with one message together, unless a line has said all of it."""
    groups: dict[tuple[str, str], list[str]] = {}
    told = []
    for each in deployment.status.not_ready:
        name = f"{each.kind} {f'{each.namespace}/' if each.namespace else ''}{each.name}"
        if not any(name in text and _is_in(each.message, text) for text in said):
            groups.setdefault((each.reason, each.message), []).append(name)
        told.append(f"{name}: {each.reason}: {each.message}")
    if groups:
        yield "Not ready:"
    for (reason, message), found in groups.items():
        shown = "see above" if message and any(_is_in(message, text) for text in said) else message
        yield f"  {', '.join(found)}: {reason}{f': {shown}' if shown else ''}"
    said += told
    if deployment.status.not_ready_truncated:
        yield "  and more; --objects lists all"


def _is_in(message: str, text: str) -> bool:
    """Whether a text says a message, which may be shortened, and the first of several."""
    return _MORE.sub("", message).removesuffix("…") in text


def _conditions(deployment: BundleDeployment, said: list[str]) -> Iterator[str]:
    """Yield the conditions with something to report that no line has said."""
    found = [deployment.status.condition(kind) for kind in (*_FALSE, *_TRUE)]
    for condition in found:
        if condition is None or condition.reason == Reason.NOT_INSTALLED:
            continue
        if condition.type in _FALSE and condition.status == "True":
            continue
        if condition.reason == Reason.STRAYS:  # they have lines of their own
            continue
        yield from _condition(condition, said)


def _condition(condition: Condition, said: list[str]) -> Iterator[str]:
    """Yield a condition, unless a line has said its message."""
    if not any(_is_in(condition.message, text) for text in said):
        said.append(condition.message)
        yield f"{condition.type}: {condition.reason}: {condition.message}"


def _takers(deployment: BundleDeployment, said: list[str]) -> Iterator[str]:
    """Yield to whom objects were handed over, which only the message of a condition says, unless a line has said it."""
    installed = deployment.status.condition("Installed")
    if deployment.status.objects.handed_over and installed:
        yield from _condition(installed, said)


def _strays(deployment: BundleDeployment) -> Iterator[str]:
    """Yield the objects that no revision contains, as far as status names them."""
    status = deployment.status
    if status.strays:
        yield f'Strays (part of no revision; "rukpak prune {deployment.metadata.name}" deletes them):'
    for each in status.strays:
        yield f"  {name_of_stray(each)}"
    if status.objects.strays > len(status.strays):
        yield f"  and {status.objects.strays - len(status.strays)} more"


def _resume(deployment: BundleDeployment) -> Iterator[str]:
    status, drifted = deployment.status, deployment.status.condition("Drifted")
    drifted = None if drifted and drifted.reason == Reason.STRAYS else drifted
    yield "Resuming would:"
    if status.revision != status.installed_revision:
        yield f"  install revision {status.revision}"
    if drifted:
        yield f"  repair modified objects: {drifted.message.partition(': ')[0]}"
    if status.revision == status.installed_revision and not drifted:
        yield "  change nothing"
