"""What an account has to hold to apply objects, and to grant what they grant."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apply.rights import RbacRight, grants_in, rights_to_apply
from controller.apply.targets import Target
from controller.kube.resources import RBAC, GroupVersionKind
from controller.observe.records import key_of
from tests.support.fake_cluster import CONFIG_MAPS

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
