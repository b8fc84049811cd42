"""The part of a managed object that is kept, and what has changed since a reader last looked.

A collection numbers its changes, and keeps the last one of each key. Each reader remembers the number up to which it
has read. Old entries are dropped: a reader that is too far behind, or was never there, looks at everything.

Invariants: a record is made from an object or its PartialObjectMetadata, whatever is missing there or of another type,
and keeps no reference to it. Strings that repeat across objects are interned.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from sys import intern
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rukpak.api import names
from rukpak.api.bounds import read_wave
from rukpak.controller.content.digests import canonical_json
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.untrusted import integer, mapping, mappings, sequence, strings, text, texts

Key = TypeVar("Key")
LONGEST = 4096
SHORTEST = 64
"""Keys in a journal, above which it is shortened, however large or small the collection is."""
UNREAD = -1
"""The number of a reader that has read nothing."""
if TYPE_CHECKING:
    from rukpak.controller.observe.health.stability import Reported, Rollout
    from rukpak.controller.observe.health.verdict import Verdict
Entry = Mapping[str, Any]
"""One of managedFields."""
Tree = Mapping[str, Any]
"""Fields of an entry: `f:` and a name, `k:` and the keys of an item as JSON, or `v:` and an item, with those below."""
RESOURCE_POLICY = "helm.sh/resource-policy"
BEFORE_FIRST_APPLY = "before-first-apply"
"""Field manager that the server invents when an object without entries is applied, as after all were wiped."""
REPLACED_MANAGERS = frozenset({"kubectl-client-side-apply", "helm", BEFORE_FIRST_APPLY})
"""Field managers whose Update entries would keep fields that an object's next owner drops."""
_PASSING_ON = re.compile(
    r"kubectl(?!-rollout$)(-.+)?|oc|helm[0-9]*|helm-controller|terraform-provider-helm.*|kustomize-controller|flux"
    r"|argocd-(application-)?controller|kapp(-server-side-apply)?|HashiCorp|Terraform"
    r"|pulumi-(resource-)?kubernetes(-.+)?|k9s|Lens|Mozilla"
)
"""Field managers by which people and tools have written an object before a BundleDeployment adopts it: what they have
set and the bundle lacks goes. `HashiCorp` is the provider of Terraform, and `Mozilla` a dashboard in a browser. Not the
time of `kubectl rollout restart`, whose removal would restart pods once more."""
_LONGEST_MANAGER = 128  # the API server refuses a longer name
_NAMESPACE = ("", "Namespace")
# Labels and annotations by which other tools claim an object, with the kind of owner. The first that is set counts.
_CLAIMS = (
    ("meta.helm.sh/release-name", "Helm release"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"),
    ("helm.toolkit.fluxcd.io/name", "Flux HelmRelease"),
    ("argocd.argoproj.io/tracking-id", "Argo CD application"),
    ("argocd.argoproj.io/instance", "Argo CD application"),
    ("kapp.k14s.io/app", "kapp app"),
    ("kapp.k14s.io/identity", "kapp app"),
    ("olm.operatorframework.io/owner-name", "OLM extension"),
    ("olm.owner", "OLM operator"),
    ("olm.managed", "OLM"),
)
# Field managers: the first is the HorizontalPodAutoscaler's.
_AUTOSCALERS = frozenset({"kube-controller-manager", "keda"})
# OLM marks the components of an operator with a label whose *key* contains its name: <prefix><package>.<namespace>
_OLM_COMPONENT = "operators.coreos.com/"
_UID, _NAME, _MOST = 128, 256, 64
"""Characters of what identifies something, characters of a name, and members of a list that are kept: anybody may write
longer ones, which then are those of nothing that we know."""
_TREE_LEVELS = 220
"""Depth of fields that are read: objects of bundles have less, and others must not exhaust the stack."""


class Journal(Generic[Key]):
    """The numbered changes of a collection. Not thread-safe.

    Args:
        first: the number of its first change.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        """The number from which on all changes are known."""
        self.end = first
        """The number of the next change: a reader that has read everything continues there."""
        self._last: dict[Key, int] = {}
        """The number of the last change of each key, the oldest first."""

    def add(self, key: Key, size: int) -> None:
        """Note that something has changed.

        Args:
            key: of what has changed.
            size: of the collection. A journal of more than twice as many keys would mostly have those of what is gone,
                and is not cheaper to read than the collection.
        """
        self._last.pop(key, None)  # to become the newest
        self._last[key] = self.end
        self.end += 1
        longest = min(max(SHORTEST, 2 * size), LONGEST)
        if len(self._last) > longest:
            self._last = dict(islice(self._last.items(), len(self._last) - longest // 2, None))
            self._first = next(iter(self._last.values()))

    def since(self, number: int) -> set[Key] | None:
        """Return what has changed from a number on; None if that is not known any more."""
        if number < self._first:
            return None
        newest_first = reversed(self._last.items())
        return {key for key, _ in takewhile(lambda entry: entry[1] >= number, newest_first)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A snapshot of the observed objects of an owner."""

    records: Mapping[ObjectKey, Record]
    number: int
    """Number of this snapshot in the journal of the objects."""
    since: int
    """Number of the previous one, as the reader gave it."""
    changed: Collection[ObjectKey] | None
    """Objects that have changed, appeared or disappeared in between; None if any may have."""


@dataclass(slots=True)
class Reader:
    """A reader of observed objects and of what is expected of them, each with a journal of its own."""

    seen: int = UNREAD
    """The number of the last snapshot of the objects."""
    expected: int = UNREAD

    def read(self, look: Look, expectations: Journal[ObjectKey]) -> set[ObjectKey] | None:
        """Return what has changed of both since the last call; None if anything may have."""
        touched = expectations.since(self.expected)
        changed = look.changed if look.since == self.seen else None
        self.seen, self.expected = look.number, expectations.end
        return None if touched is None or changed is None else touched.union(changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The latest known state of an object. A missing text is empty."""

    key: ObjectKey
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    owner: str = ""
    """Value of the owner label: the name of a BundleDeployment."""
    owner_uid: str = ""
    """The owner-uid annotation."""
    controller_group: str = ""
    controller_kind: str = ""
    controller_name: str = ""
    controller_uid: str = ""
    """These four: of the owner reference with `controller: true`."""
    applied_digest: str = ""
    released_from: str = ""
    entry_hash: str = ""
    """Hash of the managedFields entry of the owner's field manager; see `entry_hash`. If all entries were wiped, it is
    the generation instead, or the resourceVersion for kinds without generation."""
    co_managers: tuple[str, ...] = ()
    """Field managers whose entries must be removed if the object is adopted, and some of them at any time."""
    passed_on: bool = False
    """Whether it has entries whose fields are ours if it is adopted; see `is_passed_on`."""
    scaled_hash: str = ""
    """What `entry_hash` would be if no autoscaler had taken over spec.replicas; empty if none has."""
    applied_at: str = ""
    """Time of that entry, as in the object."""
    wiped: bool = False
    """There are no managedFields at all, so a missing entry does not mean drift (apply/README.md)."""
    marks: str = ""
    """Another tool that claims the object by labels or annotations: `Helm release "x"`."""
    prune: str = ""
    """The prune annotation: "true", "false" or empty."""
    resource_policy: str = ""
    """Helm's annotation of that name: "keep" or empty."""
    wave: int = 0
    """The wave annotation, 0 if it is none: objects of higher waves are deleted first."""
    is_hook: bool = False
    """It was created as a hook, whose end shows in its status only."""
    verdict: Verdict | None = None
    """Health; None for kinds that are healthy by existence."""
    labels: tuple[tuple[str, str], ...] = ()
    """For a Namespace only: an existing one may lack labels of the bundle."""
    annotations: tuple[tuple[str, str], ...] = ()
    """For a Namespace only."""
    pods: str = ""
    """Label selector of the pods that may explain why it is not healthy; empty if it has none."""
    rollout: Rollout | None = None
    """For a workload whose pods have to stay."""
    reported: Reported | None = None
    """What tells whether its status is about its spec, if the object does not say that."""
    outdated: bool = False
    """Whether its status is older than its spec."""
    falls: int = 0
    """How often it has been seen to become unhealthy at an unchanged spec, also for a moment between two passes."""

    @property
    def namespace(self) -> str:
        """Namespace of the key, for a cache of records."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """Name of the key, likewise."""
        return self.key.name


def key_of(manifest: Mapping[str, Any]) -> ObjectKey:
    """Return the key of an object that has its apiVersion and kind."""
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    return _key(group, text(manifest, "kind"), mapping(manifest, "metadata"))


def project(
    manifest: Mapping[str, Any], group: str, kind: str, verdict: Verdict | None = None, pods: str = ""
) -> Record:
    """Return the record of an object, or of its metadata.

    Args:
        manifest: from the API server; items of a list have no apiVersion and kind, hence the next two.
        group: API group; empty for the core group.
        kind: of the object, not PartialObjectMetadata.
        verdict: its health, if the kind has a rule.
        pods: label selector of its pods, if they may explain the verdict.
    """
    metadata = mapping(manifest, "metadata")
    labels, annotations = strings(metadata, "labels"), strings(metadata, "annotations")
    controller = next((each for each in mappings(metadata, "ownerReferences") if each.get("controller")), {})
    owner, entries = labels.get(names.OWNER_LABEL, ""), entries_of(manifest)
    entry = find_entry(entries, names.field_manager(owner)) if owner else None
    wiped, others = not entries, (each for each in entries if is_of_another_owner(each, owner))
    return Record(
        key=_key(group, kind, metadata),
        uid=text(metadata.get("uid"))[:_UID],
        resource_version=text(metadata.get("resourceVersion")),
        generation=integer(metadata.get("generation")) or 0,
        deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=tuple(intern(each[:_NAME]) for each in texts(metadata.get("finalizers"))[:_MOST]),
        owner=intern(owner),
        owner_uid=intern(annotations.get(names.OWNER_UID, "")[:_UID]),
        controller_group=intern(text(controller.get("apiVersion")).rpartition("/")[0]),
        controller_kind=intern(text(controller.get("kind"))),
        controller_name=intern(text(controller.get("name"))[:_NAME]),
        controller_uid=intern(text(controller.get("uid"))[:_UID]),
        applied_digest=annotations.get(names.APPLIED_DIGEST, "")[:_UID],
        released_from=intern(annotations.get(names.RELEASED_FROM, "")[:_NAME]),
        entry_hash=_wiped_state(metadata) if wiped and owner else entry_hash(entry),
        co_managers=tuple(intern(each["manager"]) for each in islice(others, _MOST)),
        passed_on=any(map(is_passed_on, entries)),
        scaled_hash=_scaled_hash(entries, entry),
        applied_at=intern(text(entry, "time")),
        wiped=wiped,
        marks=intern(_marks(labels, annotations)),
        prune=intern(annotations.get(names.PRUNE, "")[:_UID]),
        resource_policy=intern(annotations.get(RESOURCE_POLICY, "")[:_UID]),
        wave=read_wave(annotations.get(names.WAVE, "")) or 0,
        is_hook=names.HOOK_RUN in annotations,
        labels=tuple(sorted(labels.items())) if (group, kind) == _NAMESPACE else (),
        annotations=tuple(sorted(annotations.items())) if (group, kind) == _NAMESPACE else (),
        verdict=verdict,
        pods=pods,
    )


def entries_of(manifest: Mapping[str, Any]) -> list[Entry]:
    """Return the managedFields of an object, without what no entry can be: each has a manager, and is a mapping."""
    entries = sequence(manifest, "metadata", "managedFields")
    return [entry for entry in entries if entry.__class__ is dict and entry.get("manager", "").__class__ is str]


def entry_of(manifest: Mapping[str, Any], manager: str) -> Entry | None:
    """Return the managedFields entry of a manager for applies to the object itself, not to a subresource."""
    return find_entry(entries_of(manifest), manager)


def find_entry(entries: Iterable[Entry], manager: str) -> Entry | None:
    """Return the entry of a manager among those of an object, as `entry_of` does."""
    ours = (each for each in entries if each.get("manager") == manager and each.get("operation") == "Apply")
    return next((entry for entry in ours if not entry.get("subresource")), None)


def new_entry(manager: str, api_version: str) -> Entry:
    """Return an entry, without fields, of a manager that has not applied the object yet."""
    return {"manager": manager, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1"}


def fields_of(entry: Entry | None) -> Tree:
    """Return the fields of an entry, without those whose names or values no fields have, and as deep as ours may be."""
    return _without_nonsense(mapping(entry, "fieldsV1"))


def is_of_another_owner(entry: Entry, owner: str) -> bool:
    """Whether a managedFields entry would keep fields that the BundleDeployment `owner` drops once it has the object.

    Entries of its own managers are not, except that of the initial one, which it may need.
    """
    manager, operation = entry.get("manager", ""), entry.get("operation")
    if manager == names.field_manager(owner) or entry.get("subresource"):
        return False
    if manager.startswith(names.initial_field_manager("")):
        return True
    is_bundle = operation == "Apply" and manager.startswith(names.field_manager(""))
    return is_bundle or (operation == "Update" and manager in REPLACED_MANAGERS)


def is_passed_on(entry: Entry) -> bool:
    """Whether the fields of a managedFields entry are the BundleDeployment's once it adopts the object.

    Not what an autoscaler, an injector or another controller has written, nor an entry that the server has made of
    fields of unknown managers.
    """
    return not entry.get("subresource") and _PASSING_ON.fullmatch(entry.get("manager", "")) is not None


def pass_on(live: Mapping[str, Any], managers: Container[str]) -> Mapping[str, Any]:
    """Return an object whose entries of some managers have names by which `is_passed_on` knows them.

    The same object if it has none.
    """
    entries = entries_of(live)
    renamed = [
        {**entry, "manager": f"kubectl-{entry['manager']}"[:_LONGEST_MANAGER]}
        if entry.get("manager") in managers and not entry.get("subresource") and not is_passed_on(entry)
        else entry
        for entry in entries
    ]
    return live if renamed == entries else {**live, "metadata": {**live["metadata"], "managedFields": renamed}}


def entry_hash(entry: Entry | None) -> str:
    """Return the sha256 of the fields in an entry, in hex; empty for no entry.

    It covers apiVersion and fieldsV1 in any order of keys, not the time, which does not change when others take over
    fields.
    """
    if entry is None:
        return ""
    fields = mapping(entry, "fieldsV1")
    return hashlib.sha256(canonical_json([entry.get("apiVersion", ""), fields])).hexdigest()


def is_scaled(entries: Iterable[Entry]) -> bool:
    """Return whether an autoscaler has set spec.replicas of an object with these entries; `kubectl scale` is none."""
    return any(
        entry.get("subresource") == "scale"
        and entry.get("manager") in _AUTOSCALERS
        and "f:replicas" in mapping(entry, "fieldsV1", "f:spec")
        for entry in entries
    )


def _wiped_state(metadata: Mapping[str, Any]) -> str:
    # A write of status does not change the generation, so an operator that wipes with each does not cause a comparison.
    generation = metadata.get("generation")
    return f"generation {generation}" if generation else f"version {metadata.get('resourceVersion', '')}"


def _scaled_hash(entries: Iterable[Entry], entry: Entry | None) -> str:
    fields = mapping(entry, "fieldsV1")
    spec = mapping(fields, "f:spec")
    if entry is None or "f:replicas" in spec or not is_scaled(entries):
        return ""
    return entry_hash({**entry, "fieldsV1": {**fields, "f:spec": {**spec, "f:replicas": {}}}})


def _key(group: str, kind: str, metadata: Mapping[str, Any]) -> ObjectKey:
    namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
    return ObjectKey(intern(group), intern(kind), intern(namespace), name)


def _without_nonsense(fields: Tree, levels: int = _TREE_LEVELS) -> Tree:
    if not levels:
        return {}
    found = {name: child for name, child in fields.items() if isinstance(child, dict) and _is_step(name)}
    return {name: _without_nonsense(child, levels - 1) for name, child in found.items()}


def _is_step(name: str) -> bool:
    if not name.startswith(("k:", "v:")):
        return True
    try:
        item = json.loads(name[2:])
    except (ValueError, RecursionError):
        return False
    return name[0] == "v" or isinstance(item, dict)


def _marks(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for key, owner in _CLAIMS:
        value = (annotations.get(key) or labels.get(key) or "")[:_NAME]
        if value:
            return owner if owner == "OLM" else f'{owner} "{value}"'
    component = next((key for key in labels if key.startswith(_OLM_COMPONENT)), "")
    return f'OLM operator "{component.removeprefix(_OLM_COMPONENT)}"' if component else ""
