"""The files in `metadata/`: the package name, properties and dependencies.

Read as Go reads them into structures: only known keys count, whatever their case; where a string is expected, numbers
and booleans become text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.budget import TextBudget
from controller.formats.recognition import ANNOTATIONS
from controller.formats.registry_v1.bundle.layout import DEPENDENCIES, PROPERTIES, Layout
from controller.formats.registry_v1.bundle.typed import Reader, WrongTypeError, parse_types, write_path
from controller.formats.yaml.manifests import read_documents

_PACKAGE = "operators.operatorframework.io.bundle.package.v1"
_TYPES = parse_types(
    {
        "AnnotationsFile": {"annotations": "Annotations"},
        "Annotations": {_PACKAGE: "text"},
        "PropertiesFile": {"properties": "[]Property"},
        "DependenciesFile": {"dependencies": "[]Property"},
        "Property": {"type": "!text", "value": "any"},
    }
)


def read_package(layout: Layout, budget: TextBudget) -> str:
    """Return the name of the package; empty if `annotations.yaml` has none.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded).
    """
    package: str = _read(layout, ANNOTATIONS, "AnnotationsFile", budget).get("annotations", {}).get(_PACKAGE, "")
    return package


def read_properties(layout: Layout, budget: TextBudget) -> tuple[Mapping[str, Any], ...]:
    """Return the properties, `{type, value}` each.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded).
    """
    return tuple(_read(layout, PROPERTIES, "PropertiesFile", budget).get("properties", ()))


def read_dependencies(layout: Layout, budget: TextBudget) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """Return the dependencies, and a warning if they cannot be read: they never fail a bundle."""
    try:
        read = _read(layout, DEPENDENCIES, "DependenciesFile", budget).get("dependencies", ())
    except BundleError as error:
        return (), (error.message,)
    return tuple(read), ()


def _read(layout: Layout, file: str, type_: str, budget: TextBudget) -> dict[str, Any]:
    data = layout.read_optional(file, budget)
    values = [document.value for document in read_documents(data, file, strict=False, budget=budget)]
    if not values:
        return {}
    try:
        result: dict[str, Any] = Reader(_TYPES, folds_case=True).read(values[0], type_)
    except WrongTypeError as error:
        place = ": ".join(part for part in (file, write_path(error.path)) if part)
        raise BundleError(Reason.INVALID_BUNDLE, f"{place}: {error.problem}") from error
    return result
