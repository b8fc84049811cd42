"""`rukpak tree`: the objects and hooks of a BundleDeployment and what workloads own, with health and drift.

A BundleDeployment among the objects is shown as the first one is, with its own objects below it.

Objects are read with the user's permissions and judged as the controller does; a kind that the user cannot list is
named. Drift is what the installed revision says and the object does not; so it is only known to users who may read the
revision store. Others see which objects drift in the condition `Drifted`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.hooks import kinds_of
from rukpak.controller.cli.command import connect, tell
from rukpak.controller.cli.deployments import tell_unserved
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.observe.records import key_of
from rukpak.controller.views.access import (
    RUNNING,
    Deployments,
    Manifest,
    list_hooks,
    list_objects,
    list_owned,
    read_revisions,
)
from rukpak.controller.views.objects import (
    Node,
    color_of,
    describe_drift,
    describe_unobserved,
    describe_wave,
    find_targets,
    find_waves_by_title,
    group_by_wave,
    make_nodes,
    make_outline,
    make_unlisted,
    owner_of,
    state_of,
)
from rukpak.controller.views.texts import Cell, Painted, dump_as, is_colored, to_table

_HEADING = ("OBJECT", "HEALTH", "DRIFT", "MESSAGE")
_NESTED = 10
"""Depth of BundleDeployments that contain each other."""
_FORK, _LAST, _LINE, _NOTHING = "├─ ", "└─ ", "│  ", "   "


def main(options: argparse.Namespace) -> int:
    """Show the tree of a BundleDeployment; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    client = connect(options)
    value, deployment = Deployments(client).read(options.name)
    root = _grow(client, Discovery(client), options.namespace, deployment, frozenset())
    print(_show(root, options), end="", flush=True)
    tell_unserved(options, client, [value])
    return 0


def _show(root: Node, options: argparse.Namespace) -> str:
    if options.output not in ("", "wide"):
        return dump_as(options.output, to_value(root))
    is_cut = sys.stdout.isatty() and not options.output
    width = shutil.get_terminal_size().columns if is_cut else 0
    return to_table(_HEADING, draw(root, colors=is_colored(options.color)), width=width)


def _grow(
    client: Client, discovery: Discovery, namespace: str, deployment: BundleDeployment, above: frozenset[str]
) -> Node:
    """Return a BundleDeployment with what is below it.

    Args:
        client: with the rights of the user.
        discovery: of the cluster.
        namespace: of the controller.
        deployment: to be shown.
        above: UIDs of those that it is shown below.
    """
    revisions = read_revisions(client, namespace, deployment)
    targets, owner = find_targets(discovery, deployment, revisions), owner_of(deployment)
    listing = list_objects(client, discovery, deployment)
    kinds = set(RUNNING).union(*(kinds_of(revision) for revision in (revisions or {}).values()))
    own = [*listing.objects, *list_hooks(client, discovery, deployment, kinds)]
    owned = list_owned(client, own)
    for kind, why in owned.unlisted:
        tell(f"warning: {kind}: {why}")
    values = {value["metadata"]["uid"]: value for value in (*own, *owned.objects)}

    def _find_drift(uid: str) -> str:
        return describe_drift(values[uid], targets.get(key_of(values[uid])), owner)

    nodes = make_nodes(deployment, map(make_outline, values.values()), _find_drift)
    known = above | {deployment.metadata.uid}

    def _with_child(node: Node) -> Node:
        child = _read_child(node, values.get(node.uid), known)
        if child is None:
            return node
        below = _grow(client, discovery, namespace, child, known)
        drift = "; ".join(filter(None, (node.drift, below.drift)))
        return replace(below, drift=drift, is_stray=node.is_stray)

    shown = [_with_child(node) for node in nodes]
    objects = [*make_unlisted(listing.unlisted), *(node for node in shown if not node.hook)]
    objects += _find_unlisted_strays(deployment, nodes)
    waves = find_waves_by_title(listing.objects, (revisions or {}).get(deployment.status.revision))
    groups = [_make_wave(deployment, number, members) for number, members in group_by_wave(objects, waves)]
    return _make_root(deployment, [*(groups or objects), *(node for node in shown if node.hook)])


def _read_child(node: Node, value: Manifest | None, above: frozenset[str]) -> BundleDeployment | None:
    if value is None or key_of(value)[:2] != (names.GROUP, names.KIND):
        return None
    deployment, _ = try_to_read(value)
    if deployment and (deployment.metadata.uid in above or len(above) == _NESTED):
        tell(f"warning: {node.title}: its objects are not shown, since BundleDeployments contain each other")
        return None
    return deployment


def _find_unlisted_strays(deployment: BundleDeployment, nodes: Iterable[Node]) -> list[Node]:
    known = {node.title for node in nodes}
    found = [
        Node(kind=each.kind, namespace=each.namespace, name=each.name, reason="Unknown", is_stray=True)
        for each in deployment.status.strays
    ]
    return sorted((node for node in found if node.title not in known), key=lambda node: node.title)


def _make_wave(deployment: BundleDeployment, number: int | None, children: Sequence[Node]) -> Node:
    current, state = deployment.status.wave, describe_wave(deployment, number)
    since = f"since {current.since:%Y-%m-%dT%H:%M:%SZ}" if current and state == "Applying" else ""
    name = "unknown" if number is None else str(number)
    return Node(kind="Wave", name=name, reason=state, message=since, children=children)


def _make_root(deployment: BundleDeployment, children: Sequence[Node]) -> Node:
    status = deployment.status
    ready, drifted = status.condition("Ready"), status.condition("Drifted")
    unobserved = describe_unobserved(deployment)
    messages = [unobserved or (ready.message if ready else ""), drifted.message if drifted else ""]
    return Node(
        uid=deployment.metadata.uid,
        kind=names.KIND,
        name=deployment.metadata.name,
        state=state_of(deployment).value.lower(),
        reason=ready.reason if ready and not unobserved else "Unknown",
        drift=", ".join(
            f"{count} {what}"
            for what, count in (("drifted", status.objects.drifted), ("strays", status.objects.strays))
            if count
        ),
        message="; ".join(filter(None, messages)),
        children=children,
    )


def to_value(node: Node) -> dict[str, Any]:
    """Return a node and what is below it as data."""
    return {
        "kind": node.kind,
        "namespace": node.namespace,
        "name": node.name,
        "health": node.reason,
        "message": _describe(node),
        "drift": _describe_drift(node),
        "children": [to_value(child) for child in node.children],
    }


def draw(node: Node, *, colors: bool = False) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for an object and each below it: its name in the tree, health, drift and message."""
    for name, each in _list_nodes(node, "", ""):
        health = Painted(each.reason, color_of(each.state)) if colors else each.reason
        yield name, health, _describe_drift(each), _describe(each)


def _describe(node: Node) -> str:
    return ": ".join(filter(None, (node.hook and f"{node.hook} hook", node.message)))


def _describe_drift(node: Node) -> str:
    return "; ".join(filter(None, ("part of no revision" if node.is_stray else "", node.drift)))


def _list_nodes(node: Node, name: str, margin: str) -> Iterator[tuple[str, Node]]:
    yield f"{name}{node.title}", node
    for index, child in enumerate(node.children):
        is_last = index == len(node.children) - 1
        lead, below = (_LAST, _NOTHING) if is_last else (_FORK, _LINE)
        yield from _list_nodes(child, f"{margin}{lead}", f"{margin}{below}")
