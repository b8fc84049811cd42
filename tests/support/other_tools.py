"""How Argo CD and Flux judge an object, by the code that they use themselves.

The program is built once per machine from `go_health/`, which needs Go and its modules, from the module cache or a
proxy.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.go_programs import build

SOURCE = Path(__file__).with_name("go_health")


def build_judge() -> Path:
    """Return the path of the program.

    Raises: UnavailableError without Go, or without the modules.
    """
    return build(SOURCE)


def judge(program: Path, questions: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """Return an answer with `status` and `message` for each question: an `object`, and by what to judge it."""
    lines = "\n".join(map(json.dumps, questions))
    output = subprocess.run([program], input=lines, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]
