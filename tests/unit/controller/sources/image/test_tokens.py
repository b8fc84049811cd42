"""Anonymous tokens: where they are asked for, and what becomes of the answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pytest

from api.errors import BundleError
from api.plugins import Access, Resolution
from api.v1alpha2.conditions import Reason
from controller.sources.image.source import ImageSource
from controller.sources.image.tokens import is_related
from tests.support.archives import tarball
from tests.support.faulty_registry import Faults, FaultyRegistry


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(path="spec.sources[0]", deadline=time.monotonic() + 20, cancelled=threading.Event(), scratch=tmp_path)


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.wants_token = True
        registry.add_image("v1", tarball(("manifests/a.yaml", b"a: 1\n")))
        yield registry


def resolve(registry: FaultyRegistry, access: Access) -> Resolution:
    return ImageSource().resolve({"ref": f"{registry.host}/bundle:v1"}, access)


def test_a_challenge_is_answered_once_for_all_requests(registry: FaultyRegistry, access: Access) -> None:
    digest = resolve(registry, access).digest
    registry.requests.clear()
    list(ImageSource().fetch({"ref": f"{registry.host}/bundle:v1"}, Resolution(pinned="", digest=digest), access))
    paths = [path.split("?")[0] for _, path, _ in registry.requests]
    assert [path.rsplit("/", 2)[1] for path in paths] == ["manifests", "token", "manifests", "blobs"]
    assert paths[1] == "/token"
    assert "scope=repository%3Abundle%3Apull" in registry.requests[1][1]


def test_a_token_that_has_expired_is_replaced(registry: FaultyRegistry, access: Access) -> None:
    registry.token_uses = 1
    digest = resolve(registry, access).digest
    parameters = {"ref": f"{registry.host}/bundle@{digest}"}
    found = ImageSource().fetch(parameters, Resolution(pinned="", digest=digest), access)
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
def test_without_a_good_token_it_is_unauthorized(answer: bytes, registry: FaultyRegistry, access: Access) -> None:
    registry.token_uses, registry.token_answer = 0, answer
    with pytest.raises(BundleError) as caught:
        resolve(registry, access)
    assert caught.value.reason is Reason.UNAUTHORIZED


def test_an_endless_answer_is_refused(registry: FaultyRegistry, access: Access) -> None:
    registry.token_answer = b" " * 100_000
    with pytest.raises(BundleError, match="exceeds the limit of 65536 bytes"):
        resolve(registry, access)


def test_a_foreign_token_server_is_not_asked(registry: FaultyRegistry, access: Access) -> None:
    with FaultyRegistry() as other:
        registry.realm = f"http://localhost:{other.host.split(':')[1]}/token"
        with pytest.raises(BundleError, match='uses token server "localhost"') as caught:
            resolve(registry, access)
        assert other.requests == []
    assert caught.value.reason is Reason.INSECURE_REFUSED


@pytest.mark.parametrize("realm", ["ftp://127.0.0.1/", "//127.0.0.1/", "http://a:b@127.0.0.1/", "http://[", "x"])
def test_an_odd_realm_is_refused(realm: str, registry: FaultyRegistry, access: Access) -> None:
    registry.realm = realm
    with pytest.raises(BundleError) as caught:
        resolve(registry, access)
    assert caught.value.reason is Reason.INSECURE_REFUSED


@pytest.mark.parametrize("challenge", ["", 'Basic realm="x"', "Bearer " + "a" * 30_000, "Bearer"])
def test_another_challenge_is_unauthorized(challenge: str, registry: FaultyRegistry, access: Access) -> None:
    registry.wants_token = False
    registry.faults = Faults(status=401, headers={"WWW-Authenticate": challenge})
    with pytest.raises(BundleError) as caught:
        resolve(registry, access)
    assert caught.value.reason is Reason.UNAUTHORIZED
    assert len(registry.requests) == 1


@pytest.mark.parametrize("realm", ["http://127.0.0.1:{port}/token", "http://localhost:{port}/token"])
def test_no_other_place_is_asked_in_plain_http(realm: str, registry: FaultyRegistry, access: Access) -> None:
    """What it answers would be told to the registry as a token."""
    with FaultyRegistry() as other:
        registry.realm = realm.format(port=other.host.split(":")[1])
        with pytest.raises(BundleError) as caught:
            resolve(registry, access)
        assert other.requests == []
    assert caught.value.reason is Reason.INSECURE_REFUSED


def test_nothing_is_written_to_stderr(
    registry: FaultyRegistry, access: Access, capfd: pytest.CaptureFixture[str]
) -> None:
    registry.token_answer = b"{}"
    with pytest.raises(BundleError):
        resolve(registry, access)
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
