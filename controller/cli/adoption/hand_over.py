"""`rukpak adopt NAME --from GIVER`: a BundleDeployment takes over objects of another one, in place (spec.takeOver).

The controller does it, once the giver is paused; here it is shown beforehand, asked, done in this order, and checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Owner, Situation, is_ours, judge
from controller.apply.targets import Target, leave_out_missing
from controller.build.revision import Revision
from controller.cli.adoption.origin import hint_at_tool
from controller.cli.adoption.steps import UnfinishedError, apply_and_wait, some, tell_unfinished, wait_until
from controller.cli.adoption.survey import Assess, Assessment, Exists, Finding, Metadata, Standing, Survey, exists_on
from controller.cli.command import FAILED, MisuseError, connect, tell
from controller.cli.deployments.access import Deployments, Manifest
from controller.cli.deployments.waiting import awaits_ready, conclude
from controller.cli.inspection.objects import ObjectLister
from controller.cli.operation.changes import awaits_pause
from controller.cli.output import fit, show
from controller.cli.question import ask
from controller.cli.review.diff import compare_two, find_targets
from controller.cli.review.differences import Change
from controller.cli.review.dry_run import owner_of
from controller.cli.review.revisions import Reviewed, find, read_stored, render_new
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.observe.records import ObjectKey, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A hand-over that is not done yet."""

    giver: BundleDeployment
    name: str
    """Of the BundleDeployment that takes."""
    findings: Sequence[Finding]
    changes: Mapping[ObjectKey, Change] | None
    """Of objects that differ in both revisions; None if the user may not read that of the giver."""

    def list(self, standing: Standing) -> Sequence[Finding]:
        """Return the objects of which this becomes."""
        return [each for each in self.findings if each.standing is standing]


def hand_over(options: argparse.Namespace, value: Manifest | None, content: BundleDeployment | None) -> int:
    """Hand objects over; return the exit status.

    Args:
        options: of the command line.
        value: the BundleDeployment that takes, as it is written in the file; None: it is on the cluster.
        content: the same, validated.

    Raises: MisuseError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    if options.origin == options.name:
        raise MisuseError("--from: must be another BundleDeployment")
    client = connect(options)
    try:
        giver = _read(Deployments(client), options.origin)
        proposal = _propose(client, options, giver, content)
    except UnfinishedError as error:
        tell(f"rukpak adopt: {error}")
        return FAILED
    if proposal is None:
        return FAILED
    for line in fit(_describe(proposal)).splitlines():
        tell(line)
    if proposal.list(Standing.REFUSED):
        tell("rukpak adopt: nothing was changed: some objects cannot be taken over")
        return FAILED
    if options.dry_run:
        shown = [name_giver(value, giver.metadata.name)] if value else []
        print(show(shown, options.output) if options.output and shown else "", end="")
        return 0
    if not (options.yes or ask("no terminal to ask for confirmation; pass --yes")):
        tell("rukpak adopt: nothing was changed")
        return FAILED
    return _hand_over(client, options, value, proposal)


def _read(deployments: Deployments, name: str) -> BundleDeployment:
    value = deployments.get(name)
    if value is None:
        remedy = f"; {hint}" if (hint := hint_at_tool(name)) else ""
        raise UnfinishedError(f'BundleDeployment "{name}" not found{remedy}')
    deployment, problem = try_to_read(value)
    if deployment is None:
        raise UnfinishedError(f"{name}: cannot be read: {problem}")
    if deployment.metadata.deletion_timestamp:
        raise UnfinishedError(f"{name}: is being deleted")
    return deployment


# what would be done


def _propose(
    client: Client, options: argparse.Namespace, giver: BundleDeployment, content: BundleDeployment | None
) -> HandOver | None:
    """Return what would be done; None, after telling why, if there is no revision to look at.

    Raises: UnfinishedError if nothing can be taken over; as `hand_over`.
    """
    reviewed = render_new(client, options, content, options.file) if content else find("adopt", options)
    if reviewed is None:
        return None
    discovery = Discovery(client)
    targets = leave_out_missing(find_targets(reviewed, discovery), lambda kind: discovery.resource(kind) is None)
    protection = reviewed.deployment.spec.collision_protection
    assess = assess_for_giver(owner_of(reviewed.deployment), owner_of(giver), protection, exists_on(client))
    findings = Survey(client, discovery, targets, assess).find()
    if not any(each.standing in (Standing.TAKEN, Standing.OURS) for each in findings):
        raise UnfinishedError(f"{options.name} contains no object of {giver.metadata.name}")
    before = _read_revision(client, options, giver)
    changes = _find_changes(replace(reviewed, client=client), before) if before else None
    return HandOver(giver=giver, name=options.name, findings=findings, changes=changes)


def assess_for_giver(owner: Owner, giver: Owner, protection: str, exists: Exists) -> Assess:
    """Return how objects are assessed that one BundleDeployment takes over from another.

    Args:
        owner: the one that takes.
        giver: the other.
        protection: spec.collisionProtection of the one that takes.
        exists: whether a BundleDeployment exists.
    """

    def _assess(target: Target, record: Record, _: Metadata) -> Assessment:
        if is_ours(record, owner, carries_reference=target.carries_reference):
            return Assessment(standing=Standing.OURS)
        if (record.owner, record.owner_uid) == (giver.name, giver.uid):
            return Assessment(standing=Standing.TAKEN)
        carries = target.carries_reference
        found = judge(record, owner, exists=exists, collision_protection=protection, carries_reference=carries)
        if found.situation is Situation.COLLISION:
            return Assessment(standing=Standing.REFUSED, problem=found.message.removeprefix(f"{record.key}: "))
        if found.situation is Situation.USED:
            return Assessment(standing=Standing.USED)
        return Assessment(standing=Standing.ADOPTED)

    return _assess


def _read_revision(client: Client, options: argparse.Namespace, giver: BundleDeployment) -> Revision | None:
    """Return the installed revision of the giver; None if there is none, or the user may not read it."""
    digest = giver.status.installed_revision
    named = argparse.Namespace(**{**vars(options), "name": giver.metadata.name})
    return read_stored(client, named, digest) if digest else None


def _find_changes(reviewed: Reviewed, before: Revision) -> dict[ObjectKey, Change]:
    return {each.key: each.change for each in compare_two(reviewed, before).objects}


def _describe(proposal: HandOver) -> Iterator[str]:
    giver = proposal.giver.metadata.name
    taken = proposal.list(Standing.TAKEN)
    yield f"{proposal.name}: take over {_count(len(taken))} of {giver}"
    if not proposal.giver.spec.paused:
        yield f"  Pause:     {giver}"
    for each in taken:
        yield f"  Take over: {each.key}{_state(proposal, each.key)}"
    for each in proposal.list(Standing.REFUSED):
        yield f"  Refused:   {each.key}: {each.problem}"
    created = len(proposal.list(Standing.CREATED))
    if created:
        yield f"  Create:    {_count(created)} that {giver} does not have"


def _state(proposal: HandOver, key: ObjectKey) -> str:
    if proposal.changes is None:
        return ""
    return f", {proposal.changes.get(key, Change.NONE).value}"


# what is done


def _hand_over(client: Client, options: argparse.Namespace, value: Manifest | None, proposal: HandOver) -> int:
    done: list[str] = []
    try:
        taken = _carry_out(Deployments(client), options, value, proposal, done)
    except (UnfinishedError, ApiError) as error:
        tell_unfinished(proposal.name, error, done)
        return FAILED
    giver = proposal.giver.metadata.name
    count = _count(len(proposal.list(Standing.TAKEN)))
    status = conclude("adopt", options, [taken], [], done=f"took over {count} of {giver}")
    for line in fit(_describe_rest(client, proposal)).splitlines():
        tell(line)
    return status


def _carry_out(
    deployments: Deployments,
    options: argparse.Namespace,
    value: Manifest | None,
    proposal: HandOver,
    done: list[str],
) -> Manifest:
    """Pause the giver and have the other take over; return the latter when it is Ready.

    Raises: UnfinishedError, ApiError; `done` has what stays done then.
    """
    giver = proposal.giver.metadata.name
    paused = deployments.change(giver, {"spec": {"paused": True}})
    if paused is None:
        raise UnfinishedError(f"{giver} was deleted meanwhile")
    done.append(f'{giver} is paused; "rukpak resume {giver}" lets it go on with what it still has')
    wait_until(deployments, paused, awaits_pause, options.timeout)
    done.append(f"spec.takeOver of {proposal.name} names {giver}")
    if value:
        return apply_and_wait(deployments, name_giver(value, giver), options.timeout)
    current = deployments.get(proposal.name)
    spec = {"takeOver": name_giver(current, giver)["spec"]["takeOver"]} if current else {}
    changed = deployments.change(proposal.name, {"spec": spec}) if current else None
    if changed is None:
        raise UnfinishedError("was deleted meanwhile")
    return wait_until(deployments, changed, awaits_ready, options.timeout)


def name_giver(value: Manifest, giver: str) -> Manifest:
    """Return a BundleDeployment that takes over objects of another one, and of those that it names already."""
    spec: dict[str, Any] = value.get("spec") or {}
    named: list[dict[str, str]] = list(spec.get("takeOver") or [])
    if not any(each.get("name") == giver for each in named):
        named.append({"name": giver})
    return {**value, "spec": {**spec, "takeOver": named}}


def _describe_rest(client: Client, proposal: HandOver) -> Iterator[str]:
    """Yield what the giver still holds, and how it is deleted."""
    giver = proposal.giver.metadata.name
    held = ObjectLister(client).find(proposal.giver)
    for each in held:
        if each.value is None and each.message:
            yield f"{giver}: {each.name}: {each.message}"
    owned = [each.name for each in held if each.value is not None]
    if not owned:
        yield f'{giver} has no objects any more: "kubectl delete bd {giver}" deletes none'
    elif proposal.giver.spec.deletion_policy == "Orphan":
        yield f'{giver} still has {some(owned)}: "kubectl delete bd {giver}" releases these'
    else:
        yield f'{giver} still has {some(owned)}: "kubectl delete bd {giver}" deletes these, and no others'
    yield f"keep spec.takeOver of {proposal.name} until {giver} is deleted"


def _count(number: int) -> str:
    return f"{number} {'object' if number == 1 else 'objects'}"
