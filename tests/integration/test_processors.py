"""spec.processors with a real controller: what is applied, what a change of them costs, and what a failure leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane, KubectlError
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, config_map, image, new_world
from tests.support.objects import deployment, secret
from tests.support.registry import LocalRegistry

pytestmark = pytest.mark.timeout(120)
IMAGES = {"kind": "images", "images": [{"from": "example.com/", "to": "mirror.example.com/example/"}]}
METADATA = {"kind": "metadata", "metadata": {"labels": {"team": "shop"}, "podTemplates": True}}


def patch(color: str | None, name: str = "settings") -> dict[str, Any]:
    return {
        "kind": "patch",
        "patch": {"target": {"kind": "ConfigMap", "name": name}, "merge": {"data": {"color": color}}},
    }


@pytest.fixture(scope="module")
def world(kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(kwok_cluster, registry, settings.running) as made:
        yield made


def reading(config: str, password: str) -> dict[str, Any]:
    """Return a Deployment that reads a ConfigMap and a Secret."""
    item = deployment("web", 1)
    pod = item["spec"]["template"]["spec"]
    pod["containers"][0]["envFrom"] = [{"configMapRef": {"name": config}}]
    pod["volumes"] = [{"name": "password", "secret": {"secretName": password}}]
    return item


def test_what_processors_make_is_applied_and_repaired(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue", size="large"), deployment("web", 1),
                            processors=[patch(None), IMAGES, METADATA])  # fmt: skip
    deployed.wait_ready()
    assert deployed.data("settings") == {"size": "large"}
    web = deployed.get("web", "deployments", "/apis/apps/v1")
    assert web is not None
    template = web["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "mirror.example.com/example/main:1"
    assert (web["metadata"]["labels"]["team"], template["metadata"]["labels"]["team"]) == ("shop", "shop")
    assert "team" not in web["spec"]["selector"]["matchLabels"]
    deployed.edit("settings", size="small")
    deployed.wait(lambda: deployed.data("settings") == {"size": "large"}, "repair")


def test_a_changed_processor_is_another_revision_without_asking_the_source(
    world: World, registry: LocalRegistry
) -> None:
    deployed = world.deploy(config_map("settings"), processors=[patch("red")])
    before = deployed.wait_ready()
    asked = registry.requests_to(deployed.name)
    deployed.change(processors=[patch("green")])
    after = deployed.wait_installed(before["installedRevision"])
    assert deployed.data("settings") == {"color": "green"}
    assert after["sources"] == before["sources"]
    assert registry.requests_to(deployed.name) == asked


def test_a_patch_that_selects_nothing_leaves_what_is_installed(world: World) -> None:
    deployed = world.deploy(config_map("settings"), processors=[patch("red")])
    before = deployed.wait_ready()
    deployed.change(processors=[patch("red"), patch("green", "none")])
    deployed.wait_for("Installed", "False", "InvalidConfig", "spec.processors[1].patch.target: matches no object")
    assert deployed.data("settings") == {"color": "red"}
    assert deployed.status()["installedRevision"] == before["installedRevision"]
    deployed.change(processors=None)
    deployed.wait_installed(before["installedRevision"])
    assert deployed.data("settings") == {"color": "blue"}


def test_a_kind_without_a_plug_in_is_told(world: World) -> None:
    deployed = world.deploy(config_map("settings"), processors=[{"kind": "example.com/none", "parameters": {"a": 1}}])
    deployed.wait_for("Installed", "False", "UnknownProcessor", 'no plug-in for processors of kind "example.com/none"')


def test_changed_config_rolls_out_what_reads_it_and_nothing_else_does(world: World) -> None:
    def _bundle(color: str, password: str, unrelated: str) -> list[dict[str, Any]]:
        config = [config_map("settings", color=color), secret("login", password=password)]
        return [*config, config_map("unrelated", value=unrelated), reading("settings", "login"), deployment("idle", 1)]

    def _read() -> tuple[int, str | None, int]:
        web, idle = (deployed.get(name, "deployments", "/apis/apps/v1") for name in ("web", "idle"))
        assert web is not None
        assert idle is not None
        annotations = web["spec"]["template"]["metadata"].get("annotations") or {}
        return web["metadata"]["generation"], annotations.get(names.CONFIG_DIGEST), idle["metadata"]["generation"]

    deployed = world.deploy(*_bundle("blue", "x", "1"), processors=[{"kind": "rollouts"}])
    revision = deployed.wait_ready()["installedRevision"]
    generation, digest, idle = _read()
    assert digest
    for expected, change in ((1, ("green", "x", "1")), (2, ("green", "y", "1")), (2, ("green", "y", "2"))):
        ref = world.push(deployed.name, *_bundle(*change), tag="-".join(change))
        deployed.change(sources=[image(ref)])
        revision = deployed.wait_installed(revision)["installedRevision"]
        assert _read()[0] == generation + expected
    after = _read()
    assert after[1] not in (None, digest)
    assert after[2] == idle
    deployed.edit("settings", color="red")
    deployed.wait(lambda: (deployed.data("settings") or {}).get("color") == "green", "repair")
    assert _read() == after


REFUSED = {
    "no kind": ([{"patch": {}}], "spec.processors[0].kind: Required value"),
    "an unknown kind": ([{"kind": "melt"}], "must be patch, images, metadata, rollouts, or the <domain>/<name>"),
    "another block": ([{**METADATA, "kind": "images"}], "spec.processors[0].images: Invalid value"),
    "two patches": (
        [{"kind": "patch", "patch": {"target": {"kind": "A"}, "merge": {}, "strategic": {}}}],
        "set exactly one of merge, strategic and json",
    ),
    "an empty target": ([{"kind": "patch", "patch": {"target": {}, "merge": {}}}], "set at least one of group, kind"),
    "an operation of another kind": (
        [{"kind": "patch", "patch": {"target": {"kind": "A"}, "json": [{"op": "append", "path": "/a", "value": 1}]}}],
        "spec.processors[0].patch.json[0].op: Unsupported value",
    ),
    "an image without a change": ([{"kind": "images", "images": [{"from": "a"}]}], "set at least one of to, tag"),
    "a block of another kind": (
        [{**METADATA, "rollouts": {}}],
        "spec.processors[0].rollouts: Invalid value: is only for the kind rollouts",
    ),
    "rollouts of pods": (
        [{"kind": "rollouts", "rollouts": {"kinds": ["Pod"]}}],
        "spec.processors[0].rollouts.kinds[0]: Unsupported value",
    ),
    "a processor after rollouts": (
        [{"kind": "rollouts"}, METADATA],
        "spec.processors: Invalid value: only the last processor may be of the kind rollouts; move it to the end",
    ),
    "rollouts twice": ([{"kind": "rollouts"}, {"kind": "rollouts", "rollouts": {}}], "only the last processor may be"),
    "a typo": ([{"kind": "metadata", "metadata": {"label": {}}}], 'unknown field "spec.processors[0].metadata.label"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_kubectl_apply_refuses_what_cannot_be_meant(world: World, case: str) -> None:
    processors, message = REFUSED[case]
    spec = {"format": "plain", "sources": [{"kind": "image", "image": {"ref": "a/b:v1"}}], "processors": processors}
    manifest = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": "BundleDeployment", "metadata": {"name": "x"}}
    with pytest.raises(KubectlError) as caught:
        world.cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps({**manifest, "spec": spec}))
    assert message in str(caught.value)


def test_a_value_in_a_json_patch_may_be_anything(world: World) -> None:
    values: list[Any] = ["1", {"a": ["b"]}, [1]]
    operations = [{"op": "add", "path": "/metadata/annotations", "value": {"values": "x"}}]
    operations += [{"op": "test", "path": "/data/color", "value": "blue"}]
    deployed = world.deploy(
        config_map("settings"),
        processors=[
            {"kind": "patch", "patch": {"target": {"name": "settings"}, "json": operations}},
            {
                "kind": "patch",
                "patch": {
                    "target": {"name": "none"},
                    "json": [{"op": "add", "path": "/a", "value": value} for value in values],
                    "optional": True,
                },
            },
        ],
    )
    deployed.wait_ready()
    kept = deployed.read()["spec"]["processors"][1]["patch"]["json"]
    assert [operation["value"] for operation in kept] == values
