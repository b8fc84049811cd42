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

from rukpak.controller import cli
from rukpak.controller.cli import main
from rukpak.controller.cli.verbs import VERBS
from tests.support.fake_api import FakeApi


class Case(NamedTuple):
    name: str
    words: list[str]
    status: int
    out: str = ""
    err: str = ""


CASES = [
    Case("asked for help", ["--help"], 0, out="usage: rukpak VERB [flags]"),
    Case("asked for help, in a word", ["help"], 0, out="usage: rukpak VERB [flags]"),
    Case("asked for its version", ["--version"], 0, out="Client:      0.1.0 (Python 3."),
    Case("asked for help, shortly", ["-h"], 0, out="run the controller"),
    Case("no verb", [], 2, err="usage: rukpak VERB [flags]"),
    Case("a verb that does not exist", ["walk"], 2, err='rukpak: unknown verb "walk"\nSee "rukpak --help"'),
    Case("one that is mistyped", ["stauts"], 2, err='rukpak: unknown verb "stauts"; did you mean "status"?\nSee'),
    Case("one of another program", ["list"], 2, err='rukpak: unknown verb "list"; use "rukpak status"\nSee'),
    Case(
        "an option before the verb",
        ["--workers=2", "run"],
        2,
        err='"--workers=2" is before the verb; put flags after it: rukpak run --workers=2\n',
    ),
    Case("a verb without its names", ["pause"], 2, err="rukpak pause: specify a NAME, --selector or --all\n"),
    Case("all, and one by name", ["pause", "a", "--all"], 2, err="specify only one of NAME, --selector and --all\n"),
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


@pytest.mark.parametrize("verb", ["install", "status", "push", "diff"])
def test_a_folder_where_a_name_is_expected_is_said_in_one_line(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([verb, "./shop", "./shop"])
    assert f'rukpak {verb}: NAME: "./shop" cannot be the name of an object' in capsys.readouterr().err


def test_summaries_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.rindex(verb.summary) for verb in VERBS.values() for line in lines if line.endswith(verb.summary)} == {
        max(map(len, VERBS)) + 3
    }


def test_help_of_a_verb_can_be_asked_for_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "status"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: rukpak status [NAME...] [flags]\n")


# start-up

HEAVY = (
    "kubernetes",
    "pydantic",
    "urllib3",
    "requests",
    "yaml",
    "cryptography",
    "oras",
    "git",
    "prometheus_client",
    "uvicorn",
    "starlette",
    "jinja2",
)
"""Packages that take longer to import than everything that the command line needs to know its words."""
WITHOUT_CLUSTER = [["--help"], ["help"], ["walk"], *([verb, "--help"] for verb in VERBS), ["status", "--wiat"]]


IMPORTED = f"""
import sys
from rukpak.controller.cli import main

for words in {WITHOUT_CLUSTER!r}:
    try:
        main(words)
    except SystemExit:
        pass
    print("imported:", words, *sorted(set({HEAVY!r}) & set(sys.modules)))
"""


def test_help_and_mistakes_import_neither_client_nor_models() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("imported:")]
    assert found == [f"imported: {words}" for words in WITHOUT_CLUSTER]


LOADED = f"""
import sys
from rukpak.controller.cli.verbs import load

for verb in sys.argv[1:]:
    load(verb)
    print(verb, *sorted(set({HEAVY!r}) & set(sys.modules)))
"""
CLIENT = "pydantic urllib3 yaml"
"""What a verb needs that asks a cluster."""


def test_verbs_that_ask_a_cluster_import_nothing_that_reads_sources() -> None:
    verbs = ["pause", "status", "tree", "events", "logs", "history", "approve", "health", "diff", "install"]
    done = subprocess.run([sys.executable, "-c", LOADED, *verbs], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{verb} {CLIENT}" for verb in verbs]


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program itself: whatever it does before it knows its words, and leaves behind."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    command = [sys.executable, "-m", "rukpak", *words]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=False)


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


def test_a_wrong_option_is_not_hidden_by_all_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--workers=many"])
    assert capsys.readouterr().err.splitlines() == [
        'rukpak run: --workers: "many" is not a whole number above 0',
        'See "rukpak run --help" for usage',
    ]


def started(folder: Path, kubeconfig: str) -> subprocess.Popen[str]:
    """Start a controller with the defaults of a user who gives no options."""
    variables = {**os.environ, "KUBECONFIG": kubeconfig, "HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-m", "rukpak", "run"]
    return subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)


def read_until(process: subprocess.Popen[str], message: str) -> list[dict[str, str]]:
    """Return the log up to a message."""
    assert process.stderr is not None
    lines: list[dict[str, str]] = []
    while not lines or lines[-1]["msg"] != message:
        lines.append(json.loads(process.stderr.readline()))
    return lines


def test_a_second_process_on_one_machine_gets_a_store_and_ports_of_its_own(tmp_path: Path) -> None:
    with FakeApi() as api:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        first = started(tmp_path, kubeconfig)
        read_until(first, "BundleDeployments are not served, waiting for the API")
        second = started(tmp_path, kubeconfig)
        lines = read_until(second, "BundleDeployments are not served, waiting for the API")
        for process in (second, first):
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (0, 0)
    assert lines[0]["folder"] == str(tmp_path / "rukpak" / "content")
    assert (tmp_path / "rukpak" / "content-2" / "lock").exists()
    assert lines[-1]["remedy"] == "rukpak crd | kubectl apply --server-side -f -"


@pytest.mark.parametrize("words", [["--help"], ["crd"]], ids=" ".join)
def test_a_reader_that_stops_reading_causes_no_traceback(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = "import sys; from rukpak.controller.cli import main; sys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-c", program, *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        check=False,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (cli.BROKEN_PIPE, b"")
