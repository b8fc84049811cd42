"""`rukpak lint`: what is wrong with the objects of a bundle, as far as that is known without a cluster; for CI.

A bundle is rendered as by `rukpak render`. The custom objects in it are checked by the CustomResourceDefinitions in it,
as the API server does, and kinds must be among those that a cluster serves. Rendered objects do not know where they
come from. If something is wrong with one, the files of the bundle are searched for its kind and name, to tell file and
line. What a template makes is not found there, and has only a name.

Not here: the schemas of Kubernetes' own kinds (kubeconform has them), and what needs a cluster, such as admission, the
CEL rules of CustomResourceDefinitions, quotas, and whether an object may be changed (`rukpak diff`).
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from rukpak.api.plugins import Capabilities, Limits
from rukpak.controller.apply.crd_upgrade import TYPE_META, Admission, admit, validate
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.command import FAILED, tell
from rukpak.controller.cli.content import check_stdin, is_local, is_named, unpack
from rukpak.controller.cli.parser import suggest
from rukpak.controller.cli.render import read_capabilities, render_given
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.objects import Object, ObjectKey, crd_specs, group_of, identify
from rukpak.controller.formats.plain import find_manifests_below
from rukpak.controller.untrusted import TooManyStepsError, mapping, path_below, sequence, text
from rukpak.controller.views import MisuseError
from rukpak.controller.views.texts import to_json

Kind: TypeAlias = tuple[str, str, str]
"""Group, version and kind."""
Problem: TypeAlias = tuple[str, str]
"""A field, such as `spec.ports[0].name`, and what is wrong with it; never its value, which may be secret."""
_TEXT = {"type": "string"}
_TIMES = ("creationTimestamp", "deletionTimestamp")
_OBJECT_META = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink", *_TIMES), _TEXT),
        **{name: {"type": "integer"} for name in ("generation", "deletionGracePeriodSeconds")},
        **{name: {"type": "object", "additionalProperties": _TEXT} for name in ("labels", "annotations")},
        **{name: {"type": "array"} for name in ("ownerReferences", "managedFields")},
        "finalizers": {"type": "array", "items": _TEXT},
    },
}
_BELOW = "object"
_OF_TYPE_META: Mapping[str, Any] = {
    "properties": {_BELOW: {"properties": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _OBJECT_META}}}
}
"""What every custom object has, although its schema does not say so."""
_ELSEWHERE = (
    "to check the others, run: rukpak render … | kubeconform -strict -ignore-missing-schemas; or rukpak diff …,"
    " which asks the API server"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with a field of an object."""

    identity: ObjectKey
    field: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in a bundle."""

    version: str
    """Version of Kubernetes, such as v1.36.3."""
    objects: int
    findings: Sequence[Finding]
    unchecked: Mapping[Kind, int]
    """How many objects there are of each kind without a schema."""


def main(options: argparse.Namespace) -> int:
    """Check a bundle and print what is found; return the exit status: 1 if something is wrong.

    Raises: MisuseError; as `rukpak render`.
    """
    _check(options)
    capabilities = read_capabilities(options.capabilities)
    _, revision = render_given(options, capabilities)
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    report = _make_report(revision, capabilities)
    places = _places_of(options.source) if report.findings and is_local(options) else {}
    print(_show(report, places, options.output), end="")
    tell(_summarize(report))
    if report.unchecked:
        tell(_ELSEWHERE)
    return FAILED if report.findings else 0


def _check(options: argparse.Namespace) -> None:
    if is_named(options) == bool(options.file):
        raise MisuseError("specify either SOURCE or -f FILE")
    check_stdin(options)


def _make_report(revision: Revision, capabilities: Capabilities) -> Report:
    objects = [*revision.objects, *(hook["manifest"] for hook in revision.hooks)]
    schemas = dict(_custom_schemas(objects))
    known = capabilities.kinds.keys() | schemas.keys()
    findings: list[Finding] = []
    unchecked: Counter[Kind] = Counter()
    for item in objects:
        kind = (group_of(item), item["apiVersion"].rpartition("/")[2], item["kind"])
        if kind in schemas:
            problems = find_problems(item, schemas[kind])
        else:
            problems = list(_explain_unknown(kind, known)) if kind[0] not in capabilities.unknown else []
        findings += [Finding(identity=identify(item), field=field, problem=problem) for field, problem in problems]
        if not (problems or kind in schemas):
            unchecked[kind] += 1
    return Report(version=capabilities.kubernetes_version, objects=len(objects), findings=findings, unchecked=unchecked)


# what is wrong with an object


def _custom_schemas(objects: Iterable[Object]) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    for spec in crd_specs(objects):
        for version in map(mapping, sequence(spec, "versions")):
            schema = mapping(version, "schema", "openAPIV3Schema")
            if schema and version.get("served"):
                yield (text(spec, "group"), text(version, "name"), text(spec, "names", "kind")), schema


def _explain_unknown(kind: Kind, known: Iterable[Kind]) -> Iterator[Problem]:
    group, version, name = kind
    served = {(other, each) for of, other, each in known if of == group}
    if (version, name) in served:
        return
    prefix = f"{group}/" if group else ""
    if others := sorted(other for other, each in served if each == name):
        yield "apiVersion", f"{prefix}{version} has no kind {quote(name)}; use {prefix}{others[-1]}"
    elif served or "." not in group:  # a group without a dot can only be one of Kubernetes
        yield "kind", f"{prefix}{version} has no kind {quote(name)}{suggest(name, {each for _, each in served})}"


def find_problems(item: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with a custom object by its schema (`openAPIV3Schema`).

    Rendering has dropped null where the schema does not allow it.
    """
    admission = Admission()
    try:
        violations = validate(admit(item, schema, admission=admission), schema)
        problems = {(each.field, each.reason) for each in violations}
        for field, resource in admission.resources:
            problems.update(_find_in_type_meta(field, resource))
    except (RecursionError, TooManyStepsError):
        return [("", "has too many values or levels to be checked")]
    return sorted(problems | set(_explain_dropped(admission)))


def _find_in_type_meta(field: str, resource: Mapping[str, Any]) -> Iterator[Problem]:
    about = {name: resource[name] for name in TYPE_META if name in resource}
    admission = Admission()
    # As a field of another object: these fields are admitted as they are where a resource has them.
    admit({_BELOW: about}, _OF_TYPE_META, admission=admission)
    violations = validate({_BELOW: about}, _OF_TYPE_META)
    for found, problem in (*((each.field, each.reason) for each in violations), *_explain_dropped(admission)):
        yield path_below(field, found.removeprefix(_BELOW if field else f"{_BELOW}.")), problem


def _explain_dropped(admission: Admission) -> Iterator[Problem]:
    for field, name, known in admission.unknown:
        yield field, f"unknown field{suggest(name, known)}"


# files and lines

_Object: TypeAlias = tuple[str, str, str]
"""API group, kind and name."""


Places: TypeAlias = Mapping[_Object, Sequence[tuple[str, yaml.Node]]]
"""Where objects are: the files, and what is there."""


def _find_place(places: Places, finding: Finding) -> tuple[str, int] | None:
    """Return the file of an object and the line of a field, or what is nearest above; None if it is not known."""
    group, kind, namespace, name = finding.identity
    found = places.get((group, kind, name), ())
    if len(found) > 1:
        found = [
            (file, node)
            for file, node in found
            if _text(_fields(_fields(node)["metadata"][1]), "namespace") == namespace
        ]
    if len(found) != 1:
        return None
    file, node = found[0]
    return file, _line_of(node, finding.field)


def _places_of(source: str) -> Places:
    places = defaultdict[_Object, list[tuple[str, yaml.Node]]](list)
    if source == "-":  # has been read
        return places
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        root = unpack(source, Path(folder)).root
        for name in find_manifests_below(root):
            if (root / name).stat().st_size <= Limits().manifest_bytes:
                for item, node in _objects_in((root / name).read_bytes()):
                    places[item].append((name, node))
    return places


def _objects_in(data: bytes) -> Iterator[tuple[_Object, yaml.Node]]:
    # The file may be a template: what comes before its first error counts.
    try:
        for document in yaml.compose_all(data, Loader=yaml.CSafeLoader):
            yield from _expand(document)
    except yaml.YAMLError:
        return


def _expand(node: yaml.Node) -> Iterator[tuple[_Object, yaml.Node]]:
    fields = _fields(node)
    kind, items = _text(fields, "kind"), fields.get("items")
    if kind.endswith("List") and items and isinstance(items[1], yaml.SequenceNode):
        for item in items[1].value:
            yield from _expand(item)
    elif kind and "metadata" in fields:
        group, slash, _ = _text(fields, "apiVersion").partition("/")
        yield (group if slash else "", kind, _text(_fields(fields["metadata"][1]), "name")), node


def _fields(node: yaml.Node) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: (key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode)}


def _text(fields: Mapping[str, tuple[yaml.Node, yaml.Node]], name: str) -> str:
    node = fields[name][1] if name in fields else None
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _line_of(node: yaml.Node, field: str) -> int:
    line, path = node.start_mark.line, f".{field}"
    while True:
        # Names may contain dots and brackets: the longest that fits is meant.
        fitting = [
            each for each in _steps_of(node) if path == each[0] or path.startswith((f"{each[0]}.", f"{each[0]}["))
        ]
        if not fitting:
            return line + 1
        step, key, node = max(fitting, key=lambda each: len(each[0]))
        line, path = key.start_mark.line, path[len(step) :]


def _steps_of(node: yaml.Node) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    if isinstance(node, yaml.SequenceNode):
        yield from ((f"[{index}]", item, item) for index, item in enumerate(node.value))
    yield from ((f".{name}", key, value) for name, (key, value) in _fields(node).items())


# the result


def _show(report: Report, places: Places, output: str) -> str:
    if output == "json":
        return to_json(_dump(report, places))
    return "".join(f"{_place(_find_place(places, each))}{_write(each)}\n" for each in report.findings)


def _place(place: tuple[str, int] | None) -> str:
    return f"{place[0]}:{place[1]}: " if place else ""


def _write(finding: Finding) -> str:
    return ": ".join(filter(None, (str(finding.identity), finding.field, finding.problem)))


def _dump(report: Report, places: Places) -> dict[str, Any]:
    findings = []
    for each in report.findings:
        place = _find_place(places, each)
        findings.append(
            {
                **({"file": place[0], "line": place[1]} if place else {}),
                **{name: value for name, value in each.identity._asdict().items() if value},
                "field": each.field,
                "problem": each.problem,
            }
        )
    unchecked = [
        {"group": group, "version": version, "kind": kind, "objects": count}
        for (group, version, kind), count in sorted(report.unchecked.items())
    ]
    return {
        "kubernetesVersion": report.version,
        "objects": report.objects,
        "findings": findings,
        "notChecked": unchecked,
    }


def _summarize(report: Report) -> str:
    kinds = ", ".join(
        f"{kind}{f'.{group}' if group else ''} ({count})"
        for (group, _, kind), count in sorted(report.unchecked.items())
    )
    counts = f"objects: {report.objects}, problems: {len(report.findings)}"
    return f"{counts}; fields not checked, without a schema in the bundle: {kinds}" if kinds else counts
