"""Targets: YAML, JSON, and how formats render the files of a bundle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from hack.fuzzing.archives import LIMITS
from hack.fuzzing.target import Target, check_message, expect, refusals, scratch
from rukpak.api.plugins import Capabilities, ContentTree, Format, Limits, ProgramResult, Rendering, RenderRequest
from rukpak.controller.building.revision import Revision, Terms, pack_objects, pack_terms, unpack_terms
from rukpak.controller.content.limits import Rejection, check_path
from rukpak.controller.formats.applicable import make_applicable, revision_digest
from rukpak.controller.formats.composer import NodeBudget
from rukpak.controller.formats.helm.chart import refuse_foreign_references
from rukpak.controller.formats.helm.failures import explain
from rukpak.controller.formats.helm.format import read_output
from rukpak.controller.formats.helm.values import read_values, write_values
from rukpak.controller.formats.manifests import TextBudget, end_last_line, read_documents
from rukpak.controller.formats.plain import PlainFormat
from rukpak.controller.formats.registry_v1.registry_format import RegistryV1Format
from rukpak.controller.kube.encoding import encode

_NODES = 20_000
_NULLS = ("", "~", "null", "Null", "NULL")
_FILE = b"\n=== "
"""The prefix of a line with the name of the next file of a bundle."""
_CAPABILITIES = Capabilities(
    kubernetes_version="v1.36.3",
    kinds={("cert-manager.io", "v1", "Certificate"): True, ("cert-manager.io", "v1", "Issuer"): True},
)


# YAML and JSON


def check_yaml(data: bytes) -> None:
    """Read documents like kubectl and like Helm; compare the results with each other and with PyYAML."""
    data = end_last_line(data)
    lax = _read(data, strict=False)
    strict = _read(data, strict=True)
    for values in (lax, strict):
        for value in values or ():
            _check_round_trip(value)
    if lax is None or strict is None:
        return
    expect(_equal(lax, strict), "kubectl's reading and Helm's differ where both take it")
    if not data.lstrip().startswith(b"{"):
        _compare_with_libyaml(data, strict)


def check_json(data: bytes) -> None:
    """Read documents that start like JSON; compare them with the standard library."""
    data = b"{" + data
    check_yaml(data)
    values = _read(data, strict=True)
    if values is not None and len(values) == 1:
        try:
            theirs = json.loads(data)
        except (ValueError, RecursionError):
            return  # a flow mapping of YAML
        expect(_shape(values[0]) == _shape(theirs), f"{values[0]!r} is read as {theirs!r}")


def _read(data: bytes, *, strict: bool) -> list[Any] | None:
    """Return the values of a text; None if it is refused."""
    with refusals():
        return [item.value for item in read_documents(data, "a.yaml", strict=strict, budget=NodeBudget(_NODES))]
    return None


def _check_round_trip(value: Any) -> None:
    """Check that a value is plain JSON that is read back unchanged."""
    again = _read(encode(value), strict=True)
    expect(again is not None and _equal(again, [value]), f"{value!r} is read again as {again!r}")


def _equal(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON: 1 is neither true nor 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right) and not (isinstance(left, float) and not math.isfinite(left))


def _compare_with_libyaml(data: bytes, ours: list[Any]) -> None:
    """Compare the structure, and scalars that are text in both, with PyYAML reading all scalars as text."""
    if b"<<" in data or b"---#" in data or b"\xef\xbb\xbf" in data or b"!" in data:
        return  # merged, split or typed otherwise, on purpose
    try:
        theirs = [value for value in yaml.load_all(data, yaml.CBaseLoader) if value not in _NULLS]
    except (yaml.YAMLError, ValueError, RecursionError):
        return  # kubectl accepts more: several marks, keys that are mappings
    ours = [value for value in ours if value not in _NULLS]  # texts, if they are quoted
    expect(len(ours) == len(theirs), f"{len(ours)} documents are read as {len(theirs)}")
    for mine, other in zip(ours, theirs, strict=True):
        _expect_alike(mine, other)


def _expect_alike(ours: Any, theirs: Any) -> None:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        expect(len(ours) <= len(theirs), f"{ours!r} is read as {theirs!r}")
        for key in ours.keys() & theirs.keys():
            if len(ours) == len(theirs):
                _expect_alike(ours[key], theirs[key])
    elif isinstance(ours, list) and isinstance(theirs, list):
        expect(len(ours) == len(theirs), f"{ours!r} is read as {theirs!r}")
        for mine, other in zip(ours, theirs, strict=True):
            _expect_alike(mine, other)
    elif isinstance(ours, str):
        expect(ours == theirs, f"{ours!r} is read as {theirs!r}")
    else:
        expect(isinstance(theirs, str), f"{ours!r} is read as {theirs!r}")


def _shape(value: Any) -> Any:
    """Return a value without its numbers and texts, which are read differently on purpose."""
    if isinstance(value, dict):
        return sorted((_text(key), repr(_shape(item))) for key, item in value.items())
    if isinstance(value, list):
        return [_shape(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    return None if isinstance(value, int | float) and not isinstance(value, bool) else (value,)


def _text(value: str) -> str:
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# formats


def check_plain(data: bytes) -> None:
    """Render plain manifests, and make them applicable."""
    _render(PlainFormat(), data, "manifests/a.yaml")


def check_registry(data: bytes) -> None:
    """Render a registry-v1 bundle."""
    _render(RegistryV1Format(), data, "manifests/csv.yaml")


def check_helm_output(data: bytes) -> None:
    for skip_tests in (True, False):
        with refusals():
            _check_rendering(read_output(data, TextBudget(Limits()), skip_tests=skip_tests))


def check_helm_values(data: bytes) -> None:
    """Read values, and write them in the form for Helm."""
    with refusals():
        values = read_values(data, "spec.config.values")
        again = read_values(write_values(values), "again")
        expect(_equal(values, again), f"{values!r} is read again as {again!r}")


def check_helm_schema(data: bytes) -> None:
    """Find references in `values.schema.json`."""
    with scratch() as folder:
        (folder / "values.schema.json").write_bytes(data)
        with refusals():
            refuse_foreign_references(folder, "chart")


def check_helm_complaint(data: bytes) -> None:
    """Explain a failure of Helm. The input starts with values, one per line, which the message must not show."""
    head, _, complaint = data.decode(errors="replace").partition("\n\n")
    secrets = [line for line in head.splitlines()[:50] if line]
    result = ProgramResult(status=1, output=b"", stderr=f"Error: {complaint}")
    message = explain(result, "chart", [{"a": secrets, "b": {line: line for line in secrets}}]).message
    check_message(message)
    expect("marked-secret" not in message or "marked-secret" not in secrets, f"a value is shown: {message!r}")


def _render(format_: Format, data: bytes, first: str) -> None:
    with scratch() as root:
        for name, text in _files(data, first):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        request = RenderRequest(
            name="b",
            install_namespace="inst",
            tree=ContentTree(root=root, destinations=("",)),
            config={},
            capabilities=_CAPABILITIES,
        )
        with refusals():
            _check_rendering(format_.render(request))
        with refusals():
            expect(len(format_.suggest_namespace(request.tree, {})) > 0, "no namespace is suggested")


def _files(data: bytes, first: str) -> Iterator[tuple[Path, bytes]]:
    """Yield the files of a bundle: the first has a fixed name, the others start with a line that has their name."""
    yield Path(first), (parts := data.split(_FILE))[0]
    seen = {first}
    for part in parts[1:20]:
        line, _, text = part.partition(b"\n")
        try:
            name = check_path(line.decode(), LIMITS)
        except (Rejection, UnicodeDecodeError):
            continue
        # No file where another has a folder, as no tree has one.
        if name and not any(f"{name}/".startswith(f"{other}/") or f"{other}/".startswith(f"{name}/") for other in seen):
            seen.add(name)
            yield Path(name), text


def _check_rendering(rendering: Rendering) -> None:
    """Check that rendered objects can be applied, stored and read again."""
    for warning in rendering.warnings:
        check_message(warning)
    encode([dict(marks) for marks in rendering.namespace.values()])
    objects = make_applicable(rendering.objects, install_namespace="inst", is_namespaced=lambda *_: None)
    hooks = make_applicable([hook.manifest for hook in rendering.hooks], install_namespace="inst", is_namespaced=_yes)
    _check_objects((*objects, *hooks))
    terms = Terms(inputs="sha256:0", install_namespace="inst")
    revision = Revision(digest=revision_digest(objects, hooks), objects=tuple(objects), hooks=tuple(hooks), terms=terms)
    again = unpack_terms(revision.digest, pack_terms(revision), pack_objects(revision)).unpacked()
    expect(_equal([*again.objects, *again.hooks], [*objects, *hooks]), "the revision store returns something else")
    expect(revision_digest(again.objects, again.hooks) == revision.digest, "its digest is another")


def _yes(*_: object) -> bool:
    return True


def _check_objects(objects: Iterable[dict[str, Any]]) -> None:
    for item in objects:
        encode(item)
        metadata = item["metadata"]
        for segment in (metadata["name"], metadata.get("namespace") or "inst", item["kind"]):
            expect(segment not in (".", "..") and "/" not in segment, f"{segment!r} in a path of the API server")
        marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
        expect(not any(key.startswith("core.rukpak.io/owner") for key in marks), "a mark of ours is taken over")


_YAML_WORDS = (
    *b"--- |- |+ >- << !!binary !!int !!float !!null &a *a ? : - {} [] ~ .nan -.inf 0x1F 0o14 0b1 1_0 1e400".split(),
    *(b"\n---\n", b"\n...\n", b"\n  ", b"\xef\xbb\xbf", b"\xc2\x85", b"\\ud83d", b'"\\/"', b"%YAML", b"9" * 20),
)
_OBJECT_WORDS = (
    b"apiVersion: v1\n", b"kind: ConfigMap\n", b"kind: List\nitems:\n- ", b"metadata:\n  name: ", b"namespace: ",
    b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n", b"stringData:", b"generateName:",
    b"core.rukpak.io/owner-uid", b"annotations:", b"labels:", b"ConfigMapList", b": null\n",
)  # fmt: skip
_HELM_WORDS = (b"---\n# Source: a/templates/b.yaml\n", b"---\n# Source: a/crds/b.yaml\n", b"helm.sh/hook: ", b"test")
_COMPLAINTS = (
    b"missing in charts/ directory: ", b"failed to parse -: ", b'template: a/b.yaml:1:2: executing "x" at <y>: ',
    b"values don't meet the specifications of the schema(s) in the following chart(s):", b"execution error at (",
    b'a/b.yaml:1:2\n  executing "x" at <y>:\n    ', b"\n- at '/a': ", b"YAML parse error on ",
    b"error converting YAML to JSON: ", b"marked-secret", b"Error: ",
)  # fmt: skip
_CSV_WORDS = (
    b"kind: ClusterServiceVersion\n", b"\n=== metadata/annotations.yaml\n", b"\n=== manifests/b.yaml\n", b"deployments",
    b"\n=== metadata/properties.yaml\n", b"\n=== metadata/dependencies.yaml\n", b"clusterPermissions", b"permissions",
    b"webhookdefinitions", b"installModes", b"olm.properties", b"serviceAccountName", b"AllNamespaces",
    b"ConversionWebhook", b"conversionCRDs", b"minKubeVersion", b"operatorframework.io/suggested-namespace-template",
)  # fmt: skip
_SCHEMA_WORDS = (b'"$ref":', b'"$schema":', b'"file:///etc/passwd"', b'"#/a"', b'"$dynamicRef":')

TARGETS = (
    Target(name="yaml", check=check_yaml, covers="YAML as kubectl and Helm read it, against PyYAML", words=_YAML_WORDS),
    Target(name="json", check=check_json, covers="JSON streams, against the standard library", words=_YAML_WORDS),
    Target(
        name="plain", check=check_plain, covers="plain manifests, made applicable", words=_YAML_WORDS + _OBJECT_WORDS
    ),
    Target(name="registry-v1", check=check_registry, covers="files of registry-v1 bundles", words=_CSV_WORDS),
    Target(name="helm-output", check=check_helm_output, covers="what Helm printed", words=_HELM_WORDS + _OBJECT_WORDS),
    Target(name="helm-values", check=check_helm_values, covers="values of charts", words=_YAML_WORDS),
    Target(name="helm-schemas", check=check_helm_schema, covers="values.schema.json", words=_SCHEMA_WORDS),
    Target(name="helm-complaints", check=check_helm_complaint, covers="what Helm complains of", words=_COMPLAINTS),
)
