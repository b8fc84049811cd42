"""Watches of a small API server, and a listener that records its notifications."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rukpak.api import names
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from rukpak.controller.observe.records import Record, project
from rukpak.controller.observe.watches import Watches
from rukpak.controller.playground.processes import wait_for
from tests.support.deployments import manifest
from tests.support.fake_api import FakeApi
from tests.support.fake_cluster import CLAIMS as CLAIM_RESOURCE
from tests.support.fake_cluster import CONFIG_MAPS, WORKLOADS, FakeCluster

DEPLOYMENTS = "/apis/core.rukpak.io/v1alpha2/bundledeployments"
MAPS, WEBS, WIDGETS = "/api/v1/configmaps", "/apis/apps/v1/deployments", "/apis/example.com/v1/widgets"
NEW_WIDGETS = "/apis/example.com/v2/widgets"
CLAIMS, CLASSES = "/api/v1/persistentvolumeclaims", "/apis/storage.k8s.io/v1/storageclasses"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OTHERS = (DEFINITIONS, SERVICES, "/api/v1/namespaces")
CONFIG_MAP, WORKLOAD = CONFIG_MAPS.gvk, WORKLOADS.gvk
WIDGET = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
KEY = ObjectKey("", "ConfigMap", "shop", "a")
SECONDS = 10


class Told:
    """A listener that records its notifications."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._lock = threading.Lock()

    def deployment_changed(self, name: str) -> None:
        self._note(f"deployment {name}")

    def objects_changed(self, name: str, *, urgent: bool) -> None:
        self._note(f"{'objects' if urgent else 'health'} {name}")

    def cluster_changed(self) -> None:
        self._note("cluster")

    def _note(self, text: str) -> None:
        with self._lock:
            self.heard.append(text)

    def taken(self) -> list[str]:
        """Return the notifications since the last call."""
        with self._lock:
            heard, self.heard = self.heard, []
            return heard


class ToldWatches(Watches):
    """Watches that report when their listener has been notified of the first lists, which is after these are known."""

    def __init__(self, client: Client, discovery: Discovery, listener: Told, shard: str) -> None:
        self.all_are_told, self.kinds_are_told = threading.Event(), threading.Event()
        super().__init__(client, discovery, listener, shard)

    def _deployments_synced(self) -> None:
        super()._deployments_synced()
        self.all_are_told.set()

    def _definitions_settled(self) -> None:
        super()._definitions_settled()
        self.kinds_are_told.set()


class World:
    """Watches of a small API server; its kinds are those of a FakeCluster."""

    def __init__(self, api: FakeApi, shard: str = "") -> None:
        self.api, self.cluster, self.told = api, FakeCluster(CONFIG_MAPS, WORKLOADS, WIDGET, CLAIM_RESOURCE), Told()
        client = api.client()
        client.on_restored = lambda: self.told.heard.append("restored")
        self.watches = ToldWatches(client, self.cluster.discovery, self.told, shard)

    def deployment(self, name: str = "shop", **parts: Any) -> None:
        value = manifest(name, **parts)
        metadata = {"finalizers": [names.FINALIZER], **value.pop("metadata")}
        self.api.put(DEPLOYMENTS, name, uid=metadata["uid"], about=metadata, **value)

    def managed(self, owner: str = "shop", name: str = "a", *, path: str = MAPS, **content: Any) -> dict[str, Any]:
        labels = {names.OWNER_LABEL: owner} if owner else {}
        annotations = content.pop("annotations", {})
        about = {"namespace": "shop", "labels": labels, "annotations": annotations}
        about["managedFields"] = [{"manager": names.field_manager(owner), "operation": "Apply"}]
        return self.api.put(path, name, about=about, **content)

    def start(self) -> None:
        """Start, and wait until every existing object is known and reported."""
        self.watches.start()
        self.wait(self.watches.all_are_told.is_set, "BundleDeployments are known")
        self.wait(lambda: all(self.api.lists(path) for path in OTHERS), "the rest is listed")
        self.wait(self.watches.kinds_are_told.is_set, "custom kinds are known")

    def know(self, *kinds: GroupVersionKind, name: str = "shop") -> None:
        """Have kinds watched, wait for their first list, and discard its notifications."""
        self.api.frozen.set()  # a list that ends before both are registered is reported to one of them, or to none
        unknown = self.watches.objects.require(name, kinds)
        self.watches.objects.require("last", kinds)  # the last to register is notified last
        self.api.frozen.clear()
        self.wait(lambda: self.told.heard.count("objects last") == len(unknown), "the kinds are known")
        self.watches.objects.forget("last")
        self.told.taken()

    def wait(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, SECONDS, lambda: f"{what}; heard {self.told.heard}")

    def hear(self, text: str) -> list[str]:
        """Wait for a notification; return all so far."""
        self.wait(lambda: text in self.told.heard, text)
        return self.told.taken()


@contextmanager
def serving(shard: str = "") -> Iterator[World]:
    """Make the watches of the controller of a shard."""
    with FakeApi(DEPLOYMENTS, MAPS, WEBS, WIDGETS, NEW_WIDGETS, CLAIMS, CLASSES, *OTHERS) as api:
        made = World(api, shard)
        yield made
        made.watches.stop()


def define(world: World, *, stored: str = "v1", announces: str = "") -> None:
    """Have the kind of WIDGET defined: two versions, one of them stored, and perhaps one that announces a status."""
    status: dict[str, Any] = {"properties": {"status": {"properties": {"conditions": {}}}}}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == stored,
            "schema": {"openAPIV3Schema": status if version == announces else {}},
        }
        for version in ("v1", "v2")
    ]
    world.api.put(
        DEFINITIONS,
        "widgets.example.com",
        spec={
            "group": WIDGET.group,
            "names": {"kind": WIDGET.kind, "plural": WIDGET.plural},
            "scope": "Namespaced",
            "versions": versions,
        },
        status={"conditions": [{"type": "Established", "status": "True"}]},
    )


def workload(world: World, ready: int) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    conditions = [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]
    status = {"observedGeneration": 0, "conditions": conditions, **dict.fromkeys(counts, ready)}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}
    return world.managed(path=WEBS, apiVersion="apps/v1", kind="Deployment", spec=spec, status=status)


def reply(version: str, *, owner: str = "shop", **metadata: Any) -> Record:
    about = {"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": version}
    return project({"metadata": {**about, "labels": {names.OWNER_LABEL: owner}, **metadata}}, "", "ConfigMap")
