"""The tags of a repository, page by page (distribution specification, "Listing Tags")."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from api.errors import BundleError
from api.plugins import MEBIBYTE, Room, endless
from api.v1alpha2.conditions import Reason
from controller.sources.image.registry import Registry
from controller.sources.versions.selection import Check, proceed

_PAGE_BYTES = 4 * MEBIBYTE
_FIRST = "n=1000"
_MOST = 100_000
_MOST_PAGES = 1000
_MEMORY_FACTOR = 40
"""How much memory JSON may take for each of its bytes: `{},` becomes a dictionary of 64 and a reference."""
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_NEXT = re.compile(r'<([^>]{1,4096})>\s*;[^,]*rel="?next"?')


def list_tags(registry: Registry, room: Room = endless, check: Check = proceed) -> list[str]:
    """Return all tags; names that no tag may have are left out.

    Args:
        registry: to ask.
        room: of the call; reserves memory.
        check: called often; raises to stop.

    Raises: BundleError (NotFound, ContentRejected for too many, Unreachable for an answer that is no list of tags, …).
    """
    tags: list[str] = []
    query = _FIRST
    for _ in range(_MOST_PAGES):
        check()
        response = registry.list_tags(query)
        try:
            data = response.read_all(_PAGE_BYTES)
            with room(len(data) * _MEMORY_FACTOR):
                page = json.loads(data).get("tags") or []
                tags += [tag for tag in page if isinstance(tag, str) and _TAG.fullmatch(tag)]
        except (ValueError, TypeError, AttributeError, RecursionError):
            message = f"{response.place.subject}: the registry returned something else than a list of tags; check it"
            raise BundleError(Reason.UNREACHABLE, message) from None
        # Only the query: the next page is on the same host, which has the credentials.
        following = _NEXT.search(response.headers.get("Link", ""))
        query = urlsplit(following[1]).query if following else ""
        if not query:
            return tags
        if len(tags) > _MOST:
            break
    message = f"{response.place.subject}: the repository has more than {_MOST} tags; name one tag instead of a range"
    raise BundleError(Reason.CONTENT_REJECTED, message)
