"""The parameters of the git source, without any server."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from api.errors import BundleError
from api.plugins import Access, Resolution
from api.v1alpha2.conditions import Reason
from controller.build.plugins import source_of
from controller.sources.git.source import GitSource

SOURCE = GitSource()
GOOD = {"repository": "https://github.com/foo/bar", "ref": "main", "directory": "deploy"}


def test_it_is_found_by_its_kind() -> None:
    assert isinstance(source_of("git"), GitSource)


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({}, None),
        ({"repository": "file:///x"}, '.repository: "file:///x" is not https://host/path'),
        ({"repository": "https://me:secret@h/x"}, ".repository: the URL must not contain a password"),
        ({"ref": "--upload-pack=x"}, '.ref: "--upload-pack=x" is an option'),
        ({"directory": "../x"}, '.directory: "../x" is not a relative path'),
        ({"directory": "x//y"}, '.directory: "x//y" is not a relative path'),
        ({"directory": "/x"}, '.directory: "/x" is not a relative path'),
        ({"certificateData": "nonsense"}, ".certificateData: not a bundle of PEM certificates"),
    ],
)
def test_what_is_wrong_with_the_parameters(others: dict[str, Any], problem: str | None) -> None:
    problems = SOURCE.validate(GOOD | others, "spec.sources[0].git")
    assert len(problems) == (problem is not None)
    assert all(found.startswith(f"spec.sources[0].git{problem}") for found in problems)
    assert "secret" not in "".join(problems)


def test_all_that_is_wrong_is_told() -> None:
    assert len(SOURCE.validate({"repository": "", "ref": "-", "directory": "/"}, "x")) == 3


@pytest.mark.parametrize(
    ("others", "is_same"),
    [
        ({"repository": "https://me@GitHub.com:443/foo/bar/"}, True),
        ({"directory": "other"}, True),
        ({"submodules": True}, True),
        ({"certificateData": "x"}, True),
        ({"ref": "v1"}, False),
        ({"repository": "git@github.com:foo/bar"}, False),
    ],
)
def test_what_names_the_content(others: dict[str, Any], is_same: bool) -> None:
    assert (SOURCE.identity(GOOD | others) == SOURCE.identity(GOOD)) is is_same


@pytest.mark.parametrize(
    "others", [{"directory": "other"}, {"submodules": True}, {"repository": "https://github.com/fork/bar"}]
)
def test_the_store_key_tells_content_apart(others: dict[str, Any]) -> None:
    resolution = Resolution(pinned="", digest="sha1:" + "0" * 40)
    assert SOURCE.content_key(GOOD | others, resolution) != SOURCE.content_key(GOOD, resolution)


def test_git_is_not_even_started_for_what_is_no_repository(tmp_path: Path) -> None:
    access = Access(path="p", deadline=time.monotonic() + 9, cancelled=threading.Event(), scratch=tmp_path)
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve({"repository": "ext::sh -c true"}, access)
    assert caught.value.reason is Reason.INVALID_REFERENCE
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("digest", ["", "sha1:", "sha1:--upload-pack=x", "sha1:main"])
def test_only_a_commit_is_fetched(digest: str, tmp_path: Path) -> None:
    access = Access(path="p", deadline=time.monotonic() + 9, cancelled=threading.Event(), scratch=tmp_path)
    with pytest.raises(BundleError) as caught:
        list(SOURCE.fetch({"repository": "http://127.0.0.1:1/x"}, Resolution(pinned="", digest=digest), access))
    assert caught.value.reason is Reason.INVALID_REFERENCE
