"""The http source: what it asks for, what it refuses, and what it says.

What a body is, and what is left of the names in it.

URLs: which are taken, which mean the same, and what is shown."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import itertools
import logging
import lzma
import socket
import ssl
import tarfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Entry, EntryKind, Limits, Network, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import read_body, strip_components, write_entries
from rukpak.controller.content.limits import Rejection
from rukpak.controller.content.zip import Unsupported
from rukpak.controller.playground.cluster import write_certificates
from rukpak.controller.sources.hosts import parse_address
from rukpak.controller.sources.http import HttpSource
from tests.support import zstd
from tests.support.archives import Crafted, Link, crafted, tarball, zipped
from tests.support.web_servers import FaultyServer

PATH = "spec.sources[0].http"
BODY = b"apiVersion: v1\nkind: ConfigMap\n"
FILE, ARCHIVE = "/a.yaml", "/a.tar.gz"
SOURCE = HttpSource()
BASIC = Credentials(username="robot", password="canary-password")
BEARER = Credentials(bearer_token="canary-token")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        server.add(FILE, BODY, tag='"1"')
        yield server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


@pytest.fixture
def secured(certificates: Path) -> Iterator[FaultyServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    with FaultyServer(context) as server:
        server.add(FILE, BODY, tag='"1"')
        yield server


@pytest.fixture
def trusted(certificates: Path) -> Mapping[str, str]:
    return {"certificateData": (certificates / "ca.crt").read_text()}


def at(server: FaultyServer, path: str = FILE, **parameters: Any) -> dict[str, Any]:
    return {"url": server.address + path, **parameters}


def pin(data: bytes, url: str = "x", validator: str = "") -> Resolution:
    return Resolution(pinned=url, digest=f"sha256:{sha256(data)}", validator=validator)


def fetch(parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> dict[str, bytes]:
    entries = SOURCE.fetch(parameters, resolution, access)
    return {entry.path: b"".join(iter(lambda: entry.data.read(99), b"")) for entry in entries if entry.data}  # type: ignore[union-attr]  # noqa: B023 - read at once


def failure(call: Callable[[], object]) -> BundleError:
    with pytest.raises(BundleError) as caught:
        call()
    assert caught.value.message.startswith(PATH)
    assert "\n" not in caught.value.message
    return caught.value


# parameters

INVALID = [
    ({"url": "https://example.com/a.yaml"}, []),
    ({"url": "ftp://a/b"}, [f'{PATH}.url: "ftp://a/b" is not a URL like https://host/path; correct it']),
    (
        {"url": "https://u:canary@a/b"},
        [f"{PATH}.url: the URL must not contain a user or a password; use a Secret in auth"],
    ),
    ({"url": "https://a", "sha256": "abc"}, [f'{PATH}.sha256: "abc" is not 64 hexadecimal digits; correct it']),
    (
        {"url": "https://a", "certificateData": "x"},
        [f"{PATH}.certificateData: not a bundle of PEM certificates; correct it"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "problems"), INVALID)
def test_what_is_wrong_with_parameters(parameters: dict[str, Any], problems: list[str]) -> None:
    assert SOURCE.validate(parameters, PATH) == problems


def test_a_url_that_is_none_is_refused_when_resolving(access: Access) -> None:
    error = failure(lambda: SOURCE.resolve({"url": "https://u:canary@a/b"}, access))
    assert error.reason is Reason.INVALID_REFERENCE
    assert "canary" not in error.message


def test_the_identity_is_url_and_sha256_alone() -> None:
    one = {"url": "HTTPS://A:443/b", "sha256": "", "stripComponents": 1, "insecureSkipTLSVerify": True}
    assert SOURCE.identity(one) == SOURCE.identity({"url": "https://a/b"}) == {"url": "https://a/b", "sha256": ""}
    assert SOURCE.identity({**one, "sha256": "f" * 64}) != SOURCE.identity(one)


KEYS = [
    ("another host and folder", {"url": "https://b/c/a.yaml"}, True),
    ("another name", {"url": "https://a/b.yaml"}, False),
    ("another number of elements", {"url": "https://a/a.yaml", "stripComponents": 1}, False),
    ("the number 0", {"url": "https://a/a.yaml", "stripComponents": 0}, True),
]


@pytest.mark.parametrize(("parameters", "same"), [case[1:] for case in KEYS], ids=map(itemgetter(0), KEYS))
def test_what_makes_the_content_another(parameters: dict[str, Any], same: bool) -> None:
    key = SOURCE.content_key({"url": "https://a/a.yaml"}, pin(BODY))
    assert (SOURCE.content_key(parameters, pin(BODY)) == key) is same
    assert SOURCE.content_key(parameters, pin(b"")) != SOURCE.content_key(parameters, pin(BODY))


def test_the_suffix_of_a_name_is_one_that_formats_look_for(server: FaultyServer, access: Access) -> None:
    server.add("/A.Yaml", BODY)
    parameters = at(server, "/A.Yaml")
    assert [entry.path for entry in SOURCE.fetch(parameters, pin(BODY), access)] == ["A.yaml"]
    same = SOURCE.content_key({"url": "https://a/A.yaml"}, pin(BODY))
    assert SOURCE.content_key(parameters, pin(BODY)) == same


def test_the_name_of_an_archive_makes_no_difference() -> None:
    keys = {SOURCE.content_key({"url": f"https://a/{name}"}, pin(BODY)) for name in ("a.tgz", "b.zip", "c?d=e.yaml")}
    assert len(keys) == 1


# resolving


def test_a_url_is_resolved_to_the_digest_of_its_body(server: FaultyServer, access: Access) -> None:
    found = SOURCE.resolve(at(server), access)
    assert found == Resolution(pinned=server.address + FILE, digest=f"sha256:{sha256(BODY)}", validator='"1"')


def test_what_resolving_brought_is_handed_on(server: FaultyServer, access: Access) -> None:
    server.add(ARCHIVE, gzip.compress(tarball(("top/a.yaml", b"1"))))
    kept: list[tuple[Resolution, list[str]]] = []

    def keep(resolution: Resolution, entries: Iterator[Entry]) -> None:
        kept.append((resolution, [entry.path for entry in entries]))

    found = SOURCE.resolve(at(server, ARCHIVE, stripComponents=1), replace(access, keep=keep))
    assert kept == [(found, ["a.yaml"])]
    assert len(server.requests) == 1


def test_a_body_that_cannot_be_used_is_not_resolved(server: FaultyServer, access: Access) -> None:
    server.add(ARCHIVE, b"<html>")

    def keep(_: Resolution, entries: Iterator[Entry]) -> None:
        list(entries)

    error = failure(lambda: SOURCE.resolve(at(server, ARCHIVE), replace(access, keep=keep)))
    assert error.reason is Reason.UNSUPPORTED_CONTENT


def test_with_a_sha256_the_server_is_asked_and_the_body_is_not_read(server: FaultyServer, access: Access) -> None:
    server.add("/big.zip", bytes(8 << 20), endless=True)
    found = SOURCE.resolve(at(server, "/big.zip", sha256="a" * 64), access)
    assert found.digest == "sha256:" + "a" * 64
    assert len(server.requests) == 1


def test_with_a_sha256_the_server_must_give_the_file_to_this_caller(server: FaultyServer, access: Access) -> None:
    server.add(FILE, BODY, authorization="Basic x")
    error = failure(lambda: SOURCE.resolve(at(server, sha256=sha256(BODY)), access))
    assert error.reason is Reason.UNAUTHORIZED


DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
POLLS = [
    ("an entity tag", {"tag": '"1"'}, "If-None-Match"),
    ("a weak entity tag", {"tag": 'W/"1"'}, "If-None-Match"),
    ("a date", {"modified": DATE}, "If-Modified-Since"),
]


@pytest.mark.parametrize("digest", ["", sha256(BODY)], ids=["floating", "pinned"])
@pytest.mark.parametrize(("told", "header"), [case[1:] for case in POLLS], ids=map(itemgetter(0), POLLS))
def test_a_poll_of_an_unchanged_file_is_one_conditional_request(
    told: dict[str, str], header: str, digest: str, server: FaultyServer, access: Access
) -> None:
    server.add(FILE, BODY, **told)
    first = SOURCE.resolve(at(server, sha256=digest), access)
    assert SOURCE.resolve(at(server, sha256=digest), replace(access, previous=first)) is first
    assert server.sent(header) == [None, *told.values()]


def test_a_poll_of_a_changed_file_brings_the_new_one(server: FaultyServer, access: Access) -> None:
    first = SOURCE.resolve(at(server), access)
    server.add(FILE, b"new", tag='"2"')
    assert SOURCE.resolve(at(server), replace(access, previous=first)) == pin(b"new", server.address + FILE, '"2"')


def test_a_server_without_validators_is_read_again(server: FaultyServer, access: Access) -> None:
    server.add(FILE, BODY)
    first = SOURCE.resolve(at(server), access)
    assert first.validator == ""
    assert SOURCE.resolve(at(server), replace(access, previous=first)) == first
    assert len(server.requests) == 2


@pytest.mark.parametrize("tag", ["unquoted", '"' + "x" * 600 + '"', '"a" "b"'])
def test_a_validator_that_is_none_is_not_recorded(tag: str, server: FaultyServer, access: Access) -> None:
    server.add(FILE, BODY, tag=tag, modified="soon")
    assert SOURCE.resolve(at(server), access).validator == ""


def test_a_304_that_nobody_asked_for(server: FaultyServer, access: Access) -> None:
    server.add(FILE, BODY, status=304)
    error = failure(lambda: SOURCE.resolve(at(server), access))
    assert error.reason is Reason.UNREACHABLE
    assert "returned status 304" in error.message


# fetching


def test_an_archive_is_unpacked_and_a_file_is_kept(server: FaultyServer, access: Access) -> None:
    for path, data in (("/t", tarball(("x/a", b"1"))), ("/z", zipped(("x/a", b"1")))):
        server.add(path, data)
        assert fetch(at(server, path, stripComponents=1), pin(data), access) == {"a": b"1"}
    assert fetch(at(server), pin(BODY), access) == {"a.yaml": BODY}


def test_the_url_names_the_file_wherever_it_redirects_to(server: FaultyServer, access: Access) -> None:
    server.add("/latest.yaml", redirect=server.address + FILE)
    assert fetch(at(server, "/latest.yaml"), pin(BODY), access) == {"latest.yaml": BODY}


def test_progress_is_told(server: FaultyServer, access: Access) -> None:
    server.add(FILE, bytes(200_000))
    told: list[tuple[int, int]] = []
    fetch(at(server), pin(bytes(200_000)), replace(access, progress=lambda done, total: told.append((done, total))))
    assert told == sorted(told)
    assert told[-1] == (200_000, 200_000)


def test_a_file_that_has_changed_is_not_used(server: FaultyServer, access: Access) -> None:
    error = failure(lambda: fetch(at(server), pin(b"old"), access))
    assert error.reason is Reason.DIGEST_MISMATCH
    assert error.message == (
        f'{PATH}.url: "/a.yaml" at "{server.host}" has changed since it was resolved; request a new resolution with '
        "core.rukpak.io/reconcile-requested-at or pollInterval, or restore the old file"
    )


def test_a_file_that_is_not_what_the_spec_pins(server: FaultyServer, access: Access) -> None:
    parameters = at(server, sha256=sha256(b"other"))
    error = failure(lambda: fetch(parameters, SOURCE.resolve(parameters, access), access))
    assert error.reason is Reason.DIGEST_MISMATCH
    assert "find out who changed it, or correct sha256" in error.message


def test_nothing_of_another_body_is_looked_at(server: FaultyServer, access: Access) -> None:
    server.add(ARCHIVE, tarball(("../attack", b"")))
    assert failure(lambda: fetch(at(server, ARCHIVE), pin(BODY), access)).reason is Reason.DIGEST_MISMATCH


# what is cut

BIG = bytes(range(256)) * 1200


def test_a_cut_body_is_continued_where_it_was_cut(server: FaultyServer, access: Access) -> None:
    server.add(FILE, BIG, tag='"1"', cuts=[100_000, 50_000])
    assert SOURCE.resolve(at(server), access) == pin(BIG, server.address + FILE, '"1"')
    assert server.sent("Range") == [None, "bytes=100000-", "bytes=150000-"]
    assert server.sent("If-Range") == [None, '"1"', '"1"']


AGAIN = [
    ("a file without a validator", {}),
    ("a file with a weak validator", {"tag": 'W/"1"'}),
    ("a file with a date only", {"modified": DATE}),
    ("a server without ranges", {"tag": '"1"', "has_ranges": False}),
]


@pytest.mark.parametrize("options", [case[1] for case in AGAIN], ids=map(itemgetter(0), AGAIN))
def test_what_cannot_be_continued_is_begun_again(options: dict[str, Any], server: FaultyServer, access: Access) -> None:
    server.add(FILE, BIG, cuts=[100_000], **options)
    assert SOURCE.resolve(at(server), access).digest == pin(BIG).digest
    assert len(server.requests) == 2


PARTS = [
    ("another beginning", (206, f"bytes 0-{len(BIG) - 1}/{len(BIG)}")),
    ("another size", (206, "bytes 100000-199999/200000")),
    ("no beginning", (206, "")),
    ("nonsense", (206, "bytes x-y/z")),
    ("none", (416, f"bytes */{len(BIG)}")),
]


@pytest.mark.parametrize("answer", [case[1] for case in PARTS], ids=map(itemgetter(0), PARTS))
def test_a_part_that_was_not_asked_for_is_not_appended(
    answer: tuple[int, str], server: FaultyServer, access: Access
) -> None:
    server.add(FILE, BIG, tag='"1"', cuts=[100_000], answers_ranges_with=answer)
    assert SOURCE.resolve(at(server), access).digest == pin(BIG).digest
    assert server.sent("Range") == [None, "bytes=100000-", None]


def test_a_file_that_changes_while_it_is_read_is_begun_again(server: FaultyServer, access: Access) -> None:
    file = server.add(FILE, BIG, tag='"1"', cuts=[100_000])

    def change(done: int, _: int) -> None:
        if done == 100_000:
            file.body, file.tag = BIG[::-1], '"2"'

    found = SOURCE.resolve(at(server), replace(access, progress=change))
    assert found == pin(BIG[::-1], server.address + FILE, '"2"')


def test_a_body_that_is_cut_again_and_again(server: FaultyServer, access: Access) -> None:
    server.add(FILE, BIG, tag='"1"', cuts=[10] * 50)
    error = failure(lambda: SOURCE.resolve(at(server), access))
    assert error.reason is Reason.UNREACHABLE
    assert "the connection was closed" in error.message
    assert len(server.requests) <= 4


def test_a_body_that_gets_on_is_waited_for(server: FaultyServer, access: Access) -> None:
    body = bytes(12 << 20)
    server.add(FILE, body, tag='"1"', cuts=[2 << 20] * 5)
    assert SOURCE.resolve(at(server), access).digest == pin(body).digest


# bad input


@pytest.mark.parametrize("path", ["/a.tgz", "/a.tar.gz", "/A.TGZ"])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
def test_a_server_that_takes_the_compression_of_an_archive_for_its_own(
    path: str, encoding: str, server: FaultyServer, access: Access
) -> None:
    archive = gzip.compress(tarball(("a.yaml", b"1")))
    server.add(path, archive, headers={"Content-Encoding": encoding})
    resolution = SOURCE.resolve(at(server, path), access)
    assert resolution.digest == f"sha256:{sha256(archive)}"


SMALL = Limits(compressed_bytes=1000, file_bytes=2000, entries=3, ratio=2, ratio_from=1000)
LONG = {"Content-Length": "100"}

BAD = [
    ("nothing there", {"status": 404}, Reason.NOT_FOUND, 'does not have "/a.yaml"; correct url'),
    ("gone for good", {"status": 410}, Reason.NOT_FOUND, 'does not have "/a.yaml"'),
    ("no credentials", {"status": 401}, Reason.UNAUTHORIZED, "check auth"),
    ("no right", {"status": 403}, Reason.UNAUTHORIZED, "check auth"),
    ("too many requests", {"status": 429, "headers": {"Retry-After": "700"}}, Reason.UNREACHABLE, "status 429"),
    ("a failure of the server", {"status": 503, "headers": {"Retry-After": "0"}}, Reason.UNREACHABLE, "status 503"),
    ("an odd status", {"status": 418}, Reason.UNREACHABLE, "status 418"),
    ("no content", {"status": 204}, Reason.UNREACHABLE, "status 204"),
    ("a part of what was asked for", {"status": 206}, Reason.UNREACHABLE, "status 206"),
    ("a body that is shorter than it says", {"headers": LONG}, Reason.UNREACHABLE, "the connection was closed"),
    ("a body over the limit by its length", {"body": bytes(1001)}, Reason.CONTENT_REJECTED, "limit of 1000 bytes"),
    ("an endless body", {"endless": True}, Reason.CONTENT_REJECTED, "limit of 1000 bytes"),
    (
        "an encoded body",
        {"headers": {"Content-Encoding": "gzip"}},
        Reason.UNSUPPORTED_CONTENT,
        "uses a content encoding that was not requested",
    ),
    ("a redirect to nowhere", {"redirect": "http://["}, Reason.INSECURE_REFUSED, "only from https to https"),
    ("a redirect to a file", {"redirect": "file:///etc/passwd"}, Reason.INSECURE_REFUSED, "only from https to https"),
    ("a redirect to itself", {"redirect": FILE}, Reason.UNREACHABLE, "redirects more than 5 times"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "reason", "message"), [case[1:] for case in BAD], ids=map(itemgetter(0), BAD))
def test_an_answer_that_is_refused(
    options: dict[str, Any], reason: Reason, message: str, server: FaultyServer, access: Access
) -> None:
    server.add(FILE, **{"body": BODY, **options})
    limited = replace(access, limits=SMALL)
    error = failure(lambda: SOURCE.resolve(at(server), limited))
    assert (error.reason, error.retry_after) == (reason, 700.0 if "429" in message else error.retry_after)
    assert message in error.message
    again = failure(lambda: SOURCE.resolve(at(server), replace(limited)))
    assert again.message == error.message


CONTENT = [
    ("a bomb in gzip", gzip.compress(tarball(("f", bytes(1900)))), "limit of 2 times"),
    ("a bomb in zip", crafted(Crafted(data=bytes(1900), deflate=True)), "limit of 2 times"),
    ("a file over its budget", crafted(Crafted(data=bytes(5000), deflate=True)), "limit of 2 KiB per file"),
    ("too many entries", zipped(*((f"{i}", b"") for i in range(4))), "more entries than the limit of 3"),
    ("a damaged archive", zipped(("f", b"1"))[:-1], "truncated"),
    ("a path that leaves", crafted(Crafted(name=b"../f")), 'entry "../f" leaves its directory'),
    ("a link that leaves", zipped(("l", Link("../../etc"))), 'entry "l" links to "../../etc", outside the tree'),
    ("a name that is not UTF-8", crafted(Crafted(name=b"\xff")), "not UTF-8"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in CONTENT], ids=map(itemgetter(0), CONTENT))
def test_content_that_is_refused(
    data: bytes, message: str, server: FaultyServer, access: Access, tmp_path: Path
) -> None:
    server.add(ARCHIVE, data)
    (tmp_path / "out").mkdir()
    limited = replace(access, limits=SMALL)
    entries = SOURCE.fetch(at(server, ARCHIVE), pin(data), limited)
    error = failure(lambda: write_entries(entries, tmp_path / "out", SMALL, PATH))
    assert error.reason is Reason.CONTENT_REJECTED
    assert message in error.message


def test_encryption_is_told_as_such(server: FaultyServer, access: Access) -> None:
    data = crafted(Crafted(flags=1))
    server.add(ARCHIVE, data)
    assert failure(lambda: fetch(at(server, ARCHIVE), pin(data), access)).reason is Reason.UNSUPPORTED_CONTENT


def test_pinned_content_that_is_gone(server: FaultyServer, access: Access) -> None:
    server.files.clear()
    error = failure(lambda: fetch(at(server), pin(BODY), access))
    assert error.reason is Reason.PINNED_CONTENT_GONE
    assert "core.rukpak.io/reconcile-requested-at" in error.message


def test_nobody_answers(access: Access) -> None:
    with FaultyServer() as server:
        parameters = at(server)
    error = failure(lambda: SOURCE.resolve(parameters, access))
    assert error.reason is Reason.UNREACHABLE
    assert "refuses the connection" in error.message


def test_a_host_that_does_not_exist(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    error = failure(lambda: SOURCE.resolve({"url": "https://nowhere.invalid/a"}, access))
    assert error.reason is Reason.UNREACHABLE
    assert "its name cannot be resolved" in error.message


def test_a_stalled_body_does_not_outlive_the_deadline(server: FaultyServer, access: Access) -> None:
    server.add(FILE, BIG, trickle=True)
    started = time.monotonic()
    error = failure(lambda: SOURCE.resolve(at(server), replace(access, deadline=started + 0.5)))
    assert "timed out; will be retried automatically" in error.message
    assert time.monotonic() - started < 60


def test_unpacking_ends_when_nobody_waits_any_more(server: FaultyServer, access: Access) -> None:
    data = tarball(*((f"{number}", bytes(100_000)) for number in range(9)))
    server.add(ARCHIVE, data)
    entries = SOURCE.fetch(at(server, ARCHIVE), pin(data), access)
    next(entries)
    access.cancelled.set()
    assert "no longer needed" in failure(lambda: list(entries)).message


def test_a_full_disk_is_told(server: FaultyServer, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rukpak.controller.content.disk.os.write", refuse)
    assert failure(lambda: SOURCE.resolve(at(server), access)).reason is Reason.STORAGE_FULL


def test_nothing_is_left_in_the_scratch_folder(server: FaultyServer, access: Access) -> None:
    SOURCE.resolve(at(server), access)
    fetch(at(server), pin(BODY), access)
    assert list(access.scratch.iterdir()) == []


def test_loopback_can_be_forbidden(server: FaultyServer, access: Access) -> None:
    strict = replace(access, network=Network(allow_loopback=False))
    assert failure(lambda: SOURCE.resolve(at(server), strict)).reason is Reason.INSECURE_REFUSED
    allowed = replace(access, network=Network(allow_loopback=False, allowed_networks=("127.0.0.0/8",)))
    assert SOURCE.resolve(at(server), allowed).digest == pin(BODY).digest


def test_a_host_that_is_not_allowed_is_not_asked(server: FaultyServer, access: Access) -> None:
    limited = replace(access, network=Network(allowed_hosts=("example.com",)))
    for call in (lambda: SOURCE.resolve(at(server), limited), lambda: fetch(at(server), pin(BODY), limited)):
        error = failure(call)
        assert error.reason is Reason.INSECURE_REFUSED
        assert error.message.startswith(f'{PATH}.url: host "{server.host}" is not in --allowed-hosts')
    assert server.requests == []
    allowed = replace(access, network=Network(allowed_hosts=(server.host,)))
    assert SOURCE.resolve(at(server), allowed).digest == pin(BODY).digest


# credentials


@pytest.mark.parametrize(
    ("credentials", "header"),
    [(BASIC, "Basic cm9ib3Q6Y2FuYXJ5LXBhc3N3b3Jk"), (BEARER, "Bearer canary-token")],
    ids=["basic", "bearer"],
)
def test_credentials_go_over_https(
    credentials: Credentials, header: str, secured: FaultyServer, trusted: Mapping[str, str], access: Access
) -> None:
    secured.add(FILE, BODY, authorization=header)
    found = SOURCE.resolve(at(secured, **trusted), replace(access, credentials=credentials))
    assert found.digest == pin(BODY).digest


@pytest.mark.parametrize("options", [{}, {"insecureSkipTLSVerify": True}])
@pytest.mark.parametrize("credentials", [BASIC, BEARER], ids=["basic", "bearer"])
def test_credentials_never_go_over_plain_http(
    credentials: Credentials, options: dict[str, Any], server: FaultyServer, access: Access
) -> None:
    error = failure(lambda: SOURCE.resolve(at(server, **options), replace(access, credentials=credentials)))
    assert error.reason is Reason.INSECURE_REFUSED
    assert error.message == f"{PATH}.auth: credentials are not sent over plain http; use https"
    assert server.requests == []


@pytest.mark.parametrize("credentials", [BASIC, BEARER], ids=["basic", "bearer"])
def test_credentials_never_go_to_whom_nobody_has_verified(
    credentials: Credentials, secured: FaultyServer, access: Access
) -> None:
    parameters, own = at(secured, insecureSkipTLSVerify=True), replace(access, credentials=credentials)
    for call in (lambda: SOURCE.resolve(parameters, own), lambda: fetch(parameters, pin(BODY), own)):
        error = failure(call)
        assert error.reason is Reason.INSECURE_REFUSED
        assert error.message == (
            f"{PATH}.auth: credentials are not sent if insecureSkipTLSVerify is set; unset it and set certificateData"
        )
    assert secured.requests == []


@pytest.mark.parametrize("status", [401, 404, 418, 503])
def test_what_a_redirect_brought_is_not_told(
    status: int, secured: FaultyServer, certificates: Path, trusted: Mapping[str, str], access: Access
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    with FaultyServer(context) as other:
        other.add(FILE, BODY, status=status, headers={"Retry-After": "0"})
        secured.add(FILE, redirect=other.address + FILE)
        error = failure(lambda: SOURCE.resolve(at(secured, **trusted), access))
    assert error.reason is Reason.UNREACHABLE
    assert error.message == (
        f'{PATH}.url: "{secured.host}" redirects to an address that cannot be used; check that server'
    )


def test_plain_http_does_not_redirect_to_another_port(server: FaultyServer, access: Access) -> None:
    with FaultyServer() as other:
        other.add(FILE, BODY)
        server.add(FILE, redirect=other.address + FILE)
        error = failure(lambda: SOURCE.resolve(at(server), access))
        assert other.requests == []
    assert error.reason is Reason.INSECURE_REFUSED
    assert other.host not in error.message


def test_credentials_are_not_for_another_host(
    secured: FaultyServer, certificates: Path, trusted: Mapping[str, str], access: Access
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    with FaultyServer(context) as other:
        other.add(FILE, BODY)
        secured.add(FILE, redirect=other.address + FILE)
        SOURCE.resolve(at(secured, **trusted), replace(access, credentials=BASIC))
        assert secured.sent("Authorization") != [None]
        assert other.sent("Authorization") == [None]


def test_https_does_not_redirect_to_plain_http(
    secured: FaultyServer, server: FaultyServer, trusted: Mapping[str, str], access: Access
) -> None:
    secured.add(FILE, redirect=server.address + FILE)
    error = failure(lambda: SOURCE.resolve(at(secured, **trusted), access))
    assert error.reason is Reason.INSECURE_REFUSED
    assert server.requests == []


def test_the_authority_of_the_secret_is_trusted(
    secured: FaultyServer, trusted: Mapping[str, str], access: Access
) -> None:
    authority = Credentials(certificate_authority=trusted["certificateData"])
    assert SOURCE.resolve(at(secured), replace(access, credentials=authority)).digest == pin(BODY).digest


def test_an_unknown_authority_is_not_trusted(secured: FaultyServer, access: Access) -> None:
    error = failure(lambda: SOURCE.resolve(at(secured), access))
    assert error.reason is Reason.TLS_VERIFICATION_FAILED
    assert SOURCE.resolve(at(secured, insecureSkipTLSVerify=True), access).digest == pin(BODY).digest


@pytest.mark.parametrize(
    ("credentials", "key"),
    [
        (Credentials(bearer_token="canary\r\nX: y"), "bearerToken"),
        (Credentials(certificate_authority="canary"), "ca.crt"),
    ],
)
def test_a_secret_that_cannot_be_used(credentials: Credentials, key: str, access: Access) -> None:
    error = failure(lambda: SOURCE.resolve({"url": "https://127.0.0.1:1/a"}, replace(access, credentials=credentials)))
    assert error.reason is Reason.SECRET_INVALID
    assert key in error.message
    assert "canary" not in error.message


LEAKS = [
    {"status": 401}, {"status": 404}, {"status": 503, "headers": {"Retry-After": "0"}}, {"redirect": "http://["},
    {"headers": LONG}, {"endless": True}, {"headers": {"Content-Encoding": "gzip"}}, {"body": b"<html>"},
]  # fmt: skip


@pytest.mark.parametrize("case", list(itertools.product([BASIC, BEARER], LEAKS)), ids=map(str, range(2 * len(LEAKS))))
def test_no_failure_shows_a_secret(
    case: tuple[Credentials, dict[str, Any]],
    secured: FaultyServer,
    trusted: Mapping[str, str],
    access: Access,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    credentials, options = case
    secured.add("/a", **{"body": BODY, **options})
    limited = replace(access, credentials=credentials, limits=SMALL)
    parameters = at(secured, "/a?token=canary-query", **trusted)
    with pytest.raises(BundleError) as caught:
        fetch(parameters, pin(options.get("body", BODY)), limited)
    shown = "".join(traceback.format_exception(caught.value)) + repr(limited) + caplog.text
    assert not [secret for secret in ("canary-password", "canary-token", "cm9ib3Q6") if secret in shown]
    assert "canary-query" not in caught.value.message


TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40)


@given(headers=st.dictionaries(
    st.sampled_from(["ETag", "Last-Modified", "Content-Length", "Content-Range", "Content-Encoding", "Retry-After",
                     "Location", "Transfer-Encoding", "Set-Cookie", "X"]),
    TEXT | st.integers(-1, 1 << 70).map(str) | st.sampled_from(["chunked", "bytes 0-1/2", '"1"', "http://127.0.0.1/"]),
    max_size=4,
), status=st.sampled_from([0, 0, 200, 206, 304, 301, 416, 404]))  # fmt: skip
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_headers_are_refused_or_read_and_nothing_else(
    headers: dict[str, str], status: int, server: FaultyServer, access: Access
) -> None:
    server.add(FILE, BODY, status=status, headers={name: value.strip() for name, value in headers.items()})
    limited = replace(access, deadline=time.monotonic() + 1, previous=pin(BODY, validator='"0"'))
    with suppress(BundleError):
        assert len(SOURCE.resolve(at(server), limited).validator) <= 510


ITEMS = (("top/a.yaml", b"a: 1\n"), ("top/sub/b.yaml", b"b: 1\n"))
PLAIN = tarball(*ITEMS)


def read(data: bytes, name: str = "", strip: int = 0, limits: Limits | None = None) -> dict[str, bytes]:
    entries = read_body(io.BytesIO(data), len(data), name, strip, limits or Limits())
    return {entry.path: entry.data.read(9999) for entry in entries if entry.data}


ARCHIVES = [
    ("tar", PLAIN),
    ("tar without a magic number", PLAIN.replace(b"ustar\x0000", bytes(8))),
    ("GNU tar", tarball(*ITEMS, form=tarfile.GNU_FORMAT)),
    ("tar.gz", gzip.compress(PLAIN)),
    ("tar.zst", zstd.compress(PLAIN)),
    ("zip", zipped(*ITEMS)),
]


@pytest.mark.parametrize("name", ["download", "a.yaml", "a.tar.gz", "a.zip"])
@pytest.mark.parametrize("data", [case[1] for case in ARCHIVES], ids=map(itemgetter(0), ARCHIVES))
def test_an_archive_is_told_by_its_content_whatever_its_name(data: bytes, name: str) -> None:
    if data == ARCHIVES[1][1]:
        data = with_checksum(data)
    assert read(data, name) == dict(ITEMS)


def with_checksum(data: bytes) -> bytes:
    """Correct the checksums of all headers."""
    out = bytearray(data)
    for start in (0, 1024):
        header = out[start : start + 512]
        header[148:156] = b" " * 8
        out[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    return bytes(out)


@pytest.mark.parametrize("data", [tarball(), zipped()], ids=["tar", "zip"])
def test_an_empty_archive_brings_nothing(data: bytes) -> None:
    assert read(data, "a.yaml") == read(data, strip=1) == {}


@pytest.mark.parametrize("data", [PLAIN, zipped(*ITEMS)], ids=["tar", "zip"])
def test_an_archive_of_whose_files_nothing_is_left_is_refused(data: bytes) -> None:
    assert read(data, strip=2) == {"b.yaml": b"b: 1\n"}
    with pytest.raises(Rejection) as caught:
        read(data, strip=3)
    assert str(caught.value) == 'stripComponents 3 leaves nothing of "top/a.yaml", nor of any other file; lower it'


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json", "A.YAML"])
@pytest.mark.parametrize("data", [b"", b"a: 1\n", b"x" * 600])
def test_one_file_keeps_its_name(data: bytes, name: str) -> None:
    assert read(data, name, strip=3) == {name: data}


PAGES = (b"<!DOCTYPE html><html>Sign in</html>", b"\n<HTML>", b'<?xml version="1.0"?><Error>NoSuchKey</Error>')


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.tgz", "download"])
@pytest.mark.parametrize("data", PAGES)
def test_a_web_page_is_told_as_such(data: bytes, name: str) -> None:
    with pytest.raises(Unsupported, match=f'"{name}" is .*, but a web page; use the address that downloads the file'):
        read(data, name)


@pytest.mark.parametrize("data", [b"<<: {a: b}\n", b"<htmlish>: 1\n"])
def test_yaml_that_begins_like_one_is_none(data: bytes) -> None:
    assert read(data, "a.yaml") == {"a.yaml": data}


@pytest.mark.parametrize("name", ["", "download", "a.tar.gz", "index.html"])
def test_what_is_neither_archive_nor_manifests(name: str) -> None:
    with pytest.raises(Unsupported, match=f'"{name}" is neither a tar archive') as caught:
        read(b"<!doctype html>", name)
    assert caught.value.at("path").reason is Reason.UNSUPPORTED_CONTENT


def test_another_compression_is_not_read() -> None:
    with pytest.raises(Unsupported):
        read(lzma.compress(PLAIN), "a.tar.xz")


def test_what_is_compressed_must_be_an_archive() -> None:
    with pytest.raises(Rejection, match="not a tar archive"):
        read(gzip.compress(b"a: 1\n" * 200), "a.yaml.gz")


# names


def entry(path: str, kind: EntryKind = EntryKind.FILE, target: str = "") -> Entry:
    return Entry(path=path, kind=kind, target=target)


def stripped(count: int, *entries: Entry) -> list[tuple[str, str]]:
    return [(entry.path, entry.target) for entry in strip_components(iter(entries), count, Limits())]


STRIPPED = [
    ("nothing is dropped by 0", 0, entry("./a//b/"), [("./a//b/", "")]),
    ("the first element goes", 1, entry("a/b/c"), [("b/c", "")]),
    ("a dot counts for one, as tar counts", 1, entry("./a/b"), [("a/b", "")]),
    ("two slashes are one", 1, entry("a//b"), [("b", "")]),
    ("what has no more elements is left out", 1, entry("a"), []),
    ("a folder that has no more elements is left out", 1, entry("a/", EntryKind.DIRECTORY), []),
    ("a symbolic link leads where it led", 1, entry("a/b", EntryKind.SYMBOLIC_LINK, "c/d"), [("b", "c/d")]),
    ("a hard link leads to a name", 1, entry("a/b", EntryKind.HARD_LINK, "a/c"), [("b", "c")]),
    ("a hard link to what is left out is left out", 1, entry("a/b", EntryKind.HARD_LINK, "c"), []),
]


@pytest.mark.parametrize(
    ("count", "given", "expect"), [case[1:] for case in STRIPPED], ids=map(itemgetter(0), STRIPPED)
)
def test_what_is_dropped_of_a_name(count: int, given: Entry, expect: list[tuple[str, str]]) -> None:
    assert stripped(count, given) == expect


@pytest.mark.parametrize("path", ["../a/b", "/a/b", "a/../b"])
def test_what_is_dropped_does_not_hide_an_attack(path: str) -> None:
    with pytest.raises(Rejection):
        stripped(1, entry(path))


@pytest.mark.parametrize("path", ["a/b\\c", "a\\b/c", "a\udcff/c", "a\nb/c", f"{'a' * 256}/c", "a/" * 65 + "c"])
@pytest.mark.parametrize("kind", [EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.SYMBOLIC_LINK])
def test_what_is_dropped_does_not_hide_that_a_name_is_refused(path: str, kind: EntryKind) -> None:
    (found,) = strip_components(iter([entry(path, kind)]), 1, Limits())
    assert found.refusal is not None
    assert found.path == path.partition("/")[2]


def test_a_hard_link_to_a_name_that_is_refused_is_refused() -> None:
    (found,) = strip_components(iter([entry("a/b", EntryKind.HARD_LINK, "a\\b/c")]), 1, Limits())
    assert (found.path, found.target, found.refusal is None) == ("b", "c", False)


def test_a_hard_link_does_not_hide_an_attack() -> None:
    with pytest.raises(Rejection, match="leaves its directory"):
        stripped(1, entry("a/b", EntryKind.HARD_LINK, "../a/c"))


def test_what_is_left_out_is_charged() -> None:
    data = tarball(*((f"f{number}", b"") for number in range(20)))
    with pytest.raises(Rejection, match="more entries than the limit of 10"):
        read(data, strip=1, limits=Limits(entries=10))
    with pytest.raises(Rejection, match="exceeds the limit of 1000 bytes per file"):
        read(tarball(("f", bytes(2000))), strip=1, limits=Limits(file_bytes=1000))


def test_an_archive_of_a_forge_becomes_files(tmp_path: Path) -> None:
    data = gzip.compress(
        tarball(
            ("t-1/", None), ("t-1/m/a.yaml", b"1"), ("t-1/m/h", Link("t-1/m/a.yaml", hard=True)), ("t-1/l", Link("m"))
        )
    )
    write_entries(read_body(io.BytesIO(data), len(data), "", 1, Limits()), tmp_path, Limits(), "path")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"m/a.yaml", "m/h", "l/a.yaml", "l/h"}


@given(data=st.binary(max_size=1200), head=st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]))
@settings(deadline=None)
def test_any_bytes_are_refused_or_read_and_nothing_else(data: bytes, head: bytes) -> None:
    try:
        found = read(head + data, "a.yaml", strip=1)
    except Rejection:
        return
    assert all(isinstance(path, str) for path in found)


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
@settings(deadline=None)
def test_any_text_is_refused_or_has_one_normal_form(text: str) -> None:
    with suppress(ValueError):
        url = parse_address(text).url
        assert parse_address(url).url == url
