"""Secrets of the one who renders never go to the server of the one who wrote the file, unless he says so."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.controller.cli import command, main
from rukpak.controller.cli.manifest import SecretUse, find_secret_uses
from tests.support.deployments import deployment, manifest

LOGIN = {"secret": {"namespace": "kube-system", "name": "admin"}}
IMAGE = {"kind": "image", "image": {"ref": "evil.example.com/a:v1", "auth": LOGIN}}
GIT = {"kind": "git", "git": {"repository": "ssh://git@evil.example.com:2222/a", "auth": LOGIN}}
HTTP = {"kind": "http", "http": {"url": "https://evil.example.com/a.tar", "auth": {"secret": {"name": "own"}}}}
ADMIN = 'Secret "kube-system/admin"'
ASKED = "Do you want to continue? (y/N): "


class Case(NamedTuple):
    name: str
    spec: dict[str, Any]
    uses: list[SecretUse]


def use(secret: str, server: str) -> SecretUse:
    return secret, server


CASES = [
    Case("no Secret is named", {"sources": [{"kind": "image", "image": {"ref": "a/b:c"}}]}, []),
    Case("for an image", {"sources": [IMAGE]}, [use(ADMIN, "evil.example.com")]),
    Case("for a repository", {"sources": [GIT]}, [use(ADMIN, "evil.example.com:2222")]),
    Case("for a URL, in the install namespace", {"sources": [HTTP]}, [use('Secret "shop/own"', "evil.example.com")]),
    Case("twice the same", {"sources": [IMAGE, {**IMAGE, "destination": "b"}]}, [use(ADMIN, "evil.example.com")]),
    Case(
        "that of an account",
        {"serviceAccountName": "installer", "sources": [{"kind": "image", "image": {"ref": "evil.example.com/a:v1"}}]},
        [use('pull Secrets of ServiceAccount "shop/installer"', "evil.example.com")],
    ),
    Case(
        "for a plug-in",
        {"sources": [{"kind": "example.com/s3", "parameters": {"auth": LOGIN}}]},
        [use(ADMIN, 'chosen by plug-in "example.com/s3"')],
    ),
    Case(
        "for a registry with a mirror",
        {"sources": [{"kind": "image", "image": {"ref": "mirrored.example.com/a:v1", "auth": LOGIN}}]},
        [use(ADMIN, "mirror.example.com")],
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_secret_would_go_where(case: Case) -> None:
    mirrors = {"mirrored.example.com": "mirror.example.com"}
    assert find_secret_uses(deployment(spec=case.spec), mirrors) == case.uses


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A manifest of a stranger."""
    path = tmp_path / "bd.json"
    path.write_text(json.dumps(manifest(spec={"sources": [IMAGE, HTTP | {"destination": "b"}]})))
    return path


def words(*options: str) -> list[str]:
    return [sys.executable, "-m", "rukpak", "render", *options]


def environment(folder: Path) -> dict[str, str]:
    """Return variables with which no cluster is found: who would read a Secret says so."""
    return {**os.environ, "KUBECONFIG": str(folder / "no-such-file"), "KUBERNETES_SERVICE_HOST": ""}


@pytest.fixture
def no_terminal(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run without a terminal, where no cluster is found."""
    monkeypatch.setattr(command, "TERMINAL", file.parent / "none" / "tty")
    monkeypatch.setenv("KUBECONFIG", environment(file.parent)["KUBECONFIG"])
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def agree(file: Path) -> tuple[int, str]:
    """Render on a terminal, and agree; returns exit status and what was shown."""
    process, terminal = pty.fork()
    if process == 0:
        os.execve(sys.executable, words("-f", str(file)), environment(file.parent))
    shown = ""
    try:
        while piece := os.read(terminal, 4096).decode():
            shown += piece
            if shown.endswith(ASKED):
                os.write(terminal, b"y\n")
    except OSError:
        pass  # the other end is closed
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    return status, shown.replace("\r\n", "\n")


@pytest.mark.usefixtures("no_terminal")
def test_without_a_terminal_nothing_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    status = main(["render", "-f", "-"])
    done = capsys.readouterr()
    assert (status, done.out) == (2, "")
    first, *table, last = done.err.splitlines()
    assert first.endswith("uses your permissions to read these Secrets and send them to these servers, or print them:")
    assert [line.split() for line in table[1:]] == [
        ["Secret", '"kube-system/admin"', "evil.example.com"],
        ["Secret", '"shop/own"', "evil.example.com"],
    ]
    assert last.endswith("pass --use-secrets to use its Secrets")


@pytest.mark.usefixtures("no_terminal")
def test_who_says_so_beforehand_is_not_asked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-f", str(file), "--use-secrets"]) == 1
    said = capsys.readouterr().err
    assert "no-such-file" in said
    assert "terminal" not in said


@dataclass(frozen=True, slots=True)
class Terminal:
    """Not a real one, which would become that of this process if it leads its session, and hang it up."""

    text: str

    def open(self, mode: str = "r", *, encoding: str) -> io.StringIO:
        return io.StringIO("" if mode == "w" else f"{self.text}\n")


@pytest.mark.parametrize(
    ("text", "agrees"),
    [("", False), ("n", False), ("no", False), ("nay", False), ("yesterday", False), ("y", True), ("Yes", True)],
)
def test_who_agrees(text: str, *, agrees: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TERMINAL", Terminal(text))
    assert command.ask("no terminal") is agrees


@pytest.mark.usefixtures("no_terminal")
def test_who_does_not_agree_ends_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "TERMINAL", Terminal("n"))
    assert main(["render", "-f", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.endswith("canceled; no Secret was read\n")
    assert "no-such-file" not in said


def test_who_agrees_has_them_read(file: Path) -> None:
    status, shown = agree(file)
    assert status == 1
    assert shown.count(ASKED) == 1
    assert "no-such-file" in shown
