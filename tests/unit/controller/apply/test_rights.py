"""What an account needs to install a bundle, and the roles that grant it."""

from __future__ import annotations

from typing import Any

from api import names
from controller.apply.rights import find_rights, make_roles
from controller.build.capabilities import shipped
from controller.build.revision import Revision, Terms
from controller.cli.permissions import Resources
from controller.kube.resources import GroupVersionKind

RBAC = "rbac.authorization.k8s.io"
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
