"""Running hooks: one after the other, each waited for, and removed as its delete policies say.

Nothing waits here: a hook that runs ends the attempt, and the watches bring the next one. How a hook stands is read
from the object itself, so that a restart in the middle neither forgets nor repeats one that is still there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.failures.replies import Recovery, classify
from controller.apply.hooks.hook import (
    BEFORE_CREATION,
    FAILED,
    SUCCEEDED,
    HookEvent,
    HookState,
    PlannedHook,
    assess,
    hooks_of,
    is_a_hook,
    is_of_run,
    make_hook_body,
    runs_once,
)
from controller.build.revision import Revision
from controller.kube.client import ApiError, Client, User
from controller.kube.discovery import Discovery
from controller.kube.resources import NAMESPACES, Resource
from controller.observe.watches import Watches
from controller.retries import Retries

log = logging.getLogger(__name__)

_WAY_OUT = "with spec.deletionPolicy Orphan it is deleted without hooks, and its objects stay"
# At teardown: where the place of a hook is gone, there is nothing left that it could do.
_NOTHING_LEFT = frozenset({Reason.NAMESPACE_NOT_FOUND, Reason.NAMESPACE_TERMINATING, Reason.KIND_NOT_SERVED})


@dataclass(slots=True)
class HookMemory:
    """What this process knows of the hooks of one BundleDeployment."""

    done: set[str] = field(default_factory=set)
    """Runs of which all hooks have succeeded, and hooks of one that goes on: their objects may be gone."""
    running: dict[str, str] = field(default_factory=dict)
    """UID to resourceVersion of what was seen to run: its failure is news, and unchanged it is not read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """For whom hooks are run, and under which rules."""

    owner: str
    """The name of the BundleDeployment."""
    wish: str
    """Generation and annotation: another one lets what failed be tried again at once."""
    user: User | None
    """As whom they are made, read and removed; None: as the controller."""
    collision_protection: str
    install_namespace: Mapping[str, Any]
    """As it is made where a hook needs it and it is missing."""
    proceed: Callable[[], bool]
    """False as soon as the BundleDeployment is paused or changed: then nothing more is sent."""
    memory: HookMemory


class HookRunner:
    """Runs hooks."""

    def __init__(self, client: Client, discovery: Discovery, watches: Watches, retries: Retries) -> None:
        self._client, self._discovery, self._watches, self._retries = client, discovery, watches, retries

    def run(self, revision: Revision, event: HookEvent, options: HookOptions) -> BundleError | None:
        """Bring the hooks of an event as far as they go now; returns why they are not done, None if they are.

        Raises: ApiError if discovery does not answer.
        """
        hooks = hooks_of(revision, event)
        if not hooks or hooks[0].run in options.memory.done:
            return None
        for hook in hooks:
            if f"{hook.run} {hook.key}" in options.memory.done:
                continue
            if error := self._attempt(hook, options):
                return error
            options.memory.done.add(f"{hook.run} {hook.key}")
        # Not before all have succeeded: a later one may need an earlier one's account.
        for hook in reversed(hooks):
            if SUCCEEDED in hook.delete_policies:
                self._remove(hook, options)
        options.memory.done.add(hooks[0].run)
        return None

    def has_run(self, revision: Revision, event: HookEvent, memory: HookMemory) -> bool:
        """Whether all hooks of an event are known to have succeeded; so they are where there is none."""
        return all(hook.run in memory.done for hook in hooks_of(revision, event))

    def _attempt(self, hook: PlannedHook, options: HookOptions) -> BundleError | None:
        key, attempt = (hook.key, hook.event), f"{hook.run} {options.wish}"
        if not options.proceed():
            return BundleError(Reason.APPLYING, f"{hook} waits until the changed spec was looked at")
        if held := self._retries.holding(options.owner, key, attempt):
            return held
        try:
            error = self._advance(hook, options)
        except ApiError as refusal:
            failure = classify(refusal, hook.key, install_namespace=options.install_namespace["metadata"]["name"])
            way_out = f"; {_WAY_OUT}" if hook.event.is_of_teardown else ""
            error = BundleError(failure.reason, f"{failure.message}{way_out}", retry_after=failure.retry_after)
        if error is None or (hook.event.is_of_teardown and error.reason in _NOTHING_LEFT):
            self._retries.succeeded(options.owner, key)
            return None
        if error.reason is not Reason.WAITING_FOR_HOOK:
            self._retries.failed(options.owner, key, attempt, error)
            log.warning("hook failed", extra={**_about(hook, options), "problem": error.message})
        return error

    def _advance(self, hook: PlannedHook, options: HookOptions) -> BundleError | None:
        """Make the hook, or see how it goes.

        Raises: ApiError.
        """
        resource = self._discovery.resource(hook.kind)
        if resource is None:
            message = f"{hook} is of a kind that the cluster does not serve; install what serves it"
            return BundleError(Reason.KIND_NOT_SERVED, message)
        seen = self._watches.managed(options.owner).get(hook.key)
        if seen and options.memory.running.get(seen.uid) == seen.resource_version:
            return _running(hook)
        live = self._read(hook, resource, options)
        if live is not None and not _stands(live, hook, options):
            if error := self._make_way(hook, resource, live, options):
                return error
            live = None
        if live is None:
            live = self._create(hook, resource, options)
        return self._judge(hook, live, options)

    def _judge(self, hook: PlannedHook, live: dict[str, Any], options: HookOptions) -> BundleError | None:
        status, about = assess(live, hook.key), live["metadata"]
        if status.state is HookState.RUNNING:
            options.memory.running[about["uid"]] = about["resourceVersion"]
            return _running(hook)
        options.memory.running.pop(about["uid"], None)
        if status.state is HookState.SUCCEEDED:
            return None
        remedy = "see the logs of its pods"
        if FAILED in hook.delete_policies:
            self._remove(hook, options)
            remedy = "its hook-delete-policy had it removed: take hook-failed out of that to see the logs of its pods"
        if hook.event.is_of_teardown:
            remedy += f"; {_WAY_OUT}"
        return BundleError(Reason.HOOK_FAILED, f"{hook} failed ({status.message}); {remedy}")

    def _make_way(
        self, hook: PlannedHook, resource: Resource, live: dict[str, Any], options: HookOptions
    ) -> BundleError | None:
        """Take away an older run of the hook, as its policies say, or what somebody else has there."""
        if not is_a_hook(live, options.owner) and options.collision_protection == "Prevent":
            message = (
                f"{hook} cannot be made: the object exists already and is not of this bundle; delete it, or set "
                "spec.collisionProtection to None"
            )
            return BundleError(Reason.COLLISION, message)
        is_deleting = bool(live["metadata"].get("deletionTimestamp"))
        if BEFORE_CREATION in hook.delete_policies and not is_deleting:
            client = self._client.acting_as(options.user)
            client.delete(_path(hook, resource), uid=live["metadata"]["uid"])
            is_deleting = self._read(hook, resource, options) is not None
        if is_deleting:
            return BundleError(Reason.WAITING_FOR_HOOK, f"{hook} waits until that of an earlier run is gone")
        is_earlier = is_a_hook(live, options.owner) and not is_of_run(live, hook, options.owner)
        if is_earlier and BEFORE_CREATION not in hook.delete_policies and runs_once(hook.key):
            message = (
                f"{hook} cannot be made: that of an earlier run is still there, and its hook-delete-policy lacks "
                "before-hook-creation; delete it"
            )
            return BundleError(Reason.COLLISION, message)
        return None

    # requests

    def _read(self, hook: PlannedHook, resource: Resource, options: HookOptions) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = self._client.acting_as(options.user).get(_path(hook, resource)).value
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return value

    def _create(self, hook: PlannedHook, resource: Resource, options: HookOptions) -> dict[str, Any]:
        try:
            value = self._apply(hook, resource, options)
        except ApiError as error:
            failure = classify(error, hook.key, install_namespace=options.install_namespace["metadata"]["name"])
            may_create = options.user is None and not hook.event.is_of_teardown
            if failure.recovery is not Recovery.CREATE_NAMESPACE or not may_create:
                raise
            self._create_namespace(options)
            value = self._apply(hook, resource, options)
        log.info("hook started", extra=_about(hook, options))
        return value

    def _apply(self, hook: PlannedHook, resource: Resource, options: HookOptions) -> dict[str, Any]:
        body, manager = make_hook_body(hook, options.owner), names.field_manager(options.owner)
        path = _path(hook, resource)
        client = self._client.acting_as(options.user)
        value: dict[str, Any] = client.apply(path, body, manager=manager, force=True, metadata=False).value
        return value

    def _create_namespace(self, options: HookOptions) -> None:
        body, manager = options.install_namespace, names.field_manager(options.owner)
        self._client.apply(NAMESPACES.path(name=body["metadata"]["name"]), body, manager=manager, force=False)

    def _remove(self, hook: PlannedHook, options: HookOptions) -> None:
        """Delete a hook that is done with; that it stays is no failure of what it was for."""
        resource = self._discovery.resource(hook.kind)
        try:
            if resource:
                self._client.acting_as(options.user).delete(_path(hook, resource))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                log.warning("hook not removed", extra={"object": str(hook.key), "reply": str(error)})


def _stands(live: dict[str, Any], hook: PlannedHook, options: HookOptions) -> bool:
    """Whether a live object is this run of the hook, and not one that is to be run again since it failed."""
    if live["metadata"].get("deletionTimestamp") or not is_of_run(live, hook, options.owner):
        return False
    is_failed = assess(live, hook.key).state is HookState.FAILED
    return not is_failed or live["metadata"]["uid"] in options.memory.running


def _running(hook: PlannedHook) -> BundleError:
    return BundleError(Reason.WAITING_FOR_HOOK, f"{hook} has not finished yet")


def _path(hook: PlannedHook, resource: Resource) -> str:
    return resource.path(hook.key.namespace, hook.key.name)


def _about(hook: PlannedHook, options: HookOptions) -> dict[str, str]:
    return {"BundleDeployment": options.owner, "object": str(hook.key), "event": hook.event.value}
