"""What an adoption would do, and how that is told before the question. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.v1alpha2.types import BundleDeployment
from controller.cli.adoption.flux import Rival
from controller.cli.adoption.origin import Origin
from controller.cli.adoption.release import Release
from controller.cli.adoption.survey import Finding, Standing
from controller.cli.review.differences import Change, Comparison
from controller.cli.review.unified import summarize
from controller.observe.records import ObjectKey

SHOWN_MANAGERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An adoption that is not done yet."""

    deployment: BundleDeployment
    origin: Origin
    findings: Sequence[Finding]
    protection: str
    """spec.collisionProtection until the objects are taken over."""
    rivals: Sequence[Rival]
    release: Release | None
    """Of Helm."""
    comparison: Comparison

    @property
    def name(self) -> str:
        """Of the BundleDeployment."""
        return self.deployment.metadata.name

    @property
    def is_refused(self) -> bool:
        """Whether an object cannot be taken over or applied."""
        return self.comparison.is_refused or any(self.list(Standing.REFUSED))

    @property
    def rendered(self) -> Mapping[ObjectKey, Mapping[str, Any]]:
        """Objects as the tool has rendered them, as far as that is known."""
        return self.release.objects if self.release else {}

    def list(self, standing: Standing) -> Sequence[Finding]:
        """Return the objects of which this becomes."""
        return [each for each in self.findings if each.standing is standing]

    def left_objects(self) -> Sequence[ObjectKey]:
        """Return the objects of the release that the revision lacks."""
        known = {each.key for each in self.findings}
        return [key for key in self.rendered if key not in known and key[:2] != ("", "Namespace")]


def describe(proposal: Proposal) -> Iterator[str]:
    """Yield what would be done, line by line."""
    yield f"{proposal.name}: adopt from {proposal.origin}"
    yield from _summarize(proposal)
    changes = {each.key: each.change for each in proposal.comparison.objects}
    for each in proposal.list(Standing.TAKEN):
        state = "unchanged" if changes.get(each.key, Change.NONE) is Change.NONE else changes[each.key].value
        yield f"  Take over: {each.key}, {state}{_set_by(each, proposal.origin)}"
    for each in proposal.list(Standing.CREATED):
        yield f"  Create:    {each.key}"
    for each in proposal.list(Standing.REFUSED):
        yield f"  Refused:   {each.key}: {each.problem}"
    for key in proposal.left_objects():
        yield f"  Leave:     {key}: the bundle does not contain it"
    for rival in proposal.rivals:
        yield f"  Suspend:   {rival}{' (is suspended already)' if rival.is_suspended else ''}"
    if proposal.protection != proposal.deployment.spec.collision_protection:
        yield f"  Allow:     collisionProtection: {proposal.protection}, until the objects are taken over"
    for name in proposal.release.names if proposal.release else ():
        yield f"  Delete:    {name}, at the end"


def _summarize(proposal: Proposal) -> Iterator[str]:
    """Yield lines about the objects that the controller would apply; why others are refused is told apart."""
    refused = {each.key for each in proposal.list(Standing.REFUSED)}
    applied = [each for each in proposal.comparison.objects if each.key not in refused]
    first, *others = summarize(replace(proposal.comparison, objects=applied))
    yield f"  {first}"
    yield from others


def _set_by(finding: Finding, origin: Origin) -> str:
    """Return the field managers of the tool that have set fields of an object."""
    entries = (finding.metadata or {}).get("managedFields") or []
    found = dict.fromkeys(str(each.get("manager", "")) for each in entries if not each.get("subresource"))
    theirs = [manager for manager in found if origin.is_manager(manager)][:SHOWN_MANAGERS]
    return f" (set by {', '.join(theirs)})" if theirs else ""
