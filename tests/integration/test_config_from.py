"""spec.configFrom: parts of the config from ConfigMaps and Secrets, read as the account and watched by name."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.bundles import WRITES, Deployed, Manifest, World, config_map
from tests.support.charts import chart_of
from tests.support.controller import command
from tests.support.private_sources import secret_manifest
from tests.support.tenants import ACCOUNT, CONFIG_MAPS, grant, tenant

pytestmark = pytest.mark.own_cluster

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  color: "{{ .Values.color }}"
  size: "{{ .Values.size }}"
  digest: "{{ .Values.login.password | sha256sum | trunc 8 }}"
"""
CHART = chart_of(
    {"templates/settings.yaml": TEMPLATE, "values.yaml": "{color: none, size: none, login: {password: none}}"}
)
VALUES: Manifest = {"kind": "ConfigMap", "name": "values"}
LOGIN: Manifest = {"kind": "Secret", "name": "login", "key": "password", "path": "login.password"}
READS = {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get", "list", "watch"]}
PASSWORD, OTHER = "hunter2", "correct horse"
DIGESTS = {PASSWORD: "f52fbd32", OTHER: "4104d36f"}


def put_values(world: World, namespace: str, text: str) -> None:
    found = config_map("values", **{"values.yaml": text})
    world.client.apply(f"/api/v1/namespaces/{namespace}/configmaps/values", found, manager="tests", force=True)


def put_login(world: World, namespace: str, password: str) -> None:
    found = secret_manifest(namespace, "login", {"password": password}, "Opaque")
    world.client.apply(f"/api/v1/namespaces/{namespace}/secrets/login", found, manager="tests", force=True)


def deploy(world: World, name: str, *references: Manifest, **values: str) -> Deployed:
    return world.deploy(
        CHART,
        name=name,
        format="helm",
        serviceAccountName=ACCOUNT,
        configFrom=list(references),
        config={"values": values},
    )


def shows(deployed: Deployed, **data: str) -> bool:
    return data.items() <= (deployed.data("settings") or {}).items()


def test_values_from_the_cluster_are_merged_and_a_change_is_rendered_at_once(
    world: World,
) -> None:
    name = tenant(world, CONFIG_MAPS, READS)
    put_values(world, name, "{color: blue, size: small}")
    put_login(world, name, PASSWORD)
    deployed = deploy(world, name, VALUES, LOGIN, size="large")
    before = deployed.wait_ready()
    assert deployed.data("settings") == {"color": "blue", "size": "large", "digest": DIGESTS[PASSWORD]}

    put_values(world, name, "{color: red, size: small}")
    after = deployed.wait_installed(before["installedRevision"])
    assert shows(deployed, color="red", size="large")
    put_login(world, name, OTHER)
    deployed.wait_installed(after["installedRevision"])
    assert shows(deployed, color="red", digest=DIGESTS[OTHER])

    said = json.dumps([deployed.read(), sorted(deployed.events().values())]) + world.controller.log
    assert PASSWORD not in said
    assert OTHER not in said

    manifest, rukpak = json.dumps(deployed.read()), command(world.cluster.kubeconfig)
    refused = rukpak("render", "-f", "-", status=2, stdin=manifest)
    assert f'Secret "{name}/login"' in refused.stderr
    shown = rukpak("render", "-f", "-", "--use-secrets", "-o", "revision", stdin=manifest)
    before = deployed.status()
    assert shown.stdout.strip() == before["installedRevision"]

    since = world.position()
    world.restart()
    world.wait_until_looked_at()
    assert [each for each in world.requests_about(name, since) if each.partition(" ")[0] in WRITES] == []
    put_values(world, name, "color: green")
    deployed.wait_installed(before["installedRevision"])
    assert shows(deployed, color="green")


def test_what_is_missing_is_waited_for_and_what_is_installed_stays(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, READS)
    deployed = deploy(world, name, VALUES, {**LOGIN, "optional": True})
    deployed.wait_for("Reconciling", "True", "ConfigNotFound", saying='"' + name + '/values" does not exist')
    assert deployed.conditions()["Unpacked"]["status"] == "True"

    put_values(world, name, "color: blue")
    deployed.wait_ready()
    assert shows(deployed, color="blue", size="none")
    world.client.delete(f"/api/v1/namespaces/{name}/configmaps/values")
    deployed.wait_for("Installed", "False", "ConfigNotFound", saying="is installed; ")
    deployed.edit("settings", color="green")
    world.wait(lambda: shows(deployed, color="blue"), "the repair")

    put_values(world, name, "other: true")
    put_login(world, name, OTHER)
    world.wait(lambda: shows(deployed, color="none", digest=DIGESTS[OTHER]), "the change of both")


def test_what_the_account_may_not_read_is_not_used_until_it_may(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    put_login(world, name, PASSWORD)
    deployed = deploy(world, name, LOGIN)
    deployed.wait_for("Installed", "False", "ConfigForbidden", saying=f'"system:serviceaccount:{name}:{ACCOUNT}"')
    assert deployed.get("settings") is None

    grant(world, name, CONFIG_MAPS, READS)
    deployed.wait_ready()
    assert shows(deployed, digest=DIGESTS[PASSWORD])


TEMPLATE_OF_A_NAME = (
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ b64enc .Values.login.password | lower | trunc 9 }} }}"
)


def test_a_value_of_a_secret_does_not_become_a_name(world: World) -> None:
    """Nor a kind or a group: unit/controller/building/test_rendering.py."""
    chart = chart_of({"templates/web.yaml": TEMPLATE_OF_A_NAME, "values.yaml": "{login: {password: none}}"})
    name = tenant(world, CONFIG_MAPS, READS)
    put_login(world, name, PASSWORD)
    deployed = world.deploy(chart, name=name, format="helm", serviceAccountName=ACCOUNT, configFrom=[LOGIN])
    saying = "spec.configFrom: objects[0].metadata.name contains a value of a Secret"
    deployed.wait_for("Installed", "False", "InvalidConfig", saying=saying)
    said = json.dumps([deployed.read(), sorted(deployed.events().values())]) + world.controller.log
    encoded = base64.b64encode(PASSWORD.encode()).decode()[:9].lower()
    assert not [each for each in (PASSWORD, encoded) if each in said.lower()]


def test_a_key_that_a_value_of_a_secret_became_is_not_shown_when_it_drifts(world: World) -> None:
    template = (
        '{kind: ConfigMap, apiVersion: v1, metadata: {name: settings}, data: {"{{ .Values.login.password }}": a}}'
    )
    chart = chart_of({"templates/settings.yaml": template, "values.yaml": "{login: {password: none}}"})
    name = tenant(world, CONFIG_MAPS, READS)
    put_login(world, name, PASSWORD)
    deployed = world.deploy(
        chart, name=name, format="helm", serviceAccountName=ACCOUNT, configFrom=[LOGIN], drift={"mode": "Report"}
    )
    deployed.wait_ready()
    deployed.edit("settings", **{PASSWORD: "b"})
    deployed.wait_for("Drifted", "True", saying="ConfigMap " + name + "/settings (data.…")
    deployed.change(drift={"mode": "Repair"})
    world.wait(lambda: shows(deployed, **{PASSWORD: "a"}), "the repair")
    world.wait(lambda: "data.…" in json.dumps(sorted(deployed.events().values()), ensure_ascii=False), "its Event")
    said = json.dumps([deployed.read(), sorted(deployed.events().values())]) + world.controller.log
    assert PASSWORD not in said
