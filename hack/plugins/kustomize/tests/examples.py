"""kustomize's own test cases: the files that they write, taken from the tests in its Go module.

Its tests are Go code that writes files by calls with literals. A test is an example if it does only that: no loops or
tables, no plug-ins, no Helm and no options; what it builds, and the objects that it expects, are read here, too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODULE = "sigs.k8s.io/kustomize/api@v0.21.1"
"""The version in kubectl 1.36, and in kustomize 5.8."""
_TEST = re.compile(r"^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_WRITE = re.compile(r'\bth\.Write([KFC])\(\s*"([^"\n]*)",\s*(`[^`]*`|"(?:[^"\\\n]|\\.)*")\s*,?\s*\)')
_ANY_WRITE = re.compile(r"\bth\.Write\w+\(|fSys\.WriteFile|\(th[,)]")  # or a function that writes
_RUN = re.compile(r'\bth\.Run\("([^"]*)",\s*th\.MakeDefaultOptions\(\)\)')
_ANY_RUN = re.compile(r"\bth\.Run\w*\(|\bkrusty\.MakeKustomizer|\.Run\(")
_EXPECTED = re.compile(r"\bth\.AssertActualEqualsExpected\(\s*m,\s*`([^`]*)`\s*,?\s*\)")
_UNUSABLE = re.compile(
    r"https?://|github\.com|\bfor \w|PluginsEnabled|EnableHelm|\bfmt\.Sprintf|t\.Skip|MakeHarnessWithFs"
)
_HEADERS = {
    "K": "\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
    "C": "\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
    "F": "",
}
"""What the calls of the tests write before their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A test case of kustomize."""

    name: str
    files: dict[str, str]
    path: str
    """Of the folder that is built."""
    expected: str
    """The output that kustomize's test expects."""

    def __str__(self) -> str:
        return self.name


def find_examples(folder: Path) -> list[Example]:
    """Return the examples in the Go module of kustomize.

    Args:
        folder: to download from, if the module has not been downloaded yet.

    Raises: AssertionError if there is no Go, or the module cannot be had.
    """
    go = shutil.which("go")
    assert go, f"these tests need the examples in the Go module {MODULE}: install Go"
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOWORK": "off"}
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"these tests need the examples in the Go module {MODULE}: {done.stdout}{done.stderr}"
    tests = Path(json.loads(done.stdout)["Dir"]) / "krusty"
    return [example for file in sorted(tests.glob("*_test.go")) for example in _read(file)]


def _read(file: Path) -> Iterator[Example]:
    for name, body in _TEST.findall(file.read_text(encoding="utf-8")):
        writes, runs, expected = _WRITE.findall(body), _RUN.findall(body), _EXPECTED.findall(body)
        is_plain = len(writes) == len(_ANY_WRITE.findall(body)) and len(_ANY_RUN.findall(body)) == 1
        if is_plain and writes and len(runs) == len(expected) == 1 and not _UNUSABLE.search(body):
            files = {_name(call, path): _HEADERS[call] + _unquote(text) for call, path, text in writes}
            # Only the file system in memory of kustomize's tests has something above its root.
            if "../" not in files.get("kustomization.yaml", ""):
                yield Example(name=name, files=files, path=_relative(runs[0]), expected=expected[0])


def _name(call: str, path: str) -> str:
    return _relative(path if call == "F" else f"{path}/kustomization.yaml")


def _relative(path: str) -> str:
    return os.path.normpath(path).lstrip("/") or "."


def _unquote(literal: str) -> str:
    """Return the value of a literal of Go; those in quotes have the escapes of JSON."""
    return literal[1:-1] if literal.startswith("`") else str(json.loads(literal))
