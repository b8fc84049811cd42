"""`rukpak uninstall`: RukPak is removed from a cluster, with the user's own permissions.

`kubectl delete -k` hangs if it deletes the controller first: nothing is left to remove the finalizers of the
BundleDeployments, and the CustomResourceDefinition waits for them. So this process runs a standby controller while they
are deleted, which takes the Lease if no controller runs in the cluster. CustomResourceDefinition and controller follow.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.ownership import Disposal, RemovalCause, dispose, is_marked_to_stay
from rukpak.controller.cli.command import confirm, connect, tell, tell_all
from rukpak.controller.cli.deployments import AWAITING_CONTROLLER, POLL_SECONDS, wait_while
from rukpak.controller.cli.installation import DEFINITION, LABEL, describe_cluster
from rukpak.controller.cli.prune import list_records
from rukpak.controller.content.limits import some
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.lease import LEASES
from rukpak.controller.kube.resources import NAMESPACES, GroupVersionKind, is_shard_name, read_kinds, shard_of
from rukpak.controller.manager.assemble import assemble
from rukpak.controller.manager.process import set_up_log
from rukpak.controller.observe.records import Record
from rukpak.controller.settings import Settings
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import MANAGER, PODS, Deployments, Manifest, NoApiError, read_holder, read_if_exists
from rukpak.controller.views.texts import name_of

STOP_SECONDS = 10.0
_KEPT, _ORPHANED = "kept, without an owner", "kept, since spec.deletionPolicy is Orphan"
_MARKED, _DATA = "kept, since an annotation says so", "kept, since they may hold data"
_IN_USE = "kept while something uses it"
_NAMESPACE = ("", NAMESPACES.gvk.kind)
_REASONS = (_KEPT, _ORPHANED, _MARKED, _DATA, _IN_USE)
"""Why objects stay."""
_PARTS = tuple(
    GroupVersionKind.parse(text)
    for text in (
        "admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
        "monitoring.coreos.com/v1/ServiceMonitor",
        "monitoring.coreos.com/v1/PrometheusRule",
        "apps/v1/Deployment",
        "policy/v1/PodDisruptionBudget",
        "networking.k8s.io/v1/NetworkPolicy",
        "v1/Service",
        "v1/ConfigMap",
        "rbac.authorization.k8s.io/v1/RoleBinding",
        "rbac.authorization.k8s.io/v1/Role",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "v1/ServiceAccount",
        "v1/Namespace",
    )
)


def uninstall(options: argparse.Namespace) -> int:
    """Remove RukPak from the cluster; return the exit status.

    Raises: MisuseError without a terminal for the question; ApiError, ConfigurationError.
    """
    if options.namespaces and not options.delete:
        raise MisuseError("--namespaces requires --delete")
    client = connect(options)
    deployments, parts = _find_deployments(client), find_parts(client, options.namespace)
    if not (deployments or parts):
        tell(f"RukPak is not installed on {describe_cluster(client, options)}")
        return 0
    _announce(client, options)
    owned = find_owned(client, Discovery(client), deployments)
    made = find_made(client, owned, options.namespace) if options.delete else []
    plan = [f"{name_of(value)} ({_fate(value, keep=not options.delete)})" for value in deployments]
    plan += [part.name for part in parts]
    if options.namespaces:
        plan += [f"{part.name} (with everything in it)" for part in made]
    deleted = {part.path for part in made} if options.namespaces else set()
    staying = [
        *find_staying(owned, keep=not options.delete, deleted=deleted),
        *_find_home(client, options.namespace, parts),
    ]
    if made and not options.namespaces:
        which = some([part.name for part in made])
        staying.append(f"made by RukPak, and deleted only with --namespaces, with everything in them: {which}")
    if options.dry_run:
        _tell_staying(staying)
        print("".join(f"{line} deleted (dry run)\n" for line in plan), end="", flush=True)
        return 0
    tell("This deletes:")
    for line in plan:
        tell(f"  {line}")
    _tell_staying(staying)
    confirm(options, "canceled; nothing was deleted")
    if left := _delete_all(client, options):
        raise FailedError(f"timed out: {left}; API and controller were not deleted, run it again to continue")
    for part in made if options.namespaces else ():
        _delete(client, part)
    _delete_parts(client, find_parts(client, options.namespace), options.timeout)
    return 0


# what is shown before


def _find_deployments(client: Client) -> list[Manifest]:
    try:
        return Deployments(client).all()
    except NoApiError:
        return []


def _announce(client: Client, options: argparse.Namespace) -> None:
    tell(f"Uninstalling RukPak from {describe_cluster(client, options)}")
    holder = read_holder(client, options.namespace)
    if holder and holder.is_running and not read_if_exists(client, PODS.path(options.namespace, holder.host)):
        tell(
            f'warning: a controller outside of this cluster is active, on "{holder.host}"; stop it before you continue'
        )


def _fate(value: Manifest, *, keep: bool) -> str:
    total = ((value.get("status") or {}).get("objects") or {}).get("total", 0)
    is_kept = keep or value["spec"].get("deletionPolicy") == "Orphan"
    count = "1 object is" if total == 1 else f"{total} objects are"
    return f"{count} {_KEPT if is_kept else 'deleted as well'}" if total else "no objects"


def _tell_staying(lines: Sequence[str]) -> None:
    if lines:
        tell("This stays:")
    tell_all(f"  {line}" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What BundleDeployments have installed."""

    deployments: Sequence[BundleDeployment]
    """Those that can be read."""
    objects: Sequence[tuple[Record, str]]
    """All with the label of one, each with spec.deletionPolicy of its owner; empty: it has none of these."""
    unlisted: Sequence[str]
    """Kinds that the user may not list."""


def find_owned(client: Client, discovery: Discovery, deployments: Iterable[Manifest]) -> Owned:
    """Return what BundleDeployments, as on the cluster, have installed, as far as the user may list it.

    Raises: ApiError.
    """
    read = [deployment for value in deployments if (deployment := try_to_read(value)[0])]
    kinds = {kind for each in read for kind in read_kinds(each.status.managed_kinds)}
    policies = {(each.metadata.name, each.metadata.uid): each.spec.deletion_policy for each in read}
    listed = {kind: _list_owned(client, discovery, kind) for kind in sorted({NAMESPACES.gvk, *kinds} if read else ())}
    return Owned(
        deployments=read,
        objects=[
            (each, policies.get((each.owner, each.owner_uid), "")) for found in listed.values() for each in found or ()
        ],
        unlisted=sorted({kind.kind for kind, found in listed.items() if found is None}),
    )


def find_made(client: Client, owned: Owned, home: str) -> list[Part]:
    """Return the namespaces that RukPak has made for BundleDeployments or as objects of them, and nobody has changed.

    Without those in which something stays: by `deletionPolicy: Orphan`, or because an annotation says so.

    Args:
        client: acts as the user.
        owned: what is installed.
        home: the namespace of RukPak.

    Raises: ApiError.
    """
    kept, wanted, since = {"", home}, set[str](), dict[str, datetime]()
    for each in owned.deployments:
        place = each.spec.install_namespace or each.status.install_namespace or ""
        (kept if each.spec.deletion_policy == "Orphan" else wanted).add(place)
        if created := each.metadata.creation_timestamp:
            since[place] = min(created, since.get(place, created))
    for record, policy in owned.objects:
        if is_marked_to_stay(record) or policy in ("", "Orphan"):
            kept.add(_namespace_of(record))
        elif record.key[:2] == _NAMESPACE:
            wanted.add(record.key.name)
    found = {name: Part(NAMESPACES.path(name=name), f"namespace/{name}") for name in sorted(wanted - kept)}
    return [part for name, part in found.items() if was_made(client, part.path, (MANAGER,), since.get(name))]


def find_staying(owned: Owned, *, keep: bool, deleted: Collection[str] = ()) -> Iterator[str]:
    """Yield a line for each reason why objects of BundleDeployments stay, and one for kinds that may not be listed.

    Args:
        owned: what is installed.
        keep: whether all objects are kept.
        deleted: paths of namespaces that are deleted with everything in them.
    """
    found: dict[str, set[ObjectKey]] = {reason: set() for reason in _REASONS}
    for record, policy in owned.objects:
        namespace = _namespace_of(record)
        if namespace and NAMESPACES.path(name=namespace) in deleted:
            continue
        if policy and (reason := _why_it_stays(record, keep=keep, orphan=policy == "Orphan")):
            found[reason].add(record.key)
    for reason, keys in found.items():
        if keys:
            yield f"{reason}: {some([str(key) for key in sorted(keys)])}"
    if owned.unlisted:
        yield f"not known, since you may not list them: {some(owned.unlisted)}"


def _namespace_of(record: Record) -> str:
    return record.key.name if record.key[:2] == _NAMESPACE else record.key.namespace


def _list_owned(client: Client, discovery: Discovery, kind: GroupVersionKind) -> list[Record] | None:
    resource = discovery.resource(kind)
    return list_records(client, resource, names.OWNER_LABEL) if resource else []


def _why_it_stays(record: Record, *, keep: bool, orphan: bool) -> str:
    if keep:
        return _KEPT
    if orphan:
        return _ORPHANED
    match dispose(record, RemovalCause.TEARDOWN):
        case Disposal.DELETE:
            return ""
        case Disposal.DELETE_UNUSED:
            return _IN_USE
    return _MARKED if is_marked_to_stay(record) else _DATA


def _find_home(client: Client, namespace: str, parts: Iterable[Part]) -> Iterator[str]:
    path = NAMESPACES.path(name=namespace)
    if path not in {part.path for part in parts} and read_if_exists(client, path):
        yield f"not created by RukPak: Namespace {namespace}"


# BundleDeployments


def _delete_all(client: Client, options: argparse.Namespace) -> str:
    deployments = Deployments(client)
    try:
        found = deployments.all()
        for value in found:
            _request_deletion(deployments, value, keep=not options.delete)
        if not found:
            return ""
        with ExitStack() as running:
            for shard in sorted({_shard_of(value) for value in found}):
                running.enter_context(_controller(options, shard))
            return wait_while(lambda: _count_left(deployments), options.timeout)
    except NoApiError:
        return ""


def _request_deletion(deployments: Deployments, value: Manifest, *, keep: bool) -> None:
    name = value["metadata"]["name"]
    change: dict[str, Any] = {}
    if keep and value["spec"].get("deletionPolicy") != "Orphan":
        change["spec"] = {"deletionPolicy": "Orphan"}
    if shard_of(value["metadata"].get("labels") or {}) != _shard_of(value):
        change["metadata"] = {"labels": {names.SHARD: None}}
    if change:
        deployments.change(name, change)
    deployments.delete(name)
    print(f"bundledeployment.{names.GROUP}/{name} deleted", flush=True)


@contextmanager
def _controller(options: argparse.Namespace, shard: str) -> Iterator[None]:
    set_up_log("text", "error")
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        settings = Settings(
            kubeconfig=options.kubeconfig,
            context=options.context,
            namespace=options.namespace,
            shard=shard,
            store=folder,
            metrics_address="off",
            probe_address="off",
        )
        runner = threading.Thread(target=assemble(settings).run, args=(stop,), name="controller", daemon=True)
        runner.start()
        try:
            yield
        finally:
            stop.set()
            runner.join(STOP_SECONDS)


def _shard_of(value: Manifest) -> str:
    found = shard_of(value["metadata"].get("labels") or {})
    return found if is_shard_name(found) else ""


def _count_left(deployments: Deployments) -> str:
    left = deployments.all()
    return f"{len(left)} BundleDeployments left; {_describe(left[0])}" if left else ""


def _describe(value: Manifest) -> str:
    name = value["metadata"]["name"]
    deployment, problem = try_to_read(value)
    if deployment is None:
        return f"{name}: cannot be read: {problem}"
    ready = deployment.status.condition("Ready")
    return f"{name}: {ready.message if ready else AWAITING_CONTROLLER}"


# the API and the controller


def _delete_parts(client: Client, parts: Sequence[Part], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for part in parts:
        _delete(client, part)
        while part == API and read_if_exists(client, API.path) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


def _delete(client: Client, part: Part) -> None:
    if attempt(lambda: client.delete(part.path), HTTPStatus.NOT_FOUND):
        print(f"{part.name} deleted", flush=True)


@dataclass(frozen=True, slots=True)
class Part:
    """An object of RukPak."""

    path: str
    name: str
    """As kubectl prints it."""


API = Part(DEFINITION, f"customresourcedefinition.apiextensions.k8s.io/{names.DEFINITION}")


def find_parts(client: Client, namespace: str) -> list[Part]:
    """Return what exists, in the order of its deletion: the API, the controller, its Lease, and its namespace.

    Raises: ApiError.
    """
    discovery = Discovery(client)
    labeled = [part for kind in _PARTS for part in _find_kind(client, discovery, kind)]
    api = [API] if read_if_exists(client, API.path) else []
    lease = list(_find_leases(client, namespace))
    home = Part(NAMESPACES.path(name=namespace), f"namespace/{namespace}")
    ours = [home] if home not in labeled and was_made(client, home.path) else []
    return [*api, *labeled, *lease, *ours]


def _find_leases(client: Client, namespace: str) -> Iterator[Part]:
    for item in client.list(LEASES.path(namespace), metadata=True):
        name = item["metadata"]["name"]
        is_of_shard = names.VERSION in (item["metadata"].get("annotations") or {})
        if name == names.LEASE or (name.startswith(f"{names.LEASE}-") and is_of_shard):
            yield Part(LEASES.path(namespace, name), f"lease.{LEASES.group}/{name}")


def _find_kind(client: Client, discovery: Discovery, kind: GroupVersionKind) -> Iterator[Part]:
    resource = discovery.resource(kind)
    if resource is None:
        return
    for item in list(client.list(resource.path(), metadata=True, label_selector=LABEL)):
        metadata = item["metadata"]
        name = f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}/{metadata['name']}"
        yield Part(resource.path(metadata.get("namespace", ""), metadata["name"]), name)


def was_made(client: Client, path: str, others: Collection[str] = (), since: datetime | None = None) -> bool:
    """Return whether a namespace exists that only controllers have written, or `others`.

    An apply of nothing but a name leaves no entry in managedFields. So one without entries counts if it is younger than
    the first BundleDeployment that is installed there.

    Args:
        client: acts as the user.
        path: of the namespace.
        others: more field managers.
        since: when that BundleDeployment was created, if there is one.

    Raises: ApiError.
    """
    reply = read_if_exists(client, path)
    metadata: Mapping[str, Any] = reply.value["metadata"] if reply else {}
    if not metadata or metadata.get("deletionTimestamp"):
        return False
    if managers := {str(entry.get("manager")) for entry in metadata.get("managedFields") or []}:
        return all(manager.startswith("rukpak") or manager in others for manager in managers)
    created = str(metadata.get("creationTimestamp") or "")
    return since is not None and bool(created) and datetime.fromisoformat(created) >= since
