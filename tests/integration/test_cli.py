"""The command line against a real control plane: what is previewed is what is applied, and what people ask for."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import Deployed, World, config_map, new_name
from tests.support.charts import pack
from tests.support.controller import Rukpak, command
from tests.support.inside import BUILT_IN_GROUPS, shipped
from tests.support.objects import deployment, secret, service
from tests.support.registry import MANIFEST

CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


def manifest(deployed: Deployed) -> str:
    return json.dumps(deployed.read())


# render and capabilities


BUNDLE = [config_map("a", text="1e3\n", word="on"), secret("s", key="value"), deployment("web"), service("web")]


def test_a_rendering_at_the_desk_is_what_the_controller_applied(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    deployed = world.deploy(*BUNDLE)
    status = deployed.wait_ready()
    capabilities = tmp_path / "capabilities.yaml"
    capabilities.write_text(rukpak("capabilities").stdout)
    options = ["-f", "-", "--capabilities", str(capabilities)]
    assert rukpak("render", *options, "-o", "revision", stdin=manifest(deployed)).stdout.strip() == status["revision"]
    names = rukpak("render", *options, "-o", "name", stdin=manifest(deployed)).stdout.splitlines()
    assert names == ["configmap/a", "secret/s", "deployment.apps/web", "service/web"]
    (tmp_path / "b" / "manifests").mkdir(parents=True)
    for index, value in enumerate(BUNDLE):
        (tmp_path / "b" / "manifests" / f"{index}.json").write_text(json.dumps(value))
    where = ["--install-namespace", deployed.namespace, "-o", "revision"]
    for content in (str(tmp_path / "b"), f"oci://{deployed.ref}"):
        assert rukpak("render", content, *where).stdout.strip() == status["revision"]

    text = rukpak("render", "-f", "-", stdin=manifest(deployed)).stdout
    told = world.cluster.kubectl(
        "apply", "--dry-run=server", "--server-side", "--field-manager=x", "-f", "-", input=text
    )
    assert len(told.splitlines()) == len(BUNDLE)

    # A Secret is read with the rights of the user, and only if one is named.
    value = deployed.read()
    value["spec"]["sources"][0]["image"]["auth"] = {"secret": {"name": "missing"}}
    value["status"] = {}
    done = rukpak("render", "-f", "-", "--use-secrets", stdin=json.dumps(value), status=1)
    assert done.stderr.startswith('SecretNotFound: spec.sources[0].image.auth: Secret "')
    assert len(done.stderr.splitlines()) == 1


def test_a_chart_as_helm_pushes_it_is_recognized(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    template = json.dumps(config_map("a")).encode()
    files = {"web/Chart.yaml": b"apiVersion: v2\nname: web\nversion: 1.0.0\n", "web/templates/a.json": template}
    archive, name = tmp_path / "web-1.0.0.tgz", new_name()
    archive.write_bytes(pack(files))
    image = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": world.registry.push_blob(name, CHART_CONFIG, b'{"name": "web", "version": "1.0.0"}').as_json(),
        "layers": [world.registry.push_blob(name, CHART, archive.read_bytes()).as_json()],
    }
    world.registry.push_manifest(name, "1.0.0", image)
    reference = f"{world.registry.host}/{name}:1.0.0"
    assert rukpak("render", f"oci://{reference}", "-o", "name").stdout == "configmap/a\n"
    assert rukpak("render", str(archive), "-o", "name").stdout == "configmap/a\n"
    words = ["install", name, "--image", f"oci://{reference}", "-n", "default", "--dry-run"]
    assert "Format: helm\n  Bundle: web 1.0.0\n" in rukpak(*words).stderr
    assert "pass --format helm" in rukpak(*words, "--format", "plain", status=1).stderr
    rukpak(*words[:-1], "--insecure-skip-tls-verify", "--yes", "--wait")
    assert " ".join(rukpak("history", name).stdout.split()).endswith(" web 1.0.0 image:1.0.0")
    assert "Bundle:    web 1.0.0" in rukpak("status", name).stdout


@pytest.mark.own_cluster
def test_what_is_shipped_is_what_a_new_cluster_serves(rukpak: Rukpak) -> None:
    served = json.loads(rukpak("capabilities", "-o", "json").stdout)
    kinds = [kind for kind in served["kinds"] if kind["group"] in BUILT_IN_GROUPS]
    found = {(kind["group"], kind["version"], kind["kind"]): kind["scope"] == "Namespaced" for kind in kinds}
    assert served["kubernetesVersion"] == shipped().kubernetes_version
    assert found == dict(shipped().kinds)


# status, pause, resume, reconcile


def test_one_is_paused_resumed_and_reconciled_and_its_status_and_events_are_shown(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(config_map("a"), config_map("b"))
    status = deployed.wait_ready()
    paused = rukpak("pause", "nobody", deployed.name, "--wait", status=1)
    assert paused.stderr == 'rukpak pause: BundleDeployment "nobody" not found\n'
    assert paused.stdout == f"bundledeployment.core.rukpak.io/{deployed.name} paused\n"
    deployed.edit("a", color="red")
    deployed.wait_for("Drifted")
    shown = rukpak("status", deployed.name).stdout
    assert status["sources"][0]["digest"] in shown
    assert "1 drifted" in shown
    assert "repair modified objects: 1" in shown
    table = rukpak("status").stdout.splitlines()
    assert table[0].split()[:4] == ["NAME", "FORMAT", "PAUSED", "READY"]
    assert next(line for line in table if line.startswith(deployed.name)).split()[2] == "true"
    objects = rukpak("status", deployed.name, "--objects").stdout
    assert f"ConfigMap {deployed.namespace}/b   Healthy" in objects
    assert json.loads(rukpak("status", deployed.name, "-o", "json").stdout)["metadata"]["name"] == deployed.name
    assert rukpak("resume", deployed.name, "--wait").stdout.endswith(" resumed\n")
    assert deployed.data("a") == {"color": "blue"}
    assert "Resuming would" not in rukpak("status", deployed.name).stdout

    world.push(deployed.name, config_map("a", color="green"))
    rukpak("reconcile", deployed.name, "--wait", "-o", "name")
    assert deployed.data("a") == {"color": "green"}
    assert deployed.status()["installedRevision"] != status["revision"]

    found = wait_for(lambda: rukpak("events", deployed.name, "-o", "json").stdout, 30, lambda: "no Event")
    assert deployed.name in found
    listed = wait_for(lambda: _last_words(rukpak("events", deployed.name).stdout), 30, lambda: "no Event Ready")
    assert listed == "is installed and healthy"
    done = rukpak("events", "nobody", status=1)
    assert done.stderr == 'rukpak events: BundleDeployment "nobody" not found\n'


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if " Ready " in line]
    return lines[-1].split(maxsplit=4)[-1].partition(" ")[2] if lines else ""


def test_status_shows_what_is_not_ready_and_waits_for_it_in_vain(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(deployment("web", replicas=1))
    deployed.wait_for("Installed")
    done = rukpak("status", deployed.name, "--wait", "--timeout=1s", status=1)
    *progress, last = done.stderr.splitlines()
    assert last == f"rukpak status: {deployed.name}: timed out"
    assert re.fullmatch(rf"\d\d:\d\d:\d\d {deployed.name}: Progressing: Deployment .+", progress[0])
    assert f"Deployment {deployed.namespace}/web" in done.stdout


# the installation


def test_version_and_check_know_the_controller_and_the_api(world: World, rukpak: Rukpak) -> None:
    world.deploy(config_map("a")).wait_ready()
    found = json.loads(rukpak("version", "-o", "json").stdout)
    own = found["client"]["version"]
    assert found["controller"]["running"] is True
    assert found["controller"]["version"] == own
    assert found["api"] == {"installed": True, "versions": ["v1alpha2"], "difference": ""}
    lines = rukpak("check").stdout.splitlines()
    levels = {line.split()[1]: line.split()[0] for line in lines}
    assert {levels[part] for part in ("Kubernetes", "API", "controller", "permissions")} == {"ok"}
    machine = next(number for number, line in enumerate(lines) if line.startswith("This machine"))
    assert lines[0].startswith("The cluster")
    checks = json.loads(rukpak("check", "-o", "json").stdout)
    here = [line.split()[1] for line in lines[machine + 1 :]]
    assert here == [each["check"] for each in checks["machine"]] == ["clock", "helm", "git", "confinement"]
    assert "API" in {each["check"] for each in checks["cluster"]}


# kubectl


@pytest.fixture
def kubectl(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The real kubectl, which finds the plug-in of this environment in PATH."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return world.cluster.kubectl


def test_kubectl_runs_and_completes_the_plug_in(world: World, kubectl: Callable[..., str]) -> None:
    """What else is completed: unit/controller/cli/test_completion.py."""
    deployed = world.deploy(config_map("a"))
    deployed.wait_ready()
    shown = kubectl("rukpak", "status", deployed.name, "-o", "name")
    assert shown == f"bundledeployment.core.rukpak.io/{deployed.name}\n"
    *completed, directive = kubectl("__complete", "rukpak", "status", "").splitlines()
    assert deployed.name in completed
    assert directive == ":4"
