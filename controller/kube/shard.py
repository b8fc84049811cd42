"""Shards: each controller serves the BundleDeployments with the label of its shard, and the default one those without.

A BundleDeployment that moves is left by one controller as soon as its watch shows that, and adopted by the other as it
is, like after a restart. Nothing is handed over. Both may run a pass for a moment, or for longer if the watch of one is
silent: what it writes is bound to a BundleDeployment that has its label (status/writer.py, reconcile/inventory.py).

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rukpak.api import names

LONGEST = 50
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard, by the name that its label has."""

    name: str = ""
    """Empty: the default one."""

    @property
    def lease(self) -> str:
        """The name of its Lease."""
        return f"{names.LEASE}-{self.name}" if self.name else names.LEASE

    def serves(self, labels: Mapping[str, str]) -> bool:
        """Whether a BundleDeployment with these labels belongs to it."""
        return shard_of(labels) == self.name


DEFAULT_SHARD = Shard()


def shard_of(labels: Mapping[str, str]) -> str:
    """Return the name of the shard that the labels of a BundleDeployment name; empty: the default one."""
    return labels.get(names.SHARD, "")


def is_shard_name(name: str) -> bool:
    """Whether a name can be that of a shard: a DNS label of at most 50 characters."""
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None
