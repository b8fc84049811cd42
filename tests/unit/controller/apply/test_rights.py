"""What an account needs to install a bundle, and the roles that grant it.

Rights that are missing: listed all at once, so that nobody grants them one by one.

What an account has to hold to apply objects, and to grant what they grant.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.rights import (
    MissingRightsError,
    RbacRight,
    describe_roles,
    find_rights,
    for_apply,
    grants_in,
    list_all,
    make_roles,
    narrow,
    rights_to_apply,
)
from rukpak.controller.apply.targets import Target
from rukpak.controller.building.capabilities import shipped
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.cli.permissions import Resources
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import RBAC, GroupVersionKind
from rukpak.controller.observe.records import key_of
from tests.support.fake_cluster import CONFIG_MAPS

Manifest = dict[str, Any]


def make(kind: str, name: str = "a", api: str = "v1", namespace: str = "shop", **fields: Any) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def role(*rules: Manifest, kind: str = "ClusterRole", namespace: str = "", **fields: Any) -> Manifest:
    return make(kind, api=f"{RBAC}/v1", namespace=namespace, rules=list(rules), **fields)


def rights(*objects: Manifest, hooks: tuple[Manifest, ...] = ()) -> list[str]:
    terms = Terms(inputs="", install_namespace="shop")
    revision = Revision(digest="", objects=objects, hooks=tuple({"manifest": each} for each in hooks), terms=terms)
    found = find_rights(revision, Resources(revision, shipped()).find)
    return [str(each) for each in found]


def of(verbs: str, resource: str, where: str = ' in namespace "shop"') -> list[str]:
    return [f"{verb} {resource}{where}" for verb in verbs.split()]


def test_objects_are_read_created_changed_and_deleted() -> None:
    assert rights(make("ConfigMap"), make("ConfigMap", "b")) == of("create delete get patch", "configmaps")


def test_hooks_are_objects_too() -> None:
    assert rights(hooks=(make("Job", api="batch/v1"),)) == of("create delete get patch", "jobs.batch")


def test_a_claim_is_kept() -> None:
    assert rights(make("PersistentVolumeClaim")) == of("create get patch", "persistentvolumeclaims")


def test_a_claim_that_the_bundle_lets_go_is_deleted() -> None:
    item = make("PersistentVolumeClaim", metadata={"annotations": {names.PRUNE: "true"}})
    assert "delete persistentvolumeclaims" in rights(item)[1]


def test_what_is_marked_to_be_kept_is_not_deleted() -> None:
    item = make("ConfigMap", metadata={"annotations": {"helm.sh/resource-policy": "keep"}})
    assert rights(item) == of("create get patch", "configmaps")
    assert rights(item, make("ConfigMap", "b")) == of("create delete get patch", "configmaps")


def test_the_install_namespace_is_only_read() -> None:
    assert rights(make("Namespace", "shop", namespace="")) == of("get", "namespaces", "")


def test_a_role_takes_the_rights_in_it() -> None:
    rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}
    found = rights(role(rule, kind="Role", namespace="shop"))
    assert [each for each in found if "deployments" in each] == of("list watch", "deployments.apps")


def test_a_right_that_another_one_includes_is_left_out() -> None:
    wide = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "patch"]}
    assert rights(role(wide), make("ConfigMap")) == [
        *of("get patch", "*.*", ""),
        *of("create delete", f"clusterroles.{RBAC}", ""),
        *of("create delete", "configmaps"),
    ]


def test_a_role_that_the_control_plane_fills_takes_the_right_to_escalate_it() -> None:
    assert f'escalate clusterroles.{RBAC} "a"' in rights(role(aggregationRule={"clusterRoleSelectors": [{}]}))


def test_a_role_of_others_takes_the_right_to_bind_it_and_one_of_the_bundle_nothing_more() -> None:
    def bind(name: str) -> Manifest:
        reference = {"kind": "ClusterRole", "name": name}
        return make("RoleBinding", name, f"{RBAC}/v1", roleRef=reference)

    found = rights(role(), bind("a"), bind("view"))
    assert [each for each in found if each.startswith("bind")] == of("bind", f'clusterroles.{RBAC} "view"')


def test_a_policy_takes_the_right_to_read_its_parameters() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    policy = make(
        "ValidatingAdmissionPolicy",
        api="admissionregistration.k8s.io/v1",
        namespace="",
        spec={"paramKind": kind},
    )
    assert "get configmaps" in rights(policy)


def test_an_object_without_a_namespace_gets_that_of_the_bundle_if_its_kind_has_one() -> None:
    spec = {"group": "x.io", "scope": "Namespaced", "names": {"kind": "Sheep", "plural": "sheep"}}
    crd = make("CustomResourceDefinition", "sheep.x.io", "apiextensions.k8s.io/v1", "", spec=spec)
    assert 'get sheep.x.io in namespace "shop"' in rights(crd, make("Sheep", api="x.io/v1", namespace=""))


def test_roles_grant_them_to_the_account() -> None:
    terms = Terms(inputs="", install_namespace="shop")
    revision = Revision(digest="", objects=(make("ConfigMap"), make("Secret"), role()), terms=terms)
    found = find_rights(revision, Resources(revision, shipped()).find)
    made = make_roles(found, name="rukpak-shop", account=("shop", "installer"))
    assert [each["kind"] for each in made] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    verbs = ["create", "delete", "get", "patch"]
    assert made[2] == {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "rukpak-shop", "namespace": "shop"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": verbs}],
    }
    assert made[3]["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": "rukpak-shop"}
    assert made[3]["subjects"] == [{"kind": "ServiceAccount", "namespace": "shop", "name": "installer"}]
    assert "namespace" not in made[0]["metadata"]


def test_plurals_are_guessed_as_kubernetes_does_and_reported() -> None:
    revision = Revision(digest="", objects=(), terms=Terms(inputs="", install_namespace=""))
    resources = Resources(revision, shipped())
    kinds = [("", "v1", "Endpoints"), ("networking.k8s.io", "v1", "NetworkPolicy"), ("x.io", "v1", "Bus")]
    found = [resources.find(GroupVersionKind(*kind)).plural for kind in kinds]
    assert found == ["endpoints", "networkpolicies", "buses"]
    assert resources.guessed == {GroupVersionKind("x.io", "v1", "Bus")}


ACCOUNT = "system:serviceaccount:shop:deployer"


def missing(resource: str, *verbs: str, account: str = ACCOUNT) -> MissingRightsError:
    right = RbacRight(namespace="shop", groups=("",), resources=(resource,), verbs=verbs)
    return MissingRightsError(f"{resource}: may not", account, (right,))


def test_all_rights_of_a_pass_are_in_one_message_in_any_order() -> None:
    errors = [missing("services", "patch"), missing("configmaps", "create"), missing("services", "get"), None]
    listed = list_all(errors, "shop")
    assert listed is not None
    assert listed.reason is Reason.FORBIDDEN
    assert listed.message == (
        f'"{ACCOUNT}" lacks permissions; grant it a Role in namespace "shop" with rules: '
        '[{apiGroups: [""], resources: [configmaps], verbs: [create]}, '
        '{apiGroups: [""], resources: [services], verbs: [get, patch]}]; '
        '"rukpak rights shop" prints those for the whole bundle'
    )
    again = list_all(reversed(errors), "shop")
    assert again is not None
    assert again.message == listed.message


def test_without_missing_rights_nothing_is_listed() -> None:
    assert list_all([None, BundleError(Reason.REFUSED, "no")], "shop") is None


def test_an_apply_needs_create_besides_patch() -> None:
    [right] = for_apply(missing("services", "patch").rights)
    assert right.verbs == ("create", "patch")
    assert for_apply(missing("services", "get").rights) == missing("services", "get").rights


class Described(NamedTuple):
    name: str
    rights: list[RbacRight]
    expect: str


def right(verb: str, resource: str, namespace: str = "", group: str = "", **fields: Any) -> RbacRight:
    return RbacRight(namespace=namespace, groups=(group,), resources=(resource,), verbs=(verb,), **fields)


DESCRIBED = [
    Described(
        "resources of the same verbs share a rule",
        [right(verb, name, "shop") for verb in ("get", "create") for name in ("secrets", "configmaps")],
        'a Role in namespace "shop" with rules: '
        '[{apiGroups: [""], resources: [configmaps, secrets], verbs: [create, get]}]',
    ),
    Described(
        "each namespace, and the cluster, has a role of its own",
        [right("get", "pods", "b"), right("get", "nodes"), right("get", "pods", "a")],
        'a ClusterRole with rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]; '
        'a Role in namespace "a" with rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]; '
        'a Role in namespace "b" with rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]',
    ),
    Described(
        "what YAML would not take for a text is quoted",
        [right("*", "*", group="*", resource_names=("true", "1"))],
        'a ClusterRole with rules: [{apiGroups: ["*"], resources: ["*"], resourceNames: ["true", "1"], verbs: ["*"]}]',
    ),
    Described(
        "paths",
        [RbacRight(paths=("/metrics",), verbs=("get",))],
        'a ClusterRole with rules: [{nonResourceURLs: ["/metrics"], verbs: [get]}]',
    ),
]


def read_yaml(text: str) -> list[dict[str, Any]]:
    [document] = read_documents(text.encode(), "rules.yaml")
    rules: list[dict[str, Any]] = document.value
    return rules


@pytest.mark.parametrize("case", DESCRIBED, ids=attrgetter("name"))
def test_the_roles_that_would_grant(case: Described) -> None:
    assert describe_roles(case.rights) == case.expect
    rules = re.findall(r"rules: (\[.*?\}\])", case.expect)
    assert all(set(rule) >= {"verbs"} for text in rules for rule in read_yaml(text))


def test_what_no_message_can_hold_is_counted() -> None:
    text = describe_roles([right("get", f"resources{index:04}", group=f"group{index}") for index in range(100)])
    assert len(text) < 900
    assert re.search(r"\]; and \d\d more rules$", text)


RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments", "pods/exec"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
    {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
]


def manifest(kind: str, name: str = "a", namespace: str = "shop", group: str = RBAC, **fields: Any) -> dict[str, Any]:
    api_version = f"{group}/v1" if group else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}


def target(value: dict[str, Any]) -> Target:
    key, gvk = key_of(value), GroupVersionKind.of(value)
    return Target(key=key, kind=gvk, digest="d", carries_reference=True, manifest=value)


def one(verb: str, resource: str, namespace: str = "shop", group: str = RBAC, *names: str) -> RbacRight:
    return RbacRight(namespace=namespace, groups=(group,), resources=(resource,), resource_names=names, verbs=(verb,))


def test_objects_of_a_kind_and_namespace_need_the_same_four_rights() -> None:
    items = [(target(manifest("ConfigMap", name, group="")), CONFIG_MAPS) for name in ("a", "b")]
    verbs = ["create", "delete", "get", "patch"]
    assert list(rights_to_apply(items)) == [one(verb, "configmaps", "shop", "") for verb in verbs]


def test_a_role_needs_each_right_in_it_or_the_right_to_escalate() -> None:
    [grant] = grants_in([manifest("Role", rules=RULES), manifest("ConfigMap", group="")], lambda *_: ())
    assert grant.instead == one("escalate", "roles", "shop", RBAC, "a")
    assert set(grant.rights) == {
        *(one(verb, name, "shop", "apps") for verb in ("get", "list") for name in ("deployments", "pods/exec")),
        *(one("get", "secrets", "shop", "", name) for name in ("a", "b")),
        RbacRight(paths=("/metrics",), verbs=("get",)),
    }


MALFORMED = [True, [1], [{"verbs": True, "apiGroups": [""], "resources": ["pods"]}], [{"nonResourceURLs": 1}]]


@pytest.mark.parametrize("rules", MALFORMED, ids=str)
def test_malformed_rules_are_left_for_the_api_server_to_refuse(rules: Any) -> None:
    role, binding = manifest("Role", rules=rules), manifest("RoleBinding", roleRef=["a"])
    assert [grant.rights for grant in grants_in([role, binding], lambda *_: rules)] == [(), ()]


def test_a_role_of_the_cluster_needs_them_everywhere() -> None:
    [grant] = grants_in([manifest("ClusterRole", namespace="", rules=RULES[1:2])], lambda *_: ())
    assert grant.instead == one("escalate", "clusterroles", "", RBAC, "a")
    assert {right.namespace for right in grant.rights} == {""}


def test_a_role_that_the_control_plane_fills_needs_everything_or_the_right_to_escalate() -> None:
    [grant] = grants_in([manifest("ClusterRole", namespace="", aggregationRule={"a": 1})], lambda *_: ())
    assert grant.instead == one("escalate", "clusterroles", "", RBAC, "a")
    assert set(grant.rights) == {one("*", "*", "", "*"), RbacRight(paths=("*",), verbs=("*",))}


def test_a_binding_needs_what_it_binds_where_it_binds_it_or_the_right_to_bind() -> None:
    asked: list[tuple[str, str, str]] = []

    def find(*role: str) -> list[dict[str, Any]]:
        asked.append((role[0], role[1], role[2]))
        return RULES[1:2]

    references = [{"kind": "ClusterRole", "name": "admin"}, {"kind": "Role", "name": "own"}]
    first, second = grants_in([manifest("RoleBinding", roleRef=each) for each in references], find)
    assert asked == [("ClusterRole", "", "admin"), ("Role", "shop", "own")]
    assert (first.instead, second.instead) == (
        one("bind", "clusterroles", "shop", RBAC, "admin"),
        one("bind", "roles", "shop", RBAC, "own"),
    )
    assert {right.namespace for right in first.rights} == {"shop"}


ANYTHING = (RbacRight(groups=("*",), resources=("*",), verbs=("*",)), RbacRight(paths=("*",), verbs=("*",)))
ADMIN = {"kind": "ClusterRole", "name": "cluster-admin"}
TO_BIND = RbacRight(groups=(RBAC,), resources=("clusterroles",), resource_names=("cluster-admin",), verbs=("bind",))
TO_WRITE = RbacRight(groups=(RBAC,), resources=("clusterrolebindings",), verbs=("create", "patch"))
BOUND = manifest("ClusterRoleBinding", "admins", "", roleRef=ADMIN)
FILLED = manifest("ClusterRole", "all", "", aggregationRule={"clusterRoleSelectors": [{}]})
NARROWED: dict[str, tuple[dict[str, Any], tuple[RbacRight, ...], tuple[RbacRight, ...]]] = {
    "to bind a role of somebody else": (BOUND, ANYTHING, (TO_BIND,)),
    "to write the binding": (BOUND, (TO_WRITE,), (TO_WRITE,)),
    "to write a role that is filled": (FILLED, ANYTHING, (one("escalate", "clusterroles", "", RBAC, "all"),)),
    "to write a role": (manifest("ClusterRole", "all", "", rules=[]), ANYTHING, ANYTHING),
    "to write anything else": (manifest("ConfigMap", group=""), ANYTHING, ANYTHING),
}


@pytest.mark.parametrize("name", NARROWED)
def test_of_what_suffices_the_narrow_right_is_asked_for(name: str) -> None:
    item, lacked, asked = NARROWED[name]
    found = narrow(MissingRightsError("a", "bob", lacked), item, ())
    assert isinstance(found, MissingRightsError)
    assert found.rights == asked


def test_a_role_that_the_bundle_brings_takes_its_rights_and_not_one_to_bind_it() -> None:
    error = MissingRightsError("a", "bob", ANYTHING)
    assert narrow(error, BOUND, {ObjectKey(RBAC, "ClusterRole", "", "cluster-admin")}) is error
