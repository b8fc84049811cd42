"""config/migration.md: objects as OLM and RukPak 0.21 leave them are adopted by the commands of the page.

The systems themselves do not run: what they leave is made as their sources do. OLM v0: pkg/lib/ownerutil/util.go and
pkg/controller/install/deployment.go. OLM v1: internal/operator-controller/labels, applier/boxcutter.go and
controllers/clusterobjectset_controller.go. RukPak: internal/controllers/bundledeployment/bundledeployment.go.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import Cluster, ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, Manifest, World, config_map, definition, new_world
from tests.support.instructions import Step, run
from tests.support.objects import deployment, labelled, make, namespace
from tests.support.registry import LocalRegistry

pytestmark = pytest.mark.timeout(400)
HELM = {"meta.helm.sh/release-name": "hello", "meta.helm.sh/release-namespace": "hello"}
BUNDLE = (deployment("operator"), config_map("settings", color="blue", size="big"))
NAME = "hello"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a system leaves in the namespace `hello`."""

    section: str
    """Heading of the page."""
    owner: Manifest
    """The object that owns the others."""
    controls: bool
    """Whether its owner references are those of a controller."""
    manager: str
    """Its field manager."""
    applies: bool = False
    """Whether it uses server-side apply."""
    labels: dict[str, str]
    annotations: dict[str, str] = field(default_factory=dict)


OLM_0 = Left(
    section="From OLM v0",
    owner=labelled(make("operators.coreos.com/v1alpha1", "ClusterServiceVersion", NAME), namespace=NAME),
    controls=False,
    manager="olm",
    labels={"olm.owner": NAME, "olm.owner.namespace": NAME, "olm.owner.kind": "ClusterServiceVersion"},
)
OLM_1_LABELS = {
    "olm.operatorframework.io/owner-kind": "ClusterExtension",
    "olm.operatorframework.io/owner-name": NAME,
}
OLM_1 = Left(
    section="From OLM v1",
    owner=make("olm.operatorframework.io/v1", "ClusterExtension", NAME),
    controls=True,
    manager="operator-controller",
    labels={**OLM_1_LABELS, "app.kubernetes.io/managed-by": "Helm"},
    annotations=HELM,
)
OLM_1_SETS = Left(
    section="From OLM v1",
    owner=labelled(make("olm.operatorframework.io/v1", "ClusterObjectSet", f"{NAME}-1"), labels=OLM_1_LABELS),
    controls=True,
    manager="olm.operatorframework.io",
    applies=True,
    labels=OLM_1_LABELS,
)
RUKPAK = Left(
    section="From RukPak 0.21",
    owner=labelled(
        make("core.rukpak.io/v1alpha2", "BundleDeployment", NAME), finalizers=["core.rukpak.io/delete-cached-bundle"]
    ),
    controls=True,
    manager="core",
    labels={
        "core.rukpak.io/owner-kind": "BundleDeployment",
        "core.rukpak.io/owner-name": NAME,
        "app.kubernetes.io/managed-by": "Helm",
    },
    annotations=HELM,
)


def kind_of(group: str, kind: str, version: str, *, namespaced: bool, short: str) -> Manifest:
    """Return the definition of a kind of the other system, with any content."""
    defined = definition(group, kind)
    defined["spec"]["scope"] = "Namespaced" if namespaced else "Cluster"
    defined["spec"]["versions"][0]["name"] = version
    defined["spec"]["names"]["shortNames"] = [short]
    return defined


OLM_KINDS = (
    kind_of("operators.coreos.com", "ClusterServiceVersion", "v1alpha1", namespaced=True, short="csv"),
    kind_of("operators.coreos.com", "Subscription", "v1alpha1", namespaced=True, short="sub"),
    kind_of("olm.operatorframework.io", "ClusterExtension", "v1", namespaced=False, short="ce"),
    kind_of("olm.operatorframework.io", "ClusterObjectSet", "v1", namespaced=False, short="cos"),
)
RUKPAK_KIND = kind_of("core.rukpak.io", "BundleDeployment", "v1alpha2", namespaced=False, short="bd")


def create(cluster: Cluster, value: Manifest, *arguments: str) -> Manifest:
    """Create an object with kubectl, and return it."""
    created: Manifest = json.loads(
        cluster.kubectl(*(arguments or ("create",)), "--output=json", "--filename=-", input=json.dumps(value))
    )
    return created


def define(cluster: Cluster, *kinds: Manifest) -> None:
    for kind in kinds:
        create(cluster, kind)
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind['metadata']['name']}", "--timeout=60s")


def leave(cluster: Cluster, left: Left) -> None:
    """Make what a system leaves: its owner, and the objects of the bundle with its marks, written by its manager."""
    owner = create(cluster, left.owner)
    reference = {
        **{key: owner[key] for key in ("apiVersion", "kind")},
        **{key: owner["metadata"][key] for key in ("name", "uid")},
        "controller": left.controls,
        "blockOwnerDeletion": left.controls,
    }
    marks: Manifest = {"labels": left.labels, "annotations": left.annotations, "ownerReferences": [reference]}
    verb = ("apply", "--server-side") if left.applies else ("create",)
    for value in BUNDLE:
        create(cluster, labelled(value, namespace=NAME, **marks), *verb, f"--field-manager={left.manager}")


def commands(section: str) -> list[str]:
    """Return the blocks of commands in a section of the page."""
    text = (ROOT / "config" / "migration.md").read_text(encoding="utf-8")
    [found] = re.findall(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return re.findall(r"^ *```sh\n(.*?)^ *```", found, re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where the commands of the page are run."""

    cluster: Cluster
    folder: Path
    environment: dict[str, str]

    def run(self, block: str) -> None:
        command = block.replace("NAMESPACE", NAME).replace("SUBSCRIPTION", NAME).replace("NAME", NAME)
        run(Step(f"set -eu\n{command}", ""), self.folder, self.environment, "none")


@pytest.fixture
def terminal(fresh_cluster: ControlPlane, binaries: Binaries, tmp_path: Path) -> Terminal:
    folders = [binaries.obtain(["kubectl"])["kubectl"].parent, os.environ["PATH"]]
    environment = os.environ | {
        "KUBECONFIG": str(fresh_cluster.kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "cache"),
        "PATH": os.pathsep.join(map(str, folders)),
    }
    return Terminal(cluster=fresh_cluster, folder=tmp_path, environment=environment)


@pytest.fixture(autouse=True)
def _namespace(fresh_cluster: ControlPlane) -> Any:
    create(fresh_cluster, namespace(NAME))
    yield
    fresh_cluster.kubectl("delete", "namespace", NAME, "--timeout=90s")


def read(cluster: Cluster, name: str) -> Manifest:
    value: Manifest = json.loads(cluster.kubectl("get", name, f"--namespace={NAME}", "--output=json"))
    return value


def adopt(world: World, before: Manifest) -> Deployed:
    """Adopt as the page says; the objects must stay as they are. Return the BundleDeployment, under Prevent."""
    deployed = world.deploy(*BUNDLE, name=NAME, collisionProtection="Prevent")
    deployed.wait_for("Installed", "False", "Collision")
    deployed.change(collisionProtection="None")
    deployed.wait_ready()
    after = read(world.cluster, "deployment/operator")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    uid = deployed.read()["metadata"]["uid"]
    assert [reference["uid"] for reference in after["metadata"]["ownerReferences"]] == [uid]
    deployed.change(collisionProtection=None)
    deployed.wait_ready()
    return deployed


def drop_a_field(world: World, deployed: Deployed) -> Manifest | None:
    """Upgrade to a bundle that drops a field of a ConfigMap; return its data."""
    before = deployed.status()["installedRevision"]
    ref = world.push(NAME, BUNDLE[0], config_map("settings", color="red"), tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": ref}}])
    deployed.wait_installed(before)
    return deployed.data("settings")


@pytest.mark.thorough
def test_objects_of_rukpak_0_21_are_adopted(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, terminal: Terminal
) -> None:
    """First: the old definition has the name of ours."""
    define(fresh_cluster, RUKPAK_KIND)
    leave(fresh_cluster, RUKPAK)
    before = read(fresh_cluster, "deployment/operator")
    for block in commands(RUKPAK.section):
        terminal.run(block)
    with new_world(fresh_cluster, registry, settings.running) as world:
        deployed = adopt(world, before)
        # Unlike entries of kubectl and Helm, that of this manager is kept, and with it the field.
        assert drop_a_field(world, deployed) == {"color": "red", "size": "big"}


@pytest.mark.repeats
@pytest.mark.parametrize("left", [OLM_0, OLM_1, OLM_1_SETS], ids=lambda left: left.owner["kind"])
def test_objects_of_olm_are_adopted(fresh_world: World, terminal: Terminal, left: Left) -> None:
    cluster = fresh_world.cluster
    cluster.kubectl("apply", "--server-side", "--filename=-", input="\n---\n".join(map(json.dumps, OLM_KINDS)))
    for kind in OLM_KINDS:
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind['metadata']['name']}", "--timeout=60s")
    leave(cluster, left)
    if left is OLM_0:
        create(cluster, labelled(make("operators.coreos.com/v1alpha1", "Subscription", NAME), namespace=NAME))
        role = make("rbac.authorization.k8s.io/v1", "Role", "left", rules=[])
        create(cluster, labelled(role, namespace=NAME, labels=left.labels))
    elif left is OLM_1_SETS:
        create(cluster, OLM_1.owner)
    before = read(cluster, "deployment/operator")

    release, *rest = commands(left.section)
    terminal.run(release)
    deployed = adopt(fresh_world, before)
    for block in rest:
        terminal.run(block)

    assert cluster.kubectl("get", "role", f"--namespace={NAME}", "--output=name") == ""
    deployed.delete()
    deployed.wait_gone()
