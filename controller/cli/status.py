"""`rukpak status`: BundleDeployments as a table, or in detail, and with `--objects` what they have installed."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.status import Condition
from rukpak.api.v1alpha2.types import BundleDeployment, SourcePin
from rukpak.controller.cli.command import FAILED, connect, tell
from rukpak.controller.cli.deployments import (
    awaits_ready,
    check,
    is_complete,
    report,
    select,
    tell_unserved,
    wait_if_asked,
)
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import shard_of
from rukpak.controller.status.report import describe_changes, name_of_reported
from rukpak.controller.views import MisuseError
from rukpak.controller.views.access import Deployments, Manifest, list_objects, list_owned
from rukpak.controller.views.objects import (
    DeploymentState,
    color_of,
    describe_signer,
    describe_unobserved,
    describe_wave,
    find_waves_by_title,
    group_by_wave,
    make_nodes,
    make_outline,
    make_unlisted,
    state_of,
)
from rukpak.controller.views.texts import Cell, Painted, age, fit, is_colored, show, to_table

COLUMN = 15
"""Least width of columns that are shown row by row."""
HEADING = ("NAME", "FORMAT", "PAUSED", "READY", "REASON", "REVISION", "OBJECTS", "DRIFTED", "AGE")
_WIDE = ("SOURCES", "MESSAGE")
_OBJECTS = ("OBJECT", "HEALTH", "MESSAGE")
_STATES = ("READY", "REASON")
"""The columns that say the state."""
_FALSE = ("Unpacked", "Installed", "Healthy")
_TRUE = ("Stalled", "Reconciling", "Drifted")
_ORDER = list(DeploymentState)
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
    found = select(options, deployments)
    values, failures = wait_if_asked(options, deployments, awaits_ready, found)
    _show(client, options, values)
    tell_unserved(options, client, values)
    report(options, failures, is_explained=bool(options.names) and not options.output)
    return 0 if not failures and is_complete(options, values) else FAILED


def _show(client: Client, options: argparse.Namespace, values: Sequence[Manifest]) -> None:
    if options.output not in ("", "wide"):
        print(show(values, options.output), end="", flush=True)
    elif options.names or options.objects:
        _show_details(client, options, values)
    else:
        _show_table(options, values)


def _show_details(client: Client, options: argparse.Namespace, values: Sequence[Manifest]) -> None:
    list_more = partial(_list_objects, client, Discovery(client)) if options.objects else lambda _: ()
    colors = is_colored(options.color)
    print("\n".join(_describe(value, list_more, colors=colors) for value in values), end="", flush=True)


def _list_objects(client: Client, discovery: Discovery, deployment: BundleDeployment) -> Iterator[str]:
    listing = list_objects(client, discovery, deployment)
    outlines = [*map(make_outline, listing.objects)]
    troubled = (value for value, each in zip(listing.objects, outlines, strict=True) if each.is_troubled)
    owned = list_owned(client, troubled)
    found = make_unlisted(listing.unlisted)
    found += make_nodes(deployment, [*outlines, *map(make_outline, owned.objects)])
    if found:
        yield "All objects:"
    groups = group_by_wave(found, find_waves_by_title(listing.objects))
    for number, members in groups or [(None, found)] * bool(found):
        if number is not None:
            state = describe_wave(deployment, number)
            yield f"  Wave {number}{f' ({state.lower()})' if state else ''}:"
        rows = [(each.title, each.reason, each.message) for each in members]
        yield from (f"  {line}" for line in to_table(_OBJECTS, rows).splitlines())


def _show_table(options: argparse.Namespace, values: Sequence[Manifest]) -> None:
    now = datetime.now(UTC)
    rows = [_read_row(value, now) for value in values]
    if sys.stdout.isatty():
        rows.sort(key=lambda row: _ORDER.index(row.state))
    print(_tabulate(rows, options), end="", flush=True)
    if len(rows) > 1:
        tell(_count_states(row.state for row in rows))


def _count_states(states: Iterable[DeploymentState]) -> str:
    counts = Counter(states)
    return ", ".join(f"{counts[state]} {state.value}" for state in reversed(_ORDER) if counts[state])


def _watch(options: argparse.Namespace, deployments: Deployments) -> int:
    shown: dict[str, list[str]] = {}
    lasting = [title for title in _titles(options) if title != "AGE"]
    for event, value in deployments.follow(options.selector or ""):
        name = value["metadata"]["name"]
        if options.names and name not in options.names:
            continue
        row = _read_row(value, datetime.now(UTC))
        # Without the time, it only does not match the selector any more.
        if event == "DELETED" and value["metadata"].get("deletionTimestamp"):
            row = replace(row, cells={**row.cells, "REASON": "Deleted"})
        cells = [row.cells.get(title, "") for title in lasting]
        if shown.get(name) != cells:
            print("".join(_watched_lines(value, row, options, is_first=not shown)), end="", flush=True)
        shown[name] = cells
    return 0


def _watched_lines(value: Manifest, row: _Row, options: argparse.Namespace, *, is_first: bool) -> list[str]:
    if options.output == "name":
        return [show([value], "name")]
    return _tabulate([row], options, least=COLUMN).splitlines(keepends=True)[0 if is_first else -1 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A BundleDeployment in the table."""

    state: DeploymentState
    cells: Mapping[str, str]
    """By title."""


def _titles(options: argparse.Namespace) -> tuple[str, ...]:
    return (*HEADING, *_WIDE) if options.output == "wide" else HEADING


def _tabulate(rows: Sequence[_Row], options: argparse.Namespace, least: int = 0) -> str:
    titles, colored = _titles(options), _STATES if is_colored(options.color) else ()

    def _cell(row: _Row, title: str) -> Cell:
        text = row.cells.get(title, "")
        return Painted(text, color_of(row.state.value)) if title in colored else text

    return to_table(titles, [[_cell(row, title) for title in titles] for row in rows], least=least) if rows else ""


def _read_row(value: Manifest, now: datetime) -> _Row:
    deployment, problem = try_to_read(value)
    if deployment:
        return _Row(state=state_of(deployment), cells=cells_of(deployment, now))
    cells = {"READY": "Unknown", "REASON": "CannotBeRead", "MESSAGE": f"cannot be read: {problem}"}
    return _Row(state=DeploymentState.STALLED, cells={"NAME": value["metadata"]["name"], **cells})


def cells_of(deployment: BundleDeployment, now: datetime) -> Mapping[str, str]:
    """Return the cells of a BundleDeployment, by title."""
    status, created = deployment.status, deployment.metadata.creation_timestamp
    ready, problem = deployment.status.condition("Ready"), deployment.problem
    return {
        "NAME": deployment.metadata.name,
        "FORMAT": deployment.spec.format,
        "PAUSED": str(deployment.spec.paused).lower(),
        "READY": ready.status if ready else "Unknown",
        "REASON": "InvalidConfig" if problem else ready.reason if ready else "",
        "REVISION": status.display.revision,
        "OBJECTS": status.display.objects,
        "DRIFTED": str(status.objects.drifted),
        "AGE": age((now - created).total_seconds()) if created else "",
        "SOURCES": status.display.sources,
        "MESSAGE": f"cannot be read: {problem}" if problem else ready.message if ready else "",
    }


def _describe(value: Manifest, list_more: Callable[[BundleDeployment], Iterable[str]], *, colors: bool) -> str:
    deployment, problem = try_to_read(value)
    if deployment is None:
        return fit([f"{value['metadata']['name']}: cannot be read: {problem}"])
    text = fit([*describe(deployment), *list_more(deployment)])
    ready = deployment.status.condition("Ready")
    if colors and ready and not describe_unobserved(deployment):
        words = _words(deployment, ready)
        text = text.replace(words, color_of(state_of(deployment).value).paint(words), 1)
    return text


def describe(deployment: BundleDeployment) -> Iterator[str]:
    """Yield the lines that describe a BundleDeployment, of any length."""
    status, ready = deployment.status, deployment.status.condition("Ready")
    first = f"{deployment.metadata.name}: {_verdict(deployment, ready)}"
    yield first
    if ready and ready.status != "True":
        yield f"Since:     {ready.last_transition_time:%Y-%m-%dT%H:%M:%SZ}"
    if deployment.problem:
        yield f"Spec:      cannot be read: {deployment.problem}"
    yield from _shard(deployment)
    yield f"Revision:  {status.installed_revision or 'none installed'}"
    if bundle := next((each.bundle for each in status.history if each.revision == status.installed_revision), ""):
        yield f"Bundle:    {bundle}"
    if status.revision != status.installed_revision:
        yield f"Desired:   {status.revision}"
    if status.wave:
        yield f"Wave:      {status.wave.number}, since {status.wave.since:%Y-%m-%dT%H:%M:%SZ}"
    if status.pending:
        yield f"Pending:   {status.pending.revision} ({describe_changes(status.pending.changes)})"
    yield from _sources(deployment)
    yield f"Objects:   {_counts(deployment)}"
    said = [first]
    yield from _not_ready(deployment, said)
    yield from _conditions(deployment, said)
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
    reason = "" if ready.status == "True" else f"{ready.reason}: "
    return f"{_words(deployment, ready)}: {reason}{ready.message}"


def _words(deployment: BundleDeployment, ready: Condition) -> str:
    words = ["Ready" if ready.status == "True" else "not Ready"]
    words += ["stalled"] * bool(deployment.status.condition("Stalled")) + ["paused"] * deployment.spec.paused
    return ", ".join(words)


def _shard(deployment: BundleDeployment) -> Iterator[str]:
    if shard := shard_of(deployment.metadata.labels):
        yield f"Shard:     {shard}"


def _sources(deployment: BundleDeployment) -> Iterator[str]:
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
        if pin.verified:
            checked = pin.verified.at.astimezone(UTC)
            yield f"    {describe_signer(pin.verified)}, checked {checked:%Y-%m-%dT%H:%M:%SZ}"


def _counts(deployment: BundleDeployment) -> str:
    status = deployment.status
    names = ("progressing", "failed", "drifted", "retained", "handed_over", "strays")
    counts = [f"{count} {name.replace('_', ' ')}" for name in names if (count := getattr(status.objects, name))]
    return ", ".join([f"{status.display.objects or '0/0'} healthy", *counts])


def _not_ready(deployment: BundleDeployment, said: list[str]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    told = []
    for each in deployment.status.not_ready:
        name = name_of_reported(each)
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
    return _MORE.sub("", message).removesuffix("…") in text


def _conditions(deployment: BundleDeployment, said: list[str]) -> Iterator[str]:
    found = [deployment.status.condition(kind) for kind in (*_FALSE, *_TRUE)]
    for condition in found:
        if condition is None or condition.reason == Reason.NOT_INSTALLED:
            continue
        if condition.type in _FALSE and condition.status == "True":
            continue
        if condition.reason == Reason.STRAYS:  # they have lines of their own
            continue
        yield from _condition(condition, said)
    if deployment.status.objects.handed_over and (installed := deployment.status.condition("Installed")):
        yield from _condition(installed, said)


def _condition(condition: Condition, said: list[str]) -> Iterator[str]:
    if not any(_is_in(condition.message, text) for text in said):
        said.append(condition.message)
        yield f"{condition.type}: {condition.reason}: {condition.message}"


def _strays(deployment: BundleDeployment) -> Iterator[str]:
    status = deployment.status
    if status.strays:
        yield f'Strays (part of no revision; "rukpak prune {deployment.metadata.name}" deletes them):'
    for each in status.strays:
        yield f"  {name_of_reported(each)}"
    if status.objects.strays > len(status.strays):
        yield f"  and {status.objects.strays - len(status.strays)} more"


def _resume(deployment: BundleDeployment) -> Iterator[str]:
    status, drifted = deployment.status, deployment.status.objects.drifted
    is_same = status.revision == status.installed_revision
    handed_over = status.objects.handed_over if is_same and not deployment.spec.take_over else 0
    yield "Resuming would:"
    if not is_same:
        yield f"  install revision {status.revision}"
    if drifted:
        yield f"  repair modified objects: {drifted}"
    if handed_over:
        what, it = (f"{handed_over} objects that were", "these") if handed_over > 1 else ("an object that was", "it")
        remedy = f"remove {it} there, or delete this BundleDeployment"
        yield f"  report {Reason.COLLISION.value}: the bundle still has {what} handed over; {remedy}"
    if is_same and not (drifted or handed_over):
        yield "  change nothing"
