"""Connecting to the repository of a reference: which server, which scheme, which credentials.

Https is the default; plain http is used for loopback registries without certificates and credentials, and, if
insecureSkipTLSVerify is set, for registries without TLS. Credentials are sent over verified https only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from api.plugins import Access
from api.v1alpha2.conditions import Reason
from controller.sources.detours import Detour
from controller.sources.hosts import PORTS, Location, check_host
from controller.sources.image.endpoint import find_endpoint
from controller.sources.image.logins import Login, choose_credentials
from controller.sources.image.reference import ImageReference
from controller.sources.image.registry import Registry
from controller.sources.image.tokens import TokenServer
from controller.sources.transport import Transport
from controller.sources.trust import certificates_of, check_secure

RegistryT = TypeVar("RegistryT", bound=Registry)


@contextmanager
def connected(
    parameters: Mapping[str, Any],
    reference: ImageReference,
    access: Access,
    *,
    missing: Reason,
    kind: Callable[..., RegistryT],
    field: str = "ref",
    detour: Detour | None = None,
) -> Iterator[RegistryT]:
    """Provide the repository that a reference names, for one call.

    Args:
        parameters: of the source.
        reference: its tag and digest are ignored.
        access: of the call.
        missing: reason for a 404: NotFound while resolving, PinnedContentGone afterwards.
        kind: takes the arguments of Registry.
        field: of the spec that names the repository; in messages.
        detour: if the spec does not name the registry.

    Raises: BundleError (InsecureRefused, SecretInvalid).
    """
    subject = f"{access.path}.{field}"
    _check_registry(reference, access, subject)
    endpoint = find_endpoint(reference, access.network.registry_mirrors)
    certificates = certificates_of(parameters, access)
    verify = not parameters.get("insecureSkipTLSVerify")
    candidates = choose_credentials(access.credentials, endpoint)
    if candidates:
        check_secure(access.path, plain=False, verify=verify)
    with Transport(
        replace(access, path=subject),
        certificate_data=certificates,
        verify=verify,
        loopback=endpoint.is_loopback,
        detour=detour,
    ) as transport:
        yield kind(
            transport,
            endpoint,
            Login(TokenServer(transport, endpoint, access.path, verify=verify), candidates),
            schemes=_schemes(verify=verify, loopback=endpoint.is_loopback, wants_tls=bool(certificates or candidates)),
            path=access.path,
            field=field,
            missing=missing,
        )


def _check_registry(reference: ImageReference, access: Access, subject: str) -> None:
    parts = urlsplit(f"//{reference.registry}")
    location = Location(scheme="https", host=parts.hostname or "", port=parts.port or PORTS["https"])
    check_host(subject, location, access.network)


def _schemes(*, verify: bool, loopback: bool, wants_tls: bool) -> tuple[str, ...]:
    if not verify:
        return ("https", "http")
    return ("http", "https") if loopback and not wants_tls else ("https",)
