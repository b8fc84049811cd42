"""The objects of a revision, prepared for comparison with the cluster, or with another revision. Pure.

How many objects another revision would change is found without the cluster: what drifts meanwhile is repaired in either
case, and the answer stays the same.

Packed targets are distributed over blocks by their keys, so that no index is needed, and serialized one by one in their
block.
"""

from __future__ import annotations

import marshal
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from rukpak.api import names
from rukpak.api.bounds import read_wave
from rukpak.api.v1alpha2.policies import HealthCheck, IgnoreRule
from rukpak.api.v1alpha2.status import STARTED_LENGTH, Changes
from rukpak.controller.apply.crd_changes import read_definition
from rukpak.controller.apply.drift import (
    NOTHING_IGNORED,
    REPLICAS,
    IgnoredFields,
    Path,
    find_autoscalers,
    find_ignored_fields,
    has_field,
    only,
    read_ignore_rules,
    united,
    without,
)
from rukpak.controller.apply.leftovers import drops
from rukpak.controller.apply.order import effective_waves
from rukpak.controller.apply.ownership import (
    CRD,
    Disposal,
    Owner,
    RemovalCause,
    carries_owner_reference,
    dispose,
    make_body,
)
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.records import Record, key_of, project
from rukpak.controller.untrusted import mapping, text

# A group or a plural: anything else could lead to another path.
_IN_A_PATH = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*").fullmatch
_POD_SPECS: tuple[Path, ...] = (("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))
# Either name of the account is set along with the other; in the host's network, ports of containers are the host's.
_LEFT_BEHIND = {
    "serviceAccountName": ("serviceAccount",),
    "serviceAccount": ("serviceAccountName",),
    "hostNetwork": ("containers[0].ports[0].hostPort", "initContainers[0].ports[0].hostPort"),
}
TARGETS_IN_BLOCK = (32, 1)
"""On average; the second number if blocks of the first are too large."""
MOST_BYTES = 2 << 20
"""Limit of one block, and of targets unpacked at once; more would need a reservation (revisions/store.py)."""
ALWAYS_BYTES, BYTES_EACH = 64 << 10, 1 << 10
"""What the compressed targets of a revision may take, the second for each of them: about as much as its record. Those
of few large objects take more, and are read again as quickly."""
UNMATCHED = "matches no object of the bundle"
"""Part of a warning about a selector of the spec."""
_LEVEL = 1
"""Level of compression: targets of one kind are alike, and a higher level saves little."""
_Packed = tuple[int, tuple[str, str, str, str], bytes]
"""The position of a target in its bundle, its key, and the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One object that must exist on the cluster."""

    key: ObjectKey
    kind: GroupVersionKind
    digest: str
    """Digest of the body as it is sent: the value of the applied-digest annotation."""
    carries_reference: bool
    manifest: Mapping[str, Any]
    """As it is applied, without ignored fields and without our marks."""
    initial: Mapping[str, Any] = field(default_factory=dict)
    """The ignored fields, each in its place: they are set at creation and then left alone."""
    ignored: IgnoredFields = NOTHING_IGNORED
    bare: bool = False
    """Whether it is only created if missing, and never ours: the install namespace."""
    optional: bool = False
    """Whether it is skipped while the cluster does not serve its kind."""
    wave: int = 0
    """Objects of higher waves are applied once this one is applied and healthy."""
    recreate: bool = False
    """Whether it may be deleted and created again to change an immutable field."""

    @property
    def started_as(self) -> str:
        """How `status.startedJobs` names it."""
        return self.digest.removeprefix("sha256:")[:STARTED_LENGTH]


_PACKED = tuple(each.name for each in fields(Target) if each.name not in ("key", "bare"))
"""Fields of a target that `pack_targets` keeps: the key is the manifest's, and none is bare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSet:
    """The targets of one revision for one owner, in bundle order."""

    revision: str
    targets: tuple[Target, ...]
    by_key: Mapping[ObjectKey, Target]
    resources: Mapping[tuple[str, str], Resource]
    """By (group, kind): the resources that CustomResourceDefinitions of the revision define."""
    undecided: bool
    """Whether the namespace of an object is not known yet, as its kind is not served."""
    skipped: tuple[Target, ...] = ()
    """Optional targets whose kind the cluster does not serve: in `by_key`, not in `targets`."""

    @property
    def kinds(self) -> frozenset[GroupVersionKind]:
        """The kinds to watch."""
        return frozenset(target.kind for target in self.targets if not target.bare)

    @property
    def skipped_kinds(self) -> tuple[str, ...]:
        """The kinds of the skipped targets, in order."""
        return tuple(sorted({str(target.kind) for target in self.skipped}))


def make_targets(
    revision: Revision,
    owner: Owner,
    is_namespaced: Callable[[GroupVersionKind], bool | None],
) -> TargetSet:
    """Return the targets of a revision, the install namespace first if objects need it and the bundle lacks it.

    With an account, that namespace is not a target: it must already exist, since it contains the account.

    Args:
        revision: with applicable objects (controller/formats/README.md).
        owner: the BundleDeployment.
        is_namespaced: whether a kind is namespaced; None: the cluster does not serve it.
    """
    is_namespaced = cache(is_namespaced)  # a kind that appears meanwhile must not get two answers
    install_namespace = revision.terms.install_namespace
    placed = [_place(manifest, install_namespace, is_namespaced) for manifest in revision.objects]
    targets = list(_targets(placed, revision, owner))
    namespace = None if revision.terms.service_account_name else _install_namespace(revision, targets)
    if namespace:
        targets.insert(0, namespace)
    targets = _in_waves(targets)
    return TargetSet(
        revision=revision.digest,
        targets=tuple(targets),
        by_key={target.key: target for target in targets},
        resources=_defined_resources(revision.objects),
        undecided=any(is_namespaced(target.kind) is None for target in targets if not target.key.namespace),
    )


def find_waves(manifests: Iterable[Mapping[str, Any]]) -> dict[ObjectKey, int]:
    """Return the wave in which each of some objects with valid identities is applied."""
    return effective_waves({key_of(manifest): _written_wave(manifest) for manifest in manifests})


def _written_wave(manifest: Mapping[str, Any]) -> int:
    return read_wave(text(manifest, "metadata", "annotations", names.WAVE)) or 0


def _in_waves(targets: Sequence[Target]) -> list[Target]:
    waves = effective_waves({target.key: target.wave for target in targets})
    return [each if each.wave == waves[each.key] else replace(each, wave=waves[each.key]) for each in targets]


def leave_out_missing(wanted: TargetSet, is_missing: Callable[[GroupVersionKind], bool]) -> TargetSet:
    """Return the targets, with optional ones whose kind is missing moved to `skipped`; those are not pruned.

    A kind whose CustomResourceDefinition is in the same revision is not missing: its objects wait for that.
    """
    candidates = {t.kind for t in wanted.targets if t.optional and t.kind[::2] not in wanted.resources}
    missing = {kind for kind in candidates if is_missing(kind)}
    skipped = tuple(target for target in wanted.targets if target.optional and target.kind in missing)
    kept = tuple(target for target in wanted.targets if not (target.optional and target.kind in missing))
    return replace(wanted, targets=kept, skipped=skipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What objects have in one revision and not in the next, by object."""

    replicas: Mapping[ObjectKey, ObjectKey | None] = field(default_factory=dict)
    """See `find_dropped_replicas`."""
    left_behind: Mapping[ObjectKey, tuple[str, ...]] = field(default_factory=dict)
    """See `find_left_behind`."""
    reduced: Mapping[ObjectKey, Mapping[str, Any]] = field(default_factory=dict)
    """See `find_reduced`."""


NO_LOSSES = Losses()


def find_losses(before: TargetSet, after: TargetSet) -> Losses:
    """Return what the objects of a revision lose in the next."""
    return Losses(
        replicas=find_dropped_replicas(before, after),
        left_behind=find_left_behind(before, after),
        reduced=find_reduced(before, after),
    )


def find_dropped_replicas(before: TargetSet, after: TargetSet) -> dict[ObjectKey, ObjectKey | None]:
    """Return the objects whose spec.replicas a revision no longer sets, each with its autoscaler in that revision."""
    autoscalers = find_autoscalers(target.manifest for target in after.targets)
    return {
        target.key: autoscalers.get(target.key)
        for target in before.targets
        if has_field(target.manifest, REPLICAS) and not _sets_replicas(after.by_key.get(target.key))
    }


def describe_dropped_replicas(dropped: Mapping[ObjectKey, ObjectKey | None]) -> tuple[str, ...]:
    """Return warnings about objects whose spec.replicas is not set any more, and that have no autoscaler of ours."""
    problem = "spec.replicas is no longer set and defaults to 1 where no autoscaler scales it"
    advice = "to keep the current number, set it and list it in spec.drift.ignore"
    return tuple(f"{key}: {problem}; {advice}" for key, autoscaler in dropped.items() if autoscaler is None)


def find_left_behind(before: TargetSet, after: TargetSet) -> dict[ObjectKey, tuple[str, ...]]:
    """Return the fields that the API server keeps although a new revision drops what it had made them of.

    Paths are as in causes of its replies: 0 stands for any item of a list.
    """
    found: dict[ObjectKey, tuple[str, ...]] = {}
    for target in before.targets:
        new = after.by_key.get(target.key)
        for place in _POD_SPECS if new else ():
            old, now = mapping(target.manifest, *place), mapping(new.manifest, *place) if new else {}
            if old and now:
                gone = [name for name in _LEFT_BEHIND if old.get(name) and not now.get(name)]
                paths = [".".join((*place, path)) for name in gone for path in _LEFT_BEHIND[name]]
                found[target.key] = (*found.get(target.key, ()), *paths)
    return {key: paths for key, paths in found.items() if paths}


def find_reduced(before: TargetSet, after: TargetSet) -> dict[ObjectKey, Mapping[str, Any]]:
    """Return the objects of which a revision may lack a field or item that the one before has, as that one has them.

    Without replicas, which may be left to an autoscaler (`find_dropped_replicas`).
    """
    found: dict[ObjectKey, Mapping[str, Any]] = {}
    for target in before.targets:
        new = after.by_key.get(target.key)
        if new and new.digest != target.digest and drops(target.manifest, united(new.manifest, new.initial)):
            found[target.key] = without(target.manifest, [REPLICAS])
    return found


def find_unmatched(selectors: Mapping[str, HealthCheck | IgnoreRule], wanted: TargetSet) -> tuple[str, ...]:
    """Return warnings about selectors of a spec that match no object, each with the nearest one that would.

    Args:
        selectors: by their place in the spec. Those with `optional` may match nothing.
        wanted: the targets of the revision, and those that are left out since their kind is not served.
    """
    keys = sorted(key for key, target in wanted.by_key.items() if not target.bare)
    known = {*((*key[:2], "") for key in keys), *((*key[:2], key.name) for key in keys)}
    unmatched = {
        place: each
        for place, each in selectors.items()
        if not each.optional and (each.group, each.kind, each.name or "") not in known
    }
    return tuple(_describe_unmatched(place, each, keys) for place, each in unmatched.items())


def _describe_unmatched(place: str, selector: HealthCheck | IgnoreRule, keys: Sequence[ObjectKey]) -> str:
    group, kind, name = selector.group, selector.kind, selector.name
    close = get_close_matches(kind, sorted({key.kind for key in keys}), n=1)
    of_kind = [key for key in keys if key.kind == kind] or [key for key in keys if key.kind in close]
    of_kind = [key for key in of_kind if key.group == group] or of_kind
    names_ = get_close_matches(name, sorted({key.name for key in of_kind}), n=1, cutoff=0.0) if name else []
    like = ""
    if of_kind:
        nearest = next((key for key in of_kind if key.name in names_), of_kind[0])
        parts = {"group": nearest.group, "kind": nearest.kind, "name": nearest.name if name else ""}
        like = f"; the nearest is {{{', '.join(f'{part}: {value}' for part, value in parts.items() if value)}}}"
    return f"{place}: {UNMATCHED}{like}; correct it, or set optional: true"


def find_missing_labels(
    wanted: TargetSet, used: Mapping[ObjectKey, Record | None], *, conceals: bool = False
) -> tuple[str, ...]:
    """Return warnings about labels and annotations of the bundle that existing Namespaces, not modified, lack.

    Args:
        wanted: of the revision.
        used: the Namespaces.
        conceals: whether no text of an object may be shown, since values of Secrets were rendered.
    """
    warnings = []
    for target in wanted.targets:
        if record := used.get(target.key):
            metadata = target.manifest["metadata"]
            found = {"labels": record.labels, "annotations": record.annotations}
            lacks = {what: _describe_lack(what, metadata.get(what) or {}, pairs) for what, pairs in found.items()}
            lacking = [f"{what} of the bundle" if conceals and lack else lack for what, lack in lacks.items()]
            if missing := " and ".join(filter(None, lacking)):
                warnings.append(f"{target.key}: not managed by this bundle, and lacks the {missing}; add them")
    return tuple(warnings)


def _describe_lack(what: str, wanted: Mapping[str, str], found: Iterable[tuple[str, str]]) -> str:
    missing = ", ".join(f'"{name}={value}"' for name, value in sorted(wanted.items() - set(found)))
    return f"{what} {missing}" if missing else ""


def _sets_replicas(target: Target | None) -> bool:
    return target is None or has_field(target.manifest, REPLICAS) or REPLICAS in target.ignored.paths


def _place(
    manifest: Mapping[str, Any], namespace: str, is_namespaced: Callable[[GroupVersionKind], bool | None]
) -> Mapping[str, Any]:
    # The kind was not served at rendering.
    metadata = manifest["metadata"]
    if metadata.get("namespace") or not is_namespaced(GroupVersionKind.of(manifest)):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


def _targets(placed: Sequence[Mapping[str, Any]], revision: Revision, owner: Owner) -> Iterator[Target]:
    rules, autoscalers = read_ignore_rules((revision.terms.drift or {}).get("ignore", ())), find_autoscalers(placed)
    for manifest in placed:
        ignored = find_ignored_fields(manifest, rules, autoscalers)
        optional = _is_optional(manifest, revision.terms.optional)
        yield _target(manifest, owner, ignored, optional=optional)


def _target(manifest: Mapping[str, Any], owner: Owner, ignored: IgnoredFields, *, optional: bool) -> Target:
    initial = only(manifest, ignored.paths)
    manifest = without(manifest, ignored.paths)
    return Target(
        key=key_of(manifest),
        kind=GroupVersionKind.of(manifest),
        digest=make_body(manifest, owner)["metadata"]["annotations"][names.APPLIED_DIGEST],
        carries_reference=carries_owner_reference(manifest, orphan=owner.orphan),
        manifest=manifest,
        optional=optional,
        recreate=_annotations(manifest).get(names.RECREATE) == "true",
        wave=_written_wave(manifest),
        initial=initial,
        ignored=ignored,
    )


def _is_optional(manifest: Mapping[str, Any], kinds: Sequence[Mapping[str, str]]) -> bool:
    kind = GroupVersionKind.of(manifest)
    return _annotations(manifest).get(names.OPTIONAL) == "true" or {"group": kind.group, "kind": kind.kind} in kinds


def _annotations(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return manifest["metadata"].get("annotations") or {}


def make_install_namespace(revision: Revision) -> dict[str, Any]:
    """Return the install namespace as it is created if it is missing."""
    metadata = {"name": revision.terms.install_namespace, **revision.namespace}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _install_namespace(revision: Revision, targets: Collection[Target]) -> Target | None:
    name = revision.terms.install_namespace
    key = ObjectKey("", "Namespace", "", name)
    if not name or not any(t.key.namespace == name for t in targets) or any(t.key == key for t in targets):
        return None
    return Target(
        key=key,
        kind=GroupVersionKind("", "v1", "Namespace"),
        digest="",
        carries_reference=False,
        manifest=make_install_namespace(revision),
        wave=min(t.wave for t in targets if t.key.namespace == name),
        bare=True,
    )


def _defined_resources(objects: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Resource]:
    defined = [read_definition(manifest).resource for manifest in objects if key_of(manifest)[:2] == CRD]
    return {
        (each.group, each.kind): each for each in defined if all(map(_IN_A_PATH, (each.group, each.kind, each.plural)))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTargets:
    """The targets of a revision."""

    rest: TargetSet
    """The revision without its targets, except some that are always needed."""
    blocks: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes of the compressed targets."""
        return sum(map(len, self.blocks))

    def unpack(self, keys: Collection[ObjectKey]) -> TargetSet | None:
        """Return the revision with only these targets, in bundle order; None if they are too large.

        Keys without a target are left out.
        """
        found: list[_Packed] = []
        for number, wanted in _by_block(keys, len(self.blocks)).items():
            found += [each for each in _unpack_block(self.blocks[number]) if each[1] in wanted]
            if sum(len(packed) for _, _, packed in found) > MOST_BYTES:
                return None
        unpacked = (_unpack_target(packed) for _, _, packed in sorted(found))
        return _with_targets(self.rest, [*self.rest.targets, *unpacked])


def pack_targets(wanted: TargetSet, always: Collection[ObjectKey]) -> PackedTargets | None:
    """Return the targets of a revision in compressed form; None if they are too large, or nested too deeply, for that.

    Args:
        wanted: the targets.
        always: keys of a few targets that `unpack` always returns; the install namespace is always one of them.
    """
    kept = [target for target in wanted.targets if target.bare or target.key in always]
    for size in TARGETS_IN_BLOCK:
        with suppress(ValueError):
            blocks = _pack_blocks(wanted, {target.key for target in kept}, size)
            return PackedTargets(rest=_with_targets(wanted, kept), blocks=blocks)
    return None


def _with_targets(wanted: TargetSet, targets: Iterable[Target]) -> TargetSet:
    by_key = {target.key: target for target in targets}
    return replace(wanted, targets=tuple(by_key.values()), by_key=by_key)


def _by_block(keys: Iterable[ObjectKey], count: int) -> dict[int, set[ObjectKey]]:
    # Keys are distributed differently in each process, which no block outlives.
    members: dict[int, set[ObjectKey]] = {}
    for key in keys if count else ():
        members.setdefault(hash(key) % count, set()).add(key)
    return members


def _pack_blocks(wanted: TargetSet, without: Collection[ObjectKey], size: int) -> tuple[bytes, ...]:
    positions = {target.key: number for number, target in enumerate(wanted.targets) if target.key not in without}
    count, left = -(-len(positions) // size), max(ALWAYS_BYTES, BYTES_EACH * len(positions))
    members, blocks = _by_block(positions, count), []
    for number in range(count):
        keys = members.get(number, ())
        block = marshal.dumps([(positions[key], tuple(key), _pack_target(wanted.by_key[key])) for key in keys])
        if len(block) > MOST_BYTES:
            raise ValueError("a block is too large")
        blocks.append(zlib.compress(block, _LEVEL))
        left -= len(blocks[-1])
        if left < 0:
            raise ValueError("all blocks together are too large")
    return tuple(blocks)


def _unpack_block(block: bytes) -> list[_Packed]:
    # Our own bytes. Not JSON: it is slower, and cannot serialize deeply nested values.
    return marshal.loads(zlib.decompress(block))  # type: ignore[no-any-return]  # noqa: S302


def _pack_target(target: Target) -> bytes:
    plain = {name: getattr(target, name) for name in _PACKED}
    return marshal.dumps({**plain, "kind": tuple(target.kind), "ignored": tuple(target.ignored)})


def _unpack_target(packed: bytes) -> Target:
    plain = marshal.loads(packed)  # noqa: S302
    kind, ignored = GroupVersionKind(*plain.pop("kind")), IgnoredFields(*plain.pop("ignored"))
    return Target(key=key_of(plain["manifest"]), kind=kind, ignored=ignored, **plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The objects that a revision would change."""

    created: tuple[ObjectKey, ...] = ()
    changed: tuple[ObjectKey, ...] = ()
    deleted: tuple[ObjectKey, ...] = ()
    recreated: tuple[ObjectKey, ...] = ()
    """Those of `changed` that may be deleted and created again."""

    @property
    def counts(self) -> Changes:
        """How many objects would change."""
        return Changes(
            create=len(self.created), change=len(self.changed), delete=len(self.deleted), recreate=len(self.recreated)
        )


def find_differences(before: TargetSet | None, after: TargetSet, *, prunes: bool) -> Differences:
    """Return the objects that a revision would change.

    Args:
        before: the targets of the revision on the cluster; None if there is none.
        after: the targets of the other revision.
        prunes: whether objects that only the first one contains are deleted.
    """
    old, new = _managed(before), _managed(after)
    changed = [target for key, target in new.items() if key in old and _differ(old[key], target)]
    deleted = [key for key, target in old.items() if key not in after.by_key and _is_deleted(target)]
    return Differences(
        created=tuple(key for key in new if key not in old),
        changed=tuple(target.key for target in changed),
        deleted=tuple(deleted) if prunes else (),
        recreated=tuple(target.key for target in changed if target.recreate),
    )


def _managed(targets: TargetSet | None) -> Mapping[ObjectKey, Target]:
    return {target.key: target for target in (targets.targets if targets else ()) if not target.bare}


def _differ(old: Target, new: Target) -> bool:
    # The digests also differ when other fields are ignored.
    return old.digest != new.digest and united(old.manifest, old.initial) != united(new.manifest, new.initial)


def _is_deleted(target: Target) -> bool:
    record = project(target.manifest, target.key.group, target.key.kind)
    return dispose(record, RemovalCause.PRUNE) is not Disposal.RELEASE
