"""Files and charts of repositories with signatures, installed on a cluster; the keys are in Secrets, or in the spec."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import charts
from tests.support.bundles import Deployed, Manifest, World, config_map, new_name
from tests.support.charts import entry_of, index_of
from tests.support.cosigned import FileSigner, PrivateKey, make_bundle, make_key, make_message, pem_of
from tests.support.private_sources import secret_manifest
from tests.support.signing import gpg_home, sign_chart
from tests.support.web_servers import FaultyServer


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


def deploy(world: World, keys: Mapping[str, str], *sources: Manifest, **spec: str) -> Deployed:
    """Apply a BundleDeployment, and a Secret with keys in its install namespace."""
    name = new_name()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    world.client.apply(f"/api/v1/namespaces/{name}", namespace, manager="tests", force=True)
    secret = secret_manifest(name, "keys", keys)
    world.client.apply(f"/api/v1/namespaces/{name}/secrets/keys", secret, manager="tests", force=True)
    return world.deploy(name=name, ref="none", sources=list(sources), **spec)


def bundle_of(key: PrivateKey, content: bytes) -> bytes:
    return make_bundle(messageSignature=make_message(key, hashlib.sha256(content).hexdigest()))


def signers(deployed: Deployed) -> list[str]:
    return [source["verified"]["by"] for source in deployed.wait_ready()["sources"]]


def test_files_that_cosign_has_signed(world: World, server: FaultyServer) -> None:
    first, key = FileSigner(), make_key()
    files = {name: json.dumps(config_map(name)).encode() for name in ("first", "second")}
    for name, body in files.items():
        server.add(f"/{name}.json", body)
    server.add("/first.json.sigstore.json", first.sign(files["first"]))
    server.add("/signatures/second", bundle_of(key, files["first"]))
    verify: dict[str, Manifest] = {
        "first": first.verify,
        "second": {
            "cosign": {"keys": [{"secret": {"name": "keys"}}]},
            "signatureURL": f"{server.address}/signatures/second",
        },
    }
    sources = [
        {
            "kind": "http",
            "destination": "manifests",
            "http": {"url": f"{server.address}/{name}.json", "verify": verify[name]},
        }
        for name in files
    ]
    deployed = deploy(world, {"cosign.pub": pem_of(key)}, *sources)
    message = deployed.wait_for("Unpacked", "False", "VerificationFailed")["message"]
    assert message.startswith("spec.sources[1].http.verify: the bundle is not accepted: ")
    assert deployed.objects() == {}
    server.add("/signatures/second", bundle_of(key, files["second"]))
    deployed.request_reconcile("signed")
    assert signers(deployed) == ["cosign", "cosign"]
    assert sorted(deployed.objects()) == ["first", "second"]


def test_a_chart_that_helm_has_signed(
    world: World, server: FaultyServer, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chart = charts.chart_of({"templates/settings.yaml": json.dumps(config_map("settings"))})
    with gpg_home(tmp_path_factory.mktemp("g") / "h") as gpg:
        gpg.make_key("rsa2048")
        keys = {"shop.asc": gpg.export().decode()}
        archive = sign_chart(gpg, charts.write(tmp_path, chart) / "c")
    server.add("/index.yaml", index_of([entry_of("c", "1.0.0", archive.read_bytes())]))
    server.add("/c-1.0.0.tgz", archive.read_bytes())
    verify = {"provenance": {"secret": {"name": "keys"}}}
    source = {"kind": "chart", "chart": {"repository": server.address, "name": "c", "verify": verify}}
    deployed = deploy(world, keys, source, format="helm")
    message = deployed.wait_for("Unpacked", "False", "VerificationFailed")["message"]
    assert message.startswith("spec.sources[0].chart.verify: ")
    assert "/c-1.0.0.tgz" not in [seen.path for seen in server.requests]
    server.add("/c-1.0.0.tgz.prov", archive.with_name(f"{archive.name}.prov").read_bytes())
    deployed.request_reconcile("signed")
    assert signers(deployed) == ["provenance"]
    assert sorted(deployed.objects()) == ["settings"]
