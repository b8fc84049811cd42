"""How git is told to reach a repository: addresses, credentials, certificates, keys.

Which URLs and refs git may ever see."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.sources.git.connection import (
    Connection,
    Repository,
    candidates,
    check_ref,
    connect,
    parse_repository,
)

PATH = "spec.git"

CANARY = "canary-4711"
BASIC = Credentials(username="me", password=CANARY)
KEY = Credentials(ssh_private_key="key", known_hosts="hosts")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let every name mean these addresses."""

    def mean(*addresses: str) -> None:
        answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)

    mean("192.0.2.1", "2001:db8::1")
    return mean


def connected(url: str, access: Access, credentials: Credentials | None = None, **parameters: Any) -> Connection:
    return connect(parse_repository(url), parameters, replace(access, credentials=credentials))


def refused(url: str, access: Access, credentials: Credentials | None = None, **parameters: Any) -> BundleError:
    with pytest.raises(BundleError) as caught:
        connected(url, access, credentials, **parameters)
    assert CANARY not in caught.value.message
    return caught.value


@pytest.mark.usefixtures("names")
def test_curl_is_held_to_the_addresses_that_were_judged(access: Access) -> None:
    config = connected("https://example.org:8443/x", access).config
    assert config["http.curloptResolve"] == "example.org:8443:192.0.2.1,[2001:db8::1]"
    assert config["remote.origin.url"] == "https://example.org:8443/x"


def test_forbidden_addresses_are_left_out(names: Callable[..., None], access: Access) -> None:
    names("169.254.169.254", "192.0.2.1", "::ffff:169.254.1.1")
    assert connected("https://h/x", access).config["http.curloptResolve"] == "h:443:192.0.2.1"
    names("169.254.169.254")
    assert refused("https://h/x", access).reason is Reason.INSECURE_REFUSED


@pytest.mark.usefixtures("names")
def test_ssh_is_held_to_an_address_and_asks_for_the_key_of_the_name(access: Access) -> None:
    connection = connected("ssh://git@h:2222/x", access, KEY)
    first, *options = settings_of_ssh(connection)
    assert connection.protocol == "ssh"
    assert first == f"#!{shutil.which('ssh')} -F"
    assert {"HostName=192.0.2.1", "HostKeyAlias=[h]:2222", "StrictHostKeyChecking=yes", "BatchMode=yes"} <= {*options}
    assert not [option for option in options if option.startswith("User=")]
    assert "User=git" in settings_of_ssh(connected("h:x", access, KEY))


def settings_of_ssh(connection: Connection) -> list[str]:
    return (connection.program or Path()).read_text().splitlines()


@pytest.mark.usefixtures("names")
def test_ssh_means_its_settings_as_we_do(access: Access) -> None:
    program = connected("ssh://me@h:2222/x", access, KEY).program or ""
    done = subprocess.run([program, "-G", "-p", "2222", "me@h"], check=True, capture_output=True, text=True)
    known = {"hostname 192.0.2.1", "port 2222", "user me", "hostkeyalias [h]:2222", "stricthostkeychecking true"}
    assert known | {f"identityfile {access.scratch}/identity"} <= {*done.stdout.splitlines()}


@pytest.mark.usefixtures("names")
def test_a_folder_in_which_nothing_is_started_is_told(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/ssh")
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.X_OK)  # as of a folder that is mounted noexec
    error = refused("git@h:x", access, KEY)
    assert (error.reason, "noexec" in error.message) == (Reason.NOT_SUPPORTED, True)


@pytest.mark.usefixtures("names")
def test_keys_are_in_files_that_nobody_else_reads(access: Access) -> None:
    connected("git@h:x", access, KEY)
    files = {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in access.scratch.iterdir()}
    assert files.pop("ssh")[1] == 0o700
    assert files == {"identity": ("key\n", 0o600), "known_hosts": ("hosts\n", 0o600)}


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        (BASIC, "Authorization: Basic bWU6Y2FuYXJ5LTQ3MTE="),
        (Credentials(bearer_token=f"{CANARY}\n"), f"Authorization: Bearer {CANARY}"),
    ],
)
def test_a_header_goes_to_its_host_and_over_no_redirect(credentials: Credentials, header: str, access: Access) -> None:
    config = connected("https://h/x", access, credentials).config
    assert config["http.https://h/.extraHeader"] == header
    assert config["http.followRedirects"] == "false"


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("url", ["https://h/x", "git@h:x", "ssh://h:2222/x"])
def test_a_host_that_is_not_allowed_is_refused(url: str, access: Access) -> None:
    with pytest.raises(BundleError, match=r'spec.git.repository: host "h(:2222)?" is not in --allowed-hosts'):
        connected(url, replace(access, network=Network(allowed_hosts=("example.com",))), KEY)
    connected(url, replace(access, network=Network(allowed_hosts=("h", "h:2222"))), KEY)


@pytest.mark.usefixtures("names")
def test_a_slow_server_is_given_up_as_by_http(access: Access) -> None:
    slow = replace(access, network=Network(bytes_per_second=2048))
    config = connected("https://h/x", slow).config
    assert (config["http.lowSpeedLimit"], config["http.lowSpeedTime"]) == ("2048", "30")


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("url", "parameters", "port"),
    [
        ("https://h/x", {}, 443),
        ("https://h:8443/x", {"insecureSkipTLSVerify": True}, 8443),
        ("http://h/x", {"insecureSkipTLSVerify": True}, 80),
    ],
)
def test_git_follows_no_redirect_and_gets_one_port(
    url: str, parameters: dict[str, Any], port: int, access: Access
) -> None:
    connection = connected(url, access, **parameters)
    assert connection.config["http.followRedirects"] == "false"
    assert (connection.protocol, connection.port) == (url.partition(":")[0], port)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("url", "credentials", "parameters", "reason"),
    [
        pytest.param("http://h/x", None, {}, Reason.INSECURE_REFUSED, id="plain http to elsewhere"),
        pytest.param("https://h/x", BASIC, {"insecureSkipTLSVerify": True}, Reason.INSECURE_REFUSED, id="unverified"),
        pytest.param("http://h/x", BASIC, {"insecureSkipTLSVerify": True}, Reason.INSECURE_REFUSED, id="http"),
        pytest.param("https://h/x", Credentials(bearer_token="a\nb"), {}, Reason.SECRET_INVALID, id="a bad token"),
        pytest.param("https://h/x", Credentials(certificate_authority="x"), {}, Reason.SECRET_INVALID, id="a bad CA"),
        pytest.param("git@h:x", None, {}, Reason.UNAUTHORIZED, id="ssh without credentials"),
        pytest.param("git@h:x", BASIC, {}, Reason.UNAUTHORIZED, id="ssh without a key"),
        pytest.param("git@h:x", replace(KEY, known_hosts=" "), {}, Reason.HOST_KEY_UNKNOWN, id="no known_hosts"),
    ],
)
def test_what_is_refused(
    url: str, credentials: Credentials | None, parameters: dict[str, Any], reason: Reason, access: Access
) -> None:
    assert refused(url, access, credentials, **parameters).reason is reason


@pytest.mark.usefixtures("names")
def test_only_the_given_authorities_are_trusted(access: Access) -> None:
    pem = trustme.CA().cert_pem.bytes().decode()
    config = connected("https://h/x", access, certificateData=pem).config
    assert Path(config["http.sslCAInfo"]).read_text() == pem
    assert not list(Path(config["http.sslCAPath"]).iterdir())


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


@settings(deadline=None)
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


@settings(deadline=None)  # each one asks git
@given(ref=st.text("ab/.@{}~^:?*[\\-~ \n\x7fü", min_size=1, max_size=8) | st.text(min_size=1, max_size=8))
def test_no_ref_passes_that_git_would_refuse(ref: str) -> None:
    try:
        check_ref(ref)
    except ValueError:
        return
    command = ["git", "check-ref-format", f"refs/heads/{ref}"]
    assert subprocess.run(command, check=False, timeout=120).returncode == 0
