"""Repository URLs and refs: which ones are passed to git.

Pure. Git takes `ext::` and `file://` for a transport, a leading "-" for an option and a name for a pattern, so only
these forms are passed on: https, http, ssh and scp-like URLs (git-clone(1), "GIT URLS"), and refs that
git-check-ref-format(1) accepts.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from controller.sources.hosts import PORTS, Location

FULL_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""A full object name, SHA-1 or SHA-256."""
SHORT_COMMIT = re.compile(r"[0-9a-f]{4,63}")
"""An abbreviated object name; git requires at least four digits."""

PEELED = "^{}"
"""Suffix of an annotated tag: the object that it tags."""

HTTPS, HTTP, SSH = "https", "http", "ssh"
_URL_BYTES, _REF_BYTES = 2048, 255
_LARGEST_PORT = 65535

_FORMS = "is not https://host/path, ssh://user@host/path or user@host:path; correct it"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NO_HOSTS = ("https", "http", "ssh", "git", "file", "ext")  # schemes without slashes
_USER = re.compile(r"[A-Za-z0-9._~][A-Za-z0-9._~-]*")
# Without blanks, control characters (also encoded: git decodes them), backslash, query and fragment.
_PATH = re.compile(r"(?:[^\s\x00-\x20\x7f-\x9f\\%?#]|%(?![01]|7[Ff])[0-9A-Fa-f]{2})+")
# A second colon would be a remote helper (ext::), two slashes another scheme (file://).
_SCP_LIKE = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:]+):(?P<path>(?!//)[^:-].*)", re.DOTALL)

_REF_CHARACTERS = re.compile(r"[^\x00-\x20\x7f-\x9f~^:?*\[\\]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository(Location):
    """The parts of a repository URL; the scheme of an scp-like one is ssh."""

    url: str
    """For git: without the user for http and https, where headers carry the credentials."""
    user: str = ""
    normal: str
    """The URL in normal form."""

    @property
    def host_key_name(self) -> str:
        """The name of the host in known_hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT")."""
        return self.host if self.port == PORTS[SSH] else f"[{self.host}]:{self.port}"


def parse_repository(text: str) -> Repository:
    """Parse the URL of a repository.

    Raises: ValueError with the problem and the remedy.
    """
    if len(text.encode(errors="replace")) > _URL_BYTES:
        raise ValueError(f"is longer than {_URL_BYTES} bytes; shorten it")
    if not text.isprintable() or " " in text:  # urlsplit would drop some of them
        raise ValueError("contains blanks or control characters; correct it")
    return _parse_url(text) if "://" in text else _parse_scp_like(text)


def _parse_url(text: str) -> Repository:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_FORMS) from None
    if parts.scheme not in PORTS or not text.lower().startswith(f"{parts.scheme}://"):
        raise ValueError(_FORMS)
    user, host = parts.username or "", _host(parts)
    if parts.password is not None:
        raise ValueError("must not contain a password; use a Secret in auth")
    if "@" in parts.netloc and not _USER.fullmatch(user):
        raise ValueError("has a user with characters other than letters, digits and . _ ~ -; correct it")
    _check_path(text.partition("://")[2].partition("/")[2])
    return _make(parts.scheme, user, host, PORTS[parts.scheme] if port is None else port, parts.path)


def _host(parts: SplitResult) -> str:
    """Return the host; refuse a colon without a valid port."""
    location = parts.netloc.rpartition("@")[2]
    host = parts.hostname or ""
    if location.startswith("["):
        _check_address(host)
    elif not _HOST.fullmatch(host):
        raise ValueError("has an invalid host name; correct it")
    if location.endswith(":") or parts.port == 0:
        raise ValueError(f"has a port outside 1 to {_LARGEST_PORT}; correct it")
    return host


def _check_address(host: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError("has brackets around an invalid IPv6 address; correct it") from None
    if "%" in host:
        raise ValueError("has an address with a zone; remove the zone")


def _parse_scp_like(text: str) -> Repository:
    match = _SCP_LIKE.fullmatch(text)
    if not match:
        raise ValueError(_FORMS)
    user, host, path = match["user"] or "", match["host"], match["path"]
    if host.lower() in _NO_HOSTS or not _HOST.fullmatch(host) or (user and not _USER.fullmatch(user)):
        raise ValueError(_FORMS)
    _check_path(path)
    host, prefix = host.lower(), f"{user}@" if user else ""
    url = f"{prefix}{host}:{path}"
    # Not ssh://, whose path is absolute: here it is relative to the user's home.
    return Repository(url=url, scheme=SSH, host=host, port=PORTS[SSH], user=user, normal=url.rstrip("/"))


def _check_path(path: str) -> None:
    if not path.strip("/"):
        raise ValueError("has no path; add the path of the repository")
    if path.startswith("-") or not _PATH.fullmatch(path):
        raise ValueError('has a path with a leading "-", blanks, control characters, a backslash, ? or #; correct it')


def _make(scheme: str, user: str, host: str, port: int, path: str) -> Repository:
    prefix = f"{user}@" if user and scheme == SSH else ""
    url = f"{scheme}://{prefix}{Location(scheme=scheme, host=host, port=port).authority}{path}"
    return Repository(url=url, scheme=scheme, host=host, port=port, user=user, normal=url.rstrip("/"))


def check_ref(ref: str) -> None:
    """Refuse a ref that cannot be a commit, tag, branch or full ref.

    Raises: ValueError with the problem and the remedy.
    """
    parts = ref.split("/")
    if len(ref.encode(errors="replace")) > _REF_BYTES:
        raise ValueError(f"is longer than {_REF_BYTES} bytes; shorten it")
    if ref.startswith("-") or ref == "@":
        raise ValueError("is an option or an operator of git; use a commit, a tag or a branch")
    if not _REF_CHARACTERS.fullmatch(ref) or not ref.isprintable():
        raise ValueError(r"is empty, or contains a blank, a control character or one of ~^:?*[\; correct it")
    if ".." in ref or "@{" in ref or ref.endswith("."):
        raise ValueError('contains "..", "@{" or a final dot, which are not allowed in refs; correct it')
    if any(part == "" or part.startswith(".") or part.endswith(".lock") for part in parts):
        raise ValueError('has an element that is empty, starts with "." or ends in ".lock"; correct it')


def candidates(ref: str) -> tuple[str, ...]:
    """Return the full names of a ref, of which the first that exists counts (gitrevisions(7))."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}")
