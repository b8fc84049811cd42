"""Pages of documentation: their commands are run as they stand there, and what comes back is what they show."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REGISTRY = "registry.example.com"
"""What pages call a registry."""
_BLOCK = re.compile(r"^```console\n\$ (.*?)^```$", re.DOTALL | re.MULTILINE)
_SECONDS = 150


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a page, which may have a document in lines of its own, and its output."""

    command: str
    output: str


def read_steps(page: Path) -> list[Step]:
    """Return all commands of a page, in order."""
    return list(steps_of(page.read_text(encoding="utf-8")))


def steps_of(text: str) -> Iterator[Step]:
    for block in _BLOCK.findall(text):
        for step in block.split("\n$ "):
            first, _, rest = step.partition("\n")
            document, end, output = f"{rest}\n".partition("\nEOF\n") if "<<'EOF'" in first else ("", "", rest)
            yield Step(f"{first}\n{document}\nEOF" if end else first, output)


def run(step: Step, folder: Path, environment: Mapping[str, str], registry: str) -> str:
    """Run a command in a folder with a registry of the test, which has to succeed; return its output."""
    done = subprocess.run(
        ["bash", "-c", step.command.replace(REGISTRY, registry)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (step.command, done.stdout, done.stderr)
    return done.stdout.strip().replace(registry, REGISTRY)


def pattern_of(output: str) -> str:
    """Return a pattern that lets digests, ages and the widths of columns differ."""
    pattern = re.escape(output.strip())
    pattern = re.sub(r"[0-9a-f]{64}|[0-9a-f]{12}", lambda found: f"[0-9a-f]{{{len(found[0])}}}", pattern)
    pattern = re.sub(r"\b\d+s\b", r"\\d+s", pattern)
    return re.sub(r"(\\ ){2,}", " +", pattern)
