"""The revision store: rendered objects, kept in the cluster as Secrets in the controller's namespace (rule 2).

A revision is as many Secrets as its compressed objects need. The one with index 0 is written last and completes the
revision: it contains the terms, the number of chunks, and the digests that are verified on reading. The Secrets have no
ownerReference and not the label of managed objects: only this module deletes them.

They are watched by type, which nobody can change, so a removed label hides none. Like drift (rule 6), damage shows in
metadata: another client that changes a value takes its field from our managedFields entry.

A revision that is only part of the history is retired, by an annotation: nothing on the cluster belongs to it, so it is
neither repaired nor pruned nor deleted. It is recalled before it is applied again.

All BundleDeployments that act as ServiceAccounts of one namespace share a quota of bytes. Only retired revisions are
deleted to make room, the oldest first; without any, a new one is refused, and what is installed remains.

The objects of large revisions are in memory only while there is room, and only during a pass. A pass that needs one
while there is no room ends immediately, and is woken when it is its turn. Small revisions are kept between passes and
need no room.

Not here: which revision is wanted (reconcile/finding.py), and when one is retired or deleted (reconcile/inventory.py).
"""

from __future__ import annotations

import base64
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.bounds import read_count
from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.revision import PackedRevision, Revision, Size, measure, pack, pack_terms, unpack_terms
from rukpak.controller.content.digests import digest_of, is_digest
from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.formats.manifests import INLINE
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import DEPLOYMENTS, NAMESPACES, SECRETS
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.sharing import Admission
from rukpak.controller.untrusted import strings

MANAGER = "rukpak-revisions"
REVISION = f"{names.GROUP}/revision"
CHUNKS = f"{names.GROUP}/chunks"
TERMS_DIGEST = f"{names.GROUP}/terms-digest"
RETIRED = f"{names.GROUP}/retired"
"""Marks a revision that is kept only for the history: it names no objects on the cluster."""
MAX_CHUNKS = 32
SELECTOR = f"type={names.REVISION_SECRET_TYPE}"
_NAME = re.compile(r"revision\.(?P<name>.+)\.(?P<digest>[0-9a-f]{16})\.(?P<index>[0-9]{1,9})")
DEPLOYMENT = "deployment"
"""Index of Secrets by the BundleDeployment that their names tell."""
BYTES = f"{names.GROUP}/bytes"
"""An annotation of the first Secret of a revision: the size of all."""
TENANT_BYTES = 64 << 20
log = logging.getLogger(__name__)
CHUNK_BYTES = 512 * 1024
MAX_BYTES = MAX_CHUNKS * CHUNK_BYTES
TEXT_BYTES = Limits().text_bytes
"""Size of objects and hooks as uncompressed JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """What the metadata of a Secret says."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: str
    deployment: str
    """Name of the BundleDeployment; empty for a Secret that is not named like those of the store."""
    owner_uid: str
    digest: str
    index: int
    chunks: int
    """Number of Secrets of the whole revision, as the Secret with index 0 says."""
    size: int
    """Bytes of the whole revision, as that Secret says; 0: it does not."""
    is_retired: bool
    """Whether the revision is kept only for the history; false except for index 0."""
    is_intact: bool
    """Whether no other client has changed what we wrote, as far as metadata shows."""


class RevisionSecrets:
    """Thread-safe: knows the Secrets of the store from a watch.

    Args:
        namespace: of the Secrets.
        damaged: called on the thread of the watch with the name of a BundleDeployment one of whose Secrets was deleted
            or changed, also by ourselves if it was deleted.
        synced: called on that thread once all Secrets are known.
    """

    def __init__(
        self, client: Client, namespace: str, damaged: Callable[[str], None], synced: Callable[[], None]
    ) -> None:
        self._damaged = damaged
        self.namespace = namespace
        self.reflector = Reflector[StoredSecret](
            ListWatch(client, SECRETS.path(namespace), field_selector=SELECTOR, metadata=True),
            project=make_stored,
            functions={DEPLOYMENT: lambda secret: (secret.deployment,)},
            on_change=self._changed,
            on_synced=synced,
        )

    @property
    def synced(self) -> bool:
        """Whether all Secrets are known; not if the controller may not watch them."""
        return self.reflector.synced and not self.reflector.denied

    def all_of(self, name: str) -> list[StoredSecret]:
        """Return the Secrets of a BundleDeployment, and of earlier ones of its name."""
        return self.reflector.cache.index(DEPLOYMENT, name)

    def get(self, secret_name: str) -> StoredSecret | None:
        """Return a Secret; None if it does not exist."""
        return self.reflector.cache.get((self.namespace, secret_name))

    def learn(self, manifest: Mapping[str, Any]) -> None:
        """Learn a Secret from the reply to a write of ours."""
        self.reflector.cache.learn(make_stored(manifest))

    def learn_gone(self, secret_name: str) -> None:
        """Learn that we have deleted a Secret."""
        if known := self.get(secret_name):
            self.reflector.cache.hide((self.namespace, secret_name), known.uid)

    def is_lost(self, name: str, digest: str) -> bool:
        """Whether a Secret of a revision is missing or was changed; False while that is not known."""
        if not (self.synced and is_digest(digest)):
            return False
        first = self.get(secret_name(name, digest, 0))
        if first is None:
            return True
        others = [self.get(secret_name(name, digest, index)) for index in range(1, first.chunks)]
        return not all(each and each.is_intact for each in (first, *others))

    def _changed(self, old: StoredSecret | None, new: StoredSecret | None) -> None:
        known = new or old
        if known and known.deployment and not (new and new.is_intact):
            self._damaged(known.deployment)


def make_stored(manifest: Mapping[str, Any]) -> StoredSecret:
    """Return what the metadata of a Secret says."""
    metadata = manifest["metadata"]
    marks = metadata.get("annotations") or {}
    match = _NAME.fullmatch(metadata["name"])
    index = int(match["index"]) if match else 0
    return StoredSecret(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        created=metadata.get("creationTimestamp") or "",
        deployment=match["name"] if match else "",
        owner_uid=marks.get(names.OWNER_UID, ""),
        digest=marks.get(REVISION, ""),
        index=index,
        chunks=count_chunks(marks),
        size=read_count(marks.get(BYTES, ""), 2 * MAX_BYTES) or 0,
        is_retired=index == 0 and RETIRED in marks,
        is_intact=_is_intact(metadata.get("managedFields") or (), first=index == 0),
    )


def _is_intact(entries: Iterable[Mapping[str, Any]], *, first: bool) -> bool:
    # Wiped entries show nothing.
    found = list(entries)
    if not found:
        return True
    ours = next((each for each in found if (each.get("manager"), each.get("operation")) == (MANAGER, "Apply")), {})
    fields = ours.get("fieldsV1") or {}
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    data = fields.get("f:data") or {}
    marks, keys = ((CHUNKS, TERMS_DIGEST), ("objects", "terms")) if first else ((), ("objects",))
    return all(f"f:{key}" in data for key in keys) and all(
        f"f:{mark}" in annotations for mark in (REVISION, names.OWNER_UID, *marks)
    )


def secret_name(name: str, digest: str, index: int) -> str:
    """Return the name of a Secret of a revision."""
    return f"revision.{name}.{digest.removeprefix('sha256:')[:16]}.{index}"


def count_chunks(marks: Mapping[str, str]) -> int:
    """Return the number of Secrets of a revision, at most that of the largest one."""
    return read_count(marks.get(CHUNKS, ""), MAX_CHUNKS) or 1


class RevisionStore:
    """Thread-safe; retries nothing.

    Args:
        secrets: what is known of the Secrets, and their namespace.
        tenant_bytes: the quota of all BundleDeployments that act as ServiceAccounts of one namespace.
    """

    def __init__(self, client: Client, secrets: RevisionSecrets, tenant_bytes: int = TENANT_BYTES) -> None:
        self._client, self._secrets = client, secrets
        self._namespace = secrets.namespace
        self._tenant_bytes = tenant_bytes
        self._being_written: Counter[str] = Counter()
        """Bytes by tenant."""
        self._lock = threading.Lock()

    def write(self, name: str, revision: Revision | PackedRevision, uid: str = "") -> None:
        """Keep a revision of a BundleDeployment; idempotent. One that is known is not written again as in `restore`.

        Args:
            name: of the BundleDeployment.
            revision: to keep.
            uid: of the BundleDeployment, so that a later one of the same name does not get its revisions.

        Raises: BundleError (TooLarge, QuotaExceeded), ApiError.
        """
        packed = revision if isinstance(revision, PackedRevision) else pack(revision)
        if uid and self._secrets.get(secret_name(name, packed.digest, 0)) and not self._is_needed(name, uid):
            return
        _refuse_large(packed.objects)
        size = len(packed.objects) + len(pack_terms(packed))
        with self._room(_tenant(packed), secret_name(name, packed.digest, 0), size):
            self._write(name, packed, uid)

    def restore(self, name: str, revision: Revision | PackedRevision, uid: str = "") -> None:
        """Write a revision again whose Secrets were deleted or changed: it was admitted before, so no quota applies.

        Not for a BundleDeployment that is gone or being deleted: another process may have deleted both, and no one
        would delete the Secrets again.

        Raises: ApiError.
        """
        if not self._is_needed(name, uid):
            return
        self._write(name, revision if isinstance(revision, PackedRevision) else pack(revision), uid)
        log.info("revision stored again", extra={"BundleDeployment": name, "revision": revision.digest})

    @contextmanager
    def _room(self, tenant: str, head: str, size: int) -> Iterator[None]:
        """Let a revision be written, and until then count it with those that are kept.

        Args:
            tenant: the namespace of the account; empty: the controller, which has no quota.
            head: name of the first Secret. What is kept already is written again, however much that is.
            size: bytes of the whole revision.

        Raises: BundleError (QuotaExceeded) if deleting all that is retired would not make enough room; ApiError.
        """
        if not tenant:
            yield
            return
        with self._lock:
            self._being_written[tenant] += size
            wanted = self._being_written[tenant]
        try:
            kept = [each for each in self._list(f"{names.REVISION_NAMESPACE_LABEL}={tenant}") if each.size]
            excess = sum(each.size for each in kept) + wanted - self._tenant_bytes
            if excess > 0 and not any(each.name == head for each in kept):
                self._make_room(tenant, size, kept, excess)
            yield
        finally:
            with self._lock:
                self._being_written[tenant] -= size

    def _make_room(self, tenant: str, size: int, kept: Iterable[StoredSecret], excess: int) -> None:
        spare = sorted((each for each in kept if each.is_retired), key=lambda each: each.created)
        if sum(each.size for each in spare) < excess:
            message = (
                f"the rendered objects take {describe_bytes(size)} compressed, which exceeds the quota of "
                f'{describe_bytes(self._tenant_bytes)} for all revisions of namespace "{tenant}"; delete '
                "BundleDeployments, make the bundle smaller, or ask the administrator to raise --revision-mebibytes"
            )
            raise BundleError(Reason.QUOTA_EXCEEDED, message)
        for each in spare:
            if excess <= 0:
                return
            self.drop(each.deployment, each.digest)
            excess -= each.size

    def _write(self, name: str, packed: PackedRevision, uid: str) -> None:
        objects, terms = packed.objects, pack_terms(packed)
        chunks = [objects[start : start + CHUNK_BYTES] for start in range(0, len(objects), CHUNK_BYTES)]
        own = {names.OWNER_UID: uid} if uid else {}
        size = str(len(objects) + len(terms))
        annotations = {CHUNKS: str(len(chunks)), TERMS_DIGEST: digest_of(terms), BYTES: size, **own}
        for index in reversed(range(1, len(chunks))):
            self._apply(name, packed, index, {"objects": chunks[index]}, own)
        head = self._apply(name, packed, 0, {"objects": chunks[0], "terms": terms}, annotations)
        if head.is_retired:
            self.recall(name, packed.digest)

    def _is_needed(self, name: str, uid: str) -> bool:
        # Watches may lag behind another process.
        found = attempt(lambda: self._client.get(DEPLOYMENTS.path(name=name), metadata=True), HTTPStatus.NOT_FOUND)
        if found is None:
            return False
        metadata = found.value["metadata"]
        return uid in ("", metadata["uid"]) and not metadata.get("deletionTimestamp")

    def is_lost(self, name: str, digest: str) -> bool:
        """Whether another client has deleted or changed a Secret of a revision; False while that is not known."""
        return self._secrets.is_lost(name, digest)

    def _apply(
        self, name: str, revision: PackedRevision, index: int, data: dict[str, bytes], marks: dict[str, str]
    ) -> StoredSecret:
        own_name, tenant = secret_name(name, revision.digest, index), _tenant(revision)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": own_name,
                "namespace": self._namespace,
                "labels": {names.REVISION_LABEL: name, **({names.REVISION_NAMESPACE_LABEL: tenant} if tenant else {})},
                "annotations": {REVISION: revision.digest, **marks},
            },
            "type": names.REVISION_SECRET_TYPE,
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        path = SECRETS.path(self._namespace, own_name)
        try:
            reply = self._client.apply(path, body, manager=MANAGER, force=True)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:  # the namespace
                raise
            self._create_namespace()
            reply = self._client.apply(path, body, manager=MANAGER, force=True)
        self._secrets.learn(reply.value)
        return make_stored(reply.value)

    def _create_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        self._client.apply(NAMESPACES.path(name=self._namespace), body, manager=MANAGER, force=True)

    def read(self, name: str, digest: str) -> Revision | None:
        """Return a revision; None if it is missing, incomplete or damaged.

        Raises: ApiError.
        """
        packed = self.read_packed(name, digest)
        return unpack_whole(packed) if packed else None

    def read_packed(self, name: str, digest: str) -> PackedRevision | None:
        """Return a compressed revision, whose objects are verified by `unpack_whole`; None as `read`.

        Raises: ApiError.
        """
        first = self._get(secret_name(name, digest, 0)) if is_digest(digest) else None
        if first is None:
            return None
        marks = first["metadata"].get("annotations") or {}
        others = [self._get(secret_name(name, digest, index)) for index in range(1, count_chunks(marks))]
        try:
            objects = b"".join(_data(secret, "objects") for secret in [first, *others])
            terms = _data(first, "terms")
            if digest_of(terms) != marks.get(TERMS_DIGEST):
                return None
            return unpack_terms(digest, terms, objects)
        except ValueError:
            return None

    def _get(self, own_name: str) -> dict[str, Any] | None:
        found = attempt(lambda: self._client.get(SECRETS.path(self._namespace, own_name)), HTTPStatus.NOT_FOUND)
        value: dict[str, Any] | None = found.value if found else None
        return value

    def digests(self, name: str, uid: str = "") -> list[str]:
        """Return the digests of the revisions that may have objects on the cluster, newest first; not the retired ones.

        They are read from the watch if it can.

        Args:
            name: of the BundleDeployment.
            uid: leaves out the revisions of an earlier one of this name.

        Raises: ApiError.
        """
        heads = [each for each in self._all_of(name) if each.index == 0 and each.digest and not each.is_retired]
        own = [each for each in heads if uid in ("", each.owner_uid)]
        return [each.digest for each in sorted(own, key=lambda head: head.created, reverse=True)]

    def has(self, name: str, digest: str, uid: str = "") -> bool:
        """Return whether a revision of a BundleDeployment is stored, retired or not.

        Args:
            name: of the BundleDeployment.
            digest: of the revision.
            uid: of the BundleDeployment: not the revisions of an earlier one of this name.

        Raises: ApiError.
        """
        head = self._head(name, digest)
        return head is not None and head.digest == digest and uid in ("", head.owner_uid)

    def is_retired(self, name: str, digest: str) -> bool:
        """Return whether a revision is stored only for the history.

        Raises: ApiError.
        """
        head = self._head(name, digest)
        return head is not None and head.is_retired

    def _head(self, name: str, digest: str) -> StoredSecret | None:
        own_name = secret_name(name, digest, 0)
        return next((each for each in self._all_of(name) if each.name == own_name), None)

    def _all_of(self, name: str) -> list[StoredSecret]:
        return self._secrets.all_of(name) if self._secrets.synced else self._list_all(name)

    def is_tidy(self, name: str, digests: Collection[str], history: Collection[str] = ()) -> bool:
        """Return whether `keep_only` would change nothing, as far as the watch knows; sends no request."""
        if not self._secrets.synced:
            return False
        found = self._secrets.all_of(name)
        stay = {*digests, *(each.digest for each in found if each.is_retired and each.digest in history)}
        return all(each.digest in stay for each in found)

    def keep_only(self, name: str, digests: Collection[str], history: Collection[str] = ()) -> None:
        """Retire the revisions of a BundleDeployment that are only part of its history, and delete all others.

        Args:
            name: of the BundleDeployment.
            digests: of the revisions that stay as they are.
            history: digests of those that are retired.

        Raises: ApiError.
        """
        for each in self._list_all(name):
            if each.digest in digests:
                continue
            if each.digest not in history:
                self._delete(each.name)
            elif each.index == 0 and not each.is_retired:
                self._mark(each.name, "true")

    def recall(self, name: str, digest: str) -> None:
        """Record that a retired revision may have objects on the cluster, before it is applied again.

        Raises: ApiError.
        """
        self._mark(secret_name(name, digest, 0), None)

    def _mark(self, own_name: str, retired: str | None) -> None:
        path, change = SECRETS.path(self._namespace, own_name), {"metadata": {"annotations": {RETIRED: retired}}}
        changed = attempt(
            lambda: self._client.merge_patch(path, change, manager=MANAGER, metadata=True), HTTPStatus.NOT_FOUND
        )
        if changed:
            self._secrets.learn(changed.value)

    def has_remnant(self, name: str, digest: str) -> bool:
        """Whether Secrets remain of a lost revision that is only part of the history; sends no request."""
        found = [each for each in self._secrets.all_of(name) if each.digest == digest]
        return bool(found) and all(each.is_retired for each in found if each.index == 0)

    def drop(self, name: str, digest: str) -> None:
        """Delete a revision of a BundleDeployment.

        Raises: ApiError.
        """
        for each in self._list_all(name):
            if each.digest == digest:
                self._delete(each.name)

    def _list_all(self, name: str) -> list[StoredSecret]:
        return self._list(f"{names.REVISION_LABEL}={name}")

    def _list(self, label_selector: str) -> list[StoredSecret]:
        path = SECRETS.path(self._namespace)
        return list(map(make_stored, self._client.list(path, metadata=True, label_selector=label_selector)))

    def _delete(self, own_name: str) -> None:
        attempt(lambda: self._client.delete(SECRETS.path(self._namespace, own_name)), HTTPStatus.NOT_FOUND)
        self._secrets.learn_gone(own_name)


def _tenant(revision: PackedRevision) -> str:
    return revision.terms.install_namespace if revision.terms.service_account_name else ""


def unpack_whole(packed: PackedRevision) -> Revision | None:
    """Return a revision; None if it is damaged."""
    try:
        if measure(packed.objects).text_bytes > TEXT_BYTES:
            return None
        revision = packed.unpacked()
        return revision if revision_digest(revision.objects, revision.hooks) == packed.digest else None
    except (ValueError, RecursionError):  # also from the digest: not all parsed JSON can be serialized
        return None


def _refuse_large(packed: bytes) -> None:
    size = measure(packed).text_bytes
    if size > TEXT_BYTES:
        problem = f"take {describe_bytes(size)} as JSON, more than {describe_bytes(TEXT_BYTES)}"
    elif len(packed) > MAX_BYTES:
        problem = f"take {describe_bytes(len(packed))} compressed, more than {describe_bytes(MAX_BYTES)}"
    else:
        return
    raise BundleError(Reason.TOO_LARGE, f"the rendered objects {problem}; split the bundle")


def _data(secret: dict[str, Any] | None, key: str) -> bytes:
    value = ((secret or {}).get("data") or {}).get(key)
    if not isinstance(value, str):
        raise ValueError(key)  # noqa: TRY004 - the data is wrong, as with bad base64
    return base64.b64decode(value, validate=True)  # binascii.Error is a ValueError


PERIOD_SECONDS = 36_000.0
FAILED_SECONDS = 300.0
LULL_SECONDS = 5.0
"""Delay before a requested sweep, so that deletions at the same time share it."""


def remove_orphans(client: Client, namespace: str) -> None:
    """Delete the revisions of deleted BundleDeployments, even if a new one has the same name.

    They are found by type and name; missing labels are restored.

    Args:
        client: of the cluster.
        namespace: of the revision store.

    Raises: ApiError.
    """
    secrets = [  # whole metadata would take tens of MiB
        (make_stored(each), strings(each["metadata"], "labels").get(names.REVISION_LABEL))
        for each in client.list(SECRETS.path(namespace), metadata=True, field_selector=SELECTOR)
    ]
    # After the Secrets, and from the API server, to include those that no watch has reported yet.
    owners = {
        each["metadata"]["name"]: each["metadata"].get("uid", "")
        for each in client.list(DEPLOYMENTS.path(), metadata=True)
    }
    for secret, labelled in secrets:
        owner, path = secret.deployment, SECRETS.path(namespace, secret.name)
        if not owner:
            continue
        try:
            # One that has lost its UID is damaged, but no orphan.
            if owner not in owners or secret.owner_uid not in ("", owners[owner]):
                client.delete(path, uid=secret.uid, resource_version=secret.resource_version)
            elif labelled != owner:
                change = {"metadata": {"labels": {names.REVISION_LABEL: owner}}}
                client.merge_patch(path, change, manager=MANAGER)
        except ApiError as error:  # another client has deleted or changed it
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise


class Sweeper:
    """Calls `sweep` repeatedly, on the thread that calls `run`; `died` gets its exceptions other than ApiError."""

    def __init__(
        self,
        sweep: Callable[[], None],
        died: Callable[[Exception], None],
        *,
        lull: float = LULL_SECONDS,
        period: float = PERIOD_SECONDS,
    ) -> None:
        self._sweep, self._died, self._lull, self._period = sweep, died, lull, period
        self._requested, self._stopped = threading.Event(), threading.Event()

    def request(self) -> None:
        """Request a sweep; returns immediately."""
        self._requested.set()

    def stop(self) -> None:
        """Start no other sweep, and let `run` return."""
        self._stopped.set()
        self._requested.set()

    def run(self) -> None:
        """Sweep until `stop`."""
        while True:
            self._requested.clear()
            if self._stopped.is_set():
                return
            seconds = FAILED_SECONDS
            try:
                self._sweep()
                seconds = self._period
            except ApiError as error:
                log.warning("failed to delete revisions of removed BundleDeployments", extra={"reply": str(error)})
            except Exception as error:  # noqa: BLE001 - the next sweep must run
                self._died(error)
            if self._requested.wait(seconds):
                self._stopped.wait(self._lull)


_BYTES_PER_BYTE = 4
"""Bytes of memory for a byte of text: Python stores characters beyond the basic plane in 4 bytes."""
_BYTES_PER_VALUE = 210
_COPIES = 8 * MEBIBYTE
"""Size of the largest object that an API server accepts, while it is compared and sent."""
_REVISIONS = 2
"""The wanted and the previous one."""


class CrowdedError(Exception):
    """There is no room for a large revision now; the pass is woken when there is some."""


class LargeRevisions:
    """Thread-safe.

    Args:
        admission: of the memory.
        limits: of one revision.
        wake: called with the name of a BundleDeployment when it is its turn.
    """

    def __init__(self, admission: Admission, limits: Limits, wake: Callable[[str], None]) -> None:
        self._admission, self._wake = admission, wake
        # The size of the second one is not known when the first is read.
        self._least = _held(limits.text_bytes, limits.nodes)
        self._entered: dict[str, int] = {}
        """By name, the bytes that the large revisions of a pass take."""
        self._needs: dict[str, int] = {}
        """By name, the bytes that were asked for: a pass that finds that it needs more starts again."""

    def enter(self, name: str, share: str, size: Size) -> bool:
        """Hold memory for a revision before it is unpacked, if it is large; one pass at a time for each name.

        Returns: whether it is large.
        Raises: CrowdedError if the pass must end and come back.
        """
        if size.text_bytes <= INLINE.text_bytes and size.values <= INLINE.nodes:
            return False
        self._entered[name] = self._entered.get(name, 0) + _held(size.text_bytes, size.values)
        needs = max(self._entered[name], _REVISIONS * self._least) + _COPIES
        if needs > self._needs.get(name, 0):
            self._admission.release(name)
            self._needs[name] = needs
        if not self._admission.ask(name, share, self._needs[name], lambda: self._wake(name)):
            del self._entered[name]
            raise CrowdedError
        return True

    def leave(self, name: str) -> None:
        """Release the memory, or the place in the queue, of a pass that has ended."""
        self._entered.pop(name, None)
        self._needs.pop(name, None)
        self._admission.release(name)


def _held(text_bytes: int, values: int) -> int:
    return _BYTES_PER_BYTE * text_bytes + _BYTES_PER_VALUE * values
