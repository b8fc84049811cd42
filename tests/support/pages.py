"""A cluster in memory for the page: BundleDeployments in every state, and the objects of one of them."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rukpak.api import names
from rukpak.controller.apply.execute import REVIEWS
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.resources import DEPLOYMENTS
from rukpak.controller.ui.guard import LOOPBACK, Guard, name_run
from rukpak.controller.ui.server import Rights, Site, make_server
from rukpak.controller.ui.watching import Board
from tests.support.fake_api import FakeApi

Json = dict[str, Any]
BOARD = DEPLOYMENTS.path()
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SHOP_EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
WORKLOADS = "/apis/apps/v1/deployments"
CONFIG_MAPS = "/api/v1/configmaps"
SECRETS = "/api/v1/secrets"
JOBS = "/apis/batch/v1/jobs"
REPLICA_SETS = "/apis/apps/v1/namespaces/shop/replicasets"
PODS = "/api/v1/namespaces/shop/pods"
ALL_PODS = "/api/v1/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{names.DEFAULT_NAMESPACE}/leases"
STORE = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/secrets"
DIGEST = "sha256:" + "1f2e3d4c5b6a" + 52 * "0"
OLDER = "sha256:" + "9a8b7c6d5e4f" + 52 * "0"
NEXT = "sha256:" + "77aa88bb99cc" + 52 * "0"


def make_revision(digest: str, *objects: Json) -> Revision:
    """Return a stored revision, all objects of which are in the namespace `shop`."""
    placed = [{**each, "metadata": {**each["metadata"], "namespace": "shop"}} for each in objects]
    return Revision(digest=digest, objects=tuple(placed), terms=Terms(inputs="", install_namespace="shop"))


OOM_KILLED = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-01-01T00:00:00Z"}


def ago(**span: float) -> str:
    """Return a moment in the past, in RFC 3339."""
    return (datetime.now(UTC) - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, reason: str, message: str = "", **span: float) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": ago(**(span or {"hours": 3})),
    }


def pin(reference: str = "v1.4.2", digest: str = DIGEST) -> Json:
    return {
        "kind": "image",
        "reference": reference,
        "resolved": f"registry.example.com/shop/bundle:{reference}@{digest}",
        "digest": digest,
        "specDigest": digest,
        "origin": digest,
        "resolvedAt": ago(hours=3),
    }


def ready(**status: Any) -> Json:
    """Return the status of a BundleDeployment that is Ready."""
    return {
        "observedGeneration": 1,
        "installNamespace": "shop",
        "conditions": [
            condition("Unpacked", "True", "Unpacked"),
            condition("Installed", "True", "Installed"),
            condition("Healthy", "True", "Healthy"),
            condition("Ready", "True", "Ready", "installed and healthy"),
        ],
        "sources": [pin()],
        "installedSources": [pin()],
        "revision": DIGEST,
        "installedRevision": DIGEST,
        "managedKinds": ["apps/v1/Deployment", "v1/ConfigMap", "v1/Secret"],
        "objects": {"total": 6, "healthy": 6},
        "display": {"revision": "1f2e3d4c5b6a", "objects": "6/6", "sources": "image:v1.4.2@1f2e3d4c5b6a"},
        "history": [
            {
                "revision": DIGEST,
                "sources": "image:v1.4.2@1f2e3d4c5b6a",
                "installedAt": ago(hours=3),
                "outcome": "Healthy",
            },
            {
                "revision": OLDER,
                "sources": "image:v1.4.1@9a8b7c6d5e4f",
                "installedAt": ago(days=4),
                "outcome": "Healthy",
            },
        ],
        **status,
    }


def not_ready(reason: str, message: str, *more: Json, **status: Any) -> Json:
    """Return the status of one that is not, with the same cause in Healthy."""
    conditions = [
        condition("Unpacked", "True", "Unpacked"),
        condition("Installed", "True", "Installed"),
        condition("Healthy", "False", reason, message, minutes=4),
        condition("Ready", "False", reason, message, minutes=4),
        *more,
    ]
    return ready(**{"conditions": conditions, **status})


def pending() -> Json:
    """Return a revision that waits for approval."""
    return {
        "revision": NEXT,
        "serviceAccountName": "shop-installer",
        "since": ago(minutes=12),
        "changes": {"create": 2, "change": 3, "delete": 1},
        "permissions": {"added": ["get, list, watch secrets in namespace shop", "run privileged pods"]},
        "sources": [pin("v1.5.0", NEXT)],
    }


def waiting() -> Json:
    """Return the status of one with a revision that waits for approval."""
    text = "revision 77aa88bb99cc waits for approval"
    conditions = [
        condition("Unpacked", "True", "Unpacked"),
        condition("Installed", "False", "AwaitingApproval", text, minutes=12),
        condition("Healthy", "True", "Healthy"),
        condition("Ready", "False", "AwaitingApproval", text, minutes=12),
    ]
    return ready(conditions=conditions, pending=pending())


def drifted() -> Json:
    """Return the status of one that is paused, and an object of which was changed."""
    text = "ConfigMap shop/settings: data.color, owned by kubectl-edit"
    return not_ready(
        "Progressing",
        "Deployment shop/web: 1 of 2 replicas are available",
        condition("Paused", "True", "Paused", "spec.paused is true", minutes=30),
        condition("Drifted", "True", "Paused", text, minutes=9),
        objects={"total": 6, "healthy": 5, "progressing": 1, "drifted": 1},
        notReady=[
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "namespace": "shop",
                "name": "web",
                "reason": "Progressing",
                "message": "1 of 2 replicas are available",
            }
        ],
    )


def deployment(spec: Mapping[str, Any] | None = None, **status: Any) -> Json:
    """Return the content of a BundleDeployment."""
    source = {"kind": "image", "image": {"ref": "registry.example.com/shop/bundle:v1.4.2"}}
    return {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": names.KIND,
        "spec": {"format": "helm", "sources": [source], "installNamespace": "shop", **(spec or {})},
        "status": status,
    }


class Shop:
    """An API server with BundleDeployments and the objects of `shop`; it is served while it is entered."""

    def __init__(self) -> None:
        self.api = FakeApi(
            *(
                BOARD,
                EVENTS,
                SHOP_EVENTS,
                WORKLOADS,
                REPLICA_SETS,
                CONFIG_MAPS,
                SECRETS,
                JOBS,
                ALL_PODS,
                PODS,
                STORE,
                LEASES,
            )
        )
        self.allow(True)
        self.run_controller()
        self.api.documents["/apis"] = (_discovery("apps", "v1", ("Deployment", "deployments")), "")
        self.api.documents["/api"] = (
            _discovery("", "v1", ("ConfigMap", "configmaps"), ("Secret", "secrets"), ("Pod", "pods")),
            "",
        )

    def allow(self, allowed: bool) -> None:
        """Let the API server say whether the user may do what is asked about."""
        self.api.documents[REVIEWS] = ({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}, "")

    def run_controller(self, shard: str = "") -> None:
        """Let a controller hold the Lease of a shard."""
        spec = {"holderIdentity": "here_1", "renewTime": ago(), "leaseDurationSeconds": 3600}
        about = {"namespace": names.DEFAULT_NAMESPACE}
        name = f"{names.LEASE}-{shard}" if shard else names.LEASE
        self.api.put(LEASES, name, about=about, apiVersion="coordination.k8s.io/v1", kind="Lease", spec=spec)

    def put(self, name: str, content: Mapping[str, Any], **about: Any) -> Json:
        """Create or change a BundleDeployment."""
        metadata = {"generation": 1, "creationTimestamp": ago(days=6), **about}
        return self.api.put(BOARD, name, about=metadata, **content)

    def put_object(self, collection: str, kind: str, name: str, owner: str = "shop", **content: Any) -> Json:
        """Create or change an object of a BundleDeployment."""
        found = self.api.objects[BOARD][owner]["metadata"]
        about = {
            "namespace": "shop",
            "labels": {names.OWNER_LABEL: owner},
            "annotations": {names.OWNER_UID: found["uid"], **content.pop("annotations", {})},
            "generation": 1,
        }
        version = "apps/v1" if "/apis/apps/" in collection else "v1"
        return self.api.put(collection, name, about=about, **{"apiVersion": version, "kind": kind, **content})

    def own(self, collection: str, kind: str, name: str, owner: Mapping[str, Any], **content: Any) -> Json:
        """Create or change an object that another one owns."""
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        version = "apps/v1" if "/apis/apps/" in collection else "v1"
        about = {"namespace": "shop", "ownerReferences": [reference], "generation": 1}
        return self.api.put(collection, name, about=about, **{"apiVersion": version, "kind": kind, **content})

    def fill(self) -> None:
        """Add BundleDeployments in every state, and the objects of `shop`."""
        self.put("shop", deployment({"paused": True}, **drifted()))
        self.put("billing", deployment(**waiting()))
        self.put(
            "search", deployment({"format": "plain", "installNamespace": "search"}, **ready(installNamespace="search"))
        )
        failed = "image registry.example.com/ads/bundle:v9 does not exist; correct the reference, or push it"
        stalled = condition("Stalled", "True", "NotFound", failed, minutes=55)
        broken = [
            condition("Unpacked", "False", "NotFound", failed, minutes=55),
            condition("Ready", "False", "NotFound", failed, minutes=55),
            stalled,
        ]
        self.put("ads", deployment(observedGeneration=1, conditions=broken))
        self.put(
            "metrics",
            deployment(
                {"format": "registry-v1"},
                **not_ready("Progressing", "Deployment metrics/agent: 3 of 5 replicas are updated"),
            ),
        )
        self._fill_shop()
        note = {"type": "Warning", "reason": "Drifted", "note": "ConfigMap shop/settings was changed by kubectl-edit"}
        self.api.put(
            EVENTS,
            "shop.1",
            about={"namespace": "default"},
            apiVersion="events.k8s.io/v1",
            kind="Event",
            eventTime=ago(minutes=9),
            **note,
        )

    def _fill_shop(self) -> None:
        status = {
            "replicas": 2,
            "readyReplicas": 1,
            "availableReplicas": 1,
            "updatedReplicas": 2,
            "observedGeneration": 1,
        }
        web = self.put_object(WORKLOADS, "Deployment", "web", spec={"replicas": 2}, status=status)
        self.own(REPLICA_SETS, "ReplicaSet", "web-6d4cf56db6", web, spec={"replicas": 2})
        self.put_pod("8zq2x", is_ready=True)
        self.put_pod("vt9mb", is_ready=False)
        for index in range(14):
            self.put_object(CONFIG_MAPS, "ConfigMap", f"dashboard-{index:02}", data={"panel": "1"})
        self.put_object(CONFIG_MAPS, "ConfigMap", "settings", data={"color": "blue"})
        self.put_object(SECRETS, "Secret", "database", data={"password": "aHVudGVyMg=="}, type="Opaque")

    def put_event(self, regarding: str, note: str) -> None:
        """Add an Event of the kubelet, as the newer API shows it, about the object with a UID."""
        about = {"regarding": {"uid": regarding}, "deprecatedCount": 4, "deprecatedLastTimestamp": ago(minutes=1)}
        content: Json = {"type": "Warning", "reason": "BackOff", "note": note, "eventTime": None, **about}
        self.api.put(SHOP_EVENTS, f"event-{self.api.version}", about={"namespace": "shop"}, **content)

    def put_pod(self, suffix: str, *, is_ready: bool) -> Json:
        """Create or change a Pod of `web`, that runs or cannot get its image, and return it."""
        container: Json = {
            "name": "web",
            "state": {"running": {}} if is_ready else {"waiting": {"reason": "ImagePullBackOff"}},
            "ready": is_ready,
            "restartCount": 0 if is_ready else 3,
            **({} if is_ready else {"lastState": {"terminated": OOM_KILLED}}),
        }
        status = {
            "phase": "Running" if is_ready else "Pending",
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
            "containerStatuses": [container],
        }
        [replicas] = self.api.objects[REPLICA_SETS].values()
        return self.own(PODS, "Pod", f"web-6d4cf56db6-{suffix}", replicas, spec={}, status=status)


def _discovery(group: str, version: str, *kinds: tuple[str, str]) -> Json:
    """Return the aggregated discovery of one group."""
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": group, "version": version, "kind": kind},
            "scope": "Namespaced",
            "verbs": ["list", "watch", "delete"],
        }
        for kind, plural in kinds
    ]
    item = {"metadata": {"name": group} if group else {}, "versions": [{"version": version, "resources": resources}]}
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [item]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The page of a cluster, in this process."""

    board: Board
    guard: Guard

    @property
    def url(self) -> str:
        """The address that opens it."""
        return f"{self.origin}/?token={self.guard.token}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def host(self) -> str:
        [name] = self.guard.hosts
        return f"{name}:{self.guard.port}"

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        """Send a request as its page would, with other headers where some are given."""
        own = {
            "Host": self.host,
            "Cookie": f"{self.guard.cookie}={self.guard.session}",
            "Origin": self.origin,
            "X-CSRF-Token": self.guard.csrf,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.guard.port, timeout=30)
        try:
            connection.request(
                method, path, body, own | {name.replace("_", "-"): text for name, text in headers.items()}
            )
            with connection.getresponse() as reply:
                return Reply(reply.status, reply.read().decode(), dict(reply.getheaders()))
        finally:
            connection.close()

    def read_line(self, path: str) -> str:
        """Return the first line of a reply, and close it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.guard.port, timeout=30)
        try:
            own = {"Host": self.host, "Cookie": f"{self.guard.cookie}={self.guard.session}"}
            connection.request("GET", path, headers=own)
            with connection.getresponse() as reply:
                return reply.readline().decode()
        finally:
            connection.close()

    def follow(self, path: str, *kinds: str) -> list[Json]:
        """Return the data of the first events of these kinds in a stream, one after the other."""
        found: list[Json] = []
        connection = http.client.HTTPConnection("127.0.0.1", self.guard.port, timeout=30)
        try:
            own = {"Host": self.host, "Cookie": f"{self.guard.cookie}={self.guard.session}"}
            connection.request("GET", path, headers=own)
            with connection.getresponse() as reply:
                kind = ""
                while len(found) < len(kinds):
                    name, _, text = reply.readline().decode().rstrip("\n").partition(": ")
                    kind = text if name == "event" else kind
                    if name == "data" and kind == kinds[len(found)]:
                        found.append(json.loads(text))
        finally:
            connection.close()
        return found


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    text: str
    headers: Mapping[str, str]


LOGGERS = ("uvicorn", "uvicorn.access", "uvicorn.asgi", "uvicorn.error")
"""Whose levels a server sets for the whole process."""


@contextmanager
def serve(client: Client, *, is_read_only: bool = False, certificate: str = "") -> Iterator[Served]:
    """Serve the page of a cluster; with the file of a certificate over https."""
    board = Board(client, names.DEFAULT_NAMESPACE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hosts = LOOPBACK if certificate else frozenset({name_run()})
        guard = Guard(hosts=hosts, port=listener.getsockname()[1], is_secure=bool(certificate))
        site = Site(
            board=board,
            guard=guard,
            rights=Rights(client),
            version="0.1.0",
            is_read_only=is_read_only,
            key=b"key",
        )
        levels = {name: logging.getLogger(name).level for name in LOGGERS}
        server = make_server(site, certificate)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        board.start()
        thread.start()
        try:
            yield Served(board=board, guard=guard)
        finally:
            server.should_exit = True
            thread.join()
            board.stop()
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
