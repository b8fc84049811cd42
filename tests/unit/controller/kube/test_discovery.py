from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rukpak.api.plugins import CustomKind
from rukpak.controller.kube.client import ApiError
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from tests.support.fake_api import FakeApi, Fault

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
FOO = GroupVersionKind("x.io", "v1", "Foo")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VERBS = ["get", "list"]

Json = dict[str, Any]


def resource(kind: str, plural: str, scope: str = "Namespaced") -> Json:
    return {"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": VERBS}


def group(name: str, version: str, *resources: Json, freshness: str = "Current") -> Json:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [{"version": version, "freshness": freshness, "resources": list(resources)}],
    }


def aggregated(*groups: Json) -> Json:
    return {"kind": "APIGroupDiscoveryList", "items": list(groups)}


APPS = group("apps", "v1", resource("Deployment", "deployments"))
FOOS = group("x.io", "v1", resource("Foo", "foos", "Cluster"))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(DEFINITIONS) as api:
        api.documents["/api"] = (aggregated(group("", "v1", resource("ConfigMap", "configmaps"))), '"core"')
        api.documents["/apis"] = (aggregated(APPS), '"1"')
        api.documents["/version"] = ({"gitVersion": "v1.36.3"}, "")
        yield api


@pytest.fixture
def now() -> list[float]:
    return [1000.0]


@pytest.fixture
def discovery(api: FakeApi, now: list[float]) -> Discovery:
    return Discovery(api.client(), clock=lambda: now[0])


def serve(api: FakeApi, *groups: Json) -> None:
    api.documents["/apis"] = (aggregated(*groups), f'"{len(api.received)} {len(groups)}"')


def test_everything_comes_in_two_requests_and_is_kept(api: FakeApi, discovery: Discovery) -> None:
    config_map = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=frozenset(VERBS))
    assert discovery.resource(CONFIG_MAP) == config_map
    assert discovery.resource(DEPLOYMENT) is not None
    assert [item.kind for item in discovery.resources()] == ["ConfigMap", "Deployment"]
    assert [request.path for request in api.received] == ["/api", "/apis"]


def test_a_subresource_without_a_kind_is_left_out(api: FakeApi, discovery: Discovery) -> None:
    serve(api, group("x.io", "v1", {"resource": "odd", "scope": "Cluster", "verbs": []}))
    assert [item.kind for item in discovery.resources()] == ["ConfigMap"]


def test_a_miss_reads_again_but_not_at_once(api: FakeApi, discovery: Discovery, now: list[float]) -> None:
    assert discovery.resource(FOO) is None
    serve(api, APPS, FOOS)
    assert discovery.resource(FOO) is None
    now[0] += 5
    assert discovery.resource(FOO) == Resource("x.io", "v1", "Foo", "foos", namespaced=False, verbs=frozenset(VERBS))


def test_after_a_notice_a_miss_reads_at_once(api: FakeApi, discovery: Discovery) -> None:
    discovery.resources()
    serve(api, APPS, FOOS)
    discovery.invalidate()
    assert discovery.resource(FOO) is not None


def test_after_a_notice_that_it_is_behind_it_is_read_until_it_shows(
    api: FakeApi, discovery: Discovery, now: list[float]
) -> None:
    discovery.resources()
    assert discovery.seconds_to_recheck() is None
    discovery.invalidate()
    looks = []
    while (seconds := discovery.seconds_to_recheck()) is not None:
        read = len(api.received)
        assert discovery.resource(FOO) is None
        assert len(api.received) > read
        now[0] += seconds
        looks.append(now[0] - 1000)
    assert looks == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2])
    serve(api, APPS, FOOS)
    assert discovery.resource(FOO) is not None


def test_after_a_notice_a_known_kind_is_looked_up_again_soon(
    api: FakeApi, discovery: Discovery, now: list[float]
) -> None:
    assert discovery.resource(DEPLOYMENT) is not None
    serve(api)
    discovery.invalidate()
    assert discovery.resource(DEPLOYMENT) is not None
    now[0] += 2
    assert discovery.resource(DEPLOYMENT) is None


def test_a_known_kind_is_not_asked_for_however_old(api: FakeApi, discovery: Discovery, now: list[float]) -> None:
    discovery.resource(DEPLOYMENT)
    now[0] += 1e6
    discovery.resource(DEPLOYMENT)
    assert len(api.received) == 2


def test_for_a_kind_to_come_nothing_is_asked_until_something_has_changed(
    api: FakeApi, discovery: Discovery, now: list[float]
) -> None:
    assert not discovery.has_appeared(FOO)
    now[0] += 1e6
    assert not discovery.has_appeared(FOO)
    assert len(api.received) == 2
    serve(api, APPS, FOOS)
    discovery.invalidate()
    assert discovery.has_appeared(FOO)


def test_for_a_while_after_a_change_it_is_asked_again(api: FakeApi, discovery: Discovery, now: list[float]) -> None:
    discovery.invalidate()
    assert not discovery.has_appeared(FOO)
    serve(api, APPS, FOOS)
    assert not discovery.has_appeared(FOO), "that was just now"
    now[0] += 0.2
    assert discovery.has_appeared(FOO)


def test_what_did_not_change_is_not_sent_again(api: FakeApi, discovery: Discovery) -> None:
    discovery.resources()
    discovery.refresh()
    assert [request.header("If-None-Match") for request in api.received] == [[], [], ['"core"'], ['"1"']]
    assert discovery.resource(DEPLOYMENT) is not None


def test_kinds_of_a_group_that_is_down_stay_known(api: FakeApi, discovery: Discovery) -> None:
    serve(api, APPS, FOOS)
    discovery.resources()
    serve(api, APPS, group("x.io", "v1", freshness="Stale"))
    discovery.refresh()
    assert discovery.resource(FOO) is not None
    assert discovery.failed_groups() == {"x.io"}
    discovery.refresh()
    assert discovery.failed_groups() == {"x.io"}, "304 changes nothing"
    serve(api, APPS)
    discovery.refresh()
    assert discovery.failed_groups() == frozenset()


def test_capabilities_name_version_and_scopes(discovery: Discovery) -> None:
    capabilities = discovery.capabilities()
    assert capabilities.kubernetes_version == "v1.36.3"
    assert dict(capabilities.kinds) == {("", "v1", "ConfigMap"): True, ("apps", "v1", "Deployment"): True}


def test_many_that_ask_at_once_read_the_version_once(api: FakeApi, discovery: Discovery) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: discovery.version(), range(8))) == {"v1.36.3"}
    assert [request.path for request in api.received].count("/version") == 1


def test_capabilities_are_not_old_and_many_share_them(api: FakeApi, discovery: Discovery, now: list[float]) -> None:
    discovery.capabilities()
    asked = len(api.received)
    discovery.capabilities()
    assert len(api.received) == asked
    serve(api, APPS, FOOS)
    now[0] += 2
    assert tuple(FOO) in discovery.capabilities().kinds


def test_a_group_that_fails_counts_with_its_last_known_kinds(
    api: FakeApi, discovery: Discovery, now: list[float]
) -> None:
    serve(api, APPS, FOOS)
    discovery.capabilities()
    serve(api, APPS, group("y.io", "v1", freshness="Stale"), group("x.io", "v1", freshness="Stale"))
    now[0] += 2
    capabilities = discovery.capabilities()
    assert capabilities.kinds["x.io", "v1", "Foo"] is False
    assert capabilities.unknown == {"y.io"}


def test_a_group_that_failed_is_looked_up_again_after_a_notice(
    api: FakeApi, discovery: Discovery, now: list[float]
) -> None:
    serve(api, APPS, group("x.io", "v1", freshness="Stale"))
    assert discovery.failed_groups() == {"x.io"}
    serve(api, APPS)
    now[0] += 1e6
    assert discovery.failed_groups() == {"x.io"}, "nothing polls"
    discovery.invalidate()
    assert discovery.failed_groups() == frozenset()


def test_a_server_that_fails_is_an_error_and_is_asked_again(api: FakeApi, discovery: Discovery) -> None:
    discovery.resources()
    discovery.invalidate()
    api.faults = [Fault(503)]
    with pytest.raises(ApiError, match="503"):
        discovery.resource(FOO)
    assert discovery.resource(FOO) is None
    assert len(api.received) == 2 + 1 + 2


def walked(kind: str, plural: str, namespaced: bool = True) -> Json:
    return {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": VERBS}


def serve_walked(api: FakeApi) -> None:
    apps = {"name": "apps", "versions": [{"version": "v1"}]}
    down = {"name": "x.io", "versions": [{"version": "v1"}]}
    api.documents |= {
        "/api": ({"kind": "APIVersions", "versions": ["v1"]}, ""),
        "/api/v1": ({"resources": [walked("ConfigMap", "configmaps"), walked("Pod", "pods/log")]}, ""),
        "/apis": ({"kind": "APIGroupList", "groups": [apps, down]}, ""),
        "/apis/apps/v1": ({"resources": [walked("Deployment", "deployments")]}, ""),
        "/apis/x.io/v1": ({"resources": [walked("Foo", "foos", namespaced=False)]}, ""),
    }


def test_an_older_server_is_walked(api: FakeApi, discovery: Discovery) -> None:
    serve_walked(api)
    assert [(item.kind, item.plural) for item in discovery.resources()] == [
        ("ConfigMap", "configmaps"),
        ("Deployment", "deployments"),
        ("Foo", "foos"),
    ]


def test_a_group_that_fails_while_walking_stays_known(api: FakeApi, discovery: Discovery) -> None:
    serve_walked(api)
    discovery.resources()
    del api.documents["/apis/x.io/v1"]
    discovery.refresh()
    assert discovery.failed_groups() == {"x.io"}
    assert discovery.resource(FOO) is not None


def test_many_threads_that_miss_together_read_once(api: FakeApi, discovery: Discovery, now: list[float]) -> None:
    discovery.resources()
    serve(api, APPS, FOOS)
    now[0] += 5
    api.frozen.set()
    found: list[Resource | None] = []
    threads = [threading.Thread(target=lambda: found.append(discovery.resource(FOO))) for _ in range(6)]
    for thread in threads:
        thread.start()
    api.frozen.clear()
    for thread in threads:
        thread.join(60)
    assert len(found) == 6
    assert None not in found
    assert len(api.received) == 4


# custom kinds

NULLABLE = {"type": "string", "nullable": True}


def define(api: FakeApi, version: str = "v1", **fields: Any) -> None:
    """Have the server define Foo, as it lists definitions: items have no kind."""
    schema = {"type": "object", "properties": {"a": NULLABLE, "b": {"type": "string"}}}
    spec = {
        "group": "x.io",
        "names": {"kind": "Foo"},
        "versions": [{"name": version, "schema": {"openAPIV3Schema": schema}, **fields}],
    }
    api.put(DEFINITIONS, "foos.x.io", spec=spec)
    del api.objects[DEFINITIONS]["foos.x.io"]["apiVersion"], api.objects[DEFINITIONS]["foos.x.io"]["kind"]


def test_of_a_custom_kind_is_returned_what_decides_about_fields(api: FakeApi, discovery: Discovery) -> None:
    serve(api, APPS, FOOS)
    define(api)
    schema = {"properties": {"a": {"nullable": True}}}
    assert discovery.custom_kinds([FOO]) == {FOO: CustomKind(has_status=False, schema=schema)}
    define(api, subresources={"status": {}})
    assert discovery.custom_kinds([FOO]) == {FOO: CustomKind(has_status=True, schema=schema)}
    assert api.received[-1].query["fieldSelector"] == "metadata.name=foos.x.io"


def test_a_kind_that_another_api_server_serves_counts_as_one_of_kubernetes(api: FakeApi, discovery: Discovery) -> None:
    serve(api, APPS, FOOS)
    assert discovery.custom_kinds([FOO]) == {FOO: CustomKind(has_status=True, schema={})}


def test_kinds_that_are_not_served_or_not_defined_at_their_version_are_missing(
    api: FakeApi, discovery: Discovery
) -> None:
    assert discovery.custom_kinds([FOO]) == {}
    serve(api, APPS, FOOS)
    discovery.refresh()
    define(api, version="v2")
    assert discovery.custom_kinds([FOO]) == {}
    assert discovery.custom_kinds([]) == {}


def test_a_definition_that_may_not_be_read_is_missing_and_any_other_failure_is_raised(
    api: FakeApi, discovery: Discovery
) -> None:
    serve(api, APPS, FOOS)
    discovery.refresh()
    api.faults.append(Fault(403))
    assert discovery.custom_kinds([FOO]) == {}
    api.faults.append(Fault(422))
    with pytest.raises(ApiError):
        discovery.custom_kinds([FOO])


def test_for_a_file_all_custom_kinds_are_read_by_one_list(api: FakeApi, discovery: Discovery) -> None:
    serve(api, APPS, FOOS)
    found = discovery.capabilities()
    assert discovery.with_custom_kinds(found).custom == {FOO: CustomKind(has_status=True, schema={})}
    define(api, subresources={})
    schema = {"properties": {"a": {"nullable": True}}}
    assert discovery.with_custom_kinds(found).custom == {FOO: CustomKind(has_status=False, schema=schema)}
    define(api, version="v2")
    assert discovery.with_custom_kinds(found).custom == {}
