"""Who gave a content, and by which key it is stored: a digest alone opens nothing that others have put there.

Any server may claim to have any digest. So the key holds the origin of the content as well: who was asked (registry and
repository, URL, git repository), how that was trusted, and with which Secret. A pin records the origin that has
answered for it. Where the spec has come to say something else since (another Secret, another authority), both are in
the key: what the one gave is not opened by the other, and is fetched anew as the spec now says. A pin without an
origin, of an older release, shares with nobody.

Pure. Plug-ins cannot forget any of it: one that does not say who it asks shares only among equal parameters.
"""

from __future__ import annotations

from api.plugins import Resolution
from api.plugins import Source as Plugin
from api.v1alpha2.types import Source, SourcePin
from controller.content.digests import digest_of_json


def origin_of(plugin: Plugin, source: Source, install_namespace: str | None) -> str:
    """Return the digest of who is asked for a source's content, and of how that is trusted.

    Args:
        plugin: serves the kind of the source; out of tree it may lack the method `origin`.
        source: of a spec that was checked.
        install_namespace: of the spec, where Secrets are that name no namespace.
    """
    parameters = source.parameters_json
    ask = getattr(plugin, "origin", None)
    secret = source.secret
    return "v1:" + digest_of_json(
        {
            "kind": source.kind,
            "origin": (ask(parameters) if ask else "") or parameters,
            # A server that only one of them trusts must not speak for another: its Secret may name an authority, too.
            "certificateData": parameters.get("certificateData") or "",
            "insecureSkipTLSVerify": bool(parameters.get("insecureSkipTLSVerify")),
            "secret": [secret.namespace or install_namespace or "", secret.name] if secret else None,
        }
    )


def content_key(plugin: Plugin, source: Source, resolution: Resolution) -> str:
    """Return what tells the content from others of the same origin: what is rendered depends on this alone."""
    return f"{source.kind}|{plugin.content_key(source.parameters_json, resolution)}"


def store_key(key: str, asked: str, answered: str) -> str:
    """Return the key in the content store.

    Args:
        key: the content key.
        asked: origin as the spec has it now.
        answered: origin that the pin records.
    """
    return f"{asked}|{key}" if answered == asked else f"{asked}|{answered}|{key}"


def resolution_of(pin: SourcePin) -> Resolution:
    """Return what a pin records."""
    return Resolution(pinned=pin.resolved, digest=pin.digest, validator=pin.validator)
