"""YAML compared with kubectl's own reader: cases, all YAML in this repository, and that of RUKPAK_CORPUS."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.controller.formats.manifests import read_documents
from tests.support.other_programs import UnavailableError, build_reader, read_all

pytestmark = pytest.mark.thorough  # builds a program with Go first

REPOSITORY = Path(__file__).parents[4]
FOLDERS = [
    REPOSITORY / "tests/data",
    REPOSITORY / "config",
    Path(os.environ.get("RUKPAK_CORPUS", REPOSITORY / "config")),
]
SUFFIXES = {".yaml", ".yml", ".json"}
# The intended differences of controller/formats/README.md.
STRICTER = [
    "duplicate key",
    "nested more than",
    "JSON has no",
    "repeat more than",
    "did not find expected <document start>",
]
CASES = [
    "on: y\n1.5: 0755\n1e6: 1e3\n",
    "3.14159265358979: 1\n16777217.5: 2\n1e39: 3\n1e-50: 4\n1e400: 5\n-0.0: 6\n0.1: 7\n1e21: 8\n",
    "a: [0949938179606439654, 9223372036854775807.0, 1e20, 1.0, 1e300, .5, -0.0, 1e-7, 9007199254740993.0]\n",
    "a: [!!float 9007199254740993, ! yes, !!int '12', !!str 1, !x 1, !!binary aGk=, !!bool y, !!null ~]\n",
    "! yes: 1\n! 0x10: 2\n!!str on: 3\n",
    "18446744073709551615: 1\n",
    "-9223372036854775808: 1\n",
    "a: &x {b: 1}\nc: {!!merge <<: *x, d: 2}\ne: {!!merge '<<': *x}\nf: {!!str <<: *x}\ng: {'<<': *x}\nh: {! <<: *x}\n",
    "a: [sh, -c, echo a:]\nb: {c: d:, e:, f: [g:, h: i]}\nj: [{k:}, {l:[m]}]\n",
    "a: [sh, -c, echo a:]\nb: {c: d:, e:, f: [g:, h: i]}\nj: [{k:}, 'l':[m:]]\n",
    "a: &x b\nc: [*x:, *x , x*:, 'y':, \"z\":[w:]]\n",
    "a: 'b:]'\nc: d:]\ne: |\n  f:,\n# g:]\nh: [i::, j:k:, é:]\n",
    "a: [:]\n",
    "a: [b:{]\n",
    "a: [b:?]\n",
    "%YAML 1.1\n---\na: 1\n",
    "a: 1\n--- {b: 1}\n",
    "a: 22:22\nb: 2001-12-14\nc: 1_000\nd: 0o14\ne: 08\nf: 0b11\ng: =\nh: <<\n",
    "a: |\n  b\n---\n# c\n--- # d\ne: >-\n  f\n  g",
]


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return build_reader()
    except UnavailableError as error:
        pytest.skip(str(error))


def read(data: bytes) -> list[Any] | str:
    """Return the documents of a file, or why it is refused."""
    try:
        return [document.value for document in read_documents(data, "f")]
    except BundleError as error:
        return error.message


def is_same(ours: list[Any] | str, theirs: list[Any] | str) -> bool:
    """Return whether both readers agree: messages may differ."""
    if isinstance(ours, str):
        return isinstance(theirs, str) or any(problem in ours for problem in STRICTER)
    return ours == theirs


def find_differences(program: Path, texts: dict[str, bytes]) -> list[str]:
    pairs = zip(texts.items(), read_all(program, texts.values()), strict=True)
    return [name for (name, data), theirs in pairs if not is_same(read(data), theirs)]


def test_cases_are_read_as_kubectl_reads_them(program: Path) -> None:
    assert find_differences(program, {text: text.encode() for text in CASES}) == []


def test_a_difference_would_be_found(program: Path) -> None:
    (theirs,) = read_all(program, [b"a: 0755\n"])
    assert theirs == [{"a": 493}]
    assert not is_same([{"a": 755}], theirs)
    assert not is_same("f:1: not YAML", theirs)


def test_files_are_read_as_kubectl_reads_them(program: Path) -> None:
    found = (path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    files = {str(path): path.read_bytes() for path in found if not {"templates", "fuzz"} & set(path.parts)}
    assert len(files) > 20
    assert find_differences(program, files) == []
