"""`rukpak diff` against a real API server: what it shows is what is done, and nothing is done by showing it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, definition, image, new_name
from tests.support.charts import chart_of
from tests.support.controller import Rukpak, command
from tests.support.objects import custom, deployment, job, labelled, make, secret
from tests.support.tenants import make_account, make_namespace

pytestmark = pytest.mark.timeout(300)
MANUAL = {"approval": "Manual"}
VALUES = ("hunter2", "aHVudGVyMg==", "correct horse", "Y29ycmVjdCBob3JzZQ==")
"""Of a Secret before and after an upgrade, and as Kubernetes encodes them."""


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


def wait_pending(deployed: Deployed, other_than: str = "") -> str:
    """Wait until a revision waits for approval, and return its digest."""

    def find() -> str:
        found = (deployed.status().get("pending") or {}).get("revision", "")
        return str(found) if found != other_than else ""

    return str(deployed.wait(find, f"{deployed.name}: a pending revision"))


def install(world: World, *manifests: Manifest, **spec: Any) -> Deployed:
    """Install a bundle of which each revision takes an approval."""
    deployed = world.deploy(*manifests, **MANUAL, **spec)
    deployed.change(approvedRevision=wait_pending(deployed))
    deployed.wait_for("Installed")
    return deployed


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> str:
    """Change a bundle, and return the digest of the revision that waits then."""
    deployed.change(sources=[image(world.push(deployed.name, *manifests, tag=new_name()))])
    return wait_pending(deployed)


def changes(rukpak: Rukpak, *words: str, status: int = 1) -> dict[str, str]:
    """Return what a diff says would be done with each object."""
    value = json.loads(rukpak("diff", *words, "-o", "json", status=status).stdout)
    return {f"{each['kind']} {each['name']}": each["change"] for each in value["objects"]}


@pytest.mark.thorough
def test_what_is_shown_is_what_an_approval_does(world: World, rukpak: Rukpak) -> None:
    before = [config_map("settings", color="blue", size="1"), config_map("old"), secret("login", password=VALUES[0])]
    deployed = install(world, *before, config_map("same"))
    assert rukpak("diff", deployed.name).stdout.splitlines()[0].endswith(": no difference, 4 unchanged")

    after = [config_map("settings", color="red", size="1"), config_map("new"), secret("login", password=VALUES[2])]
    digest = upgrade(world, deployed, *after, config_map("same"))
    shown = rukpak("diff", deployed.name, status=1).stdout
    first = f"{deployed.name}: revision {digest} compared with the cluster: "
    assert shown.splitlines()[0] == f"{first}1 to create, 2 to change, 1 to delete, 1 unchanged"
    for line in (
        "-  color: blue",
        "+  color: red",
        "   size: '1'".replace("'", '"'),
        f"deleted ConfigMap {deployed.name}/old",
    ):
        assert line in shown.splitlines()
    assert "  password: 7 bytes, hash " in shown.replace('"', "").replace("-  ", "  ")
    for noise in (*VALUES, "managedFields", "resourceVersion", "creationTimestamp", names.APPLIED_DIGEST, "\x1b"):
        assert noise not in shown
    assert deployed.data("settings") == {"color": "blue", "size": "1"}
    assert deployed.get("new") is None

    rukpak("approve", deployed.name, "--yes", "--wait")
    deployed.wait(lambda: deployed.get("old") is None, "the prune")
    assert deployed.data("settings") == {"color": "red", "size": "1"}
    rukpak("diff", deployed.name)


@pytest.mark.thorough
def test_drift_that_would_be_repaired_is_shown(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    rukpak("pause", deployed.name, "--wait")
    deployed.edit("settings", color="red")
    shown = rukpak("diff", deployed.name, status=1).stdout.splitlines()
    assert {"-  color: red", "+  color: blue"} <= set(shown)


def test_a_file_is_compared_before_it_is_applied(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    group = f"{name}.example.com"
    reference = world.push(name, definition(group, "Widget"), custom(group, "Widget", "w"), config_map("a"))
    path = write(tmp_path, name, image(reference))
    assert changes(rukpak, "-f", path) == {
        f"Namespace {name}": "created",
        f"CustomResourceDefinition widgets.{group}": "created",
        "Widget w": "created",
        "ConfigMap a": "created",
    }

    world.deploy(name=name, ref=reference).wait_ready()
    rukpak("diff", "-f", path)
    write(tmp_path, name, image(world.push(name, config_map("a", color="red"), tag="v2")))
    assert changes(rukpak, "-f", path) == {
        "ConfigMap a": "changed",
        "Widget w": "deleted",
        f"CustomResourceDefinition widgets.{group}": "kept",
    }


def test_what_would_be_taken_over_from_another_is_shown_once_that_is_paused(world: World, rukpak: Rukpak) -> None:
    giver = world.deploy(config_map("settings", color="blue", size="1"), config_map("theirs"))
    giver.wait_ready()
    moved = config_map("settings", color="red")
    moved["metadata"]["namespace"] = giver.namespace
    taker = world.deploy(moved, **MANUAL, takeOver=[{"name": giver.name}])
    wait_pending(taker)

    refused = rukpak("diff", taker.name, status=2).stdout
    assert f"kubectl rukpak pause {giver.name}" in refused

    giver.change(paused=True)
    shown = rukpak("diff", taker.name, status=1).stdout
    assert f'taken over from BundleDeployment "{giver.name}"' in shown
    removed, added = {"-  color: blue", '-  size: "1"'}, {"+  color: red"}
    assert removed | added <= set(shown.splitlines())

    taker.change(approvedRevision=taker.status()["pending"]["revision"])
    taker.wait_ready()
    assert giver.data("settings") == {"color": "red"}


def sized(group: str, kind: str) -> Manifest:
    """Return a definition of objects with a size."""
    made = definition(group, "Widget")
    schema = {"type": "object", "properties": {"size": {"type": kind}}}
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    return made


def slower(manifest: Manifest) -> Manifest:
    changed: Manifest = json.loads(json.dumps(manifest))
    changed["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 7
    return changed


def write(folder: Path, name: str, *sources: Manifest) -> str:
    """Write a BundleDeployment to a file, and return its path."""
    spec = {"format": "plain", "installNamespace": name, "sources": sources}
    about = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}}
    file = folder / "shop.json"
    file.write_text(json.dumps({**about, "spec": spec}))
    return str(file)


OTHER = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "s", "uid": "u", "controller": True}
INVALID = config_map("invalid", **{"b c": "d"})


def test_each_object_that_would_be_refused_is_pointed_out(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    group, again = f"{name}.example.com", labelled(job("again"), annotations={names.RECREATE: "true"})
    widget = custom(group, "Widget", "w", size=1)
    world.deploy(sized(group, "integer"), widget, job("once"), again, name=name).wait_for("Installed")
    for there in (config_map("taken"), labelled(config_map("controlled"), ownerReferences=[OTHER])):
        world.client.create(f"/api/v1/namespaces/{name}/configmaps", there)
    others = [config_map("taken"), config_map("controlled"), INVALID, custom("no.example.com", "No", "n")]
    after = [sized(group, "string"), widget, slower(job("once")), slower(again), *others]
    file = write(tmp_path, name, image(world.push(name, *after, tag="v2")))

    found = changes(rukpak, "-f", file, status=2)

    assert found.pop("Job again") == "recreated"
    refused = {each for each, change in found.items() if change == "refused"}
    configs = {f"ConfigMap {each}" for each in ("taken", "controlled", "invalid")}
    assert refused >= {f"CustomResourceDefinition widgets.{group}", "Job once", *configs}
    shown = " ".join(rukpak("diff", "-f", file, status=2).stdout.split())
    assert shown.count("validating upgrade for CRD") == 1
    for says in (
        f"Refused: ConfigMap {name}/taken: already exists; set spec.collisionProtection",
        'belongs to Shop "s"',
        "regex used for validation",
        "field is immutable",
        "does not serve",
    ):
        assert says in shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A BundleDeployment in a file that would not be installed."""

    name: str
    says: str
    bundle: Sequence[Any] = (config_map("a"),)
    source: str = ""
    flags: Sequence[str] = ()


REFUSALS = [
    Refusal(name="an invalid object of a new namespace", bundle=[INVALID], says="regex used for validation"),
    Refusal(name="a failed rendering", bundle=[{"manifests/a.yaml": b"{"}], says="InvalidBundle: "),
    Refusal(name="a source that does not exist", source="127.0.0.1:1/a:b", says="127.0.0.1:1"),
    Refusal(name="a misuse", source="unused", flags=["--from=12345678"], says="require NAME"),
    Refusal(
        name="a cluster that does not answer",
        source="unused",
        flags=["--kubeconfig={silent}"],
        says="check the kubeconfig",
    ),
]
SILENT = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "users": [{"name": "a", "user": {}}],
    "current-context": "a",
}


@pytest.mark.parametrize("case", REFUSALS, ids=attrgetter("name"))
def test_what_would_be_refused_has_a_status_of_its_own(
    world: World, rukpak: Rukpak, tmp_path: Path, case: Refusal
) -> None:
    name, silent = new_name(), tmp_path / "silent.json"
    file = write(tmp_path, name, image(case.source or world.push(name, *case.bundle)))
    silent.write_text(json.dumps(SILENT))
    flags = [each.format(silent=silent) for each in case.flags]
    done = rukpak("diff", "-f", file, *flags, status=2)
    assert case.says in " ".join((done.stdout + done.stderr).split())


def test_an_account_that_does_not_exist_is_no_lack_of_rights(world: World, rukpak: Rukpak, tmp_path: Path) -> None:
    name = new_name()
    make_namespace(world, name)
    (tmp_path / "a.yaml").write_text(json.dumps(config_map("a")))
    command = ("diff", name, str(tmp_path), "-n", name, "--service-account", "nobody")
    said = rukpak(*command, status=2).stdout
    assert f'ServiceAccount "{name}/nobody" does not exist; create it or correct the name' in said
    assert "lacks permissions" not in said
    make_account(world, name, "nobody")
    said = " ".join(rukpak(*command, status=2).stdout.split())
    assert f'"rukpak rights {" ".join(command[1:])}" prints those for the whole bundle' in said
    rukpak("rights", *command[1:])


def restricted(world: World, *resources: str, verbs: str = "get,list") -> str:
    """Return a user who may read BundleDeployments and some resources, and nothing else."""
    user = new_name()
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": verbs.split(",")}
        for plural, _, group in (each.partition(".") for each in ("bundledeployments.core.rukpak.io", *resources))
    ]
    group = "rbac.authorization.k8s.io"
    role = make(f"{group}/v1", "ClusterRole", user, rules=rules)
    binding = make(f"{group}/v1", "ClusterRoleBinding", user)
    binding["roleRef"] = {"apiGroup": group, "kind": "ClusterRole", "name": user}
    binding["subjects"] = [{"apiGroup": group, "kind": "User", "name": user}]
    world.client.create(f"/apis/{group}/v1/clusterroles", role)
    world.client.create(f"/apis/{group}/v1/clusterrolebindings", binding)
    return f"--as={user}"


@pytest.mark.thorough
def test_who_may_not_read_the_store_renders_the_same(world: World, rukpak: Rukpak) -> None:
    deployed = install(world, config_map("settings", color="blue", gone="1"), config_map("old"), deployment("web"))
    digest = upgrade(world, deployed, config_map("settings", color="red"), config_map("new"), deployment("web"))
    stored = json.loads(rukpak("diff", deployed.name, "--from-cluster", "-o", "json", status=1).stdout)

    reader = restricted(world, "configmaps", "deployments.apps", "namespaces")
    assert "secrets" in rukpak("diff", deployed.name, "--from-cluster", reader, status=2).stderr
    rendered = json.loads(rukpak("diff", deployed.name, reader, "-o", "json", status=1).stdout)
    assert rendered["revision"] == stored["revision"] == digest
    assert rendered["changes"] == stored["changes"]
    # Computed instead of tried, and yet the same.
    both = [
        {each["name"]: (each["change"], each["before"], each["after"]) for each in value["objects"]}
        for value in (stored, rendered)
    ]
    assert both[0]["settings"] == both[1]["settings"]
    assert both[0]["old"] == both[1]["old"]
    assert both[0].keys() == both[1].keys()


def test_what_two_revisions_differ_in_is_shown_to_each_user_as_far_as_it_may_be_read(
    world: World, rukpak: Rukpak
) -> None:
    deployed = install(world, config_map("settings", color="blue"), config_map("old", a="b"))
    first = deployed.status()["installedRevision"]
    second = upgrade(world, deployed, config_map("settings", color="red"), config_map("new", a="b"))
    forward = changes(rukpak, deployed.name, "--from", first[:20], "--to", second)
    assert forward == {"ConfigMap new": "created", "ConfigMap settings": "changed", "ConfigMap old": "deleted"}
    rukpak("diff", deployed.name, "--to", first)
    assert "not the digest of one stored revision" in rukpak("diff", deployed.name, "--to", "f" * 20, status=2).stderr

    # With rights on BundleDeployments alone objects are shown as rendered.
    shown = rukpak("diff", deployed.name, restricted(world), status=1).stdout
    assert second in shown
    assert f"not compared ConfigMap {deployed.name}/settings" in shown
    assert "+  color: red" in shown.splitlines()
    assert "color: blue" not in shown

    # Who may apply, but not list, gets the answer of the server.
    applier = restricted(world, "configmaps", verbs="get,create,patch")
    value = json.loads(rukpak("diff", deployed.name, applier, "-o", "json", status=1).stdout)
    assert ("settings", "changed", "") in [(each["name"], each["change"], each["note"]) for each in value["objects"]]
    assert any("cannot list this kind" in each for each in value["problems"])


DICE = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dice}\ndata: {roll: "{{ randAlphaNum 12 }}"}\n'
HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: before, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
data: {color: {{ .Values.color }}}
"""


def test_a_rendering_that_is_not_what_waits_is_not_shown(world: World, rukpak: Rukpak) -> None:
    deployed = world.deploy(chart_of({"templates/dice.yaml": DICE}), format="helm", **MANUAL)
    digest = wait_pending(deployed)
    done = rukpak("diff", deployed.name, restricted(world), status=2)
    assert done.stdout == ""
    assert f"but the status says {digest}" in done.stderr
    assert digest in rukpak("diff", deployed.name, status=1).stdout


@pytest.mark.thorough
def test_hooks_that_would_run_are_shown(world: World, rukpak: Rukpak) -> None:
    chart = chart_of({"templates/hook.yaml": HOOK, "templates/dice.yaml": DICE.replace("{{ randAlphaNum 12 }}", "1")})
    deployed = world.deploy(chart, format="helm", config={"values": {"color": "blue"}}, **MANUAL)
    first = wait_pending(deployed)
    assert (
        f"  Hook:    ConfigMap {deployed.name}/before (pre-install)" in rukpak("diff", deployed.name, status=1).stdout
    )
    deployed.change(approvedRevision=first)
    deployed.wait_for("Installed")
    rukpak("diff", deployed.name)

    deployed.change(config={"values": {"color": "red"}})
    wait_pending(deployed, first)
    shown = rukpak("diff", deployed.name, status=1).stdout.splitlines()
    assert f"  Hook:    ConfigMap {deployed.name}/before (pre-upgrade)" in shown
    assert f"run ConfigMap {deployed.name}/before (pre-upgrade)" in shown
    assert {"-  color: blue", "+  color: red"} <= set(shown)


@pytest.mark.thorough
def test_mistakes_and_failures_have_a_status_of_their_own(rukpak: Rukpak) -> None:
    assert 'BundleDeployment "missing" does not exist' in rukpak("diff", "missing", status=2).stderr
    assert "specify NAME or -f FILE" in rukpak("diff", status=2).stderr
    assert "requires --as" in rukpak("diff", "a", "--as-group=b", status=2).stderr
