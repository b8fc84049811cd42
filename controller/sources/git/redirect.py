"""Reaches a repository, following a redirect with our own transport, which checks every address on the way.

Git itself follows none: it would connect to any address, and send an extra header there. Forges redirect from /repo to
/repo.git, or after a repository has moved; so the request is repeated by the transport, and git gets the final address,
checked and pinned like one of the spec. Redirects over plain http or unverified connections are not followed, and
credentials are sent to no other origin. Messages reveal nothing about other origins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from api.errors import BundleError
from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.content.limits import quote
from controller.sources.git.connection import HTTPS, Connection, Repository, connect, parse_repository
from controller.sources.git.failures import NOT_FOLLOWED, RedirectedError
from controller.sources.git.objects import Objects
from controller.sources.redirects import Detour, Place, place_of
from controller.sources.transport import Transport
from controller.sources.trust import authorization_of, certificates_of

Found = TypeVar("Found")

_QUERY = "/info/refs?service=git-upload-pack"


def reach(
    repository: Repository,
    parameters: Mapping[str, Any],
    access: Access,
    work: Callable[[Connection, Access, Place], Found],
) -> Found:
    """Do some work with a repository; if its server redirects, do it again with the target.

    Raises: BundleError; whatever `work` raises.
    """
    place = Place(subject=f"{access.path}.repository", host=repository.authority)
    try:
        return work(connect(repository, parameters, access), access, place)
    except RedirectedError:
        connection, place = _follow(repository, parameters, access)
        if place.is_elsewhere:
            _check_elsewhere(repository, connection, access, place)
            received = access.receive
            access = replace(access, progress=lambda done, _: received(done))
        return work(connection, access, place)


def _check_elsewhere(repository: Repository, connection: Connection, access: Access, place: Place) -> None:
    """Check that there is a repository where a server redirects to; anything else looks the same.

    Raises: BundleError.
    """
    detour = Detour(shown=place.unusable())
    hurried = replace(access, deadline=min(access.deadline, detour.until))
    try:
        if not Objects(repository, connection, hurried, place).list_refs("HEAD"):
            raise detour.shown  # git takes any text for a list without refs
    except BundleError as error:
        raise detour.end(error, access) from None


def _follow(repository: Repository, parameters: Mapping[str, Any], access: Access) -> tuple[Connection, Place]:
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
        return (response.follow() if response.is_redirect else "") or response.url
