"""The content tree: the union of the sources, and no path from two of them."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest

from api.errors import BundleError
from api.plugins import ContentTree, Refusal
from api.v1alpha2.conditions import Reason
from controller.content.store import ContentStore, assemble

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
    for read_paths, reason in (({"a", "b"}, Reason.CONTENT_REJECTED), ({"b"}, Reason.UNSUPPORTED_CONTENT)):
        with pytest.raises(BundleError) as caught:
            tree.check(lambda path, read_paths=read_paths: path in read_paths)  # type: ignore[misc]
        assert (caught.value.reason, caught.value.message) == (reason, min(read_paths))
