"""Repository URLs and refs: which spellings git may ever see.

Pure. Git takes `ext::` and `file://` for a transport, a leading "-" for an option and a name for a pattern, so nothing
reaches it that is not one of the forms here: https, http, ssh and scp-like URLs (git-clone(1), "GIT URLS"), and refs as
git-check-ref-format(1) has them.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from controller.sources.image.reference import is_loopback

FULL_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""A full object name, SHA-1 or SHA-256."""
SHORT_COMMIT = re.compile(r"[0-9a-f]{4,63}")
"""What may be the beginning of one; git takes four digits at least."""

PEELED = "^{}"
"""After the name of an annotated tag: what it is about."""

HTTPS, HTTP, SSH = "https", "http", "ssh"
_PORTS = {HTTPS: 443, HTTP: 80, SSH: 22}
_URL_BYTES, _REF_BYTES = 2048, 255
_LARGEST_PORT = 65535

_FORMS = "is not https://host/path, ssh://user@host/path or user@host:path; correct it"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NO_HOSTS = ("https", "http", "ssh", "git", "file", "ext")  # somebody forgot the slashes
_USER = re.compile(r"[A-Za-z0-9._~][A-Za-z0-9._~-]*")
# Without blanks, control characters (also encoded: git decodes them), backslash, query and fragment.
_PATH = re.compile(r"(?:[^\s\x00-\x20\x7f-\x9f\\%?#]|%(?![01]|7[Ff])[0-9A-Fa-f]{2})+")
# A second colon would be a remote helper (ext::), two slashes another scheme (file://).
_SCP_LIKE = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:]+):(?P<path>(?!//)[^:-].*)", re.DOTALL)

_REF_CHARACTERS = re.compile(r"[^\x00-\x20\x7f-\x9f~^:?*\[\\]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Where a repository is, taken apart."""

    url: str
    """As git is told: no user in it for http and https, since the headers say who asks."""
    scheme: str
    """https, http or ssh (also for a scp-like URL)."""
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    user: str = ""
    normal: str
    """The one spelling of what is named."""

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine by name."""
        return is_loopback(self.host)

    @property
    def usual_port(self) -> int:
        """The scheme's own."""
        return _PORTS[self.scheme]

    @property
    def authority(self) -> str:
        """Host, and port if it is not the usual one, as URLs and messages have it."""
        return _authority(self.scheme, self.host, self.port)

    @property
    def host_key_name(self) -> str:
        """What the host is called in known_hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT")."""
        return self.host if self.port == _PORTS[SSH] else f"[{self.host}]:{self.port}"


def parse_repository(text: str) -> Repository:
    """Take the URL of a repository apart.

    Raises: ValueError, whose text says what is wrong and how it should be.
    """
    if len(text.encode(errors="replace")) > _URL_BYTES:
        raise ValueError(f"is longer than {_URL_BYTES} bytes; shorten it")
    if not text.isprintable() or " " in text:  # urlsplit would drop some of them
        raise ValueError("has blanks or control characters in it; correct it")
    return _parse_url(text) if "://" in text else _parse_scp_like(text)


def _parse_url(text: str) -> Repository:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(_FORMS) from None
    if parts.scheme not in _PORTS or not text.lower().startswith(f"{parts.scheme}://"):
        raise ValueError(_FORMS)
    user, host = parts.username or "", _host(parts)
    if parts.password is not None:
        raise ValueError("must not hold a password; name a Secret in auth")
    if "@" in parts.netloc and not _USER.fullmatch(user):
        raise ValueError("has a user that is not made of letters, digits and . _ ~ -; correct it")
    _check_path(text.partition("://")[2].partition("/")[2])
    return _make(parts.scheme, user, host, _PORTS[parts.scheme] if port is None else port, parts.path)


def _host(parts: SplitResult) -> str:
    """Return the host, whose port is one if there is a colon."""
    authority = parts.netloc.rpartition("@")[2]
    host = parts.hostname or ""
    if authority.startswith("["):
        _check_address(host)
    elif not _HOST.fullmatch(host):
        raise ValueError("has a host that is not a host name; correct it")
    if authority.endswith(":") or parts.port == 0:
        raise ValueError(f"has a port that is not 1 to {_LARGEST_PORT}; correct it")
    return host


def _check_address(host: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError("has brackets around what is not an IPv6 address; correct it") from None
    if "%" in host:
        raise ValueError("has an address with a zone; take it out")


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
    # Not ssh://: there the path is absolute, here it begins at the user's home.
    return Repository(url=url, scheme=SSH, host=host, port=_PORTS[SSH], user=user, normal=url.rstrip("/"))


def _check_path(path: str) -> None:
    if not path.strip("/"):
        raise ValueError("names a host and no repository there; add the path")
    if path.startswith("-") or not _PATH.fullmatch(path):
        raise ValueError("has a path with blanks, control characters, a backslash, ? or #; correct it")


def _make(scheme: str, user: str, host: str, port: int, path: str) -> Repository:
    prefix = f"{user}@" if user and scheme == SSH else ""
    url = f"{scheme}://{prefix}{_authority(scheme, host, port)}{path}"
    return Repository(url=url, scheme=scheme, host=host, port=port, user=user, normal=url.rstrip("/"))


def _authority(scheme: str, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _PORTS[scheme] else f"{shown}:{port}"


def check_ref(ref: str) -> None:
    """Refuse what cannot be a commit, tag, branch or full ref.

    Raises: ValueError, whose text says what is wrong and how it should be.
    """
    parts = ref.split("/")
    if len(ref.encode(errors="replace")) > _REF_BYTES:
        raise ValueError(f"is longer than {_REF_BYTES} bytes; shorten it")
    if ref.startswith("-") or ref == "@":
        raise ValueError("is an option or an operator of git; name a commit, a tag or a branch")
    if not _REF_CHARACTERS.fullmatch(ref) or not ref.isprintable():
        raise ValueError(r"is empty, or has a blank, a control character or one of ~^:?*[\ in it; correct it")
    if ".." in ref or "@{" in ref or ref.endswith("."):
        raise ValueError('has "..", "@{" or a dot at its end, which no ref may have; correct it')
    if any(part == "" or part.startswith(".") or part.endswith(".lock") for part in parts):
        raise ValueError('has an element that is empty, begins with "." or ends in ".lock"; correct it')


def candidates(ref: str) -> tuple[str, ...]:
    """Return the full names that a ref may stand for, the first that exists counts (gitrevisions(7))."""
    if ref == "HEAD" or ref.startswith("refs/"):
        return (ref,)
    return (f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}")
