"""Whatever a bundle has, what is added to it is seen; order and grouping are not."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.controller.permissions import added, digest_of, find_permissions

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
# "*" is not among them: what a wildcard includes is no addition.
WORDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True)
RULES = st.fixed_dictionaries(
    {"apiGroups": WORDS, "resources": WORDS, "verbs": WORDS}, optional={"resourceNames": WORDS}
)
SUBJECTS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["ServiceAccount", "User", "Group"]), "name": st.sampled_from("ab")}
)
NAMESPACES = st.sampled_from(["shop", "kube-system"])
NEW = "new"
# A loaded machine is slow, and a failure must not depend on luck.
bounded = settings(deadline=None, derandomize=True, database=None)


def _role(kind: str, name: str, namespace: str, rules: list[Object]) -> Object:
    place = {"namespace": namespace} if kind == "Role" else {}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **place}, "rules": rules}


def _binding(kind: str, name: str, namespace: str, to: tuple[str, str], subjects: list[Object]) -> Object:
    place = {"namespace": namespace} if kind == "RoleBinding" else {}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **place},
        "roleRef": {"kind": to[0], "name": to[1]},
        "subjects": subjects,
    }


ROLES = st.builds(
    _role, st.sampled_from(["Role", "ClusterRole"]), st.sampled_from("xy"), NAMESPACES, st.lists(RULES, max_size=3)
)
BINDINGS = st.builds(
    _binding,
    st.sampled_from(["RoleBinding", "ClusterRoleBinding"]),
    st.sampled_from("pq"),
    NAMESPACES,
    st.tuples(st.sampled_from(["Role", "ClusterRole"]), st.sampled_from("xy")),
    st.lists(SUBJECTS, max_size=3),
)


def _workload(name: str, containers: list[Object], pod: Object) -> Object:
    spec = {**pod, "containers": [{"name": f"c{index}", **each} for index, each in enumerate(containers)]}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": spec}}}


CONTAINERS = st.fixed_dictionaries(
    {}, optional={"securityContext": st.fixed_dictionaries({}, optional={"runAsNonRoot": st.booleans()})}
)
PODS = st.fixed_dictionaries({}, optional={"hostNetwork": st.booleans(), "hostPID": st.booleans()})
WORKLOADS = st.builds(_workload, st.sampled_from("vw"), st.lists(CONTAINERS, min_size=1, max_size=2), PODS)


def _identity(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


BUNDLES = st.lists(st.one_of(ROLES, BINDINGS, WORKLOADS), min_size=1, max_size=8, unique_by=_identity)


def _is_seen(before: list[Object], after: list[Object]) -> bool:
    old, new = find_permissions(before, "shop"), find_permissions(after, "shop")
    return bool(added(new, old)) and digest_of(old) != digest_of(new)


@bounded
@given(BUNDLES, st.data())
def test_a_rule_that_is_added_to_any_role_is_seen(bundle: list[Object], data: st.DataObject) -> None:
    roles = [index for index, item in enumerate(bundle) if "rules" in item]
    if roles:
        after = copy.deepcopy(bundle)
        rule = {"apiGroups": [""], "resources": [NEW], "verbs": ["get"]}
        after[data.draw(st.sampled_from(roles))]["rules"].append(rule)
        assert _is_seen(bundle, after)


@bounded
@given(BUNDLES, st.data())
def test_a_word_that_is_added_to_any_rule_is_seen(bundle: list[Object], data: st.DataObject) -> None:
    rules = [(index, place) for index, item in enumerate(bundle) for place in range(len(item.get("rules", ())))]
    if rules:
        index, place = data.draw(st.sampled_from(rules))
        word, after = data.draw(st.sampled_from([NEW, "*"])), copy.deepcopy(bundle)
        after[index]["rules"][place][data.draw(st.sampled_from(["apiGroups", "resources", "verbs"]))].append(word)
        assert _is_seen(bundle, after)


@bounded
@given(BUNDLES, st.data())
def test_a_rule_that_loses_its_names_is_seen(bundle: list[Object], data: st.DataObject) -> None:
    """Unless other rules grant the same without names."""
    for item in bundle:
        for rule in item.get("rules", ()):
            rule["resourceNames"] = rule.get("resourceNames") or ["a"]
    rules = [(index, place) for index, item in enumerate(bundle) for place in range(len(item.get("rules", ())))]
    if rules:
        index, place = data.draw(st.sampled_from(rules))
        after = copy.deepcopy(bundle)
        del after[index]["rules"][place]["resourceNames"]
        assert _is_seen(bundle, after)


@bounded
@given(BUNDLES, st.data())
def test_a_subject_that_is_added_to_any_binding_is_seen(bundle: list[Object], data: st.DataObject) -> None:
    # A role without rules grants nothing to anyone.
    roles = {(item["kind"], item["metadata"]["name"]) for item in bundle if item.get("rules") == []}
    bindings = [
        index
        for index, item in enumerate(bundle)
        if "roleRef" in item and (item["roleRef"]["kind"], item["roleRef"]["name"]) not in roles
    ]
    if bindings:
        after = copy.deepcopy(bundle)
        after[data.draw(st.sampled_from(bindings))]["subjects"].append({"kind": "User", "name": NEW})
        assert _is_seen(bundle, after)


@bounded
@given(BUNDLES, BINDINGS)
def test_a_binding_that_is_added_is_seen(bundle: list[Object], binding: Object) -> None:
    binding = {**binding, "metadata": {**binding["metadata"], "name": NEW}, "roleRef": {"kind": "Role", "name": NEW}}
    binding["subjects"] = [{"kind": "User", "name": NEW}]
    assert _is_seen(bundle, [*bundle, binding])


POD_POWERS: list[Object] = [
    {"hostIPC": True},
    {"securityContext": {"runAsUser": 0}},
    {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    {"serviceAccountName": NEW},
    {"priorityClassName": NEW},
    {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    {"volumes": [{"name": "v", "secret": {"secretName": NEW}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"audience": NEW}}]}}]},
    {"initContainers": [{"name": NEW}]},
]
CONTAINER_POWERS: list[Object] = [
    {"securityContext": {"privileged": True}},
    {"securityContext": {"capabilities": {"add": ["SYS_TIME"]}}},
    {"securityContext": {"procMount": "Unmasked"}},
    {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
    {"ports": [{"containerPort": 80, "hostPort": 80}]},
    {"envFrom": [{"secretRef": {"name": NEW}}]},
    {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]},
]


@bounded
@given(BUNDLES, WORKLOADS, st.data())
def test_a_power_that_is_added_to_any_pod_is_seen(bundle: list[Object], workload: Object, data: st.DataObject) -> None:
    others = [item for item in bundle if _identity(item) != _identity(workload)]
    after = copy.deepcopy(workload)
    spec = after["spec"]["template"]["spec"]
    if data.draw(st.booleans()):
        spec.update(data.draw(st.sampled_from(POD_POWERS)))
    else:
        data.draw(st.sampled_from(spec["containers"])).update(data.draw(st.sampled_from(CONTAINER_POWERS)))
    assert _is_seen([*others, workload], [*others, after])


@bounded
@given(BUNDLES, st.randoms(use_true_random=False))
def test_order_is_not_seen(bundle: list[Object], random: Any) -> None:
    shuffled = json.loads(json.dumps(bundle, sort_keys=True))
    random.shuffle(shuffled)
    for item in shuffled:
        for words in [item.get("rules"), *(next(iter(rule.values())) for rule in item.get("rules", ()))]:
            random.shuffle(words or [])
    assert find_permissions(bundle, "shop") == find_permissions(shuffled, "shop")


def _split(rule: Object) -> list[Object]:
    return [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


@bounded
@given(BUNDLES)
def test_how_rights_are_grouped_into_rules_is_not_seen(bundle: list[Object]) -> None:
    split = [
        {**item, "rules": [part for rule in item["rules"] for part in _split(rule)]} if "rules" in item else item
        for item in bundle
    ]
    assert find_permissions(bundle, "shop") == find_permissions(split, "shop")


@bounded
@given(BUNDLES)
def test_a_bundle_adds_nothing_to_itself(bundle: list[Object]) -> None:
    found = find_permissions(bundle, "shop")
    assert not added(found, found)


@bounded
@given(BUNDLES, st.data())
def test_what_is_removed_is_no_addition(bundle: list[Object], data: st.DataObject) -> None:
    """Of rules: without a binding, its role counts as open to others, and without a CRD, its kind is another's."""
    after = copy.deepcopy(bundle)
    roles = [item for item in after if item.get("rules")]
    if roles:
        data.draw(st.sampled_from(roles))["rules"].pop()
    assert not added(find_permissions(after, "shop"), find_permissions(bundle, "shop"))
