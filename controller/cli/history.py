"""`rukpak history` and `rukpak rollback`: the revisions of a BundleDeployment that are kept."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime
from http import HTTPStatus

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment, HistoryEntry, Status, dump
from controller.build.revision import Revision
from controller.cli.command import FAILED, FailedError, MisuseError, connect, tell
from controller.cli.deployments import Deployments, awaits_ready, report, wait_if_asked
from controller.cli.output import age, dump_as, name_of, show, to_table
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.revisions.store import RevisionSecrets, RevisionStore
from controller.status.report import short

HEADING = ("REVISION", "STATE", "OUTCOME", "INSTALLED", "SOURCES", "MESSAGE")
_REVISION = re.compile(r"(?P<name>[^@]+)@(sha256:)?(?P<digest>[0-9a-f]{8,64})").fullmatch


def show_history(options: argparse.Namespace) -> int:
    """Show the history of a BundleDeployment, the newest revision first; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    _, deployment = Deployments(connect(options)).read(options.name)
    entries = deployment.status.history
    if options.output:
        items = dump(deployment.status).get("history", [])
        print(dump_as(options.output, items), end="")
    elif entries:
        now = datetime.now(UTC)
        print(to_table(HEADING, [_row(each, deployment.status, now) for each in entries]), end="")
    else:
        tell(f"{options.name}: no revision was applied yet")
    return 0


def _row(entry: HistoryEntry, status: Status, now: datetime) -> tuple[str, ...]:
    installed = age((now - entry.installed_at).total_seconds()) if entry.installed_at else ""
    return (short(entry.revision), _state(entry, status), entry.outcome or "", installed, entry.sources, entry.message)


def _state(entry: HistoryEntry, status: Status) -> str:
    if entry.revision == status.installed_revision:
        return "installed"
    return "desired" if entry.revision == status.revision else "kept"


def roll_back(options: argparse.Namespace) -> int:
    """Roll a BundleDeployment back; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    deployments = Deployments(connect(options))
    _, deployment = deployments.read(options.name, missing=f"{options.name}: not found")
    digest = _choose_revision(deployment, options.to)
    value = _pin(deployments, deployment, digest)
    values, failures = wait_if_asked(options, deployments, awaits_ready, [value])
    lines = "".join(f"{name_of(each)} rolled back to revision {short(digest)}\n" for each in values)
    print(show(values, options.output) if options.output else lines, end="", flush=True)
    tell("its sources and config do not count until spec.pinnedRevision is removed")
    report("rollback", failures, is_explained=False)
    return FAILED if failures else 0


def _choose_revision(deployment: BundleDeployment, text: str) -> str:
    """Return the digest of the revision that the user names, or else of the last one that was healthy."""
    status, name = deployment.status, deployment.metadata.name
    if not text:
        if found := find_previous(status):
            return found
        raise FailedError(f"{name}: no earlier revision that was healthy is kept; name one with --to")
    if found := find_kept(status, text):
        return found
    kept = ", ".join(map(short, kept_revisions(status))) or "none"
    raise FailedError(f"{name}: --to: not one of the revisions that are kept: {kept}")


def find_previous(status: Status) -> str:
    """Return the digest of the last revision before the desired one that was healthy; empty if there is none."""
    return next(
        (each.revision for each in status.history if each.outcome == "Healthy" and each.revision != status.revision), ""
    )


def _pin(deployments: Deployments, deployment: BundleDeployment, digest: str) -> dict[str, object]:
    """Set the field, unless the BundleDeployment has changed since it was read."""
    metadata = deployment.metadata
    change = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"pinnedRevision": digest}}
    try:
        value = deployments.change(metadata.name, change)
    except ApiError as error:
        if error.status == HTTPStatus.CONFLICT:
            raise FailedError(f"{metadata.name}: changed meanwhile; run the command again") from None
        raise
    if value is None:
        raise FailedError(f"{metadata.name}: not found")
    return value


def read_kept(options: argparse.Namespace) -> Revision:
    """Return the revision that `--revision NAME@DIGEST` names.

    Raises: MisuseError; FailedError if it is not kept; ApiError, also if the user may not read the Secrets of the
    revision store; ConfigurationError.
    """
    given = _REVISION(options.revision)
    if given is None:
        raise MisuseError(f'--revision "{options.revision}": write it like shop@sha256:1f2e3d4c5b6a')
    name, client = given["name"], connect(options)
    value = Deployments(client).get(name)
    deployment = try_to_read(value)[0] if value else None
    if deployment is None:
        raise FailedError(f'BundleDeployment "{name}" {"cannot be read" if value else "not found"}')
    digest = find_kept(deployment.status, given["digest"])
    found = open_store(client, options.namespace).read(name, digest) if digest else None
    if found is None:
        kept = ", ".join(map(short, kept_revisions(deployment.status))) or "none"
        raise FailedError(f"{name}: revision {given['digest'][:12]} is not kept; kept revisions: {kept}")
    return found


def kept_revisions(status: Status) -> list[str]:
    """Return the digests of the revisions that status says are kept, newest first."""
    named = [*(each.revision for each in status.history), status.revision, status.installed_revision]
    pending = [status.pending.revision] if status.pending else []
    return [digest for digest in dict.fromkeys([*named, *pending]) if digest]


def find_kept(status: Status, text: str) -> str:
    """Return the digest of the one kept revision that begins so, with or without `sha256:`; empty if there is none."""
    beginning = text.removeprefix("sha256:")
    found = [each for each in kept_revisions(status) if each.removeprefix("sha256:").startswith(beginning)]
    return found[0] if len(found) == 1 else ""


def open_store(client: Client, namespace: str) -> RevisionStore:
    """Return the revision store in the namespace of the controller, as far as the user may read it."""
    return RevisionStore(client, RevisionSecrets(client, namespace, lambda _: None, lambda: None))
