"""Rights that are missing: listed all at once, so that nobody grants them one by one."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.rights import MissingRightsError, RbacRight, describe_roles, for_apply, list_all
from controller.formats.manifests import read_documents

ACCOUNT = "system:serviceaccount:shop:deployer"


def missing(resource: str, *verbs: str, account: str = ACCOUNT) -> MissingRightsError:
    right = RbacRight(namespace="shop", groups=("",), resources=(resource,), verbs=verbs)
    return MissingRightsError(f"{resource}: may not", account, (right,))


def test_all_rights_of_a_pass_are_in_one_message_in_any_order() -> None:
    errors = [missing("services", "patch"), missing("configmaps", "create"), missing("services", "get"), None]
    listed = list_all(errors)
    assert listed is not None
    assert listed.reason is Reason.FORBIDDEN
    assert listed.message == (
        f'"{ACCOUNT}" lacks permissions; grant it a Role in namespace "shop" with rules: '
        '[{apiGroups: [""], resources: [configmaps], verbs: [create]}, '
        '{apiGroups: [""], resources: [services], verbs: [get, patch]}]; '
        '"rukpak rights" prints those for the whole bundle'
    )
    again = list_all(reversed(errors))
    assert again is not None
    assert again.message == listed.message


def test_without_missing_rights_nothing_is_listed() -> None:
    assert list_all([None, BundleError(Reason.REFUSED, "no")]) is None


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
