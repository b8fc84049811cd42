"""Policies inside the spec: drift, health checks and CRD upgrade safety. All are data; none is a program."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from api.v1alpha2.fields import (
    FIELD_PATH_RULE,
    AnyObjectName,
    Api,
    FieldPath,
    Group,
    Kind,
    list_of,
    rule,
    rules,
)

Enforcement = Literal["Error", "Warn", "None"]

CrdCheck = Literal[
    "scope",
    "existingFieldRemoval",
    "storedVersionRemoval",
    "servedVersionRemoval",
    "existingResources",
    "type",
    "required",
    "default",
    "enum",
    "maximum",
    "maxLength",
    "maxItems",
    "maxProperties",
    "minimum",
    "minLength",
    "minItems",
    "minProperties",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "multipleOf",
    "uniqueItems",
    "pattern",
    "format",
    "nullable",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "xvalidations",
    "preserveUnknownFields",
    "intOrString",
    "embeddedResource",
    "listType",
    "listMapKeys",
    "mapType",
    "description",
    "unhandled",
]
"""What is compared between the CRD on the cluster and the one of the bundle."""


IgnoredPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        json_schema_extra=rules(
            FIELD_PATH_RULE,
            rule(
                "!(self in ['apiVersion', 'kind', 'metadata', 'metadata.name', 'metadata.namespace'])",
                "must not be what says which object it is",
            ),
        ),
    ),
]


class IgnoreRule(Api):
    """Fields that are set when an object is created, and then left to whoever changes them."""

    group: Group = ""
    """API group of the objects; empty: the core group."""
    kind: Kind
    """Kind of the objects."""
    name: AnyObjectName | None = None
    """Name of one object. Default: all of the kind."""
    paths: Annotated[tuple[IgnoredPath, ...], Field(min_length=1, max_length=32, json_schema_extra=list_of("set"))]
    """Paths of the fields, dotted, keys with dots as ["quoted.key"]: spec.replicas."""


class Drift(Api):
    """What is done when somebody changes a managed object."""

    mode: Literal["Repair", "Report"] = "Repair"
    """Repair: put the object back at once. Report: say so in the condition Drifted, and change nothing."""
    ignore: Annotated[tuple[IgnoreRule, ...], Field(max_length=64, json_schema_extra=list_of("atomic"))] = ()
    """Fields that are set at creation and then left alone. Also possible on the object, by the annotation
    core.rukpak.io/ignore-fields: paths with commas between them."""


class ConditionMatcher(Api):
    """Matches a condition in status.conditions of the object."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Status that the condition has, in quotes."""
    reasons: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...],
        Field(max_length=32, json_schema_extra=list_of("set")),
    ] = ()
    """Reasons of which the condition has one. Empty: any."""


class FieldMatcher(Api):
    """Matches the value of a field of the object. A missing field matches nothing."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.__in__) != has(self.equalsPath)", "set exactly one of in and equalsPath", ".equalsPath")
        )
    )
    path: FieldPath
    """Path of the field, dotted, keys with dots as ["quoted.key"]: status.phase. Of a custom resource at the version at
    which it is stored."""
    any_of: (
        Annotated[
            tuple[Annotated[str, Field(max_length=1024)], ...],
            Field(min_length=1, max_length=32, json_schema_extra=list_of("set")),
        ]
        | None
    ) = None
    """Values of which the field has one. Numbers and booleans are given as text: "3", "true"."""
    equals_path: FieldPath | None = None
    """Path of another field of the object that has the same value."""


class Matcher(Api):
    """Matches an object by a condition or by a field."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.condition) != has(self.field)", "set exactly one of condition and field", ".condition")
        )
    )
    condition: ConditionMatcher | None = None
    """Matches by a condition in status.conditions."""
    field: FieldMatcher | None = None
    """Matches by the value of a field."""


Matchers = Annotated[tuple[Matcher, ...], Field(max_length=16, json_schema_extra=list_of("atomic"))]


class HealthCheck(Api):
    """How the health of a kind is judged, instead of the built-in rule for it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.always) != (has(self.failed) || has(self.progressing) || has(self.healthy))",
                "set either always, or some of failed, progressing and healthy",
                ".always",
            )
        )
    )
    group: Group = ""
    """API group of the objects; empty: the core group."""
    kind: Kind
    """Kind of the objects."""
    name: AnyObjectName | None = None
    """Name of one object. Default: all of the kind."""
    always: Literal["Healthy"] | None = None
    """The verdict, whatever the object says."""
    failed: Matchers = ()
    """Failed if any of these matches. Judged first."""
    progressing: Matchers = ()
    """Progressing if any of these matches. Judged after failed."""
    healthy: Matchers = ()
    """Healthy if all of these match, else Progressing. Judged last."""


class CrdUpgradeRule(Api):
    """Changes the level of some checks for some CustomResourceDefinitions."""

    crd: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$")]
    """Name of the CustomResourceDefinition, or * for all."""
    checks: Annotated[tuple[CrdCheck, ...], Field(max_length=64, json_schema_extra=list_of("set"))] = ()
    """Names of the checks, as messages give them. Empty: all. What only warns by itself is raised only by its name."""
    paths: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\^")], ...],
        Field(max_length=32, json_schema_extra=list_of("set")),
    ] = ()
    """Nodes of the schema with all that is below them, as messages give them: ^.status. Empty: everywhere."""
    enforcement: Enforcement
    """Error: hold the CRD back. Warn: apply it and warn in status.warnings. None: do not check."""


class CrdUpgradeSafety(Api):
    """What is done with a CustomResourceDefinition whose change would break its users or existing objects."""

    enforcement: Enforcement = "Error"
    """Level of the checks that no rule names. Error: hold the CRD back, and what needs it. Warn: apply it and warn in
    status.warnings. None: do not check."""
    rules: Annotated[tuple[CrdUpgradeRule, ...], Field(max_length=64, json_schema_extra=list_of("atomic"))] = ()
    """Exceptions; the last one that matches counts."""
