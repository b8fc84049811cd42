"""Shards: each controller serves the BundleDeployments with the label of its shard, and the default one the others.

What no controller serves for a while, the default shard serves as well, until one appears.

A shard is also recorded in `status.shard` of what it acts for. Whoever is recorded may act, and only it changes the
record, except that a controller which holds its Lease, too, may do so in its place: then it has stopped. So at no time
do two act for one BundleDeployment, whatever the label says. A BundleDeployment without any status is held by none, and
may be claimed with a write that fails if anything was written since.

Pure. Not here: how a BundleDeployment changes hands (reconcile/shards.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from rukpak.api import names

if TYPE_CHECKING:  # slow, and not for --help
    from rukpak.api.v1alpha2.types import BundleDeployment, Status

LONGEST = 50
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class Tenure(Enum):
    """What a BundleDeployment is to one controller."""

    HELD = auto()
    """Its shard may act."""
    FREE = auto()
    """It belongs to the shard, and no shard has acted yet."""
    AWAITED = auto()
    """It belongs to the shard, and another one may act until it hands it over."""
    LEAVING = auto()
    """It belongs to another shard, and only this one may act."""
    ELSEWHERE = auto()
    """It concerns only other shards."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard, by the name that its label has."""

    name: str = ""
    """Empty: the default one."""

    @property
    def lease(self) -> str:
        """The name of its Lease."""
        return f"{names.LEASE}-{self.name}" if self.name else names.LEASE

    @property
    def selector(self) -> str:
        """The label selector of its BundleDeployments."""
        return f"{names.SHARD}={self.name}" if self.name else f"!{names.SHARD}"

    @property
    def others_selector(self) -> str:
        """The label selector of the BundleDeployments of all other shards."""
        return f"{names.SHARD}!={self.name}" if self.name else names.SHARD

    @property
    def held_selector(self) -> str:
        """The field selector of the BundleDeployments that record it."""
        return f"status.shard={self.name}"

    @property
    def objects_selector(self) -> str:
        """The label selector of the managed objects of its BundleDeployments."""
        mark = f"{names.OWNER_SHARD}={self.name}" if self.name else f"!{names.OWNER_SHARD}"
        return f"{names.OWNER_LABEL},{mark}"

    def strange_objects_selector(self, owner: str) -> str:
        """Return the label selector of the objects of one BundleDeployment that have the label of another shard."""
        mark = f"{names.OWNER_SHARD}!={self.name}" if self.name else names.OWNER_SHARD
        return f"{names.OWNER_LABEL}={owner},{mark}"

    def selector_of(self, shard: str) -> str:
        """Return the label selector of the BundleDeployments of another shard that is not the default one."""
        return f"{names.SHARD}={shard}"

    def tenure_of(self, deployment: BundleDeployment, stands_in_for: Collection[str] = ()) -> Tenure:
        """Return what a BundleDeployment is to the controller of this shard.

        Args:
            deployment: as the watches know it.
            stands_in_for: other shards, which nobody serves: their BundleDeployments belong to the default one, too.
        """
        wanted = wanted_shard(deployment.metadata.labels)
        is_ours = wanted == self.name or wanted in stands_in_for
        if is_unclaimed(deployment.status):
            return Tenure.FREE if is_ours else Tenure.ELSEWHERE
        holds = deployment.status.shard == self.name
        if is_ours:
            return Tenure.HELD if holds else Tenure.AWAITED
        return Tenure.LEAVING if holds else Tenure.ELSEWHERE


DEFAULT_SHARD = Shard()


def wanted_shard(labels: Mapping[str, str]) -> str:
    """Return the shard that the labels of a BundleDeployment name; empty: the default one."""
    return labels.get(names.SHARD, "")


def is_unclaimed(status: Status) -> bool:
    """Whether no controller has written a status yet, which each does before it changes anything."""
    return status == type(status)()


def is_shard_name(name: str) -> bool:
    """Whether a name can be that of a shard: a DNS label of at most 50 characters."""
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None
