"""`rukpak adopt`: a BundleDeployment takes over what another tool or BundleDeployment has installed, in place.

What would fight is stopped first. What a tool knows about the objects is deleted last, when all of them are taken over
and ready: whatever fails before that, the tool still has its records, and the command can be run again. From another
BundleDeployment the controller takes objects over (spec.takeOver), once that one is paused.

kubectl has no name for what it has applied. So without a file, a bundle is made of what it has recorded on the objects
of a namespace, and kept in ConfigMaps there, like those of `rukpak push`.

Objects are read with the user's permissions. The rules are those by which the controller decides (apply/ownership.py).
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rukpak.api import names
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.apply.ownership import (
    Disposal,
    Exists,
    Owner,
    RemovalCause,
    Situation,
    dispose,
    is_ours,
    judge,
)
from rukpak.controller.apply.targets import Target, TargetSet
from rukpak.controller.cli import other_tools
from rukpak.controller.cli.changes import awaits_pause
from rukpak.controller.cli.command import FAILED, confirm, connect, explain, tell, tell_all
from rukpak.controller.cli.content import LOCAL, Draft, is_named, make_draft, write_with_content
from rukpak.controller.cli.deployments import Awaits, awaits_ready, conclude, wait_until
from rukpak.controller.cli.diff import compare
from rukpak.controller.cli.other_tools import (
    Origin,
    Release,
    Rival,
    Tool,
    find_left_by_tool,
    make_change,
    other_managers,
)
from rukpak.controller.cli.render import find, read_stored, render_new
from rukpak.controller.content.limits import some
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import DEPLOYMENTS, NAMESPACES
from rukpak.controller.observe.records import Record, key_of, pass_on, project
from rukpak.controller.untrusted import mapping
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import (
    MANAGER,
    REQUESTS,
    TRIES,
    Deployments,
    Manifest,
    list_objects,
    read_if_exists,
)
from rukpak.controller.views.comparison import Change, Comparison, Difference, outline, summarize, write_one
from rukpak.controller.views.dry_run import Reviewed, compare_two, find_targets
from rukpak.controller.views.objects import NO_UID, make_nodes, make_outline, make_unlisted, owner_of
from rukpak.controller.views.texts import name_of, show, to_yaml

SHOWN_MANAGERS = 5
_CHANGES = (Change.CHANGED, Change.RECREATED)
_FATES = {
    Disposal.DELETE: "deletes these",
    Disposal.DELETE_UNUSED: "deletes these unless they are in use",
    Disposal.RELEASE: "releases these",
}
"""What becomes of objects if their BundleDeployment is deleted."""
PROTECTIONS = ("Prevent", "IfNoController", "None")
"""Values of spec.collisionProtection: each allows more than the one before."""


_NAMESPACE, _SECRET = ("", "Namespace"), ("", "Secret")
Metadata = Mapping[str, Any]


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
    path: str = ""
    metadata: Metadata = field(default_factory=dict)
    """Empty if it does not exist, as the path is then."""
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
    draft: Draft | None
    """The same as a file or flags describe it; None: it is on the cluster."""
    findings: Sequence[Finding]
    differences: Mapping[ObjectKey, Difference] | None
    """How objects change; None if the user may not read that."""
    is_whole: bool
    """Whether differences are shown as a whole, and not only some lines."""
    outcome: str
    """What has been done once all steps are, for a line about the BundleDeployment."""
    kept: Sequence[str] = ()
    """What stays as it was if a step fails."""
    done: list[str] = field(default_factory=list)
    """A line for each step that stays done if a later one fails."""
    key: bytes = field(default_factory=secrets.token_bytes)
    """Key of the hashes of values of Secrets."""

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

    def describe_taken(self, finding: Finding, note: str = "") -> Iterator[str]:
        """Yield lines about an object that is taken over, and about what changes of it."""
        difference = (self.differences or {}).get(finding.key)
        change = difference.change if difference else Change.NONE
        yield f"  Take over: {finding.key}{'' if self.differences is None else f', {change.value}'}{note}"
        if difference and change in _CHANGES and not self.is_whole:
            yield from outline(difference, self.key)

    def describe_differences(self) -> Iterator[str]:
        """Yield all lines of all differences, if that is asked for."""
        shown = (*_CHANGES, Change.CREATED)
        for each in (self.differences or {}).values() if self.is_whole else ():
            if each.change in shown:
                yield from write_one(each, self.key)

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
    def describe_rest(self) -> Iterator[str]:
        """Yield what stays, and what to do about it."""

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
    _check(options)
    draft = make_draft(options) if _is_given(options) else None
    client = connect(options)
    adoption: Adoption
    if not other_tools.is_tool(options.origin):
        adoption = _hand_over(client, options, draft)
    elif draft:
        adoption = _adopt_from_tool(client, options, draft)
    else:
        adoption = _adopt_applied(client, options)
    tell_all(adoption.describe())
    for line in adoption.describe_differences():
        tell(line)
    if adoption.is_refused:
        raise FailedError("nothing was changed: some objects cannot be taken over or applied")
    if options.dry_run:
        print(adoption.preview(options.output), end="")
        return 0
    confirm(options, "nothing was changed")
    return _carry_out(adoption, options)


def _is_given(options: argparse.Namespace) -> bool:
    return bool(options.file) or is_named(options)


def _check(options: argparse.Namespace) -> None:
    is_tool = other_tools.is_tool(options.origin)
    is_searched = options.origin == Tool.KUBECTL.value and not _is_given(options)
    if is_tool and not _is_given(options) and not (is_searched and options.install_namespace):
        found = "; or with -n NAMESPACE, where kubectl has applied its objects" if is_searched else ""
        raise MisuseError(f"specify the bundle as SOURCE, or the BundleDeployment with -f FILE{found}")
    if not is_searched and (options.selector or options.include_secrets):
        raise MisuseError("--selector and --include-secrets require --from kubectl without SOURCE and -f FILE")
    if options.origin == options.name and not is_tool:
        raise MisuseError("--from: must be another BundleDeployment")


def _carry_out(adoption: Adoption, options: argparse.Namespace) -> int:
    try:
        adopted = adoption.carry_out(options.timeout)
    except (UnfinishedError, ApiError) as error:
        tell(f"rukpak {options.verb}: {adoption.name}: {explain(error)}")
        for line in (*adoption.done, *adoption.kept):
            tell(f"  {line}")
        tell("correct that and run the command again")
        return FAILED
    status = conclude(options, [adopted], [], done=adoption.outcome)
    tell_all(adoption.describe_rest())
    return status


def _count(number: int) -> str:
    return f"{number} {'object' if number == 1 else 'objects'}"


def _kubectl(verb: str, key: ObjectKey) -> str:
    kind = f"{key.kind.lower()}.{key.group}" if key.group else key.kind.lower()
    return f"kubectl {verb} {kind} {key.name}{f' --namespace {key.namespace}' if key.namespace else ''}"


# from a tool


def _adopt_from_tool(client: Client, options: argparse.Namespace, draft: Draft) -> ToolAdoption:
    namespace = mapping(draft.value, "spec").get("installNamespace") or ""
    origin = other_tools.read_origin(options.origin, str(namespace), tuple(options.managers or ()))
    if origin.tool is Tool.HELM and not origin.namespace:
        raise MisuseError(f'--from "{options.origin}": name the namespace, as in helm/{origin.name}.NAMESPACE')
    discovery = Discovery(client)
    release = other_tools.find_release(client, discovery, origin) if origin.tool is Tool.HELM else None
    draft, reviewed = render_new(client, options, draft)
    deployment = reviewed.deployment
    assess = assess_for_tool(owner_of(deployment), origin, Deployments(client).exists)
    findings = survey(client, discovery, find_targets(reviewed, discovery), assess)
    protection = find_protection(findings, deployment.spec.collision_protection)
    adopted = [each for each in findings if each.standing in (Standing.TAKEN, Standing.OURS)]
    labels = [each.metadata.get("labels") or {} for each in adopted]
    known = {each.key for each in findings}
    lacking = [key for key in (release.objects if release else ()) if key not in known and key[:2] != _NAMESPACE]
    comparison = compare(_under(reviewed, protection), options, origin.managers)
    return ToolAdoption(
        client=client,
        name=deployment.metadata.name,
        draft=draft,
        findings=findings,
        differences={each.key: each for each in comparison.objects},
        is_whole=options.diff,
        outcome=f"adopted {_count(sum(each.standing is Standing.TAKEN for each in findings))} from {origin}",
        kept=[f"the release of Helm is kept: {', '.join(release.paths)}"] if release else [],
        deployment=deployment,
        origin=origin,
        protection=protection,
        rivals=other_tools.find_rivals(client, discovery, origin, labels),
        comparison=comparison,
        release=release,
        lacking=[key for key in lacking if _exists(client, discovery, key)],
    )


def _exists(client: Client, discovery: Discovery, key: ObjectKey) -> bool:
    resource = discovery.any_version(key.group, key.kind)
    return resource is not None and read_metadata(client, resource.path(key.namespace, key.name)) is not None


def _under(reviewed: Reviewed, protection: str) -> Reviewed:
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
    comparison: Comparison
    release: Release | None = None
    lacking: Sequence[ObjectKey] = ()
    """Objects of the release that exist and are not in the revision."""
    left_out: Mapping[ObjectKey, str] = field(default_factory=dict)
    """What kubectl has applied, too, and why it is not adopted."""
    tidied: Sequence[Tidied] = ()

    @property
    def is_refused(self) -> bool:
        """Whether an object cannot be taken over or applied."""
        return self.comparison.is_refused or bool(self.with_standing(Standing.REFUSED))

    def describe(self) -> Iterator[str]:
        """Yield what would be done, line by line."""
        yield f"{self.name}: adopt from {self.origin}"
        yield from self._summarize()
        for each in self.with_standing(Standing.TAKEN):
            yield from self.describe_taken(each, self._set_by(each))
        yield from (f"  Create:    {each.key}" for each in self.with_standing(Standing.CREATED))
        yield from (f"  Refused:   {each.key}: {each.problem}" for each in self.with_standing(Standing.REFUSED))
        yield from (f"  Leave:     {key}: the bundle does not contain it" for key in self.lacking)
        yield from (f"  Leave:     {key}: {reason}" for key, reason in self.left_out.items())
        for name, _, _ in self.draft.parts:
            yield f"  Create:    ConfigMap {self.deployment.spec.install_namespace}/{name}, with the content"
        has_secrets = any(each.key[:2] == _SECRET for each in self.findings)
        yield from (f"  Warning:   {line}" for line in self.draft.describe_exposed(has_secrets=has_secrets))
        for rival in self.rivals:
            yield f"  Suspend:   {rival}{' (is suspended already)' if rival.is_suspended else ''}"
        if self.protection != self.deployment.spec.collision_protection:
            yield f"  Allow:     collisionProtection: {self.protection}, until the objects are taken over"
        for name in self.release.paths if self.release else ():
            yield f"  Delete:    {name}, at the end"

    def _summarize(self) -> Iterator[str]:
        refused = {each.key for each in self.with_standing(Standing.REFUSED)}
        applied = [each for each in self.comparison.objects if each.key not in refused]
        first, *others = summarize(replace(self.comparison, objects=applied))
        yield f"  {first}"
        yield from others

    def _set_by(self, finding: Finding) -> str:
        entries = finding.metadata.get("managedFields") or []
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
        self._for_each(self._pass_on, self.with_standing(Standing.TAKEN))
        self.done.append(f"the BundleDeployment is applied, with collisionProtection: {self.protection}")
        spec = {**self.draft.value["spec"], "collisionProtection": self.protection}
        adopted = self.apply(self.draft.with_spec(spec), seconds)
        deployment, _ = try_to_read(adopted)
        found = (*self.with_standing(Standing.TAKEN), *self.with_standing(Standing.OURS))
        self.tidied = self._for_each(partial(self._tidy, owner_of(deployment or self.deployment)), found)
        if self.protection != self.deployment.spec.collision_protection:
            adopted = self.apply(self.draft, seconds)
        if self.release:
            other_tools.delete_release(self.client, self.release)
        return adopted

    def _for_each(self, write: Callable[[Finding], Tidied], found: Iterable[Finding]) -> list[Tidied]:
        """Change objects, each again if it was changed meanwhile.

        Raises: UnfinishedError; ApiError if the server cannot answer.
        """

        def _write(finding: Finding) -> Tidied:
            for _ in range(TRIES):
                try:
                    return write(finding)
                except ApiError as error:
                    if error.status == HTTPStatus.FORBIDDEN:
                        return Tidied(key=finding.key, problem=error.tell_user())
                    if error.status != HTTPStatus.CONFLICT:
                        raise
            return Tidied(key=finding.key, problem="is changed all the time")

        with ThreadPoolExecutor(REQUESTS) as pool:
            done = list(pool.map(_write, found))
        if problems := [f"{each.key}: {each.problem}" for each in done if each.problem]:
            raise UnfinishedError("; ".join(problems))
        return done

    def _pass_on(self, finding: Finding) -> Tidied:
        """Have what managers that only the user knows have set taken over as if kubectl had set it.

        Raises: ApiError; a 409 if the object has changed meanwhile.
        """
        metadata = read_metadata(self.client, finding.path) if self.origin.managers else None
        live = {"metadata": metadata or {}}
        renamed = pass_on(live, self.origin.managers)
        if renamed is not live:
            change = {key: renamed["metadata"][key] for key in ("resourceVersion", "managedFields")}
            self.client.merge_patch(finding.path, {"metadata": change}, manager=MANAGER, metadata=True)
        return Tidied(key=finding.key)

    def _tidy(self, owner: Owner, finding: Finding) -> Tidied:
        """Remove from an object what the tool has left on it.

        Raises: ApiError; a 409 if it has changed meanwhile.
        """
        key, path = finding.key, finding.path
        found = read_if_exists(self.client, path)
        if found is None:
            return Tidied(key=key, problem="does not exist")
        metadata = found.value["metadata"]
        record = project({"metadata": metadata}, key.group, key.kind)
        if (record.owner, record.owner_uid) != (owner.name, owner.uid):
            return Tidied(key=key, problem=f"does not belong to {owner.name}")
        rendered = self.release.objects.get(key) if self.release else None
        left = find_left_by_tool(finding.metadata, found.value, owner.name, self.origin, rendered)
        if change := make_change(metadata, owner.name, self.origin):
            metadata = self.client.merge_patch(path, change, manager=MANAGER, metadata=True).value["metadata"]
        return Tidied(key=key, left=tuple(left), managers=tuple(other_managers(metadata, owner.name, self.origin)))

    def describe_rest(self) -> Iterator[str]:
        """Yield fields and objects that only the tool knows, and what is suspended."""
        for each in self.tidied:
            if each.left:
                remedy = f'add such fields to it, or remove them with "{_kubectl("edit", each.key)}"'
                yield f"left: {each.key}: {some(each.left)}: not in the bundle; {remedy}"
            if each.managers:
                yield (
                    f"left: {each.key}: also set by {some(each.managers)}: fields that the bundle drops later stay; "
                    f"name such managers with --field-manager"
                )
        for key in self.lacking:
            yield f'left: {key}: not in the bundle; run "{_kubectl("delete", key)}" if nothing needs it'
        for rival in self.rivals:
            command = f"kubectl delete {rival.kind.lower()} {rival.name} --namespace {rival.namespace}"
            yield f'left: {rival}: suspended; remove it from where it is defined, and run "{command}"'


# what kubectl has applied, without a file


def _adopt_applied(client: Client, options: argparse.Namespace) -> ToolAdoption:
    """Return what would be done with what kubectl has applied in a namespace.

    Raises: FailedError if there is nothing, or another BundleDeployment has the name; ApiError; as `render.find`.
    """
    namespace, existing = options.install_namespace, Deployments(client).get(options.name)
    if existing:
        # What is taken over already has lost its records: what is found now would be a smaller bundle.
        _check_existing(existing, namespace)
        spec = {key: value for key, value in existing["spec"].items() if key != "collisionProtection"}
        about = {"apiVersion": DEPLOYMENTS.api_version, "kind": names.KIND, "metadata": {"name": options.name}}
        draft = Draft(value={**about, "spec": spec}, origin=f'BundleDeployment "{options.name}"')
        return _adopt_from_tool(client, options, draft)
    if attempt(lambda: client.get(NAMESPACES.path(name=namespace)), HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN) is None:
        tell(f'warning: namespace "{namespace}" does not exist, or you may not read it')
    discovery = Discovery(client)
    origin = other_tools.read_origin(options.origin, namespace, tuple(options.managers or ()))
    manifests, left_out = _collect(client, discovery, origin, options)
    if not manifests:
        tell_all(f"left: {key}: {reason}" for key, reason in left_out.items())
        which = f" with labels {options.selector}" if options.selector else ""
        found = "nothing that can be adopted" if left_out else "no object that kubectl has applied"
        raise FailedError(f'namespace "{namespace}": {found}{which}; or name a bundle with -f FILE')
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        (Path(folder) / "objects.yaml").write_text("---\n".join(map(to_yaml, manifests)), encoding="utf-8")
        draft = make_draft(argparse.Namespace(**{**vars(options), "source": folder, "format": "plain"}))
    adoption = _adopt_from_tool(client, options, draft)
    adoption.left_out = left_out
    return adoption


def _check_existing(existing: Manifest, namespace: str) -> None:
    spec, name = existing["spec"], existing["metadata"]["name"]
    if spec.get("installNamespace") != namespace or [each["kind"] for each in spec["sources"]] != [LOCAL]:
        problem = "already exists and is not of an adoption; choose another name, or name its file with -f FILE"
        raise FailedError(f'BundleDeployment "{name}" {problem}')


def _collect(
    client: Client, discovery: Discovery, origin: Origin, options: argparse.Namespace
) -> tuple[list[Manifest], dict[ObjectKey, str]]:
    owner, exists = Owner(options.name, NO_UID), Deployments(client).exists
    found = other_tools.find_applied(client, discovery, origin, options.install_namespace, options.selector or "")
    manifests, left_out = [], {}
    for key, live in found.items():
        problem = _why_left_out(project(live, key.group, key.kind), owner, exists)
        if not problem and key[:2] == _SECRET and not options.include_secrets:
            problem = "its values would be in a ConfigMap, in clear; --include-secrets adopts it, too"
        manifest = None if problem else other_tools.read_applied(client, discovery, origin, key, live["metadata"])
        if manifest:
            manifests.append(manifest)
        else:
            left_out[key] = problem or "what kubectl has recorded on it describes another object"
    return manifests, left_out


def _why_left_out(record: Record, owner: Owner, exists: Exists) -> str:
    if record.deleting:
        return "is being deleted"
    found = judge(record, owner, exists=exists, collision_protection=PROTECTIONS[-1], carries_reference=False)
    return f"belongs to {found.owner}" if found.owner else ""


# from another BundleDeployment


def _hand_over(client: Client, options: argparse.Namespace, draft: Draft | None) -> HandOver:
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
    taken = {each.key for each in findings if each.standing is Standing.TAKEN}
    compared = compare_two(replace(reviewed, client=client), before).objects if before else None
    return HandOver(
        client=client,
        name=options.name,
        draft=draft,
        findings=findings,
        differences=None if compared is None else {each.key: each for each in compared if each.key in taken},
        is_whole=options.diff,
        outcome=f"took over {_count(len(taken))} of {giver.metadata.name}",
        giver=giver,
    )


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

    def describe(self) -> Iterator[str]:
        """Yield what would be done, line by line."""
        giver, taken = self.giver.metadata.name, self.with_standing(Standing.TAKEN)
        yield f"{self.name}: take over {_count(len(taken))} of {giver}"
        if not self.giver.spec.paused:
            yield f"  Pause:     {giver}"
        for each in taken:
            yield from self.describe_taken(each)
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
        named = name_giver(deployments.get(self.name) or {}, giver)["spec"]["takeOver"]
        changed = deployments.change(self.name, {"spec": {"takeOver": named}})
        if changed is None:
            raise UnfinishedError("was deleted meanwhile")
        return self.wait_until(changed, awaits_ready, seconds)

    def describe_rest(self) -> Iterator[str]:
        """Yield what the giver still holds, and how it is deleted."""
        giver = self.giver.metadata.name
        held = list_objects(self.client, Discovery(self.client), self.giver)
        nodes = [*make_unlisted(held.unlisted), *make_nodes(self.giver, map(make_outline, held.objects))]
        for node in nodes:
            if not node.uid and node.message:
                yield f"{giver}: {node.title}: {node.message}"
        cause = RemovalCause.ORPHAN if self.giver.spec.deletion_policy == "Orphan" else RemovalCause.TEARDOWN
        fates: dict[Disposal, list[str]] = {each: [] for each in _FATES}
        for value in held.objects:
            key = key_of(value)
            fates[dispose(project(value, key.group, key.kind), cause)].append(str(key))
        if not any(fates.values()):
            yield f'{giver} has no objects any more: "kubectl delete bd {giver}" deletes none'
        for fate, named in fates.items():
            if named:
                yield f'{giver} still has {some(named)}: "kubectl delete bd {giver}" {_FATES[fate]}'
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
        path = resource.path(target.key.namespace, target.key.name)
        metadata = read_metadata(client, path)
        if metadata is None:
            return Finding(key=target.key, standing=Standing.CREATED)
        record = project({"metadata": metadata}, target.key.group, target.key.kind)
        return replace(assess(target, record, metadata), path=path, metadata=metadata)

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(_find, (each for each in targets.targets if not each.bare)))


def assess_for_tool(owner: Owner, origin: Origin, exists: Exists) -> Assess:
    """Return how objects are assessed that a tool has installed: those with its marks, or nobody's, are taken over."""

    def _assess(target: Target, record: Record, metadata: Metadata) -> Finding:
        judged = partial(judge, record, owner, exists=exists, carries_reference=target.carries_reference)
        found = judged(collision_protection=PROTECTIONS[-1])
        if found.situation is Situation.USED:
            return Finding(key=target.key, standing=Standing.USED)
        if found.situation is not Situation.ADOPT:
            return Finding(key=target.key, standing=Standing.OURS)
        if found.owner and not (found.owner == record.marks and origin.has_marked(metadata)):
            problem = f"belongs to {found.owner}, not to {origin}"
            return Finding(key=target.key, standing=Standing.REFUSED, problem=problem)
        least = next(each for each in PROTECTIONS if judged(collision_protection=each).situation is Situation.ADOPT)
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
            return Finding(key=target.key, standing=Standing.REFUSED, problem=found.problem)
        is_used = found.situation is Situation.USED
        return Finding(key=target.key, standing=Standing.USED if is_used else Standing.ADOPTED)

    return _assess


def find_protection(findings: Iterable[Finding], asked: str) -> str:
    """Return the spec.collisionProtection that is needed: what is asked for, or else the least that allows all."""
    return max((asked, *(each.protection for each in findings)), key=PROTECTIONS.index)


def read_metadata(client: Client, path: str) -> Metadata | None:
    """Return the metadata of an object; None if it does not exist.

    Raises: ApiError.
    """
    found = attempt(lambda: client.get(path, metadata=True), HTTPStatus.NOT_FOUND)
    return found.value["metadata"] if found else None
