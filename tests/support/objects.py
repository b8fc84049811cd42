"""Objects for bundles, each as small as its kind allows, what is asked about objects on a cluster, and where."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rukpak.api import names
from rukpak.controller.playground.cluster import Cluster
from tests.support.bundles import Manifest, definition, delete_namespace
from tests.support.inside import ApiError, Client, connect

NOBODY = "https://127.0.0.1:1/"
"""An address at which nothing listens."""


def labelled(manifest: Manifest, **metadata: Any) -> Manifest:
    """Return an object with more metadata."""
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def make(api_version: str, kind: str, name: str, **content: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def secret(name: str, **data: str) -> Manifest:
    return make("v1", "Secret", name, stringData=data)


def service(name: str, *ports: int) -> Manifest:
    listed = [{"name": f"p{index}", "port": port} for index, port in enumerate(ports or (80,))]
    return make("v1", "Service", name, spec={"selector": {"app": name}, "ports": listed})


def template(name: str) -> Manifest:
    """Return the template of pods that are healthy as soon as they are ready, since their container has a probe."""
    container = {
        "name": "main",
        "image": "example.com/main:1",
        "ports": [{"name": "web", "containerPort": 8080}],
        "readinessProbe": {"tcpSocket": {"port": "web"}},
    }
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def deployment(name: str, replicas: int = 0) -> Manifest:
    """Return a Deployment; without replicas it is healthy on a cluster without nodes."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return make("apps/v1", "Deployment", name, spec=spec)


def job(name: str, **spec: Any) -> Manifest:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main:1"}]}
    return make("batch/v1", "Job", name, spec={"template": {"spec": pod}, **spec})


def claim(name: str) -> Manifest:
    """Return a PersistentVolumeClaim that nothing binds, which prune does not wait for."""
    request = {"requests": {"storage": "1Gi"}}
    return make("v1", "PersistentVolumeClaim", name, spec={"accessModes": ["ReadWriteOnce"], "resources": request})


def namespace(name: str) -> Manifest:
    return make("v1", "Namespace", name)


def custom(group: str, kind: str, name: str, **content: Any) -> Manifest:
    return make(f"{group}/v1", kind, name, **content)


def cluster_definition(group: str, kind: str) -> Manifest:
    """Return the CustomResourceDefinition of a kind without namespace."""
    manifest = definition(group, kind)
    return {**manifest, "spec": {**manifest["spec"], "scope": "Cluster"}}


def webhook(name: str, group: str = "nothing.example.com") -> Manifest:
    """Return a webhook configuration without a server behind it, for one API group that does not exist."""
    rules = [{"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["*"]}]
    hook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": NOBODY},
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return make("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", name, webhooks=[hook])


# on a cluster


def read(client: Client, path: str) -> Manifest | None:
    """Return an object; None if it does not exist."""
    try:
        value: Manifest = client.get(path).value
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return value


def remove(client: Client, path: str) -> None:
    """Delete an object with its finalizers, if it exists."""
    try:
        client.merge_patch(path, {"metadata": {"finalizers": None}})
        client.delete(path)
    except ApiError as error:
        if error.status != 404:
            raise


def is_owned(value: Mapping[str, Any], name: str) -> bool:
    """Whether an object carries label and annotations of a BundleDeployment."""
    metadata = value["metadata"]
    annotations = metadata.get("annotations") or {}
    marked = names.OWNER_UID in annotations and names.APPLIED_DIGEST in annotations
    return (metadata.get("labels") or {}).get(names.OWNER_LABEL) == name and marked


def is_released(value: Mapping[str, Any], name: str) -> bool:
    """Whether a BundleDeployment has released an object: its annotation says so, and no other mark is left."""
    metadata = value["metadata"]
    annotations = metadata.get("annotations") or {}
    left = [names.OWNER_LABEL in (metadata.get("labels") or {}), names.OWNER_UID in annotations]
    appliers = {e.get("manager") for e in metadata.get("managedFields") or [] if e.get("operation") == "Apply"}
    left += [names.APPLIED_DIGEST in annotations, names.field_manager(name) in appliers]
    return annotations.get(names.RELEASED_FROM) == name and not any(left) and not metadata.get("ownerReferences")


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
    """Make a namespace, and delete it afterwards if the cluster stays."""
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")
    name = f"facts-{uuid.uuid4().hex[:8]}"
    client.create("/api/v1/namespaces", make("v1", "Namespace", name))
    yield Place(client, name)
    delete_namespace(cluster, client, name)


def managers(value: Manifest) -> dict[str, str]:
    """Return the operations of all managers of an object."""
    return {entry["manager"]: entry["operation"] for entry in value["metadata"].get("managedFields", ())}
