"""`lookup` in charts: a password that is looked up stays, and what is read is what the account may read."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import STORE, Deployed, Manifest, World, config_map, image, new_world
from tests.support.charts import chart_of, packaged_helm, write
from tests.support.controller import command
from tests.support.private_sources import secret_manifest
from tests.support.registry import LocalRegistry
from tests.support.tenants import ACCOUNT, CONFIG_MAPS, grant, tenant

pytestmark = pytest.mark.own_cluster

SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete", "get", "list", "patch", "update"]}
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\ndata: {password: %s}\n"
SETTINGS = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {version: '{{ .Chart.Version }}'}\n"
FIELD = """\
{{- $old := lookup "v1" "Secret" .Release.Namespace "db" }}
apiVersion: v1
kind: Secret
metadata: {name: db}
data:
  password: {{ if $old }}{{ $old.data.password }}{{ else }}{{ randAlphaNum 12 | b64enc }}{{ end }}
"""
HELPER = '{{ define "old" }}{{ dig "data" "password" "" (lookup "v1" "Secret" .Release.Namespace "db") }}{{ end }}'
OLD_OR_NEW = '{{ include "old" . | default (randAlphaNum 16 | b64enc) | quote }}'


@dataclass(frozen=True)
class Kept:
    name: str
    files: Mapping[str, str]


CHARTS = [
    Kept("as in the field", {"templates/a.yaml": FIELD}),
    Kept("in a helper", {"templates/a.yaml": SECRET % OLD_OR_NEW, "templates/_h.tpl": HELPER}),
    Kept(
        "in a subchart",
        {
            "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
            "charts/sub/templates/a.yaml": SECRET % OLD_OR_NEW,
            "charts/sub/templates/_h.tpl": HELPER,
        },
    ),
    Kept(
        "in tpl",
        {
            "templates/a.yaml": SECRET % "{{ tpl .Values.password . }}",
            "values.yaml": "password: '{{ dig `data` `password` (randAlphaNum 16 | b64enc) "
            "(lookup `v1` `Secret` .Release.Namespace `db`) }}'",
        },
    ),
    Kept(
        "of a list",
        {
            "templates/a.yaml": '{{ $found := "" }}{{ range (lookup "v1" "Secret" .Release.Namespace "").items }}'
            '{{ if eq .metadata.name "db" }}{{ $found = .data.password }}{{ end }}{{ end }}'
            + SECRET
            % "{{ $found | default (randAlphaNum 16 | b64enc) }}"
        },
    ),
]


def versions(files: Mapping[str, str], version: int) -> dict[str, bytes]:
    made = chart_of({**files, "templates/settings.yaml": SETTINGS})
    return {**made, "c/Chart.yaml": f"apiVersion: v2\nname: c\nversion: {version}.0.0\n".encode()}


def deploy(world: World, name: str, files: Mapping[str, str], **config: Any) -> Deployed:
    return world.deploy(versions(files, 1), name=name, format="helm", serviceAccountName=ACCOUNT, config=config)


def upgrade(world: World, deployed: Deployed, files: Mapping[str, str], version: int) -> Manifest:
    before = deployed.status()["installedRevision"]
    deployed.change(sources=[image(world.push(deployed.name, versions(files, version), tag=f"v{version}"))])
    return deployed.wait_installed(before)


def read_secret(world: World, namespace: str, name: str = "db") -> Manifest:
    found: Manifest = world.client.get(f"/api/v1/namespaces/{namespace}/secrets/{name}").value
    return found


def password(world: World, namespace: str) -> str:
    return str(read_secret(world, namespace)["data"]["password"])


def test_a_password_stays_over_three_versions(world: World) -> None:
    made = {chart.name: tenant(world, CONFIG_MAPS, SECRETS) for chart in CHARTS}
    deployed = {chart.name: deploy(world, made[chart.name], chart.files) for chart in CHARTS}
    for chart in CHARTS:
        one, name = deployed[chart.name], made[chart.name]
        first = one.wait_ready()
        expect = password(world, name)
        assert len(base64.b64decode(expect)) >= 12
        for version in (2, 3) if chart is CHARTS[0] else (2,):
            after = upgrade(world, one, chart.files, version)
            assert (password(world, name), after["lookedUp"][0]["kind"]) == (expect, "Secret"), chart.name
        assert first["lookedUp"][0].get("resourceVersion", "") == "" or chart.name == "of a list"
        assert base64.b64decode(expect).decode() not in json.dumps(one.read()) + world.controller.log


SHOWN = SETTINGS.replace("\ndata: {", "\ndata: {found: '{{ %s }}', ")
GIVEN = '(lookup "v1" "Secret" "%s" "given").data | default dict | toJson | sha256sum | trunc 8'
NOTHING = "44136fa3"
"""Of `{}`."""


def shown(template: str) -> dict[str, str]:
    return {"templates/settings.yaml": SHOWN % template}


def deploy_shown(world: World, name: str, template: str, **config: Any) -> Deployed:
    files = chart_of(shown(template))
    return world.deploy(files, name=name, format="helm", serviceAccountName=ACCOUNT, config=config)


def push_shown(world: World, deployed: Deployed, template: str, version: int = 2) -> Manifest:
    made = {**chart_of(shown(template)), "c/Chart.yaml": versions({}, version)["c/Chart.yaml"]}
    return image(world.push(deployed.name, made, tag=f"v{version}"))


def upgrade_shown(world: World, deployed: Deployed, template: str, version: int = 2) -> Manifest:
    before = deployed.status()["installedRevision"]
    deployed.change(sources=[push_shown(world, deployed, template, version)])
    return deployed.wait_installed(before)


def found(deployed: Deployed) -> str:
    return str((deployed.data("settings") or {})["found"])


def give(world: World, namespace: str, text: str) -> None:
    value = secret_manifest(namespace, "given", {"password": text}, "Opaque")
    world.client.apply(f"/api/v1/namespaces/{namespace}/secrets/given", value, manager="tests", force=True)


def test_what_is_looked_up_counts_when_something_is_rendered(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    deployed = deploy_shown(world, name, GIVEN % name)
    assert deployed.wait_ready()["lookedUp"] == [
        {"apiVersion": "v1", "kind": "Secret", "namespace": name, "name": "given"}
    ]
    assert found(deployed) == NOTHING

    give(world, name, "hunter22")
    before = deployed.status()["installedRevision"]
    deployed.request_reconcile("again")
    after = deployed.wait_installed(before)
    first, secret = found(deployed), read_secret(world, name, "given")
    assert (first != NOTHING, after["lookedUp"][0]["resourceVersion"]) == (True, secret["metadata"]["resourceVersion"])

    give(world, name, "hunter33")
    world.restart()
    deployed.wait_ready()
    assert found(deployed) == first  # nobody has asked for another rendering
    world.client.delete(f"/api/v1/namespaces/{name}/secrets/given")
    upgrade_shown(world, deployed, GIVEN % name)
    assert found(deployed) == NOTHING
    assert "hunter22" not in json.dumps(deployed.read()) + world.controller.log


def test_an_account_looks_up_what_it_may_read_and_nothing_else(world: World) -> None:
    other = tenant(world)
    give(world, other, "hunter22")
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy_shown(world, name, GIVEN % other)
    told = deployed.wait_for("Installed", "False", "Forbidden")["message"]
    rule = 'with rules: [{apiGroups: [""], resources: [secrets], resourceNames: [given], verbs: [get]}]'
    assert (f'lookup of v1/Secret "given" in namespace "{other}"' in told, rule in told) == (True, True), told

    grant_elsewhere(world, other, name, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})
    deployed.wait_ready()
    assert found(deployed) != NOTHING


def grant_elsewhere(world: World, namespace: str, tenant_name: str, rule: Manifest) -> None:
    grant(world, namespace, rule, name="reader")
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/reader"
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": tenant_name}
    world.client.merge_patch(path, {"subjects": [subject]})


def test_a_custom_resource_and_a_kind_that_is_not_served(world: World) -> None:
    reads = {"apiGroups": [names.GROUP], "resources": ["*"], "verbs": ["get", "list"]}
    name = tenant(world, CONFIG_MAPS)
    grant_cluster(world, name, reads)
    kind = f'"{names.GROUP}/v1alpha2" "{names.KIND}"'
    deployed = deploy_shown(world, name, f'(lookup {kind} "" "{name}").spec.format')
    deployed.wait_ready()
    assert found(deployed) == "helm"
    other = deploy_shown(world, tenant(world, CONFIG_MAPS), '(lookup "a.example/v1" "B" "" "c") | toJson')
    told = other.wait_for("Installed", "False", "KindNotServed")["message"]
    assert 'lookup of a.example/v1/B "c": the cluster does not serve this kind' in told


def grant_cluster(world: World, name: str, rule: Manifest) -> None:
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": name}],
    }
    world.client.apply(f"/apis/{group}/v1/clusterroles/{name}", role, manager="tests", force=True)
    world.client.apply(f"/apis/{group}/v1/clusterrolebindings/{name}", binding, manager="tests", force=True)


LEFT_OUT = '{{ if not (lookup "v1" "Secret" .Release.Namespace "db") }}\n%s{{ end }}' % (
    SECRET % "{{ randAlphaNum 16 | b64enc }}"
)


def test_an_object_that_the_chart_leaves_out_because_it_has_made_it_stays(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    files = {"templates/a.yaml": LEFT_OUT}
    deployed = deploy(world, name, files)
    deployed.wait_ready()
    before = read_secret(world, name)
    for version in (2, 3):
        after = upgrade(world, deployed, files, version)
        kept = read_secret(world, name)
        assert (kept["metadata"]["uid"], kept["data"]) == (before["metadata"]["uid"], before["data"])
        assert 'Secret "db": the chart leaves it out because lookup finds it' in str(after["warnings"])
    deployed.request_reconcile("again")
    deployed.wait_ready()
    assert read_secret(world, name)["data"] == before["data"]


RANDOM = FIELD + "  other: {{ randAlphaNum 8 | b64enc }}\n"


def test_random_values_stay_whatever_the_lookups_say(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    deployed = deploy(world, name, {"templates/a.yaml": RANDOM})
    deployed.wait_ready()
    before = read_secret(world, name)["data"]
    deployed.request_reconcile("again")
    world.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "again", "the request is handled")
    deployed.wait_ready()
    assert read_secret(world, name)["data"] == before
    upgrade(world, deployed, {"templates/a.yaml": RANDOM}, 2)
    after = read_secret(world, name)["data"]
    assert (after["password"], after["other"] != before["other"]) == (before["password"], True)


@dataclass(frozen=True)
class Refused:
    name: str
    template: str
    reason: str
    message: str


REMEDY = "; look up less, or set spec.config.lookup to Never"
REFUSED = [
    Refused("a name with slashes", '{{ lookup "v1" "ConfigMap" "NAME" "../../secrets/given" }}', "RenderFailed",
            'lookup of "../../secrets/given", which is no name'),
    Refused("a value of a Secret in a name", "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n"
            '  name: {{ (lookup "v1" "Secret" "NAME" "given").data.password | b64dec }}\n', "InvalidConfig",
            "metadata.name contains a value of a Secret"),
    Refused("a value of a Secret in a message", '{{ fail (lookup "v1" "Secret" "NAME" "given").data.password }}',
            "RenderFailed", "its message is not shown"),
    Refused("what is made of a value of a Secret in a message",
            '{{ fail (lookup "v1" "Secret" "NAME" "given").data.password | b64dec | upper }}', "RenderFailed",
            "its message is not shown"),
    Refused("a value of a Secret in the name of another lookup",
            '{{ $a := (lookup "v1" "Secret" "NAME" "given").data }}'
            '{{ lookup "v1" "Secret" "kube-system" ($a.password | b64dec) }}', "InvalidConfig",
            "the name or namespace of what the bundle looks up contains a value of a Secret"),
    Refused("a value of a Secret in a kind", '{{ $a := (lookup "v1" "Secret" "NAME" "given").data }}'
            '{{ lookup "v1" ($a.password | b64dec) "" "a" }}', "KindNotServed",
            "does not serve this kind"),
    Refused("a value of a Secret that the API server refuses", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, "
            'labels: {a: "{{ (lookup "v1" "Secret" "NAME" "given").data.password | b64dec }}!"}}\n', "Refused",
            "metadata.labels: a valid label"),
    Refused("a kind that is empty", '{{ lookup "v1" "" "NAME" "given" }}', "RenderFailed", "this is no kind"),
    Refused("a version that is empty", '{{ lookup "" "Secret" "NAME" "given" }}', "RenderFailed", "this is no kind"),
    Refused("a version with slashes", '{{ lookup "v1/../../v1" "Secret" "NAME" "given" }}', "RenderFailed",
            "this is no kind"),
    Refused("a namespace with slashes", '{{ lookup "v1" "Secret" "NAME/../kube-system" "given" }}', "RenderFailed",
            'lookup of "NAME/../kube-system", which is no namespace'),
    Refused("a subresource", '{{ lookup "v1" "ServiceAccount" "NAME" "tenant/token" }}', "RenderFailed",
            'lookup of "tenant/token", which is no name'),
    Refused("a parameter of the request", '{{ lookup "v1" "Secret" "NAME" "given?watch=true" }}', "RenderFailed",
            'lookup of "given?watch=true", which is no name'),
    Refused("a list of all namespaces", '{{ lookup "v1" "Secret" "" "" }}', "Forbidden",
            'a ClusterRole with rules: [{apiGroups: [""], resources: [secrets], verbs: [list]}]'),
    Refused("a namespace that does not exist", '{{ lookup "v1" "Secret" "NAME-none" "given" }}', "Forbidden",
            "not permitted"),
]  # fmt: skip


def test_what_a_chart_must_not_do_with_it(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, {**SECRETS, "resources": ["secrets", "configmaps"]})
    give(world, name, "hunter22")
    spec: Manifest = {"format": "helm", "serviceAccountName": ACCOUNT, "installNamespace": name}
    deployed = {
        case.name: world.deploy(chart_of({"templates/a.yaml": case.template.replace("NAME", name)}), **spec)
        for case in REFUSED
    }
    for case in REFUSED:
        one = deployed[case.name]
        told = one.wait_for("Installed", "False", case.reason)["message"]
        assert case.message.replace("NAME", name) in told, case.name
        said = json.dumps(one.read()) + json.dumps(one.events())
        assert "hunter22" not in said.lower(), case.name
        assert base64.b64encode(b"hunter22").decode() not in said, case.name
    assert "hunter22" not in world.controller.log.lower()
    assert base64.b64encode(b"hunter22").decode() not in world.controller.log


def test_lookups_may_be_forbidden_by_the_spec(world: World) -> None:
    name = tenant(world, CONFIG_MAPS)
    deployed = deploy_shown(world, name, GIVEN % name, lookup="Never")
    after = deployed.wait_ready()
    assert (found(deployed), after.get("lookedUp", [])) == (NOTHING, [])
    warning = "lookup finds nothing in this rendering, and the result may depend on it: templates/settings.yaml:5"
    assert warning in str(after["warnings"])


SHARD = "denying"


@pytest.fixture(scope="module")
def denying_world(cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A second controller on the cluster, which lets no chart look up anything."""
    with new_world(cluster, registry, settings.running, f"--shard={SHARD}", "--lookup=deny") as made:
        yield made


def test_lookups_that_the_administrator_denies_give_what_helm_template_gives(
    denying_world: World, tmp_path: Path
) -> None:
    name = tenant(denying_world, CONFIG_MAPS, SECRETS)
    give(denying_world, name, "hunter22")
    asked = f'list (lookup "v1" "Secret" "{name}" "given") (lookup "v1" "Secret" "{name}" "").items | toJson'
    files = chart_of(shown(asked))
    spec: Manifest = {"format": "helm", "serviceAccountName": ACCOUNT}
    deployed = denying_world.deploy(files, name=name, labels={names.SHARD: SHARD}, **spec)
    after = deployed.wait_ready()
    words = [str(packaged_helm()), "template", name, str(write(tmp_path, files) / "c"), "--namespace", name]
    template = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"found: '{found(deployed)}'" in template
    assert after.get("lookedUp", []) == []
    warning = "lookup finds nothing in this rendering, and the result may depend on it: templates/settings.yaml:5 (v1/"
    assert warning in str(after["warnings"])


def wait_pending(deployed: Deployed) -> str:
    """Wait until a revision waits for approval, and return its digest."""
    deployed.wait_for("Installed", "False", "AwaitingApproval")
    pending = deployed.wait(lambda: deployed.status().get("pending"), "a pending revision")
    return str(pending["revision"])


def test_what_was_shown_is_applied_whatever_has_changed_before_its_approval(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    give(world, name, "hunter22")
    deployed = deploy_shown(world, name, GIVEN % name)
    deployed.wait_ready()
    expect = found(deployed)
    newer = push_shown(world, deployed, f"{GIVEN % name} | print .Chart.Version")
    deployed.change(approval="Manual", sources=[newer])
    digest = wait_pending(deployed)

    give(world, name, "hunter33")
    world.restart()  # nor is it made again by one that has not shown it
    assert wait_pending(deployed) == digest
    deployed.change(approvedRevision=digest)
    deployed.wait(lambda: found(deployed) == f"2.0.0{expect}", "what was shown is applied")
    assert deployed.wait_ready()["installedRevision"] == digest


def test_a_password_stays_if_its_revision_is_lost(world: World) -> None:
    found = []
    for template in (FIELD, LEFT_OUT):
        name, files = tenant(world, CONFIG_MAPS, SECRETS), {"templates/a.yaml": template}
        deployed = deploy(world, name, files)
        deployed.wait_ready()
        found.append((name, files, deployed, read_secret(world, name)))
    world.controller.kill()
    for _, _, deployed, _ in found:
        for each in deployed.revisions():
            world.client.delete(f"{STORE}/{each['metadata']['name']}")
    world.controller.start()
    for name, files, deployed, before in found:
        deployed.wait(deployed.revisions, "the revision is made again")
        deployed.wait_ready()
        upgrade(world, deployed, files, 2)
        after = read_secret(world, name)
        assert (after["metadata"]["uid"], after["data"]) == (before["metadata"]["uid"], before["data"])


def test_a_preview_looks_up_as_the_user_and_shows_what_will_be_applied(world: World, tmp_path: Path) -> None:
    rukpak = command(world.cluster.kubeconfig)
    name = tenant(world, CONFIG_MAPS, SECRETS)
    deployed = deploy(world, name, {"templates/a.yaml": FIELD})
    deployed.wait_ready()
    reference = image(world.push(name, versions({"templates/a.yaml": FIELD}, 2), tag="v2"))
    about = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}}
    spec = {**deployed.read()["spec"], "sources": [reference]}
    (tmp_path / "next.json").write_text(json.dumps({**about, "spec": spec}))
    done = rukpak("diff", "-f", str(tmp_path / "next.json"), "--use-secrets", "-o", "json", status=1)
    assert "looks up 1 objects or lists, which were read as you" in done.stderr
    found = {f"{each['kind']} {each['name']}": each["change"] for each in json.loads(done.stdout)["objects"]}
    assert found == {"ConfigMap settings": "changed"}, done.stdout

    write(tmp_path, versions({"templates/a.yaml": FIELD}, 2))
    told = rukpak("render", str(tmp_path / "c")).stderr
    assert (
        "lookup finds nothing in this rendering, and the result may depend on it: templates/a.yaml:1 (v1/Secret" in told
    )


@pytest.fixture(scope="module")
def crowded(shared_world: World) -> str:
    """A tenant with large ConfigMaps, and more than a list may have."""
    name = tenant(shared_world, CONFIG_MAPS, {**CONFIG_MAPS, "verbs": ["list"]})
    path = f"/api/v1/namespaces/{name}/configmaps"
    for number in range(5):
        shared_world.client.create(path, config_map(f"big-{number}", text='"' * 1_000 + "x" * 900_000))
    for number in range(500):
        shared_world.client.create(path, config_map(f"small-{number}", a="b"))
    return name


def ask_for(name: str, count: int) -> str:
    asked = f'(lookup "v1" "ConfigMap" "{name}" (printf "big-%d" .)).kind'
    return f"range until {count} }}}}{{{{ {asked} }}}}{{{{ end"


@pytest.mark.thorough
def test_what_is_looked_up_may_be_large(world: World, crowded: str) -> None:
    template = (SHOWN % ask_for(crowded, 4)).replace("\ndata: {", "\ndata: {again: '{{ tpl .Values.text . }}', ")
    files = {"templates/settings.yaml": template, "values.yaml": f"text: |-\n  {{{{ {ask_for(crowded, 4)} }}}}"}
    deployed = world.deploy(chart_of(files), name=crowded, format="helm", serviceAccountName=ACCOUNT)
    deployed.wait_ready()
    assert (found(deployed), (deployed.data("settings") or {})["again"]) == ("ConfigMap" * 4, "ConfigMap" * 4)


@dataclass(frozen=True)
class Limit:
    name: str
    template: str
    message: str


LIMITS = [
    Limit("in all", ask_for("NAME", 5), '"big-4" in namespace "NAME", what the bundle looks up exceeds 4 MiB'),
    Limit("a list", 'lookup "v1" "ConfigMap" "NAME" ""', "there are more than 500"),
]


@pytest.mark.parametrize("case", LIMITS, ids=attrgetter("name"))
def test_what_is_looked_up_has_limits(case: Limit, world: World, crowded: str) -> None:
    files = chart_of(shown(case.template.replace("NAME", crowded)))
    deployed = world.deploy(files, format="helm", serviceAccountName=ACCOUNT, installNamespace=crowded)
    told = deployed.wait_for("Installed", "False", "RenderLimitExceeded")["message"]
    assert told.endswith(f"{case.message.replace('NAME', crowded)}{REMEDY}")


def pause(deployed: Deployed) -> None:
    deployed.change(paused=True)
    deployed.wait_for("Paused")


def test_what_is_prepared_while_paused_is_applied_as_it_was_rendered(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    deployed = deploy_shown(world, name, GIVEN % name)
    deployed.wait_ready()
    pause(deployed)
    give(world, name, "hunter22")
    revisions = len(deployed.revisions())
    deployed.change(sources=[push_shown(world, deployed, f"{GIVEN % name} | print .Chart.Version")])
    deployed.wait(lambda: len(deployed.revisions()) > revisions, "the next revision")
    world.client.delete(f"/api/v1/namespaces/{name}/secrets/given")
    assert found(deployed) == NOTHING
    before = deployed.status()["installedRevision"]
    deployed.change(paused=False)
    after = deployed.wait_installed(before)
    assert found(deployed) not in (f"2.0.0{NOTHING}", NOTHING)
    assert after["lookedUp"][0]["resourceVersion"]


def test_a_rollback_over_a_rotated_password_is_said_before(world: World) -> None:
    """It is rotated while paused, since it would be repaired otherwise, and the next revision keeps it."""
    rukpak = command(world.cluster.kubeconfig)
    name = tenant(world, CONFIG_MAPS, SECRETS)
    files = {"templates/a.yaml": FIELD}
    deployed = deploy(world, name, files)
    deployed.wait_ready()
    upgrade(world, deployed, files, 2)
    old, told = password(world, name), f'warning: v1/Secret "db" in namespace "{name}" differs from what revision'
    assert told not in rukpak("rollback", name, "--wait").stderr
    rukpak("rollback", name, "--undo", "--yes", "--use-secrets", "--wait")

    pause(deployed)
    rotated = base64.b64encode(b"rotated-by-hand").decode()
    path = f"/api/v1/namespaces/{name}/secrets/db"
    world.client.merge_patch(path, {"data": {"password": rotated}}, manager="operator")
    revisions = len(deployed.revisions())
    before = deployed.status()["installedRevision"]
    deployed.change(sources=[image(world.push(name, versions(files, 3), tag="v3"))])
    deployed.wait(lambda: len(deployed.revisions()) > revisions, "the next revision")
    deployed.change(paused=False)
    deployed.wait_installed(before)
    assert password(world, name) == rotated

    said = rukpak("rollback", name, "--wait").stderr
    assert told in said
    assert (rotated in said, "rotated-by-hand" in said) == (False, False)
    assert password(world, name) == old


def test_the_password_of_a_release_of_helm_stays_when_it_is_adopted(world: World, tmp_path: Path) -> None:
    rukpak = command(world.cluster.kubeconfig)
    name = tenant(world, CONFIG_MAPS, SECRETS)
    files = {"templates/a.yaml": FIELD}
    folder = write(tmp_path, versions(files, 1))
    words = [str(packaged_helm()), "install", "shop", str(folder / "c"), "--namespace", name]
    environment = os.environ | {"KUBECONFIG": str(world.cluster.kubeconfig)}
    subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    before = read_secret(world, name)
    spec = {
        "format": "helm",
        "installNamespace": name,
        "serviceAccountName": ACCOUNT,
        "config": {"releaseName": "shop"},
        "sources": [image(world.push(name, versions(files, 1)))],
    }
    value = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps(value))
    rukpak("adopt", name, "-f", str(file), "--from", "helm/shop", "--yes", "--use-secrets")
    deployed = Deployed(client=world.client, name=name, ref="", wait=world.wait)
    world.deployed.append(deployed)
    assert deployed.wait_ready()["lookedUp"][0]["resourceVersion"]
    upgrade(world, deployed, files, 2)
    after = read_secret(world, name)
    assert (after["metadata"]["uid"], after["data"]) == (before["metadata"]["uid"], before["data"])


def test_what_waits_for_a_dependency_has_been_rendered_and_is_applied_as_it_was(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    first = f"{name}-first"
    spec: Manifest = {"format": "helm", "serviceAccountName": ACCOUNT, "dependsOn": [{"name": first}]}
    deployed = world.deploy(chart_of(shown(GIVEN % name)), name=name, **spec)
    deployed.wait_for("Installed", "False", "DependencyNotReady")
    assert deployed.get("settings") is None
    give(world, name, "hunter22")
    world.deploy(config_map("first"), name=first).wait_ready()
    deployed.wait_ready()
    assert found(deployed) == NOTHING


def test_an_object_that_a_chart_leaves_out_is_taken_over_with_the_others(world: World) -> None:
    name = tenant(world, CONFIG_MAPS, SECRETS)
    files = {"templates/a.yaml": LEFT_OUT}
    giver = deploy(world, name, files)
    giver.wait_ready()
    before = read_secret(world, name)
    pause(giver)
    spec: Manifest = {"format": "helm", "serviceAccountName": ACCOUNT, "installNamespace": name}
    taker = world.deploy(versions(files, 1), takeOver=[{"name": name}], **spec)
    assert 'Secret "db": the chart leaves it out because lookup finds it' in str(taker.wait_ready()["warnings"])
    giver.delete()
    giver.wait_gone()
    upgrade(world, taker, files, 2)
    after = read_secret(world, name)
    assert (after["metadata"]["uid"], after["data"]) == (before["metadata"]["uid"], before["data"])
    assert after["metadata"]["labels"][names.OWNER_LABEL] == taker.name
