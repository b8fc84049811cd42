"""`rukpak adopt`: a BundleDeployment takes over what another tool or BundleDeployment has installed, in place.

What would fight is stopped first. What a tool knows about the objects is deleted last, when all of them are taken over
and ready: whatever fails before that, the tool still has its records, and the command can be run again. From another
BundleDeployment the controller takes objects over (spec.takeOver), once that one is paused.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.cli import manifest, other_tools
from controller.cli.adopted_objects import (
    Finding,
    Standing,
    Tidied,
    Tidier,
    assess_for_giver,
    assess_for_tool,
    find_protection,
    survey,
)
from controller.cli.changes import awaits_pause
from controller.cli.command import FAILED, FailedError, MisuseError, confirm, connect, explain, read_file, tell
from controller.cli.comparison import Change, Comparison, summarize
from controller.cli.deployments import Awaits, Deployments, Manifest, Waiter, awaits_ready, conclude
from controller.cli.diff import compare, compare_two, find_targets, owner_of
from controller.cli.other_tools import Origin, Release, Rival, Tool
from controller.cli.output import fit, name_of, show
from controller.cli.revisions import Reviewed, find, read_stored, render_new
from controller.cli.tree import ObjectLister
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.observe.records import ObjectKey

SHOWN_MANAGERS = 5
SHOWN = 10
"""Names that a line lists."""


class UnfinishedError(Exception):
    """The adoption is not complete; the message is one line."""


@dataclass(slots=True, kw_only=True)
class Adoption(ABC):
    """An adoption: what it would do, and once the user has agreed, what it has done."""

    client: Client
    """Acts as the user."""
    name: str
    """Of the BundleDeployment that takes objects."""
    value: Manifest | None
    """The same as it is written in the file; None: it is on the cluster."""
    findings: Sequence[Finding]
    done: list[str] = field(default_factory=list)
    """A line for each step that stays done if a later one fails."""

    @property
    def is_refused(self) -> bool:
        """Whether an object cannot be taken over or applied."""
        return bool(self.with_standing(Standing.REFUSED))

    def with_standing(self, standing: Standing) -> Sequence[Finding]:
        """Return the objects of which this becomes."""
        return [each for each in self.findings if each.standing is standing]

    @abstractmethod
    def describe(self) -> Iterator[str]:
        """Yield what would be done, line by line."""

    @abstractmethod
    def preview(self, output: str) -> str:
        """Return the result of a dry run."""

    @abstractmethod
    def carry_out(self, seconds: float) -> Manifest:
        """Take the objects over; return the BundleDeployment when it is Ready.

        Args:
            seconds: for each wait.

        Raises: UnfinishedError, ApiError.
        """

    @abstractmethod
    def outcome(self) -> str:
        """Return what was done, for a line about the BundleDeployment."""

    @abstractmethod
    def describe_rest(self) -> Iterator[str]:
        """Yield what stays, and what to do about it."""

    def kept(self) -> Iterator[str]:
        """Yield what stays as it was if a step fails."""
        yield from ()

    def wait_until(self, value: Manifest, awaits: Awaits, seconds: float) -> Manifest:
        """Wait for a BundleDeployment, and return its last state.

        Raises: UnfinishedError, ApiError.
        """
        values, failures = Waiter(Deployments(self.client), awaits, seconds).wait([value])
        for failure in failures:
            raise UnfinishedError(f"{failure.cause}{f': {failure.text}' if failure.text else ''}")
        return values[0]

    def apply(self, value: Manifest, seconds: float) -> Manifest:
        """Apply the BundleDeployment, and return it when it is Ready.

        Raises: UnfinishedError, ApiError.
        """
        return self.wait_until(Deployments(self.client).apply(value), awaits_ready, seconds)


def main(options: argparse.Namespace) -> int:
    """Adopt objects; return the exit status.

    Raises: MisuseError; FailedError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    if other_tools.is_tool(options.origin) and not options.file:
        raise MisuseError("specify the BundleDeployment with -f FILE")
    value, content = _read_file(options) if options.file else (None, None)
    if options.origin == options.name and not other_tools.is_tool(options.origin):
        raise MisuseError("--from: must be another BundleDeployment")
    client = connect(options)
    adoption: Adoption
    if value and content and other_tools.is_tool(options.origin):
        adoption = _adopt_from_tool(client, options, value, content)
    else:
        adoption = _hand_over(client, options, value, content)
    _tell_all(adoption.describe())
    if adoption.is_refused:
        raise FailedError("nothing was changed: some objects cannot be taken over")
    if options.dry_run:
        print(adoption.preview(options.output), end="")
        return 0
    confirm(options, "nothing was changed")
    return _carry_out(adoption, options)


def _read_file(options: argparse.Namespace) -> tuple[Manifest, BundleDeployment]:
    """Return the BundleDeployment of the file, as it is written and validated; it must have the given name.

    Raises: MisuseError, BundleError.
    """
    data = read_file(options.file)
    value = manifest.find(data, options.file)
    found = (value.get("metadata") or {}).get("name")
    if found != options.name:
        raise MisuseError(f'"{options.file}" is the BundleDeployment "{found}", not "{options.name}"')
    return value, manifest.read(data, options.file, {"name": None, "spec": {}})


def _carry_out(adoption: Adoption, options: argparse.Namespace) -> int:
    try:
        adopted = adoption.carry_out(options.timeout)
    except (UnfinishedError, ApiError) as error:
        tell(f"rukpak adopt: {adoption.name}: {explain(error) if isinstance(error, ApiError) else error}")
        for line in (*adoption.done, *adoption.kept()):
            tell(f"  {line}")
        tell("correct that and run the command again")
        return FAILED
    status = conclude("adopt", options, [adopted], [], done=adoption.outcome())
    _tell_all(adoption.describe_rest())
    return status


def _tell_all(lines: Iterable[str]) -> None:
    for line in fit(lines).splitlines():
        tell(line)


def _count(number: int) -> str:
    return f"{number} {'object' if number == 1 else 'objects'}"


def _some(texts: Sequence[str]) -> str:
    """Return the first of many names for a line."""
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return f"{', '.join(texts[:SHOWN])}{more}"


# from a tool


def _adopt_from_tool(
    client: Client, options: argparse.Namespace, value: Manifest, deployment: BundleDeployment
) -> ToolAdoption:
    """Return what would be done.

    Raises: as `main`.
    """
    origin = other_tools.read_origin(
        options.origin, deployment.spec.install_namespace or "", tuple(options.managers or ())
    )
    if origin.tool is Tool.HELM and not origin.namespace:
        raise MisuseError(f'--from "{options.origin}": name the namespace, as in helm/{origin.name}.NAMESPACE')
    discovery = Discovery(client)
    release = other_tools.find_release(client, discovery, origin) if origin.tool is Tool.HELM else None
    reviewed = render_new(client, options, deployment, options.file)
    assess = assess_for_tool(owner_of(reviewed.deployment), origin, Deployments(client).exists)
    findings = survey(client, discovery, find_targets(reviewed, discovery), assess)
    protection = find_protection(findings, deployment.spec.collision_protection)
    adopted = [each for each in findings if each.standing in (Standing.TAKEN, Standing.OURS)]
    labels = [(each.metadata or {}).get("labels") or {} for each in adopted]
    return ToolAdoption(
        client=client,
        name=deployment.metadata.name,
        value=value,
        findings=findings,
        deployment=deployment,
        origin=origin,
        protection=protection,
        rivals=other_tools.find_rivals(client, discovery, origin, labels),
        release=release,
        comparison=compare(_under(reviewed, protection), options),
    )


def _under(reviewed: Reviewed, protection: str) -> Reviewed:
    """Return a revision whose BundleDeployment may take over more than its file allows."""
    deployment = reviewed.deployment
    spec = deployment.spec.model_copy(update={"collision_protection": protection})
    return replace(reviewed, deployment=deployment.model_copy(update={"spec": spec}))


@dataclass(slots=True, kw_only=True)
class ToolAdoption(Adoption):
    """An adoption from Helm, Flux or kubectl."""

    value: Manifest
    deployment: BundleDeployment
    """Of the file."""
    origin: Origin
    protection: str
    """spec.collisionProtection until the objects are taken over."""
    rivals: Sequence[Rival]
    release: Release | None
    """Of Helm."""
    comparison: Comparison
    tidied: Sequence[Tidied] = ()

    @property
    def is_refused(self) -> bool:
        """Whether an object cannot be taken over or applied."""
        return self.comparison.is_refused or bool(self.with_standing(Standing.REFUSED))

    @property
    def rendered(self) -> Mapping[ObjectKey, Mapping[str, Any]]:
        """Objects as the tool has rendered them, as far as that is known."""
        return self.release.objects if self.release else {}

    def left_objects(self) -> Sequence[ObjectKey]:
        """Return the objects of the release that the revision lacks."""
        known = {each.key for each in self.findings}
        return [key for key in self.rendered if key not in known and key[:2] != ("", "Namespace")]

    def describe(self) -> Iterator[str]:
        """Yield what would be done, line by line."""
        yield f"{self.name}: adopt from {self.origin}"
        yield from self._summarize()
        changes = {each.key: each.change for each in self.comparison.objects}
        for each in self.with_standing(Standing.TAKEN):
            state = "unchanged" if changes.get(each.key, Change.NONE) is Change.NONE else changes[each.key].value
            yield f"  Take over: {each.key}, {state}{self._set_by(each)}"
        yield from (f"  Create:    {each.key}" for each in self.with_standing(Standing.CREATED))
        yield from (f"  Refused:   {each.key}: {each.problem}" for each in self.with_standing(Standing.REFUSED))
        yield from (f"  Leave:     {key}: the bundle does not contain it" for key in self.left_objects())
        for rival in self.rivals:
            yield f"  Suspend:   {rival}{' (is suspended already)' if rival.is_suspended else ''}"
        if self.protection != self.deployment.spec.collision_protection:
            yield f"  Allow:     collisionProtection: {self.protection}, until the objects are taken over"
        for name in self.release.names if self.release else ():
            yield f"  Delete:    {name}, at the end"

    def _summarize(self) -> Iterator[str]:
        """Yield lines about the objects that the controller would apply; why others are refused is told apart."""
        refused = {each.key for each in self.with_standing(Standing.REFUSED)}
        applied = [each for each in self.comparison.objects if each.key not in refused]
        first, *others = summarize(replace(self.comparison, objects=applied))
        yield f"  {first}"
        yield from others

    def _set_by(self, finding: Finding) -> str:
        """Return the field managers of the tool that have set fields of an object."""
        entries = (finding.metadata or {}).get("managedFields") or []
        found = dict.fromkeys(str(each.get("manager", "")) for each in entries if not each.get("subresource"))
        theirs = [manager for manager in found if self.origin.is_manager(manager)][:SHOWN_MANAGERS]
        return f" (set by {', '.join(theirs)})" if theirs else ""

    def preview(self, output: str) -> str:
        """Return the BundleDeployment of the file."""
        return show([self.value], output) if output else f"{name_of(self.value)} adopted (dry run)\n"

    def carry_out(self, seconds: float) -> Manifest:
        """Suspend Flux, have the controller take over, remove what the tool has left, and delete its release."""
        for rival in self.rivals:
            other_tools.suspend(self.client, rival)
            self.done.append(f"{rival} is suspended")
        self.done.append(f"the BundleDeployment is applied, with collisionProtection: {self.protection}")
        spec = {**(self.value.get("spec") or {}), "collisionProtection": self.protection}
        adopted = self.apply({**self.value, "spec": spec}, seconds)
        deployment, _ = try_to_read(adopted)
        owner = owner_of(deployment or self.deployment)
        tidier = Tidier(self.client, Discovery(self.client), owner, self.origin, self.rendered)
        self.tidied = tidier.tidy([*self.with_standing(Standing.TAKEN), *self.with_standing(Standing.OURS)])
        if problems := [f"{each.key}: {each.problem}" for each in self.tidied if each.problem]:
            raise UnfinishedError("; ".join(problems))
        if self.protection != self.deployment.spec.collision_protection:
            adopted = self.apply(self.value, seconds)
        if self.release:
            other_tools.delete_release(self.client, self.release)
        return adopted

    def kept(self) -> Iterator[str]:
        """Yield the release."""
        if self.release:
            yield f"the release of Helm is kept: {', '.join(self.release.names)}"

    def outcome(self) -> str:
        """Return how many objects were adopted."""
        return f"adopted {_count(len(self.with_standing(Standing.TAKEN)))} from {self.origin}"

    def describe_rest(self) -> Iterator[str]:
        """Yield fields and objects that only the tool knows, and what is suspended."""
        for each in self.tidied:
            if each.left:
                yield f"left: {each.key}: {_some(each.left)}: not in the bundle; add or remove such fields by hand"
            if each.managers:
                yield (
                    f"left: {each.key}: also set by {_some(each.managers)}: fields that the bundle drops later stay; "
                    f"name such managers with --field-manager"
                )
        for key in self.left_objects():
            yield f"left: {key}: not in the bundle; delete it by hand if nothing needs it"
        for rival in self.rivals:
            yield f"left: {rival}: suspended; remove it from where it is defined, and delete it"


# from another BundleDeployment


def _hand_over(
    client: Client, options: argparse.Namespace, value: Manifest | None, content: BundleDeployment | None
) -> HandOver:
    """Return what would be done.

    Raises: FailedError if nothing can be taken over; as `main`.
    """
    giver = _read(Deployments(client), options.origin)
    reviewed = render_new(client, options, content, options.file) if content else find(options)
    discovery, protection = Discovery(client), reviewed.deployment.spec.collision_protection
    assess = assess_for_giver(owner_of(reviewed.deployment), owner_of(giver), protection, Deployments(client).exists)
    findings = survey(client, discovery, find_targets(reviewed, discovery), assess)
    if not any(each.standing in (Standing.TAKEN, Standing.OURS) for each in findings):
        raise FailedError(f"{options.name} contains no object of {giver.metadata.name}")
    digest = giver.status.installed_revision
    named = argparse.Namespace(**{**vars(options), "name": giver.metadata.name})
    before = read_stored(client, named, digest) if digest else None
    compared = compare_two(replace(reviewed, client=client), before).objects if before else None
    changes = None if compared is None else {each.key: each.change for each in compared}
    return HandOver(client=client, name=options.name, value=value, findings=findings, giver=giver, changes=changes)


def _read(deployments: Deployments, name: str) -> BundleDeployment:
    remedy = f"; {hint}" if (hint := other_tools.hint_at_tool(name)) else ""
    _, deployment = deployments.read(name, missing=f'BundleDeployment "{name}" not found{remedy}')
    if deployment.metadata.deletion_timestamp:
        raise FailedError(f"{name}: is being deleted")
    return deployment


@dataclass(slots=True, kw_only=True)
class HandOver(Adoption):
    """An adoption from another BundleDeployment."""

    giver: BundleDeployment
    changes: Mapping[ObjectKey, Change] | None
    """Of objects that differ in both revisions; None if the user may not read that of the giver."""

    def describe(self) -> Iterator[str]:
        """Yield what would be done, line by line."""
        giver, taken = self.giver.metadata.name, self.with_standing(Standing.TAKEN)
        yield f"{self.name}: take over {_count(len(taken))} of {giver}"
        if not self.giver.spec.paused:
            yield f"  Pause:     {giver}"
        for each in taken:
            state = "" if self.changes is None else f", {self.changes.get(each.key, Change.NONE).value}"
            yield f"  Take over: {each.key}{state}"
        yield from (f"  Refused:   {each.key}: {each.problem}" for each in self.with_standing(Standing.REFUSED))
        if created := len(self.with_standing(Standing.CREATED)):
            yield f"  Create:    {_count(created)} that {giver} does not have"

    def preview(self, output: str) -> str:
        """Return the BundleDeployment of the file with spec.takeOver, if a form is asked for."""
        return show([name_giver(self.value, self.giver.metadata.name)], output) if output and self.value else ""

    def carry_out(self, seconds: float) -> Manifest:
        """Pause the giver, and have the controller take over."""
        deployments, giver = Deployments(self.client), self.giver.metadata.name
        paused = deployments.change(giver, {"spec": {"paused": True}})
        if paused is None:
            raise UnfinishedError(f"{giver} was deleted meanwhile")
        self.done.append(f'{giver} is paused; "rukpak resume {giver}" lets it go on with what it still has')
        self.wait_until(paused, awaits_pause, seconds)
        self.done.append(f"spec.takeOver of {self.name} names {giver}")
        if self.value:
            return self.apply(name_giver(self.value, giver), seconds)
        current = deployments.get(self.name)
        spec = {"takeOver": name_giver(current, giver)["spec"]["takeOver"]} if current else {}
        changed = deployments.change(self.name, {"spec": spec}) if current else None
        if changed is None:
            raise UnfinishedError("was deleted meanwhile")
        return self.wait_until(changed, awaits_ready, seconds)

    def outcome(self) -> str:
        """Return how many objects were taken over."""
        return f"took over {_count(len(self.with_standing(Standing.TAKEN)))} of {self.giver.metadata.name}"

    def describe_rest(self) -> Iterator[str]:
        """Yield what the giver still holds, and how it is deleted."""
        giver = self.giver.metadata.name
        held = ObjectLister(self.client).find(self.giver)
        for each in held:
            if each.value is None and each.message:
                yield f"{giver}: {each.name}: {each.message}"
        owned = [each.name for each in held if each.value is not None]
        if not owned:
            yield f'{giver} has no objects any more: "kubectl delete bd {giver}" deletes none'
        elif self.giver.spec.deletion_policy == "Orphan":
            yield f'{giver} still has {_some(owned)}: "kubectl delete bd {giver}" releases these'
        else:
            yield f'{giver} still has {_some(owned)}: "kubectl delete bd {giver}" deletes these, and no others'
        yield f"keep spec.takeOver of {self.name} until {giver} is deleted"


def name_giver(value: Manifest, giver: str) -> Manifest:
    """Return a BundleDeployment that takes over objects of another one, and of those that it names already."""
    spec: dict[str, Any] = value.get("spec") or {}
    named: list[dict[str, str]] = list(spec.get("takeOver") or [])
    if not any(each.get("name") == giver for each in named):
        named.append({"name": giver})
    return {**value, "spec": {**spec, "takeOver": named}}
