"""`rukpak permissions`: what a bundle may do once it runs, or what is new in that."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.cli.command import FAILED, MisuseError, tell
from controller.cli.output import to_json, to_yaml
from controller.cli.review.revisions import Reviewed, find, read_stored
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.resources import CLUSTER_ROLES, ROLES
from controller.permissions.permissions import Line, Permissions, added, digest_of, look_up, permissions_of, to_lines
from controller.permissions.statement import Topic

_ROLES = {each.kind: each for each in (ROLES, CLUSTER_ROLES)}


def main(options: argparse.Namespace) -> int:
    """Show permissions; return the exit status.

    Raises: as `revisions.find`.
    """
    if options.new and options.file:
        raise MisuseError("--new compares with the installed revision and requires NAME")
    reviewed = find("permissions", options)
    if reviewed is None:
        return FAILED
    permissions = permissions_of(reviewed.revision)
    if options.new:
        new = _new(reviewed, options, permissions)
        if new is None:
            return FAILED
        permissions = new
    client = reviewed.client
    known = look_up(permissions, lambda *role: _rules(client, *role)) if client else frozenset()
    print(_show(reviewed, options, permissions, to_lines(permissions), to_lines(known - permissions)), end="")
    return 0


def _new(reviewed: Reviewed, options: argparse.Namespace, permissions: Permissions) -> Permissions | None:
    """Return what the installed revision may not do; None, after telling why, if that revision cannot be read."""
    digest = reviewed.deployment.status.installed_revision
    if not digest:
        return permissions
    if digest == reviewed.revision.digest:
        return frozenset()
    installed = read_stored(reviewed.client, options, digest) if reviewed.client else None
    if installed is None:
        text = f"the installed revision {digest} cannot be read; ask for permission to read Secrets in namespace"
        tell(f'rukpak permissions: {text} "{options.namespace}"')
        return None
    return added(permissions, permissions_of(installed))


def _rules(client: Client, kind: str, namespace: str, name: str) -> Iterable[Mapping[str, Any]]:
    try:
        found: Mapping[str, Any] = client.get(_ROLES[kind].path(namespace, name)).value
    except (ApiError, KeyError, ValueError):  # the role is stated by name
        return ()
    return found.get("rules") or ()


def _show(
    reviewed: Reviewed, options: argparse.Namespace, permissions: Permissions, lines: list[Line], known: list[Line]
) -> str:
    if not options.output:
        return "".join(f"{line}\n" for line in _describe(reviewed, lines, known, is_new=options.new))
    value = {
        "name": reviewed.deployment.metadata.name,
        "revision": reviewed.revision.digest,
        "digest": digest_of(permissions),
        "permissions": [_to_value(line) for line in lines],
        "rolesOnCluster": [_to_value(line) for line in known],
    }
    return to_json(value) if options.output == "json" else to_yaml(value)


def _to_value(line: Line) -> dict[str, str]:
    return {"topic": line.topic.value, "severity": line.severity.name.capitalize(), "text": line.text}


def _describe(reviewed: Reviewed, lines: list[Line], known: list[Line], *, is_new: bool) -> Iterable[str]:
    yield f"{reviewed.deployment.metadata.name}: revision {reviewed.revision.digest}"
    if not lines:
        yield "nothing beyond the installed revision" if is_new else "nothing beyond its own namespace"
    yield from describe(lines)
    if known:
        yield from ("Roles on the cluster:", *(f"  {line.text}" for line in known))


def describe(lines: list[Line]) -> Iterator[str]:
    """Yield permissions below the topics that they belong to."""
    for topic in Topic:
        texts = [line.text for line in lines if line.topic is topic]
        if texts:
            yield from (f"{topic.value}:", *(f"  {text}" for text in texts))
