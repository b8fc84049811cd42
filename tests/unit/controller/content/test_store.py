"""The content store: whole or not at all, verified, one writer at a time.

The content tree: the union of the sources, and no path from two of them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.store import ContentStore, StoreInUseError, assemble, read_paths, read_refused

KEY = "sha256:1|linux/amd64"


def writing(**files: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "empty").mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)

    return write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def never(_: Path) -> None:
    pytest.fail("was stored already")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[ContentStore]:
    with ContentStore(root) as store:
        yield store


def test_what_was_put_is_got(store: ContentStore) -> None:
    assert store.get(KEY) is None
    folder = store.put(KEY, writing(a="1", b="23"))
    assert store.get(KEY) == folder
    assert names(folder) == ["a", "b", "empty"]
    assert store.bytes_used() == 3


REFUSED = {"a\\b\udcff": Refusal(problem="x\ny"), "large": Refusal(problem="z", reason=Reason.UNSUPPORTED_CONTENT)}


def refusing(folder: Path) -> Mapping[str, Refusal]:
    (folder / "a").write_text("1")
    return REFUSED


def test_what_must_not_be_read_is_stored_with_the_rest(root: Path) -> None:
    with ContentStore(root) as store:
        folder = store.put(KEY, refusing)
        assert read_refused(folder.parent) == REFUSED
    with ContentStore(root) as store:
        assert store.get(KEY) == folder
        assert read_refused(folder.parent) == REFUSED
        assert read_paths(folder.parent) == {"a"} == set(names(folder))
        assert store.bytes_used() == 1 + len((folder.parent / "index").read_bytes().splitlines()[2]) + 1


def test_content_of_which_that_is_forgotten_is_damaged(root: Path) -> None:
    with ContentStore(root) as store:
        index = store.put(KEY, refusing).parent / "index"
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ValueError, match="modified"):
        read_refused(index.parent)
    with ContentStore(root) as store:
        assert store.get(KEY) is None


def test_content_outlives_the_process(root: Path) -> None:
    with ContentStore(root) as store:
        folder = store.put(KEY, writing(a="1"))
    with ContentStore(root) as store:
        assert store.put(KEY, never) == store.get(KEY) == folder
        assert store.bytes_used() == 1


def test_one_that_fails_leaves_nothing(store: ContentStore, root: Path) -> None:
    def half(folder: Path) -> None:
        (folder / "a").write_text("1")
        raise BundleError(Reason.DIGEST_MISMATCH, "no")

    with pytest.raises(BundleError):
        store.put(KEY, half)
    assert store.get(KEY) is None
    assert names(root / "staging") == names(root / "entries") == []
    assert store.put(KEY, writing(a="2")).is_dir()


def test_nothing_is_visible_before_it_is_whole(store: ContentStore, root: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "a").write_text("1")
        assert names(root / "entries") == []

    store.put(KEY, write)


def change(folder: Path) -> None:
    (folder / "a").write_text("2")


def shorten(folder: Path) -> None:
    (folder / "a").write_text("")


def remove(folder: Path) -> None:
    (folder / "a").unlink()


def add(folder: Path) -> None:
    (folder / "c").write_text("")


def add_folder(folder: Path) -> None:
    (folder / "d").mkdir()


def remove_folder(folder: Path) -> None:
    (folder / "empty").rmdir()


def replace_by_link(folder: Path) -> None:
    (folder / "a").rename(folder.parent / "a")
    (folder / "a").symlink_to("../a")


def lose_index(folder: Path) -> None:
    (folder.parent / "index").unlink()


def cut_index(folder: Path) -> None:
    os.truncate(folder.parent / "index", 150)


def empty_index(folder: Path) -> None:
    os.truncate(folder.parent / "index", 0)


def forge_index(folder: Path) -> None:
    index = folder.parent / "index"
    index.write_bytes(index.read_bytes().replace(b'"a"', b'"b"'))
    (folder / "a").rename(folder / "b")


def lose_content(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")


DAMAGE = [
    change, shorten, remove, add, add_folder, remove_folder, replace_by_link,
    lose_index, cut_index, empty_index, forge_index, lose_content,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__.replace("_", " "))
def test_damage_is_found_before_the_first_use_in_a_process(damage: Callable[[Path], None], root: Path) -> None:
    with ContentStore(root) as store:
        damage(store.put(KEY, writing(a="1")))
    with ContentStore(root) as store:
        assert store.get(KEY) is None
        assert store.bytes_used() == 0
        assert names(root / "entries") == []
        assert (store.put(KEY, writing(a="1")) / "a").read_text() == "1"


def test_content_that_somebody_deleted_is_not_handed_out(store: ContentStore) -> None:
    lose_content(store.put(KEY, writing(a="1")))
    assert store.get(KEY) is None


def test_many_that_want_one_key_make_it_once(store: ContentStore) -> None:
    made, waiting = [], threading.Barrier(8)

    def write(folder: Path) -> None:
        made.append(folder)
        writing(a="1")(folder)

    def put(_: int) -> Path:
        waiting.wait(60)
        return store.put(KEY, write)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(put, range(8)))) == 1
    assert len(made) == 1


def test_one_that_waited_for_a_failure_tries_itself(store: ContentStore) -> None:
    writing_now, go_on = threading.Event(), threading.Event()

    def fail(_: Path) -> None:
        writing_now.set()
        go_on.wait(60)
        raise BundleError(Reason.UNREACHABLE, "no")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.put, KEY, fail)
        assert writing_now.wait(60)
        second = pool.submit(store.put, KEY, writing(a="1"))
        go_on.set()
        assert isinstance(first.exception(10), BundleError)
        assert second.result(10).is_dir()


def test_keys_do_not_wait_for_each_other(store: ContentStore) -> None:
    def write(folder: Path) -> None:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(store.put, "other", writing(a="1")).result(10).is_dir()
        writing(b="1")(folder)

    store.put(KEY, write)


def test_scratch_is_empty_and_goes_with_all_that_is_in_it(store: ContentStore) -> None:
    with store.scratch() as one, store.scratch() as other:
        assert one != other
        assert names(one) == []
        (one / "deep").mkdir()
        (one / "deep" / "file").write_text("1")
    assert not one.exists()


def test_what_is_kept_or_was_used_last_is_collected_last(store: ContentStore) -> None:
    for key in "abcd":
        store.put(key, writing(file="x" * 10))
    store.get("b")
    store.collect(keep=["a"], max_bytes=20)
    assert [key for key in "abcd" if store.get(key)] == ["a", "b"]
    store.collect(keep=["a"], max_bytes=0)
    assert store.bytes_used() == 10


def test_what_was_used_by_a_clock_that_was_ahead_is_collected_like_the_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(store: ContentStore, key: str, when: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: when)
        store.put(key, writing(file="x" * 10))
        store.get(key)

    with ContentStore(root) as store:
        put(store, "a", 10**18)
        put(store, "ahead", 2 * 10**18)
        put(store, "b", 10**18)
    with ContentStore(root) as store:
        put(store, "c", 10**18)
        store.collect(keep=[], max_bytes=20)
        assert [key for key in ("a", "ahead", "b", "c") if store.get(key)] == ["b", "c"]


def test_what_is_used_while_others_are_collected_stays(store: ContentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in "ab":
        store.put(key, writing(file="x"))
    remove = store._remove

    def remove_and_use(name: str) -> None:
        remove(name)
        store.get("b")

    monkeypatch.setattr(store, "_remove", remove_and_use)
    store.collect(keep=[], max_bytes=0)
    assert [key for key in "ab" if store.get(key)] == ["b"]


def test_use_is_remembered_over_a_restart(root: Path) -> None:
    with ContentStore(root) as store:
        for key in "ab":
            store.put(key, writing(file="x" * 10))
        store.get("a")
    with ContentStore(root) as store:
        store.collect(keep=[], max_bytes=10)
        assert [key for key in "ab" if store.get(key)] == ["a"]


def test_a_full_disk(store: ContentStore) -> None:
    def write(_: Path) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with pytest.raises(BundleError) as caught:
        store.put(KEY, write)
    assert caught.value.reason is Reason.STORAGE_FULL


def test_a_second_store_in_one_folder_is_refused_by_name(store: ContentStore, root: Path) -> None:
    with pytest.raises(StoreInUseError, match=f'content store "{root}": in use by another process'):
        ContentStore(root)
    assert store.put(KEY, writing(a="1")).is_dir()


KILLED = """
import os, sys
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from rukpak.controller.content.store import ContentStore

def write(folder):
    (folder / "a").write_text("half")
    with store.scratch() as scratch:
        (scratch / "b").write_text("half")
        os.kill(os.getpid(), 9)

store = ContentStore(Path(sys.argv[1]))
store.put("good", lambda folder: (folder / "a").write_text("whole") and None)
store.put("bad", write)
"""


def test_what_a_killed_process_left_half_done_is_removed(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(root)], check=False, timeout=120)
    assert done.returncode == -9
    assert len(names(root / "staging")) == len(names(root / "scratch")) == 1
    with ContentStore(root) as store:
        assert names(root / "staging") == names(root / "scratch") == []
        assert store.get("bad") is None
        good = store.get("good")
        assert good is not None
        assert (good / "a").read_text() == "whole"


def test_a_slow_writer_holds_up_nobody_for_longer_than_their_patience(root: Path) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slowly(folder: Path) -> None:
        begun.set()
        assert go_on.wait(60)
        (folder / "f").write_text("late")

    with ContentStore(root, patience=0.05) as store:
        slow = threading.Thread(target=lambda: store.put("k", slowly))
        slow.start()
        assert begun.wait(60)
        assert store.get("k") is None
        found = store.put("k", writing(f="in time"))
        go_on.set()
        slow.join(60)
        assert store.get("k") == found
        assert (found / "f").read_text() == "in time"
        assert not list((root / "staging").iterdir())


class Disk(NamedTuple):
    name: str
    number: int
    reason: Reason
    expect: str


DISKS = [
    Disk("full", errno.ENOSPC, Reason.STORAGE_FULL, "is full; free some space or enlarge it"),
    Disk("over its quota", errno.EDQUOT, Reason.STORAGE_FULL, "is full; free some space or enlarge it"),
    Disk("read-only", errno.EROFS, Reason.STORAGE_BROKEN, "is read-only; make it writable"),
    Disk("broken", errno.EIO, Reason.STORAGE_BROKEN, "reports I/O errors; replace it"),
    Disk("of a server that lost it", errno.ESTALE, Reason.STORAGE_BROKEN, "is not available; mount it again"),
]


@pytest.mark.parametrize("case", DISKS, ids=attrgetter("name"))
def test_a_disk_that_takes_nothing_hinders_who_needs_it_as_long_as_it_is_so(
    root: Path, monkeypatch: pytest.MonkeyPatch, case: Disk
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(case.number, "no")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", refuse)
        store = ContentStore(root)
        assert (store.get(KEY), store.bytes_used(), store.lock) == (None, 0, None)
        with pytest.raises(BundleError) as caught:
            store.put(KEY, writing(a="1"))
        assert (caught.value.reason, caught.value.message) == (
            case.reason,
            f'content store "{root}": the disk {case.expect}',
        )
        with pytest.raises(BundleError), store.scratch():
            pass
    assert (store.put(KEY, writing(a="1")) / "a").read_text() == "1"
    assert store.lock == root / "lock"
    store.close()


def test_a_folder_that_cannot_be_is_no_disk_that_is_full(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        ContentStore(tmp_path / "file" / "store")


def test_what_is_stored_is_handed_out_by_a_disk_that_became_read_only(
    store: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(KEY, writing(a="1"))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "no")

    monkeypatch.setattr(os, "utime", refuse)
    found = store.get(KEY)
    assert found is not None
    assert (found / "a").read_text() == "1"


def test_damaged_content_that_cannot_be_removed_is_replaced_later(
    store: ContentStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.put(KEY, writing(a="1"))
    store._records[next(iter(store._records))].verified = False
    (folder / "a").write_text("2")

    def refuse(*_: object, **__: object) -> str:
        raise OSError(errno.EROFS, "no")

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkdtemp", refuse)
        assert store.get(KEY) is None
    assert (store.put(KEY, writing(a="3")) / "a").read_text() == "3"
    assert len(names(root / "entries")) == 1


# a folder that goes away while it is in use


def remove_all(root: Path) -> None:
    shutil.rmtree(root)


def replace_all(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def move_away(root: Path) -> None:
    root.rename(root.with_name("away"))


def replace_by_other(root: Path) -> None:
    """As another disk with the store of an earlier process, mounted over it, does."""
    move_away(root)
    with ContentStore(root) as other:
        other.put("of the other", writing(a="1"))
        with other.scratch():
            other._in_use.clear()
            shutil.copytree(root, root.with_name("copy"))
    shutil.rmtree(root)
    root.with_name("copy").rename(root)


def remove_lock(root: Path) -> None:
    (root / "lock").unlink()


def remove_scratch(root: Path) -> None:
    shutil.rmtree(root / "scratch")


def remove_staging(root: Path) -> None:
    shutil.rmtree(root / "staging")


def remove_entries(root: Path) -> None:
    shutil.rmtree(root / "entries")


LOSSES = [
    remove_all, replace_all, move_away, replace_by_other, remove_lock, remove_scratch, remove_staging, remove_entries,
]  # fmt: skip
each_loss = pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__.replace("_", " "))


@each_loss
def test_a_folder_that_goes_away_is_opened_again(
    lose: Callable[[Path], None], store: ContentStore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(KEY, writing(a="1"))
    lose(root)
    assert store.get("never stored") is None
    with store.scratch() as folder:
        assert names(folder) == []
    assert (store.put(KEY, writing(a="2")) / "a").read_text() in "12"
    assert store.get(KEY) is not None
    store.collect([], 0)
    assert (store.bytes_used(), names(root / "staging"), names(root / "scratch")) == (0, [], [])
    with pytest.raises(StoreInUseError):
        ContentStore(root)
    reopened = [each for each in caplog.records if "opened it again" in each.message]
    assert len(reopened) == 1


@each_loss
def test_content_is_asked_of_a_folder_that_went_away_before_it_is_opened_again(
    lose: Callable[[Path], None], store: ContentStore, root: Path
) -> None:
    store.put(KEY, writing(a="1"))
    lose(root)
    found = store.get(KEY)
    assert found is None or (found / "a").read_text() == "1"


def crash(_: Path) -> None:
    raise FileNotFoundError("tree/a")


def refuse_bundle(_: Path) -> None:
    raise BundleError(Reason.NO_CONTENT, "nothing found")


def succeed(_: Path) -> None:
    pass


ENDS = [succeed, crash, refuse_bundle]
each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__.replace("_", " "))


@each_loss
@each_end
def test_what_used_a_folder_that_went_away_has_failed_whatever_it_says(
    end: Callable[[Path], None], lose: Callable[[Path], None], store: ContentStore, root: Path
) -> None:
    def use() -> None:
        with store.scratch() as folder:
            lose(root)
            end(folder)

    with pytest.raises(BundleError) as caught:
        use()
    assert caught.value.reason is Reason.STORAGE_BROKEN
    problem = "was removed or replaced while it was in use; it is opened again, and the fetch retried"
    assert caught.value.message == f'content store "{root}": {problem}'


@each_loss
@each_end
def test_content_whose_folder_went_away_while_it_was_written_is_not_stored(
    end: Callable[[Path], None], lose: Callable[[Path], None], store: ContentStore, root: Path
) -> None:
    def write(folder: Path) -> None:
        lose(root)
        end(folder)

    with pytest.raises(BundleError) as caught:
        store.put(KEY, write)
    assert caught.value.reason is Reason.STORAGE_BROKEN
    assert (store.put(KEY, writing(a="2")) / "a").read_text() == "2"


@each_end
def test_an_error_in_a_folder_that_is_there_is_its_own(end: Callable[[Path], None], store: ContentStore) -> None:
    try:
        with store.scratch() as folder:
            end(folder)
    except (FileNotFoundError, BundleError) as error:
        assert not isinstance(error, BundleError) or error.reason is Reason.NO_CONTENT


def test_a_folder_that_was_moved_away_and_back_is_the_same(store: ContentStore, root: Path) -> None:
    store.put(KEY, writing(a="1"))
    move_away(root)
    store.put("other", writing(b="1"))
    shutil.rmtree(root)
    root.with_name("away").rename(root)
    with store.scratch():
        pass
    assert store.get("other") is None
    found = store.get(KEY)
    assert found is not None
    assert (found / "a").read_text() == "1"


def test_folders_that_were_removed_cost_no_descriptors(store: ContentStore, root: Path) -> None:
    def locks() -> list[str]:
        found = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        return [each for each in found if each.startswith(str(root))]

    for number in range(3):
        shutil.rmtree(root)
        store.put(str(number), writing(a="1"))
    assert locks() == [str(root / "lock")]


def test_an_error_while_the_folder_is_away_for_a_moment_stores_nothing(
    store: ContentStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(folder: Path) -> None:
        (folder / "a").write_text("half")
        # Away when the error is judged, and back right after that.
        answers = iter([False])
        monkeypatch.setattr(store, "_is_open", lambda: next(answers, True))
        raise OSError(errno.ENOENT, "gone")

    with pytest.raises(BundleError) as caught:
        store.put(KEY, write)
    assert caught.value.reason is Reason.STORAGE_BROKEN
    assert store.get(KEY) is None
    assert not list((root / "entries").iterdir())


def test_work_in_progress_survives_that_its_lock_was_deleted_and_made_again(store: ContentStore, root: Path) -> None:
    with store.scratch() as folder:
        (folder / "a").write_text("1")
        remove_lock(root)
        with store.scratch():
            assert (folder / "a").read_text() == "1"


def test_a_folder_that_another_process_has_taken_meanwhile_is_named(store: ContentStore, root: Path) -> None:
    move_away(root)
    with ContentStore(root), pytest.raises(BundleError) as caught:
        store.put(KEY, writing(a="1"))
    assert (caught.value.reason, caught.value.message) == (
        Reason.STORAGE_BROKEN,
        f'content store "{root}": in use by another process; stop that process, or give each its own directory',
    )
    assert store.put(KEY, writing(a="1")).is_dir()


REMEDY = "make the directory readable and writable for the controller"
BARRED = {
    errno.EACCES: f"cannot be used (Permission denied); {REMEDY}",
    errno.EROFS: "is read-only; make it writable",
    errno.ENOENT: f"cannot be used (No such file or directory); {REMEDY}",
}


@pytest.mark.parametrize("number", BARRED, ids=errno.errorcode.get)
def test_a_folder_that_takes_nothing_any_more_is_named_until_it_does(
    number: int, store: ContentStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(KEY, writing(a="1"))

    def refuse(*_: object, **__: object) -> str:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkdtemp", refuse)
        uses: list[Callable[[], object]] = [lambda: store.put("other", never), lambda: store.scratch().__enter__()]
        for use in uses:
            with pytest.raises(BundleError) as caught:
                use()
            assert caught.value.reason is Reason.STORAGE_BROKEN
            assert caught.value.message == f'content store "{root}": the disk {BARRED[number]}'
        assert store.get(KEY) is not None
        store.collect([], 0)
    assert store.put("other", writing(a="1")).is_dir()


Part = tuple[str, dict[str, str | None]]
"""Destination, and text by path; None for a folder."""


def parts(tmp_path: Path, *contents: Part) -> list[tuple[str, str, Path]]:
    result = []
    for index, (destination, files) in enumerate(contents):
        folder = tmp_path / f"content-{index}"
        folder.mkdir()
        for path, text in files.items():
            if text is None:
                (folder / path).mkdir(parents=True, exist_ok=True)
            else:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
        result.append((f"spec.sources[{index}]", destination, folder))
    return result


def read(root: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(root)): path.read_text() if path.is_file() else None for path in sorted(root.rglob("*"))
    }


@dataclass
class United:
    name: str
    contents: list[Part]
    expect: dict[str, str | None]


# fmt: off
UNITED = [
    United("nothing", [], {}),
    United("one at the root", [("", {"a": "1", "d": None})], {"a": "1", "d": None}),
    United("two side by side", [("x", {"a": "1"}), ("y/z", {"a": "2"})],
         {"x": None, "x/a": "1", "y": None, "y/z": None, "y/z/a": "2"}),
    United("two in one", [("x", {"d/a": "1"}), ("x", {"d/b": "2"})],
         {"x": None, "x/d": None, "x/d/a": "1", "x/d/b": "2"}),
    United("one within the other", [("", {"x/a": "1"}), ("x", {"b": "2"})], {"x": None, "x/a": "1", "x/b": "2"}),
    United("one around the other", [("x/y", {"b": "2"}), ("", {"x/a": "1"})],
         {"x": None, "x/a": "1", "x/y": None, "x/y/b": "2"}),
    United("one without content", [("x", {})], {"x": None}),
    United("paths that differ in case", [("", {"a": "1"}), ("", {"A": "2"})], {"A": "2", "a": "1"}),
]
# fmt: on


@pytest.mark.parametrize("case", UNITED, ids=attrgetter("name"))
def test_what_is_united(case: United, tmp_path: Path) -> None:
    result = assemble(parts(tmp_path, *case.contents), tmp_path / "tree")
    assert read(result.root) == case.expect


@dataclass
class Conflict:
    name: str
    contents: list[Part]
    message: str


BOTH, KINDS = "both contain it", "it is a file in one and a directory in the other"
# fmt: off
CONFLICTS = [
    Conflict("a file of both", [("x", {"a": "1"}), ("", {"x/a": "1"})],
         f'path "x/a" conflicts with spec.sources[0]: {BOTH}'),
    Conflict("a file and a folder", [("", {"a": "1"}), ("", {"a/b": "2"})],
         f'path "a" conflicts with spec.sources[0]: {KINDS}'),
    Conflict("a folder and a file", [("", {"a": None}), ("", {"a": "2"})],
         f'path "a" conflicts with spec.sources[0]: {KINDS}'),
    Conflict("a file in the way of a destination", [("", {"x": "1"}), ("x/y", {})],
         f'path "x" conflicts with spec.sources[0]: {KINDS}'),
    Conflict("a destination that is a file elsewhere", [("x/y", {}), ("x", {"y": "1"})],
         f'path "x/y" conflicts with spec.sources[0]: {KINDS}'),
]
# fmt: on


@pytest.mark.parametrize("case", CONFLICTS, ids=attrgetter("name"))
def test_what_conflicts(case: Conflict, tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        assemble(parts(tmp_path, *case.contents), tmp_path / "tree")
    assert caught.value.reason is Reason.CONTENT_CONFLICT
    assert caught.value.message.startswith(f"spec.sources[1]: {case.message}; ")
    assert not (tmp_path / "tree").exists()


def test_destinations_are_in_spec_order_and_each_once(tmp_path: Path) -> None:
    result = assemble(parts(tmp_path, ("y", {}), ("", {}), ("x", {}), ("y", {})), tmp_path / "tree")
    assert result.destinations == ("y", "", "x")


def test_files_are_linked_not_copied(tmp_path: Path) -> None:
    contents = parts(tmp_path, ("", {"a": "1"}))
    assemble(contents, tmp_path / "tree")
    assert (contents[0][2] / "a").samefile(tmp_path / "tree" / "a")


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    contents = parts(tmp_path, ("", {"a": "1"}))
    (contents[0][2] / "a").chmod(0o755)
    assemble(contents, tmp_path / "tree")
    assert (tmp_path / "tree" / "a").read_text() == "1"
    assert os.access(tmp_path / "tree" / "a", os.X_OK)


def test_what_must_not_be_read_is_named_by_its_path_and_source(tmp_path: Path) -> None:
    with ContentStore(tmp_path / "store") as store:
        folders = [
            store.put(key, lambda _, paths=paths: {path: Refusal(problem=f"{path} is bad") for path in paths})  # type: ignore[misc]
            for key, paths in {"a": ["d/x", "y"], "b": ["x", "z"], "c": []}.items()
        ]
        found = [
            (f"spec.sources[{index}]", destination, folders[index]) for index, destination in enumerate(["", "d", ""])
        ]
        tree = assemble(found, tmp_path / "tree")
    assert {path: refusal.problem for path, refusal in tree.refused.items()} == {
        "d/x": "spec.sources[0]: d/x is bad",
        "d/z": "spec.sources[1]: z is bad",
        "y": "spec.sources[0]: y is bad",
    }


def test_what_must_not_be_read_of_all_sources_together_has_a_limit(tmp_path: Path) -> None:
    with ContentStore(tmp_path / "store") as store:
        long = "x" * (9 << 20)
        folders = [store.put(key, lambda _: {"x": Refusal(problem=long)}) for key in "ab"]
        found = [(f"spec.sources[{index}]", f"{index}", folders[index]) for index in range(2)]
        assemble(found[:1], tmp_path / "one")
        with pytest.raises(BundleError, match=r"spec\.sources: .* too many entries that cannot be used") as caught:
            assemble(found, tmp_path / "tree")
    assert caught.value.reason is Reason.CONTENT_REJECTED


def test_a_tree_refuses_the_first_path_that_is_read(tmp_path: Path) -> None:
    refused = {"b": Refusal(problem="b", reason=Reason.UNSUPPORTED_CONTENT), "a": Refusal(problem="a")}
    tree = ContentTree(root=tmp_path, destinations=("",), refused=refused)
    tree.check(lambda path: path not in refused)
    for read, reason in (({"a", "b"}, Reason.CONTENT_REJECTED), ({"b"}, Reason.UNSUPPORTED_CONTENT)):
        with pytest.raises(BundleError) as caught:
            tree.check(lambda path, read=read: path in read)  # type: ignore[misc]
        assert (caught.value.reason, caught.value.message) == (reason, min(read))
