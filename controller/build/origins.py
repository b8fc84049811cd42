"""Origins: where content came from, which is part of its key in the content store.

A digest alone must not give access to stored content: any server may claim to have any digest. So the key also contains
the origin: the server and repository, how they were trusted, and which Secret is named. A pin records the origin that
answered. If the spec has changed since (another Secret, another authority), the key contains both origins, and the
content is fetched again. A pin without an origin, from an older release, shares content with no other BundleDeployment.

The name of a Secret does not tell what it contains: its namespace may have been deleted, and created again for another
tenant. So a pin also records the UIDs and versions of the Secrets that the source was asked with, and the key contains
them, too. Only who has the same Secrets gets what was fetched with them, even if a server checks them for some of its
content only. They are not read again for content that is stored (rule 1).

Pure. This does not depend on plug-ins: content of one that reports no origin is shared among equal parameters only.
"""

from __future__ import annotations

from api.plugins import Resolution
from api.plugins import Source as Plugin
from api.v1alpha2.types import Source, SourcePin
from controller.content.digests import digest_of_json


def origin_of(plugin: Plugin, source: Source, install_namespace: str | None) -> str:
    """Return the digest of the server that is asked for a source's content, and of how it is trusted.

    Args:
        plugin: of the source's kind; one from another package may lack the method `origin`.
        source: from a spec that was checked.
        install_namespace: default namespace of Secrets.
    """
    parameters = source.parameters_json
    ask = getattr(plugin, "origin", None)
    secret = source.secret
    return "v1:" + digest_of_json(
        {
            "kind": source.kind,
            "origin": (ask(parameters) if ask else "") or parameters,
            # A server that only one BundleDeployment trusts must not provide content for another; a Secret may contain
            # an authority, too.
            "certificateData": parameters.get("certificateData") or "",
            "insecureSkipTLSVerify": bool(parameters.get("insecureSkipTLSVerify")),
            "secret": [secret.namespace or install_namespace or "", secret.name] if secret else None,
        }
    )


def content_key(plugin: Plugin, source: Source, resolution: Resolution) -> str:
    """Return what identifies content within its origin; the rendered objects depend on nothing else of a source."""
    return f"{source.kind}|{plugin.content_key(source.parameters_json, resolution)}"


def store_key(key: str, asked: str, answered: str, auth_digest: str = "") -> str:
    """Return the content store key of a content key.

    Args:
        key: a content key.
        asked: the origin by the spec.
        answered: the origin of the pin.
        auth_digest: of the pin; '' for none.
    """
    parts = (asked, answered if answered != asked else "", auth_digest, key)
    return "|".join(filter(None, parts))


def resolution_of(pin: SourcePin) -> Resolution:
    """Return the resolution that a pin records."""
    return Resolution(pinned=pin.resolved, digest=pin.digest, validator=pin.validator, version=pin.version)
