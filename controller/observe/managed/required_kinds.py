"""Which kinds are watched for which BundleDeployment, and which of them nothing serves as far as is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.observe.managed.kind_watch import GroupKind


class RequiredKinds:
    """Not thread-safe: guarded by the lock of the registry."""

    def __init__(self) -> None:
        self._by_name: dict[str, frozenset[GroupKind]] = {}
        self._unwatched: set[GroupKind] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def of(self, name: str) -> frozenset[GroupKind]:
        """Return the kinds that a BundleDeployment requires."""
        return self._by_name.get(name, frozenset())

    def add(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Have a BundleDeployment require these kinds, too."""
        self._by_name[name] = self.of(name) | frozenset(kinds)

    def replace(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Have a BundleDeployment require exactly these kinds."""
        self._by_name[name] = frozenset(kinds)

    def drop(self, name: str) -> None:
        """Have a BundleDeployment require nothing."""
        self._by_name.pop(name, None)

    def find_names(self, condition: Callable[[GroupKind], bool]) -> list[str]:
        """Return the BundleDeployments that require a kind of which a condition holds."""
        return [name for name, kinds in self._by_name.items() if any(condition(kind) for kind in kinds)]

    def find_unrequired(self, kinds: Iterable[GroupKind]) -> list[GroupKind]:
        """Return which of these kinds nobody requires; those are not reported as unwatched any more either."""
        required: frozenset[GroupKind] = frozenset().union(*self._by_name.values())
        self._unwatched &= required
        return [kind for kind in kinds if kind not in required]

    def note_unwatched(self, kinds: Iterable[GroupKind]) -> None:
        """Note that these are required, and not watched yet."""
        self._unwatched.update(kinds)

    def note_watched(self, kinds: Iterable[GroupKind]) -> None:
        """Note that these are watched."""
        self._unwatched.difference_update(kinds)

    def is_blind(self, name: str) -> bool:
        """Return whether a BundleDeployment requires a kind that is not watched."""
        return not self._unwatched.isdisjoint(self.of(name))

    def find_blind(self, group: str) -> list[str]:
        """Return the BundleDeployments that require a kind of an API group that is not watched."""
        unwatched = {kind for kind in self._unwatched if kind[0] == group}
        return self.find_names(unwatched.__contains__) if unwatched else []
