"""`rukpak lint`: what is wrong with the objects of a bundle, as far as that is known without a cluster; for CI.

A bundle is rendered as by `rukpak render`, and its objects are checked by the schemas of their kinds (schemas.py).
Rendered objects do not know where they come from. If something is wrong with one, the files of the bundle are searched
for its kind and name, to tell file and line. What a template makes is not found there, and has only a name.

Not here: what needs a cluster, such as admission, the CEL rules of CustomResourceDefinitions, quotas, and whether an
object may be changed (`rukpak diff`).
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from rukpak.api.plugins import Capabilities, Limits
from rukpak.controller.building.revision import Revision
from rukpak.controller.cli.command import FAILED, tell
from rukpak.controller.cli.content import check_stdin, is_local, is_named, unpack
from rukpak.controller.cli.render import read_capabilities, render_given
from rukpak.controller.content.limits import name_key
from rukpak.controller.formats.objects import Identity, Object, group_of, identify
from rukpak.controller.formats.plain import find_manifests_below
from rukpak.controller.untrusted import path_below
from rukpak.controller.views import MisuseError
from rukpak.controller.views.texts import to_json

if TYPE_CHECKING:
    from rukpak.controller.cli.schemas import FieldPath, Kind, Schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with a field of an object."""

    identity: Identity
    path: FieldPath
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in a bundle."""

    version: str
    """Version of Kubernetes, such as 1.36."""
    objects: int
    findings: Sequence[Finding]
    unchecked: Mapping[Kind, int]
    """How many objects there are of each kind without a schema."""


def main(options: argparse.Namespace) -> int:
    """Check a bundle and print what is found; return the exit status: 1 if something is wrong.

    Raises: MisuseError, also without the extra that has the schemas; as `rukpak render`.
    """
    _check(options)
    capabilities = read_capabilities(options.capabilities)
    version = _choose_version(options.kubernetes_version, capabilities)
    _, revision = render_given(options, capabilities)
    for warning in revision.warnings:
        tell(f"warning: {warning}")
    report = _make_report(version, revision, capabilities)
    places = _places_of(options.source) if report.findings and is_local(options) else Places(())
    print(_show(report, places, options.output), end="")
    tell(_summarize(report))
    return FAILED if report.findings else 0


def _check(options: argparse.Namespace) -> None:
    if is_named(options) == bool(options.file):
        raise MisuseError("specify either SOURCE or -f FILE")
    check_stdin(options)


def _choose_version(wanted: str, capabilities: Capabilities) -> str:
    try:
        from rukpak.controller.cli.schemas import known_versions  # noqa: PLC0415 - needs the extra
    except ImportError:
        raise MisuseError('the schemas of Kubernetes are missing; run: pip install "rukpak[lint]"') from None
    known = known_versions()
    if wanted:
        found = wanted.removeprefix("v")
        if found not in known:
            raise MisuseError(f'--kubernetes-version: no schemas of "{wanted}"; there are those of {", ".join(known)}')
        return found
    served = _numbers(capabilities.kubernetes_version)
    return next((each for each in reversed(known) if _numbers(each) <= served), known[0])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdecimal, part)) or 0) for part in version.split(".")[:2])


def _make_report(version: str, revision: Revision, capabilities: Capabilities) -> Report:
    from rukpak.controller.cli.schemas import Schemas  # noqa: PLC0415 - needs the extra

    objects = [*revision.objects, *(hook["manifest"] for hook in revision.hooks)]
    schemas = Schemas(version, objects)
    findings: list[Finding] = []
    unchecked: Counter[Kind] = Counter()
    for item in objects:
        kind = (group_of(item), item["apiVersion"].rpartition("/")[2], item["kind"])
        problems = list(_find_problems(schemas, kind, item, capabilities))
        findings += [Finding(identity=identify(item), path=path, problem=problem) for path, problem in problems]
        if not (problems or schemas.contains(kind)):
            unchecked[kind] += 1
    return Report(version=version, objects=len(objects), findings=findings, unchecked=unchecked)


def _find_problems(
    schemas: Schemas, kind: Kind, item: Object, capabilities: Capabilities
) -> Iterator[tuple[FieldPath, str]]:
    if schemas.contains(kind):
        yield from schemas.find_problems(kind, item)
    elif kind not in capabilities.kinds and (problem := schemas.explain_unknown(kind)):
        yield problem


# files and lines

_Object: TypeAlias = tuple[str, str, str]
"""API group, kind and name."""


class Places:
    """Where the objects of files are.

    Args:
        files: the name and the content of each.
    """

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        self._found: dict[_Object, list[tuple[str, yaml.Node]]] = {}
        for name, data in files:
            for item, node in _objects_in(data):
                self._found.setdefault(item, []).append((name, node))

    def find(self, finding: Finding) -> tuple[str, int] | None:
        """Return the file of an object and the line of a field, or what is nearest above; None if it is not known."""
        group, kind, namespace, name = finding.identity
        found = self._found.get((group, kind, name), [])
        if len(found) > 1:
            found = [(file, node) for file, node in found if _namespace_of(node) == namespace]
        if len(found) != 1:
            return None
        file, node = found[0]
        return file, _line_of(node, finding.path)


def _places_of(source: str) -> Places:
    if source == "-":  # has been read
        return Places(())
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        root = unpack(source, Path(folder)).root
        names = [name for name in find_manifests_below(root) if (root / name).stat().st_size <= Limits().manifest_bytes]
        return Places((name, (root / name).read_bytes()) for name in names)


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


def _namespace_of(node: yaml.Node) -> str:
    fields = _fields(node)
    return _text(_fields(fields["metadata"][1]), "namespace")


def _line_of(node: yaml.Node, path: FieldPath) -> int:
    line = node.start_mark.line
    for step in path:
        if isinstance(step, int):
            items = node.value if isinstance(node, yaml.SequenceNode) else ()
            if step >= len(items):
                break
            node = items[step]
            line = node.start_mark.line
        else:
            fields = _fields(node)
            if step not in fields:
                break
            key, node = fields[step]
            line = key.start_mark.line
    return line + 1


# the result


def _show(report: Report, places: Places, output: str) -> str:
    if output == "json":
        return to_json(_dump(report, places))
    return "".join(f"{_place(places.find(each))}{_write(each)}\n" for each in report.findings)


def _place(place: tuple[str, int] | None) -> str:
    return f"{place[0]}:{place[1]}: " if place else ""


def _write(finding: Finding) -> str:
    return ": ".join(filter(None, (str(finding.identity), write_path(finding.path), finding.problem)))


def write_path(path: FieldPath) -> str:
    """Return a path as messages write it: spec.ports[0].name, metadata.labels["app.kubernetes.io/name"]."""
    text = ""
    for step in path:
        text = path_below(text, f"[{step}]" if isinstance(step, int) else name_key("", step))
    return text.removeprefix(".")


def _dump(report: Report, places: Places) -> dict[str, Any]:
    findings = []
    for each in report.findings:
        place = places.find(each)
        findings.append(
            {
                **({"file": place[0], "line": place[1]} if place else {}),
                **{name: value for name, value in each.identity._asdict().items() if value},
                "field": write_path(each.path),
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
    counts = (
        f"objects: {report.objects}, problems: {len(report.findings)}, by the schemas of Kubernetes {report.version}"
    )
    return f"{counts}; not checked, without a schema: {kinds}" if kinds else counts
