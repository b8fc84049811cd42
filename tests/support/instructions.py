"""What people are told: commands of pages, run as they stand there, and what messages tell people to do."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

REGISTRY = "registry.example.com"
"""What pages call a registry."""
_FENCED = re.compile(r"^( *)```(console|sh|bash)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
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


def list_commands(text: str) -> Iterator[str]:
    """Yield the commands of all blocks of a page, those after `$` and those in scripts."""
    for indent, language, block in _FENCED.findall(text):
        lines = block.replace(f"\n{indent}", "\n").removeprefix(indent)
        if language == "console":
            yield from (step.command for step in steps_of(f"```console\n{lines}```"))
        else:
            yield from _split_script(lines)


def _split_script(text: str) -> Iterator[str]:
    """Yield the commands of a script; one that has several lines is complete once bash can parse it."""
    command = ""
    for line in text.splitlines():
        command = f"{command}\n{line}" if command else line
        parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False)
        if command.strip() and parsed.returncode == 0 and not line.endswith("\\"):
            yield command
            command = ""
    assert not command.strip(), command


def run_at_terminal(command: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command at a terminal whose user answers questions with yes; return its exit status and what it showed."""
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        cwd=folder,
        env={**environment, "SHELL": "/bin/bash"},
        input="y\n",
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


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
    """Return a pattern that lets digests, times, ages and the widths of columns differ."""
    pattern = re.escape(output.strip())
    pattern = re.sub(r"[0-9a-f]{64}|[0-9a-f]{12}", lambda found: f"[0-9a-f]{{{len(found[0])}}}", pattern)
    pattern = re.sub(r"\d{4}(\\-\d\d){2}T(\d\d:){2}\d\dZ", r"[-\\dT:]+Z", pattern)
    pattern = re.sub(r"\b\d+s\b", r"\\d+s", pattern)
    return re.sub(r"(\\ ){2,}", " +", pattern)


ROOT = Path(__file__).parents[2]
FILLED_IN = "x"
"""Stands for what is filled in."""
_FIELD = re.compile(r"\bspec(?:\.[a-z][A-Za-z]*)+")
_VALUE = re.compile(rf"\b(?:set|add|allow it in) ({_FIELD.pattern})(?: to |: )(true|false|[A-Z][A-Za-z]+)")
_COMMAND = re.compile(r"(?:kubectl )?\brukpak ((?:[a-z]+)(?: (?:-{1,2})?[a-zA-Z][\w:/.-]*)*)")
_QUOTED = re.compile(r'"([^"]*rukpak [^"]*)"')
_ANNOTATION = re.compile(r"\bcore\.rukpak\.io/[a-z-]+")


@cache
def texts() -> tuple[str, ...]:
    """Return the strings of the program on one line each, with {…} for what is filled in."""
    paths = [path for folder in ("api", "controller") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = (" ".join(text.split()) for path in paths for text in _strings(path))
    return tuple(text for text in found if " " in text and "self." not in text)  # neither names nor CEL


def _strings(path: Path) -> Iterator[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    # Docstrings are shown to nobody, except those of the API's models, which are the descriptions of its fields.
    unseen = () if path.parent.name == "v1alpha2" else {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in unseen:
            yield node.value


def fields() -> set[str]:
    """Return the fields of a spec that messages name."""
    return {field for text in texts() for field in _FIELD.findall(text)}


def settings() -> set[tuple[str, str]]:
    """Return the fields that messages tell people to set, and the values: a word, true or false."""
    return {(field, value) for text in texts() for field, value in _VALUE.findall(text)}


def commands() -> set[str]:
    """Return the command lines of rukpak in quotes that messages tell people to run."""
    quoted = (found for text in texts() for found in _QUOTED.findall(text.replace("{…}", FILLED_IN)))
    return {command for text in quoted for command in _COMMAND.findall(text)}


def marks() -> set[str]:
    """Return the labels and annotations of ours that strings name."""
    return {name for text in texts() for name in _ANNOTATION.findall(text)}


def nested(field: str, value: str) -> dict[str, Any]:
    """Return the members of a spec with one of `settings`."""
    made: Any = {"true": True, "false": False}.get(value, value)
    for name in reversed(field.split(".")[1:]):
        made = {name: made}
    return dict(made)
