"""config/samples: every sample is applied as it stands, but for its addresses, and becomes Ready."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, Manifest, World, bundle_of, config_map, new_world
from tests.support.charts import chart_of, repository_of
from tests.support.charts import pack as pack_chart
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.inside import read_documents
from tests.support.private_sources import FORGE, PASSWORD, USER, commit_bundle, serve_private_sources
from tests.support.registry import MANIFEST, LocalRegistry, pack
from tests.support.web_servers import FileServer

pytestmark = pytest.mark.timeout(300)
SAMPLES = ROOT / "config/samples"
CRD = ROOT / "config/crd/core.rukpak.io_bundledeployments.yaml"
OPERATOR = ROOT / "tests/data/registry-v1/watching-operator/bundle"
ELSEWHERE = ("kustomization.yaml", "proposal.yaml")
"""What is none, and what tests/e2e/test_three_sources.py installs."""
NAMES = sorted(path.name for path in SAMPLES.glob("*.yaml") if path.name not in ELSEWHERE)
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: "{{ .Values.color }}", size: "{{ .Values.size }}"}
"""
MONITOR = {"apiVersion": "monitoring.example.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "shop"}}


@pytest.fixture(scope="module")
def world(kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(kwok_cluster, registry, settings.running) as made:
        yield made


@pytest.fixture(scope="module")
def addresses(
    tmp_path_factory: pytest.TempPathFactory, registry: LocalRegistry, binaries: Binaries
) -> Iterator[dict[str, str]]:
    """Fill the servers; return what stands for what in the samples."""
    folder = tmp_path_factory.mktemp("sources")
    program = binaries.obtain(["registry"])["registry"]
    (folder / "private").mkdir()
    (folder / "git").mkdir()
    with (
        serve_private_sources(folder / "private", program, registry) as private,
        GitHttpServer(folder / "git") as git,
        FileServer().serving() as files,
    ):
        fill_registry(registry)
        commit_bundle(GitRepository(folder / "git/shop.git", config=FORGE), config_map("settings"))
        bundle = {f"shop-1.0.0/{path}": data for path, data in bundle_of(config_map("settings")).items()}
        files.files["/shop-1.0.0.tar.gz"] = gzip.compress(pack(bundle))
        files.files |= repository_of("web", "1.2.0", "1.2.3", "1.3.0", folder="/charts")
        files.files["/dashboard.yaml"] = json.dumps(config_map("dashboard")).encode()
        files.files["/production.yaml"] = b"color: red\nsize: large\n"
        authority = json.dumps(private.authority.pem)
        yield {
            "https://git.example.com": git.url,
            "https://files.example.com": files.address,
            "https://charts.example.com": f"{files.address}/charts",
            "registry.example.com": registry.host,
            "quay.io": registry.host,
            "private.example.com": private.registry.host,
            "username: me": f"username: {USER}",
            "password: secret": f"password: {PASSWORD}",
            'ca.crt: ""': f"ca.crt: {authority}",
        }


def fill_registry(registry: LocalRegistry) -> None:
    for name in ("shop", "foo/bar"):
        registry.push_image(name, "v1", [bundle_of(config_map("settings"))])
    registry.push_image("shop", "v1.4.2", [bundle_of(config_map("settings"))])
    registry.push_image("monitored", "v1", [bundle_of(config_map("settings"), MONITOR)])
    operator = {str(path.relative_to(OPERATOR)): path.read_bytes() for path in OPERATOR.rglob("*.yaml")}
    registry.push_image("operators/hello", "v1", [operator])
    push_chart(registry, "charts/web", {"templates/settings.yaml": TEMPLATE})


def push_chart(registry: LocalRegistry, name: str, templates: dict[str, str]) -> None:
    archive = pack_chart(chart_of(templates, "web"))
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": registry.push_blob(name, CHART_CONFIG, b'{"name": "web", "version": "1.2.3"}').as_json(),
        "layers": [registry.push_blob(name, CHART, archive).as_json()],
    }
    registry.push_manifest(name, "1.2.3", manifest)


def objects_of(text: str) -> list[Manifest]:
    return [document.value for document in read_documents(text.encode(), "sample")]


@pytest.mark.repeats
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_becomes_ready(world: World, addresses: dict[str, str], tmp_path: Path, name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    for written, real in addresses.items():
        text = text.replace(written, real)
    (tmp_path / name).write_text(text, encoding="utf-8")
    samples = [each for each in objects_of(text) if each["kind"] == "BundleDeployment"]

    world.cluster.kubectl("apply", "-f", str(tmp_path / name))
    for sample in samples:
        deployed = Deployed(client=world.client, name=sample["metadata"]["name"], ref="", wait=world.wait)
        deployed.wait_ready()

    if name == "helm.yaml":
        namespace = samples[0]["spec"]["installNamespace"]
        found = world.client.get(f"/api/v1/namespaces/{namespace}/configmaps/settings").value
        assert found["data"] == {"color": "green", "size": "large"}
    for sample in samples:
        world.cluster.kubectl("delete", "bd", sample["metadata"]["name"])
        world.cluster.kubectl("delete", "namespace", sample["spec"]["installNamespace"], "--wait=false")


def test_the_samples_show_every_source_format_and_feature() -> None:
    specs = [
        each["spec"]
        for name in NAMES
        for each in objects_of((SAMPLES / name).read_text(encoding="utf-8"))
        if each["kind"] == "BundleDeployment"
    ]
    shown = {field for spec in specs for field in spec}
    schema = objects_of(CRD.read_text(encoding="utf-8"))[0]
    version = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert shown == set(version["properties"]["spec"]["properties"])
    assert {spec["format"] for spec in specs} == {"plain", "helm", "registry-v1"}
    kinds = {source["kind"] for spec in specs for source in spec["sources"]}
    assert kinds == {"image", "git", "http", "configMap", "chart"}
