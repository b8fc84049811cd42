"""Who owns an object, what that means for an apply, and which marks ours carry (rule 5; README.md). Pure.

An object is ours if it has our label, our UID as an annotation and, where its kind carries one, our controller
reference. Not here: reading an object before its first apply, adopting and releasing (object/).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from api import names
from controller.content.digests import digest_of_json
from controller.kube.configuration import User
from controller.observe.records import BEFORE_FIRST_APPLY, RESOURCE_POLICY, ObjectKey, Record, key_of

API_VERSION = f"{names.GROUP}/v1alpha2"

DATA_KINDS = frozenset(
    {
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("", "PersistentVolumeClaim"),
        ("", "PersistentVolume"),
        ("", "Namespace"),
    }
)
"""Kinds whose deletion loses data or other objects: the garbage collector must not delete them (rule 5)."""


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
    shard: str = ""
    """Of its controller; empty: the default one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of `judge`."""

    situation: Situation
    owner: str = ""
    """Its owner if not ours, for messages: `Helm release "x"`; empty if it has none."""
    message: str = ""
    """Of a collision."""
    evicts: bool = False
    """Whether another controller reference must be removed first: two of them are a 422."""
    handed_to: str = ""
    """The BundleDeployment that has taken it over from its owner; empty: none has."""


Exists = Callable[[str, str], bool]
"""Whether a BundleDeployment with a name and UID exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Giver:
    """A BundleDeployment that `spec.takeOver` names."""

    owner: Owner
    orphan: bool
    """Whether its deletionPolicy is Orphan."""
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
    """Whether a BundleDeployment with a name and UID exists and names it, in whatever shard."""

    def giver_of(self, record: Record) -> Giver | None:
        """Return the giver that has an object, by all its marks."""
        giver = self.givers.get(record.owner)
        if giver is None:
            return None
        carries_reference = not loses_reference(record, orphan=giver.orphan)
        return giver if is_ours(record, giver.owner, carries_reference=carries_reference) else None


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
    if _was_ours(record, owner, exists):
        return Judgement(situation=Situation.TAKE_BACK, evicts=evicts)
    deployment = _other_deployment(record, owner, exists)
    claimant = _controller(record, owner) or (f'{names.KIND} "{deployment}"' if deployment else record.marks)
    may_adopt = _may_adopt(claimant, collision_protection)
    # Bundles may share a Namespace: if each of them took it from the other, that would never end.
    is_others = bool(deployment or _controller(record, owner))
    if (record.key.group, record.key.kind) == ("", "Namespace") and (is_others or not may_adopt):
        return Judgement(situation=Situation.USED)
    if may_adopt:
        return Judgement(situation=Situation.ADOPT, owner=claimant, evicts=evicts)
    message = _collision_message(record.key, claimant, deployment)
    return Judgement(situation=Situation.COLLISION, owner=claimant, message=message, evicts=evicts)


def _judge_passing(record: Record, owner: Owner, hand_over: HandOver) -> Judgement | None:
    """Decide about an object that passes from a giver, or has passed to a taker; None: it does neither."""
    if record.owner in ("", owner.name):
        return None
    giver, claimant = hand_over.giver_of(record), f'{names.KIND} "{record.owner}"'
    handed_to = record.owner if hand_over.takes(record.owner, record.owner_uid) else ""
    if giver and not giver.hindrance:
        return Judgement(situation=Situation.TAKE_OVER, owner=claimant, handed_to=handed_to)
    if giver:
        message = f"{record.key}: belongs to {claimant}, {giver.hindrance}"
    elif handed_to:
        message = (
            f"{record.key}: was handed over to {claimant}; remove it from this bundle or delete this {names.KIND}, or "
            f"to take it back, pause {claimant} and name it in spec.takeOver"
        )
    else:
        return None
    return Judgement(situation=Situation.COLLISION, owner=claimant, message=message, handed_to=handed_to)


def is_changing_hands(record: Record | None, hand_over: HandOver) -> bool:
    """Whether a taker has begun to take an object over: its entry is the taker's, and its marks are not yet."""
    takers = {names.field_manager(taker) for taker in hand_over.takers}
    return record is not None and not takers.isdisjoint(record.co_managers)


def is_ours(record: Record, owner: Owner, *, carries_reference: bool) -> bool:
    """Whether an object has every mark of an owner: operators copy labels to children, but not the others."""
    if (record.owner, record.owner_uid) != (owner.name, owner.uid):
        return False
    return record.controller_uid == owner.uid or not carries_reference


def needs_mark(record: Record, owner: Owner, *, evicts: bool) -> bool:
    """Whether an object must be marked as ours to take back before it is applied, since one write cannot do it all.

    `evicts`: another controller reference must be removed first.
    """
    ours = (names.field_manager(owner.name), names.initial_field_manager(owner.name))
    is_shared = record.wiped or any(manager not in ours for manager in record.co_managers)
    return evicts or (is_shared and record.released_from != owner.name)


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
    key = key_of(manifest)
    return not orphan and (key.group, key.kind) not in DATA_KINDS and not is_kept(manifest)


def loses_reference(record: Record, *, orphan: bool) -> bool:
    """Whether an observed object must have no controller reference of ours (rule 5)."""
    return orphan or (record.key.group, record.key.kind) in DATA_KINDS or is_marked_to_stay(record)


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


def make_body(manifest: Mapping[str, Any], owner: Owner, *, orphan: bool) -> dict[str, Any]:
    """Return an object as it is sent: with our label, annotations and, where it carries one, controller reference.

    Args:
        manifest: an applicable object (controller/formats/README.md).
        owner: the BundleDeployment.
        orphan: whether the deletionPolicy is Orphan.
    """
    metadata = dict(manifest["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), names.OWNER_LABEL: owner.name}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), names.OWNER_UID: owner.uid}
    if carries_owner_reference(manifest, orphan=orphan):
        metadata["ownerReferences"] = [_reference(owner)]
    digest = applied_digest({**manifest, "metadata": metadata})
    metadata["annotations"] = {**metadata["annotations"], names.APPLIED_DIGEST: digest}
    return {**manifest, "metadata": metadata}


def with_shard(body: dict[str, Any], owner: Owner) -> dict[str, Any]:
    """Return an object as it is sent, with the label of the shard of its owner, which no digest covers."""
    if not owner.shard:
        return body
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), names.OWNER_SHARD: owner.shard}
    return {**body, "metadata": {**metadata, "labels": labels}}


def applied_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of an object as it is sent, without the annotation that holds it."""
    metadata = dict(body["metadata"])
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {name: value for name, value in annotations.items() if name != names.APPLIED_DIGEST}
    return f"v1:{digest_of_json({**body, 'metadata': metadata})}"


def _reference(owner: Owner) -> dict[str, Any]:
    # No blockOwnerDeletion: where OwnerReferencesPermissionEnforcement is on, it costs tenants a 403.
    return {"apiVersion": API_VERSION, "kind": names.KIND, "name": owner.name, "uid": owner.uid, "controller": True}


def _was_ours(record: Record, owner: Owner, exists: Exists) -> bool:
    """Whether it has lost some of our marks: released, restored from a backup, or a label was removed by hand."""
    if not _is_free(record, owner, exists):
        return False
    has_our_uid = owner.uid in (record.owner_uid, record.controller_uid)
    return (
        has_our_uid
        or record.released_from == owner.name
        or (record.owner == owner.name and bool(record.applied_digest))
    )


def _is_free(record: Record, owner: Owner, exists: Exists) -> bool:
    """Whether no other object controls it and no other BundleDeployment owns it."""
    stale = (
        _is_deployment(record)
        and record.controller_name == owner.name
        and not exists(owner.name, record.controller_uid)
    )
    return (stale or not _controller(record, owner)) and not _has_other_owner(record, owner, exists)


def _is_deployment(record: Record) -> bool:
    # The group counts: Fleet has a kind of the same name.
    return (record.controller_group, record.controller_kind) == (names.GROUP, names.KIND)


def _controller(record: Record, owner: Owner) -> str:
    """Describe the object that controls it, unless that is the owner."""
    if record.controller_uid in ("", owner.uid):
        return ""
    return f'{record.controller_kind} "{record.controller_name}"'


def _has_other_owner(record: Record, owner: Owner, exists: Exists) -> bool:
    """Whether another BundleDeployment owns it, also without a controller reference."""
    return record.owner not in ("", owner.name) and exists(record.owner, record.owner_uid)


def _other_deployment(record: Record, owner: Owner, exists: Exists) -> str:
    """Return the name of the other BundleDeployment that controls or owns it; empty: there is none."""
    if record.controller_uid not in ("", owner.uid):
        return record.controller_name if _is_deployment(record) else ""
    return record.owner if _has_other_owner(record, owner, exists) else ""


def _may_adopt(claimant: str, collision_protection: str) -> bool:
    return collision_protection == "None" or (collision_protection == "IfNoController" and not claimant)


def _collision_message(key: ObjectKey, claimant: str, deployment: str) -> str:
    if deployment:  # with collisionProtection None in both of them, each would keep taking it from the other
        return (
            f"{key}: already exists and belongs to {claimant}; remove it from one of the two bundles, or hand it over: "
            f"pause {deployment} and name it in spec.takeOver"
        )
    if claimant:
        return (
            f"{key}: already exists and belongs to {claimant}; remove it there, or set spec.collisionProtection to None"
        )
    return f"{key}: already exists; delete it, or set spec.collisionProtection to IfNoController to adopt it"
