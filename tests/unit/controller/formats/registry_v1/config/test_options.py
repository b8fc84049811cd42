"""`spec.config` by install modes, and its messages: those of OLM v1, and ours for what it lacks."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.registry_v1.bundle.service_version import find_target_problem
from controller.formats.registry_v1.config import read_options
from tests.support.operator_bundles import NAMESPACE, refusal, service_version, write_bundle

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
