"""The keyring: the tables of Kubernetes' own tests, and what they leave out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.plugins import RegistryCredentials
from controller.sources.credentials import find_credentials

# k8s.io/kubernetes/pkg/credentialprovider/keyring_test.go: TestURLsMatch, TestDockerKeyringForGlob.
MATCHING = [
    ("*.kubernetes.io", "prefix.kubernetes.io"),
    ("prefix.*.io", "prefix.kubernetes.io"),
    ("prefix.kubernetes.*", "prefix.kubernetes.io"),
    ("*-good.kubernetes.io", "prefix-good.kubernetes.io"),
    ("*.kubernetes.io/blah", "prefix.kubernetes.io/blah"),
    ("prefix.*.io/foo", "prefix.kubernetes.io/foo/bar"),
    ("*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah"),
    ("prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar"),
    ("*kubernetes.io", "kubernetes.io"),
    ("*.*.*.kubernetes.io", "a.b.c.kubernetes.io"),
    ("https://hello.kubernetes.io", "hello.kubernetes.io"),
    ("https://*.docker.io", "prefix.docker.io"),
    ("https://*.docker.io/path", "prefix.docker.io/path"),
    ("https://prefix.*.io/path", "prefix.docker.io/path/subpath"),
    ("https://*.docker.io:8888", "prefix.docker.io:8888"),
    ("https://*.docker.io/v1/", "prefix.docker.io/path"),
    ("https://*.docker.io/v2/", "prefix.docker.io/path"),
    ("prefix.docker.io:1111", "prefix.docker.io:1111/path"),
    # Ours.
    ("http://quay.io", "quay.io"),
    ("quay.io/", "quay.io/foo"),
    ("quay.io/v2/foo", "quay.io/foo/bar"),
    ("quay.io/foo", "quay.io/foobar"),
    ("[::1]:5000", "[::1]:5000/foo"),
    ("[::1]", "[::1]/foo"),
    ("https://index.docker.io/v1/", "docker.io/library/nginx"),
    ("index.docker.io", "docker.io/library/nginx"),
    ("docker.io", "docker.io/foo/bar"),
    ("registry-1.docker.io", "docker.io/foo/bar"),
    ("docker.io/foo", "docker.io/foo/bar"),
]
# TestURLsMatch, TestKeyringMiss, TestKeyringMissWithDockerHubCredentials.
NOT_MATCHING = [
    ("*.kubernetes.io", "kubernetes.io"),
    ("*.*.kubernetes.io", "prefix.kubernetes.io"),
    ("*kubernetes.io", "a.kubernetes.io"),
    ("kubernetes.io", "kubernetes.com"),
    ("k*.io", "quay.io"),
    ("*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah"),
    ("prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar"),
    ("https://*.docker.com", "prefix.docker.io"),
    ("https://suffix.*.io", "prefix.docker.io"),
    ("https://prefix.*.io/path:1111", "prefix.docker.io/path/subpath:1111"),
    ("https://index.docker.io/v1/", "world.mesos.org/foo/bar"),
    # Ours.
    ("quay.io:443", "quay.io/foo"),
    ("quay.io/foo", "quay.io/bar"),
    ("quay.io/foo/bar", "quay.io/foo"),
    ("quay.io.evil.com", "quay.io/foo"),
    ("user@quay.io", "quay.io/foo"),
    ("", "quay.io/foo"),
    ("*", "quay.io/foo"),
    ("*.docker.io", "docker.io/library/nginx"),
]


def find(name: str, *registries: str) -> list[str]:
    entries = [RegistryCredentials(registry=registry, username="u") for registry in registries]
    return [found.registry for found in find_credentials(entries, name)]


@pytest.mark.parametrize(("registry", "name"), MATCHING)
def test_an_entry_is_for_a_repository(registry: str, name: str) -> None:
    assert find(f"{name}/foo/bar", registry) == [registry]


@pytest.mark.parametrize(("registry", "name"), NOT_MATCHING)
def test_an_entry_is_not_for_a_repository(registry: str, name: str) -> None:
    assert find(name, registry) == []


def test_the_most_specific_comes_first() -> None:
    assert find("quay.io/a/b/c", "*.io", "quay.io", "quay.io/a/b", "quay.io/a") == [
        "quay.io/a/b", "quay.io/a", "quay.io", "*.io",
    ]  # fmt: skip


def test_entries_for_one_place_are_all_tried_in_their_order() -> None:
    entries = [RegistryCredentials(registry="quay.io", username=name) for name in ("new", "old")]
    assert [found.username for found in find_credentials(entries, "quay.io/a")] == ["new", "old"]


@given(registry=st.text(max_size=40), name=st.from_regex(r"[a-z.]{1,9}(:[0-9]{1,4})?/[a-z/]{1,9}", fullmatch=True))
def test_any_entry_matches_or_does_not(registry: str, name: str) -> None:
    assert find(name, registry) in ([], [registry])
    assert find(name, name) == [name]
