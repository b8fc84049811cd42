"""A release of Helm: its objects, and the Secrets or ConfigMaps in which Helm keeps it.

Helm knows a release by these alone: without them it neither lists nor deletes anything. Each contains the release as
gzipped JSON (Helm, pkg/storage/driver/util.go).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api.errors import BundleError
from controller.cli.adoption.origin import Origin, UnusableOriginError
from controller.formats.objects import collect_objects
from controller.formats.yaml.manifests import read_documents
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.resources import GroupVersionKind
from controller.observe.records import ObjectKey, key_of
from controller.untrusted import mapping

MOST_BYTES = 64 << 20
"""Of a release as JSON; etcd limits what is stored of it to 1.5 MiB."""
_BUSY = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Helm."""

    paths: tuple[str, ...]
    """Of the Secrets or ConfigMaps, the oldest revision first."""
    names: tuple[str, ...]
    """Of the same: `Secret blog/sh.helm.release.v1.blog.v1`."""
    objects: Mapping[ObjectKey, Mapping[str, Any]]
    """Of its latest revision, as Helm has rendered them, without hooks."""


def find_release(client: Client, discovery: Discovery, origin: Origin) -> Release:
    """Return the release that `--from` names.

    Raises: UnusableOriginError if it does not exist, cannot be read, or Helm is changing it; ApiError.
    """
    for plural, kind in (("secrets", "Secret"), ("configmaps", "ConfigMap")):
        folder = f"/api/v1/namespaces/{origin.namespace}/{plural}"
        selector = f"owner=helm,name={origin.name}"
        found = sorted(client.list(folder, label_selector=selector), key=_revision)
        if found:
            return _read(discovery, origin, kind, folder, found)
    raise UnusableOriginError(f'{origin}: not found; "helm list --all-namespaces" shows releases')


def delete_release(client: Client, release: Release) -> None:
    """Delete what Helm keeps of a release, the oldest revision first, so that an interruption leaves the latest.

    Raises: ApiError.
    """
    for path in release.paths:
        client.delete(path)


def _revision(stored: Mapping[str, Any]) -> int:
    text = str((stored["metadata"].get("labels") or {}).get("version", ""))
    return int(text) if text.isdecimal() else 0


def _read(discovery: Discovery, origin: Origin, kind: str, folder: str, found: list[dict[str, Any]]) -> Release:
    latest = found[-1]
    status = str((latest["metadata"].get("labels") or {}).get("status", ""))
    if status in _BUSY:
        raise UnusableOriginError(f"{origin}: is {status}: wait for Helm, or roll it back with Helm first")
    names = [each["metadata"]["name"] for each in found]
    text = str((latest.get("data") or {}).get("release", ""))
    try:
        manifest = _decode(text, is_secret=kind == "Secret")
        objects = collect_objects(read_documents(manifest.encode(), "manifest", strict=False))
    except (ValueError, BundleError) as error:
        raise UnusableOriginError(f"{origin}: {kind} {names[-1]} cannot be read: {error}") from None
    return Release(
        paths=tuple(f"{folder}/{name}" for name in names),
        names=tuple(f"{kind} {origin.namespace}/{name}" for name in names),
        objects=dict(_place(objects, origin.namespace, discovery)),
    )


def _decode(text: str, *, is_secret: bool) -> str:
    """Return the manifest of a stored release.

    Raises: ValueError.
    """
    try:
        data = base64.b64decode(base64.b64decode(text) if is_secret else text)
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            release = json.loads(packed.read(MOST_BYTES))
    except (binascii.Error, OSError, EOFError, zlib.error, ValueError):
        raise ValueError("it is not a release of Helm") from None
    return str(mapping(release).get("manifest") or "")


def _place(
    objects: list[dict[str, Any]], namespace: str, discovery: Discovery
) -> Iterator[tuple[ObjectKey, Mapping[str, Any]]]:
    """Yield objects by key; namespaced ones without a namespace are in that of the release."""
    for each in objects:
        key = key_of(each)
        resource = discovery.resource(GroupVersionKind.of(each))
        place = (key.namespace or namespace) if resource and resource.namespaced else ""
        yield key._replace(namespace=place), each
