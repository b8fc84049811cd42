"""Where the server of a repository redirects to: found by our own transport, which judges every address on the way.

Git itself follows nothing: it would connect wherever it is sent, and take an extra header along. A forge redirects from
/repo to /repo.git, or from where a repository was; so its answer is asked for once more, and git is given the address
that it leads to, judged and pinned like one of the spec. Plain http, and a connection that is not verified, are not
followed; credentials go to no other origin. No message tells what a redirect brought.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Credentials
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.git_connection import Connection, authority_of, connect, header_of
from controller.sources.git_failures import NOT_FOLLOWED
from controller.sources.git_reference import HTTPS, Repository, parse_repository
from controller.sources.transport import Transport

_QUERY = "/info/refs?service=git-upload-pack"


def follow(repository: Repository, parameters: Mapping[str, Any], access: Access) -> Connection:
    """Return how git reaches the place that a repository's server redirects to.

    Raises: BundleError (InsecureRefused, Unreachable, TLSVerificationFailed, SecretInvalid).
    """
    subject = f"{access.path}.repository: {quote(repository.authority)}"
    if repository.scheme != HTTPS or parameters.get("insecureSkipTLSVerify"):
        raise BundleError(Reason.INSECURE_REFUSED, f"{subject} {NOT_FOLLOWED}")
    # An address that the spec does not name leads nowhere on this machine.
    own = access.network.allow_loopback and repository.is_loopback
    guarded = replace(access, network=replace(access.network, allow_loopback=own))
    try:
        return connect(_find(repository, parameters, guarded), parameters, guarded)
    except BundleError as error:
        raise _translate(error, subject) from None


def _translate(error: BundleError, subject: str) -> BundleError:
    if error.reason is Reason.UNREACHABLE:
        problem = "redirects to where nobody answers; check address and network, or write another repository"
        return BundleError(error.reason, f"{subject} {problem}", retry_after=error.retry_after)
    if error.reason is Reason.TLS_VERIFICATION_FAILED:
        problem = "redirects to where the certificate cannot be verified; see to certificateData"
        return BundleError(error.reason, f"{subject} {problem}")
    return BundleError(Reason.INSECURE_REFUSED, f"{subject} {NOT_FOLLOWED}")


def _find(repository: Repository, parameters: Mapping[str, Any], access: Access) -> Repository:
    header = header_of(repository, access.credentials or Credentials(), access)
    headers = {"Authorization": header} if header else {}
    authority = authority_of(parameters, access)
    with Transport(access, certificate_data=authority, loopback=repository.is_loopback) as transport:
        response = transport.send("GET", repository.url.rstrip("/") + _QUERY, headers)
        response.close()
    try:
        target = parse_repository(response.url.removesuffix(_QUERY))
    except ValueError:
        raise _refused(access) from None
    is_elsewhere = (target.scheme, target.host, target.port) != (repository.scheme, repository.host, repository.port)
    if not response.url.endswith(_QUERY) or target.normal == repository.normal or (header and is_elsewhere):
        raise _refused(access)
    return target


def _refused(access: Access) -> BundleError:
    return BundleError(Reason.INSECURE_REFUSED, f"{access.path}.repository: redirected to where git must not go")
