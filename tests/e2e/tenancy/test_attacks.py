"""The story of a tenant: somebody without rights in the cluster installs an application in a namespace, and no more.

RukPak is installed as config/restricted says, the tenant is admitted as config/restricted/tenant says. What the tenant
tries beyond that are the holes that other tools have had (CVE-2021-41254, CVE-2026-23990, and kin).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import DEPLOYMENTS, Deployed, Manifest, config_map, exists, image
from tests.support.inside import User
from tests.support.installations import NAMESPACE
from tests.support.tenants import ANN, AUTHENTICATED, BEN, OWN, Tenants, make, refused, wait_for_right

pytestmark = pytest.mark.timeout(300)
RBAC = "rbac.authorization.k8s.io"
PATH = f"/apis/{RBAC}/v1"


@pytest.fixture(scope="module")
def theirs(tenants: Tenants) -> Deployed:
    """What the other tenant has installed."""
    deployed = tenants.apply(BEN, "theirs", installNamespace="other", serviceAccountName="installer")
    deployed.wait_ready()
    return deployed


LOGIN_OF_OTHERS = {"ref": "example.com/a:v1", "auth": {"secret": {"namespace": "other", "name": "login"}}}
WITH_LOGIN_OF_OTHERS = [{"kind": "image", "image": LOGIN_OF_OTHERS}]
OLDER_SPELLING = {"ref": "example.com/a:v1", "auth": {"namespace": "other", "name": "login"}}
AUTH = {"secret": {"namespace": "other", "name": "login"}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "with the rights of the controller": ({}, "use-controller-rights"),
    "with an account without a name": (
        {"installNamespace": "tenant", "serviceAccountName": ""},
        "use-controller-rights",
    ),
    "as an account of another tenant": ({**OWN, "installNamespace": "other"}, '"other/installer"'),
    "as another account in the namespace": ({**OWN, "serviceAccountName": "default"}, '"tenant/default"'),
    "as the controller": ({"installNamespace": NAMESPACE, "serviceAccountName": "rukpak"}, '"rukpak-system/rukpak"'),
    "with the login of another tenant": (
        {**OWN, "sources": WITH_LOGIN_OF_OTHERS},
        "other/login",
    ),
    "with it in the older spelling": ({**OWN, "sources": [{"kind": "image", "image": OLDER_SPELLING}]}, "other/login"),
    "with it behind one's own": (
        {
            **OWN,
            "sources": [
                {"kind": "http", "http": {"url": "https://example.com/a.tar", "auth": {"secret": {"name": "login"}}}},
                {"kind": "git", "destination": "b", "git": {"repository": "https://example.com/b", "auth": AUTH}},
            ],
        },
        "other/login",
    ),
    "with it for a chart": (
        {**OWN, "sources": [{"kind": "chart", "chart": {"repository": "https://a", "name": "a", "auth": AUTH}}]},
        "other/login",
    ),
    "with it for a kind out of tree": (
        {**OWN, "sources": [{"kind": "example.com/s3", "parameters": {"auth": AUTH}}]},
        "other/login",
    ),
    "with a Secret of another tenant as values": (
        {**OWN, "installNamespace": "other", "configFrom": [{"kind": "Secret", "name": "login"}]},
        "you need the verb",
    ),
    "from a program of git": (
        {**OWN, "sources": [{"kind": "git", "git": {"repository": "ext::sh -c id"}}]},
        "repository",
    ),
    "from a file of the controller": (
        {**OWN, "sources": [{"kind": "git", "git": {"repository": "file:///etc"}}]},
        "repository",
    ),
}


@pytest.mark.parametrize("trick", REFUSED)
def test_a_tenant_may_not_install(tenants: Tenants, trick: str) -> None:
    spec, saying = REFUSED[trick]
    with refused(saying):
        tenants.apply(ANN, "trick", "example.com/a:v1", **spec)
    assert not exists(tenants.world.client, f"{DEPLOYMENTS}/trick")


def test_a_tenant_installs_upgrades_and_deletes_in_its_namespace(tenants: Tenants) -> None:
    deployed = tenants.apply(ANN, "mine", **OWN)
    deployed.wait_ready()
    assert exists(tenants.world.client, "/api/v1/namespaces/tenant/configmaps/settings")
    tenants.push("mine", config_map("settings"), config_map("more"))
    tenants.annotate(ANN, "mine", **{names.RECONCILE_REQUESTED_AT: "now"})
    tenants.world.wait(lambda: exists(tenants.world.client, "/api/v1/namespaces/tenant/configmaps/more"), "the upgrade")
    tenants.delete(ANN, "mine")
    deployed.wait_gone()
    assert not exists(tenants.world.client, "/api/v1/namespaces/tenant/configmaps/settings")


CHANGES: dict[str, dict[str, Any]] = {
    "drop its account": {"serviceAccountName": None},
    "take another one": {"serviceAccountName": "default"},
    "name a Secret of others": {"sources": WITH_LOGIN_OF_OTHERS},
}


def test_what_a_later_change_may_not_do(tenants: Tenants) -> None:
    deployed = tenants.apply(ANN, "changed", **OWN)
    for change in CHANGES.values():
        with refused("you need the verb"):
            tenants.change(ANN, "changed", **change)
    tenants.delete(ANN, "changed")
    deployed.wait_gone()


PINNED = f"sha256:{'a' * 64}"
AT_OTHERS: dict[str, Callable[[Tenants], object]] = {
    "paused": lambda tenants: tenants.change(ANN, "theirs", paused=True),
    "freed of its account": lambda tenants: tenants.change(ANN, "theirs", serviceAccountName=None),
    "rolled back": lambda tenants: tenants.change(ANN, "theirs", pinnedRevision=PINNED),
    "requested again": lambda tenants: tenants.annotate(ANN, "theirs", **{names.RECONCILE_REQUESTED_AT: "now"}),
    "left without its finalizer": lambda tenants: tenants.patch(ANN, "theirs", {"metadata": {"finalizers": None}}),
    "deleted": lambda tenants: tenants.delete(ANN, "theirs"),
    "orphaned": lambda tenants: tenants.delete(ANN, "theirs", "Orphan"),
    "deleted with all others": lambda tenants: tenants.world.client.acting_as(ANN).request("DELETE", DEPLOYMENTS),
    "changed in its status": lambda tenants: tenants.patch(ANN, "theirs", {"status": {}}, subresource="status"),
}


@pytest.mark.parametrize("what", AT_OTHERS)
def test_what_another_tenant_has_installed_cannot_be(tenants: Tenants, theirs: Deployed, what: str) -> None:
    before = theirs.read()
    with refused("forbidden"):
        AT_OTHERS[what](tenants)
    after = theirs.read()
    assert (after["spec"], after["metadata"]["finalizers"]) == (before["spec"], before["metadata"]["finalizers"])
    assert "deletionTimestamp" not in after["metadata"]


def elsewhere() -> Manifest:
    stray = config_map("stray")
    stray["metadata"]["namespace"] = "other"
    return stray


def rbac(kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, **fields}


ADMIN = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
INSTALLER = [{"kind": "ServiceAccount", "name": "installer", "namespace": "tenant"}]
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
BROUGHT = {
    "an object in another namespace": (elsewhere(), "/api/v1/namespaces/other/configmaps/stray"),
    "a namespace": (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "brought"}},
        "/api/v1/namespaces/brought",
    ),
    "a cluster administrator": (
        rbac("ClusterRoleBinding", "brought", roleRef=ADMIN, subjects=INSTALLER),
        f"/apis/{RBAC}/v1/clusterrolebindings/brought",
    ),
    "more rights in the namespace": (
        rbac("RoleBinding", "brought", roleRef=ADMIN, subjects=INSTALLER),
        f"/apis/{RBAC}/v1/namespaces/tenant/rolebindings/brought",
    ),
    "a role of all rights": (rbac("Role", "all", rules=ALL), f"/apis/{RBAC}/v1/namespaces/tenant/roles/all"),
    "a BundleDeployment of its own": (
        {
            "apiVersion": f"{names.GROUP}/v1alpha2",
            "kind": names.KIND,
            "metadata": {"name": "brought"},
            "spec": {"format": "plain", "sources": [image("example.com/a:v1")]},
        },
        f"/apis/{names.GROUP}/v1alpha2/{names.PLURAL}/brought",
    ),
}


def test_what_a_bundle_may_not_bring(tenants: Tenants) -> None:
    """Each in a bundle of its own, with what else it could bring."""
    bundles = {
        trick: tenants.apply(ANN, f"brings-{index}", tenants.push(f"brings-{index}", manifest), **OWN)
        for index, (trick, (manifest, _)) in enumerate(BROUGHT.items())
    }
    for trick, deployed in bundles.items():
        deployed.wait_for("Ready", "False", "Forbidden")
        assert not exists(tenants.world.client, BROUGHT[trick][1]), trick
        tenants.delete(ANN, deployed.name)
    for deployed in bundles.values():
        deployed.wait_gone()


MANY = [
    {
        "kind": "image",
        "destination": f"d{index}",
        "image": {"ref": "example.com/a:v1", "auth": {"secret": {"name": f"s{index}"}}},
    }
    for index in range(21)
]


def test_every_secret_is_looked_at(tenants: Tenants) -> None:
    """Twenty are judged within what a policy may cost; the last of them is another tenant's."""
    foreign = [*MANY[:19], {**MANY[19], "image": LOGIN_OF_OTHERS}]
    for sources, saying in ((foreign, "other/login"), (MANY, "more than 20 Secrets")):
        with refused(saying):
            tenants.apply(ANN, "trick", "unused", **OWN, sources=sources)
    values = [{"kind": "Secret", "name": "values"}]
    with refused("more than 20 Secrets"):
        tenants.apply(ANN, "trick", "unused", **OWN, sources=MANY[:20], configFrom=values)
    tenants.apply(ANN, "many", "unused", **OWN, sources=MANY[:19], configFrom=values)
    tenants.delete(ANN, "many")


CID = User("cid", (AUTHENTICATED,))
"""May use the account of the tenant, and write BundleDeployments, but update only some of them."""


@pytest.fixture
def _cid(tenants: Tenants) -> None:
    bundles = {"apiGroups": [names.GROUP], "resources": [names.PLURAL]}
    givers = [f"giver-{index}" for index in range(8)]
    user = {"kind": "User", "name": "cid"}
    for name, rule in {
        "creator": {**bundles, "verbs": ["create", "get", "patch", "delete"]},
        "updater": {**bundles, "verbs": ["update"], "resourceNames": givers},
    }.items():
        make(tenants.world, f"{PATH}/clusterroles/{name}", rbac("ClusterRole", name, rules=[rule]))
        tenants.bind(name, name, user)
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "bundles"}
    binding = rbac("RoleBinding", "cid", roleRef=reference, subjects=[{"apiGroup": RBAC, **user}])
    make(tenants.world, f"{PATH}/namespaces/tenant/rolebindings/cid", binding)
    wait_for_right(tenants.world, CID, "update", names.PLURAL, group=names.GROUP, name=givers[-1])
    wait_for_right(tenants.world, CID, "impersonate", "serviceaccounts", namespace="tenant", name="installer")


def givers(*found: str) -> list[Manifest]:
    return [{"name": each} for each in found]


@pytest.mark.usefixtures("_cid")
def test_only_who_may_update_a_bundledeployment_may_name_it_to_take_over_its_objects(tenants: Tenants) -> None:
    """Eight are judged within what a policy may cost; the last of them is another tenant's."""
    own = [f"giver-{index}" for index in range(8)]
    for named in (["theirs"], [*own[:7], "theirs"]):
        with refused('takeOver: you need the verb "update"'):
            tenants.apply(CID, "taker", "example.com/a:v1", **OWN, takeOver=givers(*named))
    taker = tenants.apply(CID, "taker", "example.com/a:v1", **OWN, takeOver=givers(*own))
    with refused("spec.takeOver"):
        tenants.change(CID, "taker", takeOver=givers("theirs"))
    tenants.delete(CID, "taker")
    taker.wait_gone()


def test_of_another_tenant_nothing_is_taken_over_without_rights_on_the_objects(
    tenants: Tenants, theirs: Deployed
) -> None:
    wanted = config_map("settings", color="stolen")
    wanted["metadata"]["namespace"] = "other"
    before = tenants.world.client.get("/api/v1/namespaces/other/configmaps/settings").value
    tenants.change(BEN, "theirs", paused=True)
    theirs.wait_for("Paused")
    taker = tenants.apply(ANN, "taker", tenants.push("taker", wanted), **OWN, takeOver=givers("theirs"))
    taker.wait_for("Ready", "False", "Forbidden")
    assert tenants.world.client.get("/api/v1/namespaces/other/configmaps/settings").value == before
    tenants.change(BEN, "theirs", paused=False)
    tenants.delete(ANN, "taker")
    taker.wait_gone()


def test_values_come_from_the_namespace_of_the_tenant_only(tenants: Tenants) -> None:
    tenants.put("other", "configmaps", config_map("values", **{"values.yaml": "color: red"}))
    values = [{"kind": "ConfigMap", "name": "values"}]
    deployed = tenants.apply(ANN, "valued", **OWN, configFrom=values)
    deployed.wait_for("Ready", "False", "ConfigNotFound", saying='"tenant/values"')
    tenants.delete(ANN, "valued")
    deployed.wait_gone()


def test_local_content_comes_from_the_namespace_of_the_tenant_only(tenants: Tenants) -> None:
    tenants.put("other", "configmaps", config_map("content", **{"a.yaml": json.dumps(config_map("stolen"))}))
    sources = [{"kind": "configMap", "configMap": {"name": "content"}}]
    deployed = tenants.apply(ANN, "local", "unused", **OWN, sources=sources)
    deployed.wait_for("Ready", "False", "NotFound", saying='"tenant/content"')
    tenants.delete(ANN, "local")
    deployed.wait_gone()


COSIGN = {"cosign": {"keys": [{"secret": {"name": "cosign"}}]}}
SIGNED = {
    "image": COSIGN,
    "git": {"secret": {"name": "signers"}},
    "http": COSIGN,
    "chart": {"provenance": {"secret": {"name": "signers"}}},
}
"""Values of verify, which the strict policies demand."""
LOOSE = {
    "an image by tag": {"kind": "image", "image": {"ref": "example.com/a:v1"}},
    "a branch": {"kind": "git", "git": {"repository": "https://example.com/a", "ref": "main"}},
    "an abbreviated commit": {"kind": "git", "git": {"repository": "https://example.com/a", "ref": "a3b1dff2"}},
    "a url without a digest": {"kind": "http", "http": {"url": "https://example.com/a.tar"}},
    "a chart without a digest": {
        "kind": "chart",
        "chart": {"repository": "https://example.com", "name": "a", "version": "1.0.0"},
    },
}
FIXED = {"ref": f"example.com/a@sha256:{'a' * 64}"}
UNVERIFIED = {"kind": "image", "image": {**FIXED, "insecureSkipTLSVerify": True}}


def signed(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source with a signature that somebody must have made."""
    kind = source["kind"]
    return {**source, kind: {**source[kind], "verify": SIGNED[kind]}}


@pytest.fixture
def _strict(tenants: Tenants) -> Iterator[None]:
    with tenants.enforced("policy/strict", partial(tenants.find_refusal, None, sources=[UNVERIFIED])):
        yield


@pytest.mark.usefixtures("_strict")
def test_the_switch_forbids_what_may_be_another_thing_tomorrow(tenants: Tenants) -> None:
    for source in LOOSE.values():
        with refused("floating references are forbidden"):
            tenants.apply(ANN, "loose", "unused", **OWN, sources=[signed(source)])
    with refused("insecureSkipTLSVerify is forbidden"):
        tenants.apply(ANN, "loose", "unused", **OWN, sources=[signed(UNVERIFIED)])
    tenants.apply(ANN, "fixed", "unused", **OWN, sources=[signed({"kind": "image", "image": FIXED})])
    tenants.delete(ANN, "fixed")


def test_what_pretends_to_be_installed_by_another_does_not_hold_it_up(tenants: Tenants, theirs: Deployed) -> None:
    uid = theirs.read()["metadata"]["uid"]
    planted = config_map("planted")
    owner = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": "theirs", "uid": uid}
    planted["metadata"] |= {
        "namespace": "tenant",
        "labels": {names.OWNER_LABEL: "theirs"},
        "annotations": {names.OWNER_UID: uid},
        "ownerReferences": [owner | {"controller": True}],
    }
    tenants.put("tenant", "configmaps", planted)
    tenants.apply(BEN, "theirs", tenants.push("theirs", config_map("settings"), config_map("new")),
                  installNamespace="other", serviceAccountName="installer")  # fmt: skip
    theirs.request_reconcile("planted")
    tenants.world.wait(lambda: exists(tenants.world.client, "/api/v1/namespaces/other/configmaps/new"), "the upgrade")
    theirs.wait_ready()
    tenants.delete(BEN, "theirs")
    theirs.wait_gone()
