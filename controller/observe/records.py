"""What is kept of a managed object: as little as planning and status need, since there may be many thousands.

Invariants: a record is made from an object or its PartialObjectMetadata alike, whatever is missing or null there, and
holds no reference to it. Strings that repeat from object to object are interned.

Not here: watching (watches.py), which records are ours (apply/ownership.py), what a changed entry means
(apply/drift/comparison.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

from api import names
from controller.content.digests import canonical_json, digest_of_json

if TYPE_CHECKING:
    from controller.observe.health.verdict import Verdict

RESOURCE_POLICY = "helm.sh/resource-policy"
_NAMESPACE = ("", "Namespace")

# Who claims an object by a label or annotation: the key, and how its owner is called. The first that is there counts.
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
# OLM marks the components of an operator by a label whose *key* names it: operators.coreos.com/<package>.<namespace>
_OLM_COMPONENT = "operators.coreos.com/"


class ObjectKey(NamedTuple):
    """Which object: without a version, since all versions of a kind are one object."""

    group: str
    kind: str
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    def __str__(self) -> str:
        """Return it as messages show it: `Deployment foo/web`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One object as it was seen last. A text that is not there is empty."""

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
    """These four: the owner reference with `controller: true`."""
    applied_digest: str = ""
    released_from: str = ""
    entry_hash: str = ""
    """Of the managedFields entry of the owner's field manager; see `entry_hash`. Where all entries were wiped, nothing
    else tells one state from the next: then it is the generation, or for kinds that count none, the version."""
    scaled_hash: str = ""
    """What `entry_hash` would be if an autoscaler had not taken spec.replicas; empty if none has."""
    applied_at: str = ""
    """Time of that entry, as the server writes it."""
    wiped: bool = False
    """There are no managedFields at all, so that a missing entry says nothing about drift (apply/README.md)."""
    marks: str = ""
    """Who else claims the object by labels or annotations: `Helm release "x"`."""
    prune: str = ""
    """The prune annotation: "true", "false" or nothing."""
    resource_policy: str = ""
    """Helm's annotation of that name: "keep" or nothing."""
    is_hook: bool = False
    """It was made as a hook, which says only by its status that it has ended."""
    verdict: Verdict | None = None
    """Health; None for kinds that are healthy by existence."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of a Namespace alone: one that is used may lack some that the bundle wants."""
    pods: str = ""
    """Label selector of the pods that may tell why it is not healthy; empty where it is, or has none."""

    @property
    def namespace(self) -> str:
        """Of the key: what a cache of records asks for."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """Of the key, likewise."""
        return self.key.name


def key_of(manifest: Mapping[str, Any]) -> ObjectKey:
    """Return the key of an object that says its own apiVersion and kind."""
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    metadata = manifest.get("metadata") or {}
    return _key(group, manifest["kind"], metadata)


def project(
    manifest: Mapping[str, Any], group: str, kind: str, verdict: Verdict | None = None, pods: str = ""
) -> Record:
    """Return what is kept of an object, or of its metadata.

    Args:
        manifest: as the API server sent it; items of a list have no kind of their own, hence the next two.
        group: of the kind; empty for the core group.
        kind: of the object, not PartialObjectMetadata.
        verdict: its health, where the kind has a rule.
        pods: label selector of its pods, where they may tell more.
    """
    metadata = manifest.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    controller = _controller_of(metadata)
    owner = labels.get(names.OWNER_LABEL, "")
    entry = entry_of(manifest, names.field_manager(owner)) if owner else None
    wiped = not metadata.get("managedFields")
    return Record(
        key=_key(group, kind, metadata),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation") or 0,
        deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=tuple(intern(finalizer) for finalizer in metadata.get("finalizers") or ()),
        owner=intern(owner),
        owner_uid=intern(annotations.get(names.OWNER_UID, "")),
        controller_group=intern(str(controller.get("apiVersion", "")).rpartition("/")[0]),
        controller_kind=intern(controller.get("kind", "")),
        controller_name=intern(controller.get("name", "")),
        controller_uid=intern(controller.get("uid", "")),
        applied_digest=annotations.get(names.APPLIED_DIGEST, ""),
        released_from=intern(annotations.get(names.RELEASED_FROM, "")),
        entry_hash=_wiped_state(metadata) if wiped and owner else entry_hash(entry),
        scaled_hash=_scaled_hash(manifest, entry),
        applied_at=intern((entry or {}).get("time") or ""),
        wiped=wiped,
        marks=intern(_marks(labels, annotations)),
        prune=intern(annotations.get(names.PRUNE, "")),
        resource_policy=intern(annotations.get(RESOURCE_POLICY, "")),
        is_hook=names.HOOK_RUN in annotations,
        labels=tuple(sorted(labels.items())) if (group, kind) == _NAMESPACE else (),
        verdict=verdict,
        pods=pods,
    )


def entry_of(manifest: Mapping[str, Any], manager: str) -> dict[str, Any] | None:
    """Return the managedFields entry of an applier: its Apply entry for the object itself, not for a subresource."""
    entries: list[dict[str, Any]] = (manifest.get("metadata") or {}).get("managedFields") or []
    return next((entry for entry in entries if _is_apply_entry(entry, manager)), None)


def entry_hash(entry: Mapping[str, Any] | None) -> str:
    """Return the sha256 of what an entry claims, in hex; nothing for no entry.

    It covers apiVersion and fieldsV1 in any order of keys, and no time: that stands still when others take fields.
    """
    if entry is None:
        return ""
    return hashlib.sha256(canonical_json([entry.get("apiVersion", ""), entry.get("fieldsV1") or {}])).hexdigest()


def is_scaled(manifest: Mapping[str, Any]) -> bool:
    """Whether an autoscaler has set spec.replicas; `kubectl scale`, by the same subresource, is another manager."""
    entries = (manifest.get("metadata") or {}).get("managedFields") or ()
    return any(
        entry.get("subresource") == "scale"
        and entry.get("manager") in _AUTOSCALERS
        and "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
        for entry in entries
    )


def managed_state(records: Iterable[Record]) -> str:
    """Return the digest over all managed objects that `status.managedState` holds (rule 6).

    Equal for equal (kind, namespace, name, applied digest, entry hash), in whatever order the records come.
    """
    rows = sorted((*record.key, record.applied_digest, record.entry_hash) for record in records)
    return f"v1:{digest_of_json(rows)}"


def _wiped_state(metadata: Mapping[str, Any]) -> str:
    # A status that is written makes no generation: an operator that wipes so again and again is not compared each time.
    generation = metadata.get("generation")
    return f"generation {generation}" if generation else f"version {metadata.get('resourceVersion', '')}"


def _scaled_hash(manifest: Mapping[str, Any], entry: Mapping[str, Any] | None) -> str:
    fields = (entry or {}).get("fieldsV1") or {}
    spec = fields.get("f:spec") or {}
    if entry is None or "f:replicas" in spec or not is_scaled(manifest):
        return ""
    return entry_hash({**entry, "fieldsV1": {**fields, "f:spec": {**spec, "f:replicas": {}}}})


def _key(group: str, kind: str, metadata: Mapping[str, Any]) -> ObjectKey:
    namespace = metadata.get("namespace") or ""
    return ObjectKey(intern(group), intern(kind), intern(namespace), metadata.get("name") or "")


def _controller_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    references = metadata.get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})


def _is_apply_entry(entry: Mapping[str, Any], manager: str) -> bool:
    return entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")


def _marks(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for key, owner in _CLAIMS:
        value = annotations.get(key) or labels.get(key)
        if value:
            return owner if owner == "OLM" else f'{owner} "{value}"'
    component = next((key for key in labels if key.startswith(_OLM_COMPONENT)), "")
    return f'OLM operator "{component.removeprefix(_OLM_COMPONENT)}"' if component else ""
