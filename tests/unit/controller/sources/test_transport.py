"""The transport: what it translates, refuses, caps and cuts."""

from __future__ import annotations

import datetime as dt
import errno
import gzip
import http.client
import inspect
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import requests
import urllib3
import urllib3.exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.certificates import EXPIRED, NOT_YET_VALID
from rukpak.controller.sources import pace
from rukpak.controller.sources import transport as connections
from rukpak.controller.sources.hosts import Place
from rukpak.controller.sources.transport import LIBRARY_ERRORS, Transport, translate
from rukpak.controller.sources.trust import TLSSettings
from tests.support.clock import Clock
from tests.support.faulty_registry import Faults, FaultyRegistry
from tests.support.web_servers import FaultyServer

PATH = "spec.sources[0]"
QUAY = Place(subject=PATH, host="quay.io")


@pytest.fixture
def registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        registry.blobs["x"] = b"0123456789"
        yield registry


def get(registry: FaultyRegistry, access: Access, *, limit: int = 1000, scheme: str = "http", **trusted: Any) -> bytes:
    with Transport(access, tls=TLSSettings(**trusted), loopback=True) as transport:
        return transport.send("GET", f"{scheme}://{registry.host}/v2/blobs/x", {}).read_all(limit)


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    return caught.value


def test_what_is_long_waits_on_the_disk(
    registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.blobs["x"] = bytes(300_000)
    assert len(get(registry, access, limit=400_000)) == 300_000
    monkeypatch.setattr("tempfile.TemporaryFile", raising_full)
    assert failure(lambda: get(registry, access, limit=400_000)).reason is Reason.STORAGE_FULL
    registry.blobs["x"] = bytes(200_000)
    assert len(get(registry, access, limit=400_000)) == 200_000


def raising_full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# Every exception of the libraries by name, and what it becomes. One that a new release brings fails the test.
U, T, R = Reason.UNREACHABLE, Reason.TLS_VERIFICATION_FAILED, Reason.INVALID_REFERENCE
TRANSLATED = {
    requests.exceptions: {
        "ChunkedEncodingError": U, "ConnectTimeout": U, "ConnectionError": U, "ContentDecodingError": U, "HTTPError": U,
        "InvalidHeader": U, "InvalidJSONError": U, "InvalidProxyURL": R, "InvalidSchema": R, "InvalidURL": R,
        "JSONDecodeError": U, "MissingSchema": R, "ProxyError": U, "ReadTimeout": U, "RequestException": U,
        "RetryError": U, "SSLError": U, "StreamConsumedError": U, "Timeout": U, "TooManyRedirects": U, "URLRequired": R,
        "UnrewindableBodyError": U,
    },
    urllib3.exceptions: {
        "BodyNotHttplibCompatible": U, "ClosedPoolError": U, "ConnectTimeoutError": U, "ConnectionError": U,
        "DecodeError": U,
        "EmptyPoolError": U, "FullPoolError": U, "HTTPError": U, "HeaderParsingError": U, "HostChangedError": U,
        "IncompleteRead": U, "InvalidChunkLength": U, "InvalidHeader": U, "LocationParseError": R,
        "LocationValueError": R, "MaxRetryError": U, "NameResolutionError": U, "NewConnectionError": U, "PoolError": U,
        "ProtocolError": U, "ProxyError": U, "ProxySchemeUnknown": R, "ProxySchemeUnsupported": U,
        "ReadTimeoutError": U, "RequestError": U, "ResponseError": U, "ResponseNotChunked": U, "SSLError": U,
        "TimeoutError": U, "TimeoutStateError": U, "URLSchemeUnknown": R, "UnrewindableBodyError": U,
    },
}  # fmt: skip


@pytest.mark.parametrize("library", TRANSLATED, ids=lambda library: library.__name__)
def test_every_exception_of_a_library_is_translated(library: ModuleType) -> None:
    classes = {
        name: kind
        for name, kind in vars(library).items()
        if inspect.isclass(kind) and issubclass(kind, Exception) and not issubclass(kind, Warning)
        and kind.__module__ == library.__name__
    }  # fmt: skip
    assert all(issubclass(kind, LIBRARY_ERRORS) for kind in classes.values())
    found = {name: translate(kind.__new__(kind), QUAY).reason for name, kind in classes.items()}
    assert found == TRANSLATED[library]


CAUSES = [
    ("a name", socket.gaierror(-2, "secret"), "its name cannot be resolved"),
    ("a port", ConnectionRefusedError(111, "secret"), "it refuses the connection"),
    ("silence", requests.ReadTimeout("secret"), "it timed out"),
    ("a plain server", ssl.SSLError(1, "secret"), "the TLS handshake failed"),
    ("an end", http.client.RemoteDisconnected("secret"), "the connection was closed"),
]


@pytest.mark.parametrize(("error", "message"), [case[1:] for case in CAUSES], ids=map(itemgetter(0), CAUSES))
def test_the_cause_is_told_and_the_text_is_not(error: Exception, message: str) -> None:
    wrapped = requests.ConnectionError(urllib3.exceptions.ProtocolError("secret", error))
    translated = translate(wrapped, QUAY)
    assert translated.message == f'{PATH}: cannot read from "quay.io": {message}; check the address and the network'


def _not_verified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("secret")
    error.verify_code, error.verify_message = code, message
    return error


WHERE = "certificateData, or ca.crt in the Secret of auth"
NOT_VERIFIED = [
    ("no authority is given", 20, "unable to get local issuer certificate", False,
     f"set {WHERE}, to the certificate of the authority that has signed it"),
    ("a certificate signs itself", 18, "self-signed certificate", False,
     f"set {WHERE}, to the certificate of the authority that has signed it"),
    ("another authority is given", 20, "unable to get local issuer certificate", True, f"check {WHERE}"),
    ("another name", 62, "Hostname mismatch, certificate is not valid for 'a'.", False,
     "use a name that the certificate has"),
    ("another name, as urllib3 finds it", 0, "", True, "use a name that the certificate has"),
    ("another address", 64, "IP address mismatch", True, "use a name that the certificate has"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "why", "is_given", "remedy"), [case[1:] for case in NOT_VERIFIED], ids=map(itemgetter(0), NOT_VERIFIED)
)
def test_the_remedy_for_a_certificate_is_what_can_be_done(code: int, why: str, is_given: bool, remedy: str) -> None:
    error = translate(_not_verified(code, why), QUAY, has_authority=is_given)
    assert error.reason is Reason.TLS_VERIFICATION_FAILED
    assert error.message.endswith(f": {why or 'it is for another name'}; {remedy}")


def test_a_refused_connection_is_tried_again_and_told(access: Access) -> None:
    with FaultyRegistry() as registry:
        pass
    with pytest.raises(BundleError, match="it refuses the connection") as caught:
        get(registry, access)
    assert caught.value.reason is Reason.UNREACHABLE


def test_a_failure_that_passes_is_not_noticed(registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(status=503, times=2, headers={"Retry-After": "0"})
    assert get(registry, access) == b"0123456789"
    assert len(registry.requests) == 3


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_failure_that_lasts_is_told_with_its_status(status: int, registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(status=status, headers={"Retry-After": "0"})
    with pytest.raises(BundleError, match=f"it returned status {status}") as caught:
        get(registry, access)
    assert caught.value.reason is Reason.UNREACHABLE
    assert len(registry.requests) == 3


def test_a_long_wait_is_left_to_the_queue(registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(status=429, headers={"Retry-After": "600"})
    with pytest.raises(BundleError) as caught:
        get(registry, access)
    assert caught.value.retry_after == 600
    assert len(registry.requests) == 1


@pytest.mark.parametrize("asked", ["99999999999", "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_who_asks_for_an_age_gets_an_hour(asked: str, registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(status=503, headers={"Retry-After": asked})
    with pytest.raises(BundleError) as caught:
        get(registry, access)
    assert caught.value.retry_after == 3600


@pytest.mark.parametrize("length", ["\u00b2", "-1", "1e3"])
def test_a_length_that_is_none_is_no_bug(length: str, access: Access) -> None:
    with FaultyServer() as server, Transport(access, loopback=True) as transport:
        server.add("/file", status=404, headers={"Content-Length": length})
        transport.send("GET", f"{server.address}/file", {}).discard()


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["kept open", "closed"])
def test_the_socket_of_a_response_that_is_refused_is_closed(
    headers: dict[str, str], registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.faults = Faults(headers={"Content-Length": "10, 5", **headers})
    opened: list[socket.socket] = []
    connect = urllib3.connection.HTTPConnection.connect

    def see(connection: urllib3.connection.HTTPConnection) -> None:
        connect(connection)
        opened.append(connection.sock)

    monkeypatch.setattr(urllib3.connection.HTTPConnection, "connect", see)
    assert failure(lambda: get(registry, access)).reason is Reason.UNREACHABLE
    assert {each.fileno() for each in opened} == {-1}


def test_a_deadline_of_another_age_is_no_bug(registry: FaultyRegistry, access: Access) -> None:
    assert get(registry, replace(access, deadline=1e300)) == b"0123456789"


@pytest.mark.parametrize("where", ["header", "body"])
def test_a_trickling_peer_does_not_outlive_the_deadline(where: str, registry: FaultyRegistry, access: Access) -> None:
    registry.blobs["x"] = bytes(10_000)
    registry.faults = Faults(trickle=where)
    started = time.monotonic()
    with pytest.raises(BundleError, match="timed out; will be retried automatically") as caught:
        get(registry, replace(access, deadline=started + 0.5), limit=100_000)
    assert caught.value.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("where", ["header", "body"])
@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["kept open", "closed"])
def test_a_trickling_peer_is_given_up_long_before(
    where: str, headers: dict[str, str], registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "RATE_SECONDS", 0.5)
    registry.blobs["x"] = bytes(10_000)
    registry.faults = Faults(trickle=where, headers=headers)
    message = {"header": "it timed out", "body": "it sends less than 16 KiB/s"}[where]
    started = time.monotonic()
    with pytest.raises(BundleError, match=message) as caught:
        get(registry, replace(access, network=Network(idle_seconds=0.5)), limit=100_000)
    assert caught.value.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 60
    assert len(registry.requests) == 1


def test_the_end_of_a_connection_that_was_cut_is_no_end_of_a_body(
    registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a length the body lasts as long as the connection."""
    monkeypatch.setattr(pace, "RATE_SECONDS", 0.5)
    registry.faults = Faults(trickle="body", headers={"Content-Length": ""})
    registry.blobs["x"] = bytes(10_000)
    with pytest.raises(BundleError, match="it sends less than"):
        get(registry, access, limit=100_000)


def test_a_cancelled_call_does_not_wait_for_a_silent_peer(registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(trickle="header")
    threading.Timer(0.2, access.cancelled.set).start()
    started = time.monotonic()
    with pytest.raises(BundleError, match="no longer needed"):
        get(registry, access)
    assert time.monotonic() - started < 60


def test_a_connection_that_is_lost_between_request_and_response_because_the_call_is_cancelled(
    registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = urllib3.connection.HTTPConnection.request

    def lose(connection: urllib3.connection.HTTPConnection, *args: Any, **options: Any) -> None:
        request(connection, *args, **options)
        access.cancelled.set()
        connection.sock.close()
        connection.sock = None

    monkeypatch.setattr(urllib3.connection.HTTPConnection, "request", lose)
    assert "no longer needed" in failure(lambda: get(registry, access)).message


def test_a_cancelled_call_sends_nothing(registry: FaultyRegistry, access: Access) -> None:
    access.cancelled.set()
    with pytest.raises(BundleError, match="no longer needed"):
        get(registry, access)
    assert registry.requests == []


def test_a_cancelled_call_stops_in_the_middle_of_a_body(registry: FaultyRegistry, access: Access) -> None:
    with Transport(access, loopback=True) as transport:
        response = transport.send("GET", f"http://{registry.host}/v2/blobs/x", {})
        access.cancelled.set()
        with pytest.raises(BundleError, match="no longer needed"):
            response.read(1)


def test_a_wait_ends_when_the_call_is_cancelled(
    registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LONGEST_WAIT", 240.0)
    registry.faults = Faults(status=503, headers={"Retry-After": "200"})
    started = time.monotonic()
    threading.Timer(0.2, access.cancelled.set).start()
    with pytest.raises(BundleError):
        get(registry, access)
    assert time.monotonic() - started < 60


BAD_BODIES = [
    ("a body that is cut", Faults(cut_after=4), Reason.UNREACHABLE, "the connection was closed"),
    ("a body over its cap", Faults(body=bytes(2000)), Reason.CONTENT_REJECTED, "exceeds the limit of 1000 bytes"),
    (
        "a huge header",
        Faults(headers={f"X-{i}": "x" * 1000 for i in range(40)}),
        Reason.UNREACHABLE,
        "its response header exceeds the limit of 32 KiB",
    ),
    (
        "too many headers",
        Faults(headers={f"X-{i}": "x" for i in range(200)}),
        Reason.UNREACHABLE,
        "the connection was closed",
    ),
    ("an endless header line", Faults(headers={"X": "x" * 70_000}), Reason.UNREACHABLE, "the connection was closed"),
    ("an endless redirect", Faults(redirect="/v2"), Reason.UNREACHABLE, "redirects more than 5 times"),
    (
        "a redirect to another scheme",
        Faults(redirect="ftp://127.0.0.1"),
        Reason.INSECURE_REFUSED,
        "only from https to https",
    ),
    ("a redirect to nowhere", Faults(redirect="http://["), Reason.INSECURE_REFUSED, "only from https to https"),
    (
        "a redirect with a password",
        Faults(redirect="http://a:b@127.0.0.1"),
        Reason.INSECURE_REFUSED,
        "only from https to https",
    ),
]


@pytest.mark.parametrize(
    ("faults", "reason", "message"),
    [case[1:] for case in BAD_BODIES],
    ids=map(itemgetter(0), BAD_BODIES),
)
def test_what_is_refused(
    faults: Faults, reason: Reason, message: str, registry: FaultyRegistry, access: Access
) -> None:
    registry.faults = faults
    with pytest.raises(BundleError, match=message) as caught:
        get(registry, access)
    assert caught.value.reason is reason


def test_the_endless_body_of_a_redirect_is_not_waited_for(registry: FaultyRegistry, access: Access) -> None:
    registry.blobs["y"] = b"1"
    endless = {"Location": "/v2/blobs/y", "Content-Length": str(1 << 40)}
    registry.faults = Faults(where="/x", status=302, headers=endless)
    started = time.monotonic()
    assert get(registry, access) == b"1"
    assert time.monotonic() - started < 60


def test_an_encoded_body_is_not_decoded(registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(headers={"Content-Encoding": "gzip"})
    with pytest.raises(BundleError) as caught:
        get(registry, access)
    assert caught.value.reason is Reason.UNSUPPORTED_CONTENT


@pytest.mark.parametrize(
    "encoding", ["", "identity", "Identity", "utf-8", "aws-chunked", "none", "binary", "utf-8, 8bit"]
)
def test_an_encoding_that_changes_nothing_is_ignored(encoding: str, registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(headers={"Content-Encoding": encoding})
    assert get(registry, access) == b"0123456789"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP", "gzip, aws-chunked"])
def test_a_document_is_decoded_as_by_other_clients(encoding: str, registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(headers={"Content-Encoding": encoding}, body=gzip.compress(b"decoded"))
    assert get(registry, access) == b"decoded"


@pytest.mark.parametrize(
    ("encoding", "body", "reason"),
    [
        pytest.param("gzip", gzip.compress(bytes(50_000_000)), Reason.CONTENT_REJECTED, id="a bomb"),
        pytest.param("gzip", gzip.compress(os.urandom(500), 0) * 3, Reason.CONTENT_REJECTED, id="more than the limit"),
        pytest.param("gzip", gzip.compress(b"1" * 900)[:-9], Reason.UNSUPPORTED_CONTENT, id="a truncated one"),
        pytest.param("br", b"0123456789", Reason.UNSUPPORTED_CONTENT, id="another one"),
        pytest.param("gzip, br", gzip.compress(b"1"), Reason.UNSUPPORTED_CONTENT, id="two of them"),
    ],
)
def test_a_document_that_is_not_decoded(
    encoding: str, body: bytes, reason: Reason, registry: FaultyRegistry, access: Access
) -> None:
    registry.faults = Faults(headers={"Content-Encoding": encoding}, body=body)
    error = failure(lambda: get(registry, access))
    assert error.reason is reason


def test_an_encoding_matters_only_if_there_is_a_body_to_read(registry: FaultyRegistry, access: Access) -> None:
    registry.faults = Faults(headers={"Content-Encoding": "br"}, body=b"x")
    with Transport(access, loopback=True) as transport:
        for method in ("HEAD", "GET"):
            response = transport.send(method, f"http://{registry.host}/v2/blobs/x", {})
            response.discard()
            assert response.status == 200


@pytest.mark.parametrize(
    ("location", "asked"),
    [
        ("/v2/blobs/ä".encode(), "/v2/blobs/%C3%A4"),
        ("/v2/blobs/ä".encode("latin-1"), "/v2/blobs/%E4"),
        (b"/v2/blobs/a b", "/v2/blobs/a%20b"),
        (b"/v2/blobs/a%2Fb?c=%2B+&d", "/v2/blobs/a%2Fb?c=%2B+&d"),
    ],
)
def test_a_redirect_is_followed_with_the_bytes_that_were_sent(
    location: bytes, asked: str, registry: FaultyRegistry, access: Access
) -> None:
    registry.faults = Faults(where="/x", status=302, headers={"Location": location.decode("latin-1")})
    with Transport(access, loopback=True) as transport:
        transport.send("GET", f"http://{registry.host}/v2/blobs/x", {}).close()
    assert registry.requests[-1][1] == asked


def test_plain_http_is_not_redirected_to_another_origin(registry: FaultyRegistry, access: Access) -> None:
    with FaultyRegistry() as other:
        other.blobs["x"] = b"1"
        for redirect in (
            f"http://{other.host}",
            f"https://{other.host}",
            f"http://localhost:{other.host.split(':')[1]}",
        ):
            registry.faults = Faults(redirect=redirect)
            with pytest.raises(BundleError, match="over plain http to the same host and port") as caught:
                get(registry, access)
            assert caught.value.reason is Reason.INSECURE_REFUSED
            assert other.host not in caught.value.message
        assert other.requests == []


def test_nothing_comes_from_the_environment(
    registry: FaultyRegistry, access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert get(registry, access) == b"0123456789"
    assert "Authorization" not in registry.requests[0][2]


def test_one_connection_serves_several_requests(registry: FaultyRegistry, access: Access) -> None:
    url = f"http://{registry.host}/v2/blobs/"
    with Transport(access, loopback=True) as transport:
        for method, name in (("HEAD", "x"), ("GET", "missing"), ("GET", "x")):
            transport.send(method, url + name, {}).discard()
        assert len(transport._guard._open) == 1


def test_an_administrator_forbids_loopback(registry: FaultyRegistry, access: Access) -> None:
    strict = replace(access, network=Network(allow_loopback=False))
    with pytest.raises(BundleError, match="it is a loopback address"):
        get(registry, strict)
    assert get(registry, replace(access, network=Network(allow_loopback=False, allowed_networks=("127.0.0.0/8",))))


def test_a_name_that_means_another_address_a_moment_later_gains_nothing(
    registry: FaultyRegistry, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was judged is the one that is connected to."""
    port, genuine, answers = int(registry.host.split(":")[1]), socket.getaddrinfo, ["127.0.0.1", "127.0.0.2"]

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        return genuine(answers.pop(0) if host == "rebinding.example.com" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    network = Network(allow_loopback=False, allowed_networks=("127.0.0.1/32",))
    with Transport(replace(access, network=network)) as transport:
        assert transport.send("GET", f"http://rebinding.example.com:{port}/v2/blobs/x", {}).read_all(10)
    assert answers == ["127.0.0.2"]


def test_connecting_to_all_addresses_of_a_name_takes_a_bounded_time(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = Clock(), list[str]()

    def connect(address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        asked.append(address[0])
        clock.now += 5
        raise TimeoutError

    names = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{index}", 443)) for index in range(200)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: names)
    monkeypatch.setattr(connections, "create_connection", connect)
    monkeypatch.setattr(connections, "time", SimpleNamespace(monotonic=clock))
    with Transport(access) as transport, pytest.raises(BundleError, match="it timed out"):
        transport.send("GET", "https://many.example.com/", {})
    assert asked == ["10.0.0.0", "10.0.0.1", "10.0.0.2"] * 3


def test_a_denied_address_is_not_even_knocked_at(access: Access) -> None:
    denied = replace(access, network=Network(denied_networks=("127.0.0.0/8",)))
    with socket.create_server(("127.0.0.1", 0)) as listener, Transport(denied, loopback=True) as transport:
        with pytest.raises(BundleError, match="--denied-networks") as caught:
            transport.send("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/", {})
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert caught.value.reason is Reason.INSECURE_REFUSED


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
def test_this_machine_is_not_reached_by_any_spelling(name: str, registry: FaultyRegistry, access: Access) -> None:
    port = registry.host.split(":")[1]
    with pytest.raises(BundleError, match="it is a loopback address") as caught, Transport(access) as transport:
        transport.send("GET", f"http://{name}:{port}/v2/", {})
    assert caught.value.reason is Reason.INSECURE_REFUSED
    assert registry.requests == []


# TLS


def make_certificate(folder: Path, address: str = "127.0.0.1", *, starts: int = -30) -> tuple[str, ssl.SSLContext]:
    """Return a self-signed certificate for 60 days as PEM, and the context of a server that has it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = dt.datetime.now(dt.UTC) + dt.timedelta(days=starts)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=60))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(private + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return pem.decode(), context


def secure(context: ssl.SSLContext) -> FaultyRegistry:
    registry = FaultyRegistry(tls=context)
    registry.blobs["x"] = b"1"
    return registry


def test_a_certificate_of_an_unknown_issuer_is_refused(access: Access, tmp_path: Path) -> None:
    with secure(make_certificate(tmp_path)[1]) as registry, pytest.raises(BundleError, match="self-signed") as caught:
        get(registry, access, scheme="https")
    assert caught.value.reason is Reason.TLS_VERIFICATION_FAILED


def test_certificate_data_is_trusted(access: Access, tmp_path: Path) -> None:
    pem, context = make_certificate(tmp_path)
    with secure(context) as registry:
        assert get(registry, access, scheme="https", certificate_data=pem) == b"1"


def test_a_certificate_for_another_address_is_refused(access: Access, tmp_path: Path) -> None:
    pem, context = make_certificate(tmp_path, "10.0.0.1")
    with secure(context) as registry, pytest.raises(BundleError, match="IP address mismatch") as caught:
        get(registry, access, scheme="https", certificate_data=pem)
    assert caught.value.reason is Reason.TLS_VERIFICATION_FAILED


@pytest.mark.parametrize(
    ("starts", "problem"), [(-90, EXPIRED), (30, NOT_YET_VALID)], ids=["has expired", "is not valid yet"]
)
def test_a_certificate_that_is_refused_for_its_dates(starts: int, problem: str, access: Access, tmp_path: Path) -> None:
    pem, context = make_certificate(tmp_path, starts=starts)
    with secure(context) as registry, pytest.raises(BundleError) as caught:
        get(registry, access, scheme="https", certificate_data=pem)
    assert caught.value.reason is Reason.TLS_VERIFICATION_FAILED
    assert caught.value.message == f'{PATH}: the certificate of "{registry.host}" {problem}'


def test_verification_is_skipped_on_request_without_a_warning(access: Access, tmp_path: Path) -> None:
    with secure(make_certificate(tmp_path)[1]) as registry:
        assert get(registry, access, scheme="https", verify=False) == b"1"


def test_a_plain_server_is_no_matter_of_certificates(registry: FaultyRegistry, access: Access) -> None:
    with pytest.raises(BundleError, match="the TLS handshake failed") as caught:
        get(registry, access, scheme="https")
    assert caught.value.reason is Reason.UNREACHABLE


def test_https_is_not_redirected_to_http(registry: FaultyRegistry, access: Access, tmp_path: Path) -> None:
    pem, context = make_certificate(tmp_path)
    with secure(context) as secured:
        secured.faults = Faults(redirect=f"http://{registry.host}")
        with pytest.raises(BundleError, match="only from https to https"):
            get(secured, access, scheme="https", certificate_data=pem)
    assert registry.requests == []


def serve_handshake_slowly(listener: socket.socket, stop: threading.Event) -> None:
    peer = listener.accept()[0]
    with peer, suppress(OSError):
        peer.sendall(b"\x16\x03\x03\x40\x00")  # a handshake message of 16 KiB begins
        while not stop.wait(0.05):
            peer.sendall(b"\0")


def test_a_deadline_holds_while_tls_is_agreed_upon(access: Access) -> None:
    started, stop = time.monotonic(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve_handshake_slowly, args=(listener, stop))
        server.start()
        hurried, url = replace(access, deadline=started + 0.5), f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with (
            Transport(hurried, loopback=True) as transport,
            pytest.raises(BundleError, match="timed out; will be retried"),
        ):
            transport.send("GET", url, {})
        stop.set()
        server.join()
    assert time.monotonic() - started < 60


def test_a_deadline_holds_within_tls(access: Access, tmp_path: Path) -> None:
    pem, context = make_certificate(tmp_path)
    started = time.monotonic()
    with secure(context) as registry:
        registry.faults = Faults(trickle="header")
        with pytest.raises(BundleError, match="timed out; will be retried"):
            get(registry, replace(access, deadline=started + 1), scheme="https", certificate_data=pem)
    assert time.monotonic() - started < 60
