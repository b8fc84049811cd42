"""`rukpak ui`: serve the page, and open it. What it shows is in controller/ui/, which needs the extra `ui`."""

from __future__ import annotations

import argparse
import html
import logging
import os
import socket
import ssl
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

from cryptography import x509

from rukpak.controller.cli.command import connect, tell
from rukpak.controller.sources.hosts import is_address, is_loopback
from rukpak.controller.ui.guard import LOOPBACK, Guard, is_named, name_run
from rukpak.controller.ui.watching import Board
from rukpak.controller.views import FailedError, MisuseError

CONNECTIONS = 256
"""At the same time, one for each watch."""


def main(options: argparse.Namespace) -> int:
    """Serve the page until the user interrupts; return the exit status.

    Raises: MisuseError, also without the extra that has the server; FailedError, ConfigurationError.
    """
    try:
        from rukpak.controller.ui.server import Rights, Site, make_server  # noqa: PLC0415 - needs the extra
    except ImportError:
        raise MisuseError('the server is missing; run pip install ".[ui]" in a clone of RukPak') from None
    hosts = _own_names(options)
    client = connect(options, CONNECTIONS)
    logging.getLogger("rukpak.controller").setLevel(logging.ERROR)  # the page itself says that the cluster is away
    board = Board(client, options.namespace)
    with ExitStack() as stack:
        listeners = [stack.enter_context(each) for each in _listen(options.listen, options.port)]
        port = listeners[0].getsockname()[1]
        guard = Guard(hosts=hosts, port=port, is_secure=bool(options.certificate))
        site = Site(
            board=board,
            guard=guard,
            rights=Rights(client),
            version=version("rukpak"),
            is_read_only=options.read_only,
        )
        board.start()
        try:
            host = _shown_host(options.listen, hosts)
            with announce(f"{guard.scheme}://{host}:{port}/?token={guard.token}", options):
                make_server(site, options.certificate).run(sockets=listeners)
        finally:
            board.stop()
    return 0


def _own_names(options: argparse.Namespace) -> frozenset[str]:
    is_local = is_loopback(options.listen)
    if not (options.certificate or is_local):
        raise MisuseError(
            f'--listen "{options.listen}": other machines could read what is sent; give a --certificate, or listen on '
            "127.0.0.1 and forward the port with ssh -L"
        )
    if options.certificate:
        return (LOOPBACK | {options.listen} if is_local else LOOPBACK) | _names_of(options.certificate)
    if options.listen not in LOOPBACK:
        raise MisuseError(
            f'--listen "{options.listen}": browsers look for this page at 127.0.0.1 and ::1; leave it out, or give a '
            "--certificate"
        )
    return frozenset({name_run()})


def _names_of(name: str) -> frozenset[str]:
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(name)
        certificate = x509.load_pem_x509_certificate(Path(name).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        text = "it must be a PEM file with a certificate that has alternative names, and its key"
        raise MisuseError(f'--certificate "{name}": {text} ({type(error).__name__})') from None
    addresses = (str(each) for each in names.get_values_for_type(x509.IPAddress))
    return frozenset({*(each.lower() for each in names.get_values_for_type(x509.DNSName)), *addresses})


def _listen(address: str, port: int) -> list[socket.socket]:
    # Another user could listen on loopback of the other family.
    found = list[socket.socket]()
    try:
        for each in ("127.0.0.1", "::1") if address in LOOPBACK else (address,):
            family = socket.AF_INET6 if ":" in each else socket.AF_INET
            if found and not _has_address(family, each):
                continue
            found.append(socket.create_server((each, port), family=family))
            port = found[0].getsockname()[1]
    except OSError as error:
        for listener in found:
            listener.close()
        raise FailedError(f"cannot listen on {address} port {port}: {error.strerror or error}") from None
    return found


def _has_address(family: socket.AddressFamily, address: str) -> bool:
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _shown_host(address: str, hosts: frozenset[str]) -> str:
    # A browser may call it by no other name than `hosts`.
    machine = socket.gethostname().lower()
    names = sorted(hosts - LOOPBACK, key=lambda name: (name.startswith("*"), is_address(name), name))
    known = (name.replace("*", machine.partition(".")[0]) for name in names)
    found = next((name for name in (address, machine, *known) if is_named(name, hosts)), "localhost")
    return f"[{found}]" if ":" in found else found


@contextmanager
def announce(url: str, options: argparse.Namespace) -> Iterator[None]:
    """Print the address, and open it in the browser, for as long as the block runs."""
    print(url, flush=True)
    tell("Only this address opens the page; it is valid until Ctrl-C")
    if options.no_browser or not _has_screen():
        yield
        return
    # All users of the machine can read what a browser is started with; only this one can read a file with the token.
    with tempfile.TemporaryDirectory(prefix="rukpak-ui-") as folder:
        page = Path(folder, "open.html")
        page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">\n', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def _has_screen() -> bool:
    # Without a screen, a browser for terminals would be started in this one.
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
