"""The spool: what is in the file is what its digest says."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.disk import Spool


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_what_is_written_is_hashed_and_read(tmp_path: Path) -> None:
    with Spool(tmp_path, "path") as spool:
        spool.append(b"one")
        spool.append(b"two")
        assert (spool.size, spool.digest) == (6, digest_of(b"onetwo"))
        assert spool.rewind().read() == b"onetwo"


def test_nothing_of_what_was_forgotten_is_left(tmp_path: Path) -> None:
    with Spool(tmp_path, "path") as spool:
        spool.append(b"a long beginning")
        spool.restart()
        spool.append(b"x")
        assert (spool.size, spool.digest) == (1, digest_of(b"x"))
        assert spool.rewind().read() == b"x"


def test_the_file_has_no_name(tmp_path: Path) -> None:
    with Spool(tmp_path, "path") as spool:
        spool.append(b"x")
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("controller.content.disk.os.write", refuse)
    with Spool(tmp_path, "path") as spool, pytest.raises(BundleError, match="path: the disk") as caught:
        spool.append(b"x")
    assert caught.value.reason is Reason.STORAGE_FULL
