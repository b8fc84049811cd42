"""Saved inputs: `tests/data/fuzz/<target>/` holds files, `tests/data/fuzz/<target>.json` a list of texts.

Findings of a fuzzer become files there, and are tried first from then on.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

KEPT = Path(__file__).parents[2] / "tests" / "data" / "fuzz"


def kept_inputs(target: str, root: Path = KEPT) -> dict[str, bytes]:
    """Return the saved inputs of a target by the name of the file or the number of the text."""
    texts: list[str] = json.loads(path.read_text()) if (path := root / f"{target}.json").exists() else []
    found = {f"{target}.json[{index}]": text.encode("utf-8", "surrogatepass") for index, text in enumerate(texts)}
    files = sorted((root / target).iterdir()) if (root / target).is_dir() else []
    return {**found, **{path.name: path.read_bytes() for path in files}}


def keep(target: str, data: bytes, root: Path = KEPT) -> Path:
    """Save an input that broke a target, named by its digest. Returns: its path."""
    path = root / target / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
