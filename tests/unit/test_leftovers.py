"""A test that leaves something behind that runs, or changes this process, fails by its name."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, contextmanager
from pathlib import Path

import pytest

from tests.support import leftovers
from tests.support.bundles import ROOT
from tests.support.leftovers import Surroundings

logger = logging.getLogger("tests.leftovers")
Leave = Callable[[], AbstractContextManager[None]]
"""Leave something, and take it away at the end of the block."""


@contextmanager
def thread() -> Iterator[None]:
    end = threading.Event()

    def watch() -> None:
        end.wait()

    running = threading.Thread(target=watch, name="watcher")
    running.start()
    yield
    end.set()
    running.join()


@contextmanager
def timer() -> Iterator[None]:
    later = threading.Timer(600, print)
    later.start()
    yield
    later.cancel()
    later.join()


@contextmanager
def child() -> Iterator[None]:
    # It has no command line for a moment after it was started; once it has written something it has.
    line = ["sh", "-c", "echo; read end"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # closes stdin at the end
        assert process.stdout
        process.stdout.readline()
        yield


@contextmanager
def level() -> Iterator[None]:
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(logging.NOTSET)


@contextmanager
def disabled() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@contextmanager
def variable() -> Iterator[None]:
    os.environ["LEFT_BEHIND"] = "secret"
    yield
    del os.environ["LEFT_BEHIND"]


@contextmanager
def mask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@contextmanager
def folder() -> Iterator[None]:
    with chdir("/"):
        yield


@contextmanager
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield
    signal.signal(signal.SIGUSR1, before)


LEFT: dict[str, tuple[Leave, str]] = {
    "a thread": (thread, r"the thread watcher is running \(tests/unit/test_leftovers\.py:\d+\)"),
    "a timer": (timer, r"the thread Thread-\d+ is running .*"),
    "a child process": (child, r"the process \d+ is running: sh -c echo; read end"),
    "a log level": (level, "the level of the logger tests.leftovers was 0 and is 10"),
    "no logs at all": (disabled, r"the level of the logger \(all\) was 0 and is 40"),
    "a variable": (variable, "the environment variable LEFT_BEHIND has changed"),
    "a umask": (mask, r"the umask was \d+ and is 0077"),
    "a working folder": (folder, "the working folder was .* and is /"),
    "a signal handler": (handler, "the handler of SIGUSR1 was .* and is .*"),
}


@pytest.mark.parametrize(("leave", "said"), LEFT.values(), ids=LEFT)
def test_what_is_left_behind_is_told(leave: Leave, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 0.0)
    surroundings = Surroundings()
    surroundings.begin()
    with leave():
        [left] = surroundings.find_left()
    assert re.fullmatch(said, left)
    assert surroundings.find_left() == []


@pytest.mark.parametrize("there", [thread, child, variable])
def test_what_was_there_before_is_not_its_own(there: Leave) -> None:
    surroundings = Surroundings()
    with there():
        surroundings.begin()
        assert surroundings.find_left() == []


def test_what_a_file_shares_may_be_restarted_by_its_tests() -> None:
    surroundings = Surroundings()
    with child():
        surroundings.begin()
    surroundings.begin()
    with child():
        assert surroundings.find_left() == []


def test_what_ends_within_a_moment_is_not_left_behind() -> None:
    surroundings = Surroundings()
    surroundings.begin()
    running = threading.Timer(0.1, print)
    running.start()
    assert surroundings.find_left() == []


def run_pytest(folder: Path, source: str, *options: str) -> str:
    """Run the tests in a text with the fixtures and hooks of `tests/`; return the output."""
    (folder / "test_it.py").write_text(textwrap.dedent(source), encoding="utf-8")
    (folder / "conftest.py").write_text("from tests.conftest import *\nfrom tests.conftest import _nothing_left\n")
    words = ["-q", "-rs", f"--rootdir={folder}", "--override-ini=markers=thorough\nrepeats", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *words, *options, str(folder / "test_it.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def test_the_test_that_leaves_it_fails_and_the_next_one_does_not(tmp_path: Path) -> None:
    source = """
        import os
        def test_leaves(): os.environ["LEFT_BEHIND"] = "x"
        def test_does_not(): pass
    """
    output = run_pytest(tmp_path, source)
    assert "ERROR at teardown of test_leaves" in output, output
    assert "2 passed, 1 error" in output


def test_what_only_all_adds_is_skipped_and_listed_once_its_time_has_passed(tmp_path: Path) -> None:
    source = """
        import pytest
        @pytest.mark.thorough
        def test_that_only_all_adds(): pass
        @pytest.mark.repeats
        @pytest.mark.parametrize("number", range(3))
        def test_of_which_only_all_adds_two(number): pass
    """
    output = run_pytest(tmp_path, source, "--all", "--within=0")
    assert "1 passed, 3 skipped" in output, output
    listed = re.findall(r"SKIPPED \[(\d)\] \S*/test_it.py:(\d): the minutes of --within have passed", output)
    assert listed == [("1", "3"), ("2", "5")], output
