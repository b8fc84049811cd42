"""`rukpak rights`: its rights suffice to install, upgrade, repair and delete a bundle, and none of them is too much."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Manifest, World, config_map, definition, exists, image, new_name, new_world
from tests.support.controller import command
from tests.support.golden_permissions import BUNDLES, read_bundle
from tests.support.inside import (
    ApiError,
    Client,
    Discovery,
    GroupVersionKind,
    Resources,
    Revision,
    Terms,
    User,
    shipped,
)
from tests.support.installations import kubeconfig_of
from tests.support.objects import claim, secret
from tests.support.registry import LocalRegistry
from tests.support.tenants import ACCOUNT, make_account, make_namespace

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
RBAC = "rbac.authorization.k8s.io"
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def world(fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(fresh_cluster, registry, settings.running, "--workers=2") as made:
        yield made


def _rbac(kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, **fields}


def _rule(resource: str, *verbs: str, group: str = "", **fields: Any) -> Manifest:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **fields}


def _varied(name: str) -> list[Manifest]:
    """Return a bundle with every kind of demand; its cluster-scoped objects are named after its namespace."""
    account = [{"kind": "ServiceAccount", "name": "app", "namespace": name}]

    def bind(kind: str, role: str, to: str) -> Manifest:
        return _rbac(kind, role, roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": to}, subjects=account)

    return [
        config_map("first"),
        config_map("second"),
        secret("own", key="value"),
        claim("data"),
        definition(f"{name}.example.com", "Widget"),
        {"apiVersion": f"{name}.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}},
        _rbac("Role", "app", rules=[_rule("configmaps", "list"), _rule("secrets", "update", resourceNames=["own"])]),
        # This one includes a right that its own Secret requires, too.
        _rbac("ClusterRole", name, rules=[_rule("secrets", "get"), {"nonResourceURLs": ["/x"], "verbs": ["get"]}]),
        _rbac(
            "ClusterRole",
            f"{name}-all",
            aggregationRule={"clusterRoleSelectors": [{"matchLabels": {name: "true"}}]},
            rules=[],
        ),
        bind("ClusterRoleBinding", name, name),
        bind("RoleBinding", "views", "view"),
    ]


def _roles(world: World, namespace: str, objects: list[Manifest], name: str, account: str = ACCOUNT) -> list[Manifest]:
    """Return the roles and bindings that `rukpak rights` prints for a bundle, before anything of it is served."""
    spec = {"sources": [image(world.push(name, *objects))], "format": "plain", "installNamespace": namespace}
    about = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": {"name": name}}
    text = json.dumps({**about, "spec": {**spec, "serviceAccountName": account}})
    rukpak = command(world.cluster.kubeconfig)
    # Accounts may have imagePullSecrets, whose use needs consent.
    printed = rukpak("rights", "-f", "-", "--use-secrets", "-o", "json", stdin=text).stdout
    roles: list[Manifest] = json.loads(printed)["items"]
    return roles


def _place(item: Manifest, namespace: str) -> Manifest:
    """Return an object as rendering places it."""
    if item["kind"] in ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"):
        return item
    # Custom resources are placed only when their kind is known.
    is_built_in = item["apiVersion"] == "v1" or item["apiVersion"].startswith(RBAC)
    return {**item, "metadata": {**({"namespace": namespace} if is_built_in else {}), **item["metadata"]}}


def _grant(world: World, roles: list[Manifest]) -> None:
    world.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=_list(roles))


def _list(items: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _refused(world: World, since: int) -> dict[str, set[str]]:
    """Return the requests that were refused for lack of rights, by account."""
    found: dict[str, set[str]] = {}
    for event in world._control_plane().audit_requests(since):
        user = (event.get("impersonatedUser") or {}).get("username", "")
        # A list is an attempt to save requests, which falls back to single objects.
        if (event.get("responseStatus") or {}).get("code") == 403 and event["verb"] != "list":
            found.setdefault(user, set()).add(f"{event['verb']} {event['requestURI']}")
    return found


def _tenant(world: World, name: str, account: str = ACCOUNT) -> None:
    make_namespace(world, name)
    make_account(world, name, account)


# they suffice


def _installable(objects: list[Manifest]) -> list[Manifest]:
    """Return the objects of a reduced bundle with what the API server requires, and without power over other tests."""
    made = copy.deepcopy(objects)
    for item in made:
        if item["kind"] == "CustomResourceDefinition":
            item["spec"].pop("conversion", None)
            for version in item["spec"]["versions"]:
                version["schema"] = {"openAPIV3Schema": ANY}
                version.pop("selectableFields", None)  # these must be in the schema
        for webhook in item.get("webhooks", ()):
            webhook["failurePolicy"] = "Ignore"
    return [item for item in made if item["kind"] != "APIService"]  # it would break discovery for the others


def _upgraded(objects: list[Manifest]) -> tuple[list[Manifest], Manifest]:
    """Return another version: an object has another label, and an ordinary one is gone, which is returned, too."""
    kept = ("CustomResourceDefinition", "Namespace", "ServiceAccount")
    index = next(index for index in reversed(range(len(objects))) if objects[index]["kind"] not in kept)
    rest = copy.deepcopy([*objects[:index], *objects[index + 1 :]])
    rest[0]["metadata"].setdefault("labels", {})["version"] = "2"
    return rest, objects[index]


def _exists(world: World, item: Manifest, namespace: str) -> bool:
    # Not by kubectl: it is called repeatedly, and to start that takes longer than anything that is waited for.
    resource = Discovery(world.client).resource(GroupVersionKind.of(item))
    if resource is None:
        return False
    place = item["metadata"].get("namespace", namespace) if resource.namespaced else ""
    return exists(world.client, resource.path(place, item["metadata"]["name"]))


def _install_upgrade_repair_delete(world: World, name: str, user: User, objects: list[Manifest]) -> None:
    *_, namespace, account = user.name.split(":")
    deployed = world.deploy(
        *objects, name=name, installNamespace=namespace, serviceAccountName=account, prune="AfterApply"
    )
    deployed.wait_for("Installed")
    after, dropped = _upgraded(objects)
    world.push(name, *after, tag="v2")
    deployed.change(sources=[image(deployed.ref.replace(":v1", ":v2"))])
    deployed.wait(lambda: not _exists(world, dropped, namespace), f"{name}: prune")
    deployed.wait_for("Installed")
    repaired = next(item for item in after if item["kind"] not in ("CustomResourceDefinition", "Namespace"))
    place = f"--namespace={repaired['metadata'].get('namespace', namespace)}"
    world.cluster.kubectl("delete", repaired["kind"], repaired["metadata"]["name"], place, "--wait=false")
    deployed.wait(lambda: _exists(world, repaired, namespace), f"{name}: repair")
    deployed.delete()
    deployed.wait_gone()
    deployed.wait(lambda: not _exists(world, repaired, namespace), f"{name}: deletion")


def test_they_suffice_for_a_bundle_with_every_kind_of_demand(world: World) -> None:
    name = new_name()
    _tenant(world, name)
    objects = _varied(name)
    _grant(world, _roles(world, name, objects, name))
    since = world.position()
    user = User.service_account(name, ACCOUNT)
    _install_upgrade_repair_delete(world, name, user, objects)
    assert _refused(world, since).get(user.name, set()) == set()


@pytest.mark.repeats
@pytest.mark.parametrize("folder", BUNDLES[::3], ids=attrgetter("name"))  # of all, a unit test has the permissions
def test_they_suffice_for_a_real_bundle(world: World, folder: Path) -> None:
    bundle = read_bundle(folder)
    objects, namespace, name = _installable(bundle["objects"]), bundle["installNamespace"], folder.name
    account = f"installer-of-{name}"  # some bundles share a namespace, but not their rights
    _tenant(world, namespace, account)
    _grant(world, _roles(world, namespace, objects, name, account))
    since = world.position()
    user = User.service_account(namespace, account)
    _install_upgrade_repair_delete(world, name, user, objects)
    assert _refused(world, since).get(user.name, set()) == set()


# none of them is too much


@dataclass(frozen=True, slots=True, kw_only=True)
class _Right:
    """One verb for one resource or path, as a role grants it."""

    role: str
    """The path of the role."""
    namespace: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""
    verb: str

    def as_rule(self) -> Manifest:
        if self.path:
            return {"nonResourceURLs": [self.path], "verbs": [self.verb]}
        return _rule(
            self.resource, self.verb, group=self.group, **({"resourceNames": [self.name]} if self.name else {})
        )


def _rights_in(role: Manifest, path: str) -> Iterator[_Right]:
    place = {"role": path, "namespace": role["metadata"].get("namespace", "")}
    for rule in role["rules"]:
        for verb, url in product(rule["verbs"], rule.get("nonResourceURLs", ())):
            yield _Right(**place, verb=verb, path=url)
        subjects = product(rule.get("apiGroups", ()), rule.get("resources", ()), rule.get("resourceNames") or ("",))
        for verb, (group, resource, name) in product(rule["verbs"], subjects):
            yield _Right(**place, verb=verb, group=group, resource=resource, name=name)


class _Grants:
    """The rights of an account, of which one at a time is revoked."""

    def __init__(self, world: World, namespace: str, roles: list[Manifest]) -> None:
        self._world = world
        self._written: dict[str, Manifest] = {}
        self._taken: _Right | None = None
        self.user = User.service_account(namespace, ACCOUNT)
        for item in roles:
            self._write(item)
        self.rights = [
            right for path, item in self._written.items() if "rules" in item for right in _rights_in(item, path)
        ]

    def take(self, right: _Right) -> None:
        """Take one right away, give the one before it back, and wait until the API server knows both."""
        self._grant([each for each in self.rights if each != right])
        self._world.wait(lambda: not self._allows(right), f"{right}: taken")
        self._give_back()
        self._taken = right

    def give_all(self) -> None:
        self._grant(self.rights)
        self._give_back()

    def _give_back(self) -> None:
        taken = self._taken
        if taken:
            self._world.wait(lambda: self._allows(taken), f"{taken}: given back")

    def _grant(self, rights: list[_Right]) -> None:
        for path, item in list(self._written.items()):
            if "rules" in item:
                self._write({**item, "rules": [right.as_rule() for right in rights if right.role == path]})

    def _path(self, item: Manifest) -> str:
        kind = Discovery(self._world.client).resource(GroupVersionKind.of(item))
        assert kind is not None
        return kind.path(item["metadata"].get("namespace", ""), item["metadata"]["name"])

    def _write(self, item: Manifest) -> None:
        path = self._path(item)
        if self._written.get(path) != item:
            self._world.client.apply(path, item, manager="tests", force=True)
            self._written[path] = item

    def _allows(self, right: _Right) -> bool:
        if right.path:
            asked: Manifest = {"nonResourceAttributes": {"path": right.path, "verb": right.verb}}
        else:
            about = {"namespace": right.namespace, "group": right.group, "resource": right.resource}
            asked = {"resourceAttributes": {**about, "verb": right.verb, "name": right.name}}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": self.user.name, "groups": list(self.user.groups), **asked},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._world.client.create(path, review).value["status"]["allowed"])


def _is_refused(client: Client, attempts: list[tuple[str, Manifest]]) -> bool:
    """Return whether the API server would refuse to create one of some objects for lack of rights."""
    for path, item in attempts:
        try:
            client.apply(path, item, manager="tests", force=False, dry_run=True)
        except ApiError as error:
            if error.status == 403:
                return True
    return False


def _attempts(world: World, name: str, objects: list[Manifest]) -> list[tuple[str, Manifest]]:
    """Return the objects of a bundle, none of which exists, with their paths; another CRD instead of its own."""
    other = definition(f"other.{name}.example.com", "Widget")
    placed = [_place(other if item["kind"] == "CustomResourceDefinition" else item, name) for item in objects]
    served = Discovery(world.client)
    found = [(served.resource(GroupVersionKind.of(item)), item) for item in placed]
    return [(kind.path(name, item["metadata"]["name"]), item) for kind, item in found if kind]


def _used(world: World, user: User, since: int) -> set[tuple[str, str, str, str]]:
    """Return verb, group, resource and namespace of the requests of a user."""
    events = [
        event
        for event in world._control_plane().audit_requests(since)
        if (event.get("impersonatedUser") or {}).get("username") == user.name
    ]
    abouts = [(event["verb"], event.get("objectRef") or {}) for event in events]
    return {
        (verb, about.get("apiGroup", ""), about.get("resource", ""), about.get("namespace", ""))
        for verb, about in abouts
    }


@pytest.mark.thorough
def test_none_of_them_can_be_left_out(world: World) -> None:
    name = new_name()
    _tenant(world, name)
    objects = _varied(name)
    roles = _roles(world, name, objects, name)
    # Without them, others are not found before rights are checked: a kind, and a role that is bound.
    wanted = (f"widgets.{name}.example.com", name)
    first = [item for item in objects if item["metadata"]["name"] in wanted and "roleRef" not in item]
    made = world.cluster.kubectl("create", "-o=name", "-f", "-", input=_list(first)).split()
    world.cluster.kubectl("wait", "--for=condition=Established", made[0])
    attempts = _attempts(world, name, objects)
    assert len(attempts) == len(objects)
    grants = _Grants(world, name, roles)
    client = world.client.acting_as(grants.user)
    world.wait(lambda: not _is_refused(client, attempts), "the rights")

    not_refused = []
    for right in grants.rights:
        grants.take(right)
        not_refused += [] if _is_refused(client, attempts) else [right]
    grants.give_all()
    world.cluster.kubectl("delete", *made)
    since = world.position()
    _install_upgrade_repair_delete(world, name, grants.user, objects)

    # What no attempt needs is used by a request, which would be refused without it: only one right allows each.
    used = _used(world, grants.user, since)
    assert [right for right in not_refused if right.verb not in ("get", "delete")] == []
    assert [
        right for right in not_refused if (right.verb, right.group, right.resource, right.namespace) not in used
    ] == []
    assert len(grants.rights) > 30


# the command, and what it knows without a cluster


@pytest.mark.thorough
def test_the_command_prints_what_kubectl_applies(world: World) -> None:
    name = new_name()
    _tenant(world, name)
    deployed = world.deploy(config_map("a"), name=name, serviceAccountName=ACCOUNT)
    deployed.wait_for("Installed", "False", "Forbidden")
    rukpak = command(world.cluster.kubeconfig)
    assert rukpak("rights", name).stdout == f'create,delete,get,patch configmaps in namespace "{name}"\n'
    world.cluster.kubectl("apply", "-f", "-", input=rukpak("rights", name, "-o", "yaml").stdout)
    deployed.wait_ready()
    text = json.dumps({**deployed.read(), "status": {}})
    # The account might have imagePullSecrets, whose use needs consent.
    assert (
        rukpak("rights", "-f", "-", "--use-secrets", stdin=text).stdout
        == rukpak("rights", name, "--from-cluster").stdout
    )


def test_the_command_shows_what_a_bundle_may_do_and_what_is_new(world: World) -> None:
    name = new_name()
    objects = [config_map("a"), _rbac("Role", "app", rules=[_rule("pods", "get")])]
    deployed = world.deploy(*objects, name=name)
    deployed.wait_ready()
    rukpak = command(world.cluster.kubeconfig)
    line = f"whoever is bound to Role {name}/app: get pods in namespace {name}"
    assert line in rukpak("permissions", name).stdout
    assert line in rukpak("permissions", "-f", "-", stdin=json.dumps(deployed.read())).stdout
    assert "nothing beyond the installed revision" in rukpak("permissions", name, "--new").stdout
    deployed.change(paused=True)
    objects[1]["rules"][0]["verbs"].append("list")
    views = _rbac(
        "RoleBinding",
        "views",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:node-problem-detector"},
        subjects=[{"kind": "ServiceAccount", "name": "app"}],
    )
    world.push(name, *objects, views, tag="v2")
    deployed.change(sources=[image(deployed.ref.replace(":v1", ":v2"))])
    deployed.wait(lambda: deployed.status()["revision"] != deployed.status()["installedRevision"], "a new revision")
    told = rukpak("permissions", name, "--new").stdout
    assert f"whoever is bound to Role {name}/app: list pods in namespace {name}" in told
    assert (
        f"ServiceAccount {name}/app: get nodes in namespace {name} (by ClusterRole system:node-problem-detector)"
        in told
    )
    assert line not in told


@pytest.mark.thorough
def test_whoever_may_not_read_the_store_renders_the_same_revision(world: World, tmp_path: Path) -> None:
    name = new_name()
    deployed = world.deploy(config_map("a"), name=name)
    revision = deployed.wait_ready()["installedRevision"]
    make_account(world, name, "viewer")
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"{name}-viewer"}
    viewer = {"kind": "ServiceAccount", "name": "viewer", "namespace": name}
    may_read = _rbac("ClusterRole", f"{name}-viewer", rules=[_rule(names.PLURAL, "get", group=names.GROUP)])
    binding = _rbac("ClusterRoleBinding", f"{name}-viewer", roleRef=reference, subjects=[viewer])
    for each in (may_read, binding):
        world.cluster.kubectl("apply", "-f", "-", input=json.dumps(each))
    rukpak = command(kubeconfig_of(world._control_plane(), tmp_path, name, "viewer"))
    assert rukpak("permissions", name).stdout.startswith(f"{name}: revision {revision}\n")
    assert "secrets" in rukpak("permissions", name, "--from-cluster", status=None).stderr


def test_plurals_are_those_of_the_api_server(world: World) -> None:
    guess = Resources(Revision(digest="", objects=(), terms=Terms(inputs="", install_namespace="")), shipped())
    served = Discovery(world.client)
    for kind in map(GroupVersionKind._make, shipped().kinds):
        resource = served.resource(kind)
        if resource:
            found = guess.find(kind)
            assert (found.plural, found.namespaced) == (resource.plural, resource.namespaced)
