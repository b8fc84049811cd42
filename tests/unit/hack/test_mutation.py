"""Which changes of the code are tried, which tests are asked first, and when a change counts as found."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from hack.mutation import ROOT, Mutation, choose_integration_tests, choose_tests, draw, find_mutations, try_out


class Case(NamedTuple):
    source: str
    changed: list[str]
    """Each as it is after one change."""


CASES = {
    "a comparison is turned": Case("found = a < b\n", ["found = (not (a < b))\n"]),
    "a negation is dropped": Case("found = not a\n", ["found = (a)\n"]),
    "operators are exchanged, conditions dropped": Case(
        "found = a and b\n", ["found = True and b\n", "found = (a or b)\n", "found = a and True\n"]
    ),
    "the first condition is dropped from an alternative, too": Case(
        "found = a or b\n", ["found = False or b\n", "found = (a and b)\n", "found = a or False\n"]
    ),
    "a branch is always taken": Case("if a:\n    b = 1\n", ["if True:\n    b = 1\n"]),
    "a choice is always the first": Case("found = b if a else c\n", ["found = b if True else c\n"]),
    "nothing is left out of a list": Case("found = [a for a in b if a]\n", ["found = [a for a in b if True]\n"]),
    "a call is left out": Case("if True:\n  run(\n    1)\n", ["if True:\n  pass\n"]),
    "an error is not raised": Case("raise ValueError\n", ["pass\n"]),
    "a result is replaced": Case("def f():\n    return a\n", ["def f():\n    return None\n"]),
    "an answer is turned": Case("def f():\n    return True\n", ["def f():\n    return False\n"]),
    "letters of several bytes move nothing": Case('a("ü…"); b()\n', ["pass; b()\n", 'a("ü…"); pass\n']),
    "braces are kept": Case("found = {} == {a: 1}\n", ["found = (not ({} == {a: 1}))\n"]),
    "a result of nothing stays": Case("def f():\n    return None\n", []),
    "messages of the log stay": Case('log.info("a", extra={"b": 1})\nself._log.debug("a")\n', []),
    "docstrings stay": Case('"""A."""\n\ndef f():\n    """B."""\n', []),
    "assertions stay": Case("assert a == b\n", []),
    "what is for type checkers stays": Case("if TYPE_CHECKING:\n    run()\n", []),
    "annotations stay": Case("a: x(not b) = c\n", []),
    "__repr__ stays": Case("class A:\n    def __repr__(self):\n        return a\n", []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_changed(case: Case) -> None:
    assert [found.apply(case.source) for found in find_mutations("a.py", case.source)] == case.changed


def test_every_change_of_a_module_is_another_program() -> None:
    source = (ROOT / "controller/retries.py").read_text("utf-8")
    original = ast.dump(ast.parse(source))
    changes = find_mutations("controller/retries.py", source)
    assert len(changes) > 50
    assert [found for found in changes if ast.dump(ast.parse(found.apply(source))) == original] == []


def some(kind: str, count: int) -> list[Mutation]:
    blank = Mutation(path="a.py", kind=kind, line=1, span=(0, 1), before="a", after="b")
    return [replace(blank, line=line, span=(line, line + 1)) for line in range(count)]


def test_the_same_seed_draws_the_same_places_and_another_seed_others() -> None:
    mutations = some("call left out", 1000)
    assert draw(mutations, 60, 1) == draw(mutations, 60, 1) != draw(mutations, 60, 2)


def test_each_kind_is_drawn_as_often_in_the_order_of_the_code() -> None:
    drawn = draw([*some("many", 1000), *some("few", 3), *some("some", 50)], 23, 1)
    assert [[each.kind for each in drawn].count(kind) for kind in ("few", "many", "some")] == [3, 10, 10]
    assert [each.line for each in drawn] == sorted(each.line for each in drawn)


TESTS = {
    "tests/unit/api/test_names.py": "",
    "tests/unit/controller/apply/test_ledger.py": "",
    "tests/unit/controller/apply/test_order.py": "",
    "tests/unit/controller/apply/test_plan.py": "from rukpak.controller.apply import order, plan",
    "tests/unit/controller/kube/test_client.py": "import rukpak.controller.apply.plan\n",
    "tests/unit/controller/test_retries.py": "from rukpak.controller.retries import Retries",
}


def test_the_choose_tests_the_module_are_run_first_then_those_that_import_it() -> None:
    near, others = choose_tests("controller/apply/order.py", TESTS)
    assert [Path(test).stem for test in near] == ["test_order", "test_plan", "test_ledger"]
    _, others = choose_tests("controller/apply/plan.py", TESTS)
    assert [Path(test).stem for test in others] == ["test_client", "test_names", "test_retries"]


def test_a_module_that_is_in_no_package_is_near_tests_that_are_in_none() -> None:
    near, others = choose_tests("controller/retries.py", TESTS)
    assert near == ["tests/unit/controller/test_retries.py"]
    assert len(others) == 5


PAGES = {"controller/README.md": "`test_crd.py`", "controller/apply/README.md": "`test_order.py`, `test_x.py`"}


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("controller/apply/plan.py", ["test_order.py"]),
        ("controller/formats/helm/format.py", ["test_crd.py"]),
        ("api/names.py", []),
    ],
)
def test_integration_tests_are_those_that_the_nearest_page_names(path: str, chosen: list[str]) -> None:
    tests = [f"tests/integration/{name}" for name in ("test_crd.py", "test_order.py", "test_prune.py")]
    found = choose_integration_tests(path, PAGES, tests)
    assert [Path(test).name for test in found] == chosen


CODE = "def larger(a, b):\n    return a if a > b else b\n"
TEST = "from rukpak.controller.code import larger\n\ndef test_larger():\n    assert larger(1, 2) == 2\n"


OWN_TEST = "tests/unit/controller/test_code.py"
RUNS = [([OWN_TEST], 0)]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one module and its test."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")  # it takes most of the time
    for path, text in {
        "rukpak/__init__.py": "",
        "controller/__init__.py": "",
        "controller/code.py": CODE,
        "tests/unit/controller/test_code.py": TEST,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "rukpak/controller").symlink_to("../controller")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


TURNED = next(each for each in find_mutations("controller/code.py", CODE) if each.kind == "comparison turned")


def test_a_change_is_found_by_the_test_that_fails_and_undone(copy: Path) -> None:
    assert try_out(TURNED, copy, RUNS, set()) == f"{OWN_TEST}::test_larger"
    assert (copy / "controller/code.py").read_text() == CODE
