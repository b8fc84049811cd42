from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.replies import (
    DATABASE_FULL_SECONDS,
    ApplyFailure,
    Contest,
    Recovery,
    classify,
)
from rukpak.controller.apply.rights import RbacRight, describe_rights
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.errors import STATUS_CHARACTERS, USER_CHARACTERS, ApiError, reply_error, unanswered

PLANTED = "s3cr3t-planted"
CONFIG_MAP = ObjectKey("", "ConfigMap", "shop", "a")
SECRET = ObjectKey("", "Secret", "shop", "a")
DEPLOYMENT = ObjectKey("apps", "Deployment", "shop", "web")
CUSTOM = ObjectKey("example.com", "Cache", "shop", "a")
BINDING = ObjectKey("rbac.authorization.k8s.io", "ClusterRoleBinding", "", "a")
ROLE = ObjectKey("rbac.authorization.k8s.io", "Role", "shop", "a")


def _status(code: int, message: str, reason: str = "", causes: list[dict[str, str]] | None = None) -> ApiError:
    body = {"kind": "Status", "code": code, "message": message, "reason": reason, "details": {"causes": causes or []}}
    return reply_error(code, {}, json.dumps(body).encode())


def _invalid(*causes: tuple[str, str, str]) -> ApiError:
    """Return a 422 as the server makes it: type, field and text of each cause, the message quoting them all."""
    listed = [{"reason": f"FieldValue{kind}", "field": field, "message": text} for kind, field, text in causes]
    message = ", ".join(f"{field}: {text}" for _, field, text in causes)
    return _status(422, f'X "a" is invalid: {message}', "Invalid", listed)


def _classify(error: ApiError, key: ObjectKey = CONFIG_MAP) -> ApplyFailure:
    return classify(error, key, install_namespace="shop")


def _said(failure: ApplyFailure) -> str:
    """Return the message without the object that every one begins with."""
    return failure.message.partition(": ")[2]


class Case(NamedTuple):
    name: str
    error: ApiError
    reason: Reason
    said: str
    key: ObjectKey = CONFIG_MAP
    recovery: Recovery = Recovery.NONE


NOT_TYPED = "failed to create typed patch object (shop/a; apps/v1, Kind=Deployment): "
NOT_CONVERTED = (
    "failed to convert new object (shop/a; /v1, Kind=Secret) to proper version: "
    "unable to convert unstructured object to /v1, Kind=Secret: "
)
WEBHOOK = 'Internal error occurred: failed calling webhook "no.example.com": failed to call webhook: '
DIFFERENCE = f'\n@@ -1,6 +1,6 @@\n-     "Value": "x",\n+     "Value": "{PLANTED}",\n'
VAP = "ValidatingAdmissionPolicy 'no' with binding 'b' denied request: "

# fmt: off
DENIALS = [
    Case(f"a webhook may say no with {code}",
         _status(code, 'admission webhook "no.example.com" denied the request: Not this.\n  or that', "Whatever"),
         Reason.REFUSED, 'admission webhook "no.example.com" denied the request: not this. or that')
    for code in (400, 403, 404, 409, 422, 429, 500, 503)
] + [
    Case("a webhook may say no without a word",
         _status(400, 'admission webhook "no.example.com" denied the request without explanation'), Reason.REFUSED,
         'admission webhook "no.example.com" denied the request'),
    Case("what a webhook says about a Secret is not shown",
         _status(403, f'admission webhook "no.example.com" denied the request: {PLANTED}'), Reason.REFUSED,
         'admission webhook "no.example.com" denied the request', SECRET),
    Case("a policy of the cluster",
         _status(422, f'configmaps "a" is forbidden: {VAP}No latest tags', "Invalid",
         [{"message": f"{VAP}No latest tags"}]), Reason.REFUSED,
         'admission policy "no" denied the request: no latest tags'),
    Case("a policy that says Forbidden is no matter of rights",
         _status(403, f'configmaps "a" is forbidden: {VAP}no', "Forbidden"), Reason.REFUSED,
         'admission policy "no" denied the request: no'),
]
# fmt: on

# fmt: off
SERVER_ERRORS = [
    Case("an unknown field",
         _status(500, f'{NOT_TYPED}.spec.containers[name="c"].imagee: field not declared in schema'), Reason.REFUSED,
         'spec.containers[name="c"].imagee: field not declared in schema'),
    Case("a wrong type, what was there instead is not shown",
         _status(500, f"{NOT_TYPED}.spec.args: expected list, got &{{{PLANTED}}}"), Reason.REFUSED,
         "spec.args: expected list"),
    Case("several fields, each once",
         _status(500,
         f"{NOT_TYPED}errors:\n  .data.a: expected string, got 5\n  .data.b: field not declared in schema"),
         Reason.REFUSED, "data.a: expected string; data.b: field not declared in schema"),
    Case("a number for a text",
         _status(500, f"{NOT_TYPED}.data.a: expected string, got &value.valueUnstructured{{Value:5}}"), Reason.REFUSED,
         "data.a: expected string, got a number; quote it"),
    Case("a boolean for a text",
         _status(500, f"{NOT_TYPED}.data.a: expected string, got &value.valueUnstructured{{Value:true}}"),
         Reason.REFUSED, "data.a: expected string, got a boolean; "
         "quote it: YAML reads y, n, yes, no, on, off, true and false as booleans"),
    Case("a duplicate key", _status(500, f'{NOT_TYPED}.spec.env: duplicate entries for key [name="A"]'), Reason.REFUSED,
         'spec.env: duplicate entries for key [name="A"]'),
    Case("a duplicate member of a set, which is not shown",
         _status(500, f'{NOT_TYPED}.metadata.finalizers: duplicate entries for key [="{PLANTED}"]'), Reason.REFUSED,
         "metadata.finalizers: duplicate entries for key"),
    Case("a schema error that is not known, which is not shown", _status(500, f"{NOT_TYPED}{PLANTED}"), Reason.REFUSED,
         "does not match the schema of its kind"),
    Case("data that is not base64",
         _status(500, f"{NOT_CONVERTED}error decoding from json: illegal base64 data at input byte 6"), Reason.REFUSED,
         "a value cannot be decoded: illegal base64 data at input byte 6"),
    Case("a time that is none, which is not shown",
         _status(500, f'{NOT_CONVERTED}parsing time "{PLANTED}" as "2006": cannot parse "{PLANTED}\\"x" as "2006"'),
         Reason.REFUSED, "a value cannot be decoded: parsing time (…) as (…): cannot parse (…) as (…)"),
    Case("another manager's entry of an older version", _status(500, ".spec.x: field not declared in schema"),
         Reason.REFUSED,
         "a managedFields entry has an API version that lacks a field; have its manager write the object again",
         recovery=Recovery.MIGRATE_ENTRIES),
    Case("larger than etcd takes", _status(500, "etcdserver: request is too large"), Reason.TOO_LARGE,
         "too large for the API server; split it"),
    Case("larger than the API server sends to etcd",
         _status(500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)"),
         Reason.TOO_LARGE, "too large for the API server; split it"),
    Case("larger than any request", _status(413, "Request entity too large: limit is 3145728", "RequestEntityTooLarge"),
         Reason.TOO_LARGE, "too large for the API server; split it"),
    Case("a full database", _status(500, "etcdserver: mvcc: database space exceeded"), Reason.API_UNAVAILABLE,
         "the database of the API server is full; compact and defragment etcd, and disarm its alarm"),
    Case(
        "an admission webhook that is not up, without its address",
        _status(
            500, f'{WEBHOOK}Post "https://x:81/y": dial tcp 10.0.0.7:4711: connect: connection refused', "InternalError"
        ),
        Reason.WEBHOOK_UNAVAILABLE,
        'admission webhook "no.example.com" could not be called: connection refused; check the workload that serves it',
    ),
    Case(
        "an admission webhook without a service",
        _status(500, f'{WEBHOOK}Post "https://x": service "hook" not found', "InternalError"),
        Reason.WEBHOOK_UNAVAILABLE,
        'admission webhook "no.example.com" could not be called: service "hook" not found; '
        "check the workload that serves it",
    ),
    Case("a conversion webhook that is not up",
         _status(500, 'conversion webhook for example.com/v2, Kind=Cache failed: Post "https://x": EOF'),
         Reason.WEBHOOK_UNAVAILABLE,
         "the conversion webhook of Cache (example.com/v2) could not be called: EOF; check the workload that "
         "serves it"),
    Case("another internal error, of which nothing is shown",
         _status(500, f"Internal error occurred: {PLANTED}", "InternalError"), Reason.API_UNAVAILABLE,
         "the API server answered 500 InternalError"),
    Case("a gateway's error", reply_error(502, {}, b"<html>"), Reason.API_UNAVAILABLE, "the API server answered 502"),
    Case("no server behind it", reply_error(503, {}, b"no"), Reason.API_UNAVAILABLE, "the API server answered 503"),
    Case("a timeout", _status(504, "Timeout", "Timeout"), Reason.API_UNAVAILABLE,
         "the API server answered 504 Timeout"),
    Case("too many requests", reply_error(429, {}, b"no"), Reason.API_UNAVAILABLE, "the API server answered 429"),
    Case("no answer", unanswered(OSError("127.0.0.1:81")), Reason.API_UNAVAILABLE, "the API server did not answer"),
]
# fmt: on

DENIED = 'x "a" is forbidden: User "system:serviceaccount:shop:bob" cannot '
ESCALATION = (
    'roles "a" is forbidden: user "bob" (groups=["x"]) is attempting to grant RBAC permissions not currently held:\n'
    '{APIGroups:["apps"], Resources:["deployments"], Verbs:["list"]}\n'
    '{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}\n'
    '{APIGroups:[""], Resources:["secrets"], ResourceNames:["x"], Verbs:["get" "list"]}\n'
    '{NonResourceURLs:["/metrics"], Verbs:["get"]}; resolution errors: [roles "y" not found]'
)
EVERYTHING = '\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'
TERMINATING = {"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}

# fmt: off
FORBIDDEN = [
    Case("a right in a namespace",
         _status(403, f'{DENIED}patch resource "configmaps" in API group "" in the namespace "shop"', "Forbidden"),
         Reason.FORBIDDEN,
         '"system:serviceaccount:shop:bob" may not patch configmaps in namespace "shop"; grant it this permission'),
    Case("a right at the cluster scope",
         _status(403, f'{DENIED}create resource "classes" in API group "example.com" at the cluster scope: RBAC: x',
         "Forbidden"), Reason.FORBIDDEN,
         '"system:serviceaccount:shop:bob" may not create classes.example.com; grant it this permission'),
    Case("a path", _status(403, 'forbidden: User "bob" cannot get path "/apis"', "Forbidden"), Reason.FORBIDDEN,
         '"bob" may not get /apis; grant it this permission'),
    Case(
        "rights that it grants and lacks, all of them",
        _status(403, ESCALATION, "Forbidden"),
        Reason.FORBIDDEN,
        '"bob" may not grant permissions that it lacks: get /metrics in namespace "shop"; '
        'get,list secrets "x" in namespace "shop"; get,list deployments.apps in namespace "shop"; '
        "grant them to it first",
        ROLE,
    ),
    Case("rights that a binding grants", _status(403, ESCALATION.partition("\n{")[0] + EVERYTHING, "Forbidden"),
         Reason.FORBIDDEN, '"bob" may not grant permissions that it lacks: * *.*; grant it bind on that role', BINDING),
    Case("an owner reference",
         _status(403, 'configmaps "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to',
         "Forbidden"), Reason.FORBIDDEN, "the account may not set owner references; grant it update on finalizers"),
    Case("a proxy's no", reply_error(403, {}, b"no"), Reason.FORBIDDEN,
         "the request is forbidden; check the permissions of the account"),
    Case("a namespace that is going",
         _status(403, 'configmaps "a" is forbidden: unable to create new content', "Forbidden", [TERMINATING]),
         Reason.NAMESPACE_TERMINATING, 'namespace "shop" is being deleted'),
    Case("a definition that is going",
         _status(403, 'x "a" is forbidden: create not allowed while custom resource definition is terminating',
         "Forbidden"), Reason.WAITING_FOR_CRD, "the CustomResourceDefinition of its kind is being deleted"),
    Case("a server that is starting", _status(403, 'x "a" is forbidden: not yet ready to handle request', "Forbidden"),
         Reason.API_UNAVAILABLE, "the API server is not ready yet"),
    Case("a quota, without what is in use",
         _status(403, 'x "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=7, limited: pods=7',
         "Forbidden"), Reason.REFUSED,
         "exceeded quota: q, requested: pods=1, limited: pods=7; raise the quota, or delete what it counts"),
    Case("PodSecurity",
         _status(403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged (x)', "Forbidden"),
         Reason.REFUSED, 'violates PodSecurity "restricted:latest": privileged (x)'),
]
# fmt: on

# fmt: off
OTHERS = [
    Case("a namespace that is missing", _status(404, 'namespaces "other" not found', "NotFound"),
         Reason.NAMESPACE_NOT_FOUND, 'namespace "other" does not exist; create it, or add it to the bundle'),
    Case("the install namespace, which can be made", _status(404, 'namespaces "shop" not found', "NotFound"),
         Reason.NAMESPACE_NOT_FOUND, 'namespace "shop" does not exist; create it, or add it to the bundle',
         recovery=Recovery.CREATE_NAMESPACE),
    Case("a kind that is not served", reply_error(404, {}, b"404 page not found\n"), Reason.KIND_NOT_SERVED,
         "the cluster does not serve its kind; install its API", recovery=Recovery.REFRESH_DISCOVERY),
    Case("the same, said by an aggregated API",
         _status(404, "the server could not find the requested resource", "NotFound"), Reason.KIND_NOT_SERVED,
         "the cluster does not serve its kind; install its API", recovery=Recovery.REFRESH_DISCOVERY),
    Case("a role that a binding refers to", _status(404, 'roles.rbac.authorization.k8s.io "x" not found', "NotFound"),
         Reason.REFUSED, 'refers to roles.rbac.authorization.k8s.io "x" that does not exist; create it'),
    Case("a UID or resourceVersion that is not the one any more",
         _status(409, f'Operation cannot be fulfilled on configmaps "a": {PLANTED}', "Conflict"),
         Reason.API_UNAVAILABLE, "modified during the request; will be retried", recovery=Recovery.JUDGE_AGAIN),
    Case("fields that others hold",
         _status(409, "Apply failed", "Conflict", [{"reason": "FieldManagerConflict", "field": f} for f in (".b", ".a",
         ".b")]), Reason.COLLISION, "already exists, and other field managers own a; b; delete it",
         recovery=Recovery.JUDGE_AGAIN),
    Case("credentials that do not count", _status(401, "Unauthorized", "Unauthorized"), Reason.API_UNAVAILABLE,
         "the API server rejected the credentials of the controller"),
    Case("a bad request", _status(400, PLANTED, "BadRequest"), Reason.REFUSED,
         "the API server answered 400 BadRequest"),
]
# fmt: on

# fmt: off
INVALID = [
    Case("a required field", _invalid(("Required", "spec.image", "Required value")), Reason.REFUSED,
         "spec.image: required value"),
    Case("a number",
         _invalid(("Invalid", "spec.port", "Invalid value: 99999999: must be between 1 and 65535, inclusive")),
         Reason.REFUSED, "spec.port: must be between 1 and 65535, inclusive"),
    Case("a text with quotes and colons in it",
         _invalid(("Invalid", "spec.a", f'Invalid value: "a\\": {PLANTED}": is odd')), Reason.REFUSED,
         "spec.a: is odd"),
    Case("a word that is not one of some",
         _invalid(("NotSupported", "spec.a", f'Unsupported value: "{PLANTED}": supported values: "x", "y"')),
         Reason.REFUSED, 'spec.a: supported values: "x", "y"'),
    Case("a word instead of one of some",
         _invalid(("NotSupported", "spec.a", 'Unsupported value: "Sometimes": supported values: "Always", "Never"')),
         Reason.REFUSED, 'spec.a: supported values: "Always", "Never", not "Sometimes"'),
    Case("the path that the server repeats",
         _invalid(("Invalid", "spec.a", 'Invalid value: "x y": spec.a in body should match "^x$"')), Reason.REFUSED,
         'spec.a: should match "^x$"'),
    Case("a boolean for a text of a custom kind",
         _invalid(("TypeInvalid", "spec.a",
         'Invalid value: "boolean": spec.a in body must be of type string: "boolean"')),
         Reason.REFUSED, 'spec.a: must be of type string: "boolean"; '
         "quote it: YAML reads y, n, yes, no, on, off, true and false as booleans"),
    Case("a whole pod spec",
         _invalid(("Invalid", "spec", f'Invalid value: {{"env":[{{"Value":"{PLANTED}: x"}}]}}: is odd.')),
         Reason.REFUSED, "spec: is odd"),
    Case("a value whose end cannot be found",
         _invalid(("Invalid", "spec", f"Invalid value: core.PodSpec{{Env:{PLANTED}}}: is odd")), Reason.REFUSED,
         "spec: invalid value"),
    Case("a sentence of another form", _invalid(("X", "spec.a", f"it is {PLANTED}")), Reason.REFUSED,
         "spec.a: rejected"),
    Case("nothing about any field", _status(422, PLANTED, "Invalid"), Reason.REFUSED, "invalid"),
    Case("rules that were skipped are not worth a word",
         _invalid(("Required", "spec.a", "Required value: name it"), ("Invalid", "<nil>",
         "Invalid value: null: some rules")), Reason.REFUSED, "spec.a: name it"),
    Case("several fields, in order, each once",
         _invalid(*[("Required", field, "Required value") for field in ("b", "a", "b", "c", "d", "e", "f", "g")]),
         Reason.REFUSED,
         "a: required value; b: required value; c: required value; d: required value; e: required value; and 2 more"),
    Case("list items that others left behind",
         _invalid(("Duplicate", "spec.ports[1].name", f'Duplicate value: "{PLANTED}"')), Reason.REFUSED,
         "spec.ports[1].name: duplicate value", recovery=Recovery.TAKE_OVER_ITEMS),
    Case("a Job that was exported from a cluster",
         _invalid(("Invalid", "spec.selector", 'Invalid value: {"a":{"b":"c"}}: `selector` not auto-generated')),
         Reason.REFUSED, "spec.selector: `selector` not auto-generated; if the manifest was exported from a cluster, "
         "remove spec.selector and the labels controller-uid and job-name", ObjectKey("batch", "Job", "shop", "a")),
    Case("a second controller",
         _invalid(("Invalid", "metadata.ownerReferences",
         'Invalid value: [{"a":1}]: Only one reference can have Controller set to true. Found')), Reason.COLLISION,
         "controlled by another object; delete it", recovery=Recovery.JUDGE_AGAIN),
    Case("a ConfigMap over 1 MiB", _invalid(("TooLong", "[]", "Too long: may not be more than 1048576 bytes")),
         Reason.TOO_LARGE, "may not be more than 1048576 bytes; split it"),
    Case("annotations over 256 KiB",
         _invalid(("TooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes")), Reason.TOO_LARGE,
         "metadata.annotations: may not be more than 262144 bytes; split it"),
    Case("a text that is too long for its schema",
         _invalid(("TooLong", "spec.a", "Too long: may not be more than 5 bytes")), Reason.REFUSED,
         "spec.a: may not be more than 5 bytes", CUSTOM),
]
# fmt: on
# Whatever is wrong, a field that nobody applies may be in the way.
INVALID = [
    case._replace(recovery=Recovery.TAKE_OVER_FIELDS)
    if case.reason is Reason.REFUSED and case.recovery is Recovery.NONE
    else case
    for case in INVALID
]

IMMUTABLE = [
    ("a selector", "spec.selector", 'Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'),
    ("an immutable ConfigMap", "data", "Forbidden: field is immutable when `immutable` is set"),
    ("a StatefulSet", "spec", "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden"),
    ("a Pod", "spec", f"Forbidden: pod updates may not change fields other than `spec.x`{DIFFERENCE}"),
    ("a Pod's containers", "spec.containers", "Forbidden: pod updates may not add or remove containers"),
    ("a PVC", "spec", f"Forbidden: spec is immutable after creation except resources.requests{DIFFERENCE}"),
    ("a PV", "spec.x", f"Forbidden: spec.persistentvolumesource is immutable after creation{DIFFERENCE}"),
    ("a RoleBinding", "roleRef", 'Invalid value: {"Kind":"Role","Name":"b"}: cannot change roleRef'),
    ("a Service", "spec.clusterIPs[0]", 'Invalid value: ["10.0.0.78"]: may not change once set'),
    ("a PriorityClass", "value", "Forbidden: may not be changed in an update."),
    ("a VolumeAttributesClass", "parameters", "Forbidden: updates to parameters are forbidden."),
]


@pytest.mark.parametrize("case", [*DENIALS, *SERVER_ERRORS, *FORBIDDEN, *OTHERS, *INVALID], ids=attrgetter("name"))
def test_what_a_reply_means(case: Case) -> None:
    failure = _classify(case.error, case.key)
    assert (failure.reason, _said(failure), failure.recovery) == (case.reason, case.said, case.recovery)
    assert PLANTED not in failure.message


@pytest.mark.parametrize(("field", "text"), [row[1:] for row in IMMUTABLE], ids=[row[0] for row in IMMUTABLE])
def test_immutable_fields_are_recognised_by_their_cause(field: str, text: str) -> None:
    failure = _classify(_invalid(("Invalid", field, text)))
    assert failure.reason is Reason.IMMUTABLE
    assert _said(failure).startswith(f"{field}: ")
    assert _said(failure).endswith(
        '; delete the object, or set the annotation core.rukpak.io/recreate to "true" on it in the bundle'
    )
    assert failure.recovery is Recovery.RECREATE
    assert PLANTED not in failure.message


def test_an_immutable_field_of_what_holds_data_is_reverted() -> None:
    failure = _classify(
        _invalid(("Invalid", "spec", "Forbidden: field is immutable")), ObjectKey("", "Namespace", "", "a")
    )
    assert _said(failure) == "spec: field is immutable; revert the change, or delete the object"
    assert failure.recovery is Recovery.NONE


NOT_IMMUTABLE: list[tuple[str, ObjectKey, ApiError]] = [
    (
        "the words of a custom resource's author",
        CUSTOM,
        _invalid(("Invalid", "spec.a", 'Invalid value: "x": field is immutable')),
    ),
    (
        "words that only begin alike",
        DEPLOYMENT,
        _invalid(("Invalid", "spec.a", "Forbidden: field is immutable, mostly")),
    ),
    (
        "something else is wrong with it, too",
        DEPLOYMENT,
        _invalid(
            ("Invalid", "spec.selector", "Invalid value: 1: field is immutable"),
            ("Required", "spec.a", "Required value"),
        ),
    ),
    (
        "a value that says so",
        DEPLOYMENT,
        _invalid(("Invalid", "spec.a", 'Invalid value: "field is immutable": is odd')),
    ),
]


@pytest.mark.parametrize(("key", "error"), [row[1:] for row in NOT_IMMUTABLE], ids=[row[0] for row in NOT_IMMUTABLE])
def test_what_only_looks_immutable_is_refused(key: ObjectKey, error: ApiError) -> None:
    assert _classify(error, key).reason is Reason.REFUSED


def test_a_message_begins_with_the_object() -> None:
    error = reply_error(502, {}, b"")
    assert _classify(error, DEPLOYMENT).message == "Deployment shop/web: the API server answered 502"
    assert _classify(error, ObjectKey("", "Namespace", "", "x")).message.startswith("Namespace x: ")


def test_a_message_has_an_end() -> None:
    long = _status(400, f'admission webhook "x" denied the request: {"y" * 5000}')
    assert len(_classify(long).message) == STATUS_CHARACTERS


LONG = f"images come from registry.example.com. {'Others were never scanned. ' * 1000}"
ASK = "Ask #platform for a mirror, as https://docs.example.com/images says"


@pytest.mark.parametrize("denial", [VAP, 'admission webhook "x" denied the request: '], ids=["policy", "webhook"])
@pytest.mark.parametrize(("characters", "most"), [(600, 600), (2000, STATUS_CHARACTERS), (20000, STATUS_CHARACTERS)])
def test_the_remedy_of_a_policy_is_never_cut(denial: str, characters: int, most: int) -> None:
    said = f"{LONG[:characters]} {ASK}."
    failure = _classify(_status(403, denial + said))
    assert len(failure.message) <= most + 200
    assert failure.message.endswith(f" {ASK}")
    assert (" … " in failure.message) is (characters > most)
    assert "images come from registry.example.com" in failure.message


def test_the_user_who_asked_reads_all_of_a_policy() -> None:
    said = f"{LONG[:6000]} {ASK}."
    failure = classify(_status(403, VAP + said), CONFIG_MAP, install_namespace="shop", characters=USER_CHARACTERS)
    assert LONG[100:5900] in failure.message


def test_a_long_policy_about_a_secret_stays_silent() -> None:
    error = _status(403, f"{VAP}{LONG[:2000]} {PLANTED}")
    assert _said(_classify(error, SECRET)) == 'admission policy "no" denied the request'


@pytest.mark.parametrize(("asked", "expect"), [("5", 5.0), ("", None)])
def test_the_server_is_obeyed_about_when_to_come_back(asked: str, expect: float | None) -> None:
    assert _classify(reply_error(429, {"Retry-After": asked}, b"")).retry_after == expect


def test_a_full_database_is_left_alone_for_a_minute() -> None:
    assert _classify(_status(500, "etcdserver: mvcc: database space exceeded")).retry_after == DATABASE_FULL_SECONDS


def test_the_rights_of_many_failures_make_one_list() -> None:
    errors = [
        _status(403, f'{DENIED}{verb} resource "{resource}" in API group "" in the namespace "shop"', "Forbidden")
        for verb in ("patch", "create", "patch")
        for resource in ("secrets", "configmaps")
    ]
    missing = [right for error in errors for right in _classify(error).missing]
    assert (
        describe_rights(missing)
        == 'create,patch configmaps in namespace "shop"; create,patch secrets in namespace "shop"'
    )


def test_a_long_list_of_rights_is_cut() -> None:
    rights = [RbacRight(groups=("",), resources=(f"r{number:02}",), verbs=("get",)) for number in range(12)]
    assert describe_rights(rights).endswith("get r04; and 7 more")


def test_values_that_never_end_are_read_in_no_time() -> None:
    nested: Any = _invalid(("Invalid", "spec", "Invalid value: " + "[" * 60_000))
    dots = _status(500, NOT_TYPED + ". " * 30_000)
    assert _said(_classify(nested)) == "spec: invalid value"
    assert _said(_classify(dots)) == "does not match the schema of its kind"


KEYED = ObjectKey("", "ConfigMap", "shop", "a")
SERVICE = ObjectKey("", "Service", "shop", "a")
CUSTOM_KEYED = ObjectKey("example.com", "Widget", "shop", "a")
# What a chart makes of a value of a Secret: the key of a map, the key of an item, a field, a value, a complaint.
CONCEALED = [
    (_invalid(("Invalid", f"data[{PLANTED}/!]", f'Invalid value: "{PLANTED}/!": a valid config key must consist of')),
     KEYED, "data.…: a valid config key must consist of"),
    (_invalid(("Invalid", f"metadata.labels.{PLANTED}", 'Invalid value: "x": is odd')), KEYED,
     "metadata.labels.…: is odd"),
    (_invalid(("NotSupported", "spec.a", 'Unsupported value: "secretword": supported values: "x"')), DEPLOYMENT,
     'spec.a: supported values: "x"'),
    (_invalid(("Invalid", f"spec.{PLANTED}.b", 'Invalid value: "x": is odd')), CUSTOM_KEYED, "spec.…: is odd"),
    (_status(500, f"{NOT_TYPED}.spec.{PLANTED}: field not declared in schema"), DEPLOYMENT,
     "spec.…: field not declared in schema"),
    (_status(500, f'{NOT_TYPED}.spec.containers[name="{PLANTED}"].args: expected list, got x'), DEPLOYMENT,
     "spec.containers[…].args: expected list"),
    (_status(500, f'{NOT_TYPED}.spec.env: duplicate entries for key [name="{PLANTED}"]'), DEPLOYMENT,
     "spec.env: duplicate entries for key"),
    (_status(403, f'admission webhook "x" denied the request: {PLANTED} is bad', "Forbidden"), DEPLOYMENT,
     'admission webhook "x" denied the request'),
    (_status(403, f'pods "a" is forbidden: violates PodSecurity: host (container "{PLANTED}" must not)', "Forbidden"),
     DEPLOYMENT, 'violates PodSecurity: host (container "…" must not)'),
    (_status(404, f'priorityclasses.scheduling.k8s.io "{PLANTED}" not found', "NotFound"), DEPLOYMENT,
     'refers to priorityclasses.scheduling.k8s.io "…" that does not exist; create it'),
    (_invalid(("Invalid", f"spec.selector.{PLANTED}", 'Invalid value: "x": is odd')), SERVICE,
     "spec.selector.…: is odd"),
    (_invalid(("Invalid", f"spec.selector.matchLabels.{PLANTED}", 'Invalid value: "x": is odd')), DEPLOYMENT,
     "spec.selector.matchLabels.…: is odd"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "key", "said"), CONCEALED)
def test_where_values_of_secrets_were_rendered_no_text_of_an_object_is_shown(
    error: ApiError, key: ObjectKey, said: str
) -> None:
    failure = classify(error, key, install_namespace="shop", conceals=True)
    assert failure.message == f"{key}: {said}"
    assert PLANTED in classify(error, key, install_namespace="shop").message or "secretword" in str(error.causes)


CLAIM = ObjectKey("", "PersistentVolumeClaim", "a", "data")
SIZE = "spec.resources.requests.storage"


@pytest.mark.parametrize("than", ["status.capacity", "previous value"])
def test_a_claim_that_somebody_has_grown_says_what_to_do(than: str) -> None:
    failure = _classify(_invalid(("Forbidden", SIZE, f"Forbidden: field can not be less than {than}")), CLAIM)
    assert (failure.reason, failure.recovery) == (Reason.REFUSED, Recovery.NONE)
    assert _said(failure) == (
        f"{SIZE}: field can not be less than {than}; a claim cannot shrink: raise the size in the bundle, or leave it "
        f"to others with the annotation core.rukpak.io/ignore-fields: {SIZE}"
    )


CONTESTED = [
    (
        "a port",
        Contest.ALLOCATED,
        _invalid(("Invalid", "spec.ports[0].nodePort", "Invalid value: 1: provided port is already allocated")),
    ),
    (
        "an address",
        Contest.ALLOCATED,
        _invalid(
            (
                "Invalid",
                "spec.clusterIPs",
                'Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: provided IP is already allocated',
            )
        ),
    ),
    (
        "the port of a health check",
        Contest.ALLOCATED,
        ApiError(
            500,
            "InternalError",
            "Internal error occurred: failed to allocate requested HealthCheck NodePort 30200: provided port is "
            "already allocated",
        ),
    ),
    (
        "a policy",
        Contest.VALUE,
        ApiError(422, "Invalid", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: taken"),
    ),
    ("a webhook", Contest.VALUE, ApiError(403, "Forbidden", 'admission webhook "w" denied the request: host is taken')),
    ("a default", Contest.VALUE, ApiError(403, "Forbidden", 'x "a" is forbidden: only one default can exist')),
]


@pytest.mark.parametrize(("name", "contest", "error"), CONTESTED, ids=[name for name, *_ in CONTESTED])
def test_what_another_object_may_have_is_contested(name: str, contest: Contest, error: ApiError) -> None:
    failure = _classify(error)
    assert (failure.reason, failure.contest, failure.recovery) == (Reason.REFUSED, contest, Recovery.NONE), name


def test_a_quota_counts_objects() -> None:
    said = 'x "a" is forbidden: exceeded quota: q, requested: count/x=1, used: count/x=1, limited: count/x=1'
    assert _classify(ApiError(403, "Forbidden", said)).contest is Contest.QUOTA
