"""Building blocks of the API's fields: the base model, constrained strings, CEL rules, durations, references.

Every string, list and map has a maximum: without one the API server estimates CEL rules as too expensive. Both the API
server (RE2) and pydantic (Rust) read the patterns, so character classes that differ between them, such as backslash-s,
are spelled out. `kubectl apply` shows the messages of rules, so each rule names its field by `fieldPath` or is on the
field itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

RULES = "x-kubernetes-validations"
MAP_TYPE = "x-kubernetes-map-type"

# Names that to_camel gets wrong, Python keywords, and a name that pydantic uses.
_WIRE_NAMES = {
    "insecure_skip_tls_verify": "insecureSkipTLSVerify",
    "any_of": "in",
    "from_": "from",
    "json_patch": "json",
    "namespace_uid": "namespaceUID",
    "service_account_uid": "serviceAccountUID",
    "signature_url": "signatureURL",
}

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+"
QUALIFIED_NAME = rf"^{_DOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
"""`<domain>/<name>`: an out-of-tree plug-in."""

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_FIELD_PATH_STEP = r'([A-Za-z0-9_$-]+|\["[^"\\]+"\])'
FIELD_PATH = rf'^{_FIELD_PATH_STEP}(\.[A-Za-z0-9_$-]+|\["[^"\\]+"\])*$'

_FIELD_PATH_KEYS = re.compile(r'\["([^"\\]+)"\]|([A-Za-z0-9_$-]+)')

# At most six digits, and twenty characters in all: no value overflows the int64 of nanoseconds that CEL uses.
_DURATION_PART = r"[0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h)"
_DURATION = rf"^({_DURATION_PART})+$"
_DURATION_OR_EMPTY = rf"^({_DURATION_PART})*$"
_DURATION_ELEMENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def wire_name(field: str) -> str:
    """Return the JSON name of a field."""
    return _WIRE_NAMES.get(field) or to_camel(field)


def rule(expression: str, message: str, field: str = "") -> dict[str, str]:
    """Return one CEL validation; `field` is the path that it reports, relative to the schema it is in."""
    found = {"rule": expression, "message": message}
    return {**found, "fieldPath": field} if field else found


def _extra(*validations: dict[str, str]) -> dict[str, Any]:
    # In the form that pydantic adds to a JSON schema.
    return {RULES: list(validations)}


def rules(*validations: dict[str, str]) -> Any:
    """Return CEL validations of a field, as an annotation of its type."""
    return Field(json_schema_extra=_extra(*validations))


def model_rules(*validations: dict[str, str]) -> ConfigDict:
    """Return CEL validations of a model, as its configuration."""
    return ConfigDict(json_schema_extra=_extra(*validations))


def plug_in_kind(built_in: Sequence[str]) -> Any:
    """Return what is required of the name of a plug-in, as an annotation of its type; `built_in` are ours."""
    expression = f"self in {list(built_in)} || self.matches(r'{QUALIFIED_NAME}')"
    message = f"must be {', '.join(built_in)}, or the <domain>/<name> of an installed plug-in"
    return Field(min_length=1, max_length=317, json_schema_extra=_extra(rule(expression, message)))


def block_rule(kind: str) -> dict[str, str]:
    """Return the validation of a block that belongs to the kind of its name."""
    return rule(
        f"has(self.{kind}) == (self.kind == '{kind}')", f'must be set when kind is "{kind}", and only then', f".{kind}"
    )


def parameters_rule(built_in: Sequence[str]) -> dict[str, str]:
    """Return the validation of `parameters`, which belongs to the kinds that are not built in."""
    problem = "is only for kinds that are not built in; set the block that kind names"
    return rule(f"!has(self.parameters) || !(self.kind in {list(built_in)})", problem, ".parameters")


def list_of(list_type: str, *keys: str) -> Any:
    """Return how server-side apply merges a list (atomic, set, map), as an annotation of its type."""
    found: dict[str, Any] = {"x-kubernetes-list-type": list_type}
    return Field(json_schema_extra={**found, "x-kubernetes-list-map-keys": list(keys)} if keys else found)


Item = TypeVar("Item")
AtomicList = Annotated[tuple[Item, ...], list_of("atomic")]
"""A list that server-side apply replaces as a whole."""
SetList = Annotated[tuple[Item, ...], list_of("set")]
"""A list whose items are unique and that server-side apply merges."""


def parse_duration(text: str) -> float:
    """Return the seconds of a duration in Go's notation: 30s, 10m, 1h30m, 500ms.

    Raises: ValueError if it is not a duration, or empty.
    """
    if not re.fullmatch(_DURATION, text):
        raise ValueError(f'"{text}" is not a duration; write it like 30s, 10m or 1h30m')
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_ELEMENT.findall(text))


def parse_field_path(text: str) -> tuple[str, ...]:
    """Return the keys of a dotted path; a key that contains dots is written as ["quoted.key"].

    Raises: ValueError if it is not a field path.
    """
    if not re.fullmatch(FIELD_PATH, text):
        raise ValueError(f"'{text}' is not a field path; write it like spec.a[\"quoted.key\"].b")
    return tuple(quoted or plain for quoted, plain in _FIELD_PATH_KEYS.findall(text))


def _for_durations(expression: str) -> str:
    # The pattern refuses malformed durations; CEL would fail on them.
    return f"!self.matches(r'{_DURATION}') || {expression}"


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api(BaseModel):
    """The base of every model: camelCase on the wire, frozen.

    Unknown fields are ignored: the API server already refuses or prunes them, and an older controller may read objects
    with newer fields.
    """

    model_config = ConfigDict(
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        extra="ignore",
        frozen=True,
        defer_build=True,  # most programs use few models, and whoever uses the largest builds its parts with it
    )


class Atomic(Api):
    """The base of models whose objects server-side apply replaces as a whole."""

    model_config = ConfigDict(json_schema_extra={MAP_TYPE: "atomic"})


Timestamp = Annotated[AwareDatetime, PlainSerializer(_timestamp, return_type=str, when_used="json")]
"""A time, written in UTC and whole seconds."""

Namespace = Annotated[str, Field(min_length=1, max_length=63, pattern=_DNS_LABEL)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_DNS_SUBDOMAIN)]
ObjectNameOrEmpty = Annotated[str, Field(max_length=253, pattern=rf"^$|{_DNS_SUBDOMAIN}")]
AnyObjectName = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of an object of any kind: some (ClusterRole) allow more than DNS does."""

Group = ObjectNameOrEmpty
Kind = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")]
FIELD_PATH_RULE = rule(
    f"self.matches(r'{FIELD_PATH}')",
    'must be a dotted path like spec.a["quoted.key"].b, without wildcards',
)
FieldPathPattern = Annotated[str, Field(min_length=1, max_length=512, pattern=FIELD_PATH)]
"""A field path in a list of lists, for which a CEL rule would be estimated as too expensive."""
FieldPath = Annotated[
    str,
    Field(min_length=1, max_length=512),
    rules(FIELD_PATH_RULE),
]
Expression = Annotated[str, Field(min_length=1, max_length=2048)]
"""An expression in CEL that is true or false. The controller checks it: rules of CRDs cannot."""
Digest = Annotated[str, Field(max_length=160)]
RevisionDigest = Annotated[str, Field(max_length=71, pattern=r"^$|^sha256:[0-9a-f]{64}$")]
"""A revision that a user names."""

Duration = Annotated[
    str,
    Field(min_length=1, max_length=20, pattern=_DURATION),
    rules(rule(_for_durations("duration(self) > duration('0s')"), "must be longer than 0s")),
]
PollInterval = Annotated[
    str,
    Field(max_length=20, pattern=_DURATION_OR_EMPTY),
    rules(rule(_for_durations("duration(self) >= duration('30s')"), "must be at least 30s, or empty for never")),
]

Directory = Annotated[
    str,
    Field(max_length=512),
    rules(
        rule(
            # './x', 'x//y', 'x/' and '/x' would be second names of one directory.
            "self == '' || self.split('/').all(element, !(element in ['', '.', '..']))",
            'must be a relative path like foo/bar: no "/" at either end, no empty, "." or ".." elements',
        ),
        rule(r"!self.matches(r'[\\\x00-\x1f\x7f]')", "must not contain backslashes or control characters"),
    ),
]
"""A directory below a root; the root is ''."""
RepositoryDirectory = Annotated[
    str,
    Field(max_length=512),
    rules(
        rule(
            r"!self.matches(r'^/|//|(^|/)\.\.(/|$)|/\.(/|$)')",
            'must be a relative path like foo/bar: no "/" at its beginning, no "//", no ".." element',
        ),
        rule(r"!self.matches(r'[\\\x00-\x1f\x7f]')", "must not contain backslashes or control characters"),
    ),
]
"""A directory of a repository, also written as ./foo/bar/; the root is '' or '.'."""


_API_VERSION = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$"
# More than DNS allows, as of ClusterRoles, but no step of a path.
_OBJECT_NAME = r"^[A-Za-z0-9:][-A-Za-z0-9.:_]*$"


class DeploymentReference(Api):
    """Another BundleDeployment."""

    name: ObjectName
    """Name of the BundleDeployment."""


class SecretReference(Api):
    """A Secret."""

    namespace: Namespace | None = None
    """Namespace of the Secret. Default: spec.installNamespace, which is then required."""
    name: ObjectName
    """Name of the Secret."""


class ConfigMapReference(Api):
    """A ConfigMap in the install namespace."""

    name: ObjectName
    """Name of the ConfigMap, in spec.installNamespace."""


class DependencyReference(Api):
    """A BundleDeployment, or any other object, that must be ready before a new revision is applied."""

    model_config = model_rules(
        rule("has(self.apiVersion) == has(self.kind)", "set both apiVersion and kind, or neither", ".kind"),
        rule(
            "has(self.kind) || !(has(self.__namespace__) || has(self.ready))",
            "namespace and ready are of other objects than BundleDeployments: set apiVersion and kind, too",
            ".kind",
        ),
        rule(
            "!has(self.kind) || self.kind != 'BundleDeployment'",
            "name a BundleDeployment without apiVersion and kind",
            ".kind",
        ),
    )
    api_version: Annotated[str, Field(min_length=1, max_length=317, pattern=_API_VERSION)] | None = None
    """API group and version of an object. Default: it is a BundleDeployment."""
    kind: Kind | None = None
    """Kind of the object."""
    name: Annotated[str, Field(min_length=1, max_length=253, pattern=_OBJECT_NAME)]
    """Name of the BundleDeployment or object."""
    namespace: Namespace | None = None
    """Namespace of the object, if its kind has one. Default: the install namespace."""
    ready: Expression | None = None
    """An expression in CEL about the object, as in healthChecks: it is ready if this is true. Default: it is ready if
    it is healthy, by healthChecks and the built-in rules."""


class ConfigReference(Api):
    """A key of a ConfigMap or Secret in the install namespace, read as the account that applies the objects."""

    kind: Literal["ConfigMap", "Secret"]
    """ConfigMap or Secret."""
    name: ObjectName
    """Name of the object, in spec.installNamespace."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = "values.yaml"
    """Key in its data."""
    path: Annotated[
        str,
        Field(max_length=512),
        rules(
            rule(
                f"self == '' || self.matches(r'{FIELD_PATH}')",
                'must be empty or a dotted path like auth["quoted.key"].password',
            )
        ),
    ] = ""
    """Where to put the value, as it is, as one string: database.password. Empty: the value is YAML, and a mapping."""
    optional: bool = False
    """Whether the object or the key may be missing. It is used once it exists."""
