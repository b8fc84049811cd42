"""The command that runs the tests: what it understands, what it runs, and how its output ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from hack import testing

HERE = Path("/home/somebody")
NODES = ("--numprocesses=1", "--dist=loadfile", "--no-loadscope-reorder")
CLUSTERS = ("--numprocesses=5", "--dist=loadfile", "--no-loadscope-reorder")


@dataclass
class Machine:
    """Stands for the machine: which commands were run, and what each of them returns."""

    last_failed: Path
    commands: list[str] = field(default_factory=list)
    failing: dict[str, list[str]] = field(default_factory=dict)
    """By part of a command the tests that fail in it."""

    def run(self, command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        line = " ".join(command).partition(" -m ")[2] or Path(command[0]).name
        self.commands.append(line)
        failed = [test for part, tests in self.failing.items() if part in line for test in tests]
        if line.startswith("pytest"):
            self.last_failed.write_text(json.dumps(dict.fromkeys(failed, True)))
        return subprocess.CompletedProcess(command, int(bool(failed) or any(part in line for part in self.failing)))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path / "lastfailed")
    monkeypatch.setattr(testing, "LAST_FAILED", made.last_failed)
    monkeypatch.setattr(testing, "PLUGINS", tmp_path / "plugins")
    monkeypatch.setattr(subprocess, "run", made.run)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return made


@pytest.fixture
def run(machine: Machine, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str) -> tuple[int, str]:
        return testing.main(arguments), capfd.readouterr().out

    return run


Run = Callable[..., tuple[int, str]]


def test_without_a_part_all_tests_on_clusters_share_their_workers(machine: Machine, run: Run) -> None:
    status, output = run("-k", "color")
    assert status == 0
    assert machine.commands[-3:] == [
        "pytest --numprocesses=5 --dist=loadfile tests/unit -k color",
        "hack.control_plane programs",
        f"pytest {' '.join(CLUSTERS)} tests/integration tests/e2e tests/node -k color",
    ]
    assert output.rstrip().endswith("hack/test --all runs them")


def test_a_path_takes_the_place_of_the_whole_part_and_is_run_whatever_it_is(machine: Machine, run: Run) -> None:
    _, output = run("unit", "tests/unit/hack/test_testing.py", "-x")
    assert machine.commands == ["pytest --numprocesses=5 --dist=loadfile tests/unit/hack/test_testing.py --all -x"]
    assert "left out" not in output


def test_what_takes_long_has_until_the_same_time_in_all_parts(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "time", SimpleNamespace(monotonic=lambda: 60 * len(machine.commands)))
    run("--all", "--within=45")
    words = [line.split() for line in machine.commands]
    assert [line[-1] for line in words if line[0] == "pytest"] == ["--within=40.0", "--within=39.0"]


def test_all_parts_run_even_if_one_fails(machine: Machine, run: Run) -> None:
    machine.failing = {"mypy": [], "tests/unit": ["tests/unit/test_a.py::test_b[c d]"]}
    status, output = run()
    assert status == 1
    assert f"pytest {' '.join(CLUSTERS)} tests/integration tests/e2e tests/node" in machine.commands
    assert "hack/test lint\n    (mypy)\n  hack/test unit 'tests/unit/test_a.py::test_b[c d]'\n" in output
    assert "integration, e2e and node: passed in 0 s" in output


def test_a_test_that_passes_the_second_time_is_named(machine: Machine, run: Run) -> None:
    machine.failing = {"--numprocesses=5": ["tests/unit/test_a.py::test_b"]}
    status, output = run("unit", "--retry")
    assert status == 0
    assert machine.commands[-1] == "pytest --all --session-timeout=900 tests/unit/test_a.py::test_b"
    assert "failed, and passed when run again alone:\n  hack/test unit tests/unit/test_a.py::test_b\n" in output


def test_a_test_that_fails_twice_has_failed(machine: Machine, run: Run) -> None:
    machine.failing = {"pytest": ["tests/unit/test_a.py::test_b"]}
    status, output = run("unit", "--retry")
    assert status == 1
    assert "failed; to run only these again:\n  hack/test unit tests/unit/test_a.py::test_b\n" in output
    assert "alone" not in output


def test_an_expression_that_selects_nothing_of_a_part_fails_it_only_if_it_is_the_only_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr(testing, "_pytest", lambda *_, **__: testing.NOTHING_SELECTED)
    assert run("-k", "nothing")[0] == 0
    assert run("unit", "-k", "nothing")[0] == 1


def test_missing_programs_are_obtained_first(machine: Machine, run: Run) -> None:
    machine.failing = {"control_plane programs": []}
    run("e2e", "tests/e2e/test_demo.py")
    assert machine.commands[1] == "pytest --collect-only --obtain -qq tests/e2e/test_demo.py --all"


def test_each_package_of_plug_ins_is_checked_by_its_own_configuration(machine: Machine, run: Run) -> None:
    (testing.PLUGINS / "example").mkdir(parents=True)
    (testing.PLUGINS / "example" / "pyproject.toml").touch()
    machine.failing = {"mypy --cache-dir": []}
    status, output = run("lint")
    assert status == 1
    assert "(mypy in example)" in output


REFUSED = ("from rukpak.api.plugins import Format", "import rukpak.controller.building.entry_points")
ALLOWED = ("from rukpak.plugins import Format", "from rukpak.conformance import FormatContract")


def test_a_package_of_plug_ins_may_import_only_what_is_for_it() -> None:
    """Whatever is imported anywhere in a package, in its functions and in its tests."""
    command = [sys.executable, "-m", "ruff", "check", "--select=TID251", "--output-format=concise", "--quiet", "-"]
    code = "def function():\n" + "".join(f"    {line}\n" for line in (*REFUSED, *ALLOWED))
    done = subprocess.run(
        [*command, "--stdin-filename=hack/plugins/example/tests/test_example.py"],
        cwd=testing.ROOT,
        input=code.encode(),
        capture_output=True,
        check=False,
    )
    found = [line.split(":")[1] for line in done.stdout.decode().splitlines() if "TID251" in line]
    assert found == ["2", "3"], done.stdout + done.stderr


@pytest.mark.parametrize("given", [("--kubeconfig", "config"), ("--kubeconfig=config",)])
def test_a_kubeconfig_is_relative_to_the_folder_of_the_caller(given: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    assert testing.parse(["e2e", *given], tmp_path).arguments == (f"--kubeconfig={tmp_path}/config",)


@pytest.mark.parametrize("given", [("--within", "45"), ("--within=45",)])
def test_minutes_may_follow_their_option(given: tuple[str, ...]) -> None:
    choice = testing.parse(["--all", *given], HERE)
    assert (choice.within, choice.everything, choice.arguments) == (45, True, ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["units"], 'there is no part "units"; parts are lint, unit, integration, e2e and node'),
        (["integration", "e2e"], '"integration" or "e2e": one part, or none for all of them'),
        (["--all", "tests/e2e"], 'say of which part "tests/e2e" is: hack/test PART PATH'),
        (["tests/e2e"], 'say of which part "tests/e2e" is: hack/test PART PATH'),
        (["unit", "tests/e2e"], '"tests/e2e" is of another part than unit'),
        (
            ["unit", "./tests/unit/test_none.py::test_a"],
            '"tests/unit/test_none.py::test_a" does not exist; paths are relative to the repository',
        ),
        (["e2e", "--kubeconfig"], "--kubeconfig needs a file"),
        (["e2e", "--kubeconfig=", "-x"], "--kubeconfig needs a file"),
        (["e2e", "--kubeconfig=/none"], '--kubeconfig: there is no file "/none"'),
        (["--within"], "--within needs minutes"),
        (["--within=soon"], '--within needs minutes, not "soon"'),
    ],
)
def test_what_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match="hack/test") as caught:
        testing.parse(arguments, HERE)
    assert str(caught.value) == f"hack/test: {message}"
