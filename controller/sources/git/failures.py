"""Translates the errors of git.

Git, curl and ssh report errors on standard error only, in English (LC_ALL=C). That text is matched and never quoted: it
contains URLs, names of temporary files, and text of the server, whose own lines ("remote: …") are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.certificates import EXPIRED, NOT_YET_VALID
from controller.content.limits import quote
from controller.sources.git.connection import Repository
from controller.sources.pace import TIMED_OUT
from controller.sources.transport import CUT, NO_TLS, NOT_RESOLVED, REFUSED, unreachable

_CUT = f"{CUT}, or it does not speak git's protocol"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    pattern: re.Pattern[str]
    reason: Reason
    problem: str
    """What is wrong with the host, and the remedy; of an unreachable host, the problem only."""


def _failure(pattern: str, reason: Reason, problem: str) -> _Failure:
    return _Failure(pattern=re.compile(pattern), reason=reason, problem=problem)


NOT_FOLLOWED = (
    "redirects to where git must not follow: to another host with credentials, to plain http, or to an address that is "
    'not allowed; use the final address of the repository, often the one that ends in ".git"'
)
"""The problem of a host whose redirect is refused."""


# The first match counts: specific errors precede their consequences.
_FAILURES = (
    _failure(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|differs from the key for",
        Reason.HOST_KEY_MISMATCH,
        "has a host key that differs from known_hosts; find out why, then correct known_hosts in the Secret of auth",
    ),
    _failure(
        r"host key is known for|Host key verification failed",
        Reason.HOST_KEY_UNKNOWN,
        "has a host key that is not in known_hosts; add it to known_hosts in the Secret of auth",
    ),
    _failure(
        r"incorrect passphrase supplied|error in libcrypto|invalid format",
        Reason.SECRET_INVALID,
        "requires a private key that is readable without a passphrase; replace the key in the Secret of auth",
    ),
    # Of curl with OpenSSL, of GnuTLS, and of curl's own checks with GnuTLS.
    _failure(
        r"certificate is not yet valid|chain uses not yet valid certificate|certificate not activated yet",
        Reason.TLS_VERIFICATION_FAILED,
        f"has a certificate that {NOT_YET_VALID}",
    ),
    _failure(
        r"certificate has expired|chain uses expired certificate|certificate expiration date has passed",
        Reason.TLS_VERIFICATION_FAILED,
        f"has a certificate that {EXPIRED}",
    ),
    _failure(
        r"certificate verification failed\. CAfile",  # of curl before 8.11 with GnuTLS, whatever is wrong
        Reason.TLS_VERIFICATION_FAILED,
        "has a certificate that cannot be verified; check certificateData, the dates of the certificate, and the clock",
    ),
    _failure(
        r"certificate verification failed|SSL certificate problem|no alternative certificate subject name"
        r"|certificate subject name .* does not match|unable to get local issuer certificate",
        Reason.TLS_VERIFICATION_FAILED,
        "has a certificate that cannot be verified; check certificateData",
    ),
    _failure(r"gnutls_handshake\(\) failed|SSL_ERROR|TLS connect error|SSL_connect", Reason.UNREACHABLE, NO_TLS),
    _failure(
        r"could not read (?:Username|Password)|Authentication failed|returned error: 40[13]\b|Permission denied \(",
        Reason.UNAUTHORIZED,
        "denies access to the repository, or does not have it; correct repository, or check auth",
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
        "does not have the repository; correct repository, or check auth",
    ),
    _failure(
        r"not a tree object",
        Reason.NOT_FOUND,
        "has something else than a commit by the name in ref; name a branch, a commit or another tag",
    ),
    _failure(r"returned error: (?:408|429)\b", Reason.UNREACHABLE, "it limits the rate of requests"),
    _failure(r"returned error: 4\d\d\b", Reason.UNREACHABLE, "it refuses the request"),
    _failure(r"returned error: 5\d\d\b", Reason.UNREACHABLE, "it returned a server error"),
    _failure(r"Connection refused|Couldn't connect to server", Reason.UNREACHABLE, REFUSED),
    _failure(r"Could not resolve host", Reason.UNREACHABLE, NOT_RESOLVED),
    _failure(
        r"timed out|Operation too slow|No route to host|Network is unreachable|not responding",
        Reason.UNREACHABLE,
        TIMED_OUT,
    ),
    _failure(
        r"dumb http transport does not support",
        Reason.UNSUPPORTED_CONTENT,
        "serves the repository as plain files; serve it with git http-backend, or from a forge",
    ),
    _failure(
        r"No space left on device|Disk quota exceeded",
        Reason.STORAGE_FULL,
        "sends more than the disk of the content store has space for; enlarge it",
    ),
    _failure(
        r"Out of memory|out of memory|mmap failed: Cannot allocate",
        Reason.CONTENT_REJECTED,
        "sends more than git may hold in memory; make the repository or its files smaller",
    ),
    _failure(
        r"unexpected disconnect|early EOF|bytes of body are still expected|transfer closed|RPC failed",
        Reason.UNREACHABLE,
        _CUT,
    ),
    _failure(
        r"fsck error|badTree|bad object|Not all child objects",
        Reason.CONTENT_REJECTED,
        "sends objects that git fsck refuses; repair the repository",
    ),
    _failure(
        r"SHA\d+ mismatch|SHA\d+ COLLISION|pack is corrupted|pack has bad object|inflate: data stream error"
        r"|bad pack|pack signature mismatch|unresolved deltas|did not send all necessary objects|could not fetch",
        Reason.DIGEST_MISMATCH,
        "sends objects that do not match their hashes, or omits some; repair the repository",
    ),
)
_UNKNOWN = _failure("", Reason.UNREACHABLE, _CUT)
# The first is how servers refuse a missing object in protocol v2, or where clients may request any name. Of the
# others, git itself reports the first, before a request, if a server serves refs only; JGit reports the second.
_ABSENT = re.compile(r"not our ref")
_NOT_BY_NAME = re.compile(r"unadvertised object|want [0-9a-f]+ not valid|couldn't find remote ref")

_REDIRECTED = re.compile(r"returned error: 30\d")


class NotServedError(Exception):
    """The server does not serve an object by its name.

    Args:
        is_absent: whether it lacks the object, rather than serves none by name.
    """

    def __init__(self, *, is_absent: bool) -> None:
        super().__init__("object is not served")
        self.is_absent = is_absent


class RedirectedError(BundleError):
    """The server redirects, which git does not follow (redirect.py does)."""


def check_served(complaint: str) -> None:
    """Check that git does not complain about an object that is not served by name.

    Raises: NotServedError.
    """
    if _ABSENT.search(complaint):
        raise NotServedError(is_absent=True)
    if _NOT_BY_NAME.search(complaint):
        raise NotServedError(is_absent=False)


def translate(complaint: str, repository: Repository, path: str) -> BundleError:
    """Return the error for a complaint.

    Args:
        complaint: standard error of git.
        repository: of the request.
        path: of the source in the spec; starts the message.
    """
    text = "\n".join(line for line in complaint.splitlines() if not line.startswith("remote: "))
    failure = next((failure for failure in _FAILURES if failure.pattern.search(text)), _UNKNOWN)
    if failure.reason is Reason.UNREACHABLE:
        return unreachable(f"{path}.repository", repository.authority, failure.problem)
    kind = RedirectedError if _REDIRECTED.search(text) else BundleError
    return kind(failure.reason, f"{path}.repository: {quote(repository.authority)} {failure.problem}")
