"""Policies in the spec: drift, health checks and CRD upgrade safety. They are data, but for expressions in CEL."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rukpak.api.v1alpha2.fields import (
    FIELD_PATH_RULE,
    AnyObjectName,
    Api,
    AtomicList,
    Expression,
    FieldPath,
    Group,
    Kind,
    SetList,
    model_rules,
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
    Field(min_length=1, max_length=512),
    rules(
        FIELD_PATH_RULE,
        rule(
            "!(self in ['apiVersion', 'kind', 'metadata', 'metadata.name', 'metadata.namespace'])",
            "must not be a field that identifies the object",
        ),
    ),
]


class IgnoreRule(Api):
    """Fields that are set when an object is created, and that any client may change afterwards."""

    group: Group = ""
    """API group of the objects; empty: the core group."""
    kind: Kind
    """Kind of the objects."""
    name: AnyObjectName | None = None
    """Name of a single object. Default: all objects of the kind."""
    paths: Annotated[SetList[IgnoredPath], Field(min_length=1, max_length=32)]
    """Dotted paths of the fields, such as spec.replicas; a key that contains dots is written as ["quoted.key"]."""
    optional: bool = False
    """Whether it may match no object of the bundle. Otherwise that is a warning."""


class Drift(Api):
    """What to do when another client changes a managed object."""

    mode: Literal["Repair", "Report"] = "Repair"
    """Repair: revert the change immediately. Report: only report it in the condition Drifted."""
    ignore: Annotated[AtomicList[IgnoreRule], Field(max_length=64)] = ()
    """Fields that are set at creation and not repaired afterwards. A single object can list its own in the annotation
    core.rukpak.io/ignore-fields, as comma-separated paths."""


class OnFailure(Api):
    """What to do when an upgrade has failed."""

    action: Literal["Stay", "RollBack"] = "Stay"
    """Stay: keep the failed revision, and keep trying. RollBack: apply the last revision that was healthy again, and do
    not retry the failed one until the spec or the pins of the sources change. A first installation is never rolled
    back, nor is one that replaced a revision that was rolled back, unless it was healthy in between."""


class ConditionMatcher(Api):
    """Matches a condition in status.conditions of the object."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Status that the condition must have, quoted in YAML."""
    reasons: Annotated[SetList[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=32)] = ()
    """Reasons, one of which the condition must have. Empty: any."""


class FieldMatcher(Api):
    """Matches the value of a field of the object. A missing field matches nothing."""

    model_config = model_rules(
        rule("has(self.__in__) != has(self.equalsPath)", "set exactly one of in and equalsPath", ".equalsPath")
    )
    path: FieldPath
    """Dotted path of the field, such as status.phase; a key that contains dots is written as ["quoted.key"]. Custom
    resources are read at their storage version."""
    any_of: Annotated[SetList[Annotated[str, Field(max_length=1024)]], Field(min_length=1, max_length=32)] | None = None
    """Values, one of which the field must have. Numbers and booleans are written as text: "3", "true"."""
    equals_path: FieldPath | None = None
    """Path of another field of the object that must have the same value."""


class Matcher(Api):
    """Matches an object by a condition or by a field."""

    model_config = model_rules(
        rule("has(self.condition) != has(self.field)", "set exactly one of condition and field", ".condition")
    )
    condition: ConditionMatcher | None = None
    """Matches by a condition in status.conditions."""
    field: FieldMatcher | None = None
    """Matches by the value of a field."""


class HealthExpressions(Api):
    """Expressions in CEL about the object, which is self, and its apiVersion, kind, metadata, spec, status and data."""

    model_config = model_rules(
        rule(
            "has(self.inProgress) || has(self.failed) || has(self.current)",
            "set at least one of inProgress, failed and current",
        )
    )
    in_progress: Expression | None = None
    """The object is progressing if this is true. Evaluated first."""
    failed: Expression | None = None
    """The object is failed if this is true. Evaluated after inProgress."""
    current: Expression | None = None
    """The object is healthy if this is true, otherwise progressing. Evaluated last. Default: true."""


Matchers = Annotated[AtomicList[Matcher], Field(max_length=16)]


class HealthCheck(Api):
    """How to assess the health of a kind, in place of its built-in rule."""

    model_config = model_rules(
        rule(
            "has(self.always) != (has(self.failed) || has(self.progressing) || has(self.healthy)"
            " || has(self.expressions))",
            "set either always, or at least one of failed, progressing, healthy and expressions",
            ".always",
        )
    )
    group: Group = ""
    """API group of the objects; empty: the core group."""
    kind: Kind
    """Kind of the objects."""
    name: AnyObjectName | None = None
    """Name of a single object. Default: all objects of the kind."""
    always: Literal["Healthy"] | None = None
    """The result, regardless of the state of the object."""
    failed: Matchers = ()
    """The object is failed if any of these matches. Evaluated first."""
    progressing: Matchers = ()
    """The object is progressing if any of these matches. Evaluated after failed."""
    healthy: Matchers = ()
    """The object is healthy if all of these match, otherwise progressing. Evaluated last."""
    expressions: HealthExpressions | None = None
    """Expressions in CEL, evaluated if the object is healthy by the matchers above, or there are none. One that cannot
    be evaluated, since a field is missing, is not met yet: the object is progressing, unless failed is true."""
    optional: bool = False
    """Whether it may match no object of the bundle. Otherwise that is a warning."""


class CrdUpgradeRule(Api):
    """Sets the level of some checks for some CustomResourceDefinitions."""

    crd: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$")]
    """Name of the CustomResourceDefinition, or * for all."""
    checks: Annotated[SetList[CrdCheck], Field(max_length=64)] = ()
    """Names of the checks, as in messages. Empty: all. Checks that only warn by default must be named to be raised."""
    paths: Annotated[
        SetList[Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\^")]], Field(max_length=32)
    ] = ()
    """Paths of the schema, as in messages, including everything below them: ^.status. Empty: all paths."""
    enforcement: Enforcement
    """Error: do not apply the CRD. Warn: apply it and add a warning to status.warnings. None: do not check."""


class CrdUpgradeSafety(Api):
    """What to do with a change of a CustomResourceDefinition that would break its users or existing objects."""

    enforcement: Enforcement = "Error"
    """Level of the checks that no rule matches. Error: do not apply the CRD, nor objects that need it. Warn: apply it
    and add a warning to status.warnings. None: do not check."""
    rules: Annotated[AtomicList[CrdUpgradeRule], Field(max_length=64)] = ()
    """Exceptions. If several match, the last one wins."""
