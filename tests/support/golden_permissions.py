"""Real bundles, reduced to what their permissions depend on, and the lines that a person has read and found true.

Reduced: schemas of CRDs, data of ConfigMaps and Secrets, arguments, probes, resources and literal environment variables
are left out. `python -m tests.support.golden_permissions` writes the expected lines again; read every difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rukpak.controller.permissions import find_permissions
from rukpak.controller.permissions.statement import to_lines

FOLDER = Path(__file__).parents[1] / "data" / "permissions"
BUNDLES = sorted(path.parent for path in FOLDER.glob("*/bundle.json"))


def read_bundle(folder: Path) -> dict[str, Any]:
    bundle: dict[str, Any] = json.loads((folder / "bundle.json").read_text())
    return bundle


def describe(bundle: dict[str, Any]) -> str:
    permissions = find_permissions(bundle["objects"], bundle["installNamespace"])
    return "".join(f"{line.severity.name:7}{line.text}\n" for line in to_lines(permissions))


if __name__ == "__main__":
    for each in BUNDLES:
        (each / "expected.txt").write_text(describe(read_bundle(each)))
