"""An object that a revision drops makes way for one that needs what it has, and that would be refused for ever."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import (
    Deployed,
    Manifest,
    World,
    config_map,
    definition,
    image,
    new_name,
    new_world,
    refused_config_map,
)
from tests.support.controller import Controller, command
from tests.support.hurried import hurry
from tests.support.inside import NOTICED_SECONDS, ApiError
from tests.support.objects import claim, custom, deployment, labelled, make, namespace, read
from tests.support.registry import LocalRegistry
from tests.support.tenants import CONFIG_MAPS, deploy, tenant

pytestmark = pytest.mark.long

SECONDS = 60.0
NETWORKING = "/apis/networking.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HELD = "example.com/held"
TIMERS = {NOTICED_SECONDS: 4.0}
SERVICES = ("services",)
# API servers choose ports above 30085 for Services that name none, and those below only when all others are taken.
_ports = iter(range(30020, 30086))


@pytest.fixture(scope="module")
def shared_world(cluster: Cluster, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A world of this file's own: its tests leave finalizers in their namespaces, which would fail the shared one."""
    with new_world(cluster, registry, settings.running, "--workers=1") as world:
        yield world


@pytest.fixture
def hurried_world(world: World, settings: Settings) -> Iterator[World]:
    """A world whose controller waits 4 s, not 60, for everybody to notice a deletion."""
    world.controller.stop()
    make = partial(Controller, program=hurry(TIMERS))
    with new_world(world.cluster, world.registry, settings.running, "--workers=1", make=make) as hurried:
        yield hurried
        print(hurried.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


def new_port() -> int:
    return next(_ports)


def node_port(name: str, *ports: int, **spec: Any) -> Manifest:
    listed = [{"name": f"p{number}", "port": 80 + number, "nodePort": port} for number, port in enumerate(ports)]
    return make("v1", "Service", name, spec={"type": "NodePort", "selector": {"app": "a"}, "ports": listed, **spec})


def ingress(name: str, host: str, path: str = "/") -> Manifest:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rule = {"host": host, "http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}}
    return make("networking.k8s.io/v1", "Ingress", name, spec={"rules": [rule]})


def priority_class(name: str, value: int) -> Manifest:
    return make("scheduling.k8s.io/v1", "PriorityClass", name, value=value, globalDefault=True)


def quota(resource: str, most: int = 1) -> Manifest:
    return make("v1", "ResourceQuota", "limit", spec={"hard": {resource: str(most)}})


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> None:
    deployed.change(sources=[image(world.push(deployed.name, *manifests, tag=new_name()))])


def is_there(deployed: Deployed, name: str, *where: str) -> bool:
    found = deployed.get(name, *(where or SERVICES))
    return found is not None and "deletionTimestamp" not in found["metadata"]


def test_the_preview_shows_what_makes_way(world: World, tmp_path: Path) -> None:
    port = new_port()
    deployed = world.deploy(node_port("old", port), config_map("a"))
    deployed.wait_ready()
    file = tmp_path / "spec.yaml"
    source = image(world.push(deployed.name, node_port("new", port), config_map("a"), tag="v2"))
    spec = {"format": "plain", "installNamespace": deployed.namespace, "sources": [source]}
    file.write_text(json.dumps(make(f"{names.GROUP}/v1alpha2", names.KIND, deployed.name, spec=spec)))
    shown = command(world.cluster.kubeconfig)("diff", "-f", str(file), status=1).stdout
    assert f"once Service {deployed.namespace}/old is deleted, which has what it needs" in shown
    assert is_there(deployed, "old")


def test_a_renamed_service_keeps_its_node_port(world: World) -> None:
    port = new_port()
    deployed = world.deploy(node_port("old", port), config_map("a"))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, node_port("new", port), config_map("a"))
    deployed.wait_installed(before)
    found = deployed.get("new", *SERVICES)
    assert found
    assert found["spec"]["ports"][0]["nodePort"] == port
    assert not is_there(deployed, "old")
    text = f"Service {deployed.namespace}/old: deleted, since Service {deployed.namespace}/new needs what it had"
    deployed.wait(lambda: text in deployed.all_events("Pruned"), "an Event says so")
    assert not {"Refused", "Drifted"} & deployed.events().keys()
    # and back
    deployed.change(pinnedRevision=before)
    deployed.wait(lambda: is_there(deployed, "old") and not is_there(deployed, "new"), "the other way round")
    deployed.wait_ready()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A revision whose object needs what an object has that it drops."""

    name: str
    old: tuple[Manifest, ...]
    new: tuple[Manifest, ...]
    also: tuple[Manifest, ...] = ()
    """In both revisions."""


_A, _B, _C, _D, _E, _F = (new_port() for _ in range(6))
_CLASS = new_name()


def cluster_ip(name: str, address: str) -> Manifest:
    return make("v1", "Service", name, spec={"clusterIP": address, "ports": [{"port": 80}], "selector": {"app": "a"}})


def in_wave(number: int, manifest: Manifest) -> Manifest:
    return labelled(manifest, annotations={names.WAVE: str(number)})


BY_THEMSELVES = [
    Case(
        name="a port that two objects of the old revision had, one each",
        old=(node_port("one", _A), node_port("two", _B)),
        new=(node_port("both", _A, _B),),
    ),
    Case(
        name="the port of an object in a later wave",
        old=(in_wave(1, node_port("old", _C)),),
        new=(node_port("new", _C), in_wave(1, config_map("late"))),
    ),
    Case(
        name="a port that an object that stays gets",
        old=(node_port("old", _D), node_port("stays", _E)),
        new=(node_port("stays", _D),),
    ),
    Case(
        name="a fixed address",
        old=(cluster_ip("old", "10.0.0.201"),),
        new=(cluster_ip("new", "10.0.0.201"),),
    ),
    Case(
        name="the place in a quota of Deployments",
        old=(deployment("old"),),
        new=(deployment("new"),),
        also=(quota("count/deployments.apps"),),
    ),
    Case(
        name="places in a quota of Services with node ports",
        old=(node_port("one", _F), make("v1", "Service", "plain", spec={"ports": [{"port": 80}]})),
        new=(node_port("two", new_port()), make("v1", "Service", "other", spec={"ports": [{"port": 80}]})),
        also=(quota("services.nodeports"),),
    ),
    Case(
        name="being the default PriorityClass",
        old=(priority_class(f"{_CLASS}-old", 1000),),
        new=(priority_class(f"{_CLASS}-new", 2000),),
    ),
]


@pytest.mark.parametrize("case", BY_THEMSELVES, ids=attrgetter("name"))
def test_what_is_needed_is_given_up_by_itself(world: World, case: Case) -> None:
    deployed = world.deploy(*case.also, *case.old)
    before = deployed.wait_ready()["installedRevision"]
    if case.also:
        deployed.wait(lambda: "used" in (deployed.get("limit", "resourcequotas") or {}).get("status", {}), "counted")
    upgrade(world, deployed, *case.also, *case.new)
    deployed.wait_installed(before)
    if case is BY_THEMSELVES[0]:
        deployed.change(pinnedRevision=before)
        deployed.wait(lambda: deployed.status()["installedRevision"] == before, "the other way round")
        deployed.wait_ready()


def test_what_an_object_that_stays_gives_up_is_free_in_the_same_pass(world: World) -> None:
    one, two = new_port(), new_port()
    deployed = world.deploy(node_port("b", one), node_port("c", two))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, node_port("a", one), node_port("b", two), node_port("c", new_port()))
    deployed.wait_installed(before)


def test_the_port_of_the_health_check_of_a_load_balancer_is_given_up(world: World) -> None:
    def balancer(name: str) -> Manifest:
        spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port}
        return make("v1", "Service", name, spec={**spec, "ports": [{"port": 80}], "selector": {"app": "a"}})

    port = new_port()
    deployed = world.deploy(balancer("old"))
    deployed.wait_for("Installed")
    upgrade(world, deployed, balancer("new"))
    deployed.wait(lambda: is_there(deployed, "new") and not is_there(deployed, "old"), "replaced")


def test_of_two_candidates_only_the_one_that_has_it_makes_way_also_if_the_api_server_had_chosen_it(
    world: World,
) -> None:
    chosen = make("v1", "Service", "old", spec={"type": "NodePort", "ports": [{"port": 80}]})
    deployed = world.deploy(chosen, node_port("other", new_port()), deployment("web"))
    deployed.wait_ready()
    uid = deployed.get("other", *SERVICES)["metadata"]["uid"]  # type: ignore[index]
    found = deployed.get("old", *SERVICES)
    assert found
    port = found["spec"]["ports"][0]["nodePort"]
    upgrade(world, deployed, node_port("new", port), deployment("web", replicas=1))
    deployed.wait_for("Installed")
    deployed.wait_for("Healthy", "False", "Progressing")
    assert not is_there(deployed, "old")
    assert deployed.get("other", *SERVICES)["metadata"]["uid"] == uid  # type: ignore[index]


def test_for_a_quota_no_more_makes_way_than_is_needed(world: World) -> None:
    limit, where = quota("count/deployments.apps", 3), ("deployments", "/apis/apps/v1")
    old = [deployment(name) for name in ("one", "two", "three")]
    deployed = world.deploy(limit)

    def is_counted(used: int) -> bool:
        found = deployed.get("limit", "resourcequotas")
        return found is not None and found.get("status", {}).get("used") == {"count/deployments.apps": str(used)}

    # Only what is created after that is counted at once: the controller manager counts again every five minutes.
    deployed.wait(lambda: is_counted(0), "none counted")
    upgrade(world, deployed, limit, *old)
    deployed.wait_ready()
    deployed.wait(lambda: is_counted(3), "all three counted")
    upgrade(world, deployed, limit, deployment("new", replicas=1))
    deployed.wait_for("Installed")
    deployed.wait_for("Healthy", "False", "Progressing")
    assert len([each for each in old if is_there(deployed, each["metadata"]["name"], *where)]) == 2


def test_an_object_that_would_be_refused_all_the_same_removes_nothing(world: World) -> None:
    port = new_port()
    deployed = world.deploy(node_port("old", port))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, node_port("new", port, sessionAffinity="Sometimes"))
    deployed.wait_for("Installed", "False", "Refused", saying="nodePort")
    assert is_there(deployed, "old")
    upgrade(world, deployed, node_port("new", port, sessionAffinity="None"))
    deployed.wait_installed(before)


def health_checked(name: str, port: int) -> Manifest:
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port}
    return make("v1", "Service", name, spec={**spec, "ports": [{"port": 80}], "selector": {"app": "a"}})


_TAKEN = [new_port() for _ in range(4)]
TAKEN: list[tuple[str, Manifest, Manifest]] = [
    ("a port", node_port("old", _TAKEN[0]), node_port("new", _TAKEN[0])),
    ("one of several ports", node_port("old", _TAKEN[1]), node_port("new", new_port(), _TAKEN[1])),
    ("a port of a health check", health_checked("old", _TAKEN[2]), health_checked("new", _TAKEN[2])),
    ("a port that is another's port of a health check", health_checked("old", _TAKEN[3]), node_port("new", _TAKEN[3])),
    ("an address", cluster_ip("old", "10.0.0.211"), cluster_ip("new", "10.0.0.211")),
]


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in TAKEN], ids=[case[0] for case in TAKEN])
def test_a_service_that_has_a_port_or_address_and_stays_is_named(world: World, old: Manifest, new: Manifest) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", namespace(name))
    world.client.create(f"/api/v1/namespaces/{name}/services", old)
    foreign = world.deploy(new, config_map("a"))
    says = f"Service {name}/old has it: choose another value, or change or delete that one"
    foreign.wait_for("Installed", "False", "Refused", saying=says)
    if old is not TAKEN[0][1]:  # whose it is, is the same for each value
        return
    world.client.delete(f"/api/v1/namespaces/{name}/services/old")
    foreign.request_reconcile("1")
    foreign.wait_for("Installed")
    another = world.deploy({**new, "metadata": {"name": "another"}}, config_map("a"))
    says = f'Service {foreign.namespace}/new of BundleDeployment "{foreign.name}" has it'
    another.wait_for("Installed", "False", "Refused", saying=says)
    upgrade(world, foreign, new, {**new, "metadata": {"name": "two"}}, config_map("a"))
    says = f"Service {foreign.namespace}/new of the same bundle has it: choose another value in one of the two"
    foreign.wait_for("Installed", "False", "Refused", saying=says)
    upgrade(world, foreign, new, config_map("a"))
    foreign.wait_for("Installed")


def test_an_account_that_may_not_list_services_is_told_how_to_find_the_one_that_has_a_port(world: World) -> None:
    port = new_port()
    deployed = world.deploy(node_port("old", port))
    deployed.wait_ready()
    rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create", "patch", "delete"]}, CONFIG_MAPS]
    other = deploy(world, tenant(world, *rules), node_port("new", port), config_map("a"))
    other.wait_for("Installed", "False", "Refused", saying='find the Service that has it with "kubectl get services')


# guarded by a policy or webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A rule of a cluster: a value that only one object of a kind may have."""

    name: str
    resource: str
    make: Callable[[str, str], Manifest]
    value: str
    path: Callable[[Deployed, str], str]


def default_class(kind: str, group: str, annotation: str, **content: Any) -> Callable[[str, str], Manifest]:
    return lambda name, value: labelled(
        make(f"{group}/v1", kind, name, **content), annotations={annotation: "true"}, labels={"unique": value}
    )


def hosted(name: str, value: str) -> Manifest:
    return labelled(ingress(name, f"{value}.example.com"), labels={"unique": value})


STORAGE_DEFAULT, INGRESS_DEFAULT = (
    f"{kind}.kubernetes.io/is-default-class" for kind in ("storageclass", "ingressclass")
)
POLICED = [
    Unique(
        name="the host of an Ingress",
        resource="ingresses",
        make=hosted,
        value="{}.spec.rules[0].host",
        path=lambda deployed, name: deployed.path_of(name, "ingresses", NETWORKING),
    ),
    Unique(
        name="being the default StorageClass",
        resource="storageclasses",
        make=default_class("StorageClass", "storage.k8s.io", STORAGE_DEFAULT, provisioner="example.com/none"),
        value=f"{{}}.metadata.?annotations[?'{STORAGE_DEFAULT}'].orValue('')",
        path=lambda _, name: f"/apis/storage.k8s.io/v1/storageclasses/{name}",
    ),
    Unique(
        name="being the default IngressClass",
        resource="ingressclasses",
        make=default_class("IngressClass", "networking.k8s.io", INGRESS_DEFAULT, spec={"controller": "example.com/x"}),
        value=f"{{}}.metadata.?annotations[?'{INGRESS_DEFAULT}'].orValue('')",
        path=lambda _, name: f"{NETWORKING}/ingressclasses/{name}",
    ),
]


def police(world: World, name: str, sample: Manifest, resource: str, valid: str, *, compares: bool = True) -> None:
    """Have the API server refuse objects with a label of which `valid` is not true.

    It is about `object` and, if it compares, about each other one of its kind, `params`.
    """
    group, _, version = sample["apiVersion"].rpartition("/")
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    others = {"paramKind": {"apiVersion": sample["apiVersion"], "kind": sample["kind"]}}
    policy = {
        **(others if compares else {}),
        "matchConstraints": {
            "resourceRules": [{**rule, "apiVersions": [version]}],
            "objectSelector": {"matchLabels": {"unique": name}},
        },
        "validations": [{"expression": valid, "message": "already taken"}],
    }
    reference = {"paramRef": {"selector": {"matchLabels": {"unique": name}}, "parameterNotFoundAction": "Allow"}}
    binding = {"policyName": name, "validationActions": ["Deny"], **(reference if compares else {})}
    group = "admissionregistration.k8s.io/v1"
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        made = make(group, kind, name, spec=spec)
        plural = "validatingadmissionpolicies" if kind.endswith("Policy") else "validatingadmissionpolicybindings"
        world.client.apply(f"{POLICIES}/{plural}/{name}", made, manager="tests", force=True)


def wait_policed(world: World, path: str, another: Manifest) -> None:
    """Wait until another object with the value of an existing one is refused."""

    def is_refused() -> bool:
        try:
            world.client.create(path.rpartition("/")[0], another, dry_run=True)
        except ApiError as error:
            return "already taken" in error.message
        return False

    wait_for(is_refused, SECONDS, "the policy in force")


def only_one(value: str) -> str:
    ours, theirs = value.format("object"), value.format("params")
    return f"object.metadata.name == params.metadata.name || {ours} == '' || {ours} != {theirs}"


@pytest.mark.parametrize("unique", POLICED, ids=attrgetter("name"))
def test_what_a_policy_grants_to_one_object_only_is_given_up_by_itself(world: World, unique: Unique) -> None:
    name = new_name()
    old, new = (unique.make(f"{name}-{each}", name) for each in ("old", "new"))
    deployed = world.deploy(old, config_map("a"))
    before = deployed.wait_ready()["installedRevision"]
    police(world, name, old, unique.resource, only_one(unique.value))
    path = unique.path(deployed, f"{name}-old")
    wait_policed(world, path, new)
    upgrade(world, deployed, new, config_map("a"))
    deployed.wait_installed(before)
    assert read(world.client, path) is None


def unique_custom(group: str, name: str, domain: str, label: str, replaces: str = "") -> Manifest:
    made = labelled(custom(group, "Site", name, spec={"domain": domain}), labels={"unique": label})
    return labelled(made, annotations={names.REPLACES: replaces}) if replaces else made


@pytest.fixture
def sites(world: World) -> Iterator[tuple[Deployed, str, str]]:
    """A BundleDeployment of a custom resource whose domain a policy keeps unique, its group and the policy."""
    name = new_name()
    group = f"{name}.example.com"
    crd = definition(group, "Site")
    world.client.create(CRDS, crd)
    old = unique_custom(group, "old", "a", name)
    deployed = world.deploy(old, config_map("a"))
    deployed.wait_ready()
    police(world, name, old, "sites", only_one("{}.spec.domain"))
    wait_policed(world, site(deployed, group, "old"), unique_custom(group, "new", "a", name))
    yield deployed, group, name
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(f"{CRDS}/sites.{group}")


def site(deployed: Deployed, group: str, name: str) -> str:
    return deployed.path_of(name, "sites", f"/apis/{group}/v1")


def test_what_may_be_more_than_its_manifest_makes_way_only_as_a_person_says(
    world: World, sites: tuple[Deployed, str, str]
) -> None:
    deployed, group, name = sites
    before = deployed.status()["installedRevision"]
    upgrade(world, deployed, unique_custom(group, "new", "a", name), config_map("a"))
    says = f"Site {deployed.namespace}/old, which this revision does not contain, seems to have it: delete it, or "
    says += f'set the annotation {names.REPLACES}: "old" on this object in the bundle'
    deployed.wait_for("Installed", "False", "Refused", saying=says)
    assert read(world.client, site(deployed, group, "old"))
    upgrade(world, deployed, unique_custom(group, "new", "a", name, replaces="old"), config_map("a"))
    deployed.wait_installed(before)
    assert read(world.client, site(deployed, group, "old")) is None
    deployed.change(pinnedRevision=before)
    deployed.wait(lambda: deployed.status()["installedRevision"] == before, "the other way round")
    deployed.wait_ready()

    # A holder that a person deletes stays deleted, and its successor is applied at once.
    again = world.push(deployed.name, unique_custom(group, "new", "a", name), config_map("a"), tag="again")
    deployed.change(pinnedRevision=None, sources=[image(again)])
    deployed.wait_for("Installed", "False", "Refused", saying="delete it, or")
    world.client.delete(site(deployed, group, "old"))
    deployed.wait_installed(before)
    assert read(world.client, site(deployed, group, "old")) is None


def test_what_was_deleted_in_vain_comes_back(hurried_world: World) -> None:
    """A policy that is about the name, not about the host: only the API server could know."""
    name = new_name()
    old, new = hosted("old", name), hosted("new", name)
    deployed = hurried_world.deploy(old, config_map("a"))
    deployed.wait_ready()
    host = f"object.spec.rules[0].host != '{name}.example.com'"
    police(hurried_world, name, old, "ingresses", f"object.metadata.name == 'old' || {host}", compares=False)
    path = deployed.path_of("old", "ingresses", NETWORKING)
    wait_policed(hurried_world, path, new)
    uid = deployed.get("old", "ingresses", NETWORKING)["metadata"]["uid"]  # type: ignore[index]
    upgrade(hurried_world, deployed, new, config_map("a"))
    deployed.wait_for("Installed", "False", "Applying", saying="already taken")
    deployed.wait_for("Installed", "False", "Refused", saying="already taken")
    found = deployed.wait(lambda: read(hurried_world.client, path), "created again")
    assert found["metadata"]["uid"] != uid


# what stays


STAYING: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("prune is Never", {"prune": "Never"}, {}),
    ("the deletionPolicy is Orphan", {"deletionPolicy": "Orphan"}, {}),
    ("it is marked to be kept", {}, {names.PRUNE: "false"}),
]


@pytest.mark.parametrize(("why", "spec", "annotations"), STAYING, ids=[why for why, _, _ in STAYING])
def test_what_is_kept_does_not_make_way_and_is_named(
    world: World, why: str, spec: dict[str, Any], annotations: dict[str, str]
) -> None:
    port = new_port()
    old = node_port("old", port)
    deployed = world.deploy(labelled(old, annotations=annotations) if annotations else old, config_map("a"), **spec)
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, node_port("new", port), config_map("a"))
    says = f"Service {deployed.namespace}/old, which this revision does not contain, seems to have it, and is kept"
    deployed.wait_for("Installed", "False", "Refused", saying=f"{says}: delete it yourself")
    assert is_there(deployed, "old"), why
    deployed.client.delete(deployed.path_of("old", *SERVICES))
    deployed.wait_installed(before)


def test_a_claim_never_makes_way(world: World) -> None:
    deployed = world.deploy(quota("persistentvolumeclaims"), labelled(claim("old"), annotations={names.PRUNE: "true"}))
    deployed.wait_for("Installed")
    deployed.wait(lambda: "used" in (deployed.get("limit", "resourcequotas") or {}).get("status", {}), "counted")
    new = labelled(claim("new"), annotations={names.REPLACES: "old"})
    upgrade(world, deployed, quota("persistentvolumeclaims"), new)
    says = f"PersistentVolumeClaim {deployed.namespace}/old, which this revision does not contain, seems to have it"
    deployed.wait_for("Installed", "False", "Refused", saying=f"{says}, and is kept: delete it yourself")
    assert is_there(deployed, "old", "persistentvolumeclaims")


def test_a_claim_that_has_the_volume_of_its_successor_is_named(world: World) -> None:
    name = new_name()
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/none"}}
    volume = make("v1", "PersistentVolume", name, spec={**spec, "storageClassName": ""})

    def bound(claim_name: str) -> Manifest:
        made = claim(claim_name)
        made["spec"] |= {"volumeName": name, "storageClassName": ""}
        return made

    def volume_phase() -> str:
        found = read(world.client, f"/api/v1/persistentvolumes/{name}")
        return str((found or {}).get("status", {}).get("phase", ""))

    deployed = world.deploy(volume, bound("old"))
    deployed.wait_ready()
    upgrade(world, deployed, volume, bound("new"))
    says = (
        f"PersistentVolumeClaim {deployed.namespace}/old: stays, and will be released when the new revision is healthy"
    )
    deployed.wait_for("Reconciling", "True", "PrunePending", saying=f"{says}; if that needs what it has, delete it")
    deployed.client.delete(deployed.path_of("old", "persistentvolumeclaims"))
    deployed.wait(lambda: deployed.get("old", "persistentvolumeclaims") is None, "the old one is gone")
    deployed.wait(lambda: volume_phase() == "Released", "and its volume is released")
    deployed.client.merge_patch(f"/api/v1/persistentvolumes/{name}", {"spec": {"claimRef": None}})
    deployed.wait_ready()
    deployed.delete()
    deployed.client.delete(deployed.path_of("new", "persistentvolumeclaims"))
    deployed.wait_gone()


def test_what_nobody_refuses_is_replaced_if_an_annotation_says_so(world: World) -> None:
    """Ports of the host: pods would wait for each other, as no request does."""
    deployed = world.deploy(deployment("old"), config_map("a"))
    deployed.wait_ready()
    new = labelled(deployment("new", replicas=1), annotations={names.REPLACES: "StatefulSet.apps/none, old"})
    upgrade(world, deployed, new, config_map("a"))
    deployed.wait(lambda: not is_there(deployed, "old", "deployments", "/apis/apps/v1"), "replaced")
    deployed.wait_for("Healthy", "False", "Progressing")


# what else may happen


def test_a_holder_with_a_finalizer_is_waited_for_also_by_a_controller_that_is_killed(world: World) -> None:
    port = new_port()
    deployed = world.deploy(labelled(node_port("old", port), finalizers=[HELD]), config_map("a"))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, node_port("new", port), config_map("a"))
    says = f"waiting until Service {deployed.namespace}/old (finalizer {HELD}) is gone, which has what it needs"
    deployed.wait_for("Installed", "False", "Applying", saying=says)
    world.controller.kill()
    deployed.client.merge_patch(deployed.path_of("old", *SERVICES), {"metadata": {"finalizers": None}})
    wait_for(lambda: deployed.get("old", *SERVICES) is None, SECONDS, "gone")
    world.controller.start()
    deployed.wait_installed(before)
    assert is_there(deployed, "new")
    assert deployed.get("old", *SERVICES) is None


def test_nothing_makes_way_while_paused_or_before_the_revision_is_approved(world: World) -> None:
    port = new_port()
    deployed = world.deploy(node_port("old", port), config_map("a"))
    before = deployed.wait_ready()["installedRevision"]
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    upgrade(world, deployed, node_port("new", port), config_map("a"))
    deployed.wait_for("Installed", "False", "PausedWithChanges")
    assert is_there(deployed, "old")
    deployed.change(paused=False, approval="Manual")
    deployed.wait_for("Installed", "False", "AwaitingApproval")
    pending = deployed.wait(lambda: deployed.status().get("pending"), "pending")
    assert is_there(deployed, "old")
    deployed.change(approvedRevision=pending["revision"])
    deployed.wait_installed(before)


def test_an_account_that_may_not_delete_is_named_and_nothing_makes_way(world: World) -> None:
    rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create", "patch"]}, CONFIG_MAPS]
    name = tenant(world, *rules)
    port = new_port()
    deployed = deploy(world, name, node_port("old", port), config_map("a"))
    deployed.wait_for("Installed")
    upgrade(world, deployed, node_port("new", port), config_map("a"))
    message = deployed.wait_for("Installed", "False", "Forbidden")["message"]
    assert "delete" in message
    assert is_there(deployed, "old")


def test_a_dropped_object_that_a_person_deletes_stays_deleted_while_the_revision_cannot_be_applied(
    world: World,
) -> None:
    deployed = world.deploy(config_map("old"), config_map("a"))
    deployed.wait_ready()
    upgrade(world, deployed, config_map("a", color="red"), refused_config_map("bad"))
    deployed.wait_for("Installed", "False", "Refused")
    deployed.edit("old", color="green")
    deployed.wait(lambda: deployed.data("old") == {"color": "blue"}, "it is repaired as long as it is there")
    deployed.remove("old")
    deployed.edit("a", color="green")
    deployed.wait(lambda: deployed.data("a") == {"color": "red"}, "repaired after that")
    world.wait_until_looked_at()
    assert deployed.get("old") is None
    deployed.change(sources=[image(deployed.ref)])
    deployed.wait(lambda: deployed.get("old"), "the revision that has it creates it")
    deployed.wait_ready()


def test_a_dropped_object_without_its_label_is_taken_back_and_pruned(world: World) -> None:
    deployed = world.deploy(config_map("old"), config_map("a"))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, config_map("a"), refused_config_map("bad"))
    deployed.wait_for("Installed", "False", "Refused")
    for color in ("red", "green"):  # the next repair would be put off
        deployed.edit("old", color=color)
        deployed.wait(lambda: deployed.data("old") == {"color": "blue"}, "repaired")
    deployed.client.merge_patch(deployed.path_of("old"), {"metadata": {"labels": {names.OWNER_LABEL: None}}})
    upgrade(world, deployed, config_map("a"))
    deployed.wait_installed(before)
    deployed.wait(lambda: deployed.get("old") is None, "pruned")
