"""The revision store: rendered objects, kept in the cluster as Secrets in the controller's namespace (rule 2).

A revision is as many Secrets as its compressed objects need. The one with index 0 is written last and completes the
revision: it contains the terms, the number of chunks, and the digests that are verified on reading. The Secrets have no
ownerReference and not the label of managed objects: only this module and `orphans` delete them.

A revision that is only part of the history is retired, by an annotation: nothing on the cluster belongs to it, so it is
neither repaired nor pruned nor deleted. It is recalled before it is applied again.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from api import names
from api.errors import BundleError
from api.plugins import Limits
from api.v1alpha2.conditions import Reason
from controller.build.revision import PackedRevision, Revision, measure, pack, pack_terms, unpack_terms
from controller.content.digests import digest_of, is_digest
from controller.formats.applicable.applicable import revision_digest
from controller.kube.client import ApiError, Client
from controller.kube.resources import DEPLOYMENTS, NAMESPACES, SECRETS
from controller.revisions.storage.quota import BYTES, TENANT_BYTES, Quota
from controller.revisions.storage.secrets import (
    CHUNKS,
    MANAGER,
    MAX_CHUNKS,
    RETIRED,
    REVISION,
    TERMS_DIGEST,
    RevisionSecrets,
    StoredSecret,
    count_chunks,
    make_stored,
    secret_name,
    unless,
)

log = logging.getLogger(__name__)

CHUNK_BYTES = 512 * 1024
MAX_BYTES = MAX_CHUNKS * CHUNK_BYTES
TEXT_BYTES = Limits().text_bytes
"""Of objects and hooks as uncompressed JSON."""
READ_BYTES = 4 * TEXT_BYTES
"""The limit on reading: earlier releases wrote larger revisions."""


class RevisionStore:
    """Thread-safe; retries nothing.

    Args:
        secrets: what is known of the Secrets, and their namespace.
        tenant_bytes: the quota of all BundleDeployments that act as ServiceAccounts of one namespace.
    """

    def __init__(self, client: Client, secrets: RevisionSecrets, tenant_bytes: int = TENANT_BYTES) -> None:
        self._client, self._secrets = client, secrets
        self._namespace = secrets.namespace
        self._quota = Quota(tenant_bytes, self._list_tenant, self.drop)

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
        with self._quota.room(_tenant(packed), secret_name(name, packed.digest, 0), size):
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
        """Whether a BundleDeployment exists and is not being deleted: watches may lag behind another process."""
        try:
            metadata = self._client.get(DEPLOYMENTS.path(name=name), metadata=True).value["metadata"]
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return uid in ("", metadata["uid"]) and not metadata.get("deletionTimestamp")

    def is_lost(self, name: str, digest: str) -> bool:
        """Whether another client has deleted or changed a Secret of a revision; False while that is not known."""
        return self._secrets.is_lost(name, digest)

    def _apply(
        self, name: str, revision: PackedRevision, index: int, data: dict[str, bytes], marks: dict[str, str]
    ) -> StoredSecret:
        own_name = secret_name(name, revision.digest, index)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": own_name,
                "namespace": self._namespace,
                "labels": _labels(name, revision),
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
        try:
            value: dict[str, Any] = self._client.get(SECRETS.path(self._namespace, own_name)).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return value

    def digests(self, name: str, uid: str = "") -> list[str]:
        """Return the digests of the revisions that may have objects on the cluster, newest first; not the retired ones.

        They are read from the watch if it can.

        Args:
            name: of the BundleDeployment.
            uid: leaves out the revisions of an earlier one of this name.

        Raises: ApiError.
        """
        heads = [each for each in self._heads(name, uid) if not each.is_retired]
        return [each.digest for each in sorted(heads, key=lambda head: head.created, reverse=True)]

    def has(self, name: str, digest: str, uid: str = "") -> bool:
        """Return whether a revision of a BundleDeployment is stored, retired or not.

        Args:
            name: of the BundleDeployment.
            digest: of the revision.
            uid: of the BundleDeployment: not the revisions of an earlier one of this name.

        Raises: ApiError.
        """
        head = self._head(name, digest)
        return head is not None and head.digest == digest and uid in ("", head.owner_uid or uid)

    def is_retired(self, name: str, digest: str) -> bool:
        """Return whether a revision is stored only for the history.

        Raises: ApiError.
        """
        head = self._head(name, digest)
        return head is not None and head.is_retired

    def _head(self, name: str, digest: str) -> StoredSecret | None:
        own_name = secret_name(name, digest, 0)
        if self._secrets.synced:
            return self._secrets.get(own_name)
        return next((each for each in self._list_all(name) if each.name == own_name), None)

    def retired(self, name: str, uid: str = "") -> list[str]:
        """Return the digests of the revisions that are only part of the history; see `digests`.

        Raises: ApiError.
        """
        return [each.digest for each in self._heads(name, uid) if each.is_retired]

    def _heads(self, name: str, uid: str) -> list[StoredSecret]:
        found = self._secrets.all_of(name) if self._secrets.synced else self._list_all(name)
        return [each for each in found if each.index == 0 and each.digest and uid in ("", each.owner_uid or uid)]

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
        change = {"metadata": {"annotations": {RETIRED: retired}}}
        with unless(HTTPStatus.NOT_FOUND):
            path = SECRETS.path(self._namespace, own_name)
            self._secrets.learn(self._client.merge_patch(path, change, manager=MANAGER, metadata=True).value)

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
        return [make_stored(item) for item in self._list(f"{names.REVISION_LABEL}={name}")]

    def _list_tenant(self, tenant: str) -> list[dict[str, Any]]:
        return self._list(f"{names.REVISION_NAMESPACE_LABEL}={tenant}")

    def _list(self, label_selector: str) -> list[dict[str, Any]]:
        return list(self._client.list(SECRETS.path(self._namespace), metadata=True, label_selector=label_selector))

    def _delete(self, own_name: str) -> None:
        with unless(HTTPStatus.NOT_FOUND):
            self._client.delete(SECRETS.path(self._namespace, own_name))
        self._secrets.forget(own_name)


def _tenant(revision: PackedRevision) -> str:
    """Return the namespace of the account that applies a revision; empty for the controller."""
    return revision.terms.install_namespace if revision.terms.service_account_name else ""


def _labels(name: str, revision: PackedRevision) -> dict[str, str]:
    tenant = _tenant(revision)
    return {names.REVISION_LABEL: name} | ({names.REVISION_NAMESPACE_LABEL: tenant} if tenant else {})


def unpack_whole(packed: PackedRevision) -> Revision | None:
    """Return a revision; None if it is damaged."""
    try:
        if measure(packed.objects).text_bytes > READ_BYTES:
            return None
        revision = packed.unpacked()
        return revision if revision_digest(revision.objects, revision.hooks) == packed.digest else None
    except (ValueError, RecursionError):  # also from the digest: not all parsed JSON can be serialized
        return None


def _refuse_large(packed: bytes) -> None:
    size = measure(packed).text_bytes
    if size > TEXT_BYTES:
        problem = f"take {size} bytes as JSON, more than {TEXT_BYTES}"
    elif len(packed) > MAX_BYTES:
        problem = f"take {len(packed)} bytes compressed, more than {MAX_BYTES}"
    else:
        return
    raise BundleError(Reason.TOO_LARGE, f"the rendered objects {problem}; split the bundle")


def _data(secret: dict[str, Any] | None, key: str) -> bytes:
    """Return the bytes of a key; ValueError if the Secret or the key is missing, or not base64."""
    value = ((secret or {}).get("data") or {}).get(key)
    if not isinstance(value, str):
        raise ValueError(key)  # noqa: TRY004 - the data is wrong, as with bad base64
    return base64.b64decode(value, validate=True)  # binascii.Error is a ValueError
