"""Follows the redirect of a repository with our own transport, which checks every address on the way.

Git itself follows none: it would connect to any address, and send an extra header there. Forges redirect from /repo to
/repo.git, or after a repository has moved; so the request is repeated by the transport, and git gets the final address,
checked and pinned like one of the spec. Redirects over plain http or unverified connections are not followed, and
credentials are sent to no other origin. Messages reveal nothing about other origins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.detours import Detour
from controller.sources.git.connection import Connection, connect
from controller.sources.git.failures import NOT_FOLLOWED
from controller.sources.git.reference import HTTPS, Repository, parse_repository
from controller.sources.redirects import Place, place_of
from controller.sources.redirects import follow as follow_once
from controller.sources.transport import Transport
from controller.sources.trust import authorization_of, certificates_of

_QUERY = "/info/refs?service=git-upload-pack"


def follow(repository: Repository, parameters: Mapping[str, Any], access: Access) -> tuple[Connection, Place]:
    """Return how git reaches the target of a repository's redirect, and its place for messages.

    Another host is not asked here: git does, and the server that redirects learns nothing of that.

    Raises: BundleError (InsecureRefused, and those of the transport and of `connect`).
    """
    message = f"{access.path}.repository: {quote(repository.authority)} {NOT_FOLLOWED}"
    refused = BundleError(Reason.INSECURE_REFUSED, message)
    if repository.scheme != HTTPS or parameters.get("insecureSkipTLSVerify"):
        raise refused
    # Loopback only if the spec names it; an allowed host may redirect to any host.
    own = access.network.allow_loopback and repository.is_loopback
    guarded = replace(access, network=replace(access.network, allow_loopback=own, allowed_hosts=()))
    header = authorization_of(access, repository.user)
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
        raise (Detour(shown=place.unusable()).end(error, access) if place.is_elsewhere else error) from None


def _ask(repository: Repository, parameters: Mapping[str, Any], access: Access, header: str) -> str:
    """Send git's first request; return the URL that responds in the end, or the first one at another host."""
    certificates, named = certificates_of(parameters, access), replace(access, path=f"{access.path}.repository")
    with Transport(named, certificate_data=certificates, loopback=repository.is_loopback) as transport:
        headers = {"Authorization": header} if header else {}
        response = transport.send("GET", repository.url.rstrip("/") + _QUERY, headers, leaves=False)
        found = follow_once(response.url, response.headers.get("Location", "")) if response.is_redirect else ""
        return found or response.url
