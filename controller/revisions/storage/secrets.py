"""The Secrets of the revision store by their metadata: what each one is part of, and whether it is as it was written.

They are watched by type, which nobody can change, so a removed label hides none. Like drift (rule 6), damage shows in
metadata: another client that changes a value takes its field from our managedFields entry. Not here: their content
(store.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from api import names
from api.bounds import read_count
from controller.content.digests import is_digest
from controller.kube.client import ApiError, Client
from controller.kube.resources import SECRETS
from controller.kube.watch.reflector import Reflector

MANAGER = "rukpak-revisions"
REVISION = f"{names.GROUP}/revision"
CHUNKS = f"{names.GROUP}/chunks"
TERMS_DIGEST = f"{names.GROUP}/terms-digest"
RETIRED = f"{names.GROUP}/retired"
"""Marks a revision that is kept only for the history: it names no objects on the cluster."""
MAX_CHUNKS = 32
SELECTOR = f"type={names.REVISION_SECRET_TYPE}"
_NAME = re.compile(r"revision\.(?P<name>.+)\.(?P<digest>[0-9a-f]{16})\.(?P<index>[0-9]{1,9})")


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
    """UID of the BundleDeployment; empty from older releases."""
    digest: str
    """Of the revision."""
    index: int
    chunks: int
    """Of the whole revision, as the Secret with index 0 says."""
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
            client,
            SECRETS.path(namespace),
            field_selector=SELECTOR,
            metadata=True,
            project=make_stored,
            group_of=lambda secret: secret.deployment,
            on_change=self._changed,
            on_synced=synced,
        )

    @property
    def synced(self) -> bool:
        """Whether all Secrets are known; not if the controller may not watch them."""
        return self.reflector.synced and not self.reflector.denied

    def all_of(self, name: str) -> list[StoredSecret]:
        """Return the Secrets of a BundleDeployment, and of earlier ones of its name."""
        return self.reflector.records_of(name)

    def get(self, secret_name: str) -> StoredSecret | None:
        """Return a Secret; None if it does not exist."""
        return self.reflector.get((self.namespace, secret_name))

    def learn(self, manifest: Mapping[str, Any]) -> None:
        """Learn a Secret from the reply to a write of ours."""
        self.reflector.learn(make_stored(manifest))

    def forget(self, secret_name: str) -> None:
        """Learn that we have deleted a Secret."""
        if known := self.get(secret_name):
            self.reflector.forget((self.namespace, secret_name), known.uid)

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
        is_retired=index == 0 and RETIRED in marks,
        is_intact=_is_intact(metadata.get("managedFields") or (), first=index == 0),
    )


def _is_intact(entries: Iterable[Mapping[str, Any]], *, first: bool) -> bool:
    """Whether our managedFields entry still has everything that makes a revision; wiped entries show nothing."""
    found = list(entries)
    if not found:
        return True
    ours = next((each for each in found if (each.get("manager"), each.get("operation")) == (MANAGER, "Apply")), {})
    fields = ours.get("fieldsV1") or {}
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    data = fields.get("f:data") or {}
    marks, keys = ((CHUNKS, TERMS_DIGEST), ("objects", "terms")) if first else ((), ("objects",))
    return all(f"f:{key}" in data for key in keys) and all(f"f:{mark}" in annotations for mark in (REVISION, *marks))


def secret_name(name: str, digest: str, index: int) -> str:
    """Return the name of a Secret of a revision."""
    return f"revision.{name}.{digest.removeprefix('sha256:')[:16]}.{index}"


def deployment_of(secret_name: str) -> str:
    """Return the name of the BundleDeployment of a Secret; empty for a Secret that is not of the store."""
    match = _NAME.fullmatch(secret_name)
    return match["name"] if match else ""


def count_chunks(marks: Mapping[str, str]) -> int:
    """Return the number of Secrets of a revision, at most that of the largest one."""
    return read_count(marks.get(CHUNKS, ""), MAX_CHUNKS) or 1


@contextmanager
def unless(*statuses: HTTPStatus) -> Iterator[None]:
    """Ignore a Secret that another client has deleted or changed, as the API server says by a status."""
    try:
        yield
    except ApiError as error:
        if error.status not in statuses:
            raise
