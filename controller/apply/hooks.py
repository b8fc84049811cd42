"""The hooks of charts: objects that run at a point of installation or deletion.

A hook is not a managed object: it is never repaired, pruned or counted. It has the owner label, so that the watches
report its progress, and an annotation that names its run. The rules are Helm's: in order of weight and name, one after
the other; a Job or Pod is done when it has succeeded, any other object when it exists.

Nothing blocks here: a running hook ends the attempt, and its watch event starts the next one. The state of a hook is
read from its object, so that a restart neither forgets nor repeats a hook that still exists. One that is not done by
the deadline has failed, but is left running: if it succeeds after all, what waited for it continues.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller import untrusted
from rukpak.controller.apply.ledger import Left
from rukpak.controller.apply.ownership import Owner, add_marks
from rukpak.controller.apply.plan import Options
from rukpak.controller.apply.removal import Removal
from rukpak.controller.apply.replies import ApplyFailure, Recovery, classify
from rukpak.controller.building.revision import Revision
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import NAMESPACES, GroupVersionKind, Resource
from rukpak.controller.observe.explanations import FEW_PODS, PODS, list_pods
from rukpak.controller.observe.following import Contested
from rukpak.controller.observe.health import rules
from rukpak.controller.observe.health.explain import NOT_OBSERVED, NOT_READY, PENDING, explain, pods_of, without_crash
from rukpak.controller.observe.health.rules import SUSPENDED
from rukpak.controller.observe.health.verdict import Context, State, Subject, Verdict, progressing, subject_of
from rukpak.controller.observe.kinds import ManagedObjects
from rukpak.controller.observe.progress import Explain, HealthTracker
from rukpak.controller.observe.records import Record, key_of, project
from rukpak.controller.untrusted import integer, mapping, mappings, strings, text

BEFORE_CREATION, SUCCEEDED, FAILED = "before-hook-creation", "hook-succeeded", "hook-failed"
log = logging.getLogger(__name__)
_WAY_OUT = "to delete without hooks and keep all objects, set spec.deletionPolicy to Orphan"
# At teardown, a hook whose namespace or kind is gone has nothing left to do.
_NOTHING_LEFT = frozenset({Reason.NAMESPACE_NOT_FOUND, Reason.NAMESPACE_TERMINATING, Reason.KIND_NOT_SERVED})
# Of hooks about which there is nothing to tell but that they run.
_PLAIN = frozenset({"JobRunning", "HookRunning", NOT_OBSERVED, PENDING, NOT_READY})


class HookEvent(Enum):
    """When hooks are run."""

    PRE_INSTALL = "pre-install"
    POST_INSTALL = "post-install"
    PRE_UPGRADE = "pre-upgrade"
    POST_UPGRADE = "post-upgrade"
    PRE_ROLLBACK = "pre-rollback"
    POST_ROLLBACK = "post-rollback"
    PRE_DELETE = "pre-delete"
    POST_DELETE = "post-delete"

    @property
    def is_of_teardown(self) -> bool:
        """Whether it belongs to the deletion of a BundleDeployment."""
        return self in (HookEvent.PRE_DELETE, HookEvent.POST_DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHook:
    """One hook at one event of one revision."""

    key: ObjectKey
    kind: GroupVersionKind
    manifest: Mapping[str, Any]
    event: HookEvent
    run: str
    """Identifies the run of one BundleDeployment: a live object with the same value is not from an older run."""
    delete_policies: tuple[str, ...]

    def __str__(self) -> str:
        """Return it in the form in which messages start."""
        return f"{self.key}: {self.event.value} hook"


class HookState(Enum):
    """The state of a hook."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class HookStatus:
    """The state of a hook, and why."""

    state: HookState
    message: str = ""


def hooks_of(revision: Revision, event: HookEvent) -> list[PlannedHook]:
    """Return the hooks of an event in run order."""
    hooks = [each for each in revision.hooks if event.value in each["events"]]
    hooks.sort(key=lambda each: (each["weight"], each["manifest"]["metadata"]["name"]))
    return [_hook(each, revision, event) for each in hooks]


def kinds_of(revision: Revision) -> set[GroupVersionKind]:
    """Return the kinds of all hooks of a revision."""
    return {GroupVersionKind.of(each["manifest"]) for each in revision.hooks}


def _hook(fields: Mapping[str, Any], revision: Revision, event: HookEvent) -> PlannedHook:
    manifest = fields["manifest"]
    return PlannedHook(
        key=key_of(manifest),
        kind=GroupVersionKind.of(manifest),
        manifest=manifest,
        event=event,
        run=f"{event.value} {revision.digest}",
        delete_policies=tuple(fields["deletePolicies"]),
    )


def make_hook_body(hook: PlannedHook, owner: Owner) -> dict[str, Any]:
    """Return a hook as it is sent: with the owner label and its run, and without an owner reference.

    With the applied digest, a later revision can take over the object as an ordinary one.
    """
    return add_marks(hook.manifest, owner, {names.HOOK_RUN: _run_of(hook, owner)})


def _run_of(hook: PlannedHook, owner: Owner) -> str:
    # The hooks of a BundleDeployment that is deleted and recreated run again.
    return f"{hook.run} {owner.uid}"


def is_of_run(live: Mapping[str, Any], hook: PlannedHook, owner: Owner) -> bool:
    """Whether this run has created a live object."""
    return is_a_hook(live, owner) and _annotations(live)[names.HOOK_RUN] == _run_of(hook, owner)


def is_a_hook(live: Mapping[str, Any], owner: Owner) -> bool:
    """Whether a live object was created as a hook of this BundleDeployment, or of an earlier one of its name."""
    return untrusted.field(
        live, "metadata", "labels", names.OWNER_LABEL
    ) == owner.name and names.HOOK_RUN in _annotations(live)


def _annotations(live: Mapping[str, Any]) -> Mapping[str, str]:
    return strings(live, "metadata", "annotations")


def runs_once(key: ObjectKey) -> bool:
    """Whether a hook runs when it is created and cannot run again."""
    return (key.group, key.kind) in (("batch", "Job"), ("", "Pod"))


def assess(live: Mapping[str, Any], key: ObjectKey) -> HookStatus:
    """Return the state of a hook (Helm: pkg/kube/client.go, watchUntilReady)."""
    match (key.group, key.kind):
        case ("batch", "Job"):
            return _job(subject_of(live, Context()))
        case ("", "Pod"):
            return _pod(mapping(live, "status"))
        case _:
            return HookStatus(HookState.SUCCEEDED)


def make_running_record(live: Mapping[str, Any], key: ObjectKey) -> Record:
    """Return the record of a hook that is running: at best Progressing, however healthy it is as an object."""
    verdict = without_crash(rules.assess(live, Context()))
    if verdict.reason == SUSPENDED:
        verdict = progressing(verdict.reason, verdict.message)
    elif verdict.state is State.HEALTHY:
        verdict = progressing("HookRunning", "not finished yet")
    return project(live, key.group, key.kind, verdict, pods_of(live, verdict))


def has_started(live: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a container of a running hook has ever run.

    Args:
        live: its Job, or the Pod itself.
        pods: of the Job, or the Pod.
    """
    counts = (integer(live, "status", name) for name in ("succeeded", "failed", "terminating", "ready"))
    return any(counts) or any(map(_has_run, pods))


def _has_run(pod: Mapping[str, Any]) -> bool:
    if untrusted.field(pod, "status", "phase") not in (None, "", "Pending"):
        return True
    statuses = (
        each for name in ("initContainerStatuses", "containerStatuses") for each in mappings(pod, "status", name)
    )
    return any(map(_container_has_run, statuses))


def _container_has_run(status: Mapping[str, Any]) -> bool:
    states = ((part, state) for part in ("state", "lastState") for state in ("running", "terminated"))
    return bool(integer(status, "restartCount")) or any(untrusted.field(status, *path) is not None for path in states)


def _job(job: Subject) -> HookStatus:
    if job.holds("Complete"):
        return HookStatus(HookState.SUCCEEDED)
    failed = job.conditions.get("Failed")
    if failed and failed.holds:
        return HookStatus(HookState.FAILED, failed.reason or "JobFailed")
    return HookStatus(HookState.RUNNING)


def _pod(status: Mapping[str, Any]) -> HookStatus:
    phase = status.get("phase")
    if phase == "Failed":
        return HookStatus(HookState.FAILED, text(status, "reason") or "PodFailed")
    return HookStatus(HookState.SUCCEEDED if phase == "Succeeded" else HookState.RUNNING)


@dataclass(slots=True)
class HookProgress:
    """The progress of the hooks of one BundleDeployment, in memory."""

    done: set[str] = field(default_factory=set)
    """Completed runs, and completed hooks of the current run: their objects may be deleted."""
    running: set[str] = field(default_factory=set)
    """By run and UID, the hooks that were seen running: their failure is news."""
    health: HealthTracker = field(default_factory=HealthTracker)
    """Running hooks: since when they count to the deadline."""
    next_change: float | None = None
    """Seconds after the pass until that may change without an event; None for never."""
    started: set[str] = field(default_factory=set)
    """UIDs of hooks of other revisions that are known to have started: their pods are not listed again."""
    late: set[str] = field(default_factory=set)
    """UIDs of hooks that run beyond the deadline and were reported."""
    remaining: set[str] = field(default_factory=set)
    """By run, hooks that are done and that could not be deleted."""
    read: dict[ObjectKey, dict[str, Any] | None] = field(default_factory=dict)
    """Objects of hooks as they were read last: only a new version is read again."""
    reported: set[ObjectKey] = field(default_factory=set)
    """Running hooks of other revisions that an Event has reported."""
    contested: Contested | None = None
    """The object that is in the way of the next hook: when it is gone, that can be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions(Options):
    """One BundleDeployment whose hooks are run."""

    install_namespace: Mapping[str, Any]
    """Created if a hook needs it and it does not exist."""
    progress: HookProgress
    deadline: float
    """`spec.progressDeadline` in seconds."""
    explain: Explain


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRemains:
    """What is left of hooks."""

    failures: tuple[Removal, ...] = ()
    """Objects that could not be deleted, and why."""
    running: tuple[ObjectKey, ...] = ()
    """Hooks that have not ended."""
    unknown: tuple[str, ...] = ()
    """Kinds that are not listed yet."""


class LateHookError(BundleError):
    """A hook is not done by the deadline, and still runs: it is neither run again nor held back."""


def has_run(revision: Revision, event: HookEvent, progress: HookProgress) -> bool:
    """Whether all hooks of an event are known to have succeeded; true without hooks."""
    return all(hook.run in progress.done for hook in hooks_of(revision, event))


class HookRunner:
    """Runs the hooks of revisions."""

    def __init__(self, client: Client, discovery: Discovery, objects: ManagedObjects) -> None:
        self._client, self._discovery, self._objects = client, discovery, objects

    def run(self, revision: Revision, event: HookEvent, options: HookOptions) -> BundleError | None:
        """Advance the hooks of an event; returns why they are not done, None if they are.

        Raises: ApiError if discovery does not answer.
        """
        hooks = hooks_of(revision, event)
        if not hooks or hooks[0].run in options.progress.done:
            return None
        for hook in hooks:
            if f"{hook.run} {hook.key}" in options.progress.done:
                continue
            if error := self._attempt(hook, options):
                return error
            options.progress.done.add(f"{hook.run} {hook.key}")
        # Only after all have succeeded: a later one may need the account of an earlier one.
        for hook in reversed(hooks):
            if SUCCEEDED in hook.delete_policies:
                self._remove(hook, options)
        options.progress.done.add(hooks[0].run)
        return None

    def tidy(self, revision: Revision, options: HookOptions, over: Collection[HookEvent]) -> HookRemains:
        """Delete the hooks that are done and that their policies do not keep: a restart forgets that it was tried.

        Args:
            revision: whose hooks these are.
            options: of its BundleDeployment.
            over: events of which no more hooks will run.
        """
        failures: list[Removal] = []
        running: list[ObjectKey] = []
        for event in HookEvent:
            found = self._find_run(hooks_of(revision, event), options, failures)
            states = {hook.key: assess(live, hook.key).state for hook, live in found}
            running += [key for key, state in states.items() if state is HookState.RUNNING and runs_once(key)]
            has_succeeded = event in over and set(states.values()) <= {HookState.SUCCEEDED}
            for hook, live in reversed(found):
                has_failed = states[hook.key] is HookState.FAILED
                policy = FAILED if has_failed else SUCCEEDED if has_succeeded else None
                is_due = policy in hook.delete_policies and not live["metadata"].get("deletionTimestamp")
                if is_due and (error := self._remove(hook, options, live["metadata"]["uid"])):
                    failures.append(Removal(record=project(live, hook.key.group, hook.key.kind), error=error))
        return HookRemains(failures=tuple(failures), running=tuple(running))

    def _find_run(
        self, hooks: list[PlannedHook], options: HookOptions, failures: list[Removal]
    ) -> list[tuple[PlannedHook, dict[str, Any]]]:
        found, seen, progress = [], self._objects.of(options.owner.name), options.progress
        for hook in hooks:
            resource = self._discovery.resource(hook.kind)
            is_possible = hook.key in seen or self._objects.is_forbidden(hook.key.group, hook.key.kind)
            if resource is None or not (is_possible or f"{hook.run} {hook.key}" in progress.remaining):
                continue
            try:
                live = self._read_changed(hook, resource, options, seen.get(hook.key))
            except ApiError as error:
                failures.append(Removal(record=Record(key=hook.key), error=_to_problem(error, hook, options)))
                continue
            if live is not None and is_of_run(live, hook, options.owner):
                found.append((hook, live))
        return found

    def _attempt(self, hook: PlannedHook, options: HookOptions) -> BundleError | None:
        key, attempt = (hook.key, hook.event), f"{hook.run} {options.spec_version}"
        if not options.proceed():
            return BundleError(Reason.APPLYING, f"{hook}: spec changed; waiting for the next reconcile")
        if held := options.retries.holding(key, attempt):
            return held
        try:
            error = self._advance(hook, options)
        except ApiError as refusal:
            problem = _to_problem(refusal, hook, options)
            way_out = f"; {_WAY_OUT}" if hook.event.is_of_teardown else ""
            error = BundleError(problem.reason, f"{problem.message}{way_out}", retry_after=problem.retry_after)
        if error is None or (hook.event.is_of_teardown and error.reason in _NOTHING_LEFT):
            options.retries.succeeded(key)
            return None
        if error.reason is not Reason.WAITING_FOR_HOOK and not isinstance(error, LateHookError):
            options.retries.failed(key, attempt, error)
            log.warning("hook failed", extra={**_about(hook, options), "problem": error.message})
        return error

    def _advance(self, hook: PlannedHook, options: HookOptions) -> BundleError | None:
        resource = self._discovery.resource(hook.kind)
        if resource is None:
            message = f"{hook}: the cluster does not serve {hook.kind}; install its API"
            return BundleError(Reason.KIND_NOT_SERVED, message)
        live = self._read_changed(hook, resource, options, self._objects.of(options.owner.name).get(hook.key))
        options.progress.contested = None
        if live is not None and not _stands(live, hook, options):
            if error := self._delete_earlier(hook, resource, live, options):
                record = project(live, hook.key.group, hook.key.kind)
                options.progress.contested = Contested(kind=hook.kind, key=hook.key, record=record)
                return error
            live = None
        if live is None:
            if not hook.event.is_of_teardown:
                options.confirm()
            live = self._create(hook, resource, options)
        return self._judge(hook, live, options)

    def _judge(self, hook: PlannedHook, live: dict[str, Any], options: HookOptions) -> BundleError | None:
        status, identity = assess(live, hook.key), _id_of(hook, live["metadata"]["uid"])
        if status.state is HookState.RUNNING:
            options.progress.running.add(identity)
            return self._await(hook, make_running_record(live, hook.key), options)
        options.progress.running.discard(identity)
        if status.state is HookState.SUCCEEDED:
            return None
        pods, cause = self._read_pods(hook, live, FEW_PODS), status.message
        verdict = None if pods is None else explain(pods)
        if verdict and verdict.reason != cause:
            cause += f"; {_describe(verdict)}"
        remedy = "check the logs of its pods"
        if FAILED in hook.delete_policies:
            self._remove(hook, options)
            remedy = (
                "it was deleted by its hook-delete-policy; remove hook-failed from the policy to keep the logs of its "
                "pods"
            )
        if hook.event.is_of_teardown:
            remedy += f"; {_WAY_OUT}"
        return BundleError(Reason.HOOK_FAILED, f"{hook} failed ({cause}); {remedy}")

    def _await(self, hook: PlannedHook, record: Record, options: HookOptions) -> BundleError:
        verdict = _time(hook, record, options)
        if verdict.state is not State.FAILED:
            is_plain = verdict == record.verdict and verdict.reason in _PLAIN
            why = "" if is_plain else f" ({_describe(verdict)})"
            return BundleError(Reason.WAITING_FOR_HOOK, f"{hook} is still running{why}")
        way_out = f"; {_WAY_OUT}" if hook.event.is_of_teardown else ""
        message = (
            f"{hook} failed ({_describe(verdict)}); it was not stopped, and counts if it still succeeds; correct what "
            f"its pods wait for, or raise spec.progressDeadline{way_out}"
        )
        if record.uid not in options.progress.late:
            options.progress.late.add(record.uid)
            log.warning("hook failed", extra={**_about(hook, options), "problem": message})
        return LateHookError(Reason.HOOK_FAILED, message)

    def _delete_earlier(
        self, hook: PlannedHook, resource: Resource, live: dict[str, Any], options: HookOptions
    ) -> BundleError | None:
        if not is_a_hook(live, options.owner) and options.collision_protection == "Prevent":
            message = (
                f"{hook}: the object already exists and is not from this bundle; delete it, or set "
                "spec.collisionProtection to None"
            )
            return BundleError(Reason.COLLISION, message)
        is_deleting = bool(live["metadata"].get("deletionTimestamp"))
        is_earlier = is_a_hook(live, options.owner) and not is_of_run(live, hook, options.owner)
        is_unstarted = False
        if is_earlier and not is_deleting and assess(live, hook.key).state is HookState.RUNNING:
            record, started = make_running_record(live, hook.key), options.progress.started
            pods = None if record.uid in started else self._read_pods(hook, live, PODS)
            is_unstarted = pods is not None and len(pods) < PODS and not has_started(live, pods)  # there may be more
            if pods is not None and not is_unstarted:
                started.add(record.uid)
            if not is_unstarted and (error := self._await_other(hook, record, options)):
                return error
        if (BEFORE_CREATION in hook.delete_policies or is_unstarted) and not is_deleting:
            client = self._client.acting_as(options.user)
            # The watches may show it for a moment, also if it is gone already.
            options.progress.read.pop(hook.key, None)
            delete = partial(client.delete, _path(hook, resource), uid=live["metadata"]["uid"])
            attempt(delete, HTTPStatus.NOT_FOUND)
            is_deleting = self._read(hook, resource, options) is not None
            if not is_deleting:
                return None
        if is_deleting:
            return BundleError(
                Reason.WAITING_FOR_HOOK, f"{hook}: waiting for the object of an earlier run to be deleted"
            )
        if is_earlier and BEFORE_CREATION not in hook.delete_policies and runs_once(hook.key):
            message = (
                f"{hook}: the object of an earlier run still exists; delete it, or add before-hook-creation to its "
                "hook-delete-policy"
            )
            return BundleError(Reason.COLLISION, message)
        return None

    def _await_other(self, hook: PlannedHook, record: Record, options: HookOptions) -> BundleError | None:
        verdict = _time(hook, record, options)
        if verdict.state is State.FAILED:
            return None
        return BundleError(
            Reason.WAITING_FOR_HOOK,
            f"{hook}: waiting for the one of another revision, which has started, to end ({_describe(verdict)}); "
            "delete it to end it now",
        )

    # requests

    def _read_pods(self, hook: PlannedHook, live: dict[str, Any], most: int) -> Sequence[Mapping[str, Any]] | None:
        if hook.key.kind == "Pod":
            return [live]
        try:
            return list_pods(self._client, make_running_record(live, hook.key), most)
        except ApiError as error:
            log.debug("pods of a hook not read", extra={"object": str(hook.key), "reply": str(error)})
            return None

    def _read(self, hook: PlannedHook, resource: Resource, options: HookOptions) -> dict[str, Any] | None:
        client, path = self._client.acting_as(options.user), _path(hook, resource)
        found = attempt(lambda: client.get(path), HTTPStatus.NOT_FOUND)
        value: dict[str, Any] | None = found.value if found else None
        return value

    def _read_changed(
        self, hook: PlannedHook, resource: Resource, options: HookOptions, seen: Record | None
    ) -> dict[str, Any] | None:
        read = options.progress.read
        known = read.get(hook.key)
        if seen is None or known is None or known["metadata"]["resourceVersion"] != seen.resource_version:
            read[hook.key] = known = self._read(hook, resource, options)
        return known

    def _create(self, hook: PlannedHook, resource: Resource, options: HookOptions) -> dict[str, Any]:
        try:
            value = self._apply(hook, resource, options)
        except ApiError as error:
            failure = _classify(error, hook, options)
            may_create = options.user is None and not hook.event.is_of_teardown
            if failure.recovery is not Recovery.CREATE_NAMESPACE or not may_create:
                raise
            body, manager = options.install_namespace, names.field_manager(options.owner.name)
            self._client.apply(NAMESPACES.path(name=body["metadata"]["name"]), body, manager=manager, force=False)
            value = self._apply(hook, resource, options)
        log.info("hook started", extra=_about(hook, options))
        return value

    def _apply(self, hook: PlannedHook, resource: Resource, options: HookOptions) -> dict[str, Any]:
        body, manager = make_hook_body(hook, options.owner), names.field_manager(options.owner.name)
        path = _path(hook, resource)
        client = self._client.acting_as(options.user)
        value: dict[str, Any] = client.apply(path, body, manager=manager, force=True, metadata=False).value
        return value

    def _remove(self, hook: PlannedHook, options: HookOptions, uid: str = "") -> BundleError | None:
        # A failure to remove it is no failure of the hook, and `tidy` retries it.
        key, attempt = (hook.key, "removal"), f"{hook.run} {options.spec_version}"
        if held := options.retries.holding(key, attempt):
            return held
        resource, identity = self._discovery.resource(hook.kind), f"{hook.run} {hook.key}"
        options.progress.read.pop(hook.key, None)
        try:
            if resource:
                self._client.acting_as(options.user).delete(_path(hook, resource), uid=uid)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                problem = _to_problem(error, hook, options)
                if identity not in options.progress.remaining:
                    log.warning("hook not deleted", extra={"object": str(hook.key), "reply": str(error)})
                options.progress.remaining.add(identity)
                options.retries.failed(key, attempt, problem)
                return problem
        options.progress.remaining.discard(identity)
        options.retries.succeeded(key)
        return None


def _to_problem(error: ApiError, hook: PlannedHook, options: HookOptions) -> BundleError:
    return _classify(error, hook, options).to_error()


def _classify(error: ApiError, hook: PlannedHook, options: HookOptions) -> ApplyFailure:
    namespace = options.install_namespace["metadata"]["name"]
    return classify(error, hook.key, install_namespace=namespace, conceals=options.conceals)


def _stands(live: dict[str, Any], hook: PlannedHook, options: HookOptions) -> bool:
    if live["metadata"].get("deletionTimestamp") or not is_of_run(live, hook, options.owner):
        return False
    is_failed = assess(live, hook.key).state is HookState.FAILED
    return not is_failed or _id_of(hook, live["metadata"]["uid"]) in options.progress.running


def _time(hook: PlannedHook, record: Record, options: HookOptions) -> Verdict:
    progress = options.progress.health.summarize(
        {hook.key: Left(record.applied_digest, record.entry_hash)},  # nothing repairs it: it is compared with itself
        {hook.key: record},
        _id_of(hook, record.uid),
        options.deadline,
        explain=options.explain,
    )
    options.progress.next_change = progress.next_change
    ((_, verdict),) = progress.health.not_ready
    return verdict


def _describe(verdict: Verdict) -> str:
    return f"{verdict.reason}: {verdict.text}" if verdict.text else verdict.reason


def _id_of(hook: PlannedHook, uid: str) -> str:
    # The object of an earlier run may still have the name of a hook.
    return f"{hook.run} {uid}"


def _path(hook: PlannedHook, resource: Resource) -> str:
    return resource.path(hook.key.namespace, hook.key.name)


def _about(hook: PlannedHook, options: HookOptions) -> dict[str, str]:
    return {"BundleDeployment": options.owner.name, "object": str(hook.key), "event": hook.event.value}
