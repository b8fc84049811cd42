"""The YAML reader of kubectl (k8s.io/apimachinery, sigs.k8s.io/yaml) as a small program, to compare ours with.

It is built once per machine from `go_yaml/`, which needs Go and its modules, from the module cache or a proxy.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.go_programs import build

SOURCE = Path(__file__).with_name("go_yaml")


def build_reader() -> Path:
    """Return the path of the program.

    Raises: UnavailableError without Go, or without the modules.
    """
    return build(SOURCE)


def read_all(program: Path, files: Iterable[bytes]) -> list[list[Any] | str]:
    """Return the documents of each file as kubectl reads them, or its error."""
    lines = "\n".join(json.dumps(base64.b64encode(data).decode()) for data in files)
    output = subprocess.run([program], input=lines.encode(), check=True, capture_output=True).stdout
    answers = (json.loads(line, parse_int=_read_integer) for line in output.splitlines())
    return [answer.get("error") or answer["documents"] for answer in answers]


def _read_integer(text: str) -> int | float:
    """Return an integer as Kubernetes reads it from JSON: beyond int64, it is a float."""
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else float(text)
