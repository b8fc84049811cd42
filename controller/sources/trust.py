"""Which certificates a source trusts, and what it sends to identify itself.

Invariant: credentials are sent over verified https only.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Credentials
from api.v1alpha2.conditions import Reason
from controller.sources.tls_contexts import CONTEXTS

_TOKEN = re.compile(r"[\x21-\x7e]+")


def is_certificate_data(pem: str) -> bool:
    """Return whether text is a bundle of PEM certificates, or '' for the default ones."""
    if not pem:
        return True
    try:
        CONTEXTS.trusting(pem)  # the sources that need it find it created
    except (ssl.SSLError, ValueError):
        return False
    return True


def certificate_problems(parameters: Mapping[str, Any], path: str) -> list[str]:
    """Return what is wrong with the parameter certificateData, starting with its field path below `path`."""
    if is_certificate_data(parameters.get("certificateData", "")):
        return []
    return [f"{path}.certificateData: not a bundle of PEM certificates; correct it"]


def certificates_of(parameters: Mapping[str, Any], access: Access) -> str:
    """Return the certificates to trust, in PEM; '' for the default ones.

    Raises: BundleError (SecretInvalid).
    """
    certificates = (access.credentials or Credentials()).certificate_authority
    if not is_certificate_data(certificates):
        message = f'{access.path}.auth: key "ca.crt" of the Secret is not a bundle of PEM certificates; correct it'
        raise BundleError(Reason.SECRET_INVALID, message)
    return parameters.get("certificateData") or certificates


def authorization_of(access: Access, username: str = "") -> str:
    """Return the value of the header `Authorization`; '' without credentials.

    Args:
        access: credentials, and the path that starts messages.
        username: for a Secret that has a password only.

    Raises: BundleError (SecretInvalid).
    """
    credentials = access.credentials or Credentials()
    if credentials.bearer_token:
        token = credentials.bearer_token.strip()
        if not _TOKEN.fullmatch(token):
            message = f'{access.path}.auth: key "bearerToken" of the Secret is not a valid token; replace it'
            raise BundleError(Reason.SECRET_INVALID, message)
        return f"Bearer {token}"
    if credentials.password:
        return basic(credentials.username or username, credentials.password)
    return ""


def credential_headers(parameters: Mapping[str, Any], access: Access, *, plain: bool) -> dict[str, str]:
    """Return the header that carries the credentials; none without credentials.

    Args:
        parameters: of the source.
        access: credentials, and the path that starts messages.
        plain: whether the server is asked over plain http, which may be on this machine.

    Raises: BundleError (InsecureRefused for plain http and unverified https; SecretInvalid).
    """
    authorization = authorization_of(access)
    if not authorization:
        return {}
    check_secure(access.path, plain=plain, verify=not parameters.get("insecureSkipTLSVerify"))
    return {"Authorization": authorization}


def basic(username: str, password: str) -> str:
    """Return user name and password as `Authorization` carries them (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def check_secure(path: str, *, plain: bool, verify: bool) -> None:
    """Refuse a connection over which credentials must not be sent.

    Raises: BundleError (InsecureRefused for plain http, and for https that is not verified).
    """
    if plain:
        raise BundleError(Reason.INSECURE_REFUSED, f"{path}.auth: credentials are not sent over plain http; use https")
    if not verify:
        message = (
            f"{path}.auth: credentials are not sent if insecureSkipTLSVerify is set; unset it and set certificateData"
        )
        raise BundleError(Reason.INSECURE_REFUSED, message)
