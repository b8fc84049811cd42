"""URLs: which are taken, which mean the same, and what is shown."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.sources.http import parse_address

SAME = [
    ("https://Example.COM/a", "https://example.com/a"),
    ("HTTPS://example.com:443/a", "https://example.com/a"),
    ("http://example.com:80", "http://example.com/"),
    ("https://example.com:8443/a?x=1#part", "https://example.com:8443/a?x=1"),
    ("https://[2001:DB8::1]:443/a", "https://[2001:db8::1]/a"),
    ("https://example.com/%7Ea/B", "https://example.com/%7Ea/B"),
]


@pytest.mark.parametrize(("text", "url"), SAME)
def test_spellings_of_one_url(text: str, url: str) -> None:
    assert parse_address(text).url == url
    assert parse_address(url).url == url


REFUSED = [
    ("", "not a URL"), ("example.com/a", "not a URL"), ("ftp://example.com/a", "not a URL"),
    ("https:///a", "not a URL"), ("file:///etc/passwd", "not a URL"), ("https://[::1/a", "not a URL"),
    ("https://a:x/b", "not a URL"),
    ("https://a/b c", "not a URL"), ("https://a/b\nc", "not a URL"), ("https://a\\b/c", "not a URL"),
    ("https://user:canary@a/b", "use a Secret in auth"), ("https://canary@a/b", "use a Secret in auth"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_address(text)
    assert "canary" not in str(caught.value)


NAMES = [
    ("https://a/b/c.yaml", "c.yaml"), ("https://a/b/c.yaml?d=e.json", "c.yaml"), ("https://a/b%20c.yaml", "b c.yaml"),
    ("https://a/b%2Fc.yaml", "c.yaml"), ("https://a/b/", ""), ("https://a", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_what_a_file_is_called(text: str, name: str) -> None:
    assert parse_address(text).name == name


@pytest.mark.parametrize(
    ("host", "expect"),
    [("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("127.0.0.1.example.com", False), ("10.0.0.1", False)],
)
def test_who_is_this_machine_by_name(host: str, expect: bool) -> None:
    assert parse_address(f"http://{host}:8080/").is_loopback is expect


@given(st.text(max_size=60).map(lambda text: "https://" + text) | st.text(max_size=60))
@settings(deadline=None, max_examples=300)
def test_any_text_is_refused_or_has_one_normal_form(text: str) -> None:
    with suppress(ValueError):
        url = parse_address(text).url
        assert parse_address(url).url == url
