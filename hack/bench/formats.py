"""hack/bench/formats: rendering, compared to PyYAML's C loader and Helm; needs no cluster and no network.

CRD upgrade safety is measured with the largest real definition of RUKPAK_CORPUS: against itself, parsed again, and
against a copy in which every node has another description and allows one value less, which gives the most findings.
"""

from __future__ import annotations

import copy
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, run
from typing import Any

import yaml

from hack.bench.rows import Row, chosen, in_child, peak_mebibytes, publish, time_work
from rukpak.api.plugins import ContentTree, Means, RenderRequest
from rukpak.controller.apply.crd_changes import compare, read_definition
from rukpak.controller.building import capabilities
from rukpak.controller.building.rendering import render
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.helm.program import make_finder
from rukpak.controller.formats.manifests import read_documents

MEBIBYTE = 1 << 20
BUNDLE_SECONDS, BUNDLE_MEBIBYTES = 0.5, 80.0
HELM_SECONDS = 0.15
"""Beside Helm's own."""
DEFINITION_SECONDS, CHANGED_SECONDS = 0.3, 2.0
TEXT_RATIO = 8
"""Memory to text of a large bundle."""
DEEP_FIELDS = 12
"""Of one node in the schema of a large definition."""


def main() -> int:
    return publish(chosen(sys.argv[1:], (plain, operator, chart, large, definition)))


def plain() -> Iterator[Row]:
    """5 MB of YAML, 1,000 objects."""
    with tempfile.TemporaryDirectory() as folder:
        size = write_plain(Path(folder), objects=1000, lines=90)
        ours, loader = in_child(_time_plain, Path(folder))
    yield Row(
        title=f"{size / 1e6:.1f} MB of plain YAML, 1,000 objects, CPU s; at most: CSafeLoader",
        value=ours,
        at_most=loader,
    )


def operator() -> Iterator[Row]:
    """A registry-v1 bundle of 1 MB."""
    with tempfile.TemporaryDirectory() as folder:
        write_operator(Path(folder))
        seconds, peak = in_child(_measure, "registry-v1", Path(folder))
    yield Row(title="registry-v1 bundle of 1 MB, CPU s", value=seconds, at_most=BUNDLE_SECONDS)
    yield Row(title="the same, peak memory of the process, MiB", value=peak, at_most=BUNDLE_MEBIBYTES, digits=0)


def chart() -> Iterator[Row]:
    """A chart of 200 objects, rendered by Helm alone and by us."""
    with tempfile.TemporaryDirectory() as folder:
        write_chart(Path(folder), objects=200)
        ours, helm = in_child(_time_chart, Path(folder))
    yield Row(
        title="chart of 200 objects, CPU s; at most: helm template + 0.15", value=ours, at_most=helm + HELM_SECONDS
    )


def large() -> Iterator[Row]:
    """A bundle of 20,000 objects."""
    with tempfile.TemporaryDirectory() as folder:
        size = write_plain(Path(folder), objects=20_000, lines=35)
        seconds, peak = in_child(_measure, "plain", Path(folder))
    title = f"{size / 1e6:.0f} MB of plain YAML, 20,000 objects, peak memory of the process, MiB"
    yield Row(title=title, value=peak, at_most=TEXT_RATIO * size / MEBIBYTE, digits=0)
    print(f"{title}: rendered in {seconds:.1f} s of CPU", file=sys.stderr)


def definition() -> Iterator[Row]:
    """The largest definition of RUKPAK_CORPUS."""
    corpus = os.environ.get("RUKPAK_CORPUS")
    if not corpus:
        print("RUKPAK_CORPUS: not a folder of bundles; see tests/README.md", file=sys.stderr)
        return
    largest = max(find_definitions(Path(corpus)), key=lambda manifest: sum(1 for _ in nodes(manifest)))
    title = f"CRD upgrade safety of {largest['metadata']['name']}, {sum(1 for _ in nodes(largest)):,} nodes, CPU s"
    yield Row(title=title, value=seconds(largest, copy.deepcopy(largest)), at_most=DEFINITION_SECONDS)
    with_changes = seconds(largest, narrow(largest))
    yield Row(title="the same, every node changed", value=with_changes, at_most=CHANGED_SECONDS)


# inputs


def write_plain(folder: Path, *, objects: int, lines: int) -> int:
    """Write ConfigMaps and Deployments, 1,000 in a file; return the bytes."""
    (folder / "manifests").mkdir()
    size = 0
    for first in range(0, objects, 1000):
        text = "---\n".join(_plain_object(number, lines) for number in range(first, min(first + 1000, objects)))
        size += (folder / "manifests" / f"{first:05}.yaml").write_bytes(text.encode())
    return size


def _plain_object(number: int, lines: int) -> str:
    """Return a ConfigMap of so many lines, or, for every other number, a Deployment of as many."""
    if number % 2:
        return _deployment(number, lines)
    data = "".join(f"  key-{line}: value of line {line} in object {number}, quite plain\n" for line in range(lines))
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: object-{number}\n  labels: {{app: bench}}\ndata:\n{data}"
    )


def _deployment(number: int, lines: int) -> str:
    entry = "        - name: VARIABLE_{}\n          value: what the variable is set to in object {}\n"
    variables = "".join(entry.format(line, number) for line in range(lines // 2))
    return (
        f"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: object-{number}\nspec:\n  replicas: 2\n"
        f"  selector:\n    matchLabels:\n      app: object-{number}\n  template:\n    metadata:\n      labels:\n"
        f"        app: object-{number}\n    spec:\n      containers:\n      - name: main\n"
        f"        image: example.com/main:1\n        ports:\n        - containerPort: 8080\n        env:\n{variables}"
    )


def write_operator(folder: Path) -> None:
    """Write an operator with one definition of 1 MB."""
    name = {"properties": {str(i): {"type": "string", "description": "words " * 80} for i in range(DEEP_FIELDS)}}
    schema = {"type": "object", "properties": {f"p{i}": {"type": "object", **name} for i in range(165)}}
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    shipped = Path(__file__).parents[1] / "demonstration" / "bundle" / "operator"
    shutil.copytree(shipped, folder, dirs_exist_ok=True)
    (folder / "manifests" / "things.yaml").write_text(yaml.safe_dump(definition), encoding="utf-8")
    csv = folder / "manifests" / "operator.yaml"
    owned = "    owned:\n    - {name: things.example.com, kind: Thing, version: v1}\n"
    csv.write_text(csv.read_text(encoding="utf-8").replace("    owned:\n", owned), encoding="utf-8")


def write_chart(folder: Path, *, objects: int) -> None:
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: bench\nversion: 1.0.0\n", encoding="utf-8")
    for number in range(objects):
        text = _plain_object(number, 10).replace("in object", "of {{ .Release.Name | quote }} in object")
        (folder / "templates" / f"{number}.yaml").write_text(text, encoding="utf-8")


def find_definitions(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the CustomResourceDefinitions in the YAML files of a folder, except templates."""
    for file in sorted(folder.rglob("*.yaml")):
        data = file.read_bytes()
        if b"kind: CustomResourceDefinition" in data and b"{{" not in data:
            values = [document.value for document in read_documents(data, str(file))]
            yield from (value for value in values if value["kind"] == "CustomResourceDefinition")


def seconds(old: dict[str, Any], new: dict[str, Any]) -> float:
    """Return how long a comparison takes, reading included."""
    return time_work(lambda: compare(read_definition(old), read_definition(new)))


def narrow(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with every node changed."""
    changed = copy.deepcopy(manifest)
    for node in nodes(changed):
        node["description"] = "other"
        node["not"] = {"enum": ["x"]}
    return changed


def nodes(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of all schemas of a definition."""
    waiting = [version["schema"]["openAPIV3Schema"] for version in manifest["spec"]["versions"]]
    while waiting:
        node = waiting.pop()
        yield node
        below = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
        waiting += [child for child in below if isinstance(child, dict)]


# in a separate process


def _render(format_name: str, root: Path, scratch: Path) -> Revision:
    request = RenderRequest(
        name="bench",
        install_namespace="bench",
        tree=ContentTree(root=root, destinations=("",)),
        config={},
        capabilities=capabilities.shipped(),
        means=Means(scratch=scratch),
    )
    return render(format_name, request)


def _render_once(format_name: str, root: Path) -> Revision:
    with tempfile.TemporaryDirectory() as scratch:
        return _render(format_name, root, Path(scratch))


def _measure(format_name: str, root: Path) -> tuple[float, float]:
    seconds = time_work(lambda: _render_once(format_name, root), runs=1)
    return seconds, peak_mebibytes()


def _time_plain(root: Path) -> tuple[float, float]:
    texts = [file.read_bytes() for file in sorted((root / "manifests").iterdir())]
    ours = time_work(lambda: _render_once("plain", root))
    return ours, time_work(lambda: [list(yaml.load_all(text, yaml.CSafeLoader)) for text in texts])


def _time_chart(root: Path) -> tuple[float, float]:
    helm = str(make_finder().find(Means(scratch=root), "spec.format").path)
    _render_once("helm", root)  # found once, including the program
    ours = time_work(lambda: _render_once("helm", root))
    return ours, time_work(lambda: run([helm, "template", "bench", str(root)], stdout=DEVNULL, check=True))


if __name__ == "__main__":
    sys.exit(main())
