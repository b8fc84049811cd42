"""The commands in hack/, as far as they can be tried without setting anything up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HACK = Path(__file__).parents[3] / "hack"


def run(command: Path, *arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "HOME": "/nonexistent"}
    return subprocess.run(
        ["/bin/bash", command, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with what every Linux has, and neither git nor Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cat", "dirname", "env", "flock", "sha256sum"):
        (folder / name).symlink_to(next(path for path in (Path("/usr/bin", name), Path("/bin", name)) if path.exists()))
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository without `.venv`."""
    folder = tmp_path / "clone"
    (folder / "hack").mkdir(parents=True)
    for name in ("environment.sh", "test"):
        (folder / "hack" / name).write_bytes((HACK / name).read_bytes())
    (folder / "rukpak").mkdir()
    for name in ("api", "controller"):
        (folder / name).mkdir()
        (folder / "rukpak" / name).symlink_to(f"../{name}")
    (folder / "pyproject.toml").touch()
    (folder / "hack/requirements.txt").write_text("# Section: controller\n")
    return folder


def test_a_machine_without_git_is_told_so_in_one_line(clone: Path, tools: Path) -> None:
    done = run(clone / "hack/test", path=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hack/test: git is missing; install it\n"


def test_a_checkout_without_links_is_told_in_one_line(clone: Path, tools: Path) -> None:
    """As git makes it with core.symlinks=false: a link is a file with the path in it."""
    link = clone / "rukpak/api"
    link.unlink()
    link.write_text("../api")
    done = run(clone / "hack/test", path=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert 'run "git config core.symlinks true && git checkout -- rukpak"' in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_machine_without_python_is_told_so_in_one_line(clone: Path, tools: Path) -> None:
    (tools / "git").symlink_to("/bin/true")
    done = run(clone / "hack/test", path=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hack/test: Python 3.11 or newer with its modules venv and ensurepip is missing")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def set_up(clone: Path, tools: Path) -> Path:
    """A repository whose environment is there; its interpreter prints how it is called."""
    (tools / "git").symlink_to("/bin/true")
    interpreter = clone / ".venv/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.write_text('#!/bin/bash\n[ "$1" = --version ] || echo "$PWD: $*"\n')
    interpreter.chmod(0o755)
    script = (HACK / "environment.sh").read_text().removesuffix("\nset_up\n")
    script += "\nrequirements=$(list_requirements)\nfingerprint > .venv/.fingerprint\n"
    (clone / "hack/fingerprint").write_text(script)
    subprocess.run(["/bin/bash", clone / "hack/fingerprint"], env={"PATH": str(tools)}, check=True)
    return clone


def test_the_tests_are_run_by_the_interpreter_of_the_environment(set_up: Path, tools: Path) -> None:
    done = run(set_up / "hack/test", "integration", "-k", "color", path=str(tools))
    assert done.stdout == f"{set_up}: -m hack.testing integration -k color\n"


def test_what_chooses_the_surroundings_is_no_argument_of_the_tests(set_up: Path, tools: Path) -> None:
    (set_up / ".venv/bin/python").write_text(
        '#!/bin/bash\n[ "$1" = --version ] || echo "$RUKPAK_KUBERNETES_VERSION: $*"\n'
    )
    done = run(set_up / "hack/test", "unit", "-x", "--kubernetes", "1.35", path=str(tools))
    assert done.stdout == "1.35: -m hack.testing unit -x\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--python", "3.99"), "Python 3.99 with its modules venv and ensurepip is missing; install it"),
        (("--dependencies", "latest"), "RUKPAK_DEPENDENCIES is newest or oldest, or not set"),
    ],
)
def test_surroundings_that_are_not_there_are_told_in_one_line(
    arguments: tuple[str, ...], message: str, set_up: Path, tools: Path
) -> None:
    done = run(set_up / "hack/test", "unit", *arguments, path=str(tools))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"hack/test: {message}\n"


def test_what_is_installed_changes_with_the_lock(set_up: Path, tools: Path) -> None:
    (set_up / "hack/requirements.txt").write_text("changed")
    done = run(set_up / "hack/test", "unit", path=str(tools))
    assert done.returncode == 1
    assert "is missing" in done.stderr
