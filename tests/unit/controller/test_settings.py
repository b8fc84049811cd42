from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.settings import Settings, parse


class Case(NamedTuple):
    name: str
    arguments: list[str]
    environment: dict[str, str]
    expect: dict[str, Any]


CASES = [
    Case("nothing said: the defaults", [], {}, {}),
    Case("a flag", ["--workers", "2"], {}, {"workers": 2}),
    Case("its variable", [], {"RUKPAK_WORKERS": "3"}, {"workers": 3}),
    Case("a flag wins over its variable", ["--workers=2"], {"RUKPAK_WORKERS": "3"}, {"workers": 2}),
    Case("words of a name are joined by dashes", ["--log-format=text"], {}, {"log_format": "text"}),
    Case("variables of others say nothing", [], {"WORKERS": "3", "RUKPAK_OTHER": "3"}, {}),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_where_an_option_comes_from(case: Case) -> None:
    assert parse(case.arguments, case.environment) == Settings(**case.expect)


class Mistake(NamedTuple):
    name: str
    arguments: list[str]
    environment: dict[str, str]
    expect: str


MISTAKES = [
    Mistake("a flag that does not exist", ["--wrokers=2"], {}, "unrecognized arguments: --wrokers=2"),
    Mistake("a word where a number belongs", ["--workers=many"], {}, '--workers: "many" is not a whole number above 0'),
    Mistake("no workers at all", ["--workers=0"], {}, '--workers: "0" is not a whole number above 0'),
    Mistake("less than nothing", ["--fetch-timeout=-1"], {}, '--fetch-timeout: "-1" is not a whole number above 0'),
    Mistake("a number in another script", ["--workers=²"], {}, '--workers: "²" is not a whole number above 0'),
    Mistake("a choice that is none", ["--log-level=loud"], {}, '--log-level: "loud" is not one of debug, info'),
    Mistake("the same by variable", [], {"RUKPAK_LOG_FORMAT": "xml"}, '--log-format: "xml" is not one of json, text'),
    Mistake("a number by variable", [], {"RUKPAK_WORKERS": "0"}, '--workers: "0" is not a whole number above 0'),
]


@pytest.mark.parametrize("case", MISTAKES, ids=attrgetter("name"))
def test_a_mistake_is_named_and_ends_with_status_2(case: Mistake, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(case.arguments, case.environment)
    assert ended.value.code == 2
    assert case.expect in capsys.readouterr().err


def test_help_tells_every_option_with_its_variable_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"], {})
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    for option in fields(Settings):
        assert f"--{option.name.replace('_', '-')}" in text
        assert f"[RUKPAK_{option.name.upper()}; {option.default!r}]" in text


def test_the_store_is_where_it_is_said_or_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Settings(store="~/there").store_folder() == Path("/home/me/there")
    assert Settings().store_folder() == Path("/home/me/.cache/rukpak/content")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert Settings().store_folder() == Path("/cache/rukpak/content")
