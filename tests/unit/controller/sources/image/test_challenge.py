"""Challenges: the header WWW-Authenticate as registries write it, and as nobody should."""

from __future__ import annotations

import time
from operator import itemgetter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.sources.image.login import Challenge, parse_challenges

HUB = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull"'
HUB_PARAMETERS = {
    "realm": "https://auth.docker.io/token",
    "service": "registry.docker.io",
    "scope": "repository:a/b:pull",
}
CASES = [
    ("nothing", "", []),
    ("Docker Hub's", HUB, [("bearer", HUB_PARAMETERS)]),
    ("Basic", 'Basic realm="a, b=c"', [("basic", {"realm": "a, b=c"})]),
    ("a scheme alone", "Negotiate", [("negotiate", {})]),
    ("blanks anywhere", '  BEARER  realm = "x" ,, service = y', [("bearer", {"realm": "x", "service": "y"})]),
    ("values without quotes", "Bearer realm=x,scope=a", [("bearer", {"realm": "x", "scope": "a"})]),
    (
        "a URL without quotes",
        "Bearer realm=https://auth.example.com/token?a=b,service=x",
        [("bearer", {"realm": "https://auth.example.com/token?a=b", "service": "x"})],
    ),
    ("escaped quotes", r'Basic realm="a\"b\\c"', [("basic", {"realm": 'a"b\\c'})]),
    ("an empty value", 'Bearer realm="",scope="a"', [("bearer", {"realm": "", "scope": "a"})]),
    ("the first of two", 'Bearer realm="a",realm="b"', [("bearer", {"realm": "a"})]),
    ("names in any case", 'Bearer Realm="a"', [("bearer", {"realm": "a"})]),
    (
        "two challenges in one header",
        'Basic realm="x", Bearer realm="y",service="z"',
        [("basic", {"realm": "x"}), ("bearer", {"realm": "y", "service": "z"})],
    ),
    ("two, the first without parameters", 'Negotiate, Basic realm="x"', [("negotiate", {}), ("basic", {"realm": "x"})]),
    ("a quote without an end", 'Bearer realm="x', [("bearer", {}), ("realm", {}), ("x", {})]),
    ("too long to be honest", "Bearer " + "a" * 5000, []),
]


@pytest.mark.parametrize(("header", "expect"), [case[1:] for case in CASES], ids=map(itemgetter(0), CASES))
def test_what_a_header_says(header: str, expect: list[tuple[str, dict[str, str]]]) -> None:
    challenges = [Challenge(scheme=scheme, parameters=parameters) for scheme, parameters in expect]
    assert list(parse_challenges(header)) == challenges


@pytest.mark.parametrize("part", ['a="', "a=", '"\\', "a ", ",", "\\", '="a'])
def test_no_header_takes_long(part: str) -> None:
    started = time.monotonic()
    parse_challenges((part * 4096)[:4096])
    assert time.monotonic() - started < 2


@given(header=st.text(max_size=200) | st.text(alphabet='Bearer ="\\,ab', max_size=200))
@example(header="\x00")
@settings(deadline=None)
def test_any_header_has_challenges_or_none(header: str) -> None:
    for challenge in parse_challenges(header):
        assert challenge.scheme == challenge.scheme.lower() != ""
        assert all(name == name.lower() for name in challenge.parameters)


@given(realm=st.text(max_size=80), scope=st.text(max_size=80))
@settings(deadline=None)
def test_what_is_quoted_comes_back(realm: str, scope: str) -> None:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (realm, scope)]
    (challenge,) = parse_challenges('Bearer realm="{}",scope="{}"'.format(*quoted))
    assert challenge.parameters == {"realm": realm, "scope": scope}
