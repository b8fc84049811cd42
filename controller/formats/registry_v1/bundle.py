"""A bundle as values (upstream's `source.go`): a folder with `manifests/` and `metadata/annotations.yaml`.

It is the root of the tree or of a destination. Objects are selected by `kind`, whatever their group. The files in
`metadata/` (the package name, properties and dependencies) are read as Go reads them into structures: only known keys
count, whatever their case; where a string is expected, numbers and booleans become text. `metadata/properties.yaml` is
merged into the annotation `olm.properties`.

Of a ClusterServiceVersion, the fields that rendering uses are decoded like upstream's typed structure. Its install
modes say which namespaces an operator may watch (upstream's `render.go`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, ContentTree, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.manifests import (
    Document,
    InvalidDocumentError,
    TextBudget,
    end_last_line,
    read_documents,
)
from rukpak.controller.formats.objects import Object
from rukpak.controller.formats.recognition import (
    ANNOTATIONS,
    Archives,
    NoContentError,
    Recognized,
    covers,
    has_service_version,
    is_below,
    is_file,
    is_folder,
    is_other_bundle,
    join,
    mentions,
    recognize_chart,
    recognize_first,
    recognize_image_lock,
    recognize_manifests,
    recognize_package,
    recognize_plain_bundle,
)
from rukpak.controller.formats.registry_v1.typed import (
    Reader,
    Types,
    WrongTypeError,
    kubernetes_types,
    parse_types,
    split_list,
    write_path,
)
from rukpak.controller.formats.registry_v1.typed import write as write_json

_PACKAGE = "operators.operatorframework.io.bundle.package.v1"
_METADATA_TYPES = parse_types(
    {
        "AnnotationsFile": {"annotations": "Annotations"},
        "Annotations": {_PACKAGE: "text"},
        "PropertiesFile": {"properties": "[]Property"},
        "DependenciesFile": {"dependencies": "[]Property"},
        "Property": {"type": "!text", "value": "any"},
    }
)
ANNOTATION = "olm.properties"
_NAME = "operatorframework.io/suggested-namespace"
_TEMPLATE = "operatorframework.io/suggested-namespace-template"
_MOST_CHARACTERS = 1 << 20  # an API server allows a quarter of it for all annotations of an object
_FIELDS = ("labels", "annotations")
MANIFESTS = "manifests"
PROPERTIES = "metadata/properties.yaml"
DEPENDENCIES = "metadata/dependencies.yaml"
SERVICE_VERSION, DEFINITION = "ClusterServiceVersion", "CustomResourceDefinition"
_OLD_DEFINITION = "apiextensions.k8s.io/v1beta1"
# No API server accepts a larger ClusterServiceVersion.
_HINT_LIMITS = Limits(manifest_bytes=2 * MEBIBYTE, text_bytes=4 * MEBIBYTE, nodes=100_000)


def read_package(root: Path, budget: TextBudget) -> str:
    """Return the name of the package; empty if `annotations.yaml` has none.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded).
    """
    package: str = _read(root, ANNOTATIONS, "AnnotationsFile", budget).get("annotations", {}).get(_PACKAGE, "")
    return package


def read_dependencies(root: Path, budget: TextBudget) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """Return the dependencies, and a warning if they cannot be read: they never fail a bundle."""
    try:
        read = _read(root, DEPENDENCIES, "DependenciesFile", budget).get("dependencies", ())
    except BundleError as error:
        return (), (error.message,)
    return tuple(read), ()


def _read(root: Path, file: str, type_: str, budget: TextBudget) -> dict[str, Any]:
    if not (root / file).exists():
        return {}
    _refuse_irregular(root, file)
    data = budget.read(root / file, file)
    values = [document.value for document in read_documents(data, file, strict=False, budget=budget)]
    if not values:
        return {}
    try:
        result: dict[str, Any] = Reader(_METADATA_TYPES, folds_case=True).read(values[0], type_)
    except WrongTypeError as error:
        place = ": ".join(part for part in (file, write_path(error.path)) if part)
        raise BundleError(Reason.INVALID_BUNDLE, error.problem, place=place) from error
    return result


def merge_properties(annotations: Mapping[str, str], properties: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the annotations of a CSV with properties, `{type, value}` each, appended to those it has.

    Raises: BundleError (InvalidBundle) if the annotation is invalid, which matters only if there are properties.
    """
    if not properties:
        return dict(annotations)
    merged = [*_read_annotation(annotations.get(ANNOTATION, "")), *(_write(item) for item in properties)]
    return {**annotations, ANNOTATION: f"[{','.join(merged)}]"}


def _read_annotation(text: str) -> list[str]:
    if not text:
        return []
    try:
        return [_join(*_type_and_value(item)) for item in split_list(text)]
    except (ValueError, RecursionError) as error:
        raise BundleError(
            Reason.INVALID_BUNDLE,
            f'metadata.annotations["{ANNOTATION}"]: must be a JSON array of {{"type", "value"}}; correct it in the CSV',
        ) from error


def _type_and_value(item: Mapping[str, str]) -> tuple[str, str]:
    members = {key.casefold(): value for key, value in item.items()}  # encoding/json ignores case
    type_ = json.loads(members.get("type", "null")) or ""
    if type_.__class__ is not str:
        raise ValueError(type_)
    return type_, members.get("value", "null")


def _join(type_: str, value: str) -> str:
    return f'{{"type":{write_json(type_)},"value":{value}}}'


def _write(item: Mapping[str, Any]) -> str:
    return _join(item["type"], write_json(item.get("value"), sort_keys=True))


def read_template(annotations: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return labels and annotations of the Namespace in a CSV's annotation, and a warning if it cannot be read."""
    text = annotations.get(_TEMPLATE)
    if not text:
        return {}, []
    try:
        template = json.loads(text[:_MOST_CHARACTERS])
        metadata = Reader(kubernetes_types()).read(template.get("metadata"), "ObjectMeta")
    except (ValueError, AttributeError, RecursionError, WrongTypeError):
        return {}, [f'metadata.annotations["{_TEMPLATE}"]: ignored because it is not a Namespace in JSON']
    kept = {field: _drop_ours(metadata.get(field, {})) for field in _FIELDS}
    return {field: marks for field, marks in kept.items() if marks}, []


def _drop_ours(marks: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if not key.startswith(f"{names.GROUP}/")}


def _list_manifests(root: Path) -> Iterator[str]:
    for path in sorted((root / MANIFESTS).iterdir(), key=lambda path: path.name.encode("utf-8", "surrogateescape")):
        name = f"{MANIFESTS}/{path.name}"
        if path.is_dir() and not path.is_symlink():
            raise BundleError(
                Reason.INVALID_BUNDLE,
                f'subdirectories are not allowed within the "{MANIFESTS}" directory of the bundle image filesystem:'
                f' found "{name}"',
            )
        _refuse_irregular(root, name)
        yield name


def _refuse_irregular(root: Path, name: str) -> None:
    if not is_file(root / name):
        raise BundleError(Reason.INVALID_BUNDLE, "not a regular file; replace it with the file itself", place=name)


def find_bundle(tree: ContentTree) -> Path:
    """Return the folder of the bundle in a tree.

    Raises: BundleError (NoContent if there is none; InvalidBundle if it is incomplete, or there are several; the reason
        of what must not be read of it).
    """
    folders = list(dict.fromkeys(("", *tree.destinations)))
    _check(tree, *(join(folder, name) for folder in folders for name in (MANIFESTS, ANNOTATIONS)))
    found = [folder for folder in folders if _is_bundle(tree.root, folder)]
    if len(found) > 1:
        places = " and ".join(f'"{folder or "."}"' for folder in found)
        problem = f"found {len(found)} bundles: {places}; create a BundleDeployment for each"
        raise BundleError(Reason.INVALID_BUNDLE, problem)
    if not found:
        raise _no_bundle(tree, folders)
    tree.check(lambda path: is_below(path, join(found[0], MANIFESTS)))
    _check(tree, join(found[0], PROPERTIES), join(found[0], DEPENDENCIES))
    return tree.root / found[0]


def _check(tree: ContentTree, *places: str) -> None:
    tree.check(lambda path: any(covers(path, place) for place in places))


def _no_bundle(tree: ContentTree, folders: list[str]) -> BundleError:
    for folder in folders:
        if is_file(tree.root / folder / ANNOTATIONS) and not is_folder(tree.root / folder / MANIFESTS):
            return BundleError(
                Reason.INVALID_BUNDLE, f'found "{ANNOTATIONS}" but no directory "{join(folder, MANIFESTS)}"; add it'
            )
    looked = ", ".join(f'"{join(folder, ANNOTATIONS)}"' for folder in folders)
    recognizers = (
        _recognize_elsewhere,
        recognize_plain_bundle,
        recognize_package,
        recognize_chart,
        Archives().recognize,
        _recognize_service_version,
        recognize_image_lock,
        recognize_manifests,
    )
    remedy = recognize_first(tree.root, *recognizers) or "add this file and manifests/"
    return NoContentError(f"no registry-v1 bundle found: looked for {looked}", remedy, tree.describe_refused())


def _recognize_elsewhere(root: Path, folder: str) -> Recognized | None:
    remedy = "remove its parent directories with git.directory or http.stripComponents"
    found = f"found {quote(join(folder, ANNOTATIONS))}"
    return Recognized(found, remedy) if _is_bundle(root, folder) else None


def _recognize_service_version(root: Path, folder: str) -> Recognized | None:
    above, _, name = folder.rpartition("/")
    if name != MANIFESTS or is_file(root / above / ANNOTATIONS) or not has_service_version(root, folder):
        return None
    return Recognized(f'found a ClusterServiceVersion in "{folder}"', f"add {ANNOTATIONS}")


def _is_bundle(root: Path, folder: str) -> bool:
    has_both = is_folder(root / folder / MANIFESTS) and is_file(root / folder / ANNOTATIONS)
    return has_both and not is_other_bundle(root, folder)


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


def read_bundle(root: Path, budget: TextBudget) -> Bundle:
    """Return the bundle in a folder.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded), LargeTextError.
    """
    package = read_package(root, budget)
    properties = tuple(_read(root, PROPERTIES, "PropertiesFile", budget).get("properties", ()))
    found = list(_read_manifests(root, _list_manifests(root), budget))
    version = _only_service_version(found)
    definitions, vanished = _read_definitions([item for item in found if item.value["kind"] == DEFINITION])
    dependencies, unreadable = read_dependencies(root, budget)
    return Bundle(
        package=package,
        service_version=replace(version, annotations=merge_properties(version.annotations, properties)),
        definitions=definitions,
        others=tuple(item.value for item in found if item.value["kind"] not in (SERVICE_VERSION, DEFINITION)),
        properties=properties,
        dependencies=dependencies,
        warnings=(*_warn_of_unknown("ClusterServiceVersion", version.unknown_fields), *vanished, *unreadable),
    )


def suggest_namespace(root: Path) -> str:
    """Return the namespace that the CSV of a bundle suggests, by default one named after the package.

    The rest of the bundle is not read.

    Raises: BundleError (InvalidBundle; RenderLimitExceeded).
    """
    budget = TextBudget(_HINT_LIMITS)
    package = read_package(root, budget)
    files = (name for name in _list_manifests(root) if mentions(root / name, SERVICE_VERSION.encode()))
    version = _only_service_version(_read_manifests(root, files, budget))
    return version.annotations.get(_NAME) or f"{package}-system"


def _read_manifests(root: Path, files: Iterator[str], budget: TextBudget) -> Iterator[Document]:
    for file in files:
        data = end_last_line(budget.read(root / file, file))
        try:
            for document in read_documents(data, file, strict=False, budget=budget):
                for manifest in _expand(document):
                    yield replace(document, value=manifest)
        except InvalidDocumentError as error:
            raise _unparsable(file, f"line {error.line}: {error.problem}") from error


def _expand(document: Document) -> Sequence[Object]:
    # Everything with `items` is a list, also within a list.
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
    kind = parent["kind"]
    if not isinstance(item, dict) or item.get("kind") or not kind.endswith("List") or kind == "List":
        return item
    return {"apiVersion": parent.get("apiVersion"), **item, "kind": kind.removesuffix("List")}


def _only_service_version(manifests: Iterable[Document]) -> ServiceVersion:
    found = [item for item in manifests if item.value["kind"] == SERVICE_VERSION]
    if not found:
        raise BundleError(Reason.INVALID_BUNDLE, f'no ClusterServiceVersion found in "{MANIFESTS}"')
    if len(found) > 1:
        files = " and ".join(f'"{file}"' for file in dict.fromkeys(item.file for item in found))
        raise BundleError(
            Reason.INVALID_BUNDLE, f"{files}: {len(found)} ClusterServiceVersions; a bundle has one, remove the rest"
        )
    try:
        return read_service_version(found[0].value)
    except WrongTypeError as error:
        raise _wrong_type(found[0].file, error) from error


def _read_definitions(found: Sequence[Document]) -> tuple[tuple[Object, ...], tuple[str, ...]]:
    old = [item.file for item in found if item.value.get("apiVersion") == _OLD_DEFINITION]
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
            value = reader.read({key: part for key, part in item.value.items() if key != "status"}, DEFINITION)
        except WrongTypeError as error:
            raise _wrong_type(item.file, error) from error
        definitions.append({key: part for key, part in value.items() if key != "status"})
        name = f"{DEFINITION} {value['metadata'].get('name', '')}"
        warnings += _warn_of_unknown(name, [write_path(path) for path in reader.unknown])
    return tuple(definitions), tuple(warnings)


def _warn_of_unknown(name: str, paths: Sequence[str]) -> list[str]:
    return [f"{name}: {path}: removed unknown field" for path in paths]


def _wrong_type(file: str, error: WrongTypeError) -> BundleError:
    path = write_path(error.path)
    return _unparsable(file, f"{path}: {error.problem}" if path else error.problem)


def _unparsable(file: str, problem: str) -> BundleError:
    return BundleError(Reason.INVALID_BUNDLE, f'error parsing objects in "{file}": {problem}')


ALL, MULTI, OWN, SINGLE = "AllNamespaces", "MultiNamespace", "OwnNamespace", "SingleNamespace"
Targets: TypeAlias = tuple[str, ...]
"""The namespaces that an operator watches."""
ALL_NAMESPACES: Targets = ("",)
VALIDATING, MUTATING, CONVERSION = "ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"
_DEFAULT_PORT = 443
# Descriptions for consoles: typed, but not used.
_DESCRIBED = {
    "displayName": "string",
    "description": "string",
    "resources": "[]ReferencedResource",
    "statusDescriptors": "[]Descriptor",
    "specDescriptors": "[]Descriptor",
    "actionDescriptors": "[]Descriptor",
}
# operator-framework/api, pkg/operators/v1alpha1/clusterserviceversion_types.go; for `*` and `!` see `typed.py`.
_TYPES: Types = parse_types(
    {
        "ClusterServiceVersion": {
            "apiVersion": "string",
            "kind": "string",
            "metadata": "!ObjectMeta",
            "spec": "!ClusterServiceVersionSpec",
            "status": "any",
        },
        "ClusterServiceVersionSpec": {
            "install": "!NamedInstallStrategy",
            "version": "version",
            "maturity": "string",
            "customresourcedefinitions": "!CustomResourceDefinitions",
            "apiservicedefinitions": "!APIServiceDefinitions",
            "webhookdefinitions": "[]WebhookDescription",
            "nativeAPIs": "[]GroupVersionKind",
            "minKubeVersion": "string",
            "displayName": "string",
            "description": "string",
            "keywords": "[]string",
            "maintainers": "[]Maintainer",
            "provider": "!AppLink",
            "links": "[]AppLink",
            "icon": "[]Icon",
            "installModes": "[]InstallMode",
            "replaces": "string",
            "labels": "{}string",
            "annotations": "{}string",
            "selector": "*LabelSelector",
            "cleanup": "!CleanupSpec",
            "skips": "[]string",
            "relatedImages": "[]RelatedImage",
        },
        "NamedInstallStrategy": {"strategy": "!string", "spec": "!StrategyDetailsDeployment"},
        "StrategyDetailsDeployment": {
            "deployments": "[]StrategyDeploymentSpec",
            "permissions": "[]StrategyDeploymentPermissions",
            "clusterPermissions": "[]StrategyDeploymentPermissions",
        },
        "StrategyDeploymentSpec": {"name": "!string", "spec": "!DeploymentSpec", "label": "{}string"},
        "StrategyDeploymentPermissions": {"serviceAccountName": "!string", "rules": "![]PolicyRule"},
        "CustomResourceDefinitions": {"owned": "[]CRDDescription", "required": "[]CRDDescription"},
        "CRDDescription": {"name": "!string", "version": "string", "kind": "string", **_DESCRIBED},
        "APIServiceDefinitions": {"owned": "[]APIServiceDescription", "required": "[]APIServiceDescription"},
        "APIServiceDescription": {
            "name": "string",
            "group": "!string",
            "version": "!string",
            "kind": "!string",
            "deploymentName": "string",
            "containerPort": "int32",
            **_DESCRIBED,
        },
        "WebhookDescription": {
            "generateName": "!string",
            "type": "!string",
            "deploymentName": "string",
            "containerPort": "int32",
            "targetPort": "*intOrString",
            "rules": "[]RuleWithOperations",
            "failurePolicy": "*string",
            "matchPolicy": "*string",
            "objectSelector": "*LabelSelector",
            "sideEffects": "*string",
            "timeoutSeconds": "*int32",
            "admissionReviewVersions": "![]string",
            "reinvocationPolicy": "*string",
            "webhookPath": "*string",
            "conversionCRDs": "[]string",
        },
        "GroupVersionKind": {"group": "!string", "version": "!string", "kind": "!string"},
        "ReferencedResource": {"name": "string", "kind": "string", "version": "string"},
        "Descriptor": {
            "path": "string",
            "displayName": "string",
            "description": "string",
            "x-descriptors": "[]string",
            "value": "any",
        },
        "InstallMode": {"type": "!string", "supported": "!bool"},
        "Maintainer": {"name": "string", "email": "string"},
        "AppLink": {"name": "string", "url": "string"},
        "Icon": {"base64data": "string", "mediatype": "string"},
        "CleanupSpec": {"enabled": "bool"},
        "RelatedImage": {"name": "string", "image": "string"},
    }
)
_USED = ("spec.install.", "spec.webhookdefinitions[")
# In the order of rbacv1.PolicyRule, after `verbs`.
_RULE_FIELDS = ("apiGroups", "resources", "resourceNames", "nonResourceURLs")


def write_list(items: Collection[str], separator: str = " ") -> str:
    """Return a list as Go prints it."""
    return f"[{separator.join(items)}]"


def find_target_problem(modes: Collection[str], namespace: str, targets: Sequence[str]) -> str:
    """Return why the supported modes do not allow the watched namespaces; empty if they do."""
    reason = _find_reason(modes, namespace, targets)
    return f"invalid option(s): invalid target namespaces {write_list(targets)}: {reason}" if reason else ""


def _find_reason(modes: Collection[str], namespace: str, targets: Sequence[str]) -> str:
    supported = f"supported install modes {write_list(sorted(modes))} do not support"
    if not targets:
        number = "at least" if MULTI in modes else "exactly"
        return f"{number} one target namespace must be specified"
    if set(targets) == {""}:
        return "" if ALL in modes else f"{supported} targeting all namespaces"
    if namespace in targets and OWN not in modes:
        return f"{supported} targeting own namespace"
    needed = MULTI if len(set(targets)) > 1 else OWN if namespace in targets else SINGLE
    return "" if needed in modes and "" not in targets else f"{supported} target namespaces {write_list(targets)}"


StrategyDeployment: TypeAlias = Mapping[str, Any]
"""A Deployment of the install strategy: its `name`, `label` if it has one, and `spec`."""
Permission: TypeAlias = Mapping[str, Any]
"""`rules`, which may be None, for the account `serviceAccountName`; '' means `default`.

Names contain a hash of it, so keys are in the order of the Go structure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An entry of `spec.webhookdefinitions`."""

    type: str
    generate_name: str
    """Name of the configuration object and of its webhook."""
    deployment: str
    port: int
    """Port of the Service: `containerPort`, or 443."""
    target_port: int | str
    path: str | None
    conversion_crds: tuple[str, ...]
    definition: Mapping[str, Any]
    """As Go writes it: fields that are not set are missing."""


class Api(NamedTuple):
    """An API that the operator requires."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceVersion:
    """The fields of a ClusterServiceVersion that rendering uses."""

    name: str
    annotations: Mapping[str, str]
    install_modes: frozenset[str]
    """The supported ones."""
    deployments: tuple[StrategyDeployment, ...]
    permissions: tuple[Permission, ...]
    cluster_permissions: tuple[Permission, ...]
    owned_crds: tuple[str, ...]
    owns_api_services: bool
    webhooks: tuple[Webhook, ...]
    minimum_kubernetes: str
    required_apis: tuple[Api, ...]
    unknown_fields: tuple[str, ...]
    """Paths of the fields that were removed, in the sections that rendering uses."""


def read_service_version(manifest: Mapping[str, Any]) -> ServiceVersion:
    """Return the fields of a manifest that rendering uses.

    Raises: WrongTypeError.
    """
    reader = Reader({**kubernetes_types(), **_TYPES})
    value = reader.read(manifest, "ClusterServiceVersion")
    metadata, spec = value["metadata"], value["spec"]
    strategy = spec["install"]["spec"]
    return ServiceVersion(
        name=metadata.get("name", ""),
        annotations=metadata.get("annotations", {}),
        install_modes=frozenset(mode["type"] for mode in spec.get("installModes", ()) if mode["supported"]),
        deployments=tuple(strategy.get("deployments", ())),
        permissions=tuple(_read_permission(item) for item in strategy.get("permissions", ())),
        cluster_permissions=tuple(_read_permission(item) for item in strategy.get("clusterPermissions", ())),
        owned_crds=tuple(crd["name"] for crd in spec["customresourcedefinitions"].get("owned", ())),
        owns_api_services=bool(spec["apiservicedefinitions"].get("owned")),
        webhooks=tuple(_read_webhook(item) for item in spec.get("webhookdefinitions", ())),
        minimum_kubernetes=spec.get("minKubeVersion", ""),
        required_apis=tuple(_required_apis(spec)),
        unknown_fields=tuple(path for path in map(write_path, reader.unknown) if path.startswith(_USED)),
    )


def _read_permission(item: Mapping[str, Any]) -> Permission:
    rules = item.get("rules")
    read = rules and [
        {"verbs": rule.get("verbs"), **{key: rule[key] for key in _RULE_FIELDS if key in rule}} for rule in rules
    ]
    return {"serviceAccountName": item["serviceAccountName"], "rules": read}


def _read_webhook(item: Mapping[str, Any]) -> Webhook:
    port = item.get("containerPort", 0)
    port = port if port > 0 else _DEFAULT_PORT
    return Webhook(
        type=item["type"],
        generate_name=item["generateName"],
        deployment=item.get("deploymentName", ""),
        port=port,
        target_port=item.get("targetPort", port),
        path=item.get("webhookPath"),
        conversion_crds=tuple(item.get("conversionCRDs", ())),
        definition=item,
    )


def _required_apis(spec: Mapping[str, Any]) -> Iterator[Api]:
    for crd in spec["customresourcedefinitions"].get("required", ()):
        yield Api(crd["name"].partition(".")[2], crd.get("version", ""), crd.get("kind", ""))
    for api in (*spec["apiservicedefinitions"].get("required", ()), *spec.get("nativeAPIs", ())):
        yield Api(api["group"], api["version"], api["kind"])
