"""The commands in hack/, as far as they can be tried without setting anything up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HACK = Path(__file__).parents[3] / "hack"
COMMANDS = ["cluster", "fix", "run", "test"]


def run(command: Path, *arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "HOME": "/nonexistent"}
    return subprocess.run(
        ["/bin/bash", command, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with what every Linux has, and neither git nor Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cat", "dirname", "flock", "sha256sum"):
        (folder / name).symlink_to(next(path for path in (Path("/usr/bin", name), Path("/bin", name)) if path.exists()))
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository without `.venv`."""
    folder = tmp_path / "clone"
    (folder / "hack").mkdir(parents=True)
    for name in ("environment.sh", *COMMANDS):
        (folder / "hack" / name).write_bytes((HACK / name).read_bytes())
    (folder / "pyproject.toml").touch()
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_machine_without_git_is_told_so_in_one_line(name: str, clone: Path, tools: Path) -> None:
    done = run(clone / "hack" / name, path=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"hack/{name}: git is missing; install it\n"


def test_a_machine_without_python_is_told_so_in_one_line(clone: Path, tools: Path) -> None:
    (tools / "git").symlink_to("/bin/true")
    done = run(clone / "hack/test", path=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hack/test: Python 3.11 or newer with its modules venv and ensurepip is missing")
    assert done.stderr.count("\n") == 1


def test_an_old_python_is_no_python(clone: Path, tools: Path) -> None:
    (tools / "git").symlink_to("/bin/true")
    (tools / "python3").write_text("#!/bin/bash\nexit 1\n")
    (tools / "python3").chmod(0o755)
    done = run(clone / "hack/test", path=str(tools))
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr


@pytest.fixture
def set_up(clone: Path, tools: Path) -> Path:
    """A repository whose environment is there; its interpreter prints how it is called."""
    (tools / "git").symlink_to("/bin/true")
    (tools / "nproc").write_text("#!/bin/bash\necho 2\n")
    (tools / "nproc").chmod(0o755)
    interpreter = clone / ".venv/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text('#!/bin/bash\n[ "$1" = --version ] || echo "$PWD: $*"\n')
    interpreter.chmod(0o755)
    script = (HACK / "environment.sh").read_text().removesuffix("\nset_up\n") + "\nfingerprint > .venv/.fingerprint\n"
    (clone / "hack/fingerprint").write_text(script)
    subprocess.run(["/bin/bash", clone / "hack/fingerprint"], env={"PATH": str(tools)}, check=True)
    return clone


def test_one_part_runs_nothing_else(set_up: Path, tools: Path) -> None:
    done = run(set_up / "hack/test", "integration", "-k", "color", path=str(tools))
    command = "-m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder tests/integration -k color"
    assert done.stdout == f"== integration\n{set_up}: {command}\n"


def test_without_a_part_integration_and_e2e_tests_share_their_workers(set_up: Path, tools: Path) -> None:
    linter = set_up / ".venv/bin/lint-imports"
    linter.write_text("#!/bin/bash\n")
    linter.chmod(0o755)
    done = run(set_up / "hack/test", "-k", "color", path=str(tools))
    command = "-m pytest --numprocesses=3 --dist=loadfile --no-loadscope-reorder tests/integration tests/e2e -k color"
    assert done.stdout.endswith(f"== integration and e2e\n{set_up}: {command}\n")
    assert "-m pytest --numprocesses=auto tests/unit -k color" in done.stdout


def test_a_path_takes_the_place_of_the_whole_part(set_up: Path, tools: Path) -> None:
    done = run(set_up / "hack/test", "unit", "tests/unit/hack/test_cache.py", "-x", path=str(tools))
    assert done.stdout.endswith("-m pytest --numprocesses=auto tests/unit/hack/test_cache.py -x\n")


def test_an_unknown_part_is_refused_with_the_known_ones(set_up: Path, tools: Path) -> None:
    done = run(set_up / "hack/test", "units", path=str(tools))
    assert done.returncode == 1
    assert done.stderr == 'hack/test: there is no part "units"; parts are lint, unit, integration and e2e\n'


def test_a_changed_pyproject_makes_the_environment_anew(set_up: Path, tools: Path) -> None:
    (set_up / "pyproject.toml").write_text("changed")
    done = run(set_up / "hack/test", "unit", path=str(tools))
    assert done.returncode == 1
    assert "is missing" in done.stderr
