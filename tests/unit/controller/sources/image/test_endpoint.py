"""Endpoints: where a reference leads, with mirrors and without."""

from __future__ import annotations

import pytest

from controller.sources.image.reference import find_endpoint, parse_reference

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
    assert (endpoint.host_name, endpoint.is_loopback) == (name, expect)


def test_a_mirror_may_be_on_this_machine() -> None:
    assert find_endpoint(parse_reference("quay.io/a"), {"quay.io": "localhost:5000"}).is_loopback
