"""spec.configFrom: when ConfigMaps and Secrets are read, and what a change of them leads to."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rukpak.api.plugins import ProcessRequest, Rendering
from rukpak.controller.building.entry_points import PROCESSORS
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import CONFIG_MAPS, SECRETS
from rukpak.controller.observe.following import ObjectReference, Topic
from tests.support.fake_cluster import Json
from tests.support.installed_plugins import install_plugins
from tests.support.reconciling import NAME, PATH, World

A = "/api/v1/namespaces/shop/configmaps/a"
VALUES = "/api/v1/namespaces/shop/configmaps/values"
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
FROM_MAP: Json = {"kind": "ConfigMap", "name": "values"}
FROM_SECRET: Json = {"kind": "Secret", "name": "login", "key": "password", "path": "password"}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}})
    made.shelf.shows_config = True
    yield made
    made.applier.stop()


def put_values(world: World, text: str = "color: blue") -> None:
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values", "namespace": "shop"}}
    world.cluster.put({**found, "data": {"values.yaml": text}})


def put_login(world: World, password: str) -> None:
    found = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}}
    world.cluster.put({**found, "data": {"password": b64encode(password.encode()).decode()}})


def wish(world: World, *references: Json, tag: str = "v1", **spec: object) -> None:
    world.wish(tag, format="helm", configFrom=list(references), **spec)


def config_of(world: World) -> Json:
    """Return the config with which what is installed was rendered."""
    found: Json = json.loads(world.cluster.objects[A]["data"]["config"])
    return found


def test_the_config_is_merged_from_the_cluster(world: World) -> None:
    put_values(world, "{color: blue, size: 1}")
    put_login(world, "hunter2")
    wish(world, FROM_MAP, FROM_SECRET, config={"values": {"size": 2}})
    world.settle()

    assert world.conditions == READY
    assert config_of(world) == {"values": {"color": "blue", "size": 2, "password": "hunter2"}}
    assert [(each.resource, each.name) for each in world.follower.seen(Topic.CONFIG)] == [
        (CONFIG_MAPS, "values"),
        (SECRETS, "login"),
    ]


def test_nothing_is_read_while_nothing_changes(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    world.settle()
    world.cluster.taken()
    world.reconcile()
    assert world.cluster.taken() == []


def test_after_a_restart_it_is_read_once_to_follow_it(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    world.settle()
    calls = list(world.shelf.calls)

    world.restart()
    world.reconcile_until_idle()
    sent = world.requests()
    assert [each for each in sent if not each.startswith(("GET", "LIST"))] == []
    assert world.follower.seen(Topic.CONFIG).keys() == {ObjectReference("shop", "values", resource=CONFIG_MAPS)}
    assert world.shelf.calls == calls
    assert world.conditions == READY


def test_a_change_is_rendered_at_once(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    world.settle()
    before = world.deployment.status.installed_revision

    put_values(world, "color: red")
    world.reconciler.memories.config_changed(NAME)
    world.settle()
    assert config_of(world) == {"values": {"color": "red"}}
    assert world.deployment.status.installed_revision != before
    assert [call for call in world.shelf.calls if call.startswith("resolve")] == ["resolve v1"]


def test_a_change_while_it_is_read_is_read_again(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    world.follower.found_newer[Topic.CONFIG] = lambda: world.reconciler.memories.config_changed(NAME)
    world.reconcile_until_idle()
    assert len([request for request in world.requests() if request == "GET configmaps/values"]) == 2


def test_what_is_missing_is_waited_for(world: World) -> None:
    wish(world, FROM_MAP)
    world.settle()
    assert world.conditions["Installed"] == "False ConfigNotFound"
    assert world.conditions["Reconciling"] == "True ConfigNotFound"
    assert world.conditions["Unpacked"] == "True Unpacked"
    assert world.message("Ready") == (
        'spec.configFrom[0]: ConfigMap "shop/values" does not exist; create it, or correct the name'
    )
    assert world.deployment.status.sources
    assert set(world.follower.seen(Topic.CONFIG).values()) == {""}

    put_values(world)
    world.reconciler.memories.config_changed(NAME)
    world.settle()
    assert world.conditions == READY


def test_a_missing_key_is_named(world: World) -> None:
    put_values(world)
    wish(world, {**FROM_MAP, "key": "other.yaml"})
    world.settle()
    assert world.message("Ready") == (
        'spec.configFrom[0]: ConfigMap "shop/values" has no key "other.yaml"; add it, or correct the key'
    )


def test_what_is_optional_may_be_missing(world: World) -> None:
    wish(world, {**FROM_MAP, "optional": True}, {**FROM_SECRET, "optional": True})
    world.settle()
    assert world.conditions == READY
    assert config_of(world) == {"values": {}}


def test_if_it_is_lost_what_is_installed_is_repaired(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    world.settle()
    world.cluster.remove(VALUES)
    world.reconciler.memories.config_changed(NAME)
    world.settle()
    assert world.conditions["Installed"] == "False ConfigNotFound"
    assert world.conditions["Healthy"] == "True Healthy"

    world.cluster.edit(A, data={"config": "edited"})
    world.settle()
    assert config_of(world) == {"values": {"color": "blue"}}


def test_a_failure_is_not_read_again_in_each_pass(world: World) -> None:
    wish(world, FROM_MAP)
    world.settle()
    world.cluster.taken()
    world.reconcile()
    assert world.cluster.taken() == []
    world.seconds += 301
    world.reconcile()
    assert any(request.endswith(VALUES) for request in world.cluster.taken())


def test_values_of_secrets_are_not_in_status_or_events(world: World) -> None:
    put_login(world, "hunter2")
    wish(world, FROM_SECRET, {**FROM_SECRET, "path": ""})
    world.settle()
    assert world.conditions["Installed"] == "False InvalidConfig"
    wish(world, FROM_SECRET)
    world.settle()
    assert world.conditions == READY

    status, texts = world.cluster.objects[PATH]["status"], [note.text for note in world.events.notes]
    assert "hunter2" not in json.dumps([status, texts])


def test_what_was_missing_is_not_followed_once_nothing_refers_to_it(world: World) -> None:
    wish(world, FROM_MAP)
    world.settle()
    assert world.follower.seen(Topic.CONFIG)

    wish(world)
    world.settle()
    assert world.conditions == READY
    assert world.follower.seen(Topic.CONFIG) == {}
    assert world.memory.retries.seconds_to_next() is None


def test_without_references_nothing_is_followed(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    world.settle()
    wish(world)
    world.settle()
    assert world.conditions == READY
    assert world.follower.seen(Topic.CONFIG) == {}
    assert config_of(world) == {}


def test_what_was_forbidden_is_read_again_when_rights_change(world: World) -> None:
    put_values(world)
    wish(world, FROM_MAP)
    denied = ApiError(403, "Forbidden", "no")
    world.cluster.faults[f"GET {VALUES}"] = [denied]
    world.settle()
    assert world.conditions["Installed"] == "False ConfigForbidden"
    assert world.follower.seen(Topic.CONFIG) == {}  # who may watch but not get it would be woken over and over
    assert world.follower.lacking == {NAME}

    world.reconciler.memories.rights_changed(NAME)
    world.settle()
    assert world.conditions == READY


class Keyed:
    """A processor that needs a Secret."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return []

    def find_secrets(self, parameters: Mapping[str, Any]) -> list[str]:
        return ["login"]

    def process(self, request: ProcessRequest) -> Rendering:
        return request.rendering


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """`spec.processors` with one that needs the Secret `login`."""
    install_plugins(monkeypatch, {(PROCESSORS, "example.com/keyed"): Keyed})
    return [{"kind": "example.com/keyed"}]


def builds(world: World) -> int:
    return len([call for call in world.shelf.calls if call.startswith("build")])


def test_the_secret_of_a_processor_is_followed_and_a_change_is_rendered(world: World, keyed: list[Json]) -> None:
    put_login(world, "hunter2")
    wish(world, processors=keyed)
    world.settle()
    assert world.conditions == READY
    assert [(each.resource, each.name) for each in world.follower.seen(Topic.CONFIG)] == [(SECRETS, "login")]
    before = builds(world)

    world.reconciler.memories.config_changed(NAME)
    world.settle()
    assert builds(world) == before
    put_login(world, "correct horse")
    world.reconciler.memories.config_changed(NAME)
    world.settle()
    assert builds(world) == before + 1


def test_a_secret_that_a_processor_needs_is_waited_for(world: World, keyed: list[Json]) -> None:
    wish(world, processors=keyed)
    world.settle()
    assert world.conditions["Installed"] == "False ConfigNotFound"
    assert world.message("Ready").startswith(
        'spec.processors[0].parameters: Secret "shop/login" does not exist; create it, or correct the name'
    )
    put_login(world, "hunter2")
    world.reconciler.memories.config_changed(NAME)
    world.settle()
    assert world.conditions == READY


def test_a_processor_that_needs_a_secret_needs_an_install_namespace(world: World, keyed: list[Json]) -> None:
    wish(world, processors=keyed, installNamespace=None)
    world.settle()
    assert world.conditions["Installed"] == "False InvalidConfig"
    assert world.message("Ready").startswith("spec.installNamespace: required, since a processor needs Secrets")
