"""Objects: which documents are objects, what identifies one, where it has pods, and the error that lists problems.

`applicable.py` checks the other fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.manifests import Document
from rukpak.controller.untrusted import field, mapping, mappings, sequence, text

_API_VERSION = re.compile(r"[^/]+(?:/[^/]+)?").fullmatch
# A group is a DNS subdomain; a version, a kind and a namespace are DNS labels. Status relies on these lengths.
_LABEL_CHARACTERS = 63
_NAME_CHARACTERS = 253  # of RBAC objects, which have no limit, too: a name is repeated in each message about its object
_API_VERSION_CHARACTERS = 253 + 1 + _LABEL_CHARACTERS

# Groups that the API server itself serves. Listed, since custom groups may end in k8s.io, too
# (gateway.networking.k8s.io).
BUILT_IN_GROUPS = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)

_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
CONFIG_KINDS = ("ConfigMap", "Secret")
_REFERENCES = {
    "configMap": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
    "secret": "Secret",
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
}
"""Fields that refer to config, and its kind."""

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON."""


class ObjectKey(NamedTuple):
    """The identity of an object; without a version, since all versions of a kind are one object."""

    group: str
    kind: str
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    def __str__(self) -> str:
        """Return the form of messages: `Deployment foo/web`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def collect_objects(documents: Iterable[Document]) -> list[Object]:
    """Return the objects in documents, in order; Lists are expanded.

    Raises: BundleError (InvalidBundle) with file and line for documents that are not objects, and for duplicates.
    """
    result: list[Object] = []
    places: dict[ObjectKey, str] = {}
    problems: list[str] = []
    for place, path, value in _expand_all(documents):
        if problem := find_identity_problem(value):
            problems.append(f"{place}: {path}{problem}")
            continue
        identity = identify(value)
        if places.get(identity) == place:
            # In one List, or in one template: Helm does not say at which line of it a document begins.
            where = place if path else place.rpartition(":")[0]
            problems.append(f"{where}: {path}{identity}: defined more than once; remove one")
        elif identity in places:
            problems.append(f"{place}: {path}{identity}: already defined at {places[identity]}; remove one")
        places.setdefault(identity, place)
        result.append(value)
    refuse(problems)
    return result


def refuse(problems: Iterable[str], reason: Reason = Reason.INVALID_BUNDLE) -> None:
    """Raise the first problem, if there is one, and the number of others.

    Args:
        problems: that are only counted, so that a generator of very many needs no memory.
        reason: of the error.

    Raises: BundleError with the reason.
    """
    left = iter(problems)
    first = next(left, None)
    if first is not None:
        others = sum(1 for _ in left)
        raise BundleError(reason, first + (f" (and {others} more)" if others else ""))


def find_identity_problem(value: Any) -> str:
    """Return why a value has no valid identity, starting with a field path; empty if it has one."""
    if not isinstance(value, dict):
        return f"must be an object, not {describe_type(value)}; set apiVersion, kind and metadata.name"
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict):
        return f"metadata: must be a mapping, not {describe_type(metadata)}"
    return _find_bad_string(value, metadata) or _find_bad_segment(value, metadata)


def find_identity_problems(objects: Iterable[Any]) -> Iterator[str]:
    """Yield why values have no valid identity, each starting with its place: `objects[0]: kind: missing`."""
    for index, item in enumerate(objects):
        if problem := find_identity_problem(item):
            yield f"objects[{index}]: {problem}"


def identify(item: Mapping[str, Any]) -> ObjectKey:
    """Return the identity of an object that `find_identity_problem` accepts."""
    metadata = item["metadata"]
    return ObjectKey(group_of(item), item["kind"], metadata.get("namespace") or "", metadata["name"])


def group_of(item: Mapping[str, Any]) -> str:
    """Return the API group of an object; '' is the core group."""
    group, slash, _ = item["apiVersion"].partition("/")
    return group if slash else ""


def crd_specs(objects: Iterable[Object]) -> Iterator[Mapping[str, Any]]:
    """Yield the spec of each CRD among objects, unchecked."""
    for item in objects:
        if item["kind"] == "CustomResourceDefinition" and group_of(item) == "apiextensions.k8s.io":
            yield mapping(item, "spec")


def pod_template_path(group: str, kind: str) -> tuple[str, ...] | None:
    """Return where objects of a kind have their pod template: () for a Pod, None if its kind has none."""
    return _TEMPLATES.get((group, kind))


def find_pod_template(item: Object) -> tuple[str, Mapping[str, Any]] | None:
    """Return the path and the value of the pod template of an object; None if its kind has none."""
    path = pod_template_path(group_of(item), item["kind"])
    if path is None:
        return None
    value = field(item, *path)
    return (".".join(path), value) if isinstance(value, dict) else None


def list_containers(pod_spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the value of every container of a pod."""
    for name in _CONTAINER_LISTS:
        for index, container in enumerate(sequence(pod_spec, name)):
            if isinstance(container, dict):
                yield f"{path}.{name}[{index}]", container


def list_references(pod_spec: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield kind and name of each ConfigMap and Secret that containers and volumes read, and whether it is optional.

    Not what only the kubelet and volume drivers read: credentials of registries and of storage.
    """
    for _, container in list_containers(pod_spec, ""):
        for variable in mappings(container, "env"):
            yield from _references_in(mapping(variable, "valueFrom"))
        for variables in mappings(container, "envFrom"):
            yield from _references_in(variables)
    for volume in mappings(pod_spec, "volumes"):
        yield from _references_in(volume, is_volume=True)
        for source in mappings(volume, "projected", "sources"):
            yield from _references_in(source)


def _references_in(value: Mapping[str, Any], *, is_volume: bool = False) -> Iterator[tuple[str, str, bool]]:
    for field_name, kind in _REFERENCES.items():
        reference = mapping(value, field_name)
        # Only the Secret of a volume is called secretName; in a projected one it is name.
        if name := text(reference, "secretName" if is_volume and kind == "Secret" else "name"):
            yield kind, name, reference.get("optional") is True


def drop_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without the fields that are null; nested ones remain."""
    return {key: item for key, item in value.items() if item is not None}


def describe_wrong_type(value: Any) -> str:
    """Return the problem of a value that should be a string, without the value: it may be a secret."""
    remedy = "" if isinstance(value, dict | list) else "; put it in quotes"
    return f"must be a string, not {describe_type(value)}{remedy}"


def describe_type(value: Any) -> str:
    """Return the JSON type of a value, with an article."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "a mapping"}
    return names.get(type(value), "null")


def _find_bad_string(value: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    identifying = {
        "apiVersion": value.get("apiVersion"),
        "kind": value.get("kind"),
        "metadata.name": metadata.get("name"),
    }
    for path, found in identifying.items():
        if found is None or found == "":
            generated = path == "metadata.name" and metadata.get("generateName")
            return f"{path}: missing" + ("; generateName is not supported, set metadata.name" if generated else "")
        if not isinstance(found, str):
            return f"{path}: {describe_wrong_type(found)}"
    namespace = metadata.get("namespace") or ""
    return "" if isinstance(namespace, str) else f"metadata.namespace: {describe_wrong_type(namespace)}"


def _find_bad_segment(value: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    # No client could request such an object.
    if not _API_VERSION(value["apiVersion"]):
        return "apiVersion: must be version or group/version; correct it"
    if "/" in value["kind"]:
        return 'kind: contains "/"; write the kind without its group'
    namespace = metadata.get("namespace") or ""
    for path, found, most in (
        ("apiVersion", value["apiVersion"], _API_VERSION_CHARACTERS),
        ("kind", value["kind"], _LABEL_CHARACTERS),
        ("metadata.namespace", namespace, _LABEL_CHARACTERS),
        ("metadata.name", metadata["name"], _NAME_CHARACTERS),
    ):
        if len(found) > most:
            return f"{path}: has {len(found)} characters, but Kubernetes allows {most}; shorten it"
    for name, segment in (("name", metadata["name"]), ("namespace", namespace)):
        if segment in (".", "..") or "/" in segment or "%" in segment:
            return f'metadata.{name}: {quote(segment)}: ".", "..", "/" and "%" are not allowed; rename it'
    return ""


def _expand_all(documents: Iterable[Document]) -> Iterator[tuple[str, str, Any]]:
    for document in documents:
        for path, value in _expand(document.value, ""):
            yield f"{document.file}:{document.line}", path and f"{path}: ", value


def _expand(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    items = _items_of_list(value)
    if items is None:
        yield path, value
        return
    for index, item in enumerate(items):
        yield from _expand(_inherit_kind(item, value), f"{path}{'.' * bool(path)}items[{index}]")


def _items_of_list(value: Any) -> list[Any] | None:
    # A kind that merely ends in List is none.
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List"):
        return None
    items = value.get("items")
    if isinstance(items, list):
        return items
    return [] if kind == "List" and items is None else None


def _inherit_kind(item: Any, parent: Mapping[str, Any]) -> Any:
    # As client-go derives it.
    if not isinstance(item, dict) or parent["kind"] == "List" or (item.get("kind") and item.get("apiVersion")):
        return item
    return {**item, "apiVersion": parent.get("apiVersion"), "kind": parent["kind"].removesuffix("List")}
