"""Hooks: objects that run before and after a revision is applied or deleted. Pure; runner.py sends the requests.

A hook is not a managed object: it is never repaired, pruned or counted. It has the owner label, so that the watches
report its progress, and an annotation that names its run. The rules are Helm's: in order of weight and name, one after
the other; a Job or Pod is done when it has succeeded, any other object when it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from api import names
from controller.apply.ownership import Owner, applied_digest, with_shard
from controller.build.revision import Revision
from controller.kube.resources import GroupVersionKind
from controller.observe.health import rules
from controller.observe.health.explain import pods_of
from controller.observe.health.pods import CRASH_LOOP
from controller.observe.health.subject import Context, Subject, subject_of
from controller.observe.health.verdict import State, Verdict, progressing
from controller.observe.health.workloads import SUSPENDED
from controller.observe.records import ObjectKey, Record, key_of, project
from controller.untrusted import field, integer, mapping, mappings, strings, text

BEFORE_CREATION, SUCCEEDED, FAILED = "before-hook-creation", "hook-succeeded", "hook-failed"


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
    weight: int
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
    hooks = [_hook(each, revision, event) for each in revision.hooks if event.value in each["events"]]
    return sorted(hooks, key=lambda hook: (hook.weight, hook.key.name))


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
        weight=fields["weight"],
        delete_policies=tuple(fields["deletePolicies"]),
    )


def make_hook_body(hook: PlannedHook, owner: Owner) -> dict[str, Any]:
    """Return a hook as it is sent: with the owner label and its run, and without an owner reference.

    With the applied digest, a later revision can take over the object as an ordinary one.
    """
    metadata = dict(hook.manifest["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), names.OWNER_LABEL: owner.name}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), names.HOOK_RUN: _run_of(hook, owner)}
    body = {**hook.manifest, "metadata": metadata}
    metadata["annotations"][names.APPLIED_DIGEST] = applied_digest(body)
    return with_shard(body, owner)


def _run_of(hook: PlannedHook, owner: Owner) -> str:
    """Return what identifies a run: the hooks of a BundleDeployment that is deleted and recreated run again."""
    return f"{hook.run} {owner.uid}"


def is_of_run(live: Mapping[str, Any], hook: PlannedHook, owner: Owner) -> bool:
    """Whether this run has created a live object."""
    return is_a_hook(live, owner) and _annotations(live)[names.HOOK_RUN] == _run_of(hook, owner)


def is_a_hook(live: Mapping[str, Any], owner: Owner) -> bool:
    """Whether a live object was created as a hook of this BundleDeployment, or of an earlier one of its name."""
    return field(live, "metadata", "labels", names.OWNER_LABEL) == owner.name and names.HOOK_RUN in _annotations(live)


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
    verdict = tolerate_crash(rules.assess(live, Context()))
    if verdict.reason == SUSPENDED:
        verdict = progressing(verdict.reason, verdict.message)
    elif verdict.state is State.HEALTHY:
        verdict = progressing("HookRunning", "not finished yet")
    return project(live, key.group, key.kind, verdict, pods_of(live, verdict))


def tolerate_crash(verdict: Verdict) -> Verdict:
    """Do not count a crash as a failure: how often a hook may crash, it says itself (`spec.backoffLimit`)."""
    return progressing(verdict.reason, verdict.message) if verdict.reason == CRASH_LOOP else verdict


def has_started(live: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a container of a running hook has ever run.

    Args:
        live: its Job, or the Pod itself.
        pods: of the Job, or the Pod.
    """
    counts = (integer(live, "status", name) for name in ("succeeded", "failed", "terminating", "ready"))
    return any(counts) or any(map(_has_run, pods))


def _has_run(pod: Mapping[str, Any]) -> bool:
    if field(pod, "status", "phase") not in (None, "", "Pending"):
        return True
    statuses = (
        each for name in ("initContainerStatuses", "containerStatuses") for each in mappings(pod, "status", name)
    )
    return any(map(_container_has_run, statuses))


def _container_has_run(status: Mapping[str, Any]) -> bool:
    states = ((part, state) for part in ("state", "lastState") for state in ("running", "terminated"))
    return bool(integer(status, "restartCount")) or any(field(status, *path) is not None for path in states)


def _job(job: Subject) -> HookStatus:
    if job.holds("Complete"):
        return HookStatus(HookState.SUCCEEDED)
    failed = job.conditions.get("Failed")
    if failed and failed.holds:
        return HookStatus(HookState.FAILED, failed.reason or "JobFailed")
    return HookStatus(HookState.RUNNING)


def _pod(status: Mapping[str, Any]) -> HookStatus:
    match status.get("phase"):
        case "Succeeded":
            return HookStatus(HookState.SUCCEEDED)
        case "Failed":
            return HookStatus(HookState.FAILED, text(status, "reason") or "PodFailed")
        case _:
            return HookStatus(HookState.RUNNING)
