"""TLS contexts: one for each set of trust, and nothing but trust in common between the calls that share one."""

from __future__ import annotations

import gc
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import certifi
import pytest
import trustme

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources import trust
from rukpak.controller.sources.image.source import ImageSource
from rukpak.controller.sources.transport import Transport
from rukpak.controller.sources.trust import TLSContexts, TLSSettings
from tests.support.archives import tarball
from tests.support.faulty_registry import FaultyRegistry

PATH = "spec"

ROOTS = certifi.where()
OURS, OTHER = trustme.CA(), trustme.CA()


def pem_of(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


A, B = pem_of(OURS), pem_of(OTHER)


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> TLSContexts:
    """An empty cache, which sources use."""
    fresh = TLSContexts()
    monkeypatch.setattr(trust, "CONTEXTS", fresh)
    return fresh


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[ssl.SSLContext]:
    """Every client's context that anyone in this process creates."""
    found, original = [], ssl.SSLContext.__new__

    def new(kind: type[ssl.SSLContext], protocol: int | None = None, *more: Any) -> ssl.SSLContext:
        context: ssl.SSLContext = original(kind, protocol, *more)
        if protocol != ssl.PROTOCOL_TLS_SERVER:
            found.append(context)
        return context

    monkeypatch.setattr(ssl.SSLContext, "__new__", new)
    return found


# the cache

Get = Callable[[TLSContexts], ssl.SSLContext]
VERIFIED, UNVERIFIED = (ssl.CERT_REQUIRED, True), (ssl.CERT_NONE, False)
TRUSTS: dict[str, Get] = {
    "the system's": lambda cache: cache.trusting_system(ROOTS),
    "one authority's": lambda cache: cache.trusting(A),
    "another one's": lambda cache: cache.trusting(B),
    "both": lambda cache: cache.trusting(A + B),
    "anyone's": lambda cache: cache.trusting_anyone(),
}
each_trust = pytest.mark.parametrize("trust_name", TRUSTS)


def test_equal_trust_shares_a_context_and_different_trust_never_does(created: list[ssl.SSLContext]) -> None:
    cache = TLSContexts()
    first = [get(cache) for get in TRUSTS.values()]
    assert [get(cache) for get in TRUSTS.values()] == first
    assert len({id(context) for context in first}) == len(created) == len(TRUSTS)


@each_trust
def test_only_the_context_for_anyone_does_not_verify(trust_name: str) -> None:
    context = TRUSTS[trust_name](TLSContexts())
    expect = UNVERIFIED if trust_name == "anyone's" else VERIFIED
    assert (context.verify_mode, context.check_hostname) == expect
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_context_has_the_roots_that_are_trusted_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = TLSContexts()
    assert len(cache.trusting_system(ROOTS).get_ca_certs()) > 50
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: pytest.fail("loads the system's roots"))
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", lambda *_: pytest.fail("loads the system's roots"))
    assert [len(cache.trusting(pem).get_ca_certs()) for pem in (A, B, A + B)] == [1, 1, 2]
    assert cache.trusting_anyone().cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}


@each_trust
def test_a_context_is_created_once_for_threads_that_need_it_at_the_same_time(
    trust_name: str, created: list[ssl.SSLContext]
) -> None:
    cache, start = TLSContexts(), threading.Barrier(8)

    def work() -> ssl.SSLContext:
        start.wait()
        return TRUSTS[trust_name](cache)

    with ThreadPoolExecutor(8) as pool:
        found = [each.result() for each in [pool.submit(work) for _ in range(8)]]
    assert {id(context) for context in found} == {id(created[0])}
    assert len(created) == 1


def test_a_large_bundle_of_one_source_does_not_keep_others_waiting() -> None:
    cache, started, go_on = TLSContexts(), threading.Event(), threading.Event()

    def parse_slowly() -> ssl.SSLContext:
        started.set()
        assert go_on.wait(60)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    slow = threading.Thread(target=lambda: cache._slot(A).fill(parse_slowly))
    slow.start()
    assert started.wait(60)
    assert cache.trusting(B) is cache.trusting(B)
    go_on.set()
    slow.join()


def test_the_least_recently_used_are_dropped_but_never_those_without_certificates() -> None:
    cache = TLSContexts(contexts=2)
    system, anyone, a = cache.trusting_system(ROOTS), cache.trusting_anyone(), cache.trusting(A)
    b = cache.trusting(B)
    assert cache.trusting(A) is a
    cache.trusting(A + B)
    assert cache.trusting(A) is a
    assert cache.trusting(B) is not b
    assert (cache.trusting_system(ROOTS), cache.trusting_anyone()) == (system, anyone)


def test_large_certificates_are_bounded_by_their_size_and_the_latest_is_kept() -> None:
    cache = TLSContexts(characters=len(A) + len(B))
    a = cache.trusting(A)
    cache.trusting(B)
    assert cache.trusting(A) is a
    large = A * 10
    assert cache.trusting(large) is cache.trusting(large)
    assert cache.trusting(A) is not a


@pytest.mark.parametrize("pem", ["nonsense", "ü", "\ud800", "-----BEGIN CERTIFICATE-----\nx\n"])
def test_what_is_malformed_fails_every_time_and_harms_nothing_else(pem: str) -> None:
    cache = TLSContexts()
    a = cache.trusting(A)
    for _ in range(2):
        with pytest.raises((ssl.SSLError, ValueError)):
            cache.trusting(pem)
    assert cache.trusting(A) is a


def reachable(start: object) -> Iterator[object]:
    waiting, seen = [start], set[int]()
    while waiting:
        current = waiting.pop()
        if id(current) not in seen and not isinstance(current, type) and "module" not in type(current).__name__:
            seen.add(id(current))
            yield current
            if not callable(current):
                waiting.extend(gc.get_referents(current))


def test_no_text_of_a_secret_stays_in_the_cache() -> None:
    cache = TLSContexts()
    cache.trusting(A + OURS.private_key_pem.bytes().decode())
    texts = [found for found in reachable(cache) if isinstance(found, str | bytes)]
    assert any("sha256:" in str(text) for text in texts)
    assert not any("BEGIN" in str(text) for text in texts)


# calls of sources


@pytest.fixture
def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OURS.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def secure(server_context: ssl.SSLContext) -> Iterator[FaultyRegistry]:
    with FaultyRegistry(server_context) as registry:
        registry.blobs["x"] = b"1"
        yield registry


@pytest.fixture
def plain() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.blobs["x"] = b"1"
        yield registry


def get(registry: FaultyRegistry, access: Access, scheme: str = "https", **trusted: Any) -> bytes:
    with Transport(access, tls=TLSSettings(**trusted), loopback=True) as opened:
        return opened.send("GET", f"{scheme}://{registry.host}/v2/blobs/x", {}).read_all(100)


def refusal(registry: FaultyRegistry, access: Access, **trusted: Any) -> Reason:
    with pytest.raises(BundleError) as caught:
        get(registry, access, **trusted)
    return caught.value.reason


@pytest.mark.parametrize(
    "trusted", [{}, {"verify": False}, {"certificate_data": A}], ids=["the system's", "anyone", "an authority"]
)
@pytest.mark.usefixtures("contexts")
def test_plain_http_needs_no_context(
    trusted: dict[str, Any], plain: FaultyRegistry, access: Access, created: list[ssl.SSLContext]
) -> None:
    assert get(plain, access, "http", **trusted) == b"1"
    assert created == []


@pytest.mark.parametrize("trusted", [{"verify": False}, {"certificate_data": A}], ids=["anyone", "an authority"])
@pytest.mark.usefixtures("contexts")
def test_any_number_of_calls_share_one_context(
    trusted: dict[str, Any], secure: FaultyRegistry, access: Access, created: list[ssl.SSLContext]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = [each.result() for each in [pool.submit(get, secure, access, **trusted) for _ in range(24)]]
    assert answers == [b"1"] * 24
    assert len(created) == 1


@pytest.mark.parametrize(
    "parameters",
    [{"insecureSkipTLSVerify": True}, {"certificateData": A}, {"certificateData": A, "insecureSkipTLSVerify": True}],
    ids=["insecureSkipTLSVerify", "certificateData", "both"],
)
@pytest.mark.usefixtures("contexts")
def test_checking_resolving_and_fetching_create_one_context_for_each_trust(
    parameters: dict[str, Any], secure: FaultyRegistry, access: Access, created: list[ssl.SSLContext]
) -> None:
    source = ImageSource()
    secure.add_image("v1", tarball(("manifests/a.yaml", b"kind: ConfigMap\n")))
    parameters = {"ref": f"{secure.host}/bundle:v1", **parameters}
    for _ in range(3):
        assert source.validate(parameters, "spec") == []
        resolution = source.resolve(parameters, access)
        assert len(list(source.fetch(parameters, resolution, access))) == 1
    assert len(created) == len(parameters) - 1


@pytest.mark.usefixtures("contexts")
def test_a_registry_without_tls_costs_no_roots(
    plain: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: pytest.fail("loads the system's roots"))
    plain.add_image("v1", tarball(("manifests/a.yaml", b"kind: ConfigMap\n")))
    parameters = {"ref": f"{plain.host}/bundle:v1", "insecureSkipTLSVerify": True}
    resolution = ImageSource().resolve(parameters, access)
    assert len(list(ImageSource().fetch(parameters, resolution, access))) == 1


@pytest.mark.usefixtures("contexts")
def test_a_server_that_one_call_trusts_is_refused_to_all_others(secure: FaultyRegistry, access: Access) -> None:
    others: list[dict[str, Any]] = [{}, {"certificate_data": B}]
    for allowed in ({"verify": False}, {"certificate_data": A}, {"certificate_data": A + B}):
        assert get(secure, access, **allowed) == b"1"
        assert [refusal(secure, access, **each) for each in others] == [Reason.TLS_VERIFICATION_FAILED] * 2


def test_a_call_does_not_change_the_context_that_it_shares(
    contexts: TLSContexts, secure: FaultyRegistry, access: Access
) -> None:
    system, a, anyone = contexts.trusting_system(ROOTS), contexts.trusting(A), contexts.trusting_anyone()
    stores = [each.cert_store_stats() for each in (a, anyone)]
    get(secure, access, verify=False)
    get(secure, access, certificate_data=A)
    refusal(secure, access)
    assert [(each.verify_mode, each.check_hostname) for each in (system, a, anyone)] == [VERIFIED, VERIFIED, UNVERIFIED]
    assert [each.cert_store_stats() for each in (a, anyone)] == stores


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.usefixtures("contexts")
def test_no_connection_resumes_the_session_of_another_one(
    version: ssl.TLSVersion, secure: FaultyRegistry, server_context: ssl.SSLContext, access: Access
) -> None:
    server_context.maximum_version = server_context.minimum_version = version
    for _ in range(3):
        get(secure, access, certificate_data=A)
        get(secure, access, verify=False)
    stats = server_context.session_stats()
    assert (stats["accept_good"], stats["hits"]) == (6, 0)
