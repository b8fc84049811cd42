"""Client, discovery and reflector against a real API server: what a fake one cannot vouch for."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.inside import (
    ApiError,
    Backoff,
    Client,
    Discovery,
    GroupVersionKind,
    ListWatch,
    Pace,
    Reflector,
    Resource,
    User,
    connect,
    discovery,
)

pytestmark = pytest.mark.long

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
MANAGER = "rukpak/test"

Json = dict[str, Any]


class Cluster(Protocol):
    kubeconfig: Path

    def kubectl(self, *arguments: str) -> str: ...


class ControlPlane(Cluster, Protocol):
    def start(self, *names: str) -> None: ...
    def stop(self, *names: str) -> None: ...
    def audit_position(self) -> int: ...
    def audit_requests(self, since: int = 0) -> list[Json]: ...


def wait(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Client:
    return connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")


def config_map(namespace: str, name: str = "a", labels: Json | None = None, **data: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def apply(client: Client, value: Json, **options: Any) -> Json:
    metadata = value["metadata"]
    path = CONFIG_MAPS.path(metadata["namespace"], metadata["name"])
    reply: Json = client.apply(path, value, **{"manager": MANAGER, "force": True, **options}).value
    return reply


# requests


def test_an_apply_creates_changes_and_prunes_fields(client: Client, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace, "a")
    assert client.apply(path, config_map(namespace, x="1"), manager=MANAGER, force=False).status == 201
    assert client.apply(path, config_map(namespace, y="1"), manager=MANAGER, force=False).status == 200
    assert client.get(path).value["data"] == {"y": "1"}


def test_the_reply_to_an_apply_is_metadata_with_our_entry(client: Client, namespace: str) -> None:
    value = apply(client, config_map(namespace, x="1"))
    assert value["kind"] == "PartialObjectMetadata"
    assert [entry["manager"] for entry in value["metadata"]["managedFields"]] == [MANAGER]
    assert apply(client, config_map(namespace, x="1"), metadata=False)["data"] == {"x": "1"}


def test_an_apply_that_changes_nothing_keeps_the_version(client: Client, namespace: str) -> None:
    first = apply(client, config_map(namespace, x="1"))
    assert apply(client, config_map(namespace, x="1")) == first


def test_a_dry_run_stores_nothing(client: Client, namespace: str) -> None:
    apply(client, config_map(namespace, x="1"), dry_run=True)
    with pytest.raises(ApiError, match="NotFound"):
        client.get(CONFIG_MAPS.path(namespace, "a"))


def test_a_conflict_names_the_manager_and_force_takes_the_field(client: Client, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace, "a")
    apply(client, config_map(namespace, x="1"))
    client.merge_patch(path, {"data": {"x": "2"}}, manager="somebody")
    with pytest.raises(ApiError) as caught:
        apply(client, config_map(namespace, x="1"), force=False)
    assert caught.value.status == 409
    assert [(cause.reason, cause.field) for cause in caught.value.causes] == [("FieldManagerConflict", ".data.x")]
    apply(client, config_map(namespace, x="1"))
    assert client.get(path).value["data"] == {"x": "1"}


@dataclass(frozen=True)
class Refusal:
    name: str
    change: Callable[[Json], Json]
    status: int


REFUSALS = [
    Refusal("an unknown field", lambda value: {**value, "dta": {}}, 500),
    Refusal("a wrong type", lambda value: {**value, "data": {"x": ["hunter2"]}}, 500),
    Refusal("a value that validation refuses", lambda value: {**value, "data": {"hunter2 !": "1"}}, 422),
    Refusal("a kind that is not that of the path", lambda value: {**value, "kind": "Secret"}, 400),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: str(case.name))
def test_what_is_refused_is_final_and_not_quoted(case: Refusal, client: Client, namespace: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply(client, case.change(config_map(namespace)))
    assert caught.value.status == case.status
    assert not caught.value.transient
    assert "hunter2" not in str(caught.value).replace("data[hunter2 !]", "")


def test_an_object_above_the_limit_of_etcd_is_final(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply(client, config_map(namespace, x="x" * (3 << 20)))
    assert caught.value.status in (413, 422, 500)
    assert not caught.value.transient


def test_missing_objects_and_kinds_that_are_not_served_differ(client: Client, namespace: str) -> None:
    with pytest.raises(ApiError) as missing:
        client.get(CONFIG_MAPS.path(namespace, "none"))
    with pytest.raises(ApiError) as unserved:
        client.get("/apis/no.such.group/v1/foos")
    assert (missing.value.status, missing.value.reason) == (404, "NotFound")
    assert (unserved.value.status, unserved.value.reason) == (404, "")


def test_warnings_come_back(client: Client, namespace: str) -> None:
    query = [("fieldValidation", "Warn")]
    reply = client.request("POST", CONFIG_MAPS.path(namespace), query=query, body={**config_map(namespace), "dta": 1})
    assert reply.warnings == ('unknown field "dta"',)


@pytest.mark.parametrize("each", [16, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_character_survives_an_apply(each: int, client: Client, namespace: str) -> None:
    """All of Unicode, or part of it, in texts that fit into a ConfigMap; the server's parser refuses U+0000."""
    characters = [chr(number) for number in range(1, sys.maxunicode + 1) if unicodedata.category(chr(number)) != "Cs"]
    characters = characters[:0x3000] + characters[0x3000::each]
    step = 150_000
    for start in range(0, len(characters), step):
        text = "".join(characters[start : start + step])
        apply(client, config_map(namespace, x=text))
        assert client.get(CONFIG_MAPS.path(namespace, "a")).value["data"]["x"] == text


def test_what_json_dumps_makes_of_an_emoji_is_refused(client: Client, namespace: str) -> None:
    body = json.dumps(config_map(namespace, x="\U0001f600")).encode()
    with pytest.raises(ApiError, match="400"):
        client.request(
            "PATCH",
            CONFIG_MAPS.path(namespace, "a"),
            query=[("fieldManager", MANAGER)],
            body=body,
            content_type="application/apply-patch+yaml",
        )


def test_what_yaml_would_read_otherwise_stays_a_text(client: Client, namespace: str) -> None:
    texts = ["yes", "0o7", "1e3", "~", "2020-01-01", "- a", "a: b", "#", "\t", " ", "null", "="]
    data: Json = {f"k{number}": text for number, text in enumerate(texts)}
    apply(client, config_map(namespace, **data))
    assert client.get(CONFIG_MAPS.path(namespace, "a")).value["data"] == data


def test_names_are_quoted_in_paths(client: Client) -> None:
    name = f"system:test:{uuid.uuid4().hex[:8]}"
    path = CLUSTER_ROLES.path(name=name)
    role = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": name}}
    client.apply(path, role, manager=MANAGER, force=True)
    assert client.get(path, metadata=True).value["metadata"]["name"] == name
    client.delete(path)


def test_status_is_patched_by_its_own_path(client: Client, namespace: str) -> None:
    labels = {"app": "a"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        "paused": True,
    }
    created = client.create(
        DEPLOYMENTS.path(namespace),
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec},
        manager=MANAGER,
    )
    assert created.status == 201
    path = DEPLOYMENTS.path(namespace, "a")
    client.merge_patch(path, {"status": {"replicas": 7}})
    assert client.get(path).value["status"].get("replicas") != 7
    condition = {"type": "Made", "status": "True", "reason": "Up", "message": "x"}
    client.merge_patch(f"{path}/status", {"status": {"conditions": [condition]}}, manager=MANAGER)
    assert condition.items() <= client.get(path).value["status"]["conditions"][0].items()


def test_an_object_is_deleted_only_if_it_is_the_one_that_was_judged(client: Client, namespace: str) -> None:
    metadata = apply(client, config_map(namespace))["metadata"]
    path = CONFIG_MAPS.path(namespace, "a")
    for options in ({"uid": str(uuid.uuid4())}, {"uid": metadata["uid"], "resource_version": "1"}):
        with pytest.raises(ApiError, match="409 Conflict"):
            client.delete(path, **options)
    assert client.delete(path, uid=metadata["uid"]).value["kind"] == "Status"
    with pytest.raises(ApiError, match="404"):
        client.get(path)


def test_a_deletion_that_waits_for_a_finalizer_returns_the_object(client: Client, namespace: str) -> None:
    value = config_map(namespace)
    value["metadata"]["finalizers"] = ["example.org/wait"]
    apply(client, value)
    path = CONFIG_MAPS.path(namespace, "a")
    assert client.delete(path).value["metadata"]["deletionTimestamp"]
    client.merge_patch(path, {"metadata": {"finalizers": None}})


def test_a_user_is_acted_as_with_the_groups_that_the_server_adds(client: Client) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    nobody = client.acting_as(User.service_account("default", "nobody"))
    reply = nobody.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    info = reply.value["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:nobody"
    assert "system:serviceaccounts:default" in info["groups"]


def test_groups_and_extras_of_a_user_arrive_one_by_one(client: Client) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = User("bob", groups=("one", "two"), extra={"example.org/scopes": ("x", "y")})
    reply = client.acting_as(user).request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    info = reply.value["status"]["userInfo"]
    assert {"one", "two"} <= set(info["groups"])
    assert info["extra"] == {"example.org/scopes": ["x", "y"]}


def test_a_user_without_rights_is_refused(client: Client, namespace: str) -> None:
    nobody = client.acting_as(User.service_account(namespace, "nobody"))
    with pytest.raises(ApiError, match="403 Forbidden"):
        apply(nobody, config_map(namespace))
    with pytest.raises(ApiError, match="403 Forbidden"):
        list(nobody.list(CONFIG_MAPS.path()))


def test_a_list_comes_in_pages_as_metadata_and_by_label(client: Client, namespace: str) -> None:
    for number in range(5):
        apply(client, config_map(namespace, f"a{number}", labels={"even": str(number % 2 == 0)}, x="1"))
    path = CONFIG_MAPS.path(namespace)
    even = list(client.list(path, metadata=True, label_selector="even=True", limit=2))
    assert [item["metadata"]["name"] for item in even] == ["a0", "a2", "a4"]
    assert not any("data" in item for item in even)
    page = next(client.pages(path, metadata=False, label_selector="even", limit=2))
    assert (len(page.items), page.more, page.items[0]["data"]) == (2, True, {"x": "1"})


def test_a_server_that_is_not_there_is_told_without_its_port(cluster: Cluster, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    with pytest.raises(ApiError) as caught:
        connect(kubeconfig=str(tmp_path / "config"), user_agent="x").get("/version")
    assert caught.value.status == 0
    assert address.rpartition(":")[2] not in str(caught.value)


# discovery


def test_discovery_knows_paths_scopes_and_versions(client: Client) -> None:
    discovery = Discovery(client)
    deployments = discovery.resource(GroupVersionKind.parse("apps/v1/Deployment"))
    assert deployments is not None
    assert (deployments.path("n", "a"), deployments.namespaced) == (DEPLOYMENTS.path("n", "a"), True)
    assert {"list", "watch", "patch"} <= deployments.verbs
    namespaces = discovery.resource(GroupVersionKind.parse("v1/Namespace"))
    assert namespaces is not None
    assert not namespaces.namespaced
    assert discovery.failed_groups() == frozenset()
    capabilities = discovery.capabilities()
    assert capabilities.kubernetes_version == client.get("/version").value["gitVersion"]
    assert capabilities.is_namespaced("apps", "Deployment") is True
    assert capabilities.is_namespaced("x.io", "Foo") is None


def test_discovery_is_the_same_on_a_server_that_does_not_aggregate(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregated = Discovery(client)
    known = {resource.gvk: resource for resource in aggregated.resources()}
    monkeypatch.setattr(discovery, "AGGREGATED", "application/json")
    assert {resource.gvk: resource for resource in Discovery(client).resources()} == known


@pytest.fixture
def definition(client: Client) -> Iterator[Json]:
    """Yield a CustomResourceDefinition that is not applied yet, and delete it afterwards."""
    group = f"test-{uuid.uuid4().hex[:8]}.example.org"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    name = f"foos.{group}"
    yield {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    with suppress(ApiError):  # it may be gone
        client.delete(DEFINITIONS.path(name=name))


def define(client: Client, definition: Json) -> GroupVersionKind:
    """Apply a definition, wait until it is established, and return its kind."""
    path = DEFINITIONS.path(name=definition["metadata"]["name"])
    client.apply(path, definition, manager=MANAGER, force=True)

    def is_established() -> bool:
        conditions = client.get(path).value.get("status", {}).get("conditions") or []
        return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)

    wait(is_established)
    return GroupVersionKind(definition["spec"]["group"], "v1", "Foo")


def test_a_new_kind_is_found_after_a_notice(client: Client, definition: Json) -> None:
    discovery = Discovery(client)
    discovery.resources()
    kind = define(client, definition)

    def find() -> Resource | None:
        discovery.invalidate()
        return discovery.resource(kind)

    wait(find)


def test_a_group_whose_server_is_down_fails(client: Client) -> None:
    group = f"test-{uuid.uuid4().hex[:8]}.example.org"
    services = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
    path = services.path(name=f"v1.{group}")
    spec = {
        "group": group,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "default", "name": "no-such-service"},
        "insecureSkipTLSVerify": True,
    }
    value = {"apiVersion": services.api_version, "kind": "APIService", "metadata": {"name": f"v1.{group}"}}
    client.apply(path, {**value, "spec": spec}, manager=MANAGER, force=True)
    try:
        discovery = Discovery(client)

        def fails() -> bool:
            discovery.refresh()
            return group in discovery.failed_groups()

        wait(fails)
    finally:
        client.delete(path)


# reflector


@dataclass(frozen=True, slots=True)
class Seen:
    namespace: str
    name: str
    uid: str
    resource_version: str
    fields: int
    full: bool


def project(value: Json) -> Seen:
    metadata = value["metadata"]
    return Seen(
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        metadata["resourceVersion"],
        len(metadata.get("managedFields") or []),
        "data" in value,
    )


class Follower:
    """A reflector of the ConfigMaps with a label, and what it told."""

    def __init__(self, client: Client, label: str, *, metadata: bool = True, **options: Any) -> None:
        self.told: list[tuple[str | None, str | None]] = []
        objects = ListWatch(client, CONFIG_MAPS.path(), label_selector=f"test={label}", metadata=metadata)
        settings = {"project": project, "on_change": self._tell, **options}
        self.reflector: Reflector[Seen] = Reflector(objects, **settings)
        self.reflector.start()
        wait(lambda: self.reflector.synced)

    def _tell(self, old: Seen | None, new: Seen | None) -> None:
        self.told.append((old.resource_version if old else None, new.resource_version if new else None))

    def names(self) -> list[str]:
        return sorted(seen.name for seen in self.reflector.cache.records())

    def stop(self) -> None:
        self.reflector.stop()
        self.reflector._thread.join(10)
        assert not self.reflector._thread.is_alive()


@pytest.fixture(params=[True, False], ids=["streaming lists", "pages"])
def follow(client: Client, namespace: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., Follower]]:
    """Start a follower of the ConfigMaps labelled with the namespace's name."""
    started: list[Follower] = []

    def start(**options: Any) -> Follower:
        with pytest.MonkeyPatch.context() as patch:
            if not request.param:
                patch.setattr(ListWatch, "open_list", lambda *_: None)
            started.append(Follower(client, namespace, **options))
        return started[-1]

    yield start
    for follower in started:
        follower.stop()


def labelled(namespace: str, name: str = "a", **data: str) -> Json:
    return config_map(namespace, name, labels={"test": namespace}, **data)


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "full"])
def test_what_exists_and_what_changes_is_known(
    metadata: bool, follow: Callable[..., Follower], client: Client, namespace: str
) -> None:
    apply(client, labelled(namespace, "a"))
    apply(client, config_map(namespace, "unlabelled"))
    follower = follow(metadata=metadata, pace=Pace(page=1))
    assert follower.names() == ["a"]
    apply(client, labelled(namespace, "b", x="1"))
    client.delete(CONFIG_MAPS.path(namespace, "a"))
    wait(lambda: follower.names() == ["b"])
    seen = follower.reflector.cache.records()[0]
    assert seen.fields == 1
    assert seen.full is not metadata


def test_an_object_that_loses_its_label_is_gone(
    follow: Callable[..., Follower], client: Client, namespace: str
) -> None:
    apply(client, labelled(namespace))
    follower = follow()
    apply(client, config_map(namespace))
    wait(lambda: follower.names() == [])
    apply(client, labelled(namespace))
    wait(lambda: follower.names() == ["a"])


def test_a_list_and_its_watch_are_one_request(client: Client, namespace: str) -> None:
    asked: list[tuple[str, str, int]] = []
    client.transport.on_request = lambda *request: asked.append(request)
    try:
        follower = Follower(client, namespace)
    finally:
        client.transport.on_request = None
    follower.stop()
    assert [(method, status) for method, _, status in asked] == [("GET", 200)]


def test_what_a_reply_said_is_known_at_once_and_told_when_the_watch_confirms_it(
    follow: Callable[..., Follower], client: Client, namespace: str
) -> None:
    follower = follow()
    for number in range(20):
        seen = project(apply(client, labelled(namespace, x=str(number))))
        follower.reflector.cache.learn(seen)
        known = follower.reflector.cache.get((namespace, "a"))
        assert known is not None
        assert int(known.resource_version) >= int(seen.resource_version)
    wait(lambda: follower.told and follower.told[-1][1] == seen.resource_version)
    assert follower.told[0][0] is None
    assert [old for old, _ in follower.told[1:]] == [new for _, new in follower.told[:-1]], "a gap"


def test_what_was_deleted_is_hidden_at_once(follow: Callable[..., Follower], client: Client, namespace: str) -> None:
    follower = follow()
    for _ in range(10):
        seen = project(apply(client, labelled(namespace)))
        follower.reflector.cache.learn(seen)
        client.delete(CONFIG_MAPS.path(namespace, "a"), uid=seen.uid)
        follower.reflector.cache.hide((namespace, "a"), seen.uid)
        assert follower.reflector.cache.get((namespace, "a")) is None
    wait(lambda: len(follower.told) == 20)
    assert follower.names() == []


def test_stop_returns_at_once_and_ends_an_idle_watch(client: Client, namespace: str) -> None:
    follower = Follower(client, namespace)
    started = time.monotonic()
    follower.reflector.stop()
    assert time.monotonic() - started < 0.5
    follower.stop()


def test_what_may_not_be_listed_is_told(client: Client, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.kubectl(
        "create", "serviceaccount", "nobody", "-n", namespace
    )  # "default" is created automatically a moment later
    token = client.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/nobody/token", {"spec": {"expirationSeconds": 600}}
    ).value["status"]["token"]
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(json.dumps(config))
    nobody = connect(kubeconfig=str(tmp_path / "config"), user_agent="x")
    reflector = Reflector(ListWatch(nobody, CONFIG_MAPS.path()), project=project)
    reflector.start()
    wait(lambda: reflector.denied)
    reflector.stop()
    assert f"system:serviceaccount:{namespace}:nobody" in reflector.denied
    assert token not in reflector.denied


def test_a_kind_that_comes_goes_and_comes_back_is_followed(client: Client, namespace: str, definition: Json) -> None:
    resource = Resource(definition["spec"]["group"], "v1", "Foo", "foos", namespaced=True)
    reflector = Reflector(
        ListWatch(client, resource.path()),
        project=project,
        pace=Pace(backoff=Backoff(first=0.05, longest=0.2, jitter=0.5), steady=0.5),
    )
    reflector.start()
    wait(lambda: reflector.denied == f"{resource.path()} is not served")
    foo = {"apiVersion": resource.api_version, "kind": "Foo", "metadata": {"name": "a", "namespace": namespace}}
    for _ in range(2):
        define(client, definition)
        wait(lambda: _tries(lambda: client.apply(resource.path(namespace, "a"), foo, manager=MANAGER, force=True)))
        wait(lambda: len(reflector.cache.records()) == 1)
        client.delete(DEFINITIONS.path(name=definition["metadata"]["name"]))
        wait(lambda: reflector.cache.records() == [])
        wait(lambda: reflector.denied)
    reflector.stop()


def _tries(request: Callable[[], object]) -> bool:
    try:
        request()
    except ApiError:
        return False
    return True


# an API server that goes away


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_nothing_is_lost_when_the_api_server_is_killed(cluster: ControlPlane, client: Client, namespace: str) -> None:
    for name in ("a", "b"):
        apply(client, labelled(namespace, name))
    follower = Follower(client, namespace)
    cluster.stop("kube-apiserver")
    wait(lambda: follower.reflector.last_error is not None)
    assert follower.names() == ["a", "b"], "what was known stays known"
    assert follower.reflector.last_error is not None
    assert follower.reflector.last_error.status == 0
    cluster.start("kube-apiserver")
    client.delete(CONFIG_MAPS.path(namespace, "a"))
    apply(client, labelled(namespace, "c"))
    wait(lambda: follower.names() == ["b", "c"])
    wait(lambda: follower.reflector.last_error is None, 90)
    follower.stop()


@pytest.mark.own_cluster
def test_requests_go_on_after_the_api_server_was_killed(cluster: ControlPlane, client: Client) -> None:
    """Connections in the pool are dead then: each fails once at most, and no thread waits for ever."""
    client.get("/version")
    cluster.stop("kube-apiserver")
    with pytest.raises(ApiError) as caught:
        client.get("/version")
    assert caught.value.transient
    cluster.start("kube-apiserver")
    assert client.get("/version").status == 200


@pytest.mark.own_cluster
def test_an_idle_reflector_asks_for_nothing(cluster: ControlPlane, client: Client, namespace: str) -> None:
    followers = [Follower(client, namespace) for _ in range(3)]
    position = cluster.audit_position()
    waited = threading.Event()
    waited.wait(3)
    ours = [entry for entry in cluster.audit_requests(position) if entry.get("userAgent", "").startswith("rukpak-test")]
    assert ours == []
    for follower in followers:
        follower.stop()
