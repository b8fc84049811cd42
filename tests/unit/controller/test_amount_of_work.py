"""What tenants, and those who write to the cluster, may make as long as they like costs time in proportion, or ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.crd_changes import compare, read_definition
from rukpak.controller.apply.crd_upgrade import admit, validate
from rukpak.controller.apply.drift import equal_by_value, explain, find_ignored_fields, find_uncovered, only, without
from rukpak.controller.apply.managed_fields import claimed_fields, claimed_items, left_fields, moved_items
from rukpak.controller.apply.order import plan_teardown
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.apply.replies import classify
from rukpak.controller.apply.rights import MOST_RIGHTS, grants_in, parse_escalation
from rukpak.controller.content.limits import Rejection
from rukpak.controller.formats.composer import hide_colons
from rukpak.controller.formats.helm import chart as ignore
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.formats.registry_v1.config import check_additions
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.observe.deployments import find_cycle
from rukpak.controller.observe.health.rules import assess
from rukpak.controller.observe.health.verdict import MOST_CONDITIONS, TEXT_CHARACTERS, Context, read_conditions
from rukpak.controller.observe.records import Record, key_of, project
from rukpak.controller.permissions import find_permissions
from rukpak.controller.processors.patch import PatchProcessor
from rukpak.controller.processors.rollouts import RolloutsProcessor
from rukpak.controller.sharing import Turns
from rukpak.controller.untrusted import TooManyStepsError
from rukpak.controller.views.comparison import Change, Comparison, Difference, write
from rukpak.controller.views.dry_run import overlay
from tests.support.rendered import processed

Manifest = dict[str, Any]
Work = Callable[[], object]
RBAC, WEBHOOKS = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
MANAGER, OWNER = names.field_manager("web"), Owner("web", "o")


def make(kind: str = "ConfigMap", api: str = "v1", **fields: Any) -> Manifest:
    metadata = {"name": "a", "namespace": "shop", **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def entry(manager: str, fields: Manifest, operation: str = "Apply") -> Manifest:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields}


def live(*entries: Manifest, **fields: Any) -> Manifest:
    return make(metadata={"managedFields": list(entries), "labels": {names.OWNER_LABEL: "web"}}, **fields)


def keyed(count: int, field: str = "ports", first: int = 0) -> Manifest:
    items: Manifest = {f'k:{{"name":"p{i + first}"}}': {".": {}, "f:name": {}, "f:x": {}} for i in range(count)}
    return {"f:spec": {f"f:{field}": items}}


def named(count: int, field: str = "ports", letter: str = "p") -> Manifest:
    """Return an object with a list in the other order."""
    return make(spec={field: [{"name": f"{letter}{i}", "x": 1} for i in reversed(range(count))]})


def data(count: int) -> Manifest:
    return {f"k{i}": "x" for i in range(count)}


def ignored_fields(count: int) -> Work:
    annotation = ",".join(f"data.k{i}" for i in range(count))
    manifest = make(data=data(count), metadata={"annotations": {names.IGNORE_FIELDS: annotation}})

    def work() -> None:
        paths = find_ignored_fields(manifest, {}, {}).paths
        assert len(paths) == count
        assert only(manifest, paths)["data"].keys().isdisjoint(without(manifest, paths).get("data", {}))

    return work


def commas(count: int) -> Work:
    manifest = make(metadata={"annotations": {names.IGNORE_FIELDS: "," * count}})
    return lambda: find_ignored_fields(manifest, {}, {})


def items_that_an_entry_claims(count: int) -> Work:
    return lambda: list(find_uncovered(keyed(count), named(count)))


def members_that_an_entry_claims(count: int) -> Work:
    fields: Manifest = {"f:metadata": {"f:finalizers": {f'v:"a{i}"': {} for i in range(count)}}}
    body = make(metadata={"finalizers": [f"a{i}" for i in reversed(range(count))]})
    return lambda: list(find_uncovered(fields, body))


def lists_that_are_equal(count: int) -> Work:
    ours = named(count, "containers")
    there = make(spec={"containers": ours["spec"]["containers"][::-1]})
    return lambda: equal_by_value(ours, there)


def sets_that_are_equal(count: int) -> Work:
    members = [f"a{i}" for i in range(count)]
    ours, there = (make(metadata={"finalizers": each}) for each in (members, members[::-1]))
    return lambda: equal_by_value(ours, there)


def items_that_were_renamed(count: int) -> Work:
    found = live(entry(MANAGER, keyed(count)), entry("edit", keyed(count, first=count), "Update"))
    return lambda: moved_items(found, named(2 * count), MANAGER)


def items_that_replaced_ours(count: int) -> Work:
    found = live(spec=named(count, "containers")["spec"])
    return lambda: claimed_items(found, named(count, "containers", "q"), MANAGER)


def fields_that_a_webhook_refuses(count: int) -> Work:
    found = live(entry(MANAGER, keyed(count)), entry("edit", keyed(count), "Update"), spec=named(count)["spec"])
    fields = [f"spec.ports[{i}].x" for i in range(count)]
    return lambda: claimed_fields(found, named(count), MANAGER, fields)


def fields_that_are_left(count: int) -> Work:
    found = live(entry(MANAGER, {"f:data": {f"f:k{i}": {} for i in range(count)}}))
    return lambda: left_fields(found, [("data", f"k{i}") for i in range(count)], "web")


def managers_of_a_modified_object(count: int) -> Work:
    found = live(*(entry(f"m{i}", {"f:data": {}}) for i in range(count)))
    return lambda: explain(key_of(found), found, make(data=data(count)), MANAGER)


def an_apply_computed_here(count: int) -> Work:
    found = live(entry(MANAGER, keyed(count, "containers")), spec=named(count, "containers")["spec"])
    body = make(spec={"containers": found["spec"]["containers"][::-1]})
    return lambda: overlay(found, body, MANAGER)


def objects_to_delete(count: int) -> Work:
    keys = [ObjectKey("", "ConfigMap", "shop", f"a{i}") for i in range(count)]
    records = {key: Record(key=key, owner="web", owner_uid="o", controller_uid="o") for key in keys}
    return lambda: plan_teardown(records, OWNER)


def dependencies(count: int) -> Work:
    names_ = [f"a{i}" for i in range(count)]
    depends_on = {name: names_[i + 1 : i + 33] for i, name in enumerate(names_)}
    return lambda: find_cycle(depends_on, "a0")


def versions_of_a_definition(count: int) -> Work:
    def version(number: int) -> Manifest:
        fields = {f"a{i}": {"type": "string", "description": str(number)} for i in range(5)}
        schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
        return {"name": f"v{number}", "served": True, "storage": False, "schema": schema}

    spec = {
        "group": "g",
        "scope": "Namespaced",
        "names": {"kind": "K", "plural": "ks"},
        "versions": [version(number) for number in range(count)],
    }
    definition = make("CustomResourceDefinition", "apiextensions.k8s.io/v1", spec=spec)
    return lambda: compare(read_definition(definition), read_definition(definition))


def mounts_of_volumes(count: int) -> Work:
    volumes = [{"name": f"v{i}", "hostPath": {"path": "/a"}} for i in range(count)]
    containers = [{"name": "a", "volumeMounts": [{"name": "x"} for _ in range(count)]}]
    pod = make("Pod", spec={"volumes": volumes, "containers": containers})
    return lambda: find_permissions([pod], "shop")


def names_in_many_statements(count: int) -> Work:
    rule = {"apiGroups": ["a" * 50 * count], "resources": [f"r{i}" for i in range(count)], "verbs": ["get"]}
    return lambda: find_permissions([make("ClusterRole", RBAC, rules=[rule])], "shop")


def selectors_in_many_statements(count: int) -> Work:
    rules = [
        {"operations": ["A"], "apiGroups": [f"g{i}"], "apiVersions": ["*"], "resources": ["a"]} for i in range(count)
    ]
    webhook = {"name": "a", "namespaceSelector": {"matchLabels": data(count)}, "rules": rules}
    configuration = make("MutatingWebhookConfiguration", WEBHOOKS, webhooks=[webhook])
    return lambda: find_permissions([configuration], "shop")


def selectors_of_aggregated_roles(count: int) -> Work:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": [f"v{i}" for i in range(20)]}]}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": []} for _ in range(20)]
    roles = [
        make("ClusterRole", RBAC, metadata={"name": f"r{i}", "labels": {"a": "v1"}}, rules=rules)
        | {"aggregationRule": {"clusterRoleSelectors": [selector]}}
        for i in range(count)
    ]
    return lambda: find_permissions(roles, "shop")


def actions_with_a_long_resource(count: int) -> Work:
    provider = {"resource": "x" * 50 * count, "action": [f"a{i}" for i in range(count)]}
    request = make("CredentialsRequest", "cloudcredential.openshift.io/v1", spec={"providerSpec": provider})
    return lambda: find_permissions([request], "shop")


def colons_in_flows(count: int) -> Work:
    # All characters that could mark one are used.
    text = b"a: [b:, c]\n" * count + b"".join(f"{c:x} ".encode() for c in range(0xE000, 0xF900))
    return lambda: hide_colons(text)


def keys_that_a_patch_retains(count: int) -> Work:
    change = {"target": {"kind": "Pod"}, "strategic": {"$retainKeys": [f"q{i}" for i in range(count)]}}
    return lambda: processed(PatchProcessor(), change, make("Pod", **data(count)))


def references_to_config(count: int) -> Work:
    """Pods that read every ConfigMap of the bundle."""
    sources = [{"configMapRef": {"name": f"c{i}"}} for i in range(count)]
    template = {"spec": {"containers": [{"name": "a", "envFrom": sources}]}}
    workloads = [make("Deployment", "apps/v1", spec={"template": template}) for _ in range(4)]
    config = [make(metadata={"name": f"c{i}"}, data={"a": "b"}) for i in range(count)]
    return lambda: processed(RolloutsProcessor(), {}, *workloads, *config)


def words_of_a_condition(count: int) -> Work:
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "A", "message": ", used: " * count + "\n"}
    status = {"observedGeneration": 1, "conditions": [condition]}
    replicas = make("ReplicaSet", "apps/v1", spec={"replicas": 1}, status=status)
    return lambda: assess(replicas, Context())


def rights_in_a_refusal(count: int) -> Work:
    rules = '{APIGroups:["a"], Verbs:["get"' * count
    message = f'user "a" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{rules}'
    return lambda: parse_escalation(message, "shop")


def turns_of_tenants(count: int) -> Work:
    def work() -> None:
        turns: Turns[str] = Turns(1)
        for i in range(count):
            turns.add(f"a{i}", f"a{i}")
        while item := turns.begin():
            turns.end(item, seconds=1.0 if item == "a0" else 0.001)

    return work


GROWING: dict[Callable[[int], Work], int] = {
    ignored_fields: 500,
    commas: 5000,
    items_that_an_entry_claims: 500,
    members_that_an_entry_claims: 500,
    lists_that_are_equal: 500,
    sets_that_are_equal: 500,
    items_that_were_renamed: 200,
    items_that_replaced_ours: 200,
    fields_that_a_webhook_refuses: 200,
    fields_that_are_left: 500,
    managers_of_a_modified_object: 200,
    an_apply_computed_here: 500,
    objects_to_delete: 1000,
    dependencies: 500,
    versions_of_a_definition: 100,
    mounts_of_volumes: 500,
    names_in_many_statements: 500,
    selectors_in_many_statements: 500,
    selectors_of_aggregated_roles: 100,
    actions_with_a_long_resource: 500,
    colons_in_flows: 20_000,
    keys_that_a_patch_retains: 2000,
    references_to_config: 500,
    words_of_a_condition: 2000,
    rights_in_a_refusal: 2000,
    turns_of_tenants: 2000,
}


def cost(work: Work) -> float:
    """Seconds of processor time."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def check_growth(few: Work, much: Work, free: float = 0.05) -> None:
    """Fail if four times as much takes much more than four times as long; below `free` seconds anything is fine."""
    least = [math.inf, math.inf]
    for _ in range(3):  # others use this machine, too
        least = [min(before, cost(work)) for before, work in zip(least, (few, much), strict=True)]
        if least[1] < free or least[1] / least[0] < 9:
            return
    pytest.fail(f"{least[0]:.3f} s, and {least[1]:.3f} s for four times as much")


@pytest.mark.parametrize("make_work", GROWING, ids=lambda make_work: make_work.__name__)
def test_work_is_linear_in_the_number_of(make_work: Callable[[int], Work]) -> None:
    check_growth(make_work(GROWING[make_work]), make_work(4 * GROWING[make_work]))


MESSAGES = (
    'admission webhook "',
    'failed calling webhook "',
    "failed to create typed patch object (",
    "failed to convert new object ",
    '"a" not found ',
    'service "',
    ".a: field not declared in schema\n",
    "ResourceExhausted ",
    'x "" is forbidden: ',
    "{Verbs:[",
    "[a=b]",
    "[",
    'Invalid value: "',
)


@pytest.mark.parametrize("word", MESSAGES)
def test_the_text_of_a_reply_is_read_in_linear_time(word: str) -> None:
    def work(count: int) -> Work:
        text = word * (count // len(word))
        cause = {"field": text, "reason": "FieldValueInvalid", "message": text}
        errors = [ApiError(code, "Invalid", text, details={"causes": [cause]}) for code in (403, 404, 422, 500)]
        key = ObjectKey("", "ConfigMap", "shop", "a")
        return lambda: [(classify(each, key, install_namespace="shop"), each.transient) for each in errors]

    check_growth(work(100_000), work(400_000))


def test_a_role_that_combines_billions_of_rights_is_not_listed_as_a_whole() -> None:
    words = [f"w{i}" for i in range(2000)]
    role = make("ClusterRole", RBAC, rules=[{"apiGroups": words, "resources": words, "verbs": words}])
    (grant,) = grants_in([role], lambda *_: ())
    assert len(grant.rights) == MOST_RIGHTS
    assert len(find_permissions([role], "shop")) < MOST_RIGHTS


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ({"type": "integer", "enum": list(range(2000))}, 1999),
        ({"anyOf": [{"maxLength": 0} for _ in range(2000)]}, "xx"),
        ({"type": "object", "required": [f"k{i}" for i in range(2000)]}, {}),
    ],
    ids=["enum", "anyOf", "required"],
)
def test_validating_all_values_with_all_words_of_a_schema_ends(words: Manifest, value: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": words}}}
    with pytest.raises(TooManyStepsError):
        list(validate({"a": [value] * 2000}, schema))


def test_filling_all_values_with_all_defaults_of_a_schema_ends() -> None:
    items = {"type": "object", "properties": {f"k{i}": {"type": "string", "default": "x"} for i in range(2000)}}
    with pytest.raises(TooManyStepsError):
        admit({"a": [{}] * 2000}, {"type": "object", "properties": {"a": {"type": "array", "items": items}}})


def test_helmignore_is_refused_if_its_rules_are_too_many_for_the_files_of_the_chart() -> None:
    rules = ignore.read_rules(b"\n".join(b"*a%d*b*" % i for i in range(900)))
    assert rules is not None
    with pytest.raises(Rejection, match="900 rules, too many for that many files"):
        [rules(f"templates/a{i}", False) for i in range(10_000)]
    with pytest.raises(Rejection, match="more than 1000 lines"):
        ignore.read_rules(b"a\n" * 1001)


def test_configuration_is_refused_if_it_adds_too_much_to_too_many_containers() -> None:
    deployment = make("Deployment", "apps/v1", spec={"template": {"spec": {"containers": [{}] * 1000}}})
    check_additions(deployment, {"env": [{"name": "a"}] * 100})
    with pytest.raises(BundleError, match="adds 101,000 items to the 1,000 containers") as refused:
        check_additions(deployment, {"env": [{"name": "a"}] * 101})
    assert refused.value.reason is Reason.RENDER_LIMIT_EXCEEDED


def test_of_conditions_the_first_thousand_and_the_beginning_of_texts_are_read() -> None:
    conditions = [{"type": f"T{i}", "status": "True", "message": "x" * 10_000} for i in range(10_000)]
    current, _ = read_conditions(conditions, 1)
    assert len(current) == MOST_CONDITIONS
    assert {len(each.message) for each in current.values()} == {TEXT_CHARACTERS}


def test_little_of_a_large_object_is_kept() -> None:
    metadata = {
        "uid": "u" * 100_000,
        "finalizers": [f"f{i}" for i in range(1000)],
        "annotations": {names.OWNER_UID: "o" * 100_000, names.RELEASED_FROM: "r" * 100_000},
        "managedFields": [entry(names.field_manager(f"m{i}"), {}) for i in range(1000)],
    }
    record = project(make(metadata=metadata), "", "ConfigMap")
    texts = (record.uid, *record.finalizers, record.owner_uid, record.released_from, *record.co_managers)
    assert sum(map(len, texts)) < 5000


def test_long_texts_are_compared_line_by_line_only_where_both_have_others() -> None:
    def lines(count: int, every: int) -> Manifest:
        return make(data={f"k{i}": "y" if i % every == 0 else "x" for i in range(count)})

    def work(count: int) -> Work:
        before, after = lines(count, count + 1), lines(count, 7)
        change = Difference(key=key_of(before), api_version="v1", change=Change.CHANGED, before=before, after=after)
        comparison = Comparison(name="a", revision="b", against="c", objects=[change])
        return lambda: list(write(comparison, b"key", colors=False))

    check_growth(work(2000), work(8000), free=0.0)
