"""What else an apply of one object takes: managedFields and marks are corrected before it, and tidied up after it.

Not here: the apply itself (sender.py), and how entries are corrected (managed_fields.py, release.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from api import names
from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.drift.ignored_fields import REPLICAS, has_field, scales, without
from controller.apply.object import managed_fields
from controller.apply.object.release import make_way
from controller.apply.object.request import ApplyRequest
from controller.apply.ownership import needs_mark
from controller.apply.plan import Action
from controller.kube.client import ApiError
from controller.kube.resources import AUTOSCALERS
from controller.observe.records import ObjectKey, Record


def prepare(request: ApplyRequest, body: dict[str, Any]) -> Mapping[str, Any]:
    """Remove what prevents an apply; returns the body, bound to the object that was judged.

    Raises: BundleError (InvalidConfig), ApiError.
    """
    task, record = request.task, request.task.record
    try:
        if task.action is Action.TAKE_OVER and record:
            body = _bound_to(_take_over(request, record), body)
        elif task.target.ignored.paths:
            _leave_fields(request)
        if task.action is Action.APPLY:
            _deal_with_dropped(request, body)
        if task.action is Action.REPAIR:
            _take_strays(request, body)
        elif task.action is Action.TAKE_BACK and record:
            body = _bound_to(_make_way(request, record), body)
    except ApiError as error:
        raise _as_conflict(error) from error
    if task.action in (Action.APPLY, Action.REPAIR) and record:
        # Of an object that was deleted since, this is a 409: an apply would create it again, whoever has pruned it.
        body = {**body, "metadata": {**body["metadata"], "uid": record.uid}}
    is_scaled = record is not None and record.scaled_hash and has_field(body, REPLICAS)
    return without(body, [REPLICAS]) if is_scaled else body


def tidy_up(request: ApplyRequest, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove the entries that our apply replaces, and the mark of an adoption, which is finished then.

    Args:
        request: that was sent.
        value: the object as the reply has it.

    Returns: the object after that.
    Raises: ApiError: until this has succeeded, the object is applied again.
    """
    is_marked = names.RELEASED_FROM in (value["metadata"].get("annotations") or {})
    adopted = is_marked or request.task.action is Action.TAKE_BACK
    try:
        metadata = managed_fields.drop_replaced_entries(
            request.client,
            request.path,
            value["metadata"],
            request.options.owner.name,
            adopted=adopted,
            leaves=bool(request.task.target.ignored.paths),
        )
    except ApiError as error:
        raise _as_conflict(error) from error
    return {**value, "metadata": metadata}


def _take_over(request: ApplyRequest, record: Record) -> str:
    """Return the resourceVersion at which to take an object over."""
    target, owner = request.task.target, request.options.owner
    with _reporting_atomic(target.key):
        return managed_fields.take_over_entries(request.client, request.resource, record, owner, target.ignored.paths)


def _leave_fields(request: ApplyRequest) -> None:
    target = request.task.target
    with _reporting_atomic(target.key):
        managed_fields.leave_fields(request.client, request.path, target.ignored.paths, request.options.owner.name)


def _deal_with_dropped(request: ApplyRequest, body: dict[str, Any]) -> None:
    """Leave replicas to an autoscaler, and take over what the API server keeps of fields that are not set any more."""
    options, key = request.options, request.task.target.key
    if key in options.dropped_replicas and (options.dropped_replicas[key] or _is_autoscaled(request)):
        managed_fields.leave_fields(request.client, request.path, [REPLICAS], options.owner.name)
    if fields := options.left_behind.get(key):
        managed_fields.take_over_fields(request.client, request.path, body, request.manager, fields)


def _is_autoscaled(request: ApplyRequest) -> bool:
    """Whether an autoscaler on the cluster scales the object, as far as the account may know."""
    key = request.task.target.key
    try:
        found = request.client.list(AUTOSCALERS.path(key.namespace))
    except ApiError:
        return False
    kind = {"apiVersion": AUTOSCALERS.api_version, "kind": AUTOSCALERS.kind}
    return any(scales({**each, **kind}, key) for each in found)


def _take_strays(request: ApplyRequest, body: dict[str, Any]) -> None:
    # Before the apply, not after a failure: otherwise ours would run alongside a container that was renamed.
    if managed_fields.has_keyed_items(body):
        managed_fields.take_over_items(request.client, request.path, body, request.manager, request.live)


def _make_way(request: ApplyRequest, record: Record) -> str:
    """Return the resourceVersion at which to take an object back."""
    owner = request.options.owner
    if not needs_mark(record, owner, evicts=request.task.evicts):
        return record.resource_version
    return make_way(request.client, request.resource, record, owner.name)


@contextmanager
def _reporting_atomic(key: ObjectKey) -> Iterator[None]:
    """Report an ignored field that is part of an atomic one. Raises: BundleError (InvalidConfig)."""
    try:
        yield
    except ValueError as error:
        raise BundleError(Reason.INVALID_CONFIG, f"{key}: {error}") from None


def _bound_to(version: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object as it is sent, so that only this version of it is changed."""
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


def _as_conflict(error: ApiError) -> ApiError:
    """Return a 409 if an object is gone that was just read or applied: it is judged again."""
    if error.status != HTTPStatus.NOT_FOUND:
        return error
    return ApiError(HTTPStatus.CONFLICT, "Gone", "was deleted since it was read")
