"""Revisions whose BundleDeployment is gone, because its finalizer was removed: no pass deletes their Secrets."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from api import names
from controller.kube.client import Client
from controller.kube.resources import DEPLOYMENTS, SECRETS
from controller.revisions.storage.secrets import MANAGER, SELECTOR, deployment_of, unless


def remove_orphans(client: Client, namespace: str) -> None:
    """Delete the revisions of deleted BundleDeployments, even if a new one has the same name.

    They are found by type and name; missing labels are restored.

    Args:
        client: of the cluster.
        namespace: of the revision store.

    Raises: ApiError.
    """
    secrets = list(client.list(SECRETS.path(namespace), metadata=True, field_selector=SELECTOR))
    # After the Secrets, and from the API server, to include those that no watch has reported yet.
    owners = {
        each["metadata"]["name"]: each["metadata"].get("uid", "")
        for each in client.list(DEPLOYMENTS.path(), metadata=True)
    }
    for secret in secrets:
        metadata = secret["metadata"]
        owner = deployment_of(metadata["name"])
        if owner and _is_of(metadata, owner, owners):
            _restore_label(client, namespace, metadata, owner)
        elif owner:
            _remove(client, namespace, metadata)


def _is_of(metadata: Mapping[str, Any], name: str, owners: Mapping[str, str]) -> bool:
    """Whether the BundleDeployment of a Secret exists. Older releases recorded no UID."""
    uid = (metadata.get("annotations") or {}).get(names.OWNER_UID, "")
    return name in owners and uid in ("", owners[name])


def _restore_label(client: Client, namespace: str, metadata: Mapping[str, Any], name: str) -> None:
    if (metadata.get("labels") or {}).get(names.REVISION_LABEL) == name:
        return
    labels = {"metadata": {"labels": {names.REVISION_LABEL: name}}}
    with unless(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        client.merge_patch(SECRETS.path(namespace, metadata["name"]), labels, manager=MANAGER)


def _remove(client: Client, namespace: str, metadata: Mapping[str, Any]) -> None:
    """Delete a Secret, unless it has changed since it was listed."""
    path = SECRETS.path(namespace, metadata["name"])
    with unless(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        client.delete(path, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
