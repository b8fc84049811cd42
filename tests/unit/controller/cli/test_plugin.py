"""`rukpak plugin new`: what a name makes, and what is refused. That the packages work: tests/integration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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


EXAMPLES = {
    "format": ["example/settings.properties"],
    "source": ["example/index.json", "example/settings.yaml"],
    "processor": ["example/settings.yaml"],
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_all_files_are_written_and_have_no_placeholders(kind: str, tmp_path: Path) -> None:
    assert main(["plugin", "new", "example.com/ini", f"--kind={kind}", f"--folder={tmp_path / 'made'}"]) == 0
    found = {
        str(path.relative_to(tmp_path / "made")): path for path in (tmp_path / "made").rglob("*") if path.is_file()
    }
    assert found.keys() == {
        *(".gitignore", ".github/workflows/test.yaml", "Dockerfile", "README.md", "example.yaml", "pyproject.toml"),
        *("rukpak_ini.py", "tests/test_rukpak_ini.py"),
        *EXAMPLES[kind],
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


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, as README of a package does, and yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


RENDER = """
import os, sys
from rukpak.controller.cli import main

for folder in sys.path[1 : int(sys.argv[1]) + 1]:
    os.chdir(folder)
    main(["render", "-f", "example.yaml", "-o", "json"])
    print(flush=True)
"""


def test_the_examples_render_without_a_network(tmp_path: Path) -> None:
    with ExitStack() as stack:
        folders = [str(make_example(kind, tmp_path / kind, stack)) for kind in EXAMPLES]
        done = subprocess.run(
            [sys.executable, "-c", RENDER, str(len(folders))],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.stderr == ""
    rendered = [json.loads(text)["items"] for text in done.stdout.split("\n\n") if text]
    assert [(found["kind"], found["metadata"]["name"], found["data"]["color"]) for (found,) in rendered] == [
        ("ConfigMap", "settings", "blue") for _ in EXAMPLES
    ]


def make_example(kind: str, made: Path, stack: ExitStack) -> Path:
    """Make a package as if pip had installed it, whose example is served; return its folder."""
    assert main(["plugin", "new", f"example.com/ini-{kind}", f"--kind={kind}", f"--folder={made}"]) == 0
    # What pip would write beside the module.
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    groups = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    information = made / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(groups)
    served_by = re.findall(r"\(cd example && (.*)python -m http.server .* 8000\) &", (made / "README.md").read_text())
    subprocess.run(f"{served_by[0]}true", shell=True, cwd=made / "example", check=True)
    example = (made / "example.yaml").read_text()
    assert "127.0.0.1:8000" in example
    (made / "example.yaml").write_text(example.replace("127.0.0.1:8000", stack.enter_context(served(made / "example"))))
    return made
