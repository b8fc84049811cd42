"""Schemas of kinds, and what they find wrong with an object: Kubernetes' own, and those in CustomResourceDefinitions.

Those of Kubernetes come with kubernetes-validate; their strict form refuses unknown fields. The structural schema of a
CustomResourceDefinition becomes such a strict one. jsonschema checks values by both, with what Kubernetes means by
patterns and formats. Importing this module needs the extra `lint`.

Not here: CEL rules, keys of lists and what else needs an API server.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

import re2
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from kubernetes_validate import utils
from referencing import Registry, Resource

from rukpak.controller.cli.parser import suggest
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.objects import crd_specs, describe_type, describe_wrong_type
from rukpak.controller.untrusted import mapping

Kind: TypeAlias = tuple[str, str, str]
"""Group, version and kind."""
FieldPath: TypeAlias = tuple[str | int, ...]
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_NESTED = f"{_EXTENSIONS}Nested"
_SCHEMA: dict[str, Any] = {"$ref": f"#/$defs/{_NESTED}"}
# What the published schemas leave open, although the API server does not.
_CLOSED: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"], "format": "quantity"},
    f"{_EXTENSIONS}OrArray": _SCHEMA,
    f"{_EXTENSIONS}OrBool": {"if": {"type": "boolean"}, "else": _SCHEMA},
}
# Required by the schemas; but a Go program reads zero, false or nothing for them, which the API server accepts.
_MAY_BE_MISSING = {
    "CSIDriver": ("spec",),
    "CSINodeSpec": ("drivers",),
    "ControllerRevision": ("revision",),
    "CustomResourceDefinitionVersion": ("served", "storage"),
    "EndpointSlice": ("endpoints",),
    "HTTPHeader": ("value",),
    "ISCSIPersistentVolumeSource": ("lun",),
    "ISCSIVolumeSource": ("lun",),
    "LimitRangeSpec": ("limits",),
    "PodFailurePolicy": ("rules",),
    "PreferredSchedulingTerm": ("preference",),
    "PriorityClass": ("value",),
    "SleepAction": ("seconds",),
    "StatefulSetSpec": ("serviceName",),
    "Sysctl": ("value",),
    "TokenRequest": ("audience",),
}
_ARTICLES = {
    "array": "a list",
    "boolean": "a boolean",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
_MOST_WORDS = 20
"""Valid values that a message lists."""


def known_versions() -> list[str]:
    """Return the versions of Kubernetes with schemas, such as 1.36, the oldest first."""
    return list(dict.fromkeys(map(utils.major_minor, utils.all_versions())))


class Schemas:
    """What is known about kinds: those of one version of Kubernetes, and those that objects of a bundle define.

    Args:
        version: one of `known_versions`.
        objects: of the bundle.
    """

    def __init__(self, version: str, objects: Iterable[dict[str, Any]]) -> None:
        folder = f"v{next(full for full in utils.all_versions() if utils.major_minor(full) == version)}-local-strict"
        definitions = utils.schema_contents(f"kubernetes-json-schema/{folder}/_definitions.json", version)
        _correct(definitions["$defs"])
        self._registry = Resource.from_contents(definitions) @ Registry()
        self._references = f"{definitions['$id']}#/$defs/"
        self._built_in = {
            (each["group"], each["version"], each["kind"]): name
            for name, schema in definitions["$defs"].items()
            for each in schema.get("x-kubernetes-group-version-kind", ())
        }
        self._custom = dict(_custom_schemas(objects))
        self._validators: dict[Kind, Any] = {}

    def contains(self, kind: Kind) -> bool:
        """Return whether objects of a kind can be checked."""
        return kind in self._built_in or kind in self._custom

    def explain_unknown(self, kind: Kind) -> tuple[FieldPath, str] | None:
        """Return the field and the reason if a kind does not exist; None if it may be defined elsewhere."""
        group, version, name = kind
        prefix = f"{group}/" if group else ""
        known = self._custom.keys() | self._built_in.keys()
        if others := sorted(
            other for known_group, other, known_name in known if (known_group, known_name) == (group, name)
        ):
            return ("apiVersion",), f"{prefix}{version} has no kind {quote(name)}; use {prefix}{others[-1]}"
        kinds = [known_name for known_group, _, known_name in known if known_group == group]
        if kinds or "." not in group:  # a group without a dot can only be one of Kubernetes
            return ("kind",), f"{prefix}{version} has no kind {quote(name)}{suggest(name, kinds)}"
        return None

    def find_problems(self, kind: Kind, item: Mapping[str, Any]) -> list[tuple[FieldPath, str]]:
        """Return the path of each wrong field of an object and what is wrong, without values, which may be secret."""
        if kind not in self._validators:
            self._validators[kind] = self._validator(kind)
        errors = self._validators[kind].iter_errors(item)
        try:
            return sorted({problem for error in errors for problem in _describe(error)})
        except RecursionError:
            return [((), "is nested too deep to be checked")]

    def _validator(self, kind: Kind) -> Any:
        if kind in self._custom:
            schema = close(self._custom[kind], metadata={"$ref": self._references + _METADATA}, has_metadata=True)
        else:
            schema = {"$ref": self._references + self._built_in[kind]}
        return _Validator(schema, registry=self._registry, format_checker=_FORMATS)


def _correct(definitions: dict[str, dict[str, Any]]) -> None:
    definitions |= _CLOSED
    # Below "items" and "additionalProperties" of a CustomResourceDefinition, unknown fields are dropped without a word.
    nested = json.loads(json.dumps(definitions[_EXTENSIONS]).replace(f'{_EXTENSIONS}"', f'{_NESTED}"'))
    definitions[_NESTED] = {key: value for key, value in nested.items() if key != "additionalProperties"}
    for name, schema in list(definitions.items()):
        optional = _MAY_BE_MISSING.get(name.rpartition(".")[2], ())
        if optional:
            definitions[name] = schema | {
                "required": [field for field in schema.get("required", ()) if field not in optional]
            }


def _custom_schemas(objects: Iterable[dict[str, Any]]) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    for spec in crd_specs(objects):
        versions = spec.get("versions")
        for version in filter(lambda each: isinstance(each, dict), versions if isinstance(versions, list) else ()):
            schema = mapping(version, "schema", "openAPIV3Schema")
            if schema and version.get("served"):
                yield (
                    (str(spec.get("group")), str(version.get("name")), str(mapping(spec, "names").get("kind"))),
                    schema,
                )


_COPIED = (
    *("enum", "format", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties"),
    *("minimum", "multipleOf", "pattern", "required", "uniqueItems"),
)
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def close(schema: Any, *, metadata: Mapping[str, Any], has_metadata: bool = False, prunes: bool = True) -> Any:
    """Return a structural schema as a JSON schema that refuses the fields that the API server calls unknown.

    Args:
        schema: as in a CustomResourceDefinition (`openAPIV3Schema`).
        metadata: the schema of metadata of objects.
        has_metadata: whether the values are objects with apiVersion, kind and metadata.
        prunes: whether fields are refused; not in the parts of allOf, anyOf, oneOf and not, which only add conditions.
    """
    if not isinstance(schema, dict):
        return {}
    result: dict[str, Any] = {key: schema[key] for key in _COPIED if key in schema}
    for bound, exclusive in _BOUNDS:
        if schema.get(exclusive) is True and bound in result:
            result[exclusive] = result.pop(bound)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            result[key] = [close(each, metadata=metadata, prunes=False) for each in schema[key]]
    if "not" in schema:
        result["not"] = close(schema["not"], metadata=metadata, prunes=False)
    if "items" in schema:
        result["items"] = close(schema["items"], metadata=metadata, prunes=prunes)
    _add_types(result, schema)
    _add_properties(result, schema, metadata, has_metadata=has_metadata, prunes=prunes)
    return result


def _add_types(result: dict[str, Any], schema: Mapping[str, Any]) -> None:
    types = [schema["type"]] if "type" in schema else []
    if schema.get("x-kubernetes-int-or-string"):
        types = ["integer", "string"]
    if schema.get("nullable") and types:
        types.append("null")
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    if types:
        result["type"] = types


def _add_properties(
    result: dict[str, Any], schema: Mapping[str, Any], metadata: Mapping[str, Any], *, has_metadata: bool, prunes: bool
) -> None:
    given = mapping(schema, "properties")
    properties = {name: close(each, metadata=metadata, prunes=prunes) for name, each in given.items()}
    if has_metadata or schema.get("x-kubernetes-embedded-resource"):
        restricted = close(given.get("metadata"), metadata=metadata, prunes=False)
        properties = {
            **{name: {"type": "string"} for name in ("apiVersion", "kind")},
            **properties,
            "metadata": {"allOf": [metadata, restricted]},
        }
    if schema.get("x-kubernetes-embedded-resource"):
        result["required"] = [*result.get("required", ()), "apiVersion", "kind"]
    if properties:
        result["properties"] = properties
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        result["additionalProperties"] = close(others, metadata=metadata, prunes=prunes)
    elif prunes and properties and not (others or schema.get("x-kubernetes-preserve-unknown-fields")):
        # Where no field is known, the API server drops all and says nothing.
        result["additionalProperties"] = False


# values


@cache
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:  # the API server refuses the CustomResourceDefinition
        return None


def _check_pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    # Patterns are Go's, not Python's.
    compiled = _compile(pattern) if isinstance(value, str) else None
    if compiled and not compiled.search(value):
        yield ValidationError("pattern")


_Validator = validators.extend(Draft202012Validator, {"pattern": _check_pattern})
_FORMATS = FormatChecker(formats=())
# As ParseQuantity in k8s.io/apimachinery.
_QUANTITY = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _fits(bits: int) -> Callable[[Any], bool]:
    most = 1 << (bits - 1)
    return lambda value: not isinstance(value, int) or -most <= value < most


def _is_base64(value: Any) -> bool:
    if isinstance(value, str):
        base64.b64decode(re.sub(r"[\r\n]", "", value).encode(), validate=True)
    return True


def _is_quantity(value: Any) -> bool:
    return not isinstance(value, str) or bool(_QUANTITY.fullmatch(value))


def _is_time(value: Any) -> bool:
    if not isinstance(value, str):
        return True
    return bool(_TIME.fullmatch(value) and datetime.fromisoformat(value))


_FORMATS.checks("byte", raises=binascii.Error)(_is_base64)
_FORMATS.checks("date-time", raises=ValueError)(_is_time)
_FORMATS.checks("quantity")(_is_quantity)
_FORMATS.checks("int32")(_fits(32))
_FORMATS.checks("int64")(_fits(64))
_FORMAT_PROBLEMS = {
    "byte": "must be base64",
    "date-time": "must be a time such as 2006-01-02T15:04:05Z",
    "int32": "must fit 32 bits",
    "int64": "must fit 64 bits",
    "quantity": "must be a quantity such as 500m or 1Gi",
}
_BOUND_PROBLEMS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} keys",
    "maxProperties": "must have at most {} keys",
}


# messages


def _describe(error: Any) -> Iterator[tuple[FieldPath, str]]:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        for name in (each for each in error.instance if each not in known):
            yield (*path, name), f"unknown field{suggest(name, known)}"
    elif error.validator == "required":
        # There is an error for each missing field, and only its text says for which.
        missing = [name for name in error.validator_value if name not in error.instance]
        yield from (((*path, name), "required field is missing") for name in missing)
    else:
        yield path, _explain(error)


def _explain(error: Any) -> str:
    wanted = error.validator_value
    match error.validator:
        case "type":
            problem = _wrong_type(error.instance, _types_in([error.schema]))
        case "anyOf" | "oneOf" if all(each.keys() == {"type"} for each in wanted):
            problem = _wrong_type(error.instance, _types_in(wanted))
        case "enum":
            problem = _wrong_word(error.instance, wanted)
        case "pattern":
            problem = f"does not match the pattern {quote(wanted)}"
        case "format":
            problem = _FORMAT_PROBLEMS[wanted]
        case _:
            said = _BOUND_PROBLEMS.get(error.validator, f'does not match what the schema says in "{error.validator}"')
            problem = said.format(wanted)
    return problem


def _types_in(schemas: Iterable[Mapping[str, Any]]) -> list[str]:
    types = (each["type"] for each in schemas)
    return list(dict.fromkeys(kind for each in types for kind in ([each] if isinstance(each, str) else each)))


def _wrong_type(value: Any, types: list[str]) -> str:
    wanted = [_ARTICLES[each] for each in types if each != "null"]
    if wanted == [_ARTICLES["string"]]:
        return describe_wrong_type(value)
    is_quoted = isinstance(value, str) and value.lstrip("-").isdecimal() and "integer" in types
    return f"must be {' or '.join(wanted)}, not {describe_type(value)}{'; remove the quotes' * is_quoted}"


def _wrong_word(value: Any, words: list[Any]) -> str:
    shown = [json.dumps(each, ensure_ascii=False) for each in words if each is not None]
    more = f" and {len(shown) - _MOST_WORDS} more" if len(shown) > _MOST_WORDS else ""
    near = suggest(value, [each for each in words if isinstance(each, str)]) if isinstance(value, str) else ""
    return f"must be one of {', '.join(shown[:_MOST_WORDS])}{more}{near}"
