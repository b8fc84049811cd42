"""Which redirects are followed."""

from __future__ import annotations

import pytest

from controller.sources.hosts import follow, place_of

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
    assert place_of("spec", named, url).is_elsewhere is expect
