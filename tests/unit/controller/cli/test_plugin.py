"""`rukpak plugin new`: what a name makes, and what is refused. That the packages work: tests/integration."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rukpak.controller.cli import main
from rukpak.controller.cli.plugin import name_things

NAMES = [
    ("example.com/ini", "rukpak-ini", "rukpak_ini", "IniFormat"),
    ("example.com/key-values", "rukpak-key-values", "rukpak_key_values", "KeyValuesFormat"),
    ("ini.example.com/v1", "rukpak-ini", "rukpak_ini", "IniFormat"),
    ("ini.example.com/v1alpha1", "rukpak-ini", "rukpak_ini", "IniFormat"),
]


@pytest.mark.parametrize(("name", "distribution", "module", "plugin"), NAMES, ids=[name for name, *_ in NAMES])
def test_what_a_name_makes(name: str, distribution: str, module: str, plugin: str) -> None:
    made = name_things(name, "format")
    assert (made["distribution"], made["module"], made["plugin"]) == (distribution, module, plugin)


@pytest.mark.parametrize("name", ["ini", "example.com", "example/ini", "Example.com/ini", "a.b/Ini", "a.b/c/d", "a.b/"])
def test_what_is_no_name(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    assert main(["plugin", "new", name, "--kind=format", f"--folder={tmp_path / 'made'}"]) == 2
    assert f'"{name}" is not <domain>/<name>' in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["format", "source", "processor"])
def test_all_files_are_written_and_have_no_placeholders(kind: str, tmp_path: Path) -> None:
    assert main(["plugin", "new", "example.com/ini", f"--kind={kind}", f"--folder={tmp_path / 'made'}"]) == 0
    found = {
        str(path.relative_to(tmp_path / "made")): path for path in (tmp_path / "made").rglob("*") if path.is_file()
    }
    assert found.keys() == {
        *(".gitignore", ".github/workflows/test.yaml", "Dockerfile", "README.md", "example.yaml", "pyproject.toml"),
        *("rukpak_ini.py", "tests/test_rukpak_ini.py"),
    }
    assert not [name for name, path in found.items() if "$name" in path.read_text() or "template" in name]
    project = tomllib.loads(found["pyproject.toml"].read_text())["project"]
    assert list(project["entry-points"][f"rukpak.{kind}s"]) == ["example.com/ini"]


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("mine")
    assert main(["plugin", "new", "example.com/ini", "--kind=format", f"--folder={tmp_path}"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
    assert (tmp_path / "pyproject.toml").read_text() == "mine"
    assert "is not empty; name another one with --folder" in capsys.readouterr().err
