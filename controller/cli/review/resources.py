"""The resource of a kind, also where no cluster serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from api.plugins import Capabilities
from controller.build.revision import Revision
from controller.formats.objects import crd_specs
from controller.kube.resources import BUILT_IN_GROUPS, GroupVersionKind, Resource
from controller.untrusted import mapping

FindResource = Callable[[GroupVersionKind], Resource]
Find = Callable[[GroupVersionKind], Resource | None]


class Resources:
    """Finds resources: those that CRDs of a revision define, those that a cluster serves, or else by their kind.

    `guessed` has the kinds that only a rule of Kubernetes names (apimachinery, UnsafeGuessKindToResource). It is right
    for all built-in kinds, and for most others.
    """

    def __init__(self, revision: Revision, capabilities: Capabilities, served: Find | None = None) -> None:
        self._capabilities, self._served = capabilities, served
        self._namespaced = {_key(item): bool(item["metadata"].get("namespace")) for item in revision.objects}
        self._defined = {
            (str(spec.get("group")), str(_names(spec).get("kind"))): spec for spec in crd_specs(revision.objects)
        }
        self.guessed: set[GroupVersionKind] = set()

    def find(self, kind: GroupVersionKind) -> Resource:
        """Return the resource of a kind."""
        if spec := self._defined.get((kind.group, kind.kind)):
            plural, is_namespaced = str(_names(spec).get("plural")), spec.get("scope") == "Namespaced"
            return Resource(kind.group, kind.version, kind.kind, plural, namespaced=is_namespaced)
        if self._served and (resource := self._served(kind)):
            return resource
        if kind.group not in BUILT_IN_GROUPS:
            self.guessed.add(kind)
        is_namespaced = self._capabilities.kinds.get(
            (kind.group, kind.version, kind.kind), self._namespaced.get(kind, False)
        )
        return Resource(kind.group, kind.version, kind.kind, guess_plural(kind.kind), namespaced=is_namespaced)


def _key(item: Mapping[str, object]) -> GroupVersionKind:
    return GroupVersionKind.of(item)


def _names(spec: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(spec, "names")


def guess_plural(kind: str) -> str:
    """Return the plural that Kubernetes would guess for a kind."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("s"):
        return f"{name}es"
    return f"{name.removesuffix('y')}ies" if name.endswith("y") else f"{name}s"
