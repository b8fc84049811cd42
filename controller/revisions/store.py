"""The revision store: rendered objects, kept in the cluster as Secrets in the controller's namespace (rule 2).

A revision is as many Secrets as its compressed objects need. The one with index 0 is written last and completes the
revision: it contains the terms, the number of chunks, and the digests that are verified on reading. The Secrets have no
ownerReference and not the label of managed objects: only this module deletes them.

All BundleDeployments that act as ServiceAccounts of one namespace share a quota in bytes. No kept revision is deleted
to make room: a new one is refused, and what is installed remains.
"""

from __future__ import annotations

import base64
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from api import names
from api.bounds import read_count
from api.errors import BundleError
from api.plugins import Limits
from api.v1alpha2.conditions import Reason
from controller.build.revision import PackedRevision, Revision, measure, pack, pack_terms, unpack_terms
from controller.content.digests import digest_of
from controller.formats.applicable.applicable import revision_digest
from controller.kube.client import ApiError, Client
from controller.kube.resources import DEPLOYMENTS, NAMESPACES, SECRETS

CHUNK_BYTES = 512 * 1024
MAX_BYTES = 16 << 20
TEXT_BYTES = Limits().text_bytes
"""Of objects and hooks as uncompressed JSON."""
READ_BYTES = 4 * TEXT_BYTES
"""The limit on reading: earlier releases wrote larger revisions."""
MANAGER = "rukpak-revisions"
_REVISION = f"{names.GROUP}/revision"
_CHUNKS = f"{names.GROUP}/chunks"
_TERMS_DIGEST = f"{names.GROUP}/terms-digest"
_BYTES = f"{names.GROUP}/bytes"
_SECRET_NAME = re.compile(r"revision\.(?P<name>.+)\.[0-9a-f]{16}\.[0-9]+")
TENANT_BYTES = 64 << 20


class RevisionStore:
    """Thread-safe; retries nothing.

    Args:
        namespace: of the Secrets.
        tenant_bytes: the quota of all BundleDeployments that act as ServiceAccounts of one namespace.
    """

    def __init__(self, client: Client, namespace: str, tenant_bytes: int = TENANT_BYTES) -> None:
        self._client, self._namespace, self._tenant_bytes = client, namespace, tenant_bytes
        self._being_written: Counter[str] = Counter()
        self._lock = threading.Lock()

    def write(self, name: str, revision: Revision | PackedRevision, uid: str = "") -> None:
        """Keep a revision of a BundleDeployment; idempotent.

        Args:
            name: of the BundleDeployment.
            revision: to keep.
            uid: of the BundleDeployment, so that a later one of the same name does not get its revisions.

        Raises: BundleError (TooLarge, QuotaExceeded), ApiError.
        """
        packed = (revision if isinstance(revision, PackedRevision) else pack(revision)).objects
        _refuse_large(packed)
        terms = pack_terms(revision)
        size = len(packed) + len(terms)
        chunks = [packed[start : start + CHUNK_BYTES] for start in range(0, len(packed), CHUNK_BYTES)]
        own = {names.OWNER_UID: uid} if uid else {}
        annotations = {_CHUNKS: str(len(chunks)), _TERMS_DIGEST: digest_of(terms), _BYTES: str(size), **own}
        with self._room(_secret_name(name, revision.digest, 0), _tenant(revision), size):
            for index in reversed(range(1, len(chunks))):
                self._apply(name, revision, index, {"objects": chunks[index]}, own)
            self._apply(name, revision, 0, {"objects": chunks[0], "terms": terms}, annotations)

    @contextmanager
    def _room(self, secret_name: str, tenant: str, size: int) -> Iterator[None]:
        """Refuse a new revision above the quota of its tenant, which includes revisions that are being written."""
        if not tenant:
            yield
            return
        with self._lock:
            self._being_written[tenant] += size
            wanted = self._being_written[tenant]
        try:
            kept = self._kept_bytes(tenant)
            if secret_name not in kept and sum(kept.values()) + wanted > self._tenant_bytes:
                raise self._exceeded(tenant, size)
            yield
        finally:
            with self._lock:
                self._being_written[tenant] -= size

    def _kept_bytes(self, tenant: str) -> dict[str, int]:
        """Return the bytes of each kept revision of a tenant, by the name of its first Secret."""
        found: dict[str, int] = {}
        for item in self._list(f"{names.REVISION_NAMESPACE_LABEL}={tenant}"):
            text = item["metadata"].get("annotations", {}).get(_BYTES, "")
            if text.isascii() and text.isdecimal():
                found[item["metadata"]["name"]] = int(text)
        return found

    def _exceeded(self, tenant: str, size: int) -> BundleError:
        message = (
            f"the rendered objects take {size} bytes compressed, which exceeds the quota of {self._tenant_bytes >> 20} "
            f'MiB for all revisions of namespace "{tenant}"; delete BundleDeployments, make the bundle smaller, or ask '
            "the administrator to raise --revision-mebibytes"
        )
        return BundleError(Reason.QUOTA_EXCEEDED, message)

    def _apply(
        self, name: str, revision: Revision | PackedRevision, index: int, data: dict[str, bytes], marks: dict[str, str]
    ) -> None:
        secret_name = _secret_name(name, revision.digest, index)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret_name,
                "namespace": self._namespace,
                "labels": _labels(name, revision),
                "annotations": {_REVISION: revision.digest, **marks},
            },
            "type": names.REVISION_SECRET_TYPE,
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        path = SECRETS.path(self._namespace, secret_name)
        try:
            self._client.apply(path, body, manager=MANAGER, force=True)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:  # the namespace
                raise
            self._create_namespace()
            self._client.apply(path, body, manager=MANAGER, force=True)

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
        first = self._get(_secret_name(name, digest, 0))
        if first is None:
            return None
        marks = first["metadata"].get("annotations") or {}
        others = [self._get(_secret_name(name, digest, index)) for index in range(1, _count_chunks(marks))]
        try:
            objects = b"".join(_data(secret, "objects") for secret in [first, *others])
            terms = _data(first, "terms")
            if digest_of(terms) != marks.get(_TERMS_DIGEST):
                return None
            return unpack_terms(digest, terms, objects)
        except ValueError:
            return None

    def _get(self, secret_name: str) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = self._client.get(SECRETS.path(self._namespace, secret_name)).value
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return value

    def digests(self, name: str) -> list[str]:
        """Return the digests of the kept revisions of a BundleDeployment, newest first.

        Raises: ApiError.
        """
        heads = [
            item["metadata"]
            for item in self._list(f"{names.REVISION_LABEL}={name}")
            if item["metadata"]["name"].endswith(".0")
        ]
        heads.sort(key=lambda metadata: metadata["creationTimestamp"], reverse=True)
        return [metadata.get("annotations", {}).get(_REVISION, "") for metadata in heads]

    def keep_only(self, name: str, digests: Collection[str]) -> None:
        """Delete all other revisions of a BundleDeployment.

        Raises: ApiError.
        """
        for item in self._list(f"{names.REVISION_LABEL}={name}"):
            if item["metadata"].get("annotations", {}).get(_REVISION) not in digests:
                self._delete(item["metadata"]["name"])

    def remove_orphans(self) -> None:
        """Delete the revisions of deleted BundleDeployments, even if a new one has the same name.

        They are found by type and name; missing labels are restored.

        Raises: ApiError.
        """
        secrets = self._list(field_selector=f"type={names.REVISION_SECRET_TYPE}")
        # After the Secrets, and from the API server, to include those that no watch has reported yet.
        owners = {
            each["metadata"]["name"]: each["metadata"].get("uid", "")
            for each in self._client.list(DEPLOYMENTS.path(), metadata=True)
        }
        for secret in secrets:
            metadata = secret["metadata"]
            match = _SECRET_NAME.fullmatch(metadata["name"])
            if match and _is_of(metadata, match["name"], owners):
                self._restore_label(metadata, match["name"])
            elif match:
                self._remove(metadata)

    def _restore_label(self, metadata: Mapping[str, Any], name: str) -> None:
        if (metadata.get("labels") or {}).get(names.REVISION_LABEL) == name:
            return
        labels = {"metadata": {"labels": {names.REVISION_LABEL: name}}}
        with _unless_gone():
            self._client.merge_patch(SECRETS.path(self._namespace, metadata["name"]), labels, manager=MANAGER)

    def _remove(self, metadata: Mapping[str, Any]) -> None:
        """Delete a Secret, unless it has changed since it was listed."""
        path = SECRETS.path(self._namespace, metadata["name"])
        with _unless_gone():
            self._client.delete(path, uid=metadata["uid"], resource_version=metadata["resourceVersion"])

    def _list(self, label_selector: str = "", *, field_selector: str = "") -> list[dict[str, Any]]:
        path = SECRETS.path(self._namespace)
        return list(
            self._client.list(path, metadata=True, label_selector=label_selector, field_selector=field_selector)
        )

    def _delete(self, secret_name: str) -> None:
        with _unless_gone():
            self._client.delete(SECRETS.path(self._namespace, secret_name))


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Ignore a Secret that another client has deleted or changed."""
    try:
        yield
    except ApiError as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise


def _is_of(metadata: Mapping[str, Any], name: str, owners: Mapping[str, str]) -> bool:
    """Whether the BundleDeployment of a Secret exists. Older releases recorded no UID."""
    uid = (metadata.get("annotations") or {}).get(names.OWNER_UID, "")
    return name in owners and uid in ("", owners[name])


def _tenant(revision: Revision | PackedRevision) -> str:
    """Return the namespace of the account that applies a revision; empty for the controller."""
    return revision.terms.install_namespace if revision.terms.service_account_name else ""


def _labels(name: str, revision: Revision | PackedRevision) -> dict[str, str]:
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


def _secret_name(name: str, digest: str, index: int) -> str:
    return f"revision.{name}.{digest.removeprefix('sha256:')[:16]}.{index}"


def _count_chunks(marks: Mapping[str, str]) -> int:
    """Return the number of Secrets of a revision, at most that of the largest one."""
    return read_count(marks.get(_CHUNKS, ""), MAX_BYTES // CHUNK_BYTES) or 1


def _data(secret: dict[str, Any] | None, key: str) -> bytes:
    """Return the bytes of a key; ValueError if the Secret or the key is missing, or not base64."""
    value = ((secret or {}).get("data") or {}).get(key)
    if not isinstance(value, str):
        raise ValueError(key)  # noqa: TRY004 - the data is wrong, as with bad base64
    return base64.b64decode(value, validate=True)  # binascii.Error is a ValueError
