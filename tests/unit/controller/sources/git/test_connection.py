"""How git is told to reach a repository: addresses, credentials, certificates, keys."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from api.errors import BundleError
from api.plugins import Access, Credentials, Network
from api.v1alpha2.conditions import Reason
from controller.sources.git.connection import Connection, connect, parse_repository

CANARY = "canary-4711"
BASIC = Credentials(username="me", password=CANARY)
KEY = Credentials(ssh_private_key="key", known_hosts="hosts")


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(path="spec.git", deadline=time.monotonic() + 9, cancelled=threading.Event(), scratch=tmp_path)


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
    assert connection.protocols == "ssh"
    assert first == f"#!{shutil.which('ssh')} -F"
    assert {"HostName=192.0.2.1", "HostKeyAlias=[h]:2222", "StrictHostKeyChecking=yes", "BatchMode=yes"} <= {*options}
    assert not [option for option in options if option.startswith("User=")]
    assert "User=git" in settings_of_ssh(connected("h:x", access, KEY))


def settings_of_ssh(connection: Connection) -> list[str]:
    return Path(connection.environment["GIT_SSH"]).read_text().splitlines()


@pytest.mark.usefixtures("names")
def test_ssh_means_its_settings_as_we_do(access: Access) -> None:
    program = connected("ssh://me@h:2222/x", access, KEY).environment["GIT_SSH"]
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
    assert (connection.protocols, connection.port) == (url.partition(":")[0], port)


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
