from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.controller.settings import OptionText, Settings, describe_options
from tests.support.controller import parse_options


class Case(NamedTuple):
    name: str
    arguments: list[str]
    environment: dict[str, str]
    expect: dict[str, Any]


# fmt: off
CASES = [
    Case("nothing said: the defaults", [], {}, {}),
    Case("a flag", ["--workers", "2"], {}, {"workers": 2}),
    Case("its variable", [], {"RUKPAK_WORKERS": "3"}, {"workers": 3}),
    Case("a flag wins over its variable", ["--workers=2"], {"RUKPAK_WORKERS": "3"}, {"workers": 2}),
    Case("words of a name are joined by dashes", ["--log-format=text"], {}, {"log_format": "text"}),
    Case("a switch", ["--require-service-account"], {}, {"require_service_account": True}),
    Case("a switch before another flag", ["--require-service-account", "--workers=2"], {},
         {"require_service_account": True, "workers": 2}),
    Case("a switch by variable", [], {"RUKPAK_REQUIRE_SERVICE_ACCOUNT": "true"}, {"require_service_account": True}),
    Case("a switch that is off", ["--require-service-account=false"], {"RUKPAK_REQUIRE_SERVICE_ACCOUNT": "true"}, {}),
    Case("a switch that is on by default, off", ["--no-leader-elect"], {}, {"leader_elect": False}),
    Case("the same with its word", ["--leader-elect=no"], {}, {"leader_elect": False}),
    Case("the same by variable", [], {"RUKPAK_LEADER_ELECT": "false"}, {"leader_elect": False}),
    Case("a switch wins over its variable", ["--leader-elect"], {"RUKPAK_LEADER_ELECT": "no"}, {}),
    Case("a switch of three", ["--allow-loopback"], {}, {"allow_loopback": "yes"}),
    Case("off", ["--no-allow-loopback"], {}, {"allow_loopback": "no"}),
    Case("the third", ["--allow-loopback=auto"], {"RUKPAK_ALLOW_LOOPBACK": "no"}, {}),
    Case("variables of others say nothing", [], {"WORKERS": "3", "RUKPAK_OTHER": "3"}, {}),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_where_an_option_comes_from(case: Case) -> None:
    assert parse_options(case.arguments, case.environment) == Settings(**case.expect)


class Mistake(NamedTuple):
    name: str
    arguments: list[str]
    environment: dict[str, str]
    expect: str


# fmt: off
MISTAKES = [
    Mistake("a flag that does not exist", ["--wrokers=2"], {},
         'unknown flag "--wrokers"; did you mean "--workers"?'),
    Mistake("a word where a number belongs", ["--workers=many"], {}, '--workers: "many" is not a whole number above 0'),
    Mistake("no workers at all", ["--workers=0"], {}, '--workers: "0" is not a whole number above 0'),
    Mistake("less than nothing", ["--fetch-timeout=-1"], {}, '--fetch-timeout: "-1" is not a whole number above 0'),
    Mistake("a number in another script", ["--workers=²"], {}, '--workers: "²" is not a whole number above 0'),
    Mistake("a choice that is none", ["--log-level=loud"], {}, '--log-level: "loud" is not one of debug, info'),
    Mistake("the same by variable", [], {"RUKPAK_LOG_FORMAT": "xml"},
         '--log-format: "xml" is not one of auto, json, text'),
    Mistake("a mirror of nothing", ["--registry-mirror=mirror.example.com"], {},
         '--registry-mirror: "mirror.example.com" is not HOST=MIRROR'),
    Mistake("a mirror with an impossible port", ["--registry-mirror=docker.io=mirror.example.com:99999"], {},
         '--registry-mirror: "docker.io=mirror.example.com:99999" is not HOST=MIRROR'),
    Mistake("a mirror with a scheme", ["--registry-mirror=docker.io=https://mirror"], {},
         '--registry-mirror: "docker.io=https://mirror" is not HOST=MIRROR'),
    Mistake("no network", ["--allowed-networks=x"], {}, '--allowed-networks: "x" is not a network like 10.0.0.0/8'),
    Mistake("no network to deny", ["--denied-networks=x"], {},
         '--denied-networks: "x" is not a network like 10.0.0.0/8'),
    Mistake("no host", ["--allowed-hosts=a,https://b"], {},
         '--allowed-hosts: "https://b" is not a host like example.com'),
    Mistake("an address in a network", ["--allowed-networks=10.0.0.1/8"], {}, '"10.0.0.1/8" is not a network'),
    Mistake("neither on nor off", [], {"RUKPAK_REQUIRE_SERVICE_ACCOUNT": "1"}, '"1" is neither true nor false ('),
    Mistake("no account", ["--default-service-account=a:b"], {},
         '--default-service-account: "a:b" is not a valid name'),
    Mistake("neither yes nor no", ["--allow-loopback=perhaps"], {}, '"perhaps" is not one of auto, yes, no'),
    Mistake("a leader that would give up after others may begin", ["--lease-duration=10", "--renew-deadline=15"], {},
         "--lease-duration, --renew-deadline, --retry-period: the lease duration must be longer"),
    Mistake("a certificate without a key", ["--metrics-certificate=a.pem"], {},
         "and --metrics-key: set both or neither"),
    Mistake("an address without a port", ["--metrics-address=localhost"], {}, '--metrics-address: "localhost" is not'),
    Mistake("a port that is none", ["--probe-address=:65536"], {}, '--probe-address: ":65536" is not HOST:PORT'),
    Mistake("a number by variable", [], {"RUKPAK_WORKERS": "0"},
         '--workers: "0" is not a whole number above 0 (RUKPAK_WORKERS)\n'),
    Mistake("a flag beside a variable", ["--workers=x"], {"RUKPAK_WORKERS": "0"},
         '--workers: "x" is not a whole number above 0\n'),
]
# fmt: on


@pytest.mark.parametrize("case", MISTAKES, ids=attrgetter("name"))
def test_a_mistake_is_named_and_ends_with_status_2(case: Mistake, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(case.arguments, case.environment)
    assert ended.value.code == 2
    assert case.expect in capsys.readouterr().err


def test_help_tells_every_option_with_its_variable_and_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # lines are broken at dashes, too
    with pytest.raises(SystemExit) as ended:
        parse_options(["--help"], {})
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    for option in describe_options():
        assert f"{option.flag} " in text or f"--[no-]{option.flag[2:]} " in text
        default = f", default: {option.default}" if option.default else ""
        assert f"{option.help} [env: {option.variable}{default}]" in text


@pytest.mark.parametrize("option", [each for each in describe_options() if each.default], ids=attrgetter("flag"))
def test_the_documented_default_is_accepted(option: OptionText) -> None:
    assert parse_options([f"{option.flag}={option.default}"], {}) == Settings()
