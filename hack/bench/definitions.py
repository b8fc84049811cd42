"""hack/bench/definitions: CRD upgrade safety with the largest real definition; needs no cluster.

It is compared with itself, parsed again, and with a copy in which every node has another description and allows one
value less, which gives the most findings.
"""

from __future__ import annotations

import copy
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from controller.apply.crd_changes import compare, read_definition
from controller.formats.manifests import read_documents

RUNS = 5
BUDGET_SECONDS = 0.3
"""Against itself."""

Manifest = dict[str, Any]


def main() -> int:
    """Measure, print a table, and return the exit status: 1 if the budget is missed."""
    corpus = os.environ.get("RUKPAK_CORPUS")
    if not corpus:
        print("RUKPAK_CORPUS: not a folder of bundles; see tests/README.md", file=sys.stderr)
        return 2
    largest = max(find_definitions(Path(corpus)), key=lambda manifest: sum(1 for _ in nodes(manifest)))
    same = seconds(largest, copy.deepcopy(largest))
    narrower = seconds(largest, narrow(largest))
    name, count = largest["metadata"]["name"], sum(1 for _ in nodes(largest))
    print(f"| {name}, {count:,} nodes | s | at most |\n| --- | ---: | ---: |")
    print(f"| against itself | {same:.3f} | {BUDGET_SECONDS:.3f} |\n| with every node changed | {narrower:.3f} | |")
    return 1 if same > BUDGET_SECONDS else 0


def find_definitions(folder: Path) -> Iterator[Manifest]:
    """Yield the CustomResourceDefinitions in the YAML files of a folder, except templates."""
    for file in sorted(folder.rglob("*.yaml")):
        data = file.read_bytes()
        if b"kind: CustomResourceDefinition" in data and b"{{" not in data:
            values = [document.value for document in read_documents(data, str(file))]
            yield from (value for value in values if value["kind"] == "CustomResourceDefinition")


def seconds(old: Manifest, new: Manifest) -> float:
    """Return how long a comparison takes, reading included: the median of some."""
    return statistics.median(_time(lambda: compare(read_definition(old), read_definition(new))) for _ in range(RUNS))


def narrow(manifest: Manifest) -> Manifest:
    """Return a definition with every node changed."""
    changed = copy.deepcopy(manifest)
    for node in nodes(changed):
        node["description"] = "other"
        node["not"] = {"enum": ["x"]}
    return changed


def nodes(manifest: Manifest) -> Iterator[Manifest]:
    """Yield the nodes of all schemas of a definition."""
    waiting = [version["schema"]["openAPIV3Schema"] for version in manifest["spec"]["versions"]]
    while waiting:
        node = waiting.pop()
        yield node
        below = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
        waiting += [child for child in below if isinstance(child, dict)]


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
