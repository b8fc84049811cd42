"""Charts on a real control plane: from each kind of source, their dice, what they keep, and what is wrong with some."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundles import Deployed, World, exists, image, new_name
from tests.support.charts import DATA, chart_of, files_of, pack
from tests.support.controller import command
from tests.support.registry import MANIFEST
from tests.support.web_servers import FileServer

SHOP = files_of(DATA / "shop")
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
WIDGETS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.shop.example.com"
QUIET = {"values": {"hooks": False}, "includeCRDs": False}
"""The definition belongs to one BundleDeployment at a time."""


@pytest.fixture(scope="module")
def files() -> Iterator[FileServer]:
    with FileServer().serving() as server:
        yield server


def password_of(deployed: Deployed) -> str:
    found = deployed.get(f"{deployed.name}-password", "secrets")
    assert found
    return str(found["data"]["password"])


def push_chart(world: World, name: str, files: Mapping[str, bytes]) -> str:
    """Push a chart as `helm push` does, and return its reference."""
    config = json.dumps({"name": "shop", "version": "1.2.3", "apiVersion": "v2"}).encode()
    archive = pack({f"shop/{path}": data for path, data in files.items()})
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": world.registry.push_blob(name, CHART_CONFIG, config).as_json(),
        "layers": [world.registry.push_blob(name, CHART, archive).as_json()],
    }
    world.registry.push_manifest(name, "1.2.3", manifest)
    return f"{world.registry.host}/{name}:1.2.3"


# from each kind of source


def test_a_chart_in_an_image(world: World) -> None:
    deployed = world.deploy(SHOP, format="helm")
    status = deployed.wait_ready()
    settings = deployed.data(f"{deployed.name}-settings")
    assert settings
    assert (settings["color"], settings["release"]) == ("blue", f"{deployed.name} {deployed.namespace} true false 1")
    assert settings["kubernetes"] == world.client.get("/version").value["gitVersion"]
    assert status["objects"]["total"] == 4
    assert world.client.get(WIDGETS).value["status"]["acceptedNames"]["kind"] == "Widget"
    assert deployed.get("announce")
    assert deployed.get("migrate") is None  # it says itself that it goes when it has succeeded


def test_a_chart_as_helm_pushes_it(world: World) -> None:
    name = new_name()
    deployed = world.deploy(name=name, ref=push_chart(world, name, SHOP), format="helm", config=QUIET)
    deployed.wait_ready()
    assert deployed.get(f"{name}-shelf")
    assert password_of(deployed)


def test_a_chart_over_http_with_values_of_another_source(world: World, files: FileServer) -> None:
    files.files["/charts/shop-1.2.3.tgz"] = pack({f"shop/{path}": data for path, data in SHOP.items()})
    files.files["/values.yaml"] = b"color: red\nhooks: false\n"
    sources = [
        {"kind": "http", "destination": "chart", "http": {"url": f"{files.address}/charts/shop-1.2.3.tgz"}},
        {"kind": "http", "destination": "mine", "http": {"url": f"{files.address}/values.yaml"}},
    ]
    deployed = world.deploy(
        ref="unused/x:v1",
        sources=sources,
        format="helm",
        config={"valuesFiles": ["mine/values.yaml"], "includeCRDs": False},
    )
    deployed.wait_ready()
    settings = deployed.data(f"{deployed.name}-settings")
    assert settings
    assert settings["color"] == "red"


# dice


def test_the_dice_are_thrown_once_for_one_input_and_what_a_chart_keeps_is_kept(world: World) -> None:
    deployed = world.deploy(SHOP, format="helm", config=QUIET)
    before = deployed.wait_ready()
    thrown = password_of(deployed)

    deployed.client.delete(deployed.path_of(f"{deployed.name}-password", "secrets"))
    deployed.wait(lambda: deployed.get(f"{deployed.name}-password", "secrets"), "the password is restored")
    deployed.change(prune="AfterApply")
    deployed.wait_ready()
    assert password_of(deployed) == thrown

    world.controller.stop()
    shutil.rmtree(world.store)
    deployed.client.delete(deployed.path_of(f"{deployed.name}-password", "secrets"))
    world.controller.start()
    deployed.wait(lambda: deployed.get(f"{deployed.name}-password", "secrets"), "the password is restored once more")
    assert password_of(deployed) == thrown

    deployed.request_reconcile("again")
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "again", "requested again")
    assert deployed.wait_ready()["revision"] == before["revision"]
    assert password_of(deployed) == thrown

    deployed.change(config={"values": {"hooks": False, "color": "red"}, "includeCRDs": False})
    deployed.wait_installed(before["revision"])
    assert password_of(deployed) != thrown, "another input throws them again"

    deployed.delete()
    deployed.wait_gone()
    kept = deployed.get(f"{deployed.name}-password", "secrets")
    assert kept
    assert kept["metadata"]["annotations"]["core.rukpak.io/released-from"] == deployed.name
    assert deployed.data(f"{deployed.name}-settings") is None


# what is wrong

CASES: dict[str, tuple[dict[str, bytes], dict[str, Any], str, str]] = {
    "a chart that fails": (
        chart_of({"templates/a.yaml": '{{ fail (printf "no %s" .Values.secret) }}'}),
        {"values": {"secret": "hunter22"}},
        "RenderFailed",
        '"c": c/templates/a.yaml:1:3: no …',
    ),
    "two charts": ({**chart_of({}, "a"), **chart_of({}, "b")}, {}, "InvalidBundle", 'found 2 charts: "a", "b"'),
    "manifests": (
        {"manifests/a.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"},
        {},
        "NoContent",
        'which looks like plain manifests: set spec.format to "plain"',
    ),
}


@pytest.mark.parametrize(("content", "config", "reason", "saying"), CASES.values(), ids=CASES.keys())
def test_nothing_is_applied_of(
    content: dict[str, bytes], config: dict[str, Any], reason: str, saying: str, world: World
) -> None:
    deployed = world.deploy(content, format="helm", config=config)
    deployed.wait_for("Installed", "False", reason, saying=saying)
    deployed.wait_for("Stalled", "True", reason)
    assert not exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")


GENERATING = """\
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData:
  password: '{{ .Values.password | default (randAlphaNum 16) }}'
  user: admin
  version: '{{ .Chart.Version }}'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {rollme: '{{ randAlphaNum 5 }}'}}
"""


def test_a_password_that_an_upgrade_makes_anew_is_told(world: World) -> None:
    first, second = (
        {**chart_of({"templates/a.yaml": GENERATING}), "c/Chart.yaml": f"name: c\nversion: {n}.0.0\n".encode()}
        for n in (1, 2)
    )
    deployed = world.deploy(first, format="helm")
    assert "warnings" not in deployed.wait_ready()
    before = deployed.get("db", "secrets")
    sources = [image(world.push(deployed.name, second, tag="v2"))]
    told = f"Secret {deployed.name}/db: data.password: made anew, since the content or spec.config has changed"
    changed = {**deployed.read(), "status": {}}
    changed["spec"]["sources"] = sources
    shown = command(world.cluster.kubeconfig)("diff", "-f", "-", "--use-secrets", stdin=json.dumps(changed), status=1)
    assert told in shown.stderr + shown.stdout
    deployed.change(sources=sources)
    status = deployed.wait_installed(deployed.status()["installedRevision"])
    after = deployed.get("db", "secrets")
    assert before
    assert after
    assert before["data"]["password"] != after["data"]["password"]
    (warning,) = status["warnings"]
    assert warning.startswith(told)
    deployed.change(sources=sources, config={"values": {"password": "hunter2"}})
    assert "warnings" not in deployed.wait_installed(status["installedRevision"])


# real charts

CORPUS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent")) / "helm"


@pytest.mark.parametrize(
    "chart", [path.parent for path in sorted(CORPUS.glob("*/Chart.yaml"))], ids=lambda path: path.name
)
def test_a_real_chart_becomes_ready(chart: Path, world: World) -> None:
    # There is no node here that pods could run on.
    world.deploy(files_of(chart), format="helm", config={"values": {"replicaCount": 0}}).wait_ready()
