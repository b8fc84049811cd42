"""A BundleDeployment in a file, validated as far as possible without an API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from api.v1alpha2.reading import describe, problems_of
from api.v1alpha2.schema import open_api_schema
from api.v1alpha2.types import BundleDeployment
from controller.formats.yaml.manifests import read_documents

_API_VERSION = f"{names.GROUP}/v1alpha2"


def read(data: bytes, file: str, overrides: Mapping[str, Any]) -> BundleDeployment:
    """Return the BundleDeployment of a file; overrides are `name`, and `spec` with fields that replace its own.

    Raises: BundleError (InvalidBundle: not YAML; InvalidConfig: not exactly one valid BundleDeployment).
    """
    value = find(data, file)
    metadata = {**(value.get("metadata") or {}), **({"name": overrides["name"]} if overrides["name"] else {})}
    value = {**value, "metadata": metadata, "spec": {**(value.get("spec") or {}), **overrides["spec"]}}
    problems = [*_unknown(open_api_schema()["properties"]["spec"], value["spec"], "spec")]
    try:
        deployment = BundleDeployment.model_validate(value)
    except ValidationError as error:
        problems += map(describe, problems_of(error))
    if problems:
        raise _invalid("\n".join(f"{file}: {problem}" for problem in problems))
    return deployment


def find(data: bytes, file: str) -> dict[str, Any]:
    """Return the BundleDeployment of a file as it is written there, unchecked.

    Raises: BundleError (InvalidBundle: not YAML; InvalidConfig: not exactly one).
    """
    found: list[dict[str, Any]] = [each.value for each in read_documents(data, file) if _is_one(each.value)]
    if len(found) != 1:
        raise _invalid(f"{file}: contains {len(found)} objects of kind {_API_VERSION} {names.KIND}; must contain one")
    return found[0]


def _is_one(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == (_API_VERSION, names.KIND)


def _invalid(message: str) -> BundleError:
    return BundleError(Reason.INVALID_CONFIG, message)


def _unknown(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    """Yield an error for each field that the API server would reject as unknown."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(schema.get("items") or {}, item, f"{path}[{index}]")
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return
    for key, member in value.items():
        if key in properties:
            yield from _unknown(properties[key], member, f"{path}.{key}")
        else:
            yield f'{path}.{key}: unknown field; see "kubectl explain bd.spec"'
