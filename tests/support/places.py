"""A namespace in which a test finds out what the API server does, with no code of the controller but its client."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hack.control_plane.cluster import Cluster
from tests.support.bundles import Manifest
from tests.support.inside import ApiError, Client, connect
from tests.support.objects import make

OURS = "rukpak/x"
CORE, APPS = "/api/v1", "/apis/apps/v1"


class Place:
    """A namespace of a test's own."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    def path(self, plural: str, name: str = "a", prefix: str = CORE) -> str:
        return f"{prefix}/namespaces/{self.namespace}/{plural}/{name}"

    def apply(self, path: str, manifest: Manifest, manager: str = OURS, *, force: bool = True) -> Manifest:
        place = {"namespace": self.namespace}
        body = {**manifest, "metadata": {**manifest["metadata"], **place}}
        value: Manifest = self.client.apply(path, body, manager=manager, force=force, metadata=False).value
        return value


@contextmanager
def new_place(cluster: Cluster) -> Iterator[Place]:
    """Make a namespace, and delete it afterwards."""
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")
    name = f"facts-{uuid.uuid4().hex[:8]}"
    client.create("/api/v1/namespaces", make("v1", "Namespace", name))
    yield Place(client, name)
    with suppress(ApiError):  # a test may have deleted it
        client.delete(f"/api/v1/namespaces/{name}")


def managers(value: Manifest) -> dict[str, str]:
    """Return the operations of all managers of an object."""
    return {entry["manager"]: entry["operation"] for entry in value["metadata"].get("managedFields", ())}
