"""Logging in: what a registry hears, from whom, and how often.

Anonymous tokens: where they are asked for, and what becomes of the answer.

Challenges: the header WWW-Authenticate as registries write it, and as nobody should."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Network, RegistryCredentials, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.image.login import Challenge, choose_credentials, is_related, parse_challenges
from rukpak.controller.sources.image.reference import find_endpoint, parse_reference
from rukpak.controller.sources.image.source import ImageSource
from tests.support.archives import tarball
from tests.support.clock import Unwaited
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.private_sources import Authority

PATH = "spec.sources[0].image"
LAYERS = (tarball(("a", b"1")), tarball(("b", b"2")))
SOURCE = ImageSource()
OWN = Credentials(username="u", password="p")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def registry(authority: Authority) -> Iterator[FaultyRegistry]:
    with FaultyRegistry(authority.server_context()) as registry:
        registry.add_image("v1", *LAYERS)
        yield registry


@pytest.fixture
def access(access: Access, authority: Authority) -> Access:
    return replace(access, credentials=replace(OWN, certificate_authority=authority.pem))


def resolve(registry: FaultyRegistry, access: Access) -> str:
    return SOURCE.resolve({"ref": f"{registry.host}/bundle:v1"}, access).digest


def fetch(registry: FaultyRegistry, access: Access) -> list[str]:
    digest = registry.add_image("v1", *LAYERS)
    parameters = {"ref": f"{registry.host}/bundle:v1"}
    return [entry.path for entry in SOURCE.fetch(parameters, Resolution(pinned="", digest=digest), access)]


def said(registry: FaultyRegistry) -> list[str]:
    """What each request has carried, in order."""
    return [headers.get("Authorization", "") for _, _, headers in registry.requests]


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def with_registries(access: Access, *entries: RegistryCredentials) -> Access:
    assert access.credentials is not None
    return replace(access, credentials=replace(access.credentials, username="", password="", registries=entries))


@pytest.mark.parametrize("has_open_base", [False, True], ids=["the base asks for a login", "the base is open"])
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_registry_that_hides_what_is_private_is_logged_in_to_as_its_base_asks(
    status: int, has_open_base: bool, registry: FaultyRegistry, access: Access
) -> None:
    registry.logins, registry.stranger_status, registry.has_open_base = {"u": "p"}, status, has_open_base
    assert resolve(registry, access)
    repository = "/v2/bundle/manifests/v1"
    asked = [(method, path) for method, path, _ in registry.requests]
    assert asked == [("HEAD", repository), ("GET", "/v2/"), ("HEAD", repository)]
    assert said(registry) == ["", "", basic("u", "p")]


def test_a_registry_that_hides_what_is_private_names_its_token_server_at_its_base(
    registry: FaultyRegistry, access: Access
) -> None:
    registry.logins, registry.wants_token, registry.stranger_status = {"u": "p"}, True, 404
    assert len(fetch(registry, access)) == 2
    asked = [urlsplit(path).path for _, path, _ in registry.requests]
    assert asked[1:3] == ["/v2/", "/token"]
    assert asked.count("/v2/") == 1


def test_what_is_missing_is_that_after_a_login(registry: FaultyRegistry, access: Access) -> None:
    registry.logins, registry.stranger_status = {"u": "p"}, 404
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve({"ref": f"{registry.host}/bundle:v9"}, access)
    assert caught.value.reason is Reason.NOT_FOUND
    assert 'has no tag "v9"' in caught.value.message
    assert [path for _, path, _ in registry.requests].count("/v2/") == 1


@pytest.mark.parametrize("status", [403, 404])
def test_without_credentials_the_base_is_not_asked(status: int, registry: FaultyRegistry, access: Access) -> None:
    registry.logins, registry.stranger_status = {"u": "p"}, status
    own = replace(access, credentials=Credentials(certificate_authority=access.credentials.certificate_authority))  # type: ignore[union-attr]
    with pytest.raises(BundleError):
        resolve(registry, own)
    assert "/v2/" not in [path for _, path, _ in registry.requests]


def test_nothing_is_said_before_it_is_asked_for(registry: FaultyRegistry, access: Access) -> None:
    resolve(registry, access)
    assert said(registry) == [""]


def test_a_password_is_said_to_the_registry_that_asks(registry: FaultyRegistry, access: Access) -> None:
    registry.logins = {"u": "p"}
    resolve(registry, access)
    assert said(registry) == ["", basic("u", "p")]


def test_a_password_is_said_to_the_token_server_and_a_token_to_the_registry(
    registry: FaultyRegistry, access: Access
) -> None:
    registry.wants_token, registry.logins = True, {"u": "p"}
    assert fetch(registry, access) == ["a", "b"]
    assert said(registry) == ["", basic("u", "p"), "Bearer token-1", "Bearer token-1", "Bearer token-1"]


def test_a_token_server_in_capital_letters_is_the_same(registry: FaultyRegistry, access: Access) -> None:
    registry.wants_token, registry.logins, registry.realm = True, {"u": "p"}, f"HTTPS://{registry.host}/token"
    assert resolve(registry, access)
    assert said(registry)[1] == basic("u", "p")


def test_a_wrong_password_is_said_once(registry: FaultyRegistry, access: Access) -> None:
    registry.logins = {"u": "another"}
    with pytest.raises(BundleError) as caught:
        resolve(registry, access)
    assert caught.value.reason is Reason.UNAUTHORIZED
    assert said(registry) == ["", basic("u", "p")]
    assert "denies access with these credentials, or does not exist; correct the Secret" in caught.value.message


def test_an_identity_token_is_posted_to_the_token_server_alone(registry: FaultyRegistry, access: Access) -> None:
    registry.wants_token, registry.identity_tokens = True, {"identity"}
    token = RegistryCredentials(registry=registry.host, identity_token="identity")
    resolve(registry, with_registries(access, token))
    assert said(registry) == ["", "", "Bearer token-1"]
    assert registry.forms == [
        {
            "grant_type": "refresh_token",
            "service": "registry",
            "scope": "repository:bundle:pull",
            "client_id": "rukpak",
            "refresh_token": "identity",
        }
    ]


def test_an_identity_token_is_not_posted_where_a_redirect_leads(
    registry: FaultyRegistry, access: Access, authority: Authority
) -> None:
    with FaultyRegistry(authority.server_context()) as other:
        registry.wants_token = True
        registry.realm = f"https://{registry.host}/v2/away"
        registry.faults = Faults(where="/away", redirect=f"https://{other.host}")
        token = RegistryCredentials(registry=registry.host, identity_token="identity")
        with pytest.raises(BundleError):
            resolve(registry, with_registries(access, token))
        assert other.requests == []


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize("uses", [1, 2])
def test_a_login_that_has_expired_is_made_again(
    status: int, uses: int, registry: FaultyRegistry, access: Access
) -> None:
    registry.wants_token, registry.logins, registry.refusal, registry.token_uses = True, {"u": "p"}, status, uses
    assert fetch(registry, access) == ["a", "b"]
    assert said(registry).count(basic("u", "p")) == 3 // uses + 3 % uses


@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_after_a_new_login_is_believed(status: int, registry: FaultyRegistry, access: Access) -> None:
    registry.wants_token, registry.refusal, registry.token_uses = True, status, 0
    with pytest.raises(BundleError):
        resolve(registry, access)
    assert len(registry.requests) == 3  # the challenge, the token, the refusal


def test_all_that_match_are_tried_the_most_specific_first(registry: FaultyRegistry, access: Access) -> None:
    registry.logins = {"good": "p"}
    hosts = {"other": "quay.io", "good": registry.host, "bad": f"{registry.host}/bundle"}
    entries = (RegistryCredentials(registry=host, username=user, password="p") for user, host in hosts.items())
    assert fetch(registry, with_registries(access, *entries)) == ["a", "b"]
    assert said(registry) == ["", basic("bad", "p"), *[basic("good", "p")] * 3]


def test_a_registry_that_asks_in_plain_http_is_not_told(access: Access) -> None:
    with FaultyRegistry() as registry:
        registry.add_image("v1", *LAYERS)
        registry.logins = {"u": "p"}
        with pytest.raises(BundleError, match="supports plain http only, over which no credentials are sent") as caught:
            resolve(registry, access)
        assert caught.value.reason is Reason.INSECURE_REFUSED
        assert basic("u", "p") not in said(registry)


FOREIGN = [
    ("another host", "https://{other}/token", 'uses token server "localhost", which is not in the domain of'),
    ("plain http", "http://{host}/token", 'uses token server "127.0.0.1" over plain http, to which no credentials'),
    ("another user", "https://a:b@{host}/token", 'uses token server "", which is not in the domain of'),
]


@pytest.mark.parametrize(("realm", "message"), [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_a_foreign_token_server_gets_nothing(
    realm: str, message: str, registry: FaultyRegistry, access: Access, authority: Authority
) -> None:
    with FaultyRegistry(authority.server_context()) as other:
        registry.wants_token = True
        registry.realm = realm.format(host=registry.host, other=other.host.replace("127.0.0.1", "localhost"))
        with pytest.raises(BundleError) as caught:
            resolve(registry, access)
        assert caught.value.reason is Reason.INSECURE_REFUSED
        assert caught.value.message.startswith(f'{PATH}.ref: registry "{registry.host}" {message}')
        assert other.requests == []


def test_where_blobs_are_redirected_to_nothing_is_said(
    registry: FaultyRegistry, access: Access, authority: Authority
) -> None:
    registry.logins = {"u": "p"}
    with FaultyRegistry(authority.server_context()) as other:
        other.blobs = dict(registry.blobs)
        registry.faults = Faults(where="/blobs/", redirect=f"https://{other.host}")
        assert fetch(registry, access) == ["a", "b"]
        assert said(other) == ["", ""]


@pytest.mark.parametrize("status", [401, 403, 404, 418])
def test_a_refusal_where_blobs_are_redirected_to_is_no_challenge_and_not_told(
    status: int, registry: FaultyRegistry, access: Access, authority: Authority
) -> None:
    registry.logins = {"u": "p"}
    with FaultyRegistry(authority.server_context()) as other:
        registry.faults = Faults(where="/blobs/", redirect=f"https://{other.host}")
        other.faults = Faults(status=status, headers={"WWW-Authenticate": 'Basic realm="x"'})
        with pytest.raises(BundleError) as caught:
            fetch(registry, access)
        assert said(other) == [""]
    assert caught.value.reason is Reason.UNREACHABLE
    assert caught.value.message == (
        f'{PATH}.ref: "{registry.host}" redirects to an address that cannot be used; check that server'
    )


@pytest.mark.parametrize("status", [500, 503])
def test_what_another_token_server_answers_is_not_told(
    status: int, registry: FaultyRegistry, access: Access, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rukpak.controller.sources.image.login.is_related", lambda *_, **__: True)
    with FaultyRegistry(authority.server_context()) as other:
        registry.wants_token, registry.realm = True, f"https://{other.host}/v2/token"
        other.faults = Faults(status=status)
        with pytest.raises(BundleError) as caught:
            resolve(registry, access)
        assert other.requests
    assert caught.value.reason is Reason.UNREACHABLE
    assert caught.value.message == (
        f'{PATH}.ref: registry "{registry.host}" uses a token server at an address that cannot be used; '
        "check the registry"
    )


def test_an_unverified_registry_gets_no_credentials(registry: FaultyRegistry, access: Access) -> None:
    registry.logins = {"u": "p"}
    parameters = {"ref": f"{registry.host}/bundle:v1", "insecureSkipTLSVerify": True}
    with pytest.raises(BundleError, match="credentials are not sent if insecureSkipTLSVerify is set") as caught:
        SOURCE.resolve(parameters, access)
    assert caught.value.reason is Reason.INSECURE_REFUSED
    assert registry.requests == []


def test_an_unverified_registry_names_no_other_place_for_tokens(
    registry: FaultyRegistry, access: Access, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rukpak.controller.sources.image.login.is_related", lambda *_, **__: True)
    with FaultyRegistry(authority.server_context()) as other:
        registry.wants_token, registry.realm = True, f"https://{other.host}/token"
        parameters = {"ref": f"{registry.host}/bundle:v1", "insecureSkipTLSVerify": True}
        with pytest.raises(BundleError, match="at another address without verified https") as caught:
            SOURCE.resolve(parameters, replace(access, credentials=None))
        assert other.requests == []
    assert caught.value.reason is Reason.INSECURE_REFUSED


@pytest.mark.parametrize("realm", ["HTTPS://LOCALHOST:{port}/token", "https://localhost:0{port}/token"])
def test_an_unverified_registry_is_the_same_place_in_another_spelling(
    realm: str, registry: FaultyRegistry, access: Access
) -> None:
    port = registry.host.rpartition(":")[2]
    registry.wants_token, registry.realm = True, realm.format(port=port)
    registry.add_image("v1", *LAYERS)
    parameters = {"ref": f"localhost:{port}/bundle:v1", "insecureSkipTLSVerify": True}
    assert SOURCE.resolve(parameters, replace(access, credentials=None)).digest
    assert "/token" in [path.partition("?")[0] for _, path, _ in registry.requests]


@pytest.mark.parametrize("realm", ["https://{host}0/token", "https://127.0.0.1/token", "https://{host}:99999/token"])
def test_an_unverified_registry_names_no_other_port_for_tokens(
    realm: str, registry: FaultyRegistry, access: Access
) -> None:
    registry.wants_token, registry.realm = True, realm.format(host=registry.host)
    parameters = {"ref": f"{registry.host}/bundle:v1", "insecureSkipTLSVerify": True}
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve(parameters, replace(access, credentials=None))
    assert caught.value.reason is Reason.INSECURE_REFUSED


def choose(ref: str, credentials: Credentials | None, **mirrors: Any) -> list[str]:
    endpoint = find_endpoint(parse_reference(ref), Network(**mirrors).registry_mirrors)
    return [found.username for found in choose_credentials(credentials, endpoint)]


def test_what_is_tried_where() -> None:
    hub = RegistryCredentials(registry="https://index.docker.io/v1/", username="hub", password="p")
    mirror = RegistryCredentials(registry="mirror.example.com", username="mirror", password="p")
    both = Credentials(username="own", password="p", registries=(hub, mirror))
    assert choose("nginx", None) == []
    assert choose("nginx", both) == ["hub", "own"]
    assert choose("quay.io/a", both) == ["own"]
    assert choose("nginx", both, registry_mirrors={"docker.io": "mirror.example.com/hub"}) == ["mirror"]


@pytest.fixture
def token_access(tmp_path: Path) -> Access:
    return Access(path="spec.sources[0]", deadline=time.monotonic() + 250, cancelled=Unwaited(), scratch=tmp_path)


@pytest.fixture
def token_registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.wants_token = True
        registry.add_image("v1", tarball(("manifests/a.yaml", b"a: 1\n")))
        yield registry


def resolve_token(token_registry: FaultyRegistry, token_access: Access) -> Resolution:
    return ImageSource().resolve({"ref": f"{token_registry.host}/bundle:v1"}, token_access)


def test_a_challenge_is_answered_once_for_all_requests(token_registry: FaultyRegistry, token_access: Access) -> None:
    digest = resolve_token(token_registry, token_access).digest
    token_registry.requests.clear()
    list(
        ImageSource().fetch(
            {"ref": f"{token_registry.host}/bundle:v1"}, Resolution(pinned="", digest=digest), token_access
        )
    )
    paths = [path.split("?")[0] for _, path, _ in token_registry.requests]
    assert [path.rsplit("/", 2)[1] for path in paths] == ["manifests", "token", "manifests", "blobs"]
    assert paths[1] == "/token"
    assert "scope=repository%3Abundle%3Apull" in token_registry.requests[1][1]


def test_a_token_that_has_expired_is_replaced(token_registry: FaultyRegistry, token_access: Access) -> None:
    token_registry.token_uses = 1
    digest = resolve_token(token_registry, token_access).digest
    parameters = {"ref": f"{token_registry.host}/bundle@{digest}"}
    found = ImageSource().fetch(parameters, Resolution(pinned="", digest=digest), token_access)
    assert [entry.path for entry in found] == ["manifests/a.yaml"]


ANSWERS = [
    ("nothing", b""),
    ("no JSON", b"\xff"),
    ("a list", b"[]"),
    ("no token", b"{}"),
    ("a token that is no text", b'{"token": {"a": 1}}'),
    ("a token that would be two headers", json.dumps({"token": "a\r\nX-Evil: 1"}).encode()),
    ("a token that is not accepted", b'{"token": "another"}'),
    ("deep nesting", b"[" * 60_000),
]


@pytest.mark.parametrize("answer", [case[1] for case in ANSWERS], ids=map(itemgetter(0), ANSWERS))
def test_without_a_good_token_it_is_unauthorized(
    answer: bytes, token_registry: FaultyRegistry, token_access: Access
) -> None:
    token_registry.token_uses, token_registry.token_answer = 0, answer
    with pytest.raises(BundleError) as caught:
        resolve_token(token_registry, token_access)
    assert caught.value.reason is Reason.UNAUTHORIZED


def test_an_endless_answer_is_refused(token_registry: FaultyRegistry, token_access: Access) -> None:
    token_registry.token_answer = b" " * 100_000
    with pytest.raises(BundleError, match="exceeds the limit of 64 KiB"):
        resolve_token(token_registry, token_access)


def test_a_foreign_token_server_is_not_asked(token_registry: FaultyRegistry, token_access: Access) -> None:
    with FaultyRegistry() as other:
        token_registry.realm = f"http://localhost:{other.host.split(':')[1]}/token"
        with pytest.raises(BundleError, match='uses token server "localhost"') as caught:
            resolve_token(token_registry, token_access)
        assert other.requests == []
    assert caught.value.reason is Reason.INSECURE_REFUSED


@pytest.mark.parametrize("realm", ["ftp://127.0.0.1/", "//127.0.0.1/", "http://a:b@127.0.0.1/", "http://[", "x"])
def test_an_odd_realm_is_refused(realm: str, token_registry: FaultyRegistry, token_access: Access) -> None:
    token_registry.realm = realm
    with pytest.raises(BundleError) as caught:
        resolve_token(token_registry, token_access)
    assert caught.value.reason is Reason.INSECURE_REFUSED


@pytest.mark.parametrize("challenge", ["", 'Basic realm="x"', "Bearer " + "a" * 30_000, "Bearer"])
def test_another_challenge_is_unauthorized(
    challenge: str, token_registry: FaultyRegistry, token_access: Access
) -> None:
    token_registry.wants_token = False
    token_registry.faults = Faults(status=401, headers={"WWW-Authenticate": challenge})
    with pytest.raises(BundleError) as caught:
        resolve_token(token_registry, token_access)
    assert caught.value.reason is Reason.UNAUTHORIZED
    assert len(token_registry.requests) == 1


@pytest.mark.parametrize("realm", ["http://127.0.0.1:{port}/token", "http://localhost:{port}/token"])
def test_no_other_place_is_asked_in_plain_http(
    realm: str, token_registry: FaultyRegistry, token_access: Access
) -> None:
    """What it answers would be told to the registry as a token."""
    with FaultyRegistry() as other:
        token_registry.realm = realm.format(port=other.host.split(":")[1])
        with pytest.raises(BundleError) as caught:
            resolve_token(token_registry, token_access)
        assert other.requests == []
    assert caught.value.reason is Reason.INSECURE_REFUSED


def test_nothing_is_written_to_stderr(
    token_registry: FaultyRegistry, token_access: Access, capfd: pytest.CaptureFixture[str]
) -> None:
    token_registry.token_answer = b"{}"
    with pytest.raises(BundleError):
        resolve_token(token_registry, token_access)
    assert capfd.readouterr() == ("", "")


RELATED = [
    ("quay.io", "quay.io", True, True), ("auth.docker.io", "registry-1.docker.io", True, True),
    ("gitlab.com", "registry.gitlab.com", True, True), ("gitlab.example.com", "registry.example.com", True, True),
    ("evil.co.uk", "registry.co.uk", True, False), ("evil.github.io", "registry.github.io", True, False),
    ("2.dkr.ecr.eu.amazonaws.com", "1.dkr.ecr.eu.amazonaws.com", True, False),
    ("1.dkr.ecr.eu.amazonaws.com", "1.dkr.ecr.eu.amazonaws.com", True, True),
    ("evil.com", "registry.example.com", False, False), ("evilexample.com", "registry.example.com", False, False),
    ("example.com.evil.com", "registry.example.com", False, False), ("evil.io", "quay.io", False, False),
    ("127.0.0.2", "127.0.0.1", False, False), ("", "quay.io", False, False), ("io", "quay.io", False, False),
]  # fmt: skip


@pytest.mark.parametrize(("host", "registry", "anonymously", "with_credentials"), RELATED)
def test_which_token_servers_belong_to_a_registry(
    host: str, registry: str, anonymously: bool, with_credentials: bool
) -> None:
    assert is_related(host, registry, is_secret=False) is anonymously
    assert is_related(host, registry, is_secret=True) is with_credentials


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
    started = time.thread_time()
    parse_challenges((part * 4096)[:4096])
    assert time.thread_time() - started < 2


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
