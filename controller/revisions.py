"""The revision store: rendered objects, kept in the cluster as Secrets in the controller's namespace (DESIGN, rule 2).

A revision is as many Secrets as its compressed objects take. The one with index 0 is written last and makes the
revision whole: it holds the terms, the number of chunks and the digests that are checked on reading. The Secrets carry
no ownerReference and not the label of managed objects: only this module deletes them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from api import names
from api.bounds import read_count
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.applicable import revision_digest
from controller.kube.client import ApiError, Client
from controller.kube.resources import NAMESPACES, SECRETS
from controller.revision import Revision, digest_of, pack_objects, pack_terms, unpack

CHUNK_BYTES = 512 * 1024
MAX_BYTES = 16 << 20
MANAGER = "rukpak-revisions"
_REVISION = f"{names.GROUP}/revision"
_CHUNKS = f"{names.GROUP}/chunks"
_TERMS_DIGEST = f"{names.GROUP}/terms-digest"


class RevisionStore:
    """Thread-safe. ApiError passes through; callers decide whether a write is worth another try."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    def write(self, name: str, revision: Revision) -> None:
        """Keep a revision of the BundleDeployment `name`; the same one again changes nothing.

        Raises: BundleError (TooLarge), ApiError.
        """
        packed = pack_objects(revision)
        if len(packed) > MAX_BYTES:
            message = (
                f"the rendered objects take {len(packed)} bytes compressed, more than {MAX_BYTES}; split the bundle"
            )
            raise BundleError(Reason.TOO_LARGE, message)
        chunks = [packed[start : start + CHUNK_BYTES] for start in range(0, len(packed), CHUNK_BYTES)]
        for index in reversed(range(1, len(chunks))):
            self._apply(name, revision, index, {"objects": chunks[index]}, {})
        terms = pack_terms(revision)
        annotations = {
            _CHUNKS: str(len(chunks)),
            _TERMS_DIGEST: digest_of(terms),
        }
        self._apply(name, revision, 0, {"objects": chunks[0], "terms": terms}, annotations)

    def _apply(self, name: str, revision: Revision, index: int, data: dict[str, bytes], marks: dict[str, str]) -> None:
        secret_name = _secret_name(name, revision.digest, index)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": secret_name,
                "namespace": self._namespace,
                "labels": {names.REVISION_LABEL: name},
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
        """Return a revision; None if it is not there whole, or not as it was written.

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
            revision = unpack(digest, objects, terms)
            return revision if revision_digest(revision.objects, revision.hooks) == digest else None
        except (ValueError, RecursionError):  # of the digest, too: not every JSON can be written as JSON
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
        """Return the revisions that are kept for a BundleDeployment, newest first."""
        heads = [item["metadata"] for item in self._list(name) if item["metadata"]["name"].endswith(".0")]
        heads.sort(key=lambda metadata: metadata["creationTimestamp"], reverse=True)
        return [metadata.get("annotations", {}).get(_REVISION, "") for metadata in heads]

    def keep_only(self, name: str, digests: Collection[str]) -> None:
        """Remove all other revisions of a BundleDeployment.

        Raises: ApiError.
        """
        for item in self._list(name):
            if item["metadata"].get("annotations", {}).get(_REVISION) not in digests:
                self._delete(item["metadata"]["name"])

    def remove_orphans(self, find_existing: Callable[[], Collection[str]]) -> None:
        """Remove the revisions of BundleDeployments that are gone.

        Args:
            find_existing: returns the names of those that are there; asked when the revisions are listed, as one of a
                BundleDeployment that came meanwhile is no orphan.

        Raises: ApiError.
        """
        items = self._list(None)
        existing = find_existing()
        for item in items:
            if item["metadata"]["labels"][names.REVISION_LABEL] not in existing:
                self._delete(item["metadata"]["name"])

    def _list(self, name: str | None) -> list[dict[str, Any]]:
        selector = names.REVISION_LABEL if name is None else f"{names.REVISION_LABEL}={name}"
        items: Iterable[dict[str, Any]] = self._client.list(
            SECRETS.path(self._namespace), metadata=True, label_selector=selector
        )
        return list(items)

    def _delete(self, secret_name: str) -> None:
        try:
            self._client.delete(SECRETS.path(self._namespace, secret_name))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def _secret_name(name: str, digest: str, index: int) -> str:
    return f"revision.{name}.{digest.removeprefix('sha256:')[:16]}.{index}"


def _count_chunks(marks: Mapping[str, str]) -> int:
    """Return of how many Secrets a revision says that it is; never more than the largest has."""
    return read_count(marks.get(_CHUNKS, ""), MAX_BYTES // CHUNK_BYTES) or 1


def _data(secret: dict[str, Any] | None, key: str) -> bytes:
    """Bytes of a Secret; ValueError if the Secret or the key is missing, or not base64."""
    value = ((secret or {}).get("data") or {}).get(key)
    if not isinstance(value, str):
        raise ValueError(key)  # noqa: TRY004 - what was read is at fault, as with bad base64
    return base64.b64decode(value, validate=True)  # binascii.Error is a ValueError
