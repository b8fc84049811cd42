"""`rukpak adopt`: a BundleDeployment takes over what another tool has installed, in place.

What would fight is stopped first. What the tool knows about the objects is deleted last, when all of them are taken
over and ready: whatever fails before that, the tool still has its records, and the command can be run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Owner, Situation, is_ours, judge
from controller.apply.targets import Target, leave_out_missing
from controller.build.revision import Revision
from controller.cli import manifest
from controller.cli.adopted import (
    Assess,
    Assessment,
    Exists,
    Finding,
    Metadata,
    Standing,
    Survey,
    Tidied,
    Tidier,
    assess_for_tool,
    exists_on,
    find_protection,
)
from controller.cli.changes import awaits_pause
from controller.cli.command import FAILED, MisuseError, ask, connect, explain, read_file, tell
from controller.cli.comparison import Change, Comparison, summarize
from controller.cli.deployments import Awaits, Deployments, Manifest, Waiter, awaits_ready, conclude
from controller.cli.diff import compare, compare_two, find_targets, owner_of
from controller.cli.output import fit, name_of, show
from controller.cli.revisions import Reviewed, find, read_stored, render_new
from controller.cli.tools import (
    Origin,
    Release,
    Rival,
    Tool,
    UnusableOriginError,
    delete_release,
    find_release,
    find_rivals,
    hint_at_tool,
    is_tool,
    read_origin,
    suspend,
)
from controller.cli.tree import ObjectLister
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.observe.records import ObjectKey, Record

SHOWN_MANAGERS = 5
SHOWN = 10
"""Names that a line lists."""


def main(options: argparse.Namespace) -> int:
    """Adopt objects; return the exit status.

    Raises: MisuseError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    if not is_tool(options.origin):
        value, content = _read_deployment(options) if options.file else (None, None)
        return hand_over(options, value, content)
    if not options.file:
        raise MisuseError("specify the BundleDeployment with -f FILE")
    return _adopt_from_tool(options, *_read_deployment(options))


def _adopt_from_tool(options: argparse.Namespace, value: Manifest, content: BundleDeployment) -> int:
    client = connect(options)
    try:
        proposal = _propose(client, options, content)
    except UnusableOriginError as error:
        tell(f"rukpak adopt: {error}")
        return FAILED
    if proposal is None:
        return FAILED
    for line in fit(describe(proposal)).splitlines():
        tell(line)
    if proposal.is_refused:
        tell("rukpak adopt: nothing was changed: some objects cannot be taken over")
        return FAILED
    if options.dry_run:
        print(show([value], options.output) if options.output else f"{name_of(value)} adopted (dry run)\n", end="")
        return 0
    if not (options.yes or ask("no terminal to ask for confirmation; pass --yes")):
        tell("rukpak adopt: nothing was changed")
        return FAILED
    return _adopt(client, options, value, proposal)


def _read_deployment(options: argparse.Namespace) -> tuple[Manifest, BundleDeployment]:
    """Return the BundleDeployment of the file, as it is written and validated; it must have the given name.

    Raises: MisuseError, BundleError.
    """
    data = read_file(options.file)
    value = manifest.find(data, options.file)
    found = (value.get("metadata") or {}).get("name")
    if found != options.name:
        raise MisuseError(f'"{options.file}" is the BundleDeployment "{found}", not "{options.name}"')
    return value, manifest.read(data, options.file, {"name": None, "spec": {}})


# what would be done


def _propose(client: Client, options: argparse.Namespace, deployment: BundleDeployment) -> Proposal | None:
    """Return what would be done; None if the user does not consent to the use of a Secret.

    Raises: UnusableOriginError; as `main`.
    """
    origin = read_origin(options.origin, deployment.spec.install_namespace or "", tuple(options.managers or ()))
    if origin.tool is Tool.HELM and not origin.namespace:
        raise MisuseError(f'--from "{options.origin}": name the namespace, as in helm/{origin.name}.NAMESPACE')
    discovery = Discovery(client)
    release = find_release(client, discovery, origin) if origin.tool is Tool.HELM else None
    reviewed = render_new(client, options, deployment, options.file)
    if reviewed is None:
        return None
    targets = leave_out_missing(find_targets(reviewed, discovery), lambda kind: discovery.resource(kind) is None)
    assess = assess_for_tool(owner_of(reviewed.deployment), origin, exists_on(client))
    findings = Survey(client, discovery, targets, assess).find()
    protection = find_protection(findings, deployment.spec.collision_protection)
    return Proposal(
        deployment=deployment,
        origin=origin,
        findings=findings,
        protection=protection,
        rivals=find_rivals(client, discovery, origin, _labels_of(findings)),
        release=release,
        comparison=compare(_under(reviewed, protection), options),
    )


def _labels_of(findings: Iterable[Finding]) -> Iterator[Mapping[str, Any]]:
    """Yield the labels of the objects that are adopted."""
    for each in findings:
        if each.standing in (Standing.TAKEN, Standing.OURS):
            yield (each.metadata or {}).get("labels") or {}


def _under(reviewed: Reviewed, protection: str) -> Reviewed:
    """Return a revision whose BundleDeployment may take over more than its file allows."""
    deployment = reviewed.deployment
    spec = deployment.spec.model_copy(update={"collision_protection": protection})
    return replace(reviewed, deployment=deployment.model_copy(update={"spec": spec}))


# what is done


def _adopt(client: Client, options: argparse.Namespace, value: Manifest, proposal: Proposal) -> int:
    done: list[str] = []
    try:
        adopted, tidied = _carry_out(client, options, value, proposal, done)
    except (UnfinishedError, ApiError) as error:
        tell_unfinished(proposal.name, error, [*done, *_kept(proposal.release)])
        return FAILED
    status = conclude("adopt", options, [adopted], [], done=_describe_outcome(proposal))
    for line in fit(_left(proposal, tidied)).splitlines():
        tell(line)
    return status


def _carry_out(
    client: Client, options: argparse.Namespace, value: Manifest, proposal: Proposal, done: list[str]
) -> tuple[Manifest, list[Tidied]]:
    """Take the objects over; return the BundleDeployment, and what became of each object.

    Args:
        client: acts as the user.
        options: with `timeout`.
        value: the BundleDeployment as it is written in the file.
        proposal: what the user has agreed to.
        done: gets a line for each step that stays done if a later one fails.

    Raises: UnfinishedError, ApiError.
    """
    for rival in proposal.rivals:
        suspend(client, rival)
        done.append(f"{rival} is suspended")
    deployments = Deployments(client)
    protection = proposal.protection
    done.append(f"the BundleDeployment is applied, with collisionProtection: {protection}")
    spec = {**(value.get("spec") or {}), "collisionProtection": protection}
    adopted = apply_and_wait(deployments, {**value, "spec": spec}, options.timeout)
    deployment, _ = try_to_read(adopted)
    tidier = Tidier(client, Discovery(client), deployment or proposal.deployment, proposal.origin, proposal.rendered)
    tidied = tidier.tidy([*proposal.list(Standing.TAKEN), *proposal.list(Standing.OURS)])
    if problems := [f"{each.key}: {each.problem}" for each in tidied if each.problem]:
        raise UnfinishedError("; ".join(problems))
    if protection != proposal.deployment.spec.collision_protection:
        adopted = apply_and_wait(deployments, value, options.timeout)
    if proposal.release:
        delete_release(client, proposal.release)
    return adopted, tidied


# what is told afterwards


def _kept(release: Release | None) -> Iterator[str]:
    if release:
        yield f"the release of Helm is kept: {', '.join(release.names)}"


def _describe_outcome(proposal: Proposal) -> str:
    taken = len(proposal.list(Standing.TAKEN))
    return f"adopted {taken} {'object' if taken == 1 else 'objects'} from {proposal.origin}"


def _left(proposal: Proposal, tidied: Iterable[Tidied]) -> Iterator[str]:
    """Yield what stays, and what to do about it."""
    for each in tidied:
        if each.left:
            yield f"left: {each.key}: {some(each.left)}: not in the bundle; add or remove such fields by hand"
        if each.managers:
            yield (
                f"left: {each.key}: also set by {some(each.managers)}: fields that the bundle drops later stay; "
                f"name such managers with --field-manager"
            )
    for key in proposal.left_objects():
        yield f"left: {key}: not in the bundle; delete it by hand if nothing needs it"
    for rival in proposal.rivals:
        yield f"left: {rival}: suspended; remove it from where it is defined, and delete it"


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
        proposal = _propose_hand_over(client, options, giver, content)
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


def _propose_hand_over(
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
        taken = _carry_out_hand_over(Deployments(client), options, value, proposal, done)
    except (UnfinishedError, ApiError) as error:
        tell_unfinished(proposal.name, error, done)
        return FAILED
    giver = proposal.giver.metadata.name
    count = _count(len(proposal.list(Standing.TAKEN)))
    status = conclude("adopt", options, [taken], [], done=f"took over {count} of {giver}")
    for line in fit(_describe_rest(client, proposal)).splitlines():
        tell(line)
    return status


def _carry_out_hand_over(
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


class UnfinishedError(Exception):
    """The adoption is not complete; the message is one line."""


def apply_and_wait(deployments: Deployments, value: Manifest, seconds: float) -> Manifest:
    """Apply a BundleDeployment, and return it when it is Ready.

    Raises: UnfinishedError, ApiError.
    """
    return wait_until(deployments, deployments.apply(value), awaits_ready, seconds)


def wait_until(deployments: Deployments, value: Manifest, awaits: Awaits, seconds: float) -> Manifest:
    """Wait for a BundleDeployment, and return its last state.

    Raises: UnfinishedError, ApiError.
    """
    values, failures = Waiter(deployments, awaits, seconds).wait([value])
    for failure in failures:
        raise UnfinishedError(f"{failure.cause}{f': {failure.text}' if failure.text else ''}")
    return values[0]


def tell_unfinished(name: str, error: UnfinishedError | ApiError, done: Iterable[str]) -> None:
    """Print why an adoption is not complete, and what stays done."""
    tell(f"rukpak adopt: {name}: {explain(error) if isinstance(error, ApiError) else error}")
    for line in done:
        tell(f"  {line}")
    tell("correct that and run the command again")


def some(texts: Sequence[str]) -> str:
    """Return the first of many names for a line."""
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f"{', '.join(texts[:SHOWN])}{more}"
