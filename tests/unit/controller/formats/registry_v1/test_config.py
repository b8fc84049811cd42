"""`spec.config` by install modes, and its messages: those of OLM v1, and ours for what it lacks."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.registry_v1.bundle import find_target_problem
from rukpak.controller.formats.registry_v1.config import configure, find_errors, read_deployment_config, read_options
from tests.support.operator_bundles import (
    NAMESPACE,
    deployment,
    of_kind,
    refusal,
    render,
    service_version,
    webhook,
    write_bundle,
)

NAMES = {"A": "AllNamespaces", "M": "MultiNamespace", "O": "OwnNamespace", "S": "SingleNamespace"}
UNACCEPTED = "spec.config.watchNamespace: not accepted, because this bundle supports only the install modes "
UNKNOWN = UNACCEPTED + "AllNamespaces; remove it"
MISSING = 'required field "watchNamespace" is missing'
MUST_BE = (
    'invalid format for field "watchNamespace": \'x\' is not valid ownNamespaceInstallMode: invalid value "x": must be'
    ' "inst" (the namespace where the operator is installed) because this operator only supports OwnNamespace install'
    " mode"
)
MUST_NOT_BE = (
    "invalid format for field \"watchNamespace\": 'inst' is not valid singleNamespaceInstallMode: invalid value"
    ' "inst": must be different from "inst" (the install namespace) because this operator uses SingleNamespace install'
    " mode to watch a different namespace"
)


def several(*messages: str) -> str:
    return "multiple errors found:" + "".join(f"\n  - {message}" for message in messages)


def optional(got: str, *causes: str) -> str:
    """The message for a value of an optional field."""
    return several(
        'invalid value for field "watchNamespace"',
        f'invalid type for field "watchNamespace": got {got}, want null',
        *causes,
    )


def modes_of(letters: str) -> frozenset[str]:
    return frozenset(NAMES[letter] for letter in letters)


class Row(NamedTuple):
    modes: str
    config: dict[str, Any]
    targets: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        return f"{self.modes or '-'} {self.config}"


ONE, OTHER, OWN = {"watchNamespace": "x"}, {"watchNamespace": "y"}, {"watchNamespace": NAMESPACE}
NULL: dict[str, Any] = {"watchNamespace": None}
# fmt: off
ROWS = [
    Row("A", {}, ("",)),
    Row("A", ONE, error=UNKNOWN),
    Row("A", NULL, error=UNKNOWN),
    Row("AO", {}, ("",)),
    Row("AO", NULL, ("",)),
    Row("AO", OWN, (NAMESPACE,)),
    Row("AO", ONE, error=optional("string", MUST_BE)),
    Row("AS", {}, ("",)),
    Row("AS", NULL, ("",)),
    Row("AS", ONE, ("x",)),
    Row("AS", OWN, error=optional("string", MUST_NOT_BE)),
    Row("AOS", {}, ("",)),
    Row("AOS", NULL, ("",)),
    Row("AOS", ONE, ("x",)),
    Row("AOS", OWN, (NAMESPACE,)),
    Row("O", {}, error=MISSING),
    Row("O", NULL, error=MISSING),
    Row("O", OWN, (NAMESPACE,)),
    Row("O", ONE, error=MUST_BE),
    Row("S", {}, error=MISSING),
    Row("S", NULL, error=MISSING),
    Row("S", ONE, ("x",)),
    Row("S", OWN, error=MUST_NOT_BE),
    Row("OS", {}, error=MISSING),
    Row("OS", ONE, ("x",)),
    Row("OS", OWN, (NAMESPACE,)),
    Row("M", ONE, error=UNACCEPTED + "MultiNamespace; use watchNamespaces"),
    # Ours: several namespaces.
    Row("M", {"watchNamespaces": ["b", "a"]}, ("b", "a")),
    Row("OM", {"watchNamespaces": [NAMESPACE, "a"]}, (NAMESPACE, "a")),
    Row("SM", {"watchNamespaces": ["a"]}, ("a",)),
    Row("AM", {"watchNamespaces": ["a", "b"]}, ("a", "b")),
    Row("AM", {}, ("",)),
    Row("AOS", {"watchNamespaces": ["a"]}, error=UNACCEPTED.replace("Namespace:", "Namespaces:")
         + "AllNamespaces, OwnNamespace, SingleNamespace; use watchNamespace"),
    Row("A", {"watchNamespaces": ["a"]}, error=UNACCEPTED.replace("Namespace:", "Namespaces:")
         + "AllNamespaces; remove it"),
    Row("OSM", {"watchNamespaces": ["a"], "watchNamespace": "x"},
         error='fields "watchNamespace" and "watchNamespaces" exclude each other'),
    Row("M", {"watchNamespaces": []}, error='field "watchNamespaces" must have at least 1 item'),
    Row("M", {"watchNamespaces": None}, error='required field "watchNamespaces" is missing'),
    Row("M", {"watchNamespaces": "a"}, error='invalid type for field "watchNamespaces": got string, want array'),
    Row("M", {"watchNamespaces": [1]}, error='invalid type for field "watchNamespaces.0": got number, want string'),
    Row("M", {"watchNamespaces": ["a", "a"]},
         error='field "watchNamespaces.1" duplicates "watchNamespaces.0"; remove one'),
    Row("M", {"watchNamespaces": ["A"]},
         error='field "watchNamespaces.0" must match pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"'),
]
# fmt: on


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_watched_namespaces(row: Row) -> None:
    if not row.error:
        assert read_options(row.config, modes_of(row.modes), NAMESPACE).targets == row.targets
        return
    prefix = "" if row.error.startswith("spec.config.") else "invalid configuration: "
    assert error_of(row.config, row.modes) == f"{prefix}{row.error}"


def error_of(config: Any, modes: str) -> str:
    with pytest.raises(BundleError) as raised:
        read_options(config, modes_of(modes), NAMESPACE)
    assert raised.value.reason is Reason.INVALID_CONFIG
    return raised.value.message


class Message(NamedTuple):
    name: str
    config: Any
    expect: str
    modes: str = "OS"


PATTERN = 'field "watchNamespace" must match pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"'
# fmt: off
MESSAGES = [
    Message("a key that is no word", {**ONE, "\x1b[2J": 1}, 'unknown field "\\u001b[2J"'),
    Message("an unknown key", {**ONE, "foo": 1}, 'unknown field "foo"'),
    Message("the values of a chart", {**ONE, "values": {"watchNamespace": "a"}},
         'unknown field "values": only charts have values, as --set gives them; set its fields with --config FILE'),
    Message("an unknown key of deploymentConfig", {**ONE, "deploymentConfig": {"foo": 1}}, 'unknown field "foo"'),
    Message("the selector that OLM v0 had", {"deploymentConfig": {"selector": {}}}, 'unknown field "selector"', "A"),
    Message("a number", {"watchNamespace": 1}, 'invalid type for field "watchNamespace": got number, want string'),
    Message("a fraction", {"watchNamespace": 1.5}, 'invalid type for field "watchNamespace": got number, want string'),
    Message("a boolean", {"watchNamespace": True}, 'invalid type for field "watchNamespace": got boolean, want string'),
    Message("an array", {"watchNamespace": []}, 'invalid type for field "watchNamespace": got array, want string'),
    Message("an object", {"watchNamespace": {}}, 'invalid type for field "watchNamespace": got object, want string'),
    Message("config is no object", True, "invalid type: got boolean, want object"),
    Message("too long", {"watchNamespace": "a" * 71}, 'field "watchNamespace" must have maximum length of 63 (len=71)'),
    Message("empty", {"watchNamespace": ""},
         several('field "watchNamespace" must have minimum length of 1 (len=0)', PATTERN)),
    Message("no label", {"watchNamespace": "a.b"}, PATTERN),
    Message("an optional one of the wrong type", {"watchNamespace": 1},
         optional("number", 'invalid type for field "watchNamespace": got number, want string'), "AOS"),
    Message("several errors", {"foo": 1, "bar": 2, "watchNamespace": 3},
         several('invalid type for field "watchNamespace": got number, want string', 'unknown field "bar"',
         'unknown field "foo"')),
    Message("null for deploymentConfig", {"deploymentConfig": None}, 'required field "deploymentConfig" is missing',
         "A"),
    Message("a provider that nobody knows", {"certificateProvider": "x"},
         'field "certificateProvider" must be one of [cert-manager service-ca none]', "A"),
    Message("a provider that is no name", {"certificateProvider": ["none"]},
         'invalid type for field "certificateProvider": got array, want string', "A"),
    Message("no provider", {"certificateProvider": None}, 'required field "certificateProvider" is missing', "A"),
]
# fmt: on


@pytest.mark.parametrize("case", MESSAGES, ids=attrgetter("name"))
def test_messages(case: Message) -> None:
    assert error_of(case.config, case.modes) == f"invalid configuration: {case.expect}"


class Targets(NamedTuple):
    targets: list[str]
    modes: str
    expect: str

    def __str__(self) -> str:
        return f"{self.modes or '-'} {self.targets}"


# fmt: off
TARGETS = [
    Targets([], "A", "exactly one target namespace must be specified"),
    Targets([], "AM", "at least one target namespace must be specified"),
    Targets([""], "A", ""),
    Targets(
        [""],
        "OSM",
        "supported install modes [MultiNamespace OwnNamespace SingleNamespace] do not support targeting all namespaces",
    ),
    Targets([NAMESPACE], "O", ""),
    Targets([NAMESPACE], "AS",
         "supported install modes [AllNamespaces SingleNamespace] do not support targeting own namespace"),
    Targets(["x"], "S", ""),
    Targets(["x"], "AO", "supported install modes [AllNamespaces OwnNamespace] do not support target namespaces [x]"),
    Targets(["x"], "M", "supported install modes [MultiNamespace] do not support target namespaces [x]"),
    Targets(["y", "x"], "M", ""),
    Targets(["y", NAMESPACE], "M", "supported install modes [MultiNamespace] do not support targeting own namespace"),
    Targets(["y", NAMESPACE], "OM", ""),
    Targets(["y", "x"], "AOS",
         "supported install modes [AllNamespaces OwnNamespace SingleNamespace] do not support target namespaces [y x]"),
    Targets(["y", ""], "AM",
         "supported install modes [AllNamespaces MultiNamespace] do not support target namespaces [y ]"),
]
# fmt: on


@pytest.mark.parametrize("case", TARGETS, ids=str)
def test_target_rules(case: Targets) -> None:
    prefix = f"invalid option(s): invalid target namespaces [{' '.join(case.targets)}]: "
    assert find_target_problem(modes_of(case.modes), NAMESPACE, case.targets) == (case.expect and prefix + case.expect)


def test_targets_are_checked_after_config(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(modes=["MultiNamespace"]))
    assert refusal(root) == (
        Reason.INVALID_CONFIG,
        "invalid option(s): invalid target namespaces []: at least one target namespace must be specified",
    )


def test_config_comes_before_validations(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(), package="")
    assert refusal(root, {"foo": 1})[0] is Reason.INVALID_CONFIG
    assert refusal(root) == (Reason.INVALID_BUNDLE, "package name is empty")


def env(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def mount(name: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


class Merge(NamedTuple):
    name: str
    field: str
    before: Any
    config: Any
    after: Any


# fmt: off
CONTAINER = [
    Merge("a variable is replaced in place", "env", [env("a", "1"), env("b", "2")], [env("a", "3")],
         [env("a", "3"), env("b", "2")]),
    Merge("the last of equal names is replaced", "env", [env("a", "1"), env("a", "2")], [env("a", "3")],
         [env("a", "1"), env("a", "3")]),
    Merge("a new variable is appended", "env", None, [env("a", "1")], [env("a", "1")]),
    Merge("two new ones of one name are both appended", "env", [], [env("a", "1"), env("a", "2")],
         [env("a", "1"), env("a", "2")]),
    Merge("of two for one that is there the second wins", "env", [env("a", "0")], [env("a", "1"), env("a", "2")],
         [env("a", "2")]),
    Merge("no variables change nothing", "env", [env("a", "0")], [], [env("a", "0")]),
    Merge("what is there is not appended", "envFrom", [{"secretRef": {"name": "a"}}],
         [{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
         [{"secretRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]),
    Merge("of two equal ones one is appended", "envFrom", None, [{"secretRef": {"name": "a"}}] * 2,
         [{"secretRef": {"name": "a"}}]),
    Merge("a mount is replaced by the name of its volume", "volumeMounts", [mount("a", "/x"), mount("b", "/y")],
         [mount("a", "/z")], [mount("a", "/z"), mount("b", "/y")]),
    Merge("a volume that the config mounts twice is replaced by path", "volumeMounts",
         [mount("a", "/x"), mount("b", "/y")], [mount("a", "/x", subPath="x"), mount("a", "/z")],
         [mount("a", "/x", subPath="x"), mount("b", "/y"), mount("a", "/z")]),
    Merge("a volume that is mounted twice is replaced by path", "volumeMounts", [mount("a", "/x"), mount("a", "/y")],
         [mount("a", "/y", readOnly=True)], [mount("a", "/x"), mount("a", "/y", readOnly=True)]),
    Merge("resources are replaced", "resources", {"limits": {"cpu": "1"}}, {"requests": {"cpu": "1"}},
         {"requests": {"cpu": "1"}}),
    Merge("empty resources remove them", "resources", {"limits": {"cpu": "1"}}, {}, None),
]
# fmt: on
TERM = {"weight": 1, "preference": {}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [TERM]}
NO_NODES: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
NODES = {"nodeAffinity": PREFERRED}
PODS = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
OTHER_PODS = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}}
# fmt: off
POD = [
    Merge("a volume is replaced in place", "volumes", [{"name": "a", "emptyDir": {}}, {"name": "b"}],
         [{"name": "a", "hostPath": {"path": "/"}}], [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b"}]),
    Merge("a new volume is appended", "volumes", None, [{"name": "a"}], [{"name": "a"}]),
    Merge("a toleration that is there is not appended", "tolerations", [{"key": "a"}], [{"key": "a"}, {"key": "b"}],
         [{"key": "a"}, {"key": "b"}]),
    Merge("of two equal tolerations one is appended", "tolerations", [{"key": "a"}], [{"key": "b"}] * 2,
         [{"key": "a"}, {"key": "b"}]),
    Merge("the node selector is replaced", "nodeSelector", {"a": "1"}, {"b": "2"}, {"b": "2"}),
    Merge("an empty node selector removes it", "nodeSelector", {"a": "1"}, {}, None),
    Merge("an empty affinity removes it", "affinity", {**NODES, **PODS}, {}, None),
    Merge("one kind of affinity is replaced, the others stay", "affinity", {**NODES, **PODS}, OTHER_PODS,
         {**NODES, **OTHER_PODS}),
    Merge("an empty kind of affinity is removed", "affinity", {**NODES, **PODS}, {"podAffinity": {}}, NODES),
    Merge("no node terms are empty", "affinity", {**NODES, **PODS}, {"nodeAffinity": NO_NODES}, PODS),
    Merge("if only empty ones are left, affinity goes", "affinity", {**NODES, "podAffinity": {}}, {"nodeAffinity": {}},
         None),
    Merge("affinity where there was none", "affinity", None, NODES, NODES),
]
# fmt: on


def configured(pod: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    assert not find_errors(config, "deploymentConfig")
    made = {"metadata": {"name": "x"}, "spec": {"template": {"metadata": {}, "spec": pod}}}
    result: dict[str, Any] = configure(made, read_deployment_config(config))["spec"]["template"]["spec"]
    return result


@pytest.mark.parametrize("case", CONTAINER, ids=attrgetter("name"))
def test_containers(case: Merge) -> None:
    container = {"name": "c"} | ({} if case.before is None else {case.field: case.before})
    pod = configured({"containers": [container, container], "initContainers": [container]}, {case.field: case.config})
    assert [item.get(case.field) for item in pod["containers"]] == [case.after, case.after]
    assert pod["initContainers"] == [container]


@pytest.mark.parametrize("case", POD, ids=attrgetter("name"))
def test_pods(case: Merge) -> None:
    pod = {"containers": []} | ({} if case.before is None else {case.field: case.before})
    assert configured(pod, {case.field: case.config}).get(case.field) == case.after


def test_annotations_are_added_without_replacing_others(tmp_path: Path) -> None:
    csv = service_version(deployments=[deployment()], annotations={"a": "csv"})
    config = {"deploymentConfig": {"annotations": {"a": "config", "b": "config"}}}
    (made,) = of_kind(render(write_bundle(tmp_path, csv), config), "Deployment")
    template = made["spec"]["template"]["metadata"]["annotations"]
    assert made["metadata"]["annotations"] == {"a": "config", "b": "config"}
    assert (template["a"], template["b"]) == ("csv", "config")


def test_every_deployment_is_configured_and_certificates_can_be_overridden(tmp_path: Path) -> None:
    csv = service_version(deployments=[deployment(), deployment("b")], webhooks=[webhook()])
    volume = {"name": "webhook-cert", "emptyDir": {}}
    made = of_kind(render(write_bundle(tmp_path, csv), {"deploymentConfig": {"volumes": [volume]}}), "Deployment")
    assert [item["spec"]["template"]["spec"]["volumes"][0] for item in made] == [volume, volume]


class Wrong(NamedTuple):
    config: Any
    expect: list[str]

    def __str__(self) -> str:
        return str(self.config)


def missing(*fields: str) -> list[str]:
    return [f'required field "deploymentConfig.{field}" is missing' for field in fields]


def wrong(field: str, got: str, want: str) -> list[str]:
    return [f'invalid type for field "deploymentConfig{field}": got {got}, want {want}']


# fmt: off
WRONG = [
    Wrong([], wrong("", "array", "object")),
    Wrong({"env": None}, missing("env")),
    Wrong({"env": {}}, wrong(".env", "object", "array")),
    Wrong({"env": [{}]}, missing("env.0.name")),
    Wrong({"env": [{"name": 1}]}, wrong(".env.0.name", "number", "string")),
    Wrong({"env": [{"name": "a", "valu": ""}]}, ['unknown field "deploymentConfig.env.0.valu"']),
    Wrong({"env": [{"name": "a", "valueFrom": {"secretKeyRef": {}}}]}, missing("env.0.valueFrom.secretKeyRef.key")),
    Wrong({"env": [{"name": "a", "valueFrom": {"fieldRef": {}}}]}, missing("env.0.valueFrom.fieldRef.fieldPath")),
    Wrong({"env": [{"name": "a", "valueFrom": {"fileKeyRef": {}}}]},
         missing(*(f"env.0.valueFrom.fileKeyRef.{key}" for key in ("key", "path", "volumeName")))),
    Wrong({"envFrom": [{"configMapRef": {}, "secretRef": {}}]}, []),
    Wrong({"tolerations": [{}, {"tolerationSeconds": 1}]}, []),
    Wrong({"tolerations": [{"tolerationSeconds": "1"}]},
         wrong(".tolerations.0.tolerationSeconds", "string", "integer")),
    Wrong({"volumes": [{"hostPath": {}}]}, missing("volumes.0.name", "volumes.0.hostPath.path")),
    Wrong({"volumes": [{"name": "a", "nfs": {}}]}, missing("volumes.0.nfs.path", "volumes.0.nfs.server")),
    Wrong({"volumes": [{"name": "a", "csi": {}}]}, missing("volumes.0.csi.driver")),
    Wrong({"volumes": [{"name": "a", "persistentVolumeClaim": {}}]},
         missing("volumes.0.persistentVolumeClaim.claimName")),
    Wrong({"volumes": [{"name": "a", "projected": {}}]}, []),
    Wrong({"volumeMounts": [{}]}, missing("volumeMounts.0.mountPath", "volumeMounts.0.name")),
    Wrong({"resources": {"claims": [{}]}}, missing("resources.claims.0.name")),
    Wrong({"resources": {"limits": {"cpu": 1, "memory": "many"}}}, []),
    Wrong({"resources": {"limits": {"cpu": True}}}, wrong(".resources.limits.cpu", "boolean", "string or number")),
    Wrong({"nodeSelector": {"a": 1}}, wrong(".nodeSelector.a", "number", "string")),
    Wrong({"annotations": {"a": None}}, missing("annotations.a")),
    Wrong({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
         missing("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")),
    Wrong(
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        missing(
            *(
                f"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.0.{key}"
                for key in ("podAffinityTerm", "weight")
            )
        ),
    ),
    Wrong({"foo": 1, "bar": 1, "env": 1},
         [*wrong(".env", "number", "array"), 'unknown field "bar"', 'unknown field "foo"']),
]
# fmt: on


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_schema(case: Wrong) -> None:
    assert find_errors(case.config, "deploymentConfig") == case.expect


def test_an_invalid_quantity_passes_the_schema_and_fails_decoding(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version())
    reason, message = refusal(root, {"deploymentConfig": {"resources": {"limits": {"cpu": "many"}}}})
    assert reason is Reason.INVALID_CONFIG
    assert message.startswith("invalid deploymentConfig: failed to unmarshal deploymentConfig: quantities must match")


@pytest.mark.parametrize("quantity", ["1", " 1 ", "1.", ".5", "-1", "+100m", "1e3", "1E-3", "12Ki", "1M", 2, 0.5])
def test_quantities(quantity: Any) -> None:
    assert read_deployment_config({"resources": {"limits": {"cpu": quantity}}})


@pytest.mark.parametrize("quantity", ["", " ", "1\t", ".", "Ki", "1ki", "1e", "0x1", "१"])
def test_invalid_quantities(quantity: str) -> None:
    with pytest.raises(BundleError):
        read_deployment_config({"resources": {"limits": {"cpu": quantity}}})
