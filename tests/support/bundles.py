"""Bundles and BundleDeployments on a cluster with a running controller.

A `World` is a cluster with the CustomResourceDefinition, a registry and a controller; `World.deploy` pushes a bundle
and applies a BundleDeployment of it, with names and an install namespace of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from rukpak.api import names
from rukpak.controller.playground.cluster import Cluster, ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from tests.support.controller import Controller
from tests.support.inside import ApiError, Client, connect, read_documents
from tests.support.registry import Files, RegistryClient

Value = TypeVar("Value")
Manifest = dict[str, Any]

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = f"/apis/{names.GROUP}/v1alpha2/{names.PLURAL}"
STORE = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/secrets"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{names.DEFAULT_NAMESPACE}/leases"
CONTROLLER_AGENT = "rukpak/"
SECONDS = 60.0
"""Deadline for what takes less than a second on an idle machine, so that no test fails on a busy one."""
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


# bundles


def config_map(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"color": "blue"}}


def refused_config_map(name: str, **data: str) -> Manifest:
    """Return a ConfigMap that the API server refuses, for `immutable` is a string."""
    return {**config_map(name, **data), "immutable": "yes"}


def definition(group: str, kind: str) -> Manifest:
    """Return a CustomResourceDefinition of a namespaced kind that takes any spec."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


def bundle_of(*manifests: Manifest) -> dict[str, bytes]:
    """Return the files of a plain bundle, one for each object."""
    return {f"manifests/{index:04}.json": json.dumps(value).encode() for index, value in enumerate(manifests)}


def image(ref: str, destination: str = "") -> Manifest:
    """Return an entry of spec.sources."""
    return {"kind": "image", "image": {"ref": ref}} | ({"destination": destination} if destination else {})


# BundleDeployments


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One BundleDeployment on a cluster."""

    client: Client
    name: str
    ref: str
    """Reference of the image that it was created with."""
    wait: Callable[[Callable[[], Any], str], Any]

    @property
    def path(self) -> str:
        return f"{DEPLOYMENTS}/{self.name}"

    @property
    def namespace(self) -> str:
        """The install namespace, which has the same name."""
        return self.name

    def read(self) -> Manifest:
        value: Manifest = self.client.get(self.path).value
        return value

    def status(self) -> Manifest:
        status: Manifest = self.read().get("status") or {}
        return status

    def conditions(self) -> dict[str, Manifest]:
        """Return the conditions of the current generation, by type."""
        value = self.read()
        found = (value.get("status") or {}).get("conditions") or []
        current = value["metadata"]["generation"]
        return {condition["type"]: condition for condition in found if condition["observedGeneration"] == current}

    def change(self, *, metadata: Manifest | None = None, **spec: Any) -> None:
        """Change fields of spec and metadata; None removes one."""
        self.client.merge_patch(self.path, {"metadata": metadata or {}, "spec": spec}, manager="tests")

    def request_reconcile(self, value: str) -> None:
        self.change(metadata={"annotations": {names.RECONCILE_REQUESTED_AT: value}})

    def wait_for(self, condition: str, status: str = "True", reason: str = "", saying: str = "") -> Manifest:
        """Wait for a condition at the current generation, and return it."""

        def find() -> Manifest | None:
            found = self.conditions().get(condition)
            matches = found and found["status"] == status and reason in ("", found["reason"])
            return found if found and matches and saying in found["message"] else None

        found: Manifest = self.wait(find, f"{self.name}: {condition}={status} {reason} {saying}")
        return found

    def wait_ready(self) -> Manifest:
        """Wait until it is Ready, and return its status."""
        self.wait_for("Ready")
        return self.status()

    def wait_installed(self, revision_before: str) -> Manifest:
        """Wait until another revision than this one is Ready, and return its status."""

        def find() -> Manifest | None:
            status = self.status()
            installed = status.get("installedRevision", "")
            ready = self.conditions().get("Ready", {}).get("status") == "True"
            return status if ready and installed != revision_before and status.get("managedState") else None

        status: Manifest = self.wait(find, f"{self.name}: another revision than {revision_before}")
        return status

    def delete(self) -> None:
        self.client.delete(self.path)

    def wait_gone(self) -> None:
        self.wait(lambda: not exists(self.client, self.path), f"{self.name} gone")

    # its objects

    def path_of(self, name: str, plural: str = "configmaps", prefix: str = "/api/v1") -> str:
        return f"{prefix}/namespaces/{self.namespace}/{plural}/{name}"

    def get(self, name: str, plural: str = "configmaps", prefix: str = "/api/v1") -> Manifest | None:
        """Return one object in its namespace; None if it does not exist."""
        try:
            value: Manifest = self.client.get(self.path_of(name, plural, prefix)).value
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return value

    def data(self, name: str) -> Manifest | None:
        """Return the data of a ConfigMap; None if it does not exist."""
        found = self.get(name)
        return found["data"] if found else None

    def edit(self, name: str, **data: str) -> None:
        """Change a ConfigMap as another client."""
        self.client.merge_patch(self.path_of(name), {"data": data}, manager="somebody")

    def remove(self, name: str) -> None:
        """Delete a ConfigMap as another client."""
        self.client.delete(self.path_of(name))

    def objects(self) -> dict[str, Manifest]:
        """Return the ConfigMaps in its namespace that carry its label, by name."""
        selector = f"{names.OWNER_LABEL}={self.name}"
        found = self.client.list(f"/api/v1/namespaces/{self.namespace}/configmaps", label_selector=selector)
        return {value["metadata"]["name"]: value for value in found}

    def versions(self) -> dict[str, str]:
        """Return the resourceVersion of each of its ConfigMaps, which changes with every effective write."""
        return {name: value["metadata"]["resourceVersion"] for name, value in self.objects().items()}

    def revisions(self) -> list[Manifest]:
        """Return the Secrets that store its revisions."""
        return list(self.client.list(STORE, label_selector=f"{names.REVISION_LABEL}={self.name}"))

    def events(self) -> dict[str, str]:
        """Return the messages of its Events, by reason."""
        selector = f"involvedObject.name={self.name}"
        found = self.client.list("/api/v1/namespaces/default/events", field_selector=selector)
        return {event["reason"]: event["message"] for event in found}

    def all_events(self, reason: str) -> set[str]:
        """Return the messages of all its Events of a reason."""
        selector = f"involvedObject.name={self.name},reason={reason}"
        found = self.client.list("/api/v1/namespaces/default/events", field_selector=selector)
        return {event["message"] for event in found}


# the world around them


@dataclass(kw_only=True)
class World:
    """A cluster with the CustomResourceDefinition, a registry, and a controller."""

    cluster: Cluster
    registry: RegistryClient
    controller: Controller
    store: Path
    """The content store of the controller."""
    client: Client
    deployed: list[Deployed] = field(default_factory=list)

    def push(self, repository: str, *layers: Manifest | Files, tag: str = "v1") -> str:
        """Push an image of objects or files, and return its reference by tag."""
        manifests = [cast("Manifest", layer) for layer in layers if "kind" in layer]
        files: list[Files] = [layer for layer in layers if "kind" not in layer]
        self.registry.push_image(repository, tag, [*files, *([bundle_of(*manifests)] if manifests else [])])
        return f"{self.registry.host}/{repository}:{tag}"

    def deploy(
        self, *layers: Manifest | Files, name: str = "", ref: str = "", labels: Any = None, **spec: Any
    ) -> Deployed:
        """Push a bundle (unless a reference is given) and apply a BundleDeployment of it."""
        name = name or new_name()
        ref = ref or self.push(name, *layers)
        deployed = Deployed(client=self.client, name=name, ref=ref, wait=self.wait)
        self.deployed.append(deployed)
        self.apply(name, labels, **{"sources": [image(ref)], "installNamespace": name, **spec})
        return deployed

    def apply(self, name: str, labels: Manifest | None = None, /, **spec: Any) -> None:
        """Apply a BundleDeployment, as `kubectl apply --server-side` does."""
        body = {
            "apiVersion": f"{names.GROUP}/v1alpha2",
            "kind": names.KIND,
            "metadata": {"name": name, **({"labels": labels} if labels else {})},
            "spec": {"format": "plain", **{key: value for key, value in spec.items() if value is not None}},
        }
        self.client.apply(f"{DEPLOYMENTS}/{name}", body, manager="tests", force=True)

    def wait(self, condition: Callable[[], Value | None], describe: str, seconds: float = SECONDS) -> Value:
        """Wait while the controller runs; return the first true value."""
        found: list[Value] = []

        def check() -> bool:
            value = condition()
            if value:
                found.append(value)
            return bool(value)

        self.controller.wait_for(check, seconds, describe)
        return found[0]

    def restart(self) -> None:
        """Kill the controller and start it again."""
        self.controller.kill()
        self.controller.start()

    def wait_until_looked_at(self) -> None:
        """Wait until the controller has handled everything queued so far: its one worker takes all in turn."""
        self.deploy(config_map("last")).wait_ready()

    # requests of the controller

    def position(self) -> int:
        return self._control_plane().audit_position()

    def requests(self, since: int) -> list[str]:
        """Return the controller's requests since then as verb and URI, without watches and its Lease."""
        events = self._control_plane().audit_requests(since)
        ours = [event for event in events if event.get("userAgent", "").startswith(CONTROLLER_AGENT)]
        asked = [f"{event['verb']} {event['requestURI']}" for event in ours if event["verb"] != "watch"]
        return [request for request in asked if LEASES not in request]

    def watched(self, since: int) -> set[str]:
        """Return the collections that the controller has started to watch since then."""
        events = self._control_plane().audit_requests(since)
        ours = [event for event in events if event.get("userAgent", "").startswith(CONTROLLER_AGENT)]
        return {event["requestURI"].partition("?")[0] for event in ours if event["verb"] == "watch"}

    def requests_about(self, name: str, since: int) -> list[str]:
        """Return the controller's requests since then that name a BundleDeployment or its namespace."""
        return [request for request in self.requests(since) if name in request]

    def writes(self, since: int) -> list[str]:
        """Return the controller's writes since then, Events included."""
        return [request for request in self.requests(since) if request.partition(" ")[0] in WRITES]

    def _control_plane(self) -> ControlPlane:
        assert isinstance(self.cluster, ControlPlane)
        return self.cluster

    def clean_up(self) -> None:
        """Delete all BundleDeployments of this world, and their namespaces, if the cluster stays."""
        if self.deployed and not self.controller.is_running():
            self.controller.start()
        for deployed in self.deployed:
            if exists(self.client, deployed.path):
                deployed.delete()
        for deployed in self.deployed:
            deployed.wait_gone()
            delete_namespace(self.cluster, self.client, deployed.namespace)
        self.deployed.clear()


@contextmanager
def new_world(
    cluster: Cluster,
    registry: RegistryClient,
    running: Path,
    *options: str,
    is_shared: bool = True,
    kubeconfig: Path | None = None,
    make: Callable[..., Controller] = Controller,
) -> Iterator[World]:
    """Start a controller on a cluster, and clean up afterwards.

    Args:
        cluster: gets the CustomResourceDefinition.
        registry: of the bundles.
        running: folder in which each process has its own folder.
        options: of `rukpak run`.
        is_shared: other tests use the cluster afterwards, so nothing may be left in it.
        kubeconfig: of the controller, if a proxy is between it and the cluster.
        make: creates the controller; takes the arguments of `Controller`.
    """
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="tests")
    apply_definition(client)
    folder = make_owned_folder(running, "controller")
    controller = make(folder, kubeconfig or cluster.kubeconfig, *options, environment={})
    world = World(cluster=cluster, registry=registry, controller=controller, store=folder / "store", client=client)
    try:
        wait_for(lambda: is_answered(client, DEPLOYMENTS), SECONDS, "BundleDeployments served")
        controller.start()
        yield world
        if is_shared:
            world.clean_up()
            if controller.is_running():
                controller.stop()  # releases its Lease: other tests use the cluster
    finally:
        controller.kill()
        take_away(folder)


def delete_namespace(cluster: object, client: Client, name: str) -> None:
    """Delete a namespace, which need not exist, of a cluster that stays.

    A control plane of the tests goes as a whole: to delete a namespace takes it a quarter of a second of processor
    time, since it looks for objects of every kind.
    """
    path = f"/api/v1/namespaces/{name}"
    if not isinstance(cluster, ControlPlane) and exists(client, path):
        client.delete(path)


def apply_definition(client: Client) -> None:
    """Apply the CustomResourceDefinition as `kubectl apply --server-side -k config/crd` does."""
    body = read_definition()
    path = f"/apis/{body['apiVersion']}/customresourcedefinitions/{body['metadata']['name']}"
    client.apply(path, body, manager="kubectl", force=True)


@cache
def read_definition() -> Manifest:
    """Return the CustomResourceDefinition."""
    (path,) = (ROOT / "config" / "crd").glob(f"{names.GROUP}_*.yaml")
    (document,) = read_documents(path.read_bytes(), path.name)
    value: Manifest = document.value
    return value


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def exists(client: Client, path: str) -> bool:
    try:
        client.get(path, metadata=True)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def is_answered(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ApiError:
        return False
    return True
