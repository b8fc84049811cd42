"""`rukpak adopt`: what Helm, kubectl, Flux and other BundleDeployments have installed changes hands in place."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from tests.support.bundles import (
    DEPLOYMENTS,
    Deployed,
    Manifest,
    World,
    config_map,
    exists,
    image,
    is_answered,
    new_name,
)
from tests.support.charts import chart_of, write
from tests.support.controller import Rukpak, command
from tests.support.inside import read_documents
from tests.support.objects import deployment, labelled, make, secret
from tests.support.tenants import make_namespace

pytestmark = [pytest.mark.own_cluster, pytest.mark.long]

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web{{ if .Values.old }}, team: shop{{ end }}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "example.com/main:1", ports: [{containerPort: 8080}]}
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {about: "{{ .Release.Name }}"}}
data: {color: blue{{ if .Values.old }}, size: big{{ end }}{{ if .Values.more }}, taste: sweet{{ end }}}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: web, port: 80}{{ if .Values.old }}, {name: old, port: 81}{{ end }}]}
"""
EXTRA = """
{{ if .Values.more }}
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
data: {a: b}
{{ end }}
"""
CHART = {
    "templates/web.yaml": WEB,
    "templates/settings.yaml": SETTINGS,
    "templates/service.yaml": SERVICE,
    "templates/extra.yaml": EXTRA,
}
KINDS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
}


@pytest.fixture
def rukpak(kwok_world: World) -> Rukpak:
    return command(kwok_world.cluster.kubeconfig)


def uids(world: World, name: str) -> dict[str, str]:
    """Return the UIDs of the objects in a namespace, and of their pods."""
    found = {
        f"{kind} {each['metadata']['name']}": each["metadata"]["uid"]
        for kind, path in KINDS.items()
        for each in world.client.list(path.format(name), metadata=True)
    }
    return {key: uid for key, uid in found.items() if key != "ConfigMap kube-root-ca.crt"}


def deletions(world: World, name: str, since: int) -> list[str]:
    """Return what anybody has asked to delete in a namespace."""
    assert isinstance(world.cluster, ControlPlane)
    asked = [each for each in world.cluster.audit_requests(since) if each["verb"] in ("delete", "deletecollection")]
    return [each["requestURI"] for each in asked if f"/namespaces/{name}/" in each["requestURI"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A BundleDeployment in a file, of which the objects are on the cluster already."""

    world: World
    name: str
    folder: Path

    @property
    def file(self) -> str:
        return str(self.folder / "bundle.yaml")

    @property
    def deployed(self) -> Deployed:
        return Deployed(client=self.world.client, name=self.name, ref="", wait=self.world.wait)

    def write(self, *layers: Any, **spec: Any) -> None:
        """Push a bundle, and write a BundleDeployment of it."""
        ref = self.world.push(self.name, *layers)
        fields = {"format": "plain", "installNamespace": self.name, "sources": [image(ref)], **spec}
        value = make(f"{names.GROUP}/v1alpha2", names.KIND, self.name, spec=fields)
        (self.folder / "bundle.yaml").write_text(yaml.safe_dump(value), encoding="utf-8")

    def upgrade(self, *layers: Any, **spec: Any) -> None:
        before = self.deployed.status()["installedRevision"]
        ref = self.world.push(self.name, *layers, tag="v2")
        self.deployed.change(sources=[image(ref)], **spec)
        self.deployed.wait_installed(before)

    def read(self, name: str, plural: str = "configmaps", prefix: str = "/api/v1") -> Manifest:
        value = self.deployed.get(name, plural, prefix)
        assert value is not None
        return value

    def managers(self, name: str, plural: str = "configmaps", prefix: str = "/api/v1") -> set[str]:
        """Return who has set fields of an object, beside its status."""
        entries = self.read(name, plural, prefix)["metadata"]["managedFields"]
        return {each["manager"] for each in entries if not each.get("subresource")}


@pytest.fixture
def adopted(kwok_world: World, tmp_path: Path) -> Adopted:
    found = Adopted(world=kwok_world, name=new_name(), folder=tmp_path)
    make_namespace(kwok_world, found.name)
    kwok_world.deployed.append(found.deployed)
    return found


# from Helm


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    program: Path
    kubeconfig: Path

    def run(self, *words: str) -> str:
        environment = os.environ | {"KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            [self.program, *words], env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def cli(helm: Path, kwok_world: World) -> Helm:
    return Helm(program=helm, kubeconfig=kwok_world.cluster.kubeconfig)


def install_release(cli: Helm, adopted: Adopted) -> None:
    """Install a release, and upgrade it once; wait for its pods."""
    folder = write(adopted.folder, chart_of(CHART, "shop"))
    words = ["shop", str(folder / "shop"), "--namespace", adopted.name, "--set", "old=true,more=true"]
    cli.run("install", *words)
    cli.run("upgrade", *words)
    wait_available(adopted)


def wait_available(adopted: Adopted) -> None:
    """Wait until the Deployment is available, and its surplus pods are gone."""

    def is_available() -> bool:
        found = adopted.read("web", "deployments", "/apis/apps/v1")
        pods = [key for key in uids(adopted.world, adopted.name) if key.startswith("Pod web-")]
        conditions = found.get("status", {}).get("conditions", ())
        is_true = any((each["type"], each["status"]) == ("Available", "True") for each in conditions)
        return is_true and len(pods) == found["spec"]["replicas"]

    adopted.world.wait(is_available, "the Deployment is available")


def release_secrets(adopted: Adopted) -> list[str]:
    found = adopted.world.client.list(f"/api/v1/namespaces/{adopted.name}/secrets", label_selector="owner=helm")
    return sorted(each["metadata"]["name"] for each in found)


def chart_layer() -> Mapping[str, bytes]:
    return {f"{path.partition('/')[2]}": data for path, data in chart_of(CHART, "shop").items()}


def helm_spec(**values: Any) -> dict[str, Any]:
    return {"format": "helm", "config": {"releaseName": "shop", "values": values}}


def test_a_release_of_helm_changes_hands_and_is_upgraded_without_touching_a_pod(
    adopted: Adopted, rukpak: Rukpak, cli: Helm
) -> None:
    install_release(cli, adopted)
    adopted.write(chart_layer(), **helm_spec(old=True))
    refused = rukpak("install", "-f", adopted.file, "--yes", status=1).stderr
    assert f'"rukpak adopt {adopted.name} --file {adopted.file} --from helm/shop" takes over' in " ".join(
        refused.split()
    )
    before, since = uids(adopted.world, adopted.name), adopted.world.position()
    words = ["adopt", adopted.name, "-f", adopted.file, "--from", "helm/shop"]
    unknown = rukpak(*words[:-1], "helm/other", "--yes", status=1)
    assert f"rukpak adopt: Helm release {adopted.name}/other: not found" in unknown.stderr

    shown = rukpak(*words, "--dry-run").stderr
    assert "Take over: Deployment" in shown
    assert f"Leave:     ConfigMap {adopted.name}/extra" in shown
    assert release_secrets(adopted) == ["sh.helm.release.v1.shop.v1", "sh.helm.release.v1.shop.v2"]
    assert not exists(adopted.world.client, f"{DEPLOYMENTS}/{adopted.name}")
    assert "pass --yes" in rukpak(*words, status=2).stderr

    done = rukpak(*words, "--yes")
    assert done.stdout == (
        f"bundledeployment.core.rukpak.io/{adopted.name} adopted 3 objects from Helm release {adopted.name}/shop\n"
    )
    said = " ".join(done.stderr.split())
    assert "data.taste" not in said
    assert f"left: ConfigMap {adopted.name}/extra: not in the bundle" in said
    assert release_secrets(adopted) == []
    assert cli.run("list", "--namespace", adopted.name, "--short") == ""
    assert adopted.deployed.read()["spec"]["collisionProtection"] == "Prevent"
    assert not [key for key in adopted.read("settings")["metadata"]["annotations"] if key.startswith("meta.helm.sh")]
    assert adopted.managers("settings") == {names.field_manager(adopted.name)}

    adopted.upgrade(chart_layer(), config={"releaseName": "shop", "values": {"old": False}})
    assert adopted.read("settings")["data"] == {"color": "blue"}
    assert [port["name"] for port in adopted.read("web", "services")["spec"]["ports"]] == ["web"]
    assert "team" not in adopted.read("web", "deployments", "/apis/apps/v1")["metadata"]["labels"]
    assert uids(adopted.world, adopted.name) == before
    asked = deletions(adopted.world, adopted.name, since)
    assert [each.rpartition("/")[2].partition("?")[0] for each in asked] == [
        "sh.helm.release.v1.shop.v1",
        "sh.helm.release.v1.shop.v2",
    ]


@pytest.mark.thorough
def test_the_records_of_a_release_stay_until_its_objects_are_ready(adopted: Adopted, rukpak: Rukpak, cli: Helm) -> None:
    """The second attempt goes on where the first one has stopped."""
    install_release(cli, adopted)
    before = uids(adopted.world, adopted.name)
    words = ["adopt", adopted.name, "-f", adopted.file, "--from", f"helm/shop.{adopted.name}", "--yes"]
    adopted.write(chart_layer(), **helm_spec(old=True), approval="Manual")
    failed = rukpak(*words, status=1)
    assert "waiting cannot help: AwaitingApproval" in failed.stderr
    assert "the release of Helm is kept: Secret" in failed.stderr
    assert len(release_secrets(adopted)) == 2
    assert uids(adopted.world, adopted.name) == before

    adopted.write(chart_layer(), **helm_spec(old=True))
    rukpak(*words)
    assert release_secrets(adopted) == []
    assert uids(adopted.world, adopted.name) == before


# from kubectl

BEFORE = config_map("settings", color="blue", size="big", taste="sweet")
BUNDLE = config_map("settings", color="blue", size="big")


@pytest.mark.repeats
@pytest.mark.parametrize(
    "verb",
    [("apply",), ("apply", "--server-side"), ("apply", "--server-side", "--field-manager=ci"), ("create",)],
    ids=["client-side", "server-side", "by another manager", "created"],
)
def test_what_kubectl_has_applied_changes_hands(adopted: Adopted, rukpak: Rukpak, verb: tuple[str, ...]) -> None:
    kubectl = adopted.world.cluster.kubectl
    kubectl(*verb, "--namespace", adopted.name, "--filename=-", input=json.dumps(BEFORE))
    kubectl(*verb, "--namespace", adopted.name, "--filename=-", input=json.dumps(deployment("web", 1)))
    theirs = f"/api/v1/namespaces/{adopted.name}/configmaps/theirs"
    adopted.world.client.apply(theirs, config_map("theirs"), manager="other", force=True)
    before = uids(adopted.world, adopted.name)
    adopted.write(BUNDLE, deployment("web", 1), config_map("theirs"))
    words = ["adopt", adopted.name, "-f", adopted.file, "--from", "kubectl", "--yes"]
    words += ["--field-manager", "ci"] if "--field-manager=ci" in verb else []
    assert "-  taste: sweet" in rukpak(*words, "--dry-run", "--diff").stderr
    done = rukpak(*words)
    assert "adopted 3 objects from kubectl" in done.stdout
    assert "collisionProtection: IfNoController" in done.stderr
    said = " ".join(done.stderr.split())
    assert "data.taste" not in said.partition("left:")[2]
    assert adopted.managers("settings") == {names.field_manager(adopted.name)}
    # A manager that is not named is reported.
    assert f"left: ConfigMap {adopted.name}/theirs: also set by other" in said
    assert "other" in adopted.managers("theirs")

    adopted.upgrade(config_map("settings", color="blue"), deployment("web", 1), config_map("theirs"))
    assert adopted.read("settings")["data"] == {"color": "blue"}
    after = uids(adopted.world, adopted.name)
    assert after.items() >= before.items()


def test_objects_of_others_are_refused_and_nothing_is_changed(adopted: Adopted, rukpak: Rukpak) -> None:
    client = adopted.world.client
    uid = client.get(f"/api/v1/namespaces/{adopted.name}").value["metadata"]["uid"]
    reference = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "s", "uid": uid, "controller": True}
    for value in (
        labelled(config_map("controlled"), ownerReferences=[reference]),
        labelled(config_map("released"), annotations={"meta.helm.sh/release-name": "other"}),
        config_map("free"),
    ):
        client.create(f"/api/v1/namespaces/{adopted.name}/configmaps", value)
    adopted.write(config_map("controlled"), config_map("released"), config_map("free"))
    failed = rukpak("adopt", adopted.name, "-f", adopted.file, "--from", "kubectl", "--yes", status=1)
    said = " ".join(failed.stderr.split())
    assert f'Refused: ConfigMap {adopted.name}/controlled: belongs to Shop "s", not to kubectl' in said
    assert f'Refused: ConfigMap {adopted.name}/released: belongs to Helm release "other", not to kubectl' in said
    assert "nothing was changed" in said
    assert not exists(adopted.world.client, f"{DEPLOYMENTS}/{adopted.name}")


@pytest.mark.thorough
def test_without_the_right_to_change_objects_the_adoption_is_not_complete(adopted: Adopted, rukpak: Rukpak) -> None:
    """What only the user knows to be a manager cannot be passed on: somebody with the right completes it."""
    kubectl = adopted.world.cluster.kubectl
    apply = ("apply", "--server-side", "--field-manager=ci", "--namespace", adopted.name, "--filename=-")
    kubectl(*apply, input=json.dumps(BUNDLE))
    adopted.write(BUNDLE)
    role = ("create", "clusterrole", adopted.name, "--verb=get,list,patch,create", f"--resource={names.PLURAL}")
    kubectl(*role)
    kubectl("create", "clusterrolebinding", adopted.name, f"--clusterrole={adopted.name}", f"--user={adopted.name}")
    kubectl("create", "clusterrolebinding", f"{adopted.name}-view", "--clusterrole=view", f"--user={adopted.name}")
    words = ["adopt", adopted.name, "-f", adopted.file, "--from", "kubectl", "--field-manager=ci", "--yes"]
    failed = rukpak(*words, "--as", adopted.name, status=1)
    assert f"ConfigMap {adopted.name}/settings" in failed.stderr
    assert "is forbidden" in failed.stderr
    assert adopted.managers("settings") == {"ci"}
    assert not exists(adopted.world.client, f"{DEPLOYMENTS}/{adopted.name}")
    rukpak(*words)
    assert adopted.managers("settings") == {names.field_manager(adopted.name)}
    kubectl("delete", "clusterrole,clusterrolebinding", adopted.name)
    kubectl("delete", "clusterrolebinding", f"{adopted.name}-view")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """kubectl in a namespace."""

    adopted: Adopted

    def __call__(self, value: Manifest, *words: str) -> None:
        words = words or ("apply",)
        kubectl = self.adopted.world.cluster.kubectl
        kubectl(*words, "--namespace", self.adopted.name, "--filename=-", input=json.dumps(value))


@pytest.fixture
def apply(adopted: Adopted) -> Applying:
    return Applying(adopted=adopted)


def test_what_kubectl_has_applied_in_a_namespace_is_adopted_without_a_file(
    adopted: Adopted, rukpak: Rukpak, apply: Applying
) -> None:
    world, name = adopted.world, adopted.name
    apply(BEFORE, "apply", "--server-side")
    apply(deployment("web", 3))
    apply(labelled(config_map("released"), annotations={"meta.helm.sh/release-name": "other"}))
    apply(secret("login", password="hunter2"))
    apply(config_map("created"), "create")
    world.cluster.kubectl("scale", "deployment/web", "--replicas=2", f"--namespace={name}")
    wait_available(adopted)
    before = uids(world, name)
    words = ["adopt", name, "--from", "kubectl", "-n", name]

    shown = rukpak(*words, "--dry-run", "-o", "yaml")
    said = " ".join(shown.stderr.split())
    assert f"Take over: ConfigMap {name}/settings, unchanged" in said
    assert f"Take over: Deployment {name}/web, changed (set by kubectl" in said
    assert {"    -  replicas: 2", "    +  replicas: 3"} <= set(shown.stderr.splitlines())
    whole = rukpak(*words, "--dry-run", "--diff").stderr.splitlines()
    assert {f"changed Deployment {name}/web", "-  replicas: 2", "+  replicas: 3", " spec:"} <= set(whole)
    assert f'Leave: ConfigMap {name}/released: belongs to Helm release "other"' in said
    assert f"Leave: Secret {name}/login: its values would be in a ConfigMap, in clear; --include-secrets" in said
    assert f"{name}/created" not in said
    spec = next(read_documents(shown.stdout.encode(), "stdout")).value["spec"]
    assert (spec["format"], spec["installNamespace"]) == ("plain", name)
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")
    assert "pass --yes" in rukpak(*words, status=2).stderr

    done = rukpak(*words, "--yes")
    assert "adopted 2 objects from kubectl" in done.stdout
    read = adopted.deployed.read()
    assert read["spec"]["sources"] == spec["sources"]
    assert (read["spec"]["collisionProtection"], read["spec"]["paused"]) == ("Prevent", False)
    assert uids(world, name).items() >= before.items()
    assert adopted.read("settings")["data"] == BEFORE["data"]
    assert (
        adopted.managers("settings")
        == adopted.managers("web", "deployments", "/apis/apps/v1")
        == {names.field_manager(name)}
    )
    again = rukpak(*words, "--yes")
    assert "adopted 0 objects from kubectl" in again.stdout
    assert adopted.deployed.status()["objects"]["total"] == 2


def test_secrets_and_labels_are_asked_for(adopted: Adopted, rukpak: Rukpak, apply: Applying) -> None:
    world, name = adopted.world, adopted.name
    apply(labelled(secret("login", password="hunter2"), labels={"team": "shop"}))
    apply(config_map("other"))
    words = ["adopt", name, "--from", "kubectl", "-n", name, "--yes"]
    failed = " ".join(rukpak(*words, "-l", "team=shop", status=1).stderr.split())
    assert f"left: Secret {name}/login: its values would be in a ConfigMap" in failed
    assert f'namespace "{name}": nothing that can be adopted with labels team=shop' in failed
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")

    done = rukpak(*words, "-l", "team=shop", "--include-secrets")
    assert "adopted 1 object from kubectl" in done.stdout
    assert "the values of Secrets are put into ConfigMaps" in " ".join(done.stderr.split())
    assert "hunter2" not in done.stderr
    assert "stringData" not in done.stderr
    assert adopted.read("login", "secrets")["data"] == {"password": "aHVudGVyMg=="}
    assert names.OWNER_LABEL not in (adopted.read("other")["metadata"].get("labels") or {})


def test_without_a_file_an_interrupted_adoption_goes_on(adopted: Adopted, rukpak: Rukpak, apply: Applying) -> None:
    """What is taken over has lost its records: a bundle of the rest would have the others deleted."""
    name = adopted.name
    apply(config_map("a"))
    apply(config_map("b"), "apply", "--server-side")
    words = ["adopt", name, "--from", "kubectl", "-n", name, "--yes"]
    failed = rukpak(*words, "--timeout", "0", status=1)
    assert "the BundleDeployment is applied, with collisionProtection: IfNoController" in failed.stderr
    adopted.deployed.wait_ready()
    apply(config_map("later"))
    rukpak(*words)
    adopted.deployed.wait_ready()
    assert adopted.deployed.status()["objects"]["total"] == 2
    assert adopted.deployed.read()["spec"]["collisionProtection"] == "Prevent"
    assert adopted.managers("a") == adopted.managers("b") == {names.field_manager(name)}

    label = f"--selector={names.CONTENT_LABEL}={name}"
    adopted.world.cluster.kubectl("delete", "configmap", label, "--namespace", name)
    assert "NotFound" in rukpak(*words, status=1).stderr
    assert adopted.deployed.status()["objects"]["total"] == 2


@pytest.mark.thorough
def test_where_kubectl_has_applied_nothing_a_file_is_asked_for(adopted: Adopted, rukpak: Rukpak) -> None:
    words = ["adopt", adopted.name, "--from"]
    failed = rukpak(*words, "kubectl", "-n", adopted.name, "--yes", status=1)
    assert f'namespace "{adopted.name}": no object that kubectl has applied' in failed.stderr
    elsewhere = rukpak(*words, "kubectl", "-n", "no-such-namespace", "--yes", status=1)
    assert 'namespace "no-such-namespace" does not exist' in elsewhere.stderr
    assert "where kubectl has applied its objects" in rukpak(*words, "kubectl", status=2).stderr
    assert "require --from kubectl without SOURCE" in rukpak(*words, "other", "-l", "a=b", status=2).stderr
    adopted.world.deploy(BUNDLE, name=adopted.name).wait_ready()
    other = rukpak(*words, "kubectl", "-n", adopted.name, "--yes", status=1)
    assert "already exists and is not of an adoption" in other.stderr


# from Flux


def flux_kind(group: str, kind: str) -> Manifest:
    """Return a definition of a kind of Flux, as far as it is used here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": f"{kind.lower()}s"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    return make("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{kind.lower()}s.{group}", spec=spec)


@pytest.fixture
def _flux(kwok_world: World) -> Iterator[None]:
    found = flux_kind("kustomize.toolkit.fluxcd.io", "Kustomization")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{found['metadata']['name']}"
    kwok_world.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", found)
    kwok_world.wait(lambda: is_answered(kwok_world.client, "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"), path)
    yield
    kwok_world.client.delete(path)


@pytest.mark.usefixtures("_flux")
def test_what_flux_has_applied_changes_hands_and_its_kustomization_is_suspended(
    adopted: Adopted, rukpak: Rukpak
) -> None:
    client, name = adopted.world.client, adopted.name
    kustomization = make("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "shop", spec={"interval": "10m"})
    path = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{name}/kustomizations"
    client.create(path, kustomization)
    marks = {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": name}
    applied = {f"/api/v1/namespaces/{name}/configmaps/settings": BEFORE}
    applied[f"/apis/apps/v1/namespaces/{name}/deployments/web"] = deployment("web", 1)
    for each, value in applied.items():
        client.apply(each, labelled(value, labels=marks), manager="kustomize-controller", force=True)
    before = uids(adopted.world, name)
    adopted.write(BUNDLE, deployment("web", 1))
    words = ["adopt", name, "-f", adopted.file, "--yes", "--from"]
    assert "Flux Kustomization flux-system/shop: not found" in rukpak(*words, "flux/shop", status=1).stderr

    done = rukpak(*words, f"flux/shop.{name}")
    said = " ".join(done.stderr.split())
    assert f"Suspend: Kustomization {name}/shop" in said
    assert f"left: Kustomization {name}/shop: suspended" in said
    assert "data.taste" not in said
    assert client.get(f"{path}/shop").value["spec"]["suspend"] is True
    assert adopted.managers("settings") == {names.field_manager(name)}
    assert marks.keys().isdisjoint(adopted.read("settings")["metadata"]["labels"])
    adopted.upgrade(config_map("settings", color="blue"), deployment("web", 1))
    assert adopted.read("settings")["data"] == {"color": "blue"}
    assert uids(adopted.world, name).items() >= before.items()


# from another BundleDeployment


def test_objects_of_another_bundle_deployment_change_hands(adopted: Adopted, rukpak: Rukpak) -> None:
    world, name = adopted.world, adopted.name
    giver = world.deploy(
        BUNDLE, deployment("web", 1), config_map("old"), name=f"{name}-v1", installNamespace=name, prune="Never"
    )
    giver.wait_ready()
    before, since = uids(world, name), world.position()
    adopted.write(config_map("settings", color="blue"), deployment("web", 1), config_map("new"))
    words = ["adopt", name, "-f", adopted.file, "--from", giver.name]

    shown = rukpak(*words, "--dry-run").stderr
    assert f"{name}: take over 2 objects of {giver.name}" in shown
    assert f"Take over: ConfigMap {name}/settings, changed" in shown
    assert f"Take over: Deployment {name}/web, unchanged" in shown
    assert "pass --yes" in rukpak(*words, status=2).stderr
    assert not giver.read()["spec"].get("paused")
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")

    done = rukpak(*words, "--yes")
    assert done.stdout == f"bundledeployment.core.rukpak.io/{name} took over 2 objects of {giver.name}\n"
    said = " ".join(done.stderr.split())
    assert f'{giver.name} still has ConfigMap {name}/old: "kubectl delete bd {giver.name}" deletes these' in said
    assert adopted.read("settings")["data"] == {"color": "blue"}
    assert adopted.deployed.read()["spec"]["takeOver"] == [{"name": giver.name}]
    world.wait(lambda: giver.status()["objects"]["handedOver"] == 2, "the giver counts what it has handed over")
    assert uids(world, name).items() >= before.items()
    assert deletions(world, name, since) == []

    giver.delete()
    giver.wait_gone()
    assert not exists(world.client, f"/api/v1/namespaces/{name}/configmaps/old")
    assert {key: uid for key, uid in before.items() if key != "ConfigMap old"}.items() <= uids(world, name).items()


def test_one_that_exists_takes_over_without_a_file(adopted: Adopted, rukpak: Rukpak) -> None:
    world, name = adopted.world, adopted.name
    giver = world.deploy(BUNDLE, name=f"{name}-v1", installNamespace=name)
    giver.wait_ready()
    taker = world.deploy(BUNDLE, name=name)
    taker.wait_for("Installed", "False", "Collision")
    before = uids(world, name)
    rukpak("adopt", name, "--from", giver.name, "--yes")
    taker.wait_ready()
    assert uids(world, name) == before
    again = rukpak("adopt", name, "--from", giver.name, "--yes")
    assert "took over 0 objects" in again.stdout
    assert f"{giver.name} has no objects any more" in again.stderr


@pytest.mark.thorough
def test_what_another_bundle_deployment_cannot_give_is_refused(adopted: Adopted, rukpak: Rukpak) -> None:
    world, name = adopted.world, adopted.name
    giver = world.deploy(BUNDLE, name=f"{name}-v1", installNamespace=name)
    giver.wait_ready()
    world.cluster.kubectl("create", "--namespace", name, "--filename=-", input=json.dumps(config_map("free")))
    words = ["adopt", name, "-f", adopted.file, "--yes", "--from"]
    adopted.write(BUNDLE, config_map("free"))
    refused = " ".join(rukpak(*words, giver.name, status=1).stderr.split())
    assert f"Refused: ConfigMap {name}/free: already exists" in refused
    assert f'BundleDeployment "{name}-v0" not found' in rukpak(*words, f"{name}-v0", status=1).stderr
    assert "must be another BundleDeployment" in rukpak(*words, name, status=2).stderr
    adopted.write(config_map("other"))
    assert f"{name} contains no object of {giver.name}" in rukpak(*words, giver.name, status=1).stderr
    assert not giver.read()["spec"].get("paused")
    assert not exists(world.client, f"{DEPLOYMENTS}/{name}")
