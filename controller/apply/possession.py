"""Which objects a BundleDeployment may act upon: those that a kept revision names, and that carry its marks. Pure.

Marks alone prove nothing: label, annotation, owner reference and field manager can be written by whoever may write the
object. A stray that carries them all is told of and left alone, since it was the controller's rights, or the account's,
that its maker would borrow. Without names nothing is pruned and nothing torn down but what the garbage collector takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.apply.ownership import Owner, carries_owner_reference, is_ours, loses_reference
from controller.build.revision import Revision
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, Record, key_of

LEFT_BYTES = 256 * 1024
"""What the names of left objects may take beside a revision; it shares a Secret of 1 MiB with a chunk of 512 KiB."""


MORE = "*"
"""Instead of their names, where these are too many: the revisions that have them are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a revision says of an object of its own."""

    kind: GroupVersionKind
    carries_reference: bool
    """The garbage collector takes it once its BundleDeployment is gone."""

    @property
    def group_kind(self) -> tuple[str, str]:
        """The kind without its version."""
        return (self.kind.group, self.kind.kind)


def name_objects(
    revisions: Iterable[Revision], is_namespaced: Callable[[GroupVersionKind], bool | None], *, orphan: bool
) -> dict[ObjectKey, Named]:
    """Return all objects that revisions name: their own, and those that were left when older ones were dropped.

    Args:
        revisions: of one BundleDeployment.
        is_namespaced: whether the objects of a kind have a namespace; None: the cluster does not serve it.
        orphan: the deletionPolicy is Orphan: nothing carries an ownerReference.
    """
    found: dict[ObjectKey, Named] = {}
    for revision in revisions:
        for kind, key in map(_parse, filter(MORE.__ne__, revision.terms.left)):
            stub = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": key.name}}
            found[key] = Named(kind=kind, carries_reference=carries_owner_reference(stub, orphan=orphan))
        for manifest in revision.objects:
            key = place(manifest, revision.terms.install_namespace, is_namespaced)
            reference = carries_owner_reference(manifest, orphan=orphan)
            found[key] = Named(kind=GroupVersionKind.of(manifest), carries_reference=reference)
    return found


def place(
    manifest: Mapping[str, Any], namespace: str, is_namespaced: Callable[[GroupVersionKind], bool | None]
) -> ObjectKey:
    """Return where an object of a revision is: one whose kind was not served when it was rendered may lack that."""
    key = key_of(manifest)
    if key.namespace or not is_namespaced(GroupVersionKind.of(manifest)):
        return key
    return key._replace(namespace=namespace)


def describe_left(left: Mapping[ObjectKey, Named], most: int = LEFT_BYTES) -> tuple[str, ...]:
    """Return how a revision keeps the names of objects that older ones left, in so many bytes; see `Terms.left`."""
    texts = tuple(sorted(f"{named.kind} {key.namespace} {key.name}" for key, named in left.items()))
    return texts if sum(len(text.encode()) + 4 for text in texts) <= most else (MORE,)


def find_strays(
    observed: Mapping[ObjectKey, Record], *known: Collection[ObjectKey], owner: Owner, orphan: bool
) -> list[Record]:
    """Return what carries all marks of a BundleDeployment, though no revision of it names it.

    Args:
        observed: what carries its label.
        known: what its revisions name.
        owner: the BundleDeployment.
        orphan: its objects carry no ownerReference.
    """
    others = (record for key, record in observed.items() if not any(key in keys for keys in known))
    return list(_ours(others, owner, orphan=orphan))


def find_surplus(
    wanted: Collection[ObjectKey],
    older: Collection[ObjectKey],
    observed: Mapping[ObjectKey, Record],
    owner: Owner,
    *,
    orphan: bool,
) -> list[Record]:
    """Return the objects of ours that only older revisions name.

    Args:
        wanted: what the wanted revision names.
        older: what older ones name that may be left.
        observed: what carries the label.
        owner: the BundleDeployment.
        orphan: its objects carry no ownerReference.
    """
    named = (record for key, record in observed.items() if key in older and key not in wanted)
    return list(_ours(named, owner, orphan=orphan))


def _ours(records: Iterable[Record], owner: Owner, *, orphan: bool) -> Iterator[Record]:
    for record in records:
        reference = not loses_reference(record, orphan=orphan)
        if is_ours(record, owner, carries_reference=reference) and not record.deleting:
            yield record


def _parse(text: str) -> tuple[GroupVersionKind, ObjectKey]:
    kind_text, namespace, name = text.split(" ", 2)
    kind = GroupVersionKind.parse(kind_text)
    return kind, ObjectKey(kind.group, kind.kind, namespace, name)
