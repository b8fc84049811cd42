"""Image references."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.sources.image.reference import parse_reference

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
    ("quay.io:99x/foo", "registry"),
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
