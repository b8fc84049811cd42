"""`rukpak package`: a folder becomes an image, which a source of kind `image` installs.

The folder is rendered first, so that what is pushed would render. Credentials are those of the tools for images: from
a Docker configuration, whose credential helpers are not run, or given for this call.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Credentials, Limits
from controller.cli.command import MisuseError, read_file, tell
from controller.cli.packing import pack
from controller.cli.rendering.content import OCI
from controller.cli.rendering.render import network_of, new_store, read_capabilities, render_local
from controller.content.limits import quote
from controller.sources.credentials import DOCKER_CONFIG_JSON, parse_secret
from controller.sources.image.push import push_image

_PLACE = "image"
"""Starts the messages about the registry."""


def main(options: argparse.Namespace) -> int:
    """Render, pack and push a folder; return the exit status.

    Raises: BundleError with the reason that the controller would report, or that of the registry; MisuseError.
    """
    parameters, credentials = _parameters(options), _credentials(options)
    archive = pack(Path(options.source), Limits().compressed_bytes)
    with new_store() as store:
        revision = render_local(options, store, read_capabilities(options.capabilities))
        for warning in revision.warnings:
            tell(f"warning: {warning}")
        with store.scratch() as scratch:
            access = Access(
                path=_PLACE,
                deadline=time.monotonic() + options.fetch_timeout,
                cancelled=threading.Event(),
                scratch=scratch,
                network=network_of(options),
                credentials=credentials,
            )
            pushed = _push(parameters, archive, access)
    count = len(revision.objects)
    print(pushed if options.output == "name" else f"pushed {pushed}, which renders {count} objects")
    return 0


def _push(parameters: dict[str, Any], archive: bytes, access: Access) -> str:
    try:
        return push_image(parameters, archive, access)
    except ValueError as error:
        raise MisuseError(f"image reference {quote(parameters['ref'])} {error}") from None


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a source that would install the image."""
    certificates = read_file(options.certificate_authority).decode() if options.certificate_authority else ""
    return {
        "ref": options.reference.removeprefix(OCI),
        "insecureSkipTLSVerify": options.insecure_skip_tls_verify,
        "certificateData": certificates,
    }


def _credentials(options: argparse.Namespace) -> Credentials | None:
    if options.username:
        password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise MisuseError("--username: requires the password on stdin")
        return Credentials(username=options.username, password=password)
    file = Path(options.registry_config or _default_config())
    if not options.registry_config and not file.is_file():
        return None
    encoded = base64.b64encode(read_file(str(file))).decode()
    secret = {"type": DOCKER_CONFIG_JSON, "metadata": {"name": file.name}, "data": {".dockerconfigjson": encoded}}
    try:
        found = parse_secret(secret, "image", str(file))
    except BundleError:
        found = Credentials()
    if not found.registries and options.registry_config:
        problem = "has no credentials; log in, or use --username (credential helpers are not run)"
        raise MisuseError(f"--registry-config: {quote(str(file))} {problem}")
    return found


def _default_config() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"
