"""The package of plug-ins in hack/plugins/sops, installed by pip: its own tests, and encrypted bundles on a cluster."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, Manifest, World, config_map, new_world
from tests.support.charts import chart_of, packaged_helm
from tests.support.controller import Controller
from tests.support.packages import Environment, Install
from tests.support.private_sources import secret_manifest
from tests.support.registry import LocalRegistry
from tests.support.tenants import ACCOUNT, CONFIG_MAPS, grant, tenant

pytestmark = [pytest.mark.timeout(600), pytest.mark.long, pytest.mark.thorough]
PACKAGE = ROOT / "hack" / "plugins" / "sops"
DATA = PACKAGE / "tests" / "data"
RECIPIENTS = {
    "test": "age1r0g8u39nheafzzl4dgmle5zmh0s9gvcepfuzts5yzdlvu0d29f8qlf7exk",
    "other": "age1l8ke67qvvh85hhz5m2zk7mn3z2wa98q4l8v0z2rsywpjp9k24swq38hw09",
}
CANARY = "canary-7f3a91"
SECRETS = {
    **CONFIG_MAPS,
    "resources": ["secrets", "configmaps"],
    "verbs": ["get", "list", "watch", *CONFIG_MAPS["verbs"]],
}
PROCESSOR: Manifest = {"kind": "sops.rukpak.io/v1", "parameters": {"secret": {"name": "sops-keys"}}}
CHART = {
    "values.yaml": "password: none\n",
    "templates/secret.yaml": """\
apiVersion: v1
kind: Secret
metadata: {name: database}
stringData:
  url: "postgres://user:{{ .Values.password }}@host"
""",
}


@pytest.fixture(scope="module")
def path(sops: Path) -> str:
    """PATH with sops and Helm."""
    return os.pathsep.join([str(sops.parent), str(packaged_helm().parent), os.environ["PATH"]])


@pytest.fixture(scope="module")
def environment(environment_with: Install) -> Environment:
    return environment_with(PACKAGE)


@pytest.fixture(scope="module")
def world(
    environment: Environment, path: str, fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> Iterator[World]:
    def make(folder: Path, kubeconfig: Path, *options: str, environment: Mapping[str, str]) -> Controller:
        return installed.controller(folder, kubeconfig, *options, environment={**environment, "PATH": path})

    installed = environment
    with new_world(fresh_cluster, registry, settings.running, is_shared=False, make=make) as started:
        yield started


Encrypt = Callable[..., bytes]


@pytest.fixture(scope="module")
def encrypt(sops: Path) -> Encrypt:
    def _encrypt(text: str, key: str = "test") -> bytes:
        line = [str(sops), "encrypt", "--age", RECIPIENTS[key], "--encrypted-regex", "^(data|stringData|password)$"]
        line += ["--input-type", "yaml", "--output-type", "yaml", "/dev/stdin"]
        return subprocess.run(line, input=text.encode(), capture_output=True, check=True, cwd="/").stdout

    return _encrypt


def manifest_of(password: str = CANARY, kind: str = "Secret") -> str:
    field = "stringData" if kind == "Secret" else "data"
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "database"}, field: {"password": password}}
    return json.dumps(item)


def put_keys(world: World, namespace: str, *names: str) -> None:
    found = secret_manifest(
        namespace, "sops-keys", {f"{name}.agekey": (DATA / f"{name}.agekey").read_text() for name in names}
    )
    world.client.apply(f"/api/v1/namespaces/{namespace}/secrets/sops-keys", found, manager="tests", force=True)


def deploy(world: World, name: str, files: Mapping[str, bytes], **spec: Any) -> Deployed:
    return world.deploy(dict(files), name=name, serviceAccountName=ACCOUNT, processors=[PROCESSOR], **spec)


def password_of(deployed: Deployed, key: str = "password") -> str:
    found = deployed.get("database", "secrets")
    return base64.b64decode(found["data"][key]).decode() if found else ""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def assert_nothing_is_told(world: World, deployed: Deployed) -> None:
    said = json.dumps([deployed.read(), sorted(deployed.events().values())]) + world.controller.log
    for text in (CANARY, encoded(CANARY), "AGE-SECRET-KEY"):
        assert text not in said


def test_the_tests_of_the_package_pass_where_it_is_installed(environment: Environment, path: str) -> None:
    said = environment.test(PACKAGE, variables={"PATH": f"{environment.folder / 'bin'}{os.pathsep}{path}"}).stdout

    assert " passed" in said
    assert "skipped" not in said


def test_an_encrypted_manifest_becomes_a_secret(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    deployed = deploy(world, name, {"manifests/secret.yaml": encrypt(manifest_of())})

    deployed.wait_ready()

    assert password_of(deployed) == CANARY
    assert_nothing_is_told(world, deployed)


def test_encrypted_content_of_a_config_map_becomes_a_secret(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    content = config_map("content", **{"secret.yaml": encrypt(manifest_of()).decode()})
    world.client.apply(f"/api/v1/namespaces/{name}/configmaps/content", content, manager="tests", force=True)
    source = {"kind": "configMap", "configMap": {"name": "content"}, "destination": "manifests"}
    deployed = deploy(world, name, {}, ref="none", sources=[source])

    deployed.wait_ready()

    assert password_of(deployed) == CANARY
    assert_nothing_is_told(world, deployed)


def test_encrypted_values_files_of_a_chart_are_decrypted(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    files = {**chart_of(CHART), "secrets.yaml": encrypt(f"password: {CANARY}\n")}
    deployed = deploy(world, name, files, format="helm", config={"valuesFiles": ["secrets.yaml"]})

    deployed.wait_ready()

    assert password_of(deployed, "url") == f"postgres://user:{CANARY}@host"
    assert_nothing_is_told(world, deployed)


def test_a_file_for_another_key_is_refused_only_where_it_is_read(world: World, encrypt: Encrypt) -> None:
    """As in a repository with a key for each cluster."""
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    mine, other = (encrypt(f"password: {CANARY}\n", key) for key in ("test", "other"))
    files = {**chart_of(CHART), "mine.yaml": mine, "other.yaml": other}
    deployed = deploy(world, name, files, format="helm", config={"valuesFiles": ["mine.yaml"]})
    deployed.wait_ready()

    deployed.change(config={"valuesFiles": ["mine.yaml", "other.yaml"]})

    refused = deployed.wait_for("Installed", "False", "InvalidConfig", saying="none of its keys opens it")["message"]
    assert "spec.config.valuesFiles[1]" in refused
    assert '"other.yaml": is encrypted for age' in refused


def test_a_changed_key_is_used_at_once_and_a_missing_one_waited_for(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, SECRETS)
    deployed = deploy(world, name, {"manifests/secret.yaml": encrypt(manifest_of())})
    deployed.wait_for("Installed", "False", saying="sops-keys")
    put_keys(world, name, "other")
    deployed.wait_for("Installed", "False", "InvalidConfig", saying=f'is encrypted for age "{RECIPIENTS["test"]}"')
    put_keys(world, name, "other", "test")
    before = deployed.wait_ready()
    assert password_of(deployed) == CANARY

    ref = world.push(name, {"manifests/secret.yaml": encrypt(manifest_of("other"), "other")}, tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": ref}}])
    deployed.wait_installed(before["installedRevision"])
    assert password_of(deployed) == "other"

    world.client.delete(f"/api/v1/namespaces/{name}/secrets/sops-keys")
    deployed.wait_for("Installed", "False", saying="sops-keys")
    assert password_of(deployed) == "other", "what is installed stays"
    assert_nothing_is_told(world, deployed)


def test_the_keys_are_read_as_the_account(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, CONFIG_MAPS)
    put_keys(world, name, "test")
    deployed = deploy(world, name, {"manifests/secret.yaml": encrypt(manifest_of())})
    deployed.wait_for("Installed", "False", saying="sops-keys")

    grant(world, name, SECRETS)
    deployed.request_reconcile("1")
    deployed.wait_ready()


def test_a_decrypted_config_map_is_refused_unless_allowed(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    deployed = deploy(world, name, {"manifests/a.yaml": encrypt(manifest_of(kind="ConfigMap"))})
    deployed.wait_for(
        "Installed", "False", "InvalidConfig", saying="ConfigMap database: data.password: has a decrypted"
    )
    assert_nothing_is_told(world, deployed)

    parameters = {**PROCESSOR["parameters"], "allowOtherKinds": True}
    deployed.change(processors=[{**PROCESSOR, "parameters": parameters}])
    deployed.wait_ready()
    assert deployed.data("database") == {"password": CANARY}
    assert_nothing_is_told(world, deployed)


def test_a_tampered_file_keeps_what_is_installed(world: World, encrypt: Encrypt) -> None:
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    text = encrypt(manifest_of())
    deployed = deploy(world, name, {"manifests/secret.yaml": text})
    deployed.wait_ready()

    ref = world.push(name, {"manifests/secret.yaml": text.replace(b"name: database", b"name: other")}, tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": ref}}])

    deployed.wait_for(
        "Installed", "False", "InvalidBundle", saying='"manifests/secret.yaml": Secret other: changed after it'
    )
    assert password_of(deployed) == CANARY


def test_diff_and_render_do_not_show_what_was_decrypted(
    world: World, environment: Environment, path: str, encrypt: Encrypt, tmp_path: Path
) -> None:
    name = tenant(world, SECRETS)
    put_keys(world, name, "test")
    deployed = deploy(world, name, {"manifests/secret.yaml": encrypt(manifest_of("first-password"))})
    deployed.wait_ready()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "secret.yaml").write_bytes(encrypt(manifest_of()))
    variables = {"KUBECONFIG": str(world.cluster.kubeconfig), "PATH": path}

    manifest = tmp_path / "deployment.json"
    manifest.write_text(json.dumps(deployed.read()))

    def rendered(*options: str) -> str:
        return environment.run(
            "rukpak", "render", "-f", str(manifest), "--use-secrets", *options, variables=variables
        ).stdout

    difference = environment.run(
        "rukpak", "diff", name, str(tmp_path), "--use-secrets", status=1, variables=variables
    ).stdout
    hidden, shown = rendered(), rendered("--show-secrets")

    assert "database" in difference
    assert "database" in hidden
    for text in (difference, hidden):
        for password in (CANARY, "first-password"):
            assert password not in text
            assert encoded(password) not in text
    assert encoded("first-password") in shown
