from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hack.control_plane.cache import Cache


def fill(folder: Path) -> None:
    (folder / "file").write_text("content")


def ignore(line: str) -> None:
    pass


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "bin", ignore)
    assert cache.find("etcd") is None
    made = cache.obtain("etcd", fill)
    assert (made / "file").read_text() == "content"
    assert cache.obtain("etcd", lambda _: pytest.fail("made twice")) == made


def test_what_fails_half_way_is_not_seen_and_is_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise OSError("no space left")

    cache = Cache(tmp_path, ignore)
    with pytest.raises(OSError, match="no space left"):
        cache.obtain("etcd", fail)
    assert cache.find("etcd") is None
    assert cache.obtain("etcd", fill).is_dir()


def test_what_a_killed_process_left_behind_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".etcd.partial").mkdir()
    (tmp_path / ".etcd.partial" / "half").touch()
    made = Cache(tmp_path, ignore).obtain("etcd", fill)
    assert [path.name for path in made.iterdir()] == ["file"]


def test_two_at_once_make_it_once_and_the_second_says_that_it_waits(tmp_path: Path) -> None:
    told: list[str] = []
    waiting, made = threading.Event(), threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        waiting.set()

    def make(folder: Path) -> None:
        second.start()
        assert waiting.wait(10)
        fill(folder)
        made.set()

    def ask() -> None:
        Cache(tmp_path, tell).obtain("etcd", lambda _: pytest.fail("made twice"))
        assert made.is_set()

    second = threading.Thread(target=ask)
    Cache(tmp_path, ignore).obtain("etcd", make)
    second.join(10)
    assert told == ["waiting for another process to obtain etcd"]
