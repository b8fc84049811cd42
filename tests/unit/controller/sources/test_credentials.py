"""From Secrets to values: every shape, every defect, and nothing secret in what is said about it.

The keyring: the tables of Kubernetes' own tests, and what they leave out."""

from __future__ import annotations

import base64
import json
import traceback
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Credentials, RegistryCredentials
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.credentials import (
    DOCKER_CONFIG,
    DOCKER_CONFIG_JSON,
    find_credentials,
    parse_pull_secrets,
    parse_secret,
)
from tests.support.private_sources import Authority

PATH = "spec.sources[0].image.auth"
CANARY = "CANARY-7f3a"


def encode(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def secret(kind: str = "Opaque", /, **data: str | bytes) -> dict[str, Any]:
    """A Secret; underscores in keys stand for dots or dashes where Kubernetes has them."""
    names = {
        "dockerconfigjson": ".dockerconfigjson", "dockercfg": ".dockercfg", "ca_crt": "ca.crt",
        "ssh_privatekey": "ssh-privatekey", "ssh_knownhosts": "ssh-knownhosts",
    }  # fmt: skip
    encoded = {names.get(key, key): encode(value) for key, value in data.items()}
    return {"metadata": {"name": "auth", "namespace": "foo"}, "type": kind, "data": encoded}


def docker(entries: Any) -> dict[str, Any]:
    return secret(DOCKER_CONFIG_JSON, dockerconfigjson=json.dumps({"auths": entries}))


class Case(NamedTuple):
    name: str
    kind: str
    secret: dict[str, Any]
    expect: dict[str, str]


BASIC = {"username": "u", "password": "p"}
# fmt: off
CASES = [
    Case("basic-auth", "image", secret("kubernetes.io/basic-auth", **BASIC), BASIC),
    Case("user and password in a Secret of any type", "http", secret(**BASIC), BASIC),
    Case("ssh-auth", "git", secret("kubernetes.io/ssh-auth", ssh_privatekey="key\n", known_hosts="hosts\n"),
         {"ssh_private_key": "key\n", "known_hosts": "hosts\n"}),
    Case("its other key", "git", secret(ssh_privatekey="k", ssh_knownhosts="h"),
         {"ssh_private_key": "k", "known_hosts": "h"}),
    Case("Flux's identity", "git", secret(identity="k", known_hosts="h"), {"ssh_private_key": "k", "known_hosts": "h"}),
    Case("a pass phrase beside a key", "git", secret(identity="k", password="p"),
         {"ssh_private_key": "k", "password": "p"}),
    Case("Flux's bearerToken", "http", secret(bearerToken="t"), {"bearer_token": "t"}),
    Case("a line break at the end", "git", secret(username="u\n", password="p\r\n"), BASIC),
    Case("a colon and more in a password", "git", secret(username="u", password="a:b ü"),
         {**BASIC, "password": "a:b ü"}),
    Case("other keys, whatever is in them", "git", secret(**BASIC, other=b"\xff"), BASIC),
    Case("all shapes for the kind of a plug-in", "a.b/c", secret(bearerToken="t", identity="k"),
         {"bearer_token": "t", "ssh_private_key": "k"}),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_a_secret_says(case: Case) -> None:
    assert parse_secret(case.secret, case.kind, PATH) == Credentials(**case.expect)  # type: ignore[arg-type]


def test_certificates_stand_beside_anything_or_alone(tmp_path: Path) -> None:
    pem = Authority.make(tmp_path).pem
    assert parse_secret(secret(ca_crt=pem), "git", PATH) == Credentials(certificate_authority=pem)
    config = secret(DOCKER_CONFIG_JSON, dockerconfigjson='{"auths": {"q": {"username": "u"}}}', ca_crt=pem)
    assert parse_secret(config, "image", PATH).certificate_authority == pem


def entry(registry: str = "quay.io", username: str = "u", password: str = "p", token: str = "") -> RegistryCredentials:
    return RegistryCredentials(registry=registry, username=username, password=password, identity_token=token)


DOCKER = [
    ("user and password", {"quay.io": BASIC}, [entry()]),
    ("auth", {"quay.io": {"auth": encode("u:p")}}, [entry()]),
    ("auth without padding", {"quay.io": {"auth": encode("u:pp").rstrip("=")}}, [entry(password="pp")]),
    ("auth, padded with zeros", {"quay.io": {"auth": encode("u:p\0\0")}}, [entry()]),
    (
        "auth against user and password",
        {"quay.io": {"username": "x", "password": "y", "auth": encode("u:p")}},
        [entry()],
    ),
    ("a password with colons", {"quay.io": {"auth": encode("u:p:q")}}, [entry(password="p:q")]),
    (
        "an identity token",
        {"r.azurecr.io": {"auth": encode("00000000-0000-0000-0000-000000000000:"), "identitytoken": "t"}},
        [entry("r.azurecr.io", "00000000-0000-0000-0000-000000000000", "", "t")],
    ),
    ("an identity token for a password", {"q": {"username": "<token>", "password": "t"}}, [entry("q", "", "", "t")]),
    ("empty entries", {"quay.io": {}, "docker.io": {"auth": ""}, "x": BASIC}, [entry("x")]),
    ("nulls", {"quay.io": {"username": None, "password": None, "auth": None}}, []),
    ("several, in their order", {"b": BASIC, "a": BASIC}, [entry("b"), entry("a")]),
    ("nothing", None, []),
]


@pytest.mark.parametrize(("entries", "expect"), [case[1:] for case in DOCKER], ids=map(itemgetter(0), DOCKER))
def test_what_a_docker_configuration_says(entries: Any, expect: list[RegistryCredentials]) -> None:
    assert list(parse_secret(docker(entries), "image", PATH).registries) == expect
    old = secret(DOCKER_CONFIG, dockercfg=json.dumps(entries or {}))
    assert list(parse_secret(old, "image", PATH).registries) == expect


NOT_DOCKER = 'key ".dockerconfigjson" is not a Docker configuration; create it with "kubectl create secret'
DEFECTS = [
    (
        "nothing of use",
        "image",
        secret(identity=CANARY),
        "has no usable credentials; add type kubernetes.io",
    ),
    (
        "no data",
        "git",
        {"metadata": {"name": "auth", "namespace": "foo"}},
        "has no usable credentials; add keys",
    ),
    ("no data for a plug-in", "a.b/c", secret(), "has no usable credentials; add credentials"),
    ("a pull secret for git", "git", docker({"quay.io": BASIC}), "has no usable credentials"),
    ("no password", "git", secret(username=CANARY), 'key "password" is missing; add it'),
    ("no user", "git", secret(password=CANARY), 'key "username" is missing; add it'),
    ("a colon in the user", "git", secret(username=f"{CANARY}:", password="p"), 'key "username" contains a colon'),
    ("two lines", "http", secret(username="u", password=f"{CANARY}\nX: y"), 'key "password" contains a line break'),
    ("a token of two words", "http", secret(bearerToken=f"{CANARY} b"), 'key "bearerToken" contains a blank'),
    ("a token that is not ASCII", "http", secret(bearerToken=f"{CANARY}ü"), 'key "bearerToken" contains a blank'),
    (
        "a password in another encoding",
        "git",
        secret(username="u", password=CANARY.encode() + b"\xff"),
        'key "password" is not UTF-8',
    ),
    ("no certificates", "git", secret(**BASIC, ca_crt=CANARY), 'key "ca.crt" is not a bundle of PEM certificates'),
    ("no configuration", "image", secret(DOCKER_CONFIG_JSON, other="x"), 'key ".dockerconfigjson" is missing; add it'),
    ("no old configuration", "image", secret(DOCKER_CONFIG), 'key ".dockercfg" is missing; add it'),
    ("no JSON", "image", secret(DOCKER_CONFIG_JSON, dockerconfigjson=CANARY), NOT_DOCKER),
    ("a list", "image", secret(DOCKER_CONFIG, dockercfg=f'["{CANARY}"]'), 'key ".dockercfg" is not a Docker'),
    ("text for an entry", "image", docker({"quay.io": CANARY}), NOT_DOCKER),
    ("a number for a password", "image", docker({"quay.io": {"username": CANARY, "password": 1}}), NOT_DOCKER),
    ("auth that is not base64", "image", docker({"quay.io": {"auth": f"{CANARY}!"}}), NOT_DOCKER),
    ("auth without a colon", "image", docker({"quay.io": {"auth": encode(CANARY)}}), NOT_DOCKER),
    ("auth that is not text", "image", docker({"quay.io": {"auth": encode(CANARY.encode() + b"\xff:")}}), NOT_DOCKER),
    ("deep nesting", "image", secret(DOCKER_CONFIG_JSON, dockerconfigjson="[" * 100_000), NOT_DOCKER),
]


@pytest.mark.parametrize(
    ("kind", "manifest", "message"), [case[1:] for case in DEFECTS], ids=map(itemgetter(0), DEFECTS)
)
def test_a_secret_that_cannot_be_used(kind: str, manifest: dict[str, Any], message: str) -> None:
    with pytest.raises(BundleError) as caught:
        parse_secret(manifest, kind, PATH)
    assert caught.value.reason is Reason.SECRET_INVALID
    assert caught.value.message.startswith(f'{PATH}: Secret "foo/auth": {message}')
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_pull_secrets_are_read_together_and_others_passed_over() -> None:
    old = secret(DOCKER_CONFIG, dockercfg=json.dumps({"b": BASIC}))
    found = parse_pull_secrets([docker({"a": BASIC}), secret(**BASIC), old], PATH)
    assert found == Credentials(registries=(entry("a"), entry("b")))


def test_credentials_are_not_shown() -> None:
    found = parse_secret(docker({"quay.io": {"username": "u", "password": CANARY}}), "image", PATH)
    assert CANARY not in repr(found) + str(found) + repr(found.registries)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["auths", "quay.io", "auth", "username", "password"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(config=JSON, kind=st.sampled_from([DOCKER_CONFIG_JSON, DOCKER_CONFIG]))
@settings(deadline=None)
def test_any_configuration_is_read_or_refused(config: Any, kind: str) -> None:
    key = "dockerconfigjson" if kind == DOCKER_CONFIG_JSON else "dockercfg"
    try:
        found = parse_secret(secret(kind, **{key: json.dumps(config)}), "image", PATH)
    except BundleError as error:
        assert error.reason is Reason.SECRET_INVALID
    else:
        assert all(registry.username or registry.identity_token for registry in found.registries)


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
