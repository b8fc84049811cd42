"""A bundle as values (upstream's `source.go`). Objects are selected by `kind`, whatever their group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.errors import BundleError
from api.plugins import MEBIBYTE, Limits
from api.v1alpha2.conditions import Reason
from controller.formats.budget import TextBudget
from controller.formats.objects import Object
from controller.formats.registry_v1.bundle.layout import MANIFESTS, Layout
from controller.formats.registry_v1.bundle.metadata import read_dependencies, read_package, read_properties
from controller.formats.registry_v1.bundle.properties import merge_properties
from controller.formats.registry_v1.bundle.service_version import ServiceVersion, read_service_version
from controller.formats.registry_v1.bundle.typed import (
    Reader,
    WrongTypeError,
    kubernetes_types,
    write_path,
)
from controller.formats.yaml.manifests import Document, end_last_line, read_documents

SERVICE_VERSION, DEFINITION = "ClusterServiceVersion", "CustomResourceDefinition"
_OLD_DEFINITION = "apiextensions.k8s.io/v1beta1"
# No API server accepts a larger ClusterServiceVersion.
_HINT_LIMITS = Limits(manifest_bytes=2 * MEBIBYTE, text_bytes=4 * MEBIBYTE, nodes=100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One bundle."""

    package: str
    service_version: ServiceVersion
    definitions: tuple[Object, ...]
    """CustomResourceDefinitions as Go writes them, in file order."""
    others: tuple[Object, ...]
    """The other objects, unchanged, in file order."""
    properties: tuple[Mapping[str, Any], ...]
    dependencies: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...]
    """Unknown fields that were removed, and optional files that cannot be read."""


@dataclass(frozen=True, slots=True)
class _Found:
    file: str
    manifest: Object


def read_bundle(layout: Layout, budget: TextBudget) -> Bundle:
    """Return the bundle in a folder.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded), LargeTextError.
    """
    package = read_package(layout, budget)
    properties = read_properties(layout, budget)
    found = list(_read_manifests(layout, layout.manifests(), budget))
    version = _only_service_version([item for item in found if item.manifest["kind"] == SERVICE_VERSION])
    definitions, vanished = _read_definitions([item for item in found if item.manifest["kind"] == DEFINITION])
    dependencies, unreadable = read_dependencies(layout, budget)
    return Bundle(
        package=package,
        service_version=replace(version, annotations=merge_properties(version.annotations, properties)),
        definitions=definitions,
        others=tuple(item.manifest for item in found if item.manifest["kind"] not in (SERVICE_VERSION, DEFINITION)),
        properties=properties,
        dependencies=dependencies,
        warnings=(*_warn_of_unknown("ClusterServiceVersion", version.unknown_fields), *vanished, *unreadable),
    )


def read_namespace_hints(layout: Layout) -> tuple[str, Mapping[str, str]]:
    """Return the package name and the annotations of the CSV, without reading the rest of the bundle.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded).
    """
    budget = TextBudget(_HINT_LIMITS)
    package = read_package(layout, budget)
    files = (name for name in layout.manifests() if layout.mentions(name, SERVICE_VERSION.encode()))
    found = _read_manifests(layout, files, budget)
    version = _only_service_version([item for item in found if item.manifest["kind"] == SERVICE_VERSION])
    return package, version.annotations


def _read_manifests(layout: Layout, files: Iterator[str], budget: TextBudget) -> Iterator[_Found]:
    for file in files:
        for document in _read_documents(layout, file, budget):
            for manifest in _expand(document):
                yield _Found(file, manifest)


def _expand(document: Document) -> Sequence[Object]:
    """Return the objects in a document: everything with `items` is a list, also within a list."""
    waiting, result = [document.value], []
    for value in waiting:  # grows while it is read: nested lists are expanded after their siblings
        if not isinstance(value, dict) or not isinstance(kind := value.get("kind"), str) or not kind:
            raise _unparsable(document.file, f"line {document.line}: object without kind; set apiVersion and kind")
        if isinstance(value.get("items"), list):
            waiting += [_inherit_kind(item, value) for item in value["items"]]
        else:
            result.append(value)
    return result


def _inherit_kind(item: Any, parent: Mapping[str, Any]) -> Any:
    """Return an item of a typed list with the kind that client-go derives from the list."""
    kind = parent["kind"]
    if not isinstance(item, dict) or item.get("kind") or not kind.endswith("List") or kind == "List":
        return item
    return {"apiVersion": parent.get("apiVersion"), **item, "kind": kind.removesuffix("List")}


def _only_service_version(found: Sequence[_Found]) -> ServiceVersion:
    if not found:
        raise BundleError(Reason.INVALID_BUNDLE, f'no ClusterServiceVersion found in "{MANIFESTS}"')
    if len(found) > 1:
        files = " and ".join(f'"{file}"' for file in dict.fromkeys(item.file for item in found))
        raise BundleError(
            Reason.INVALID_BUNDLE, f"{files}: {len(found)} ClusterServiceVersions; a bundle has one, remove the rest"
        )
    try:
        return read_service_version(found[0].manifest)
    except WrongTypeError as error:
        raise _wrong_type(found[0].file, error) from error


def _read_definitions(found: Sequence[_Found]) -> tuple[tuple[Object, ...], tuple[str, ...]]:
    old = [item.file for item in found if item.manifest.get("apiVersion") == _OLD_DEFINITION]
    if old:
        files = ", ".join(f'"{file}"' for file in dict.fromkeys(old))
        raise BundleError(
            Reason.INVALID_BUNDLE,
            f"{files}: {_OLD_DEFINITION} is no longer served by Kubernetes; use apiextensions.k8s.io/v1",
        )
    definitions, warnings = [], []
    for item in found:
        reader = Reader(kubernetes_types())
        try:
            value = reader.read({key: part for key, part in item.manifest.items() if key != "status"}, DEFINITION)
        except WrongTypeError as error:
            raise _wrong_type(item.file, error) from error
        definitions.append({key: part for key, part in value.items() if key != "status"})
        name = f"{DEFINITION} {value['metadata'].get('name', '')}"
        warnings += _warn_of_unknown(name, [write_path(path) for path in reader.unknown])
    return tuple(definitions), tuple(warnings)


def _warn_of_unknown(name: str, paths: Sequence[str]) -> list[str]:
    return [f"{name}: {path}: removed unknown field" for path in paths]


def _read_documents(layout: Layout, file: str, budget: TextBudget) -> Iterator[Document]:
    try:
        yield from read_documents(end_last_line(layout.read(file, budget)), file, strict=False, budget=budget)
    except BundleError as error:
        if error.reason is Reason.RENDER_LIMIT_EXCEEDED:
            raise
        raise _unparsable(file, f"line {error.message.removeprefix(f'{file}:')}") from error


def _wrong_type(file: str, error: WrongTypeError) -> BundleError:
    path = write_path(error.path)
    return _unparsable(file, f"{path}: {error.problem}" if path else error.problem)


def _unparsable(file: str, problem: str) -> BundleError:
    return BundleError(Reason.INVALID_BUNDLE, f'error parsing objects in "{file}": {problem}')
