"""Which URLs and refs git may ever see."""

from __future__ import annotations

import re
import subprocess
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.sources.git.connection import Repository, candidates, check_ref, parse_repository

# (text, url that git gets, scheme, host, port, user, normal form)
REPOSITORIES = [
    ("https://github.com/foo/bar", "https://github.com/foo/bar", "https", "github.com", 443, "", None),
    ("HTTPS://GitHub.com:443/foo/Bar.git/", "https://github.com/foo/Bar.git/", "https", "github.com", 443, "", "="),
    ("https://me@example.org/x", "https://example.org/x", "https", "example.org", 443, "me", None),
    ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]:8443/x", "https", "2001:db8::1", 8443, "", None),
    ("https://h/with%20blank", "https://h/with%20blank", "https", "h", 443, "", None),
    ("http://127.0.0.1:3000/x", "http://127.0.0.1:3000/x", "http", "127.0.0.1", 3000, "", None),
    ("ssh://git@h:22/x", "ssh://git@h/x", "ssh", "h", 22, "git", None),
    ("ssh://git@h:2222/~me/x.git", "ssh://git@h:2222/~me/x.git", "ssh", "h", 2222, "git", None),
    ("git@github.com:foo/bar.git", "git@github.com:foo/bar.git", "ssh", "github.com", 22, "git", None),
    ("Host:/srv/x", "host:/srv/x", "ssh", "host", 22, "", None),
]


@pytest.mark.parametrize("row", REPOSITORIES, ids=[row[0] for row in REPOSITORIES])
def test_repositories(row: tuple[str, str, str, str, int, str, str | None]) -> None:
    text, url, scheme, host, port, user, _ = row
    expected = Repository(url=url, scheme=scheme, host=host, port=port, user=user, normal=url.rstrip("/"))
    assert parse_repository(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo/bar",
        "/srv/x",
        "./x",
        "file:///srv/x",
        "file:/srv/x",
        "git://h/x",
        "ftp://h/x",
        "ext::sh -c true",
        "ext::sh",
        "ext://sh",
        "h::x",
        "https://",
        "https:///x",
        "https://h",
        "https://h/",
        "https:h/x",
        "https://h:0/x",
        "https://h:65536/x",
        "https://h:/x",
        "https://h:x/x",
        "https://-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x/y",
        "ssh://-l@h/y",
        "-oProxyCommand=x:y",
        "git@-oProxyCommand=x:y",
        "-x@h:y",
        "ssh://git@h/-x",
        "git@h:-x",
        "git@h://x",
        "git@h:",
        "https://h/x y",
        "https://h/x\ny",
        "https://h\n/x",
        "https://h/x%0ay",
        "https://h/x%7Fy",
        "https://h/x%zz",
        "https://h/x?token=y",
        "https://h/x#y",
        "https://h/x\\y",
        "https://[fe80::1%eth0]/x",
        "https://[h]/x",
        "https://[::1/x",
        "https://a@b@h/x",
        "https://h/" + "x" * 2048,
    ],
)
def test_what_is_no_repository(text: str) -> None:
    with pytest.raises(ValueError, match="; "):
        parse_repository(text)


@pytest.mark.parametrize("text", ["https://me:secret@h/x", "https://:secret@h/x", "ssh://git:secret@h/x"])
def test_a_password_in_a_url(text: str) -> None:
    with pytest.raises(ValueError, match="must not contain a password; use a Secret in auth") as caught:
        parse_repository(text)
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name"), [("git@h:x", "h"), ("ssh://h:22/x", "h"), ("ssh://h:23/x", "[h]:23"), ("ssh://[::1]/x", "::1")]
)
def test_the_name_in_known_hosts(text: str, name: str) -> None:
    assert parse_repository(text).host_key_name == name


GOOD_REFS = ["main", "HEAD", "v1.0", "feature/x", "refs/heads/main", "refs/pull/1/head", "a@b", "ü", "a3b1dff2", "x-"]


@pytest.mark.parametrize("ref", GOOD_REFS)
def test_refs(ref: str) -> None:
    check_ref(ref)


@pytest.mark.parametrize(
    "ref",
    [
        *(
            "",
            "-x",
            "--upload-pack=x",
            "@",
            "a..b",
            "a b",
            "a\\n",
            "a\\x7f",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\\\b",
        ),
        *("/a", "a/", "a//b", ".a", "a/.b", "a.", "a.lock", "a.lock/b", "a@{1}", "a\u2028b", "a\u00a0b", "x" * 256),
    ],
)
def test_what_is_no_ref(ref: str) -> None:
    with pytest.raises(ValueError, match="; "):
        check_ref(ref)


@pytest.mark.parametrize(
    ("ref", "names"),
    [
        ("HEAD", ("HEAD",)),
        ("refs/heads/main", ("refs/heads/main",)),
        ("v1", ("refs/v1", "refs/tags/v1", "refs/heads/v1")),
    ],
)
def test_what_a_ref_may_stand_for(ref: str, names: tuple[str, ...]) -> None:
    assert candidates(ref) == names


URLS = st.from_regex(r"(https?|ssh|ext|file|git)?:?/?/?[a-z0-9@:.%\[\]-]{0,20}[/:]?[ -~]{0,20}", fullmatch=True)


@settings(max_examples=400, deadline=None)
@given(text=URLS | st.text(max_size=60))
@example("ssh://git@h/x\u2028y")
@example("https://h\t/x")
def test_whatever_passes_is_one_of_our_forms(text: str) -> None:
    try:
        repository = parse_repository(text)
    except ValueError as error:
        assert "; " in str(error)
        return
    assert repository.scheme in ("https", "http", "ssh")
    assert not repository.url.startswith("-")
    assert not re.match("[A-Za-z0-9]*::", repository.url)
    assert not repository.host.startswith("-")
    assert not any(character.isspace() or character < " " for character in repository.url)
    assert parse_repository(repository.url).normal == repository.normal
    if "://" in repository.url:
        parts = urlsplit(repository.url)
        assert (parts.hostname, parts.password) == (repository.host, None)


@settings(max_examples=60, deadline=None)  # each one asks git
@given(ref=st.text("ab/.@{}~^:?*[\\-~ \n\x7fü", min_size=1, max_size=8) | st.text(min_size=1, max_size=8))
def test_no_ref_passes_that_git_would_refuse(ref: str) -> None:
    try:
        check_ref(ref)
    except ValueError:
        return
    command = ["git", "check-ref-format", f"refs/heads/{ref}"]
    assert subprocess.run(command, check=False, timeout=20).returncode == 0
