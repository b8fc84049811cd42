"""Downloads of releases, which are used only if their SHA-256 is the one that the project publishes.

urllib handles redirects and proxies. Addresses come from `settings`.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from hack.control_plane.programs import Release

FIRST_ANSWER_SECONDS = 5.0
"""Timeout for the checksum, including name resolution: without a network, a download fails after this."""
STALLED_SECONDS = 20.0
SHA256 = re.compile(r"[0-9a-f]{64}")


class DownloadError(Exception):
    """A failed download; the message is one line."""


def download(release: Release, destination: Path) -> None:
    """Write a released program to `destination` and make it executable.

    Raises: DownloadError if the server does not respond, lacks the file, or sends one with another checksum.
    """
    expected = find_checksum(_read_within(release.checksum_url), release.url)
    received = destination.with_name(f"{destination.name}.received")
    try:
        _receive(release.url, received, expected)
        if release.member:
            _extract(received, release, destination)
        else:
            received.replace(destination)
    finally:
        received.unlink(missing_ok=True)
    destination.chmod(0o755)


def find_checksum(text: str, url: str) -> str:
    """Return the SHA-256 of the file at `url`, from a checksum file: only a digest, or lines of sha256sum.

    Raises: DownloadError if there is none.
    """
    name = PurePosixPath(url).name
    lines = [line.split() for line in text.splitlines() if line.strip()]
    alone = [words[0] for words in lines if len(words) == 1 and len(lines) == 1]
    named = [words[0] for words in lines if len(words) > 1 and PurePosixPath(words[1].lstrip("*")).name == name]
    digest = next(iter(alone + named), "").lower()
    if not SHA256.fullmatch(digest):
        raise DownloadError(f"no SHA-256 of {name} is published")
    return digest


def _read_within(url: str) -> str:
    """Read a small file in a thread, because no timeout covers name resolution."""
    answers: list[str | DownloadError] = []

    def read() -> None:
        try:
            with _opened(url, FIRST_ANSWER_SECONDS) as response:
                answers.append(response.read(1 << 20).decode("utf-8", "replace"))
        except DownloadError as error:
            answers.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(FIRST_ANSWER_SECONDS)
    answer = answers[0] if answers else DownloadError(f"{url}: no response within {FIRST_ANSWER_SECONDS:g} s")
    if isinstance(answer, DownloadError):
        raise answer
    return answer


def _receive(url: str, destination: Path, expected: str) -> None:
    digest = hashlib.sha256()
    with _opened(url, STALLED_SECONDS) as response, destination.open("wb") as file:
        while block := response.read(1 << 20):
            digest.update(block)
            file.write(block)
    if digest.hexdigest() != expected:
        raise DownloadError(f"{url}: SHA-256 is {digest.hexdigest()}, published is {expected}; not used")


@contextmanager
def _opened(url: str, seconds: float) -> Iterator[IO[bytes]]:
    """Request a file; errors until the end of the block become a DownloadError."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:
            yield response
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{url}: {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(f"{url}: {getattr(error, 'reason', error)}") from error


def _extract(archive: Path, release: Release, destination: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile(release.member)
            if member is None:
                raise DownloadError(f"{release.url}: {release.member} is not a file")
            with member, destination.open("wb") as file:
                shutil.copyfileobj(member, file)
    except (KeyError, tarfile.TarError, OSError) as error:
        raise DownloadError(f"{release.url}: {error}") from error
