from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import time
from pathlib import Path

import pytest

from hack.control_plane import downloads
from hack.control_plane.downloads import DownloadError, download, find_checksum
from hack.control_plane.programs import Release
from tests.support.file_server import FileServer

PROGRAM = b"#!/bin/sh\n"
DIGEST = hashlib.sha256(PROGRAM).hexdigest()


def archive_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def release(server: FileServer, *, member: str = "") -> Release:
    return Release(url=f"{server.address}/program", checksum_url=f"{server.address}/sums", member=member)


def test_a_program_is_downloaded_and_may_be_run(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": PROGRAM, "/sums": DIGEST.encode()}
    download(release(file_server), tmp_path / "program")
    assert (tmp_path / "program").read_bytes() == PROGRAM
    assert (tmp_path / "program").stat().st_mode & 0o777 == 0o755


def test_a_program_is_taken_out_of_an_archive(file_server: FileServer, tmp_path: Path) -> None:
    archive = archive_of({"etcd-v3/etcdctl": b"other", "etcd-v3/etcd": PROGRAM})
    sums = f"{'0' * 64}  other\n{hashlib.sha256(archive).hexdigest()} *program\n"
    file_server.files |= {"/program": archive, "/sums": sums.encode()}
    download(release(file_server, member="etcd-v3/etcd"), tmp_path / "etcd")
    assert (tmp_path / "etcd").read_bytes() == PROGRAM
    assert [path.name for path in tmp_path.iterdir()] == ["etcd"]


def test_a_program_with_a_wrong_checksum_is_not_kept(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": b"something else", "/sums": DIGEST.encode()}
    with pytest.raises(DownloadError, match=f"published is {DIGEST}; not used"):
        download(release(file_server), tmp_path / "program")
    assert not list(tmp_path.iterdir())


def test_an_archive_with_a_wrong_checksum_is_not_opened(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": archive_of({"etcd": PROGRAM}), "/sums": DIGEST.encode()}
    with pytest.raises(DownloadError, match="not used"):
        download(release(file_server, member="etcd"), tmp_path / "etcd")
    assert not list(tmp_path.iterdir())


def test_an_archive_without_the_program_is_refused(file_server: FileServer, tmp_path: Path) -> None:
    archive = archive_of({"other": b""})
    file_server.files |= {"/program": archive, "/sums": hashlib.sha256(archive).hexdigest().encode()}
    with pytest.raises(DownloadError, match="'etcd' not found"):
        download(release(file_server, member="etcd"), tmp_path / "etcd")


def test_nothing_is_downloaded_without_a_published_checksum(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": PROGRAM}
    with pytest.raises(DownloadError, match="/sums: 404 Not Found"):
        download(release(file_server), tmp_path / "program")
    assert file_server.requested == ["/sums"]


def test_a_refused_connection_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/program"
        with pytest.raises(DownloadError, match="Connection refused"):
            download(Release(url=url, checksum_url=url), tmp_path / "program")


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "FIRST_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/program"
        begun = time.monotonic()
        with pytest.raises(DownloadError):
            download(Release(url=url, checksum_url=url), tmp_path / "program")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    "text",
    ["", "no digest here", f"{DIGEST}  another-program\n", "abc  program\n"],
    ids=["an empty file", "another text", "the digest of another file", "half a digest"],
)
def test_a_checksum_file_without_the_digest_is_refused(text: str) -> None:
    with pytest.raises(DownloadError, match="no SHA-256 of program is published"):
        find_checksum(text, "https://releases.example/v1/program")
