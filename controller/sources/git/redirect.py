"""Where the server of a repository redirects to: found by our own transport, which judges every address on the way.

Git itself follows nothing: it would connect wherever it is sent, and take an extra header along. A forge redirects from
/repo to /repo.git, or from where a repository was; so its answer is asked for once more, and git is given the address
that it leads to, judged and pinned like one of the spec. Plain http, and a connection that is not verified, are not
followed; credentials go to no other origin. Of another origin nothing is told but that it cannot be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Credentials
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.git.connection import Connection, authority_of, connect, header_of
from controller.sources.git.failures import NOT_FOLLOWED
from controller.sources.git.reference import HTTPS, Repository, parse_repository
from controller.sources.redirects import Place, place_of
from controller.sources.transport import Transport

_QUERY = "/info/refs?service=git-upload-pack"


def follow(repository: Repository, parameters: Mapping[str, Any], access: Access) -> tuple[Connection, Place]:
    """Return how git reaches where a repository's server redirects to, and what may be told of that place.

    Raises: BundleError (InsecureRefused, and those of the transport and of `connect`).
    """
    refused = BundleError(
        Reason.INSECURE_REFUSED, f"{access.path}.repository: {quote(repository.authority)} {NOT_FOLLOWED}"
    )
    if repository.scheme != HTTPS or parameters.get("insecureSkipTLSVerify"):
        raise refused
    # An address that the spec does not name leads nowhere on this machine; a host that is allowed may name others.
    own = access.network.allow_loopback and repository.is_loopback
    guarded = replace(access, network=replace(access.network, allow_loopback=own, allowed_hosts=()))
    header = header_of(repository, access.credentials or Credentials(), access)
    url = _ask(repository, parameters, guarded, header)
    place = place_of(f"{access.path}.repository", repository.url, url)
    try:
        target = parse_repository(url.removesuffix(_QUERY))
    except ValueError:
        raise refused from None
    if not url.endswith(_QUERY) or target.normal == repository.normal or (header and place.is_elsewhere):
        raise refused
    try:
        return connect(target, parameters, guarded), place
    except BundleError as error:
        raise place.show(error) from None


def _ask(repository: Repository, parameters: Mapping[str, Any], access: Access, header: str) -> str:
    """Ask what git asks first. Returns: the URL that has answered in the end."""
    authority, told = authority_of(parameters, access), replace(access, path=f"{access.path}.repository")
    with Transport(told, certificate_data=authority, loopback=repository.is_loopback) as transport:
        headers = {"Authorization": header} if header else {}
        return transport.send("GET", repository.url.rstrip("/") + _QUERY, headers).url
