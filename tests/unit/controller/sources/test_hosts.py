"""Which hosts sources may name.

Which redirects are followed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.hosts import Location, check_host, follow, is_loopback, parse_pattern, place_of

CASES = [  # pattern, host, port, whether it is allowed
    ("example.com", "example.com", 443, True), ("example.com", "EXAMPLE.com", 443, True),
    ("Example.com", "example.com", 443, True), ("example.com", "example.com.", 443, True),
    ("example.com", "example.com", 5000, False), ("example.com:5000", "example.com", 5000, True),
    ("example.com:5000", "example.com", 443, False), ("example.com:443", "example.com", 443, True),
    ("example.com", "a.example.com", 443, False), ("example.com", "example.com.evil.com", 443, False),
    ("example.com", "evilexample.com", 443, False), ("*.example.com", "a.example.com", 443, True),
    ("*.example.com", "a.b.example.com", 443, True), ("*.example.com", "example.com", 443, False),
    ("*.example.com", "evilexample.com", 443, False), ("*.example.com", "a.example.com.evil.com", 443, False),
    ("*.example.com:5000", "a.example.com", 5000, True), ("*.example.com", "a.example.com", 5000, False),
    ("10.0.0.1", "10.0.0.1", 443, True), ("10.0.0.1", "167772161", 443, False), ("10.0.0.1", "10.1", 443, False),
    ("[fd00::1]:5000", "fd00::1", 5000, True), ("[fd00::1]", "fd00::2", 443, False),
    ("*.1", "10.0.0.1", 443, True),
]  # fmt: skip


def at(host: str, port: int) -> Location:
    return Location(scheme="https", host=host, port=port)


def refusal(call: Callable[[], None]) -> BundleError | None:
    try:
        call()
    except BundleError as error:
        return error
    return None


@pytest.mark.parametrize(("pattern", "host", "port", "expect"), CASES)
def test_which_hosts_a_pattern_allows(pattern: str, host: str, port: int, expect: bool) -> None:
    network = Network(allowed_hosts=("other.example.org", parse_pattern(pattern)))
    assert (refusal(lambda: check_host("spec", at(host, port), network)) is None) is expect


@pytest.mark.parametrize(
    ("host", "port", "shown"),
    [("example.com", 443, "example.com"), ("example.com", 8443, "example.com:8443"), ("fd00::1", 1, "[fd00::1]:1")],
)
def test_what_is_refused_is_named_with_the_option(host: str, port: int, shown: str) -> None:
    error = refusal(lambda: check_host("spec.url", at(host, port), Network(allowed_hosts=("a",))))
    assert error is not None
    assert error.reason is Reason.INSECURE_REFUSED
    assert error.message == (
        f'spec.url: host "{shown}" is not in --allowed-hosts; use an allowed host, or ask the administrator to add it'
    )


def test_without_patterns_every_host_is_allowed() -> None:
    check_host("spec", at("example.com", 1), Network())


BAD = ["", "*", "*.", "https://example.com", "example.com/a", "a@b", "a b", "example.com:", "example.com:99999", "[x]",
       "a.*.b", "-a", "*example.com"]  # fmt: skip


@pytest.mark.parametrize("pattern", BAD)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host like|Port out of range"):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    ("host", "expect"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost.example.com", False),
     ("127.0.0.1.example.com", False), ("10.0.0.1", False), ("2130706433", False), ("quay.io", False)],
)  # fmt: skip
def test_what_is_this_machine_by_name(host: str, expect: bool) -> None:
    assert is_loopback(host) is expect


FOLLOWED = [
    ("https://a/x", "/y", "https://a/y"), ("https://a/x", "https://b/y", "https://b/y"),
    ("https://a/x", "//b:8443/y", "https://b:8443/y"), ("https://a/x?q", "", "https://a/x?q"),
    ("http://a/x", "/y", "http://a/y"), ("http://a/x", "http://a:80/y", "http://a:80/y"),
    ("http://a:1/x", "http://A:1/y", "http://A:1/y"), ("http://[::1]:1/x", "http://[::1]:1/y", "http://[::1]:1/y"),
]  # fmt: skip
REFUSED = [
    ("https://a/x", "http://a/y"), ("https://a/x", "http://b/y"), ("https://a/x", "ftp://a/y"),
    ("https://a/x", "file:///etc/passwd"), ("https://a/x", "https://u:p@b/y"), ("https://a/x", "https://b:x/y"),
    ("https://a/x", "https://b:99999/"), ("https://a/x", "http://["),
    ("http://a/x", "https://a/y"), ("http://a/x", "http://b/y"), ("http://a/x", "http://a:81/y"),
    ("http://a:80/x", "//a:8080/y"), ("http://a/x", "http://u@a/y"), ("http://127.0.0.1:1/x", "http://localhost:1/x"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "location", "expect"), FOLLOWED)
def test_redirects_that_are_followed(url: str, location: str, expect: str) -> None:
    assert follow(url, location) == expect


@pytest.mark.parametrize(("url", "location"), REFUSED)
def test_redirects_that_are_not_followed(url: str, location: str) -> None:
    assert follow(url, location) == ""


@pytest.mark.parametrize(
    ("named", "url", "expect"),
    [
        ("https://a/x", "https://a:443/y", False),
        ("https://a/x", "https://b/x", True),
        ("https://a/x", "https://a:444/x", True),
        ("http://a/x", "https://a/x", True),
    ],
)
def test_elsewhere_is_another_origin_than_the_named_one(named: str, url: str, expect: bool) -> None:
    assert place_of("spec", named, url, Network()).is_elsewhere is expect
