"""`rukpak tree`: the objects and hooks of a BundleDeployment and what workloads own, with health and drift.

Drift is what the installed revision says and the object does not; so it is only known to users who may read the
revision store. Others see which objects drift in the condition `Drifted`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from api import names
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.apply.drift import REPLICAS, explain, has_field, without
from controller.apply.hooks import kinds_of
from controller.apply.ownership import Owner, make_body
from controller.apply.targets import Target, make_targets
from controller.build.revision import Revision
from controller.cli.command import FAILED, connect, tell
from controller.cli.deployments.access import Deployments, Manifest
from controller.cli.deployments.unserved import tell_unserved
from controller.cli.inspection.branches import Branch, by_owner, draw, find_child_kinds, grow
from controller.cli.inspection.description import describe_unobserved, name_of_stray
from controller.cli.inspection.objects import RUNNING, FoundObject, ObjectLister, judge
from controller.cli.output import to_json, to_table, to_yaml
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.resources import GroupVersionKind, Resource
from controller.observe.records import ObjectKey, is_scaled, key_of, project
from controller.revisions.store import RevisionSecrets, RevisionStore

STRAY = "part of no revision"
_HEADING = ("OBJECT", "HEALTH", "DRIFT", "MESSAGE")
FindDrift = Callable[[Mapping[str, Any]], str]


def main(options: argparse.Namespace) -> int:
    """Show the tree of a BundleDeployment; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    client = connect(options)
    value = Deployments(client).get(options.name)
    deployment, problem = try_to_read(value) if value else (None, "not found")
    if value is None or deployment is None:
        tell(f'rukpak tree: BundleDeployment "{options.name}" {problem}')
        return FAILED
    revisions = _read_revisions(client, options.namespace, deployment)
    root = _grow_root(client, deployment, _make_finder(client, deployment, revisions), _hook_kinds(revisions))
    print(_show(root, options.output), end="", flush=True)
    tell_unserved("tree", client, options.namespace, [value])
    return 0


def _show(root: Branch, output: str) -> str:
    if output:
        return to_json(root.to_value()) if output == "json" else to_yaml(root.to_value())
    return to_table(_HEADING, draw(root))


def _grow_root(
    client: Client, deployment: BundleDeployment, find_drift: FindDrift, hook_kinds: Iterable[GroupVersionKind]
) -> Branch:
    lister = ObjectLister(client)
    hooks = lister.find_hooks(deployment, hook_kinds)
    found = [*lister.find(deployment), *hooks]
    values = [each.value for each in found if each.value]
    owned = by_owner(_list_owned(lister, values))

    def _make(value: Mapping[str, Any], children: Sequence[Branch]) -> Branch:
        verdict = judge(value)
        return Branch(name=verdict.name, health=verdict.reason, message=verdict.message, children=children)

    strays = {name_of_stray(each) for each in deployment.status.strays}

    def _make_branch(each: FoundObject) -> Branch:
        children = grow(each.value, owned, _make) if each.value else ()
        drift = find_drift(each.value) if each.value and each not in hooks else ""
        drift = STRAY if each.name in strays else drift
        return Branch(name=each.name, health=each.reason, message=each.message, drift=drift, children=children)

    unlisted = sorted(strays - {each.name for each in found})  # of a kind that the bundle does not have
    found += [FoundObject(name=name, reason="Unknown") for name in unlisted]
    return _make_root(deployment, [_make_branch(each) for each in found])


def _make_root(deployment: BundleDeployment, children: Sequence[Branch]) -> Branch:
    status = deployment.status
    ready, drifted = status.condition("Ready"), status.condition("Drifted")
    unobserved = describe_unobserved(deployment)
    messages = [unobserved or (ready.message if ready else ""), drifted.message if drifted else ""]
    return Branch(
        name=f"{names.KIND} {deployment.metadata.name}",
        health=ready.reason if ready and not unobserved else "Unknown",
        drift=", ".join(
            f"{count} {what}"
            for what, count in (("drifted", status.objects.drifted), ("strays", status.objects.strays))
            if count
        ),
        message="; ".join(filter(None, messages)),
        children=children,
    )


def _list_owned(lister: ObjectLister, values: list[Mapping[str, Any]]) -> Iterator[Manifest]:
    """Yield what workloads may own: all objects of these kinds in their namespaces."""
    kinds_by_namespace: dict[str, set[tuple[str, str]]] = {}
    for value in values:
        key = key_of(value)
        kinds_by_namespace.setdefault(key.namespace, set()).add(key[:2])
    for namespace, kinds in sorted(kinds_by_namespace.items()):
        for group, kind in find_child_kinds(kinds):
            try:
                yield from lister.list_items(
                    Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=True), namespace
                )
            except ApiError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                tell(f'warning: {kind}: you cannot list this kind in namespace "{namespace}"')


# drift


def _make_finder(client: Client, deployment: BundleDeployment, revisions: Mapping[str, Revision] | None) -> FindDrift:
    """Return a function that says how an object differs from the installed revision, if the user may read that."""
    orphan = deployment.spec.deletion_policy == "Orphan"
    owner = Owner(deployment.metadata.name, deployment.metadata.uid)
    installed = (revisions or {}).get(deployment.status.installed_revision)
    targets: Mapping[ObjectKey, Target] = {}
    if installed:
        is_namespaced = Discovery(client).is_namespaced
        targets = make_targets(installed, owner, orphan=orphan, is_namespaced=is_namespaced).by_key

    def _find(value: Mapping[str, Any]) -> str:
        target = targets.get(key_of(value))
        return describe_drift(value, target, owner, orphan=orphan) if target else ""

    return _find


def _read_revisions(client: Client, namespace: str, deployment: BundleDeployment) -> Mapping[str, Revision] | None:
    """Return the installed and the wanted revision by digest; None for users who may not read them."""
    store = RevisionStore(client, RevisionSecrets(client, namespace, lambda _: None, lambda: None))
    digests = {deployment.status.installed_revision, deployment.status.revision} - {""}
    try:
        found = [store.read(deployment.metadata.name, digest) for digest in sorted(digests)]
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return None
    return {revision.digest: revision for revision in found if revision}


def _hook_kinds(revisions: Mapping[str, Revision] | None) -> set[GroupVersionKind]:
    """Return the kinds that hooks may have: those that run something, and those that the revisions name."""
    named = (kinds_of(revision) for revision in (revisions or {}).values())
    return set(RUNNING).union(*named)


def describe_drift(value: Mapping[str, Any], target: Target, owner: Owner, *, orphan: bool) -> str:
    """Return which fields of an object other clients have modified, and which ones; empty if none has. Pure.

    Args:
        value: the object.
        target: what its revision asks for.
        owner: its BundleDeployment.
        orphan: whether the deletionPolicy is Orphan.
    """
    record = project(value, target.key.group, target.key.kind)
    if record.applied_digest != target.digest or record.wiped or target.ignored.accepts_drift:
        return ""
    body: Mapping[str, Any] = make_body(target.manifest, owner, orphan=orphan)
    if is_scaled(value) and has_field(body, REPLICAS):
        body = without(body, [REPLICAS])
    return explain(target.key, value, body, names.field_manager(owner.name)).describe_fields()
