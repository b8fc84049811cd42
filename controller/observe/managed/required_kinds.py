"""Which kinds each BundleDeployment requires, and which of these are not watched because nothing serves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from controller.observe.managed.kind_watch import GroupKind


class RequiredKinds:
    """Not thread-safe: guarded by the lock of the registry."""

    def __init__(self) -> None:
        self._by_name: dict[str, frozenset[GroupKind]] = {}
        self._counts: Counter[frozenset[GroupKind]] = Counter()
        """How many BundleDeployments require each of these sets: thousands may require the same few."""
        self._decided: set[str] = set()
        """BundleDeployments whose kinds a pass has decided; those of the others are what their status says."""
        self._unwatched: set[GroupKind] = set()

    def of(self, name: str) -> frozenset[GroupKind]:
        """Return the kinds that a BundleDeployment requires."""
        return self._by_name.get(name, frozenset())

    def add(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Add kinds that a BundleDeployment requires."""
        self.replace(name, self.of(name) | frozenset(kinds))

    def replace(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Set the kinds that a BundleDeployment requires."""
        self._set(name, frozenset(kinds))
        self._decided.add(name)

    def prepare(self, name: str, kinds: Iterable[GroupKind]) -> None:
        """Set the kinds that the status of a BundleDeployment names, until a pass decides."""
        self._set(name, frozenset(kinds))

    def _set(self, name: str, kinds: frozenset[GroupKind]) -> None:
        self._remove(name)
        self._counts[kinds] += 1
        self._by_name[name] = kinds

    def _remove(self, name: str) -> None:
        kinds = self._by_name.pop(name, None)
        if kinds is None:
            return
        self._counts[kinds] -= 1
        if not self._counts[kinds]:
            del self._counts[kinds]

    def is_decided(self, name: str) -> bool:
        """Return whether a pass has decided what a BundleDeployment requires."""
        return name in self._decided

    def drop(self, name: str) -> None:
        """Remove a BundleDeployment."""
        self._remove(name)
        self._decided.discard(name)

    def find_names(self, condition: Callable[[GroupKind], bool]) -> list[str]:
        """Return the BundleDeployments that require a kind for which a condition is true."""
        return [name for name, kinds in self._by_name.items() if any(condition(kind) for kind in kinds)]

    def find_unrequired(self, kinds: Iterable[GroupKind]) -> list[GroupKind]:
        """Return which of these kinds are not required, and forget unwatched kinds that are not."""
        required: frozenset[GroupKind] = frozenset().union(*self._counts)
        self._unwatched &= required
        return [kind for kind in kinds if kind not in required]

    def note_unwatched(self, kinds: Iterable[GroupKind]) -> None:
        """Note that these kinds are not watched yet."""
        self._unwatched.update(kinds)

    def note_watched(self, kinds: Iterable[GroupKind]) -> None:
        """Note that these kinds are watched."""
        self._unwatched.difference_update(kinds)

    def has_unwatched(self, name: str) -> bool:
        """Return whether a BundleDeployment requires an unwatched kind."""
        return not self._unwatched.isdisjoint(self.of(name))

    def find_unwatched(self, group: str) -> list[str]:
        """Return the BundleDeployments that require an unwatched kind of an API group."""
        unwatched = {kind for kind in self._unwatched if kind[0] == group}
        return self.find_names(unwatched.__contains__) if unwatched else []
