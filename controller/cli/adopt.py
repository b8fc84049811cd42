"""`rukpak adopt`: a BundleDeployment takes over what another tool or BundleDeployment has installed, in place.

What would fight is stopped first. What a tool knows about the objects is deleted last, when all of them are taken over
and ready: whatever fails before that, the tool still has its records, and the command can be run again. From another
BundleDeployment the controller takes objects over (spec.takeOver), once that one is paused.

Objects are read with the user's permissions. The rules are those by which the controller decides (apply/ownership.py).
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Any

from api.v1alpha2.reading import try_to_read
from api.v1alpha2.types import BundleDeployment
from controller.apply.ownership import Judgement, Owner, Situation, is_ours, judge
from controller.apply.targets import Target, TargetSet
from controller.cli import other_tools
from controller.cli.changes import awaits_pause
from controller.cli.command import (
    FAILED,
    REQUESTS,
    FailedError,
    MisuseError,
    attempt,
    confirm,
    connect,
    explain,
    tell,
)
from controller.cli.comparison import Change, Comparison, summarize
from controller.cli.content import Draft, is_named, make_draft, write_with_content
from controller.cli.deployments import MANAGER, Awaits, Deployments, Manifest, awaits_ready, conclude, wait_until
from controller.cli.diff import compare, compare_two, find_targets, owner_of
from controller.cli.other_tools import Origin, Release, Rival, Tool, find_left, make_change, other_managers
from controller.cli.output import fit, name_of, show
from controller.cli.render import Reviewed, find, read_stored, render_new
from controller.cli.tree import ObjectLister
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.resources import Resource
from controller.observe.records import ObjectKey, Record, project
from controller.untrusted import mapping

SHOWN_MANAGERS = 5
SHOWN = 10
"""Names that a line lists."""
PROTECTIONS = ("Prevent", "IfNoController", "None")
"""Values of spec.collisionProtection: each allows more than the one before."""


Metadata = Mapping[str, Any]


Exists = Callable[[str, str], bool]
"""Whether a BundleDeployment with a name and UID exists."""


TRIES = 5
"""Status of a workload may change between reading and writing."""


class UnfinishedError(Exception):
    """The adoption is not complete; the message is one line."""


class Standing(Enum):
    """What becomes of an object."""

    CREATED = "created"
    OURS = "already ours"
    TAKEN = "taken over"
    ADOPTED = "adopted"
    """It has no owner, and spec.collisionProtection allows that; nothing has to be given away."""
    USED = "used"
    """A Namespace, which is not changed."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An object of the revision, and what becomes of it."""

    key: ObjectKey
    standing: Standing
    resource: Resource | None = None
    """None if the cluster does not serve its kind yet."""
    metadata: Metadata | None = None
    """None if it does not exist."""
    problem: str = ""
    """Why it is refused."""
    protection: str = PROTECTIONS[0]
    """The least that spec.collisionProtection must be."""


Assess = Callable[[Target, Record, Metadata], Finding]
"""Returns what becomes of an object that exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """What became of an object."""

    key: ObjectKey
    problem: str = ""
    """Why it was not tidied."""
    left: tuple[str, ...] = ()
    """Paths of fields that only the tool has set."""
    managers: tuple[str, ...] = ()
    """Other field managers that have set fields of ours, too."""


@dataclass(slots=True, kw_only=True)
class Adoption(ABC):
    """An adoption: what it would do, and once the user has agreed, what it has done."""

    client: Client
    """Acts as the user."""
    name: str
    """Of the BundleDeployment that takes objects."""
    draft: Draft | None
    """The same as a file or flags describe it; None: it is on the cluster."""
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
        values, failures = wait_until(Deployments(self.client), awaits, seconds, [value])
        for failure in failures:
            raise UnfinishedError(f"{failure.cause}{f': {failure.text}' if failure.text else ''}")
        return values[0]

    def apply(self, draft: Draft, seconds: float) -> Manifest:
        """Apply the BundleDeployment with its content, and return it when it is Ready.

        Raises: UnfinishedError, FailedError, ApiError.
        """
        deployments = Deployments(self.client)
        found = deployments.get(self.name)
        value = write_with_content(self.client, draft, found, lambda: deployments.apply(draft.value))
        return self.wait_until(value, awaits_ready, seconds)


def main(options: argparse.Namespace) -> int:
    """Adopt objects; return the exit status.

    Raises: MisuseError; FailedError; BundleError, ApiError and ConfigurationError as `rukpak render`.
    """
    is_given = bool(options.file) or is_named(options)
    if other_tools.is_tool(options.origin) and not is_given:
        raise MisuseError("specify the bundle as SOURCE, or the BundleDeployment with -f FILE")
    draft = make_draft(options) if is_given else None
    if options.origin == options.name and not other_tools.is_tool(options.origin):
        raise MisuseError("--from: must be another BundleDeployment")
    client = connect(options)
    adoption: Adoption
    if draft and other_tools.is_tool(options.origin):
        adoption = _adopt_from_tool(client, options, draft)
    else:
        adoption = _hand_over(client, options, draft)
    _tell_all(adoption.describe())
    if adoption.is_refused:
        raise FailedError("nothing was changed: some objects cannot be taken over")
    if options.dry_run:
        print(adoption.preview(options.output), end="")
        return 0
    confirm(options, "nothing was changed")
    return _carry_out(adoption, options)


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


def _adopt_from_tool(client: Client, options: argparse.Namespace, draft: Draft) -> ToolAdoption:
    """Return what would be done.

    Raises: as `main`.
    """
    namespace = mapping(draft.value, "spec").get("installNamespace") or ""
    origin = other_tools.read_origin(options.origin, str(namespace), tuple(options.managers or ()))
    if origin.tool is Tool.HELM and not origin.namespace:
        raise MisuseError(f'--from "{options.origin}": name the namespace, as in helm/{origin.name}.NAMESPACE')
    discovery = Discovery(client)
    release = other_tools.find_release(client, discovery, origin) if origin.tool is Tool.HELM else None
    draft, reviewed = render_new(client, options, draft)
    deployment = reviewed.deployment
    assess = assess_for_tool(owner_of(reviewed.deployment), origin, Deployments(client).exists)
    findings = survey(client, discovery, find_targets(reviewed, discovery), assess)
    protection = find_protection(findings, deployment.spec.collision_protection)
    adopted = [each for each in findings if each.standing in (Standing.TAKEN, Standing.OURS)]
    labels = [(each.metadata or {}).get("labels") or {} for each in adopted]
    return ToolAdoption(
        client=client,
        name=deployment.metadata.name,
        draft=draft,
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

    draft: Draft
    deployment: BundleDeployment
    """The draft, validated."""
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
        """Return the BundleDeployment that would be applied."""
        value = self.draft.value
        return show([value], output) if output else f"{name_of(value)} adopted (dry run)\n"

    def carry_out(self, seconds: float) -> Manifest:
        """Suspend Flux, have the controller take over, remove what the tool has left, and delete its release."""
        for rival in self.rivals:
            other_tools.suspend(self.client, rival)
            self.done.append(f"{rival} is suspended")
        self.done.append(f"the BundleDeployment is applied, with collisionProtection: {self.protection}")
        spec = {**self.draft.value["spec"], "collisionProtection": self.protection}
        adopted = self.apply(self.draft.with_spec(spec), seconds)
        deployment, _ = try_to_read(adopted)
        tidy = partial(self._tidy, Discovery(self.client), owner_of(deployment or self.deployment))
        with ThreadPoolExecutor(REQUESTS) as pool:
            found = (*self.with_standing(Standing.TAKEN), *self.with_standing(Standing.OURS))
            self.tidied = list(pool.map(tidy, found))
        if problems := [f"{each.key}: {each.problem}" for each in self.tidied if each.problem]:
            raise UnfinishedError("; ".join(problems))
        if self.protection != self.deployment.spec.collision_protection:
            adopted = self.apply(self.draft, seconds)
        if self.release:
            other_tools.delete_release(self.client, self.release)
        return adopted

    def _tidy(self, discovery: Discovery, owner: Owner, finding: Finding) -> Tidied:
        """Remove from an object what the tool has left on it.

        Raises: ApiError if the server cannot answer.
        """
        for _ in range(TRIES):
            try:
                return self._try_to_tidy(discovery, owner, finding)
            except ApiError as error:
                if error.status == HTTPStatus.FORBIDDEN:
                    return Tidied(key=finding.key, problem=str(error))
                if error.status != HTTPStatus.CONFLICT:
                    raise
        return Tidied(key=finding.key, problem="is changed all the time")

    def _try_to_tidy(self, discovery: Discovery, owner: Owner, finding: Finding) -> Tidied:
        """Tidy an object.

        Raises: ApiError; a 409 if it has changed meanwhile.
        """
        key = finding.key
        resource = finding.resource or discovery.any_version(key.group, key.kind)
        metadata = read_metadata(self.client, resource, key) if resource else None
        if resource is None or metadata is None:
            return Tidied(key=key, problem="does not exist")
        record = project({"metadata": metadata}, key.group, key.kind)
        if (record.owner, record.owner_uid) != (owner.name, owner.uid):
            return Tidied(key=key, problem=f"does not belong to {owner.name}")
        left = find_left(finding.metadata or metadata, metadata, owner.name, self.origin, self.rendered.get(key))
        if change := make_change(metadata, owner.name, self.origin):
            path = resource.path(key.namespace, key.name)
            metadata = self.client.merge_patch(path, change, manager=MANAGER, metadata=True).value["metadata"]
        return Tidied(key=key, left=tuple(left), managers=tuple(other_managers(metadata, owner.name, self.origin)))

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


def _hand_over(client: Client, options: argparse.Namespace, draft: Draft | None) -> HandOver:
    """Return what would be done.

    Raises: FailedError if nothing can be taken over; as `main`.
    """
    giver = _read(Deployments(client), options.origin)
    draft, reviewed = render_new(client, options, draft) if draft else (None, find(options))
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
    return HandOver(client=client, name=options.name, draft=draft, findings=findings, giver=giver, changes=changes)


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
        """Return the BundleDeployment that would be applied, with spec.takeOver, if a form is asked for."""
        giver = self.giver.metadata.name
        return show([name_giver(self.draft.value, giver)], output) if output and self.draft else ""

    def carry_out(self, seconds: float) -> Manifest:
        """Pause the giver, and have the controller take over."""
        deployments, giver = Deployments(self.client), self.giver.metadata.name
        paused = deployments.change(giver, {"spec": {"paused": True}})
        if paused is None:
            raise UnfinishedError(f"{giver} was deleted meanwhile")
        self.done.append(f'{giver} is paused; "rukpak resume {giver}" lets it go on with what it still has')
        self.wait_until(paused, awaits_pause, seconds)
        self.done.append(f"spec.takeOver of {self.name} names {giver}")
        if self.draft:
            return self.apply(self.draft.with_spec(name_giver(self.draft.value, giver)["spec"]), seconds)
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


# what becomes of the objects


def survey(client: Client, discovery: Discovery, targets: TargetSet, assess: Assess) -> list[Finding]:
    """Return the objects that a revision contains, in its order; `assess` decides about each that exists.

    Raises: ApiError.
    """

    def _find(target: Target) -> Finding:
        resource = discovery.resource(target.kind)
        if resource is None or (resource.namespaced and not target.key.namespace):
            return Finding(key=target.key, standing=Standing.CREATED)
        metadata = read_metadata(client, resource, target.key)
        if metadata is None:
            return Finding(key=target.key, standing=Standing.CREATED, resource=resource)
        record = project({"metadata": metadata}, target.key.group, target.key.kind)
        return replace(assess(target, record, metadata), resource=resource, metadata=metadata)

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(_find, (each for each in targets.targets if not each.bare)))


def assess_for_tool(owner: Owner, origin: Origin, exists: Exists) -> Assess:
    """Return how objects are assessed that a tool has installed: those with its marks, or nobody's, are taken over."""

    def _assess(target: Target, record: Record, metadata: Metadata) -> Finding:
        def _judge(protection: str) -> Judgement:
            carries = target.carries_reference
            return judge(record, owner, exists=exists, collision_protection=protection, carries_reference=carries)

        found = _judge(PROTECTIONS[-1])
        if found.situation is Situation.USED:
            return Finding(key=target.key, standing=Standing.USED)
        if found.situation is not Situation.ADOPT:
            return Finding(key=target.key, standing=Standing.OURS)
        if found.owner and not (found.owner == record.marks and origin.has_marked(metadata)):
            problem = f"belongs to {found.owner}, not to {origin}"
            return Finding(key=target.key, standing=Standing.REFUSED, problem=problem)
        least = next(each for each in PROTECTIONS if _judge(each).situation is Situation.ADOPT)
        return Finding(key=target.key, standing=Standing.TAKEN, protection=least)

    return _assess


def assess_for_giver(owner: Owner, giver: Owner, protection: str, exists: Exists) -> Assess:
    """Return how objects are assessed that one BundleDeployment takes over from another.

    Args:
        owner: the one that takes.
        giver: the other.
        protection: spec.collisionProtection of the one that takes.
        exists: whether a BundleDeployment exists.
    """

    def _assess(target: Target, record: Record, _: Metadata) -> Finding:
        carries = target.carries_reference
        if is_ours(record, owner, carries_reference=carries):
            return Finding(key=target.key, standing=Standing.OURS)
        if (record.owner, record.owner_uid) == (giver.name, giver.uid):
            return Finding(key=target.key, standing=Standing.TAKEN)
        found = judge(record, owner, exists=exists, collision_protection=protection, carries_reference=carries)
        if found.situation is Situation.COLLISION:
            problem = found.message.removeprefix(f"{record.key}: ")
            return Finding(key=target.key, standing=Standing.REFUSED, problem=problem)
        is_used = found.situation is Situation.USED
        return Finding(key=target.key, standing=Standing.USED if is_used else Standing.ADOPTED)

    return _assess


def find_protection(findings: Iterable[Finding], asked: str) -> str:
    """Return the spec.collisionProtection that is needed: what is asked for, or else the least that allows all."""
    return max((asked, *(each.protection for each in findings)), key=PROTECTIONS.index)


def read_metadata(client: Client, resource: Resource, key: ObjectKey) -> Mapping[str, Any] | None:
    """Return the metadata of an object; None if it does not exist.

    Raises: ApiError.
    """
    path = resource.path(key.namespace, key.name)
    found = attempt(lambda: client.get(path, metadata=True), HTTPStatus.NOT_FOUND)
    return found.value["metadata"] if found else None
