"""What a spec or a bundle selects, and finds nothing, or leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import Manifest, World, config_map, definition, is_answered, new_name
from tests.support.objects import custom, deployment, labelled, remove

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def warnings(deployed: Any) -> list[str]:
    found: list[str] = deployed.status().get("warnings") or []
    return [each for each in found if each.startswith("spec.")]


def test_a_health_check_or_an_ignore_rule_that_matches_nothing_is_a_warning_until_it_does(world: World) -> None:
    group = f"{new_name()}.example.com"
    without_group = {"kind": "Db", "failed": [{"field": {"path": "status.phase", "in": ["Broken"]}}]}
    deployed = world.deploy(
        definition(group, "Db"),
        custom(group, "Db", "main"),
        deployment("web"),
        healthChecks=[without_group, {"kind": "ConfigMap", "name": "gone", "always": "Healthy", "optional": True}],
        drift={"ignore": [{"group": "apps", "kind": "Deployment", "name": "wep", "paths": ["spec.replicas"]}]},
    )
    deployed.wait_for("Installed")
    remedy = "correct it, or set optional: true"
    nothing = "matches no object of the bundle; the nearest is"
    deployed.wait(
        lambda: (
            warnings(deployed)
            == [
                f"spec.healthChecks[0]: {nothing} {{group: {group}, kind: Db}}; {remedy}",
                f"spec.drift.ignore[0]: {nothing} {{group: apps, kind: Deployment, name: web}}; {remedy}",
            ]
        ),
        "both are told",
    )
    matching = {"kind": "Deployment", "name": "web", "group": "apps", "paths": ["spec.replicas"]}
    deployed.change(healthChecks=[{**without_group, "group": group}], drift={"ignore": [matching]})
    deployed.wait(lambda: not warnings(deployed), "they match")
    deployed.change(healthChecks=[{"kind": "Unlike", "always": "Healthy"}])
    deployed.wait(
        lambda: (
            warnings(deployed)
            == ["spec.healthChecks[0]: matches no object of the bundle; correct it, or set optional: true"]
        ),
        "without a nearest one",
    )


def test_an_image_that_no_pod_has_is_a_warning(world: World) -> None:
    images = [
        {"from": "example.com/web", "tag": "1"},
        {"from": "docker.io/library/absent", "tag": "1", "optional": True},
        {"from": "quay.io/", "to": "mirror.example.com/"},
    ]
    web = deployment("web")
    [container] = web["spec"]["template"]["spec"]["containers"]
    container["image"] = "example.com/wep:2"
    remedy = "correct it, or set optional: true"
    deployed = world.deploy(web, processors=[{"kind": "images", "images": images}])
    deployed.wait_ready()
    deployed.wait(
        lambda: (
            warnings(deployed)
            == ['spec.processors[0].images[0]: from matches no image; the nearest is "example.com/wep"; ' + remedy]
        ),
        "the misspelt one is told",
    )


LOCAL = "config.kubernetes.io/local-config"


def local(manifest: Manifest, value: str = "true") -> Manifest:
    return labelled(manifest, annotations={LOCAL: value})


@pytest.mark.parametrize(
    "processors", [None, [{"kind": "metadata", "metadata": {"labels": {"team": "web"}}}]], ids=["plain", "processed"]
)
def test_configuration_of_programs_that_render_is_not_applied(world: World, processors: list[Manifest] | None) -> None:
    function = {"apiVersion": "fn.kpt.dev/v1alpha1", "kind": "SetLabels", "metadata": {"name": "labels"}}
    deployed = world.deploy(
        local(function), local(config_map("settings")), local(config_map("a"), "false"), config_map("b"),
        processors=processors,
    )  # fmt: skip
    deployed.wait_ready()
    assert deployed.objects().keys() == {"a", "b"}
    assert deployed.status()["objects"]["total"] == 2


@pytest.mark.parametrize("taken", ["kind", "shortNames", "singular"])
def test_a_definition_whose_names_are_taken_says_by_which_one(world: World, taken: str) -> None:
    group = f"{new_name()}.example.com"
    first, second = definition(group, "Foo"), definition(group, "Bar")
    for each in (first, second):
        each["spec"]["names"] |= {"singular": each["spec"]["names"]["kind"].lower()}
    value = ["ff"] if taken == "shortNames" else {"kind": "Foo", "singular": "foo"}[taken]
    first["spec"]["names"][taken] = second["spec"]["names"][taken] = value
    world.client.create(CRDS, first)
    wait_for(lambda: is_answered(world.client, f"/apis/{group}/v1/foos"), 60, "the first one is served")
    deployed = world.deploy(second)
    says = f'is already in use by CustomResourceDefinition "foos.{group}"; delete that one, or choose other names'
    deployed.wait_for("Healthy", "False", "Failed", saying=says)
    deployed.delete()
    deployed.wait_gone()
    for name in ("foos", "bars"):
        remove(world.client, f"{CRDS}/{name}.{group}")
