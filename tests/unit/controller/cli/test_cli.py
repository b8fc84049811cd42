from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from controller import cli
from controller.cli import main
from tests.support.fake_api import FakeApi


class Case(NamedTuple):
    name: str
    words: list[str]
    status: int
    out: str = ""
    err: str = ""


CASES = [
    Case("asked for help", ["--help"], 0, out="usage: rukpak VERB [options]"),
    Case("asked for help, shortly", ["-h"], 0, out="run the controller"),
    Case("no verb", [], 2, err="usage: rukpak VERB [options]"),
    Case("a verb that does not exist", ["walk"], 2, err="usage: rukpak VERB [options]"),
    Case("an option before the verb", ["--workers=2", "run"], 2, err="usage: rukpak VERB [options]"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_results_go_to_stdout_talk_to_stderr_and_the_status_says_which(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(case.words) == case.status
    out, err = capsys.readouterr()
    assert case.out in out
    assert case.err in err
    assert bool(out) is not bool(err)


def test_a_verb_gets_the_words_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.VERBS, "count", (len, "count words"))
    monkeypatch.setattr(sys, "argv", ["rukpak", "count", "a", "b"])
    assert main() == 2
    assert main(["count"]) == 0


def run(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-m", "controller", *words],
        cwd=cwd,
        env={**variables, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_cluster_is_said_in_one_line_without_a_traceback(tmp_path: Path) -> None:
    ended = run("--kubeconfig=missing", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("rukpak run: ")
    assert len(ended.stderr.splitlines()) == 1


def test_a_folder_that_cannot_be_the_store_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with FakeApi() as api:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        ended = run("run", f"--kubeconfig={kubeconfig}", f"--store={tmp_path}/file/store", cwd=tmp_path)
    where = f'--store "{tmp_path}/file/store": Not a directory'
    said = f"rukpak run: {where}; choose a directory that can be created and written to\n"
    assert (ended.returncode, ended.stderr) == (1, said)


def test_a_wrong_option_is_not_hidden_by_all_the_others(tmp_path: Path) -> None:
    ended = run("run", "--workers=many", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "usage: rukpak run [OPTION…]; rukpak run --help lists them",
        'rukpak run: error: argument --workers: "many" is not a whole number above 0',
    ]


def test_the_module_runs_the_controller_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with FakeApi() as api:
        addresses = ("--metrics-address=127.0.0.1:0", "--probe-address=127.0.0.1:0")
        command = [sys.executable, "-m", "controller", "run", "--log-format=json", *addresses]
        variables = {**os.environ, "KUBECONFIG": api.kubeconfig(tmp_path / "kubeconfig"), "RUKPAK_STORE": str(tmp_path)}
        process = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=20)[1]
    assert (first["msg"], process.returncode) == ("starting", 0)
    assert "Traceback" not in rest


@pytest.mark.parametrize("words", [["--help"], ["render", "--help"], ["crd"]], ids=" ".join)
def test_a_reader_that_stops_reading_causes_no_traceback(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "import sys; from controller.cli import main; sys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-c", program, *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        check=False,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (cli.BROKEN_PIPE, b"")
