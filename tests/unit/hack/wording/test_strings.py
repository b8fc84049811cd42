"""Which strings of the program are listed for a reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from hack.wording.strings import find_strings, list_strings

ROOT = Path(__file__).resolve().parents[4]

CASES = {
    "a message": ('fail("no such branch")', ["no such branch"]),
    "an f-string as a template": ('text = f"{path}: no branch {ref!r}"', ["{…}: no branch {…}"]),
    "a string in an expression of an f-string": (
        "f(f\"it {'works well' if ok else 1}\")",
        ["it {…}", "works well"],
    ),
    "parts that are joined by the parser": ('text = ("no " f"branch {ref}")', ["no branch {…}"]),
    "a word that is logged": ('logger.info("started", extra={"name": "x"})', ["started"]),
    "a word of an error": ('raise BundleError(reason, f"forbidden")', ["forbidden"]),
    "a word of help": ('Option(help="verbosity")', ["verbosity"]),
    "no docstring": ('def f():\n    """Do something."""', []),
    "no word and no list separator": ('x = ", ".join(["name", "kind"])', []),
    "no pattern": ('x = re.compile("a b"), Field(pattern="^a b$")', []),
    "of a rule the message alone": ('rule("has(self.a) != has(self.b)", "set one of a and b")', ["set one of a and b"]),
    "descriptions of API models and of those that inherit": (
        '''
        class Spec(Api):
            """What to install."""
            paused: bool = False
            """Whether it is
            paused."""
        class More(Spec):
            """More of it."""
        class Other:
            """Not shown."""
        ''',
        ["What to install.", "Whether it is paused.", "More of it."],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_listed(name: str) -> None:
    source, expected = CASES[name]
    assert [string.text for string in find_strings(dedent(source))] == expected


def test_the_listing_has_packages_files_and_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "controller/kube").mkdir(parents=True)
    (tmp_path / "controller/kube/lease.py").write_text('x = 1\nfail("the Lease is lost")\n')
    (tmp_path / "controller/quiet.py").write_text("x = 1\n")
    listing = list(list_strings(tmp_path, ("controller",)))
    assert listing == ["== controller", "== controller/kube", "controller/kube/lease.py", "    2: the Lease is lost"]


def test_the_command_lists_what_is_asked_for() -> None:
    command = [sys.executable, str(ROOT / "hack/generate"), "--strings", "api/v1alpha2/conditions.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("== api/v1alpha2\napi/v1alpha2/conditions.py\n")
    assert "every managed object is healthy" in done.stdout


def test_the_command_refuses_what_does_not_exist() -> None:
    command = [sys.executable, str(ROOT / "hack/generate"), "--strings", "controller/nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "controller/nothing: no such file or folder\n")
