"""Image references.

Endpoints: where a reference leads, with mirrors and without."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.sources.image.reference import find_endpoint, parse_reference

DIGEST = "sha256:" + "a1" * 32


class Parsed(NamedTuple):
    text: str
    normal: str
    host: str


PARSED = [
    Parsed("nginx", "docker.io/library/nginx:latest", "registry-1.docker.io"),
    Parsed("nginx:1.2", "docker.io/library/nginx:1.2", "registry-1.docker.io"),
    Parsed("foo/bar", "docker.io/foo/bar:latest", "registry-1.docker.io"),
    Parsed("docker.io/nginx", "docker.io/library/nginx:latest", "registry-1.docker.io"),
    Parsed("index.docker.io/foo/bar:v1", "docker.io/foo/bar:v1", "registry-1.docker.io"),
    Parsed("localhost/foo:1", "localhost/foo:1", "localhost"),
    Parsed("localhost:5000/foo", "localhost:5000/foo:latest", "localhost:5000"),
    Parsed("127.0.0.1:5000/a/b/c:v_1.x-y", "127.0.0.1:5000/a/b/c:v_1.x-y", "127.0.0.1:5000"),
    Parsed("[::1]:5000/foo", "[::1]:5000/foo:latest", "[::1]:5000"),
    Parsed("quay.io/foo/bar.baz/a__b", "quay.io/foo/bar.baz/a__b:latest", "quay.io"),
    Parsed(f"quay.io/foo/bar@{DIGEST}", f"quay.io/foo/bar@{DIGEST}", "quay.io"),
    Parsed(f"quay.io/foo/bar:v1@{DIGEST}", f"quay.io/foo/bar@{DIGEST}", "quay.io"),
]


@pytest.mark.parametrize("case", PARSED, ids=attrgetter("text"))
def test_normal_form(case: Parsed) -> None:
    reference = parse_reference(case.text)
    assert (reference.normal, reference.host) == (case.normal, case.host)
    assert parse_reference(reference.normal) == parse_reference(parse_reference(reference.normal).normal)


def test_the_name_is_kept_as_it_was_written() -> None:
    assert parse_reference(f"index.docker.io/nginx:1@{DIGEST}").name == "index.docker.io/nginx"


REFUSED = [
    ("", "repository"), ("foo bar", "repository"), ("foo/Bar", "repository"), ("quay.io/Foo", "repository"),
    ("quay.io/", "repository"), ("quay.io//foo", "repository"), ("quay.io/foo:", "tag"), ("quay.io/foo:-x", "tag"),
    ("quay.io/foo:" + "x" * 129, "tag"), ("quay.io/foo@sha256:123", "digest"), ("quay.io/foo@md5:1", "digest"),
    (f"quay.io/foo@{DIGEST.upper()}", "digest"), ("quay.io/foo/../bar", "repository"), ("-quay.io/foo", "registry"),
    ("user:pass@quay.io/foo", "digest"), ("https://quay.io/foo", 'starts with "https://"; remove that'),
    ("quay.io:99x/foo", "registry"), ("quay.io:65536/foo", "registry"), ("quay.io:0/foo", "registry"),
    ("[:::]/foo", "registry"),
    ("quay.io/foo?x=1", "repository"), ("quay.io/foo#x", "repository"), ("quay.io/" + "a" * 256, "255 characters"),
    ("quay.io/foo:tag\n", "tag"), ("quay.io/foo\n", "repository"), ("quay.io/fo\u00f6", "repository"),
    ("quay.io/foo:t\u00e4g", "tag"), ("oci://quay.io/foo:v1", 'starts with "oci://"; remove that'),
    ("quay.io/foo:^1.2", "range of versions"), ("quay.io/foo:>=1.0 <2.0", "range of versions"),
    ("quay.io/foo:1.*", "range of versions"), ("quay.io/foo:~1", "range of versions"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_what_cannot_be_a_reference(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_reference(text)


@given(text=st.one_of(st.text(max_size=60), st.from_regex(r"[a-z./:@-]{1,60}", fullmatch=True)))
def test_any_text_is_a_reference_with_one_normal_form_or_refused(text: str) -> None:
    try:
        normal = parse_reference(text).normal
    except ValueError:
        return
    assert parse_reference(normal).normal == normal


MIRRORS = {"quay.io": "mirror.example.com:5000/quay", "docker.io": "hub.example.com/", "ghcr.io": ""}
CASES = [
    ("quay.io/foo/bar", "mirror.example.com:5000", "quay/foo/bar", "mirror.example.com:5000/quay/foo/bar"),
    ("nginx", "hub.example.com", "library/nginx", "hub.example.com/library/nginx"),
    ("ghcr.io/foo", "ghcr.io", "foo", "ghcr.io/foo"),
    ("quay.io:443/foo", "quay.io:443", "foo", "quay.io:443/foo"),
]


@pytest.mark.parametrize(("ref", "host", "repository", "name"), CASES)
def test_where_a_reference_leads(ref: str, host: str, repository: str, name: str) -> None:
    endpoint = find_endpoint(parse_reference(ref), MIRRORS)
    assert (endpoint.host, endpoint.repository, endpoint.name) == (host, repository, name)
    assert endpoint.is_mirror is host.endswith(("example.com", ":5000"))


def test_docker_hub_is_asked_at_its_own_host_and_named_by_its_normal_name() -> None:
    endpoint = find_endpoint(parse_reference("index.docker.io/nginx"), {})
    assert (endpoint.host, endpoint.name) == ("registry-1.docker.io", "docker.io/library/nginx")


@pytest.mark.parametrize("name", ["docker.io", "index.docker.io", "registry-1.docker.io"])
def test_docker_hub_is_mirrored_by_any_of_its_names(name: str) -> None:
    assert find_endpoint(parse_reference("nginx"), {name: "mirror.example.com"}).host == "mirror.example.com"


@pytest.mark.parametrize(
    ("ref", "name", "expect"),
    [
        ("localhost:5000/a", "localhost", True),
        ("localhost/a", "localhost", True),
        ("127.0.0.1:5000/a", "127.0.0.1", True),
        ("[::1]:5000/a", "::1", True),
        ("quay.io:1/a", "quay.io", False),
    ],
)
def test_which_endpoints_are_on_this_machine(ref: str, name: str, expect: bool) -> None:
    endpoint = find_endpoint(parse_reference(ref), {})
    assert (endpoint.location.host, endpoint.location.is_loopback) == (name, expect)


def test_a_mirror_may_be_on_this_machine() -> None:
    assert find_endpoint(parse_reference("quay.io/a"), {"quay.io": "localhost:5000"}).location.is_loopback
