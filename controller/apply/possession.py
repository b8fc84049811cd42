"""Which objects a BundleDeployment may delete: those that a kept revision names and that have its marks. Pure.

Marks alone prove nothing: any client that may write an object can write label, annotation, owner reference and field
manager, and would borrow the rights of the controller or the account. A stray that has all marks is reported and left
alone, unless a revision named it that is retired or deleted: then the BundleDeployment had it, and has it again.
Without a kept revision nothing is pruned or torn down except by the garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.apply.ownership import Owner, carries_owner_reference, is_ours, loses_reference
from controller.build.revision import Revision, Terms
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, Record, key_of

LEFT_BYTES = 256 * 1024
"""Size of the names of left objects in a revision: they share a Secret of 1 MiB with a chunk of 512 KiB."""
PAST_BYTES = 64 * 1024
"""Size of the names of objects that earlier revisions had, in the same Secret."""
MORE = "*"
"""Stands for the names if they are too many: the revisions that contain the objects are kept then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionObject:
    """What a kept revision says about an object."""

    kind: GroupVersionKind
    carries_reference: bool
    """Whether the garbage collector deletes it after its BundleDeployment."""

    @property
    def group_kind(self) -> tuple[str, str]:
        """The kind without its version."""
        return (self.kind.group, self.kind.kind)


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


def describe_left(left: Mapping[ObjectKey, RevisionObject], most: int = LEFT_BYTES) -> tuple[str, ...]:
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


def find_strays(
    observed: Mapping[ObjectKey, Record], *known: Collection[ObjectKey], owner: Owner, orphan: bool
) -> list[Record]:
    """Return the objects that have all marks of a BundleDeployment although none of its revisions names them.

    Args:
        observed: the objects that carry its label.
        known: the objects that its revisions name.
        owner: the BundleDeployment.
        orphan: whether its deletionPolicy is Orphan.
    """
    others = set(observed).difference(*known)
    ours = _ours((observed[key] for key in others), owner, orphan=orphan)
    return [record for record in ours if not record.deleting]


def find_surplus(
    wanted: Collection[ObjectKey],
    older: Collection[ObjectKey],
    observed: Mapping[ObjectKey, Record],
    owner: Owner,
    *,
    orphan: bool,
) -> list[Record]:
    """Return our objects that only older revisions name.

    Args:
        wanted: the objects of the wanted revision.
        older: those of older revisions that may still exist.
        observed: the objects that carry our label.
        owner: the BundleDeployment.
        orphan: whether its deletionPolicy is Orphan.
    """
    named = (observed[key] for key in older if key in observed and key not in wanted)
    return [record for record in _ours(named, owner, orphan=orphan) if not record.deleting]


def find_terminating(
    wanted: Collection[ObjectKey],
    older: Collection[ObjectKey],
    observed: Mapping[ObjectKey, Record],
    owner: Owner,
    *,
    orphan: bool,
) -> list[Record]:
    """Return those of our objects that only older revisions name, and that are being deleted; see `find_surplus`."""
    named = (observed[key] for key in older if key in observed and key not in wanted)
    return [record for record in _ours(named, owner, orphan=orphan) if record.deleting]


def _ours(records: Iterable[Record], owner: Owner, *, orphan: bool) -> Iterator[Record]:
    for record in records:
        reference = not loses_reference(record, orphan=orphan)
        if is_ours(record, owner, carries_reference=reference):
            yield record


def _named(kind: GroupVersionKind, key: ObjectKey, *, orphan: bool) -> RevisionObject:
    stub = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": key.name}}
    return RevisionObject(kind=kind, carries_reference=carries_owner_reference(stub, orphan=orphan))


def _write(kind: GroupVersionKind, key: ObjectKey) -> str:
    return f"{kind} {key.namespace} {key.name}"


def _parse(text: str) -> tuple[GroupVersionKind, ObjectKey]:
    kind_text, namespace, name = text.split(" ", 2)
    kind = GroupVersionKind.parse(kind_text)
    return kind, ObjectKey(kind.group, kind.kind, namespace, name)
