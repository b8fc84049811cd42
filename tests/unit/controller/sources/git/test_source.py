"""The parameters of the git source, without any server.

What .gitmodules says, with git itself as the measure."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.entry_points import source_of
from rukpak.controller.sources.git.source import GitSource, Module, parse_modules, resolve_url
from tests.support.git_servers import ENVIRONMENT

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
    access = Access(path="p", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=tmp_path)
    with pytest.raises(BundleError) as caught:
        SOURCE.resolve({"repository": "ext::sh -c true"}, access)
    assert caught.value.reason is Reason.INVALID_REFERENCE
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("digest", ["", "sha1:", "sha1:--upload-pack=x", "sha1:main"])
def test_only_a_commit_is_fetched(digest: str, tmp_path: Path) -> None:
    access = Access(path="p", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=tmp_path)
    with pytest.raises(BundleError) as caught:
        list(SOURCE.fetch({"repository": "http://127.0.0.1:1/x"}, Resolution(pinned="", digest=digest), access))
    assert caught.value.reason is Reason.INVALID_REFERENCE


BASES = [
    "https://example.org/group/shop",
    "https://example.org/group/shop/",
    "https://example.org/group/shop.git",
    "https://me@example.org:8443/group/shop.git",
    "ssh://git@example.org:2222/group/shop.git",
    "git@example.org:group/shop.git",
    "git@example.org:shop.git",
    "git@example.org:/srv/shop.git",
]
URLS = [
    "../lib.git",
    "../lib.git/",
    "./lib.git",
    "../../other/lib",
    ".././../other/lib",
    "../../../evil.example/lib",
    "../../../../evil.example/lib",
    "../../../../../x",
    "../lib/../x",
    "..",
    "..x/y",
    ".lib",
    "lib",
    "/srv/lib",
    "https://other.example/lib",
    "git@other.example:lib",
    "file:///srv/lib",
    "ext::sh -c true",
]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return done.stdout


def initialized_url(checkout: Path) -> str:
    """Return the URL of the submodule by git; a path of this machine if git refuses it."""
    try:
        git(checkout, "submodule--helper", "init", "--", "lib")
    except subprocess.CalledProcessError:
        return "./"
    url = git(checkout, "config", "submodule.lib.url").strip()
    git(checkout, "config", "--remove-section", "submodule.lib")
    return url


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    return tmp_path


@pytest.mark.parametrize("base", BASES)
def test_a_url_is_resolved_as_git_does(base: str, checkout: Path) -> None:
    git(checkout, "remote", "add", "origin", base)
    for url in URLS:
        (checkout / ".gitmodules").write_text(f'[submodule "lib"]\npath = lib\nurl = "{url}"\n')
        wanted = initialized_url(checkout)
        if wanted.startswith((".:", "./")):
            with pytest.raises(ValueError, match=r"has too many \.\./; correct it"):
                resolve_url(url, base)
        else:
            assert resolve_url(url, base) == wanted, url


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param('[submodule "a.b/c"]\npath = lib\nurl = u\n', {"lib": Module(url="u")}, id="a name with dots"),
        pytest.param('[SubModule "a"]\nPATH = lib\nUrl = u\n', {"lib": Module(url="u")}, id="letters of either case"),
        pytest.param('[submodule "a"]\npath = lib\n', {"lib": Module()}, id="no URL"),
        pytest.param('[submodule "a"]\nurl = u\n', {}, id="no path"),
        pytest.param('[submodule "a"]\npath\nurl\n', {"": Module()}, id="no values"),
        pytest.param('[submodule "a"]\npath = lib\nurl = u\nurl = v\n', {"lib": Module(url="v")}, id="two URLs"),
        pytest.param(
            '[submodule "a"]\npath = lib\nurl = u\n[submodule "b"]\npath = lib\nurl = v\n',
            {"lib": Module(url="v")},
            id="two sections of one path",
        ),
        pytest.param(
            '[submodule "a"]\npath = lib\nurl = u\nupdate = none\n',
            {"lib": Module(url="u", is_skipped=True)},
            id="one that is not updated",
        ),
        pytest.param('[submodule "a"]\npath = lib\nurl = u\nupdate = !sh\n', {"lib": Module(url="u")}, id="a command"),
        pytest.param('[submodule "../../x"]\npath = lib\nurl = u\n', {}, id="a name that leaves git's folder"),
        pytest.param('[submodule "..\\\\x"]\npath = lib\nurl = u\n', {}, id="the same with a backslash"),
        pytest.param('[submodule "a..b"]\npath = lib\nurl = u\n', {"lib": Module(url="u")}, id="dots in a name"),
        pytest.param('[submodule ""]\npath = lib\nurl = u\n', {}, id="an empty name"),
        pytest.param("[core]\npath = lib\n[submodule]\nrecurse = true\n", {}, id="other settings"),
        pytest.param("[include]\npath = /etc/passwd\n", {}, id="a file to include"),
    ],
)
def test_the_sections_of_gitmodules(text: str, found: dict[str, Module], tmp_path: Path) -> None:
    (tmp_path / "modules").write_text(text)
    listing = git(tmp_path, "config", "--no-includes", "-f", "modules", "--list", "-z").encode()
    assert parse_modules(listing) == found


def test_a_path_that_is_not_utf_8_keeps_its_bytes() -> None:
    assert parse_modules(b"submodule.a.path\n\xff\0submodule.a.url\nu\0") == {"\udcff": Module(url="u")}
