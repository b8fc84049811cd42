"""The compressed targets of installed revisions, so that a repair reads neither the revision store nor every target.

They are in memory only, and so many as fit: those that were used longest ago are dropped, and a pass that finds none
reads the revision.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from controller.apply.drift.ledger import Ledger
from controller.apply.packed_targets import PackedTargets, pack_targets
from controller.apply.targets import TargetSet
from controller.build.revision import Revision, Terms
from controller.reconcile.context import Context
from controller.reconcile.installation.warnings import warnings_on_revision

MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTargets:
    """What a pass has installed in full."""

    terms: Terms
    """Of the revision."""
    targets: PackedTargets
    warnings: tuple[str, ...]
    """About the revision."""
    spec_version: str
    ledger: Ledger
    """Of the BundleDeployment at that time: everything may have changed since it was replaced."""

    def is_of(self, context: Context) -> bool:
        """Whether they are those of the installed revision and this spec."""
        return (
            self.ledger is context.state.ledger
            and self.spec_version == context.spec_version
            and self.targets.rest.revision == context.status.installed_revision
        )


class InstalledTargetsCache:
    """Thread-safe.

    Args:
        most_bytes: of all compressed targets.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, InstalledTargets] = {}
        """By name, the one that was used last at the end."""
        self._size = 0
        self._lock = threading.Lock()

    def keep(self, context: Context, revision: Revision, wanted: TargetSet) -> None:
        """Keep the targets of a revision that is installed now."""
        ledger = context.state.ledger
        packed = None if wanted.skipped or context.state.older else pack_targets(wanted, ledger.used)
        with self._lock:
            self._remove(context.name)
            if packed is None:
                return
            self._kept[context.name] = InstalledTargets(
                terms=revision.terms,
                targets=packed,
                warnings=warnings_on_revision(revision.warnings, wanted),
                spec_version=context.spec_version,
                ledger=ledger,
            )
            self._size += packed.size
            while self._size > self._most_bytes:
                self._remove(next(iter(self._kept)))

    def find(self, context: Context) -> InstalledTargets | None:
        """Return the targets of the installed revision; None if they are not known."""
        with self._lock:
            found = self._kept.pop(context.name, None)
            if found is None:
                return None
            self._kept[context.name] = found
        return found if found.is_of(context) else None

    def forget(self, name: str) -> None:
        """Drop those of a BundleDeployment that is gone."""
        with self._lock:
            self._remove(name)

    def _remove(self, name: str) -> None:
        if found := self._kept.pop(name, None):
            self._size -= found.targets.size
