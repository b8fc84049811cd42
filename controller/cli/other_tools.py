"""What `--from` names: Helm, Flux or kubectl, how they mark their objects, and what they keep of them.

Helm knows a release by its Secrets or ConfigMaps alone: without them it neither lists nor deletes anything. Each
contains the release as gzipped JSON (Helm, pkg/storage/driver/util.go). A Kustomization or HelmRelease of Flux that is
suspended changes nothing, and deletes nothing when it is deleted. kubectl knows no set of objects: what it has applied
is found by the annotation or the managedFields that it leaves on each.

An entry of managedFields that shares a field with ours is removed as a whole, as the controller does with those of Helm
3 and of `kubectl apply` (apply/README.md, Ownership): a rest below an item of a list would keep the item on the object
when a later revision drops it. What only that entry had set keeps its value, without a manager. What is left on objects
is found without a request.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from http import HTTPStatus
from operator import itemgetter
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.controller.apply.drift import UnclaimedItems, find_uncovered, merge_keys, united
from rukpak.controller.apply.leftovers import CLIENT_SIDE, LAST_APPLIED, last_applied
from rukpak.controller.apply.trees import find_items, inside
from rukpak.controller.cli.command import tell
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.objects import ObjectKey, collect_objects
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import attempt
from rukpak.controller.kube.resources import CONFIG_MAPS, SECRETS, GroupVersionKind, Resource
from rukpak.controller.observe.records import Entry, entries_of, entry_of, fields_of, key_of, project
from rukpak.controller.untrusted import is_object_name, mapping, strings
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import MANAGER, REQUESTS, Manifest, read_if_exists
from rukpak.controller.views.comparison import SERVER_METADATA, clean

FLUX_NAMESPACE = "flux-system"
"""Where Flux keeps Kustomizations unless it is told otherwise."""
RELEASE_NAME, RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io"
HELM_RELEASE = "helm.toolkit.fluxcd.io"
MOST_BYTES = 64 << 20
"""Size of a release as JSON; etcd limits what is stored of it to 1.5 MiB."""
_BUSY = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")
_FLUX_KINDS = {KUSTOMIZATION: "Kustomization", HELM_RELEASE: "HelmRelease"}
Tree = Mapping[str, Any]
MANAGED_BY = "app.kubernetes.io/managed-by"
MARKS = {
    "annotations": (RELEASE_NAME, RELEASE_NAMESPACE, LAST_APPLIED),
    "labels": (
        MANAGED_BY,
        *(f"{group}/{key}" for group in (KUSTOMIZATION, HELM_RELEASE) for key in ("name", "namespace")),
    ),
}
"""By which Helm and Flux recognize what they may change and delete, and kubectl what it may remove."""
# Those that create objects, whose entries contain all that the server has defaulted.
_CREATORS = (
    *(f"kubectl-{verb}" for verb in ("create", "replace", "client-side-apply", "run", "expose", "autoscale")),
    *("helm", "terraform-provider-helm"),
    "before-first-apply",  # made of all of an object that had no entries
)


class Tool(Enum):
    """What has installed the objects."""

    HELM = "helm"
    FLUX = "flux"
    KUBECTL = "kubectl"


_NAMED_BY = {
    Tool.HELM: (RELEASE_NAME, RELEASE_NAMESPACE),
    Tool.FLUX: (f"{KUSTOMIZATION}/name", f"{KUSTOMIZATION}/namespace"),
}
"""The labels or annotations with the name and namespace of what has installed an object."""
# Helm and its clients take the name of their program: pkg/kube/client.go of Helm, getManagedFieldsManager.
_MANAGERS = {
    Tool.HELM: re.compile(r"helm.*|terraform-provider-helm.*"),
    Tool.FLUX: re.compile(r"kustomize-controller|flux"),
    Tool.KUBECTL: re.compile(r"kubectl(-.*)?|before-first-apply"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What has installed the objects that are adopted."""

    tool: Tool
    name: str = ""
    namespace: str = ""
    managers: tuple[str, ...] = ()
    """More field managers that it has used."""

    def __str__(self) -> str:
        """Return the form of messages: `Helm release blog/blog`."""
        kinds = {Tool.HELM: "Helm release", Tool.FLUX: "Flux Kustomization"}
        return f"{kinds[self.tool]} {self.namespace}/{self.name}" if self.name else self.tool.value

    def has_marked(self, metadata: Mapping[str, Any]) -> bool:
        """Whether an object carries the labels or annotations that it puts on its objects."""
        return _named_on(metadata, self.tool) == (self.name, self.namespace)

    def is_manager(self, manager: str) -> bool:
        """Whether a field manager is one of its own, or of kubectl, with which people correct its objects."""
        if manager in self.managers:
            return True
        return any(_MANAGERS[tool].fullmatch(manager) for tool in (self.tool, Tool.KUBECTL))


def _named_on(metadata: Mapping[str, Any], tool: Tool) -> tuple[str, str] | None:
    found = {**strings(metadata, "labels"), **strings(metadata, "annotations")}
    name, namespace = _NAMED_BY.get(tool, ("", ""))
    return (found[name], found.get(namespace, "")) if found.get(name) else None


def is_tool(text: str) -> bool:
    """Whether `--from` names a tool, and no BundleDeployment."""
    return "/" in text or text == Tool.KUBECTL.value


def hint_at_tool(text: str) -> str:
    """Return how a tool is named in full, if text is only the first part of that; else nothing."""
    kinds = {Tool.HELM.value: "RELEASE", Tool.FLUX.value: "KUSTOMIZATION"}
    return f"name what it has installed: --from {text}/{kinds[text]}" if text in kinds else ""


def read_origin(text: str, install_namespace: str, managers: tuple[str, ...]) -> Origin:
    """Return what `--from` names.

    Args:
        text: `helm/RELEASE[.NAMESPACE]`, `flux/KUSTOMIZATION[.NAMESPACE]` or `kubectl`.
        install_namespace: the namespace of a release by default.
        managers: more field managers of it.

    Raises: MisuseError.
    """
    if text == Tool.KUBECTL.value:
        return Origin(tool=Tool.KUBECTL, managers=managers)
    tool, _, rest = text.partition("/")
    # A namespace contains no dot, a name may.
    name, _, namespace = rest.rpartition(".") if "." in rest else (rest, "", "")
    defaults = {Tool.HELM.value: install_namespace, Tool.FLUX.value: FLUX_NAMESPACE}
    if tool not in defaults or not name:
        forms = "helm/RELEASE[.NAMESPACE], flux/KUSTOMIZATION[.NAMESPACE], kubectl or the name of a BundleDeployment"
        raise MisuseError(f'--from "{text}": must be {forms}')
    return Origin(tool=Tool(tool), name=name, namespace=namespace or defaults[tool], managers=managers)


def name_origin(live: Mapping[str, Any], install_namespace: str, exists: Callable[[str, str], bool]) -> str | None:
    """Return what `--from` names to take over an object; empty if nothing shows who made it, None if nothing takes it.

    Args:
        live: the object.
        install_namespace: the namespace of a release by default.
        exists: whether a BundleDeployment with a name and UID exists.
    """
    metadata, record = mapping(live, "metadata"), project(live, "", "")
    if record.owner and exists(record.owner, record.owner_uid):
        return None if is_tool(record.owner) else record.owner
    if record.controller_uid:
        return None
    for tool, default in ((Tool.HELM, install_namespace), (Tool.FLUX, FLUX_NAMESPACE)):
        if named := _named_on(metadata, tool):
            return _name_tool(tool, *named, default)
    if record.marks:
        return None
    kubectl = Origin(tool=Tool.KUBECTL)
    is_known = LAST_APPLIED in strings(metadata, "annotations") or any(
        kubectl.is_manager(each["manager"]) for each in entries_of(live)
    )
    return Tool.KUBECTL.value if is_known else ""


def choose_origin(origins: Collection[str | None]) -> str:
    """Return what `--from` names to take over several objects at once; empty if nothing does.

    An adoption from a tool also takes what has no owner, one from a BundleDeployment only what is that one's.

    Args:
        origins: of the objects, as `name_origin` returns them.
    """
    owners = set(origins) - {"", Tool.KUBECTL.value}
    if not owners:
        return Tool.KUBECTL.value if Tool.KUBECTL.value in origins else ""
    owner = owners.pop()
    takes_all = bool(owner) and not owners and (is_tool(owner or "") or len(set(origins)) == 1)
    return owner if owner and takes_all else ""


def _name_tool(tool: Tool, name: str, namespace: str, default: str) -> str | None:
    if not is_object_name(name) or not is_object_name(namespace or default):
        return None
    # A name with a dot is only told from a namespace by another one.
    is_short = namespace in ("", default) and "." not in name
    return f"{tool.value}/{name}" if is_short else f"{tool.value}/{name}.{namespace or default}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Helm."""

    paths: Mapping[str, str]
    """Paths of the Secrets or ConfigMaps, by name (`Secret blog/sh.helm.release.v1.blog.v1`), the oldest first."""
    objects: Mapping[ObjectKey, Mapping[str, Any]]
    """Objects of its latest revision, as Helm has rendered them, without hooks."""


def find_release(client: Client, discovery: Discovery, origin: Origin) -> Release:
    """Return the release that `--from` names.

    Raises: FailedError if it does not exist, cannot be read, or Helm is changing it; ApiError.
    """
    for resource in (SECRETS, CONFIG_MAPS):
        found = client.list(resource.path(origin.namespace), label_selector=f"owner=helm,name={origin.name}")
        if revisions := sorted(found, key=_revision):
            return _read_release(discovery, origin, resource, revisions)
    raise FailedError(f'{origin}: not found; "helm list --all-namespaces" shows releases')


def delete_release(client: Client, release: Release) -> None:
    """Delete what Helm keeps of a release, the oldest revision first, so that an interruption leaves the latest.

    Raises: ApiError.
    """
    for path in release.paths.values():
        client.delete(path)


def _revision(stored: Mapping[str, Any]) -> int:
    text = str((stored["metadata"].get("labels") or {}).get("version", ""))
    return int(text) if text.isdecimal() else 0


def _read_release(discovery: Discovery, origin: Origin, stored: Resource, found: list[dict[str, Any]]) -> Release:
    latest = found[-1]
    status = str((latest["metadata"].get("labels") or {}).get("status", ""))
    if status in _BUSY:
        raise FailedError(f"{origin}: is {status}: wait for Helm, or roll it back with Helm first")
    names = [each["metadata"]["name"] for each in found]
    text = str((latest.get("data") or {}).get("release", ""))
    try:
        manifest = _decode(text, is_secret=stored is SECRETS)
        objects = collect_objects(read_documents(manifest.encode(), "manifest", strict=False))
    except (ValueError, BundleError) as error:
        raise FailedError(f"{origin}: {stored.kind} {names[-1]} cannot be read: {error}") from None
    return Release(
        paths={f"{stored.kind} {origin.namespace}/{name}": stored.path(origin.namespace, name) for name in names},
        objects=dict(_place(objects, origin.namespace, discovery)),
    )


def _decode(text: str, *, is_secret: bool) -> str:
    try:
        data = base64.b64decode(base64.b64decode(text) if is_secret else text)
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            release = json.loads(packed.read(MOST_BYTES))
    except (binascii.Error, OSError, EOFError, zlib.error, ValueError):
        raise ValueError("it is not a release of Helm") from None
    return str(mapping(release).get("manifest") or "")


def _place(
    objects: list[dict[str, Any]], namespace: str, discovery: Discovery
) -> Iterator[tuple[ObjectKey, Mapping[str, Any]]]:
    for each in objects:
        key = key_of(each)
        resource = discovery.resource(GroupVersionKind.of(each))
        place = (key.namespace or namespace) if resource and resource.namespaced else ""
        yield key._replace(namespace=place), each


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """An object of Flux that applies objects which are adopted."""

    kind: str
    namespace: str
    name: str
    path: str
    is_suspended: bool

    def __str__(self) -> str:
        """Return the form of messages: `Kustomization flux-system/shop`."""
        return f"{self.kind} {self.namespace}/{self.name}"


def find_rivals(
    client: Client, discovery: Discovery, origin: Origin, labels: Iterable[Mapping[str, Any]]
) -> list[Rival]:
    """Return the objects of Flux that `--from` or the labels of adopted objects name, and that exist.

    Raises: FailedError if that of `--from` does not exist; ApiError.
    """
    own = [(KUSTOMIZATION, origin.namespace, origin.name)] if origin.tool is Tool.FLUX else []
    marked = [
        (group, str(each.get(f"{group}/namespace", "")), str(each[f"{group}/name"]))
        for each in labels
        for group in _FLUX_KINDS
        if f"{group}/name" in each
    ]
    found = {each: _read_rival(client, discovery, *each) for each in dict.fromkeys([*own, *marked])}
    if any(found[each] is None for each in own):
        raise FailedError(f'{origin}: not found; "kubectl get kustomizations --all-namespaces" shows them')
    return [rival for rival in found.values() if rival]


def check_origin(client: Client, text: str, install_namespace: str) -> None:
    """Check that what `--from` names can be taken over now.

    Raises: FailedError; ApiError, also if the user may not read what the tool has recorded.
    """
    if not is_tool(text):
        return
    origin, discovery = read_origin(text, install_namespace, ()), Discovery(client)
    if origin.tool is Tool.HELM:
        find_release(client, discovery, origin)
    find_rivals(client, discovery, origin, ())


def suspend(client: Client, rival: Rival) -> None:
    """Have Flux change nothing any more of what it applies.

    Raises: ApiError.
    """
    if not rival.is_suspended:
        client.merge_patch(rival.path, {"spec": {"suspend": True}}, manager=MANAGER)


def _read_rival(client: Client, discovery: Discovery, group: str, namespace: str, name: str) -> Rival | None:
    resource = discovery.any_version(group, _FLUX_KINDS[group])
    if resource is None or not namespace:
        return None
    path = resource.path(namespace, name)
    found = read_if_exists(client, path)
    if found is None:
        return None
    is_suspended = bool((found.value.get("spec") or {}).get("suspend"))
    return Rival(kind=_FLUX_KINDS[group], namespace=namespace, name=name, path=path, is_suspended=is_suspended)


# what kubectl has applied

_SEARCHED = frozenset({"get", "list", "patch"})
"""Verbs of the kinds that can be applied."""


def find_applied(
    client: Client, discovery: Discovery, origin: Origin, namespace: str, selector: str = ""
) -> dict[ObjectKey, Manifest]:
    """Return what kubectl has applied in a namespace, by kind and name, each with its metadata alone.

    Kinds that the user may not list are reported.

    Args:
        client: acts as the user.
        discovery: of the cluster.
        origin: has the field managers.
        namespace: where to look.
        selector: for labels.

    Raises: ApiError.
    """
    kinds: dict[tuple[str, str], Resource] = {}
    for each in discovery.resources():
        if each.namespaced and each.verbs >= _SEARCHED:
            kinds.setdefault((each.group, each.kind), each)

    def _list(resource: Resource) -> list[dict[str, Any]] | None:
        path = resource.path(namespace)
        return attempt(lambda: list(client.list(path, metadata=True, label_selector=selector)), HTTPStatus.FORBIDDEN)

    with ThreadPoolExecutor(REQUESTS) as pool:
        listed = list(zip(kinds, pool.map(_list, kinds.values()), strict=True))
    if denied := sorted(kind for (_, kind), items in listed if items is None):
        tell(f"not searched, since you may not list them: {', '.join(denied)}")
    found: dict[str, tuple[ObjectKey, Manifest]] = {}
    for (group, kind), items in listed:
        for metadata in (item["metadata"] for item in items or ()):
            if LAST_APPLIED in (metadata.get("annotations") or {}) or _applied_entries(metadata, origin):
                key = ObjectKey(group, kind, namespace, metadata["name"])
                found.setdefault(metadata["uid"], (key, {"metadata": metadata}))  # two groups may serve the same object
    return dict(sorted(found.values(), key=itemgetter(0)))


def read_applied(
    client: Client, discovery: Discovery, origin: Origin, key: ObjectKey, metadata: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return what kubectl has applied as a manifest, as it has recorded it, or else the fields that it owns.

    Anybody who may change an object can write its annotation: one that describes another object does not count.

    Returns: None if there is no such record, or the object is gone.
    Raises: ApiError.
    """
    recorded = last_applied(metadata)
    if recorded and _describes(recorded, key):
        return clean(_without_nulls(recorded))
    entries = _applied_entries(metadata, origin)
    version = str(entries[0].get("apiVersion")) if entries else ""
    resource = discovery.resource(GroupVersionKind.parse(f"{version}/{key.kind}")) if version else None
    if resource is None:
        return None
    live = read_if_exists(client, resource.path(key.namespace, key.name))
    trees = [fields_of(entry) for entry in entries if entry.get("apiVersion") == version]
    return make_manifest(live.value, reduce(united, trees, {})) if live else None


def make_manifest(live: Mapping[str, Any], fields: Tree) -> dict[str, Any]:
    """Return an object with only some of its fields, as a manifest. Pure.

    Args:
        live: the object.
        fields: in the form of managedFields, of the same version.
    """
    name = {key: live["metadata"][key] for key in ("name", "namespace") if key in live["metadata"]}
    owned = mapping(_extract(live, fields))
    metadata = {**mapping(owned, "metadata"), **name}
    return clean({**owned, "apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata})


def _applied_entries(metadata: Mapping[str, Any], origin: Origin) -> list[Entry]:
    entries = [each for each in entries_of({"metadata": metadata}) if not each.get("subresource")]
    by_server = [each for each in entries if each.get("operation") == "Apply" and origin.is_manager(each["manager"])]
    return by_server or [each for each in entries if each.get("manager") == CLIENT_SIDE]


def _describes(manifest: Mapping[str, Any], key: ObjectKey) -> bool:
    if not isinstance(manifest.get("apiVersion"), str):
        return False
    found = key_of(manifest)
    return found._replace(namespace=found.namespace or key.namespace) == key


def _extract(value: Any, fields: Tree) -> Any:
    if not fields:
        return value
    if isinstance(value, dict):
        return {name: _extract(item, fields[f"f:{name}"]) for name, item in value.items() if f"f:{name}" in fields}
    return _extract_items(value, fields) if isinstance(value, list) else value


def _extract_items(items: Sequence[Any], fields: Tree) -> list[Any]:
    kept = {}
    for name, child, place in find_items(fields, items):
        item = _extract(items[place], child)
        kept[place] = {**json.loads(name[2:]), **item} if name.startswith("k:") else item
    return [kept[place] for place in sorted(kept)]


def make_change(metadata: Mapping[str, Any], owner: str, origin: Origin) -> dict[str, Any] | None:
    """Return the merge patch that removes entries and marks, bound to the resourceVersion; None if there are none.

    Args:
        metadata: of an object that the BundleDeployment has applied.
        owner: name of the BundleDeployment.
        origin: what has installed the object.
    """
    ours = fields_of(entry_of({"metadata": metadata}, names.field_manager(owner)))
    entries = metadata.get("managedFields") or []
    kept = [entry for entry in entries if not _is_dropped(entry, ours, origin)]
    marks = {kind: dict.fromkeys(_marks(metadata, kind, ours)) for kind in MARKS}
    if len(kept) == len(entries) and not any(marks.values()):
        return None
    change = {"resourceVersion": metadata["resourceVersion"], "managedFields": kept}
    return {"metadata": {**change, **{kind: found for kind, found in marks.items() if found}}}


def find_left_by_tool(
    before: Mapping[str, Any], live: Mapping[str, Any], owner: str, origin: Origin, rendered: Mapping[str, Any] | None
) -> list[str]:
    """Return the paths of fields that the tool has set and the BundleDeployment does not: they stay as they are.

    What the object does not have, or only the server can change, is not left: nobody could remove it.

    Args:
        before: metadata of the object before it was adopted.
        live: the object afterwards.
        owner: name of the BundleDeployment.
        origin: what has installed the object.
        rendered: the object as the tool has rendered it, if that is known.
    """
    ours = fields_of(entry_of(live, names.field_manager(owner)))
    found = dict.fromkeys(
        path
        for entry in before.get("managedFields") or []
        if _is_dropped(entry, ours, origin) and not _is_defaulted(entry)
        for path in _paths(inside(_as_stored(fields_of(entry)), live), ours, "")
    )
    for recorded in filter(None, (rendered, last_applied(before))):
        stored = _only_existing(_with_data(clean(_without_nulls(recorded))), live, ())
        found |= dict.fromkeys(find_uncovered(ours, stored))
    return [path for path in found if not _is_mark(path)]


def _as_stored(fields: Tree) -> Tree:
    kept = {name: child for name, child in fields.items() if name not in ("f:status", "f:stringData")}
    if texts := mapping(fields, "f:stringData"):
        kept["f:data"] = united(mapping(fields, "f:data"), texts)
    metadata = mapping(fields, "f:metadata")
    if metadata:
        kept["f:metadata"] = {name: child for name, child in metadata.items() if name[2:] not in SERVER_METADATA}
    return kept


def _with_data(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    if (manifest.get("kind"), manifest.get("apiVersion")) != ("Secret", "v1") or not manifest.get("stringData"):
        return manifest
    data = {**mapping(manifest, "data"), **mapping(manifest, "stringData")}
    return {**{name: value for name, value in manifest.items() if name != "stringData"}, "data": data}


def _only_existing(recorded: Any, live: Any, path: tuple[str, ...]) -> Any:
    if isinstance(recorded, dict) and isinstance(live, dict):
        found = {
            name: _only_existing(value, live[name], (*path, name)) for name, value in recorded.items() if name in live
        }
        return {name: value for name, value in found.items() if value != {} or recorded[name] == {}}
    if isinstance(recorded, list) and isinstance(live, list) and (keys := merge_keys(recorded, path)):
        unclaimed = UnclaimedItems(live)
        return [
            _only_existing(item, live[place], path)
            for item, _, place in unclaimed.claim_all(recorded, keys)
            if place is not None
        ]
    return recorded


def other_managers(metadata: Mapping[str, Any], owner: str, origin: Origin) -> list[str]:
    """Return the managers that stay, with the fields of ours that they have set, too: these stay when we drop them."""
    ours = fields_of(entry_of({"metadata": metadata}, names.field_manager(owner)))
    own = (names.field_manager(owner), names.initial_field_manager(owner))
    return sorted(
        {
            manager
            for entry in metadata.get("managedFields") or []
            if (manager := str(entry.get("manager"))) not in own
            and not entry.get("subresource")
            and not origin.is_manager(manager)
            and _overlap(fields_of(entry), ours)
        }
    )


def _is_dropped(entry: Mapping[str, Any], ours: Tree, origin: Origin) -> bool:
    is_theirs = not entry.get("subresource") and origin.is_manager(str(entry.get("manager", "")))
    return is_theirs and _overlap(fields_of(entry), ours)


def _is_defaulted(entry: Mapping[str, Any]) -> bool:
    return entry.get("operation") == "Update" and str(entry.get("manager")).startswith(_CREATORS)


def _overlap(left: Tree, right: Tree) -> bool:
    for name in left.keys() & right.keys() - {"."}:
        if not name.startswith("f:") or not left[name] or not right[name] or _overlap(left[name], right[name]):
            return True
    return False


def _paths(theirs: Tree, ours: Tree, path: str) -> Iterator[str]:
    for name, child in theirs.items():
        if name == ".":
            continue
        mine = ours.get(name)
        step = _join(path, name)
        if mine is None and (not child or not name.startswith("f:")):
            yield step
        elif mine is None or mine:
            yield from _paths(child, mine or {}, step)


def _join(path: str, name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind != "f":
        item = json.loads(rest)
        shown = ",".join(f"{key}={json.dumps(value)}" for key, value in item.items()) if kind == "k" else rest
        return f"{path}[{shown}]"
    if not rest.replace("-", "").replace("_", "").isalnum():
        return f'{path}["{rest}"]'
    return f"{path}.{rest}" if path else rest


def _marks(metadata: Mapping[str, Any], kind: str, ours: Tree) -> Iterator[str]:
    claimed = (ours.get("f:metadata") or {}).get(f"f:{kind}") or {}
    found = metadata.get(kind) or {}
    for name in MARKS[kind]:
        is_set = found.get(name) == "Helm" if name == MANAGED_BY else name in found
        if is_set and f"f:{name}" not in claimed:
            yield name


def _is_mark(path: str) -> bool:
    return any(path == f'metadata.{kind}["{name}"]' for kind, found in MARKS.items() for name in found)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
