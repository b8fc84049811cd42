"""The package rukpak-krm-functions as users install it: with functions made of kustomize's code, and hostile ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, config_map, new_world
from tests.support.controller import Controller
from tests.support.objects import deployment
from tests.support.other_programs import UnavailableError, build, install
from tests.support.packages import Environment, Install
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.thorough, pytest.mark.long, pytest.mark.timeout(300)]
PACKAGE = ROOT / "hack/plugins/krm"
SOURCES = ROOT / "tests/support/go_functions"
FOLDERS = "RUKPAK_KRM_FUNCTIONS"
PATH = "spec.processors[0].parameters"
TIMEOUT = 8
"""Seconds."""


@pytest.fixture(scope="module")
def environment(environment_with: Install) -> Environment:
    return environment_with(PACKAGE)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Path:
    """A folder with functions that work."""
    folder = tmp_path_factory.mktemp("functions")
    try:
        program = build(SOURCES)
        # An example of the framework, as it was published.
        copyfile(install("sigs.k8s.io/kustomize/kyaml/fn/framework/example", "0.17.1", settings), folder / "example")
    except UnavailableError as error:
        pytest.skip(str(error))
    for name in ("transform", "starlark", "require-labels"):
        copyfile(program, folder / name)
    return folder


@pytest.fixture(scope="module")
def world(
    environment: Environment, functions: Path, kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> Iterator[World]:
    installed = environment

    def make(folder: Path, kubeconfig: Path, *options: str, environment: Mapping[str, str]) -> Controller:
        variables = {**environment, FOLDERS: str(functions)}
        return installed.controller(folder, kubeconfig, *options, environment=variables)

    with_timeout = f"--render-timeout={TIMEOUT}"
    with new_world(kwok_cluster, registry, settings.running, with_timeout, make=make) as made:
        yield made


def processor(*functions: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "krm.rukpak.io/v1", "parameters": {"functions": list(functions)}}


def function(path: Path, **more: Any) -> dict[str, Any]:
    return {"exec": path.name, "digest": f"sha256:{sha256(path.read_bytes()).hexdigest()}", **more}


def write(folder: Path, name: str, script: str) -> dict[str, Any]:
    """Add a function that is a shell script, and return the parameters that name it."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    return function(folder / name)


def labels(functions: Path, **wanted: str) -> dict[str, Any]:
    config = {"apiVersion": "builtin", "kind": "LabelTransformer", "metadata": {"name": "labels"}, "labels": wanted}
    return function(
        functions / "transform", config={**config, "fieldSpecs": [{"path": "metadata/labels", "create": True}]}
    )


def replacement(functions: Path) -> dict[str, Any]:
    source = {"kind": "ConfigMap", "name": "settings", "fieldPath": "data.image"}
    target = {"select": {"kind": "Deployment"}, "fieldPaths": ["spec.template.spec.containers.0.image"]}
    config = {"apiVersion": "builtin", "kind": "ReplacementTransformer", "metadata": {"name": "images"}}
    return function(
        functions / "transform", config={**config, "replacements": [{"source": source, "targets": [target]}]}
    )


STAR = """
def grow(items):
    for item in items:
        if item["kind"] == "Deployment":
            item["spec"]["replicas"] += 1

grow(ctx.resource_list["items"])
"""


def starlark(functions: Path) -> dict[str, Any]:
    config = {"apiVersion": "fn.kpt.dev/v1alpha1", "kind": "StarlarkRun", "metadata": {"name": "grow"}, "source": STAR}
    return function(functions / "starlark", config=config)


def test_its_own_tests_pass_where_it_is_installed(environment: Environment) -> None:
    environment.test(PACKAGE)


def test_real_functions_change_what_is_installed(world: World, functions: Path) -> None:
    template = {"apiVersion": "example.com/v1", "kind": "Example", "value": "generated"}
    chain = [
        labels(functions, team="shop"), replacement(functions), starlark(functions),
        function(functions / "example", config=template),
    ]  # fmt: skip
    settings = config_map("settings", image="example.com/main:2")
    deployed = world.deploy(settings, deployment("web", 1), processors=[processor(*chain)])
    deployed.wait_ready()
    web = deployed.get("web", "deployments", "/apis/apps/v1")
    assert web is not None
    assert web["metadata"]["labels"]["team"] == "shop"
    assert web["spec"]["replicas"] == 2
    assert web["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/main:2"
    assert deployed.get("generated", "serviceaccounts") is not None, "the example adds one by a template"
    found = deployed.get("settings")
    assert found is not None
    assert "internal.config.kubernetes.io/index" not in json.dumps(found["metadata"].get("annotations"))
    deployed.edit("settings", image="other")
    deployed.wait(lambda: deployed.data("settings") == {"image": "example.com/main:2"}, "repair")


def test_functions_are_found_where_a_large_bundle_is_rendered(world: World, functions: Path) -> None:
    text = f"# {'x' * (5 << 20)}\n{json.dumps(config_map('settings'))}\n"
    deployed = world.deploy({"manifests/a.yaml": text.encode()}, processors=[processor(labels(functions, team="shop"))])
    deployed.wait_ready()
    found = deployed.get("settings")
    assert found is not None
    assert found["metadata"]["labels"]["team"] == "shop"


def test_what_a_function_refuses_is_told_and_what_is_installed_stays(world: World, functions: Path) -> None:
    check = functions / "require-labels"
    deployed = world.deploy(
        config_map("settings"), processors=[processor(function(check, configMap={"team": "warning"}))]
    )
    before = deployed.wait_ready()
    said = f'{PATH}.functions[0]: "require-labels": ConfigMap settings: metadata.labels: set the label team'
    assert before["warnings"] == [said]
    deployed.change(processors=[processor(function(check, configMap={"team": "error"}))])
    deployed.wait_for("Installed", "False", "ProcessorFailed", said)
    assert deployed.status()["installedRevision"] == before["installedRevision"]
    deployed.change(
        processors=[processor(labels(functions, team="shop"), function(check, configMap={"team": "error"}))]
    )
    deployed.wait_installed(before["installedRevision"])


HOSTILE = {
    "hangs": (
        "sleep 60",
        "RenderLimitExceeded",
        f'timed out: "hangs" and what ran before it take more than {TIMEOUT} s',
    ),
    "floods": ("cat /dev/zero", "RenderLimitExceeded", "output of floods exceeds the limit of"),
    "crashes": ("kill -SEGV $$", "ProcessorFailed", '"crashes": crashed (SIGSEGV)'),
    "lies": ("echo '{kind: ResourceList, items: [}'", "ProcessorFailed", '"lies": printed no YAML or JSON: output:1'),
    "writes": ("echo x > /tmp/written-by-a-function", "ProcessorFailed", '"writes": failed with status'),
    "calls": ("exec bash -c ': < /dev/tcp/127.0.0.1/9'", "ProcessorFailed", '"calls": failed with status 1: bash:'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_function_harms_nobody(name: str, world: World, functions: Path) -> None:
    script, reason, said = HOSTILE[name]
    hostile = world.deploy(config_map("settings"), processors=[processor(write(functions, name, script))])
    other = world.deploy(config_map("settings"), processors=[processor(labels(functions, team="shop"))])
    other.wait_ready()
    condition = hostile.wait_for("Installed", "False", reason, said)
    assert condition["message"].startswith(f"{PATH}.functions[0]: ")
    assert hostile.data("settings") is None


def test_a_function_that_is_replaced_is_not_run_for_who_named_another(world: World, functions: Path) -> None:
    named = write(functions, "color", "sed s/blue/red/")
    deployed = world.deploy(config_map("settings", color="blue"), processors=[processor(named)])
    before = deployed.wait_ready()
    assert deployed.data("settings") == {"color": "red"}
    replaced = write(functions, "color", "sed s/blue/bad/")
    deployed.change(processors=[processor({**named, "configMap": {"any": "change"}})])
    said = f'{PATH}.functions[0].digest: "color" has another digest here, {replaced["digest"]}'
    deployed.wait_for("Installed", "False", "InvalidConfig", said)
    assert deployed.data("settings") == {"color": "red"}
    deployed.change(processors=[processor(replaced)])
    deployed.wait_installed(before["installedRevision"])
    assert deployed.data("settings") == {"color": "bad"}


def test_the_command_line_renders_with_functions(world: World, environment: Environment, functions: Path) -> None:
    deployed = world.deploy(config_map("settings"), processors=[processor(labels(functions, team="shop"))])
    deployed.wait_ready()
    manifest = functions.parent / "deployment.json"
    manifest.write_text(json.dumps({key: deployed.read()[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
    printed = environment.run(
        "rukpak", "render", "-f", str(manifest), "-o", "json", variables={FOLDERS: str(functions)}
    ).stdout
    assert json.loads(printed)["items"][0]["metadata"]["labels"]["team"] == "shop"


def test_the_example_of_the_readme_is_accepted(world: World, tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "example.yaml").write_text(found[1])
    said = world.cluster.kubectl("apply", "--dry-run=server", "-f", str(tmp_path / "example.yaml"))
    assert said.strip() == "bundledeployment.core.rukpak.io/shop created (server dry run)"
