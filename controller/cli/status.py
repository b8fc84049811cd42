"""`rukpak status`: a summary of spec and status of BundleDeployments. Nothing else is read from the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment, Condition
from controller.cli.command import FAILED, connect, make_parser, tell
from controller.cli.deployments import Deployments, Manifest, awaits_ready, find_each, parse_names, wait_each
from controller.cli.output import one_line, show, to_table

_HEADING = ("NAME", "FORMAT", "PAUSED", "READY", "REVISION", "OBJECTS", "DRIFTED", "AGE", "MESSAGE")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def main(arguments: Sequence[str]) -> int:
    """Show BundleDeployments; return the exit status: 1 if one does not exist, or is not Ready in time with `--wait`.

    Raises: ApiError, ConfigurationError.
    """
    parser = make_parser("status", "Show the state of BundleDeployments: a table of all, or details of those named.")
    options = parse_names(parser, arguments, nargs="*", wait="wait until they are Ready")
    deployments = Deployments(connect(options))
    values = find_each("status", options.names, deployments.get) if options.names else deployments.all()
    missing, in_time = len(values) < len(options.names), True
    if options.wait:
        values, in_time = wait_each(deployments, values, awaits_ready, options.timeout)
    print(_form(values, options.output, described=bool(options.names)), end="")
    if not (values or missing or options.output):
        tell("no BundleDeployments found")
    return FAILED if missing or not in_time else 0


def _form(values: Sequence[Manifest], output: str, *, described: bool) -> str:
    if output:
        return show(values, output)
    if described:
        return "\n".join("".join(f"{one_line(line)}\n" for line in _describe(value)) for value in values)
    now = datetime.now(UTC)
    return to_table(_HEADING, (_row(value, now) for value in values)) if values else ""


def _row(value: Manifest, now: datetime) -> tuple[str, ...]:
    deployment, problem = try_to_read(value)
    if deployment is None:
        return (value["metadata"]["name"], "", "", "Unknown", "", "", "", "", f"cannot be read: {problem}")
    return row(deployment, now)


def _describe(value: Manifest) -> Iterator[str]:
    deployment, problem = try_to_read(value)
    if deployment is None:
        yield f"{value['metadata']['name']}: cannot be read: {problem}"
        return
    yield from describe(deployment)


def row(deployment: BundleDeployment, now: datetime) -> tuple[str, ...]:
    """Return the cells of a BundleDeployment in the table, in the order of its heading."""
    status, created = deployment.status, deployment.metadata.creation_timestamp
    ready = deployment.status.condition("Ready")
    return (
        deployment.metadata.name,
        deployment.spec.format,
        str(deployment.spec.paused).lower(),
        ready.status if ready else "Unknown",
        status.display.revision,
        status.display.objects,
        str(status.objects.drifted),
        _age((now - created).total_seconds()) if created else "",
        f"cannot be read: {deployment.problem}" if deployment.problem else ready.message if ready else "",
    )


def describe(deployment: BundleDeployment) -> Iterator[str]:
    """Yield the lines that describe a BundleDeployment."""
    status, ready = deployment.status, deployment.status.condition("Ready")
    yield f"{deployment.metadata.name}: {_verdict(ready)}"
    if deployment.problem:
        yield f"Spec:      cannot be read: {deployment.problem}"
    yield from _revisions(deployment)
    yield from _section("Sources", ("DESTINATION", "KIND", "RESOLVED", "DIGEST"), _sources(deployment))
    yield f"Objects:   {status.display.objects or '0/0'} healthy, {_counts(deployment)}"
    objects = (
        (f"{each.kind} {f'{each.namespace}/' if each.namespace else ''}{each.name}", each.reason, each.message)
        for each in status.not_ready
    )
    yield from _section("Not ready", ("OBJECT", "REASON", "MESSAGE"), objects)
    if status.not_ready_truncated:
        yield "  and more"
    yield from _others(deployment)


def _verdict(ready: Condition | None) -> str:
    if ready is None:
        return "not yet observed by the controller"
    return f"{'Ready' if ready.status == 'True' else f'not Ready, {ready.reason}'}: {ready.message}"


def _revisions(deployment: BundleDeployment) -> Iterator[str]:
    status = deployment.status
    yield f"Revision:  {status.installed_revision or 'none installed'}"
    if status.revision != status.installed_revision:
        yield f"Desired:   {status.revision}"


def _sources(deployment: BundleDeployment) -> Iterator[tuple[str, ...]]:
    for pin in deployment.status.sources:
        yield pin.destination or ".", pin.kind, pin.resolved, pin.digest


def _counts(deployment: BundleDeployment) -> str:
    counts = deployment.status.objects
    return (
        f"{counts.progressing} progressing, {counts.failed} failed, {counts.drifted} drifted, "
        f"{counts.retained} retained"
    )


def _others(deployment: BundleDeployment) -> Iterator[str]:
    """Yield the other conditions worth reporting, warnings, and what resuming would change."""
    for kind in ("Unpacked", "Installed", "Healthy"):
        found = deployment.status.condition(kind)
        if found and found.status != "True":
            yield f"{kind}: {found.reason}: {found.message}"
    for kind in ("Stalled", "Reconciling", "Paused", "Drifted"):
        if found := deployment.status.condition(kind):
            yield f"{kind}: {found.reason}: {found.message}"
    if deployment.status.skipped_kinds:
        yield f"Skipped:   {', '.join(deployment.status.skipped_kinds)}: optional and not served by the cluster"
    for warning in deployment.status.warnings:
        yield f"Warning:   {warning}"
    if deployment.spec.paused:
        yield from _resume(deployment)


def _resume(deployment: BundleDeployment) -> Iterator[str]:
    status, drifted = deployment.status, deployment.status.condition("Drifted")
    yield "Resuming would:"
    if status.revision != status.installed_revision:
        yield f"  install revision {status.revision}"
    if drifted:
        yield f"  repair modified objects: {drifted.message.partition(': ')[0]}"
    if status.revision == status.installed_revision and not drifted:
        yield "  change nothing"


def _section(title: str, heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    found = list(rows)
    if found:
        yield f"{title}:"
        yield from (f"  {line}" for line in to_table(heading, found).splitlines())


def _age(seconds: float) -> str:
    unit, letter = next((unit for unit in _UNITS if seconds >= 2 * unit[0]), _UNITS[-1])
    return f"{max(int(seconds), 0) // unit}{letter}"
