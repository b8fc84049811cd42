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
# RFC 8288, section 3: a target in angle brackets and its parameters; relation types are words in any case.
_LINK = re.compile(r'<([^>]{0,4096})>((?:[^,<"]|"[^"]*")*)')
_RELATION = re.compile(r";\s*rel\s*=\s*[\"']?([^\"';,]*)", re.IGNORECASE)


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
        query = urlsplit(_next(response.headers.get("Link", ""))).query
        if not query:
            return tags
        if len(tags) > _MOST:
            break
    message = f"{response.place.subject}: the repository has more than {_MOST} tags; name one tag instead of a range"
    raise BundleError(Reason.CONTENT_REJECTED, message)


def _next(header: str) -> str:
    """Return the target of the next page, or of a link without a relation, which registries mean by it; '' for none."""
    for target, parameters in _LINK.findall(header):
        relation = _RELATION.search(parameters)
        if relation is None or "next" in relation[1].lower().split():
            return str(target)
    return ""
