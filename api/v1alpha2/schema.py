"""The CustomResourceDefinition, generated from the models of `types.py`.

pydantic generates JSON schema; the API server accepts only structural schemas: everything inlined, no null, no unions
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema).
Not here: writing files (`hack/generate`).
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from rukpak.api.names import DEFINITION, GROUP, KIND, PLURAL
from rukpak.api.v1alpha2.conditions import ConditionType
from rukpak.api.v1alpha2.fields import MAP_TYPE, RULES
from rukpak.api.v1alpha2.types import BundleDeployment, Status

Schema = dict[str, Any]

ANY = "x-kubernetes-preserve-unknown-fields"
"""Without a type next to it: any value."""

_COPIED = frozenset(
    {
        "type",
        "format",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        MAP_TYPE,
        RULES,
        ANY,
    }
)
"""Keywords with the same meaning in both."""

_REWRITTEN = frozenset({"description", "const", "properties", "items", "additionalProperties", "default"})
"""Keywords with a different form, see `structural`."""

_WITHOUT_COUNTERPART = frozenset({"title", "$defs"})

_OBJECT_PROPERTIES: Schema = {
    "apiVersion": {
        "type": "string",
        "description": "Version of the schema of this object: core.rukpak.io/v1alpha2.",
    },
    "kind": {"type": "string", "description": "Kind of this object: BundleDeployment."},
    # The name becomes the value of a label, which has at most 63 characters.
    "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
}


def crd() -> Schema:
    """Return the CustomResourceDefinition as plain JSON."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["bd", "bds"],
            },
            "scope": "Cluster",
            "versions": [_version()],
        },
    }


def _version() -> Schema:
    return {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": open_api_schema()},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column("Format", ".spec.format", "How the content is rendered to objects"),
            _column("Paused", ".spec.paused", "Whether changes to the cluster are paused", kind="boolean"),
            _column("Ready", _of_ready("status"), "Whether the desired revision is installed and healthy"),
            _column("Reason", _of_ready("reason"), "Reason of the condition Ready: what to look at first"),
            _column("Revision", ".status.display.revision", "The desired revision"),
            _column("Objects", ".status.display.objects", "Healthy objects out of all"),
            _column("Age", ".metadata.creationTimestamp", "Time since creation", kind="date"),
            _column("Sources", ".status.display.sources", "What the installed sources were resolved to", priority=1),
            _column("Drifted", ".status.objects.drifted", "Modified, unrepaired objects", kind="integer", priority=1),
            _column("Message", _of_ready("message"), "Message of the condition Ready", priority=1),
        ],
    }


def _of_ready(field: str) -> str:
    return f".status.conditions[?(@.type=='{ConditionType.READY}')].{field}"


def _column(name: str, path: str, description: str, *, kind: str = "string", priority: int = 0) -> Schema:
    column = {"name": name, "type": kind, "description": description, "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def open_api_schema() -> Schema:
    """Return the structural schema of a BundleDeployment."""
    emitted = BundleDeployment.model_json_schema(by_alias=True, schema_generator=_Described)
    found = structural(emitted, emitted["$defs"])
    status = _without_defaults(found["properties"]["status"])
    found["properties"] = {
        **_OBJECT_PROPERTIES,
        "spec": found["properties"]["spec"],
        "status": {**status, "default": {"observedGeneration": Status().observed_generation}},
    }
    return {**found, "required": ["spec"]}


class _Described(GenerateJsonSchema):
    """Adds the descriptions of fields."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        for field, text in find_descriptions(model).items():
            found["properties"][model.model_fields[field].alias]["description"] = text
        return found


def structural(emitted: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Return the structural schema for one that pydantic generated.

    Args:
        emitted: a schema of `model_json_schema`, or a part of one.
        definitions: the targets of `$ref`, by name.

    Raises: ValueError if there is no structural form: a union, no type, or a keyword that would be lost.
    """
    schema = _without_null(_dereferenced(emitted, definitions), definitions)
    lost = schema.keys() - _COPIED - _REWRITTEN - _WITHOUT_COUNTERPART
    if lost or not ("type" in schema or schema.get(ANY)):
        raise ValueError(f"no structural form for {sorted(lost)}, or no type: {schema}")
    children = _children(schema, definitions)
    return {
        **{key: value for key, value in schema.items() if key in _COPIED},
        **_rewritten(schema),
        **children,
        **_default(schema, children.get("properties", {})),
    }


def _dereferenced(emitted: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    # Keywords next to the reference take precedence.
    own = dict(emitted)
    name = own.pop("$ref", "").rsplit("/", 1)[-1]
    return {**definitions[name], **own} if name else own


def _without_null(schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    # The API server drops such nulls.
    if "anyOf" not in schema:
        return schema
    choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
    if len(choices) != 1:
        raise ValueError(f"no structural form for a union: {schema['anyOf']}")
    own = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**_dereferenced(choices[0], definitions), **own}


def _rewritten(schema: Schema) -> Schema:
    found: Schema = {}
    if "description" in schema:
        found["description"] = " ".join(schema["description"].split())
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if schema.get("type") == "integer":
        found["format"] = "int64"
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        found["additionalProperties"] = structural(additional, {})
    if additional is True:
        found[ANY] = True
    return found


def _children(schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    found: Schema = {}
    if "properties" in schema:
        members = schema["properties"].items()
        found["properties"] = {name: structural(member, definitions) for name, member in members}
    if "items" in schema:
        items = structural(schema["items"], definitions)
        found["items"] = _with_key_defaults(items, schema.get("x-kubernetes-list-map-keys", []))
    return found


def _with_key_defaults(items: Schema, keys: Sequence[str]) -> Schema:
    # The API server requires a default.
    optional = set(keys) - set(items.get("required", []))
    if not optional:
        return items
    defaults = {name: {**items["properties"][name], "default": ""} for name in optional}
    return {**items, "properties": {**items["properties"], **defaults}}


def _default(schema: Schema, members: Mapping[str, Schema]) -> Schema:
    """Return the default that the API server fills in.

    Empty defaults are left out, since they would only clutter every object. An object defaults to {}, which the
    defaults of its members complete, unless they have none.
    """
    default = schema.get("default")
    if default in (None, "", [], {}):
        return {}
    if "properties" not in schema:
        return {"default": default}
    return {"default": {}} if any("default" in member for member in members.values()) else {}


def _without_defaults(schema: Schema) -> Schema:
    found = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in schema:
        found["properties"] = {name: _without_defaults(member) for name, member in schema["properties"].items()}
    if "items" in schema:
        found["items"] = _without_defaults(schema["items"])
    return found


# Pydantic's `use_attribute_docstrings` reads descriptions whenever the models are imported, which took a sixth of the
# start of every program. These are read when a schema is generated.


def find_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions by field, also of inherited fields; a field without a text has none.

    Raises: OSError if there is no source.
    """
    bases = [each for each in reversed(model.__mro__) if issubclass(each, BaseModel) and each is not BaseModel]
    return {field: text for each in bases for field, text in _own_descriptions(each).items()}


def _own_descriptions(model: type[BaseModel]) -> dict[str, str]:
    definition = _definitions(model.__module__).get(model.__name__)
    if definition is None:
        raise OSError(f"no source of {model.__name__}")
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


@cache
def _definitions(module: str) -> dict[str, ast.ClassDef]:
    # Parsed once: `inspect.getsource` does so for each class.
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
