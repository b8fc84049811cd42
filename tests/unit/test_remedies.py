"""What messages tell people to do is valid as it is: fields and values of the spec, command lines, annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.schema import crd
from rukpak.api.v1alpha2.types import Spec
from rukpak.controller.cli.verbs import VERBS
from tests.support.instructions import commands, fields, marks, nested, settings

FOREIGN = {
    "spec.a",
    "spec.image",
    "spec.minKubeVersion",
    "spec.healthCheckNodePort",
    "spec.preserveUnknownFields",
    "spec.progressDeadlineSeconds",
    "spec.replicas",
    "spec.selector",
    "spec.suspend",
    "spec.template.metadata.annotations",
    "spec.ttlSecondsAfterFinished",
    "spec.webhookdefinitions",
}
"""Fields of other kinds, and examples."""


def has_field(field: str) -> bool:
    """Whether the schema of a BundleDeployment has a field."""
    schema: Mapping[str, Any] = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in field.split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        schema = schema.get("items", schema)
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


@pytest.mark.parametrize("field", sorted(fields() - FOREIGN))
def test_a_field_that_a_message_names_exists(field: str) -> None:
    assert has_field(field)


def test_no_exception_is_left_over() -> None:
    assert fields() >= FOREIGN
    assert not [field for field in FOREIGN if has_field(field)]


@pytest.mark.parametrize(("field", "value"), sorted(settings()))
def test_a_value_that_a_message_tells_to_set_is_valid(field: str, value: str) -> None:
    spec = {"format": "plain", "sources": [{"kind": "image", "image": {"ref": "x"}}], **nested(field, value)}
    Spec.model_validate(spec)


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_that_a_message_tells_to_run_exists(command: str) -> None:
    assert command.split(maxsplit=1)[0] in VERBS


def test_an_annotation_that_a_message_names_is_one_of_ours() -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)}
    assert {name for name in marks() if name not in known} <= {f"{names.GROUP}/v"}  # of v1alpha2


def test_what_is_tried_here_is_found() -> None:
    assert {("spec.prune", "AfterApply"), ("spec.collisionProtection", "None")} <= settings()
    assert {"approve x", "prune x"} <= commands()
