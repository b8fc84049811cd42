"""Programs that verify signatures: what they may do, and what is said if one cannot do its work."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.signatures.programs import run_verifier

PATH = "spec.sources[0].git"


def run(script: str, access: Access, data: bytes = b"") -> bytes:
    return run_verifier(["sh", "-c", script], access, {"keys": b"k"}, data).output


def refusal(script: str, access: Access) -> BundleError:
    with pytest.raises(BundleError) as caught:
        run(script, access)
    return caught.value


def test_it_reads_its_folder_and_its_input(access: Access) -> None:
    assert run("cat keys; cat; env | grep -c SHELL", access, b"data") == b"kdata0\n"


def test_it_leaves_nothing_behind(access: Access) -> None:
    run("true", access)
    assert list(access.scratch.iterdir()) == []


@pytest.mark.parametrize("script", ["echo x > keys", "echo x > new", "cat ../secret", "cat ../*/secret"])
def test_it_reads_nothing_else_and_writes_nothing(access: Access, script: str) -> None:
    (access.scratch / "secret").write_text("canary")
    result = run_verifier(["sh", "-c", script], access, {"keys": b"k"}, b"")
    assert result.status
    assert b"canary" not in result.output


def test_it_is_not_installed(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    error = refusal("true", access)
    assert error.reason is Reason.VERIFICATION_UNAVAILABLE
    assert error.message == f"{PATH}.verify: no sh on PATH; install it where the controller runs"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("kill -9 $$", "sh was ended, or cannot be started"),
        ("exit 127", "sh was ended, or cannot be started"),
        ("echo No user exists for uid 1 >&2; exit 255", "sh needs a user; add that of the controller to /etc/passwd"),
    ],
)
def test_it_cannot_do_its_work(access: Access, script: str, problem: str) -> None:
    error = refusal(script, access)
    assert error.reason is Reason.VERIFICATION_UNAVAILABLE
    assert error.message.startswith(f"{PATH}.verify: {problem}")


def test_a_full_disk_is_told_as_such(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert refusal("true", access).reason is Reason.STORAGE_FULL


def test_it_is_ended_if_the_result_is_no_longer_needed(access: Access) -> None:
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    assert "canceled" in refusal("sleep 60", replace(access, cancelled=cancelled)).message


def test_more_output_than_any_verdict_has_is_not_kept(access: Access) -> None:
    assert len(run("head -c 1000000 /dev/zero", access)) == 256 * 1024


def test_the_folder_may_be_reached_by_a_link(access: Access, tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to(tmp_path / "real")
    assert run("cat keys", replace(access, scratch=link)) == b"k"
    shutil.rmtree(tmp_path / "real")
