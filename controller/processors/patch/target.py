"""Which objects the target of a patch selects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.plugins import ProcessRequest
from controller.formats.applicable.applicable import scopes_of_crds
from controller.formats.objects import Object, group_of
from controller.processors.patch.selector import parse_selector
from controller.untrusted import mapping

_ANY_LABELS = "labelSelector"


class Target:
    """Selects the objects of a request; its selector must be valid.

    An object without a namespace is in the install namespace unless its kind is cluster-scoped.
    """

    def __init__(self, target: Mapping[str, Any], request: ProcessRequest) -> None:
        self._target, self._request = target, request
        selector = target.get(_ANY_LABELS)
        self._selects = parse_selector(selector) if selector else None
        self._scopes = scopes_of_crds(request.rendering.objects)

    def selects(self, item: Object) -> bool:
        """Return whether an object with a valid identity matches all fields of the target."""
        wanted = self._target
        metadata = item["metadata"]
        found = {"group": group_of(item), "kind": item["kind"], "name": metadata["name"]}
        if any(wanted.get(field) not in (None, value) for field, value in found.items()):
            return False
        if wanted.get("namespace") not in (None, self._namespace_of(item)):
            return False
        labels = mapping(metadata, "labels").items()
        # Other values are no labels, and what to do about them is not for a selector to say.
        return not self._selects or self._selects({key: value for key, value in labels if isinstance(value, str)})

    def _namespace_of(self, item: Object) -> str:
        group, kind = group_of(item), item["kind"]
        scope = self._scopes.get((group, kind), self._request.capabilities.is_namespaced(group, kind))
        if scope is False:
            return ""
        return item["metadata"].get("namespace") or self._request.install_namespace
