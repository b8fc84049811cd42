from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.manager.process import JsonFormatter, TextFormatter, set_up_log
from rukpak.controller.telemetry import reconcile_id


def record(message: str = "applied", **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "rukpak.controller.x", "levelname": "INFO", "msg": message, "created": 1767225600.5}
    )
    vars(made).update(extra)
    return made


def failing() -> logging.LogRecord:
    with pytest.raises(ValueError, match="bug") as caught:
        int("bug")
    return record("Reconciler error", exc_info=(caught.type, caught.value, caught.tb))


@pytest.fixture
def in_a_pass() -> Iterator[None]:
    token = reconcile_id.set("0123abcd")
    yield
    reconcile_id.reset(token)


def test_a_line_of_json_has_the_pairs_beside_the_message() -> None:
    line = JsonFormatter().format(record(BundleDeployment="shop", objects=3))
    assert json.loads(line) == {
        "time": "2026-01-01T00:00:00.500+00:00",
        "level": "info",
        "logger": "rukpak.controller.x",
        "msg": "applied",
        "BundleDeployment": "shop",
        "objects": 3,
    }


@pytest.mark.usefixtures("in_a_pass")
def test_each_line_of_a_pass_has_its_id() -> None:
    assert json.loads(JsonFormatter().format(record()))["reconcileID"] == "0123abcd"
    assert TextFormatter().format(record()).endswith('reconcileID="0123abcd"')


def test_what_somebody_else_wrote_cannot_begin_another_line() -> None:
    evil = 'a"\n{"level":"error"}'
    for formatter in (JsonFormatter(), TextFormatter()):
        assert "\n" not in formatter.format(record(reply=evil))
    assert json.loads(JsonFormatter().format(record(reply=evil)))["reply"] == evil


def test_a_value_that_is_no_json_is_shown_as_text() -> None:
    assert json.loads(JsonFormatter().format(record(folder=Path("/x"))))["folder"] == "/x"


def test_a_bug_shows_its_traceback() -> None:
    assert "ValueError: invalid literal" in json.loads(JsonFormatter().format(failing()))["error"]
    assert "ValueError: invalid literal" in TextFormatter().format(failing())


def test_text_is_for_people() -> None:
    line = TextFormatter().format(record(BundleDeployment="shop"))
    assert line == '00:00:00.500 INFO    applied BundleDeployment="shop"'


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    noisy = {name: logging.getLogger(name).level for name in ("urllib3", "git", "kubernetes", "oras")}
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in noisy.items():
        logging.getLogger(name).setLevel(before)


@pytest.mark.usefixtures("restored")
def test_everything_goes_to_stderr_in_one_format(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_log("json", "info")
    logging.getLogger("rukpak.controller.x").info("applied", extra={"BundleDeployment": "shop"})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("from a library", stacklevel=1)
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert (out, json.loads(first)["BundleDeployment"]) == ("", "shop")
    assert "from a library" in json.loads(second)["msg"]


@pytest.mark.usefixtures("restored")
def test_the_level_counts_and_libraries_that_show_urls_are_kept_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_log("text", "debug")
    logging.getLogger("rukpak.controller.x").debug("step")
    logging.getLogger("urllib3.connectionpool").debug("https://user:password@example.com")
    set_up_log("text", "warning")
    logging.getLogger("rukpak.controller.x").info("not shown")
    err = capsys.readouterr().err
    assert [line.split()[2] for line in err.splitlines()] == ["step"]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(("is_terminal", "start"), [(True, "INFO    done\n"), (False, '"msg": "done"}\n')])
def test_by_default_a_terminal_gets_text_and_everything_else_json(
    is_terminal: bool, start: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    set_up_log("auto", "info")
    logging.getLogger("rukpak.controller.x").info("done")
    assert capsys.readouterr().err.endswith(start)
