from __future__ import annotations

import argparse
import logging
import re
import socket
import stat
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from rukpak.controller.cli import main
from rukpak.controller.cli.ui import _has_address, _listen, _names_of, _own_names, _shown_host, announce
from tests.support.fake_api import FakeApi


@pytest.fixture(autouse=True)
def _log_level_kept() -> Iterator[None]:
    """Restore the level of the log, which the verb lowers for the rest of its process."""
    logger = logging.getLogger("rukpak.controller")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def certificate(tmp_path: Path) -> str:
    """The file of a certificate for a name and an address, with its key."""
    path = tmp_path / "certificate.pem"
    trustme.CA().issue_cert("UI.example.com", "192.0.2.1").private_key_and_cert_chain_pem.write_to_path(path)
    return str(path)


def test_without_the_extra_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rukpak.controller.ui.server", None)
    assert main(["ui"]) == 2
    assert capsys.readouterr().err == 'rukpak ui: the server is missing; run pip install ".[ui]" in a clone of RukPak\n'


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "ui.example.com"])
def test_other_machines_are_not_served_without_a_certificate(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", f"--listen={address}"]) == 2
    assert "other machines could read what is sent; give a --certificate" in capsys.readouterr().err


def test_the_names_of_a_certificate_are_those_of_the_server(certificate: str) -> None:
    assert _names_of(certificate) == {"ui.example.com", "192.0.2.1"}


SHOWN = [
    ("0.0.0.0", ["ui.example.com", "192.0.2.1"], "ui.example.com"),
    ("0.0.0.0", ["ui.example.com", "box.example.com"], "box.example.com"),
    ("0.0.0.0", ["*.corp"], "box.corp"),
    ("0.0.0.0", ["*.example.com"], "box.example.com"),
    ("::", ["2001:db8::1"], "[2001:db8::1]"),
    ("192.0.2.1", ["ui.example.com", "192.0.2.1"], "192.0.2.1"),
    ("192.0.2.2", ["ui.example.com", "localhost", "192.0.2.1"], "ui.example.com"),
    ("ui.example.com", ["*.example.com"], "ui.example.com"),
    ("0.0.0.0", ["localhost"], "localhost"),
    ("127.0.0.1", ["ui.example.com"], "127.0.0.1"),
]


@pytest.mark.parametrize(("address", "names", "expected"), SHOWN)
def test_the_address_has_a_name_that_the_server_answers_to(
    address: str, names: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box.example.com")
    path = tmp_path / "certificate.pem"
    trustme.CA().issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(path)
    hosts = _own_names(argparse.Namespace(listen=address, certificate=str(path)))
    assert _shown_host(address, hosts) == expected


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_without_a_certificate_each_run_has_a_name_of_its_own(address: str) -> None:
    one, other = (_own_names(argparse.Namespace(listen=address, certificate="")) for _ in range(2))
    assert one != other
    assert re.fullmatch(r"[0-9a-f]{32}\.localhost", _shown_host(address, one))


def test_where_browsers_do_not_look_for_that_name_is_not_listened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--listen=127.0.0.2"]) == 2
    assert "browsers look for this page at 127.0.0.1 and ::1" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_nobody_else_can_listen_at_the_other_address_of_the_name(address: str) -> None:
    found = _listen(address, 0)
    try:
        port = found[0].getsockname()[1]
        expected = {("127.0.0.1", port), *([("::1", port)] if _has_address(socket.AF_INET6, "::1") else [])}
        assert {each.getsockname()[:2] for each in found} == expected
    finally:
        for each in found:
            each.close()


def test_a_file_that_is_no_certificate_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.pem"
    path.write_text("nothing", encoding="utf-8")
    assert main(["ui", "--listen=0.0.0.0", f"--certificate={path}"]) == 2
    assert f'rukpak ui: --certificate "{path}": it must be a PEM file' in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeApi() as api, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["ui", "--no-browser", f"--port={port}", f"--kubeconfig={api.kubeconfig(tmp_path / 'kubeconfig')}"]
        assert main(words) == 1
    assert f"rukpak ui: cannot listen on 127.0.0.1 port {port}: " in capsys.readouterr().err


def test_a_browser_is_started_without_the_token_in_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    url, started = "http://127.0.0.1:8000/?token=secret", list[str]()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", started.append)
    with announce(url, argparse.Namespace(no_browser=False)):
        [argument] = started
        assert "secret" not in argument
        page = Path(urlsplit(argument).path)
        assert f"url={url}" in page.read_text(encoding="utf-8")
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert not page.parent.exists()
