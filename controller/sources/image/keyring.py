"""Which registry credentials are for a repository, by the rules of the kubelet for pull secrets.

Pure. The rules, and their oddities: `BasicDockerKeyring` and `URLsMatch` in k8s.io/kubernetes/pkg/credentialprovider,
keyring.go. Hosts match element by element with wildcards, ports only exactly, and paths as plain prefixes (so
`quay.io/foo` also matches `quay.io/foobar`); all that match are tried, the most specific first, so that credentials
can be rotated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import islice

from api.plugins import RegistryCredentials
from controller.sources.image.reference import HUB, HUB_NAMES

_MOST_ENTRIES = 2000
"""Of all Secrets that are looked at: each may have a pattern of its own."""
_SCHEME = re.compile(r"https?://")
_API_VERSION = re.compile(r"^/v[12](?=/)")
_PORT = re.compile(r":(\d*)$")


def find_credentials(entries: Iterable[RegistryCredentials], name: str) -> tuple[RegistryCredentials, ...]:
    """Return the entries for a repository, the most specific first, otherwise in their order.

    Args:
        entries: of one or more Secrets.
        name: registry and repository in normal form: `docker.io/library/nginx`, `quay.io/foo/bar`.
    """
    keyed = [(_normal_key(entry.registry), entry) for entry in islice(entries, _MOST_ENTRIES)]
    matching = [(key, entry) for key, entry in keyed if _matches(key, name)]
    return tuple(entry for _, entry in sorted(matching, key=lambda found: found[0], reverse=True))


def _normal_key(registry: str) -> str:
    """Return host and path prefix as Kubernetes compares them, with the name of Docker Hub that references have."""
    host, path = _split(_SCHEME.sub("", registry, count=1))
    path = _API_VERSION.sub("", path)
    return (HUB if host in HUB_NAMES else host) + ("" if path == "/" else path)


def _matches(key: str, name: str) -> bool:
    (pattern, prefix), (host, path) = _split(key), _split(name)
    (patterns, pattern_port), (elements, port) = _split_host(pattern), _split_host(host)
    return (
        pattern_port == port
        and len(patterns) == len(elements)
        and path.startswith(prefix)
        and all(map(_matches_element, elements, patterns))
    )


def _matches_element(element: str, pattern: str) -> bool:
    return element == pattern or fnmatchcase(element, pattern)  # equality for IPv6 addresses in brackets


def _split(text: str) -> tuple[str, str]:
    host, slash, path = text.partition("/")
    return host, slash + path


def _split_host(host: str) -> tuple[list[str], str]:
    found = _PORT.search(host)
    port = found[1] if found else ""
    return host.removesuffix(f":{port}").split("."), port
