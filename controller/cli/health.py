"""`rukpak health`: how an object is judged, and what expressions say about it, before they are in a BundleDeployment.

Objects come from a file or from the cluster. They are judged by the same rules as on the controller, but each for
itself, or a workload of the cluster with its pods: where health depends on something else, as that of a
PersistentVolumeClaim on its StorageClass, it is unknown.
The user's own machine evaluates, without limits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rukpak.controller.cli.command import FAILED, connect, read_file, tell
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.health.expressions import MISSING, evaluate, find_problem, is_available
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import Context, State, Verdict
from rukpak.controller.observe.records import key_of
from rukpak.controller.untrusted import text
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import read_if_exists, with_pods
from rukpak.controller.views.texts import dump_as, to_table

_FLAGS = {"inProgress": "in_progress", "failed": "failed", "current": "expr"}
_HEADING = ("OBJECT", "HEALTH", "REASON", "MESSAGE")


def main(options: argparse.Namespace) -> int:
    """Print how objects are judged; return the exit status: 1 if one of them is not healthy.

    Raises: MisuseError, BundleError (InvalidBundle), ApiError, ConfigurationError; FailedError without such an object.
    """
    checks = _read_checks(options)
    if bool(options.object) == bool(options.file):
        raise MisuseError("specify either TYPE/NAME or -f FILE")
    context = Context(checks=checks, evaluate=evaluate)
    if options.file:
        judged = [(str(key_of(each)), assess(each, context)) for each in _read(options.file)]
    else:
        client = connect(options)
        found = _get(client, options)
        judged = [(str(key_of(found)), with_pods(client, found, assess(found, context)))]
    print(_show(judged, options.output), end="")
    return 0 if all(verdict.state is State.HEALTHY for _, verdict in judged) else FAILED


def _read_checks(options: argparse.Namespace) -> tuple[Mapping[str, Any], ...]:
    """Return the health check that the flags describe, in the form of `spec.healthChecks`, if they do.

    Raises: MisuseError for an expression that is not well-formed, as far as that can be checked.
    """
    given = {name: value for name, flag in _FLAGS.items() if (value := getattr(options, flag))}
    if given and not is_available():
        tell(f"warning: not checked: {MISSING}")
        return ({"expressions": given},)
    for name, value in given.items():
        if problem := find_problem(value):
            raise MisuseError(f"--{_FLAGS[name].replace('_', '-')}: {problem}")
    return ({"expressions": given},) if given else ()


def _read(file: str) -> Iterator[dict[str, Any]]:
    for document in read_documents(read_file(file), file):
        value = document.value
        if not (text(value, "apiVersion") and text(value, "kind") and text(value, "metadata", "name")):
            raise MisuseError(f"{file}:{document.line}: not an object: it lacks apiVersion, kind or metadata.name")
        items = value.get("items")
        yield from items if value["kind"] == "List" and isinstance(items, list) else (value,)


def _get(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    """Read an object as kubectl finds it: by its kind or resource, with or without the API group.

    Raises: MisuseError, FailedError, ApiError.
    """
    kind, slash, name = options.object.partition("/")
    if not (kind and slash and name):
        raise MisuseError(f'"{options.object}": specify TYPE/NAME, such as deployment/web or widgets.example.com/web')
    resource = _find(Discovery(client).resources(), kind.lower())
    if resource is None:
        raise FailedError(f'the cluster does not serve "{kind}"')
    path = resource.path(options.namespace if resource.namespaced else "", name)
    found = read_if_exists(client, path)
    if found is None:
        place = f' in namespace "{options.namespace}"' if resource.namespaced else ""
        raise FailedError(f'{resource.kind} "{name}" not found{place}')
    value: dict[str, Any] = found.value
    return value


def _find(resources: Sequence[Resource], kind: str) -> Resource | None:
    named = [each for each in resources if kind in _names(each)]
    return min(named, key=lambda each: "." in each.group, default=None)


def _names(resource: Resource) -> set[str]:
    short = {resource.plural, resource.kind.lower()}
    return short | {f"{each}.{resource.group}" for each in short}


def _show(judged: Sequence[tuple[str, Verdict]], output: str) -> str:
    rows = [(name, each.state.value, each.reason, each.message) for name, each in judged]
    if not output:
        return to_table(_HEADING, rows)
    return dump_as(output, [dict(zip(("object", "health", "reason", "message"), row, strict=True)) for row in rows])
