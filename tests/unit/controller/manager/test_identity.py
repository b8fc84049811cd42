from __future__ import annotations

from pathlib import Path

from rukpak.controller.content.store import ContentStore
from rukpak.controller.manager.process import make_identity


def test_the_next_process_with_this_lock_is_the_same(tmp_path: Path) -> None:
    with ContentStore(tmp_path / "store") as store:
        first = make_identity(store.lock)
    with ContentStore(tmp_path / "store") as store:
        assert make_identity(store.lock) == first


def test_another_folder_makes_another_one(tmp_path: Path) -> None:
    with ContentStore(tmp_path / "a") as one, ContentStore(tmp_path / "b") as other:
        assert make_identity(one.lock) != make_identity(other.lock)


def test_without_a_lock_nobody_has_been_it_before(tmp_path: Path) -> None:
    assert make_identity(None) != make_identity(None)
    assert make_identity(tmp_path / "missing") != make_identity(tmp_path / "missing")
