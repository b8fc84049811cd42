"""What git complains of, and the error of ours for it.

Git, curl and ssh say what is wrong on standard error only, in English (LC_ALL=C). That text is matched and never
quoted: it holds URLs, names of temporary files, and whatever the server likes to say; lines that the server dictated
("remote: …") are not even looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.git.reference import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    pattern: re.Pattern[str]
    reason: Reason
    problem: str
    """What is wrong with the repository at its host, and the remedy."""


def _failure(pattern: str, reason: Reason, problem: str) -> _Failure:
    return _Failure(pattern=re.compile(pattern), reason=reason, problem=problem)


NOT_FOLLOWED = (
    "redirects to where git must not follow: to another host with credentials, to plain http, or to an address that is "
    'not allowed; write the address of the repository itself, often the one that ends in ".git"'
)
"""What is wrong with a host whose redirect is refused."""
_CUT = "cannot be used: the connection was cut, or it does not speak git's protocol; check address and network"
# The first that fits counts: what is particular stands before what follows from it.
_FAILURES = (
    _failure(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|differs from the key for",
        Reason.HOST_KEY_MISMATCH,
        "shows another host key than known_hosts has; find out why, then correct known_hosts in the Secret of auth",
    ),
    _failure(
        r"host key is known for|Host key verification failed",
        Reason.HOST_KEY_UNKNOWN,
        "shows a host key that known_hosts does not have; add it to known_hosts in the Secret of auth",
    ),
    _failure(
        r"incorrect passphrase supplied|error in libcrypto|invalid format",
        Reason.SECRET_INVALID,
        "needs a private key that can be read without a passphrase; put one into the Secret of auth",
    ),
    _failure(
        r"certificate verification failed|SSL certificate problem|no alternative certificate subject name"
        r"|certificate subject name .* does not match|unable to get local issuer certificate",
        Reason.TLS_VERIFICATION_FAILED,
        "shows a certificate that cannot be verified; see to certificateData",
    ),
    _failure(
        r"gnutls_handshake\(\) failed|SSL_ERROR|TLS connect error|SSL_connect",
        Reason.UNREACHABLE,
        "cannot be used: it does not speak TLS as it should; check address and network",
    ),
    _failure(
        r"could not read (?:Username|Password)|Authentication failed|returned error: 40[13]\b|Permission denied \(",
        Reason.UNAUTHORIZED,
        "does not give the repository to this caller, or does not have it; correct repository, or see to auth",
    ),
    _failure(
        r"returned error: 30\d|protocol .* not (?:supported|allowed)|Protocol .* (?:disabled|not supported)"
        r"|transport '.*' not allowed",
        Reason.INSECURE_REFUSED,
        NOT_FOLLOWED,
    ),
    _failure(
        r"repository '.*' not found|not valid: is this a git repository|does not appear to be a git repository"
        r"|(?i:repository not found)|returned error: 4(?:04|10)\b|not a git repository",
        Reason.NOT_FOUND,
        "does not have the repository; correct repository, or see to auth",
    ),
    _failure(
        r"returned error: (?:408|429)\b",
        Reason.UNREACHABLE,
        "cannot be used: it asks for fewer requests; it is tried again by itself",
    ),
    _failure(
        r"returned error: 5\d\d\b",
        Reason.UNREACHABLE,
        "cannot be used: it answers with a failure of its own; it is tried again by itself",
    ),
    _failure(
        r"Connection refused|Couldn't connect to server",
        Reason.UNREACHABLE,
        "cannot be used: it takes no connection; check address and network",
    ),
    _failure(
        r"Could not resolve host",
        Reason.UNREACHABLE,
        "cannot be used: its name cannot be resolved; check address and network",
    ),
    _failure(
        r"timed out|Operation too slow|No route to host|Network is unreachable|not responding",
        Reason.UNREACHABLE,
        "cannot be used: it does not answer in time; check address and network",
    ),
    _failure(
        r"dumb http transport does not support",
        Reason.UNSUPPORTED_CONTENT,
        "serves the repository as plain files; serve it by git http-backend, or by a forge",
    ),
    _failure(
        r"No space left on device|Disk quota exceeded",
        Reason.STORAGE_FULL,
        "brings more than the disk of the content store has room for; give it more room",
    ),
    _failure(
        r"Out of memory|out of memory|mmap failed: Cannot allocate",
        Reason.CONTENT_REJECTED,
        "brings more than git may hold in memory; make the repository or its files smaller",
    ),
    _failure(
        r"unexpected disconnect|early EOF|bytes of body are still expected|transfer closed|RPC failed",
        Reason.UNREACHABLE,
        _CUT,
    ),
    _failure(
        r"fsck error|badTree|bad object|Not all child objects",
        Reason.CONTENT_REJECTED,
        "brings objects that git fsck refuses; repair the repository",
    ),
    _failure(
        r"SHA\d+ mismatch|SHA\d+ COLLISION|pack is corrupted|pack has bad object|inflate: data stream error"
        r"|bad pack|pack signature mismatch|unresolved deltas|did not send all necessary objects|could not fetch",
        Reason.DIGEST_MISMATCH,
        "sends objects that are not what their names say, or not all of them; repair the repository",
    ),
)
# In protocol v2, and where a server lets clients ask for any name, it says the first of what it does not have. Git
# itself says the second, before it asks, where a server has refs only; JGit says the third.
_ABSENT = re.compile(r"not our ref")
_NOT_BY_NAME = re.compile(r"unadvertised object|want [0-9a-f]+ not valid|couldn't find remote ref")

_REDIRECTED = re.compile(r"returned error: 30\d")


class NotServedError(Exception):
    """The server does not hand out an object by its name.

    Args:
        is_absent: it does not have the object, rather than not to hand out any in this way.
    """

    def __init__(self, *, is_absent: bool) -> None:
        super().__init__("object is not served")
        self.is_absent = is_absent


class RedirectedError(BundleError):
    """The server answers with a redirect, which git does not follow (redirect.py does)."""


def check_served(complaint: str) -> None:
    """Raise NotServedError if that is what git complains of."""
    if _ABSENT.search(complaint):
        raise NotServedError(is_absent=True)
    if _NOT_BY_NAME.search(complaint):
        raise NotServedError(is_absent=False)


def translate(complaint: str, repository: Repository, path: str) -> BundleError:
    """Return the error for a complaint.

    Args:
        complaint: standard error of git.
        repository: the one that was asked.
        path: of the source in the spec; the message begins with it.
    """
    text = "\n".join(line for line in complaint.splitlines() if not line.startswith("remote: "))
    failure = next((failure for failure in _FAILURES if failure.pattern.search(text)), None)
    reason, problem = (failure.reason, failure.problem) if failure else (Reason.UNREACHABLE, _CUT)
    kind = RedirectedError if _REDIRECTED.search(text) else BundleError
    return kind(reason, f"{path}.repository: {quote(repository.authority)} {problem}")
