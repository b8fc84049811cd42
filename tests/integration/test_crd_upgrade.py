"""CRD upgrade safety: a definition that would break its users is held back, and what needs it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from hack.bench.rows import Peak, read_usage
from rukpak.api import names
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import running_process, wait_for
from tests.support.bundles import SECONDS, Deployed, World, config_map, exists, image, is_answered, new_name
from tests.support.definitions import CASES as FITTING
from tests.support.definitions import Manifest, definition, schema, version
from tests.support.inside import ApiError, connect

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT = {"type": "string"}
COLORS = {"type": "string", "enum": ["blue", "red"]}
BLUE = {"type": "string", "enum": ["blue"]}
MANY = 5_000
PAYLOAD = "x" * 2000
GONE_SECONDS = 300.0
"""The API server first deletes all its objects, which may be many."""
PEAK_MEBIBYTES = 12.0
"""What a survey of many objects may add to the peak; all of them at once take more than 30 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greetings:
    """A kind of its own, deployed, and what is asked of it."""

    world: World
    deployed: Deployed
    group: str

    @property
    def crd(self) -> str:
        return f"greetings.{self.group}"

    def definition(self, **properties: Any) -> Manifest:
        return definition(version(value=schema(**properties)), name=self.crd)

    def greeting(self, name: str, **spec: Any) -> Manifest:
        metadata = {"name": name, "namespace": self.deployed.namespace}
        return {"apiVersion": f"{self.group}/v1", "kind": "Greeting", "metadata": metadata, "spec": spec}

    def path(self, name: str = "") -> str:
        return f"/apis/{self.group}/v1/namespaces/{self.deployed.namespace}/greetings/{name}".rstrip("/")

    def put(self, name: str, **spec: Any) -> None:
        self.world.client.apply(self.path(name), self.greeting(name, **spec), manager="somebody", force=True)

    def spec(self, name: str) -> Any:
        return self.world.client.get(self.path(name)).value["spec"]

    def live(self) -> Manifest:
        value: Manifest = self.world.client.get(f"{CRDS}/{self.crd}").value
        return value

    def properties(self) -> Any:
        value = self.live()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return value["properties"]["spec"]["properties"]

    def upgrade(self, *manifests: Manifest) -> None:
        self.deployed.change(sources=[image(self.world.push(self.deployed.name, *manifests, tag=new_name()))])

    def refused(self, saying: str = "") -> str:
        message: str = self.deployed.wait_for("Stalled", "True", "UnsafeCRDUpgrade", saying)["message"]
        return message

    def refusal(self) -> str:
        found = self.deployed.conditions().get("Stalled", {})
        return str(found.get("message", "")) if found.get("reason") == "UnsafeCRDUpgrade" else ""

    def allow(self, *checks: str) -> None:
        rule = {"crd": self.crd, "checks": list(checks), "enforcement": "Warn"}
        self.deployed.change(crdUpgradeSafety={"rules": [rule]})


@pytest.fixture
def greetings(world: World) -> Iterator[Greetings]:
    """A greeting may have a color, of two."""
    group = f"{new_name()}.example.com"
    crd = definition(version(value=schema(color=COLORS, text=TEXT)), name=f"greetings.{group}")
    deployed = world.deploy(crd, config_map("settings"))
    deployed.wait_ready()
    made = Greetings(world=world, deployed=deployed, group=group)
    yield made
    deployed.delete()  # before its definition, which it would put back
    deployed.wait_gone()
    if exists(world.client, f"{CRDS}/{made.crd}"):
        world.client.delete(f"{CRDS}/{made.crd}")
        world.wait(lambda: not exists(world.client, f"{CRDS}/{made.crd}"), "the definition gone", seconds=GONE_SECONDS)


def test_an_unsafe_upgrade_is_refused_and_holds_up_only_what_needs_it_until_the_switch_lets_it_through(
    greetings: Greetings,
) -> None:
    greetings.put("hello", color="red")
    before = greetings.live()["metadata"]["resourceVersion"]
    newer = greetings.definition(color=BLUE, text=TEXT)
    greetings.upgrade(newer, config_map("settings", color="red"), greetings.greeting("bye", color="blue"))
    message = greetings.refused()
    assert f'validating upgrade for CRD "{greetings.crd}": ' in message
    assert 'v1: ^.spec.color: enum: allowed enum values removed : ["red"]; ' in message
    fails = f"existing custom object {greetings.deployed.namespace}/hello failed validation for new schema version v1: "
    assert f'{fails}spec.color: must be one of ["blue"] (1 checked, 1 invalid)' in message
    assert f"{{crd: {greetings.crd}, checks: [enum, existingResources], enforcement: Warn}}" in message
    greetings.world.wait(lambda: greetings.deployed.data("settings") == {"color": "red"}, "the rest is applied")
    assert greetings.deployed.get("bye") is None
    assert greetings.live()["metadata"]["resourceVersion"] == before
    assert greetings.spec("hello") == {"color": "red"}

    # The switch lets it through at once, and leaves a warning.
    greetings.upgrade(greetings.definition(color=BLUE, text=TEXT))
    greetings.allow("enum")
    message = greetings.refused("checks: [existingResources]")
    assert "allowed enum values removed" not in message
    greetings.allow("enum", "existingResources")
    warnings = greetings.deployed.wait_ready()["warnings"]
    assert greetings.properties()["color"] == BLUE
    assert any('^.spec.color: enum: allowed enum values removed : ["red"]' in warning for warning in warnings)
    assert any("/hello failed validation" in warning for warning in warnings)


def test_no_check_is_made_where_all_are_off_or_the_annotation_of_rukpak_turns_them_off(greetings: Greetings) -> None:
    newer = greetings.definition(color=BLUE)
    newer["metadata"]["annotations"] = {names.SAFE_CRD_UPGRADE_VALIDATION: "false"}
    greetings.upgrade(newer)
    greetings.world.wait(lambda: greetings.properties() == {"color": BLUE}, "the new definition")
    [warning] = greetings.deployed.wait_ready()["warnings"]
    assert names.SAFE_CRD_UPGRADE_VALIDATION in warning

    greetings.deployed.change(crdUpgradeSafety={"enforcement": "None"})
    green = {**TEXT, "enum": ["green"]}
    greetings.upgrade(greetings.definition(color=green))
    greetings.world.wait(lambda: greetings.properties() == {"color": green}, "the next definition")
    greetings.world.wait(lambda: "warnings" not in greetings.deployed.wait_ready(), "no warning")


@pytest.mark.own_cluster
def test_what_is_unchanged_costs_no_request_and_what_is_compatible_is_never_refused(greetings: Greetings) -> None:
    world, deployed = greetings.world, greetings.deployed
    position = world.position()
    greetings.upgrade(greetings.definition(color=COLORS, text=TEXT), config_map("settings", color="red"))
    world.wait(lambda: deployed.data("settings") == {"color": "red"}, "the rest")
    deployed.wait_ready()
    assert not [request for request in world.requests(position) if f"/{greetings.crd}" in request]

    # What somebody changed is put right without a check.
    hotfix = greetings.definition(color={**TEXT, "enum": ["blue", "green", "red"]}, text=TEXT)
    patch = {"spec": {"versions": hotfix["spec"]["versions"]}}
    world.client.merge_patch(f"{CRDS}/{greetings.crd}", patch, manager="somebody")
    world.wait(lambda: greetings.properties()["color"] == COLORS, "repaired")

    greetings.put("hello", color="red")
    wider = schema(color={**COLORS, "enum": ["blue", "green", "red"]}, text=TEXT, size={"type": "integer"})
    newer = definition(version(value=wider), version("v2", wider), name=greetings.crd)
    position = world.position()
    greetings.upgrade(newer)
    world.wait(lambda: len(greetings.live()["spec"]["versions"]) == 2, "the new definition")
    assert "warnings" not in deployed.wait_ready()
    assert not [request for request in world.requests(position) if "/greetings?" in request]


def test_an_added_version_that_existing_objects_do_not_fit_is_refused(greetings: Greetings) -> None:
    greetings.put("hello", color="red", text="long")
    value = schema(color=COLORS, text=TEXT)
    narrow = schema(color=COLORS, text={**TEXT, "maxLength": 2})
    newer = definition(version(value=value), version("v2", narrow, served=False), name=greetings.crd)
    greetings.upgrade(newer)
    assert "new schema version v2: spec.text: has more than 2 characters" in greetings.refused()


def test_an_adopted_definition_is_checked_as_well(world: World) -> None:
    group = f"{new_name()}.example.com"
    crd = definition(version(value=schema(color=COLORS)), name=f"greetings.{group}")
    world.client.apply(f"{CRDS}/greetings.{group}", crd, manager="somebody", force=True)
    narrow = definition(version(value=schema(color=BLUE)), name=f"greetings.{group}")
    deployed = world.deploy(narrow, collisionProtection="None")
    deployed.wait_for("Stalled", "True", "UnsafeCRDUpgrade", "allowed enum values removed")
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(f"{CRDS}/greetings.{group}")


# existing objects


def is_established(crd: Manifest) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def test_the_api_server_agrees_on_what_fits(cluster: Cluster) -> None:
    client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="tests")
    group = f"{new_name()}.example.com"
    fields = {
        f"f{index}": {"type": "object", "properties": {"value": case.schema}} for index, case in enumerate(FITTING)
    }
    value = {"type": "object", "properties": fields}
    path = f"{CRDS}/greetings.{group}"
    crd = definition(version(value=value), name=f"greetings.{group}", scope="Cluster")
    client.apply(path, crd, manager="somebody", force=True)
    wait_for(lambda: is_established(client.get(path).value), SECONDS, "established")
    wait_for(lambda: is_answered(client, f"/apis/{group}/v1/greetings"), SECONDS, "served")

    def is_taken(index: int) -> bool:
        metadata = {"name": f"g{index}"}
        content = {f"f{index}": {"value": FITTING[index].value}}
        body = {"apiVersion": f"{group}/v1", "kind": "Greeting", "metadata": metadata, **content}
        try:
            client.create(f"/apis/{group}/v1/greetings", body)
        except ApiError as error:
            assert error.status == 422, str(error)
            return False
        return True

    wrong = [case.name for index, case in enumerate(FITTING) if is_taken(index) == bool(case.says)]
    client.delete(path)
    assert wrong == []


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.own_cluster
def test_many_custom_resources_are_looked_at_in_pages(greetings: Greetings) -> None:
    def make(index: int) -> None:
        body = greetings.greeting(f"g{index:05}", color="red" if index == MANY // 2 else "blue", text=PAYLOAD)
        greetings.world.client.create(greetings.path(), body)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(MANY)))
    process = running_process(greetings.world.store.parent / "controller.pid")
    assert process
    peak = Peak(process)
    before, position = read_usage(process).resident, greetings.world.position()
    greetings.upgrade(greetings.definition(color=BLUE, text=TEXT))
    world = greetings.world
    try:
        message = world.wait(greetings.refusal, "refused", seconds=150)
    finally:
        most = peak.stop()
    bad = f"existing custom object {greetings.deployed.namespace}/g{MANY // 2:05} failed validation"
    assert bad in message
    assert f"({MANY} checked, 1 invalid)" in message
    pages = [request for request in greetings.world.requests(position) if "greetings?limit=50" in request]
    assert len(pages) == MANY / 50
    assert most - before < PEAK_MEBIBYTES
