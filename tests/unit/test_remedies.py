"""What messages tell people to do is valid as it is: fields and values of the spec, command lines, annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.schema import open_api_schema
from rukpak.api.v1alpha2.types import Spec
from rukpak.controller.cli.verbs import VERBS
from tests.support.instructions import commands, fields, marks, nested, settings

FOREIGN = {
    "spec.a",
    "spec.claimRef",
    "spec.clusterIPs",
    "spec.image",
    "spec.minKubeVersion",
    "spec.ports",
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
SCHEMA = open_api_schema()


def has_field(field: str) -> bool:
    """Whether the schema of a BundleDeployment has a field."""
    schema: Mapping[str, Any] = SCHEMA
    for name in field.split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        schema = schema.get("items", schema)
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


def test_a_field_that_a_message_names_exists_unless_it_is_of_another_kind() -> None:
    assert {field for field in fields() if not has_field(field)} == FOREIGN


def test_a_value_that_a_message_tells_to_set_is_valid() -> None:
    bundle = {"format": "plain", "sources": [{"kind": "image", "image": {"ref": "x"}}]}
    for field, value in settings():
        Spec.model_validate({**bundle, **nested(field, value)})


def test_a_command_that_a_message_tells_to_run_exists() -> None:
    assert {command.split(maxsplit=1)[0] for command in commands()} <= VERBS.keys()


def test_an_annotation_that_a_message_names_is_one_of_ours() -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)}
    assert {name for name in marks() if name not in known} <= {f"{names.GROUP}/v"}  # of v1alpha2


def test_what_is_tried_here_is_found() -> None:
    assert {("spec.prune", "AfterApply"), ("spec.collisionProtection", "None")} <= settings()
    assert {"approve x", "prune x"} <= commands()
