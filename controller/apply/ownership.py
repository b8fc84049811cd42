"""Who owns an object, what that means for an apply, and which objects may be deleted (rule 5; README.md). Pure.

An object is ours if it has our label, our UID as an annotation and, where its kind carries one, our controller
reference. A BundleDeployment may delete those of its objects that a kept revision names. Marks alone prove nothing: any
client that may write an object can write label, annotation, owner reference and field manager, and would borrow the
rights of the controller or the account. A stray that has all marks is reported and left alone, unless a revision named
it that is retired or deleted: then the BundleDeployment had it, and has it again. Without a kept revision nothing is
pruned or torn down except by the garbage collector.

Not here: reading an object before its first apply (requests.py), adopting (sender.py) and releasing (removal.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rukpak.api import names
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.content.digests import digest_of_json
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.configuration import User
from rukpak.controller.kube.resources import GroupVersionKind
from rukpak.controller.observe.records import BEFORE_FIRST_APPLY, RESOURCE_POLICY, Record, key_of

API_VERSION = f"{names.GROUP}/v1alpha2"

CRD, NAMESPACE = ("apiextensions.k8s.io", "CustomResourceDefinition"), ("", "Namespace")
DATA_KINDS = frozenset({CRD, NAMESPACE, ("", "PersistentVolumeClaim"), ("", "PersistentVolume")})
"""Kinds whose deletion loses data or other objects: the garbage collector must not delete them (rule 5)."""
LEFT_BYTES = 256 * 1024
"""Size of the names of left objects in a revision: they share a Secret of 1 MiB with a chunk of 512 KiB."""
PAST_BYTES = 64 * 1024
"""Size of the names of objects that earlier revisions had, in the same Secret."""
MORE = "*"
"""Stands for the names if they are too many: the revisions that contain the objects are kept then."""
_DATA = frozenset({CRD, ("", "PersistentVolumeClaim")})
Exists = Callable[[str, str], bool]
"""Whether a BundleDeployment with a name and UID exists."""


class Situation(Enum):
    """The relation of an object to the BundleDeployment that applies it."""

    ABSENT = "absent"
    """Apply without force; a 409 means that another client was faster."""
    OURS = "ours"
    TAKE_BACK = "take back"
    """It was ours: apply, whatever collisionProtection says."""
    ADOPT = "adopt"
    """It is another owner's or has none, and the user opted in: apply at the judged resourceVersion."""
    TAKE_OVER = "take over"
    """It belongs to a BundleDeployment that `spec.takeOver` names: apply, with its managedFields entry as ours."""
    USED = "used"
    """A Namespace that is not ours, and that the user does not want adopted: not modified."""
    COLLISION = "collision"
    """Refused."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The BundleDeployment that applies."""

    name: str
    uid: str
    orphan: bool = field(default=False, kw_only=True)
    """Whether its deletionPolicy is Orphan: its objects have no ownerReference, and are kept when it is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of `judge`."""

    situation: Situation
    owner: str = ""
    """Its owner if not ours, for messages: `Helm release "x"`; empty if it has none."""
    problem: str = ""
    """Why it may not be applied, and what to do."""
    evicts: bool = False
    """Whether another controller reference must be removed first: two of them are a 422."""
    handed_to: str = ""
    """The BundleDeployment that has taken it over from its owner; empty: none has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Giver:
    """A BundleDeployment that `spec.takeOver` names."""

    owner: Owner
    user: User | None
    """The account that it applies objects with; None: the controller."""
    hindrance: str = ""
    """Why nothing is taken from it now, and what to do; empty: it is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """The BundleDeployments from which and to which objects of one may pass (`spec.takeOver`)."""

    givers: Mapping[str, Giver] = field(default_factory=dict)
    """Those that exist, by name."""
    takers: Collection[str] = ()
    """Those that are known to name it."""
    takes: Exists = lambda _name, _uid: False
    """Whether a BundleDeployment with a name and UID exists and names it."""

    def giver_of(self, record: Record) -> Giver | None:
        """Return the giver that has an object, by all its marks."""
        giver = self.givers.get(record.owner)
        return giver if giver and has_all_marks(record, giver.owner) else None


NO_HAND_OVER = HandOver()


def judge(  # noqa: PLR0911 - one rule each
    record: Record | None,
    owner: Owner,
    *,
    exists: Exists,
    collision_protection: str,
    carries_reference: bool,
    hand_over: HandOver = NO_HAND_OVER,
) -> Judgement:
    """Decide who owns an object and what may be done with it; the first matching rule of README.md, Ownership, counts.

    Args:
        record: the object as it was last seen; None if it does not exist.
        owner: the BundleDeployment that applies it.
        exists: whether another BundleDeployment exists.
        collision_protection: Prevent, IfNoController or None.
        carries_reference: whether the object is applied with an owner reference.
        hand_over: from which and to which BundleDeployments it may pass.
    """
    if record is None:
        return Judgement(situation=Situation.ABSENT)
    if is_ours(record, owner, carries_reference=carries_reference):
        return Judgement(situation=Situation.OURS)
    if passed := _judge_passing(record, owner, hand_over):
        return passed
    evicts = record.controller_uid not in ("", owner.uid)
    # The group counts: Fleet has a kind of the same name.
    is_deployments = evicts and (record.controller_group, record.controller_kind) == (names.GROUP, names.KIND)
    is_stale = is_deployments and record.controller_name == owner.name and not exists(owner.name, record.controller_uid)
    is_rivals = record.owner not in ("", owner.name) and exists(record.owner, record.owner_uid)
    was_ours = record.released_from == owner.name or was_applied(record, owner)
    if was_ours and (is_stale or not evicts) and not is_rivals:
        return Judgement(situation=Situation.TAKE_BACK, evicts=evicts)
    if evicts:
        claimant = f'{record.controller_kind} "{record.controller_name}"'
        deployment = record.controller_name if is_deployments else ""
    else:
        deployment = record.owner if is_rivals else ""
        claimant = f'{names.KIND} "{deployment}"' if is_rivals else record.marks
    may_adopt = collision_protection == "None" or (collision_protection == "IfNoController" and not claimant)
    # Bundles may share a Namespace: if each of them took it from the other, that would never end.
    if record.key[:2] == NAMESPACE and (evicts or is_rivals or not may_adopt):
        return Judgement(situation=Situation.USED)
    if may_adopt:
        return Judgement(situation=Situation.ADOPT, owner=claimant, evicts=evicts)
    problem = _describe_collision(claimant, deployment)
    return Judgement(situation=Situation.COLLISION, owner=claimant, problem=problem, evicts=evicts)


def _judge_passing(record: Record, owner: Owner, hand_over: HandOver) -> Judgement | None:
    if record.owner in ("", owner.name):
        return None
    giver, claimant = hand_over.giver_of(record), f'{names.KIND} "{record.owner}"'
    handed_to = record.owner if hand_over.takes(record.owner, record.owner_uid) else ""
    if giver and not giver.hindrance:
        return Judgement(situation=Situation.TAKE_OVER, owner=claimant, handed_to=handed_to)
    if giver:
        problem = f"belongs to {claimant}, {giver.hindrance}"
    elif handed_to:
        problem = (
            f"was handed over to {claimant}; remove it from this bundle or delete this {names.KIND}, or "
            f"to take it back, pause {claimant} and name it in spec.takeOver"
        )
    else:
        return None
    return Judgement(situation=Situation.COLLISION, owner=claimant, problem=problem, handed_to=handed_to)


def is_changing_hands(record: Record | None, hand_over: HandOver) -> bool:
    """Whether a taker has begun to take an object over: its entry is the taker's, and its marks are not yet."""
    takers = {names.field_manager(taker) for taker in hand_over.takers}
    return record is not None and not takers.isdisjoint(record.co_managers)


def is_ours(record: Record, owner: Owner, *, carries_reference: bool) -> bool:
    """Whether an object has every mark of an owner: operators copy labels to children, but not the others."""
    if (record.owner, record.owner_uid) != (owner.name, owner.uid):
        return False
    return record.controller_uid == owner.uid or not carries_reference


def has_all_marks(record: Record, owner: Owner) -> bool:
    """Whether an observed object is an owner's, as far as it shows itself whether it carries a reference."""
    return is_ours(record, owner, carries_reference=not loses_reference(record, orphan=owner.orphan))


def needs_mark(record: Record, owner: Owner, *, evicts: bool) -> bool:
    """Whether an object must be marked as ours to take back before it is applied, since one write cannot do it all.

    `evicts`: another controller reference must be removed first.
    """
    ours = (names.field_manager(owner.name), names.initial_field_manager(owner.name))
    is_shared = record.wiped or any(manager not in ours for manager in record.co_managers)
    is_passed_on = record.passed_on and not was_applied(record, owner)
    return evicts or is_passed_on or (is_shared and record.released_from != owner.name)


def was_applied(record: Record, owner: Owner) -> bool:
    """Whether an object that is taken back was the owner's: what people have added to it since then stays."""
    is_its_own = owner.uid in (record.owner_uid, record.controller_uid)
    return is_its_own or (record.owner == owner.name and bool(record.applied_digest))


def is_unfinished(record: Record, *, leaves: bool) -> bool:
    """Whether an object of ours still has the mark of its adoption, or entries that our apply replaces.

    Args:
        record: of an object that is ours.
        leaves: whether it has ignored fields, which the initial manager keeps.
    """
    stays = (manager for manager in record.co_managers if is_always_replaced(manager, record.owner, leaves=leaves))
    return bool(record.released_from) or any(stays)


def is_always_replaced(manager: str, owner: str, *, leaves: bool) -> bool:
    """Whether the entry of a manager in `Record.co_managers` is removed also from an object that was not adopted."""
    if manager.startswith(names.initial_field_manager("")):
        return manager != names.initial_field_manager(owner) or not leaves
    # That of another BundleDeployment is left by a hand-over that was interrupted and given up.
    return manager == BEFORE_FIRST_APPLY or manager.startswith(names.field_manager(""))


def carries_owner_reference(manifest: Mapping[str, Any], *, orphan: bool) -> bool:
    """Whether an object is applied with a controller reference; `orphan`: the deletionPolicy is Orphan."""
    return not orphan and key_of(manifest)[:2] not in DATA_KINDS and not is_kept(manifest)


def loses_reference(record: Record, *, orphan: bool) -> bool:
    """Whether an observed object must have no controller reference of ours (rule 5)."""
    return orphan or record.key[:2] in DATA_KINDS or is_marked_to_stay(record)


def is_marked_to_stay(record: Record) -> bool:
    """Whether an observed object is marked to be kept; see `is_kept`."""
    return _says_keep(record.resource_policy, record.prune)


def is_kept(manifest: Mapping[str, Any]) -> bool:
    """Whether the bundle marks an object to be kept after its removal, with Helm's annotation or ours."""
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return _says_keep(str(annotations.get(RESOURCE_POLICY, "")), annotations.get(names.PRUNE))


def _says_keep(resource_policy: str, prune: object) -> bool:
    # Helm compares its value this loosely: pkg/kube/resource_policy.go
    return resource_policy.strip().lower() == "keep" or prune == "false"


def make_body(manifest: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
    """Return an object as it is sent: with our label, annotations and, where it carries one, controller reference.

    Args:
        manifest: an applicable object (controller/formats/README.md).
        owner: the BundleDeployment.
    """
    references = [_reference(owner)] if carries_owner_reference(manifest, orphan=owner.orphan) else []
    return add_marks(manifest, owner, {names.OWNER_UID: owner.uid}, references)


def add_marks(
    manifest: Mapping[str, Any], owner: Owner, annotations: Mapping[str, str], references: Sequence[Any] = ()
) -> dict[str, Any]:
    """Return an object with our label, these annotations and owner references, and the digest of all of it."""
    metadata = dict(manifest["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), names.OWNER_LABEL: owner.name}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    if references:
        metadata["ownerReferences"] = references
    body = {**manifest, "metadata": metadata}
    metadata["annotations"][names.APPLIED_DIGEST] = applied_digest(body)
    return body


def applied_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of an object as it is sent, without the annotation that holds it."""
    metadata = dict(body["metadata"])
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {name: value for name, value in annotations.items() if name != names.APPLIED_DIGEST}
    return f"v1:{digest_of_json({**body, 'metadata': metadata})}"


def _reference(owner: Owner) -> dict[str, Any]:
    # No blockOwnerDeletion: where OwnerReferencesPermissionEnforcement is on, it costs tenants a 403.
    return {"apiVersion": API_VERSION, "kind": names.KIND, "name": owner.name, "uid": owner.uid, "controller": True}


def _describe_collision(claimant: str, deployment: str) -> str:
    if deployment:  # with collisionProtection None in both of them, each would keep taking it from the other
        return (
            f"already exists and belongs to {claimant}; remove it from one of the two bundles, or hand it over: "
            f"pause {deployment} and name it in spec.takeOver"
        )
    if claimant:
        return (
            f"already exists and belongs to {claimant}; to take it over, have it no longer managed there, without "
            "deleting it, and set spec.collisionProtection to None"
        )
    return "already exists; set spec.collisionProtection to IfNoController to adopt it, or delete it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionObject:
    """What a kept revision says about an object."""

    kind: GroupVersionKind
    carries_reference: bool
    """Whether the garbage collector deletes it after its BundleDeployment."""


def name_objects(
    revisions: Iterable[Revision], is_namespaced: Callable[[GroupVersionKind], bool | None], *, orphan: bool
) -> dict[ObjectKey, RevisionObject]:
    """Return all objects that revisions name: their own, and those left over from dropped revisions.

    Args:
        revisions: of one BundleDeployment.
        is_namespaced: whether a kind is namespaced; None: the cluster does not serve it.
        orphan: whether the deletionPolicy is Orphan.
    """
    found: dict[ObjectKey, RevisionObject] = {}
    for revision in revisions:
        for kind, key in map(_parse, filter(MORE.__ne__, revision.terms.left)):
            found[key] = _named(kind, key, orphan=orphan)
        for manifest in revision.objects:
            key = place(manifest, revision.terms.install_namespace, is_namespaced)
            reference = carries_owner_reference(manifest, orphan=orphan)
            found[key] = RevisionObject(kind=GroupVersionKind.of(manifest), carries_reference=reference)
    return found


def place(
    manifest: Mapping[str, Any], namespace: str, is_namespaced: Callable[[GroupVersionKind], bool | None]
) -> ObjectKey:
    """Return the key of an object of a revision; `namespace` is used if its kind was not served at rendering."""
    key = key_of(manifest)
    if key.namespace or not is_namespaced(GroupVersionKind.of(manifest)):
        return key
    return key._replace(namespace=namespace)


def write_left(left: Mapping[ObjectKey, RevisionObject], most: int = LEFT_BYTES) -> tuple[str, ...]:
    """Return the names of objects left over from older revisions, as kept in `Terms.left`; `most` is in bytes."""
    texts = tuple(sorted(_write(named.kind, key) for key, named in left.items()))
    return texts if sum(len(text.encode()) + 4 for text in texts) <= most else (MORE,)


def name_past(
    revisions: Iterable[Revision], observed: Collection[ObjectKey], *, orphan: bool
) -> dict[ObjectKey, RevisionObject]:
    """Return the objects that exist again although the revisions that named them are retired or deleted.

    Args:
        revisions: of one BundleDeployment; their terms have the names.
        observed: the objects that carry its label.
        orphan: whether the deletionPolicy is Orphan.
    """
    parsed = (_parse(text) for revision in revisions for text in revision.terms.past)
    return {key: _named(kind, key, orphan=orphan) for kind, key in parsed if key in observed}


def past_keys(terms: Terms) -> frozenset[ObjectKey]:
    """Return the objects that revisions named which are retired or deleted."""
    return frozenset(_parse(text)[1] for text in terms.past)


def describe_past(
    older: Mapping[ObjectKey, RevisionObject],
    earlier: Iterable[str],
    own: Collection[ObjectKey],
    most: int = PAST_BYTES,
) -> tuple[str, ...]:
    """Return the names of objects that earlier revisions had, as kept in `Terms.past`: the newest, as many as fit.

    Args:
        older: what the revisions name that are about to be retired or deleted.
        earlier: what `Terms.past` of all kept revisions has.
        own: what the installed revision names itself.
        most: in bytes.
    """
    texts = [*(_write(named.kind, key) for key, named in sorted(older.items())), *earlier]
    found, size = [], 0
    for text in dict.fromkeys(texts):
        size += len(text.encode()) + 4
        if size > most:
            break
        if _parse(text)[1] not in own:
            found.append(text)
    return tuple(found)


def find_strays(observed: Mapping[ObjectKey, Record], *known: Collection[ObjectKey], owner: Owner) -> list[Record]:
    """Return the objects that have all marks of a BundleDeployment although none of its revisions names them.

    Args:
        observed: the objects that carry its label.
        known: the objects that its revisions name.
        owner: the BundleDeployment.
    """
    others = (observed[key] for key in set(observed).difference(*known))
    return [each for each in others if not each.deleting and has_all_marks(each, owner)]


def find_surplus(
    wanted: Collection[ObjectKey],
    older: Collection[ObjectKey],
    observed: Mapping[ObjectKey, Record],
    owner: Owner,
    *,
    deleting: bool = False,
) -> list[Record]:
    """Return our objects that only older revisions name.

    Args:
        wanted: the objects of the wanted revision.
        older: those of older revisions that may still exist.
        observed: the objects that carry our label.
        owner: the BundleDeployment.
        deleting: whether those that are being deleted are returned, instead of the others.
    """
    named = (observed[key] for key in older if key in observed and key not in wanted)
    return [each for each in named if each.deleting is deleting and has_all_marks(each, owner)]


def _named(kind: GroupVersionKind, key: ObjectKey, *, orphan: bool) -> RevisionObject:
    return RevisionObject(kind=kind, carries_reference=not orphan and key[:2] not in DATA_KINDS)


def _write(kind: GroupVersionKind, key: ObjectKey) -> str:
    return f"{kind} {key.namespace} {key.name}"


def _parse(text: str) -> tuple[GroupVersionKind, ObjectKey]:
    kind_text, namespace, name = text.split(" ", 2)
    kind = GroupVersionKind.parse(kind_text)
    return kind, ObjectKey(kind.group, kind.kind, namespace, name)


class Disposal(Enum):
    """What is done with an object that is no longer wanted."""

    DELETE = "delete"
    RELEASE = "release"
    DELETE_UNUSED = "delete unless in use"
    """CustomResourceDefinitions at teardown, Namespaces always."""


class RemovalCause(Enum):
    """Why objects are removed."""

    PRUNE = "prune"
    TEARDOWN = "teardown"
    ORPHAN = "teardown with deletionPolicy Orphan"


def dispose(record: Record, cause: RemovalCause) -> Disposal:
    """Decide what is done with an object of ours that is removed. Pure."""
    group_kind = record.key[:2]
    if cause is RemovalCause.ORPHAN or is_marked_to_stay(record):
        return Disposal.RELEASE
    if group_kind == NAMESPACE or (group_kind == CRD and cause is RemovalCause.TEARDOWN):
        return Disposal.DELETE_UNUSED
    if group_kind in _DATA and record.prune != "true":
        return Disposal.RELEASE
    return Disposal.DELETE
