"""`rukpak adopt`: a BundleDeployment takes over what another tool has installed, in place.

What would fight is stopped first. What the tool knows about the objects is deleted last, when all of them are taken
over and ready: whatever fails before that, the tool still has its records, and the command can be run again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.apply.targets import leave_out_missing
from controller.cli.adoption.flux import find_rivals, suspend
from controller.cli.adoption.hand_over import hand_over
from controller.cli.adoption.origin import Tool, UnusableOriginError, is_tool, read_origin
from controller.cli.adoption.proposal import Proposal, describe
from controller.cli.adoption.release import Release, delete_release, find_release
from controller.cli.adoption.steps import UnfinishedError, apply_and_wait, some, tell_unfinished
from controller.cli.adoption.survey import Standing, Survey, assess_for_tool, exists_on, find_protection
from controller.cli.adoption.tidying import Tidied, Tidier
from controller.cli.command import FAILED, MisuseError, connect, read_file, tell
from controller.cli.deployments.access import Deployments, Manifest
from controller.cli.deployments.waiting import conclude
from controller.cli.output import fit, name_of, show
from controller.cli.question import ask
from controller.cli.rendering import manifest
from controller.cli.review.diff import compare, find_targets
from controller.cli.review.dry_run import owner_of
from controller.cli.review.revisions import Reviewed, render_new
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError


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
        rivals=find_rivals(client, discovery, origin, findings),
        release=release,
        comparison=compare(_under(reviewed, protection), options),
    )


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
    status = conclude("adopt", options, [adopted], [], done=_count(proposal))
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


def _count(proposal: Proposal) -> str:
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
