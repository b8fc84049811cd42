"""Sends what is to be done with one object, and resolves the conflicts that it can.

Each recovery is tried once per object and pass; the class of its reason says when a failure is retried (README.md,
Replies). Runs on the threads of the pool, and must not use the pool itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.status import Leftover
from rukpak.controller.apply import leftovers, managed_fields
from rukpak.controller.apply.crd_upgrade import inspect_upgrade
from rukpak.controller.apply.drift import REPLICAS, DriftedObject, find_autoscalers, has_field, united, without
from rukpak.controller.apply.holders import (
    NO_HOLDERS,
    Holders,
    Refused,
    Trials,
    describe_supposed,
    find_allocated,
    find_dropped,
    may_be_deleted,
)
from rukpak.controller.apply.managed_fields import Probe, Replaced
from rukpak.controller.apply.order import describe_awaited
from rukpak.controller.apply.ownership import CRD, make_body, needs_mark, was_applied
from rukpak.controller.apply.plan import (
    Action,
    ApplyOptions,
    Outcome,
    Task,
    decide_about,
    is_drift,
    out_of_date,
    state_of,
)
from rukpak.controller.apply.removal import delete, is_shared, mark_to_take_back, release
from rukpak.controller.apply.replies import ApplyFailure, Contest, Recovery, classify, conceal_quotes
from rukpak.controller.apply.requests import ObjectReader, Webhooks
from rukpak.controller.apply.rights import for_apply
from rukpak.controller.apply.trees import differing, inside, outside, refused_part, united_trees
from rukpak.controller.content.limits import quote, some
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError, Client, Response
from rukpak.controller.kube.discovery import Discovery
from rukpak.controller.kube.errors import UNREACHABLE
from rukpak.controller.kube.resources import AUTOSCALERS, Resource
from rukpak.controller.observe.health.rules import NOT_OBSERVED, needs_full_object
from rukpak.controller.observe.kinds import ManagedObjects
from rukpak.controller.observe.records import Entry, Record, Tree, entry_of, fields_of, project

NOT_SERVED_YET_SECONDS = 0.3
MOST_JUDGED = 5
"""Times that an object is judged in one pass, while other clients write it at the same time."""
OVERTAKEN_SECONDS = 1.0
NOT_NOTICED_YET_SECONDS = 0.5
"""After a holder was deleted, webhooks and policies may refuse its successor for a moment."""
LOGGED_FIELDS = 10
"""Fields of a drifted object that are logged."""
log = logging.getLogger(__name__)
_STATEFUL_SET = ("apps", "StatefulSet")
_NAMESPACE_GONE = frozenset({Reason.NAMESPACE_NOT_FOUND, Reason.NAMESPACE_TERMINATING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """One object that is being applied."""

    task: Task
    resource: Resource
    options: ApplyOptions
    client: Client
    """Acts as the account of the BundleDeployment."""
    recoveries: frozenset[Recovery] = frozenset()
    """The recoveries that were already tried."""
    drift: DriftedObject | None = None
    """What another client did to it; None: this is no repair."""
    replaced: Replaced | None = None
    """Entries that were rewritten to take over fields; None: none were."""
    live: Mapping[str, Any] | None = None
    """Its metadata as the drift was found in; None if it was not read."""
    made_way: tuple[ObjectKey, ...] = ()
    """Dropped objects that were deleted for it in this pass."""
    judged: int = 0
    """How often it was judged again in this pass, since it had changed meanwhile."""
    left: tuple[Leftover, ...] = ()
    """Warnings about what stays of the object that is adopted, since it cannot be changed."""

    @property
    def path(self) -> str:
        """Path of the object."""
        key = self.task.target.key
        return self.resource.path(key.namespace, key.name)

    @property
    def attempt(self) -> str:
        """What others make way for: another revision or version of the spec begins anew."""
        return self.options.attempt(self.task.target, "")

    @property
    def manager(self) -> str:
        """Our field manager."""
        return names.field_manager(self.options.owner.name)

    def body(self, *, whole: bool = False) -> dict[str, Any]:
        """Return the object as it is sent; `whole`: with its ignored fields."""
        target = self.task.target
        manifest = united(target.manifest, target.initial) if whole else target.manifest
        return dict(manifest) if target.bare else make_body(manifest, self.options.owner)

    def trials(self) -> Trials:
        """Return how to try it."""
        return Trials(client=self.client, resource=self.resource, manager=self.manager, key=self.task.target.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An object that is ready to be applied."""

    body: Mapping[str, Any]
    """As it is sent, bound to the object that was judged."""
    before: Mapping[str, Any] | None
    """The object, or the manifest of the revision before, if the apply may leave fields that nobody sets any more."""
    inherited: Tree
    """The fields of an earlier owner that the apply removes."""
    probe: Probe
    """Tells what it would be if it were new."""


def prepare(request: ApplyRequest, body: dict[str, Any]) -> Prepared:
    """Remove what prevents an apply.

    Raises: BundleError (InvalidConfig), ApiError.
    """
    task, record = request.task, request.task.record
    owner, ignored = request.options.owner, task.target.ignored.paths
    probe = Probe(request.client, request.resource, body, request.manager)
    before, adopted = _reduced(request), None
    try:
        with _reporting_atomic(task.target.key):
            if task.action is Action.TAKE_OVER and record:
                adopted = managed_fields.take_over_entries(request.client, request.resource, record, owner, ignored)
                body = _bound_to(adopted["metadata"]["resourceVersion"], body)
            elif ignored:
                managed_fields.leave_fields(request.client, request.path, ignored, owner.name)
        if task.action is Action.APPLY:
            _deal_with_dropped(request, body)
        if task.action is Action.REPAIR and managed_fields.has_keyed_items(body):
            # Before the apply, not after a failure: otherwise ours would run alongside a container that was renamed.
            managed_fields.take_over_items(request.client, request.path, body, request.manager, request.live)
        elif task.action is Action.TAKE_BACK and record:
            version, live, adopted = _begin_taking_back(request, record, probe)
            body = _bound_to(version, body)
            before = adopted if live and leftovers.is_converted(live) else None
        body = _empty_maps(request, body, adopted)
    except ApiError as error:
        raise _as_conflict(error) from error
    if task.action in (Action.APPLY, Action.REPAIR) and record:
        # Of an object that was deleted since, this is a 409: an apply would create it again, whoever has pruned it.
        body = {**body, "metadata": {**body["metadata"], "uid": record.uid}}
    is_scaled = record is not None and record.scaled_hash and has_field(body, REPLICAS)
    sent = without(body, [REPLICAS]) if is_scaled else body
    ours = fields_of(entry_of(adopted, request.manager)) if adopted else {}
    return Prepared(body=sent, before=before, inherited=leftovers.find_surplus_fields(ours, sent), probe=probe)


def _empty_maps(request: ApplyRequest, body: dict[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    task = request.task
    inherits = task.action in (Action.TAKE_BACK, Action.TAKE_OVER)
    if not leftovers.empties(inherits or _reduced(request), body):
        return body
    live = live or request.client.get(request.path).value
    version = managed_fields.empty_maps(request.client, request.path, body, live, request.manager)
    return _bound_to(version, body) if version else body


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
    leaves = bool(request.task.target.ignored.paths)
    try:
        return managed_fields.drop_replaced_entries(
            request.client, request.path, value, request.options.owner.name, adopted=adopted, leaves=leaves
        )
    except ApiError as error:
        raise _as_conflict(error) from error


def _deal_with_dropped(request: ApplyRequest, body: dict[str, Any]) -> None:
    options, key = request.options, request.task.target.key
    replicas = options.losses.replicas
    if key in replicas and (replicas[key] or _is_autoscaled(request)):
        managed_fields.leave_fields(request.client, request.path, [REPLICAS], options.owner.name)
    if fields := options.losses.left_behind.get(key):
        managed_fields.take_over_fields(request.client, request.path, body, request.manager, fields)


def _is_autoscaled(request: ApplyRequest) -> bool:
    key = request.task.target.key
    try:
        found = request.client.list(AUTOSCALERS.path(key.namespace))
    except ApiError:
        return False
    kind = {"apiVersion": AUTOSCALERS.api_version, "kind": AUTOSCALERS.kind}
    return key in find_autoscalers({**each, **kind} for each in found)


def _begin_taking_back(
    request: ApplyRequest, record: Record, probe: Probe
) -> tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Make what earlier managers of an object have set ours.

    Returns: the resourceVersion at which to take it back; and the object before and after that, if it is adopted.
    Raises: ApiError.
    """
    owner = request.options.owner
    if not needs_mark(record, owner, evicts=request.task.evicts):
        return record.resource_version, None, None
    live = None if was_applied(record, owner) else request.client.get(request.path).value
    entries: list[Entry] | None = None
    if live and record.passed_on:
        taken = managed_fields.find_taken(live, request.body(), probe)
        entries = leftovers.adopted_entries(live, taken, request.manager, request.resource.api_version)
    metadata = mark_to_take_back(request.client, request.resource, record, owner.name, live=live, entries=entries)
    return metadata["resourceVersion"], live, {**live, "metadata": metadata} if live else None


@contextmanager
def _reporting_atomic(key: ObjectKey) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BundleError(Reason.INVALID_CONFIG, str(error), place=str(key)) from None


def _bound_to(version: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


def _as_conflict(error: ApiError) -> ApiError:
    # A 409 has the object judged again.
    if error.status != HTTPStatus.NOT_FOUND:
        return error
    return ApiError(HTTPStatus.CONFLICT, "Gone", "was deleted since it was read")


class Sender:
    """Applies objects."""

    def __init__(self, client: Client, discovery: Discovery, objects: ManagedObjects, reader: ObjectReader) -> None:
        self._client, self._discovery, self._objects, self._reader = client, discovery, objects, reader
        self._webhooks = Webhooks(client)

    def carry_out(self, task: Task, resource: Resource, options: ApplyOptions) -> Outcome:
        """Execute a task that is ready. Raises nothing but bugs."""
        client = self._client.acting_as(options.user)
        return self._carry_out(ApplyRequest(task=task, resource=resource, options=options, client=client))

    def decide(self, task: Task, found: Record | ApiError | None, options: ApplyOptions) -> Task:
        """Decide about an object that was read: None if it does not exist, an ApiError if reading it failed."""
        if isinstance(found, ApiError):
            return self.refuse(task, found, options)
        return replace(decide_about(task.target, found, options), seen=task.seen)

    def refuse(self, task: Task, error: ApiError, options: ApplyOptions) -> Task:
        """Return a task that refuses an object, since it could not be read."""
        failure = _classify(error, task, options)
        return replace(task, action=Action.REFUSE, record=None, refusal=self._error(failure, task, options))

    def fail(self, task: Task, error: BundleError, options: ApplyOptions) -> Outcome:
        """Remember and log a failure, and return it as an outcome."""
        options.retries.failed(task.target.key, options.attempt(task.target, task.seen), error)
        extra = {**_about(task, options), "reason": error.reason.value, "problem": error.message}
        log.warning("object not applied", extra=extra)
        if error.reason in _NAMESPACE_GONE:  # so that it is read before the next try
            options.ledger.used.pop(_namespace_of(task), None)
        return Outcome(task=task, error=error, tried=True)

    def _carry_out(self, request: ApplyRequest) -> Outcome:
        task = request.task
        match task.action:
            case Action.NONE:
                return Outcome(task=task, record=task.record)
            case Action.USE:
                return Outcome(task=task)
            case Action.REFUSE:
                return self.fail(task, task.refusal, request.options) if task.refusal else Outcome(task=task)
            case Action.AWAIT:
                recreated = Recovery.RECREATE in request.recoveries
                return Outcome(task=task, error=_terminating(task), tried=recreated, recreated=recreated)
            case _:
                return self._send(request)

    def _send(self, request: ApplyRequest) -> Outcome:
        task, options = request.task, request.options
        if not options.proceed():
            return Outcome(task=task, error=out_of_date(task))
        if request.drift is None and is_drift(task, options, installed=False):
            drift, live = self._reader.explain_repair(task, request.resource, options)
            request = replace(request, drift=drift, live=live)
        try:
            return self._replace_others(request) or self._apply(request)
        except BundleError as error:
            return self.fail(task, error, options)
        except ApiError as error:
            failure = self._explain_silence(error, request) or _classify(error, task, options)
            is_invalid = task.action is Action.TAKE_BACK and error.status == HTTPStatus.UNPROCESSABLE_ENTITY
            if is_invalid and Recovery.LEAVE_FIELDS not in request.recoveries:
                fields = tuple(cause.field for cause in error.causes if cause.field)
                failure = replace(failure, recovery=Recovery.LEAVE_FIELDS, fields=fields)
        return self._deal_with(request, failure)

    def _explain_silence(self, error: ApiError, request: ApplyRequest) -> ApplyFailure | None:
        called = self._webhooks.called_for(request.resource) if (error.status, error.reason) == (0, UNREACHABLE) else []
        if not called:
            return None
        who = f"admission webhook {some([*map(quote, called)])}; check the workload that serves it"
        problem = f"the API server did not answer in time; it may wait for {who}"
        return ApplyFailure(reason=Reason.WEBHOOK_UNAVAILABLE, key=request.task.target.key, problem=problem)

    # recovering from a refusal

    def _deal_with(self, request: ApplyRequest, failure: ApplyFailure) -> Outcome:
        task, options = request.task, request.options
        is_judged_again = failure.recovery is Recovery.JUDGE_AGAIN and request.judged < MOST_JUDGED
        try:
            if failure.contest is not Contest.NONE:
                return self._make_way(request, failure)
            if is_judged_again:
                request = replace(request, judged=request.judged + 1)
            may_recover = is_judged_again or failure.recovery not in request.recoveries
            next_request = self._recover(request, failure) if may_recover else None
        except ApiError as error:
            failure, next_request = _classify(error, task, options), None
        if next_request is None and failure.is_overtaken:
            # Others keep writing the object: nothing is wrong with it, nor with the API server.
            overtaken = replace(failure, reason=Reason.APPLYING, retry_after=OVERTAKEN_SECONDS).to_error()
            return self.fail(task, overtaken, options)
        if next_request is None:
            if request.replaced:
                with suppress(ApiError):
                    version = managed_fields.give_back(request.client, request.path, request.replaced)
                    task = replace(task, seen=state_of(task.record, version))
            return self.fail(task, self._error(failure, task, options), options)
        return self._carry_out(replace(next_request, recoveries=next_request.recoveries | {failure.recovery}))

    def _recover(  # noqa: PLR0911 - one remedy each
        self, request: ApplyRequest, failure: ApplyFailure
    ) -> ApplyRequest | None:
        match failure.recovery:
            case Recovery.JUDGE_AGAIN:
                return self._judge_again(request)
            case Recovery.MIGRATE_ENTRIES:
                managed_fields.migrate_entries(request.client, request.path, request.resource.api_version)
                return request
            case Recovery.TAKE_OVER_ITEMS | Recovery.TAKE_OVER_FIELDS:
                return _take_over_sender(request, failure)
            case Recovery.CREATE_NAMESPACE:
                return request if self._create_namespace(request) else None
            case Recovery.RECREATE:
                return self._delete_to_recreate(request)
            case Recovery.LEAVE_FIELDS:
                return self._leave_taken(request, failure)
            case _:
                return None

    def _judge_again(self, request: ApplyRequest) -> ApplyRequest:
        # Not through the pool: its threads might all wait for each other.
        found = self._reader.read((request.task.target.key, request.resource), request.options.user)
        return replace(request, task=self.decide(request.task, found, request.options))

    def _leave_taken(self, request: ApplyRequest, failure: ApplyFailure) -> ApplyRequest | None:
        live = request.client.get(request.path).value
        ours = fields_of(entry_of(live, request.manager))
        taken = outside(inside(ours, live), request.body())
        if not taken:
            return None
        part = refused_part(taken, [managed_fields.parse_field(each) for each in failure.fields])
        managed_fields.disclaim(request.client, request.path, request.manager, part)
        left = _list_left(request, live, part, "it cannot be changed: add it to the bundle")
        return replace(self._judge_again(request), left=left)

    def _delete_to_recreate(self, request: ApplyRequest) -> ApplyRequest | None:
        """Delete an object of ours, which is created again after its DELETED event; None if it may not be deleted.

        Raises: ApiError.
        """
        task, options = request.task, request.options
        key, record = task.target.key, task.record
        if not options.proceed():
            return request
        # An object that was not ours is never deleted; and a kind that is not watched has no DELETED event.
        is_ours = task.action in (Action.APPLY, Action.REPAIR)
        if not (task.target.recreate and is_ours and record) or self._objects.is_forbidden(key.group, key.kind):
            return None
        if task.action is Action.APPLY:
            # So that its absence is no drift; before the request, whose reply may be lost.
            options.ledger.drop([key])
        options.confirm()
        propagation = "Orphan" if key[:2] == _STATEFUL_SET else "Background"  # the new one adopts its pods
        delete(request.client, request.resource, record, propagation=propagation)
        log.info("object deleted to be recreated", extra=_about(task, options))
        options.ledger.recreated[key] = record.uid
        return replace(request, task=replace(task, action=Action.AWAIT))

    # making way for what is refused because of what a dropped object has

    def _replace_others(self, request: ApplyRequest) -> Outcome | None:
        """Delete the dropped objects that the annotation of an object names, and apply it; None: there are none.

        Raises: ApiError if it would be refused all the same.
        """
        options, key = request.options, request.task.target.key
        if key not in options.replaces:
            return None
        observed = self._objects.of(options.owner.name)
        named = [
            record
            for each in options.replaces[key].difference(request.made_way)
            if (found := observed.get(each)) and each in options.older
            for record in find_dropped(found.key, (), (each,), observed, options.owner)
            if may_be_deleted(record)
        ]
        if not (named and options.makes_way) or options.ledger.is_in_vain(key, request.attempt):
            return None
        try:
            request.trials().send(request.body(whole=True), None)
        except ApiError as error:
            failure = _classify(error, request.task, options)
            if failure.contest is Contest.NONE:
                raise
            others = [record for record in named if record.key[:2] != key[:2]]
            named = others or [*self._find_holders(request, failure).known]
            if not named:
                raise
        return self._take_place_of(named, request)

    def _make_way(self, request: ApplyRequest, failure: ApplyFailure) -> Outcome:
        task, options = request.task, request.options
        key, attempt = task.target.key, request.attempt
        # One of those that a quota counts is enough for one object: the quota is only counted a moment later.
        is_enough = failure.contest is Contest.QUOTA and options.ledger.made_way_for(key, attempt)
        is_over = is_enough or options.ledger.is_in_vain(key, attempt)
        holders = NO_HOLDERS if is_over else self._find_holders(request, failure)
        if holders.known and options.makes_way and all(map(may_be_deleted, holders.known)):
            return self._take_place_of(holders.known, request)
        if options.ledger.note_refusal(key, attempt):
            error = replace(failure, reason=Reason.APPLYING, retry_after=NOT_NOTICED_YET_SECONDS).to_error()
            return replace(self.fail(task, error, options), made_way=request.made_way)
        supposed = (*holders.known, *holders.supposed)
        options.ledger.holders[key] = frozenset(record.key for record in supposed)
        told = [describe_supposed(record, key, makes_way=options.makes_way) for record in supposed[:1]]
        if failure.contest is Contest.ALLOCATED and not told:
            services = request.trials().list_services()
            told = [find_allocated(request.body(whole=True), key, services, options.wanted.by_key)]
        error = self._error(replace(failure, problem="; ".join([failure.problem, *told])), task, options)
        return replace(self.fail(task, error, options), made_way=request.made_way, contested=True)

    def _take_place_of(self, holders: Sequence[Record], request: ApplyRequest) -> Outcome:
        task, options = request.task, request.options
        if not options.proceed():
            return Outcome(task=task, error=out_of_date(task))
        options.confirm()
        # Before the requests, whose replies may be lost: the absence of the objects is no drift.
        options.ledger.note_making_way(task.target.key, request.attempt, [record.key for record in holders])
        try:
            left = [remaining for record in holders if (remaining := self._delete_holder(record, request))]
        except ApiError:
            options.ledger.made_way.pop(task.target.key, None)
            raise
        deleted = [record.key for record in holders if not record.deleting]
        request = replace(request, made_way=(*request.made_way, *deleted))
        if not left:
            return self._send(request)
        options.ledger.holders[task.target.key] = frozenset(record.key for record in left)
        return Outcome(task=task, error=waiting_for(task, left[0]), tried=True, made_way=request.made_way)

    def _delete_holder(self, record: Record, request: ApplyRequest) -> Record | None:
        kind = request.options.older[record.key].kind
        resource = request.resource if record.key[:2] == request.task.target.key[:2] else self._discovery.resource(kind)
        if record.deleting or resource is None:
            return record if record.deleting else None
        about = {**_about(request.task, request.options), "deleted": str(record.key)}
        remaining = delete(request.client, resource, record)
        log.info("object deleted for another one that needs what it has", extra=about)
        if remaining is None and self._objects.is_forbidden(record.key.group, record.key.kind):
            self._objects.learn_gone(record.key)
        return remaining

    def _find_holders(self, request: ApplyRequest, failure: ApplyFailure) -> Holders:
        options, target = request.options, request.task.target
        observed, owner = self._objects.of(options.owner.name), options.owner
        dropped = find_dropped(target.key, options.wanted.by_key, options.older, observed, owner)
        refused = Refused(
            body=request.body(whole=True),
            by_quota=failure.contest is Contest.QUOTA,
            replaces=options.replaces.get(target.key, ()),
        )
        return request.trials().find_holders(refused, dropped)

    def _create_namespace(self, request: ApplyRequest) -> bool:
        target = request.options.wanted.by_key.get(_namespace_of(request.task))
        if target is None or not target.bare:
            return False
        path = f"/api/v1/namespaces/{target.key.name}"
        request.client.apply(path, target.manifest, manager=request.manager, force=False)
        return True

    def _error(self, failure: ApplyFailure, task: Task, options: ApplyOptions) -> BundleError:
        if failure.recovery is Recovery.REFRESH_DISCOVERY:
            return self._not_served(failure, task, options)
        return replace(failure, missing=for_apply(failure.missing)).to_error()

    def _not_served(self, failure: ApplyFailure, task: Task, options: ApplyOptions) -> BundleError:
        # A single server needs under 0.3 s to serve a new kind.
        self._discovery.invalidate()
        waiting = replace(failure, problem="waiting for its kind to be served", retry_after=NOT_SERVED_YET_SECONDS)
        if task.target.kind[::2] in options.wanted.resources:
            return replace(waiting, reason=Reason.WAITING_FOR_CRD).to_error()
        try:
            known = self._discovery.resource(task.target.kind)
        except ApiError:
            known = None
        return (waiting if known else failure).to_error()

    # the request

    def _apply(self, request: ApplyRequest) -> Outcome:
        task, options = request.task, request.options
        if task.record is None or task.record.applied_digest != task.target.digest:
            options.confirm()
        if task.action is Action.CREATE and task.target.initial:
            # Its digest covers the ignored fields, so it counts as outdated if the next apply does not happen.
            self._send_apply(request, request.body(whole=True), force=False)
            # It exists now and is ours: the ignored fields are left to do.
            return replace(self._apply(replace(request, task=replace(task, action=Action.APPLY))), task=task)
        warnings = self._inspect(request)
        if not options.proceed():  # surveying many objects takes a while
            return Outcome(task=task, error=out_of_date(task))
        prepared = prepare(request, request.body())
        whole = prepared.before is not None or bool(prepared.inherited)
        reply = self._send_apply(request, prepared.body, force=task.action is not Action.CREATE, whole=whole)
        told = map(conceal_quotes, reply.warnings) if options.conceals else reply.warnings
        warnings = (*told, *warnings)
        if task.target.bare and reply.status == HTTPStatus.OK:  # another client was faster
            found = project(reply.value, task.target.key.group, task.target.key.kind)
            return self._carry_out(replace(request, task=self.decide(task, found, options)))
        if task.target.bare:
            options.retries.succeeded(task.target.key)
            return Outcome(task=task, tried=True, warnings=warnings, left=request.left)
        about = {**_about(task, options), "action": task.action.value}
        if task.action is Action.TAKE_OVER and task.record:
            about["takenFrom"] = task.record.owner
        log.info("object applied", extra={**about, **_describe(request.drift)})
        value, left = self._clear_up(request, prepared, tidy_up(request, reply.value))
        record = self._objects.learn(_project(value, task.target.key))
        options.retries.succeeded(task.target.key)
        # Idle: the apply has changed nothing but our entry, as after a change of the schema.
        is_idle = task.record is not None and task.record.resource_version == record.resource_version
        options.ledger.made_way.pop(task.target.key, None)
        drift = None if is_idle else request.drift
        if drift:
            options.ledger.repaired(drift)
        error = _terminating(task) if record.deleting else None
        return Outcome(
            task=task,
            error=error,
            tried=True,
            repaired=drift,
            record=record,
            made_way=request.made_way,
            warnings=warnings,
            left=(*request.left, *left),
        )

    def _inspect(self, request: ApplyRequest) -> tuple[str, ...]:
        """Check whether a CustomResourceDefinition may be upgraded; returns warnings. Repairs are not checked again.

        Raises: BundleError (UnsafeCRDUpgrade), ApiError.
        """
        task = request.task
        if task.target.key[:2] != CRD or task.action not in (Action.APPLY, Action.TAKE_BACK, Action.TAKE_OVER):
            return ()
        return inspect_upgrade(request.client, request.path, task.target.manifest, request.options.crd_upgrade_safety)

    def _clear_up(
        self, request: ApplyRequest, prepared: Prepared, value: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], tuple[Leftover, ...]]:
        """Remove what was set before, this revision lacks, and nobody owns, as when the type of a list has changed.

        Args:
            request: that was sent.
            prepared: the object as it was applied.
            value: the object after the apply.

        Returns: the object after that, and what the API server keeps.
        """
        key = request.task.target.key
        if prepared.before is None:
            unowned = leftovers.find_unowned(value, prepared.inherited) if prepared.inherited else {}
            kept = leftovers.find_kept(unowned, value, prepared.probe.made, key) if unowned else {}
            return value, _list_left(request, value, kept, leftovers.KEPT)
        left = leftovers.find_left(value, prepared.before, prepared.body)
        made = prepared.probe.made if left else None
        kept, rest = leftovers.split_retained(_differing(left, value, made), key)
        if rest and request.options.proceed():
            try:
                value = managed_fields.claim(request.client, request.path, value, request.manager, rest)
                body = _bound_to(value["metadata"]["resourceVersion"], prepared.body)
                body = _empty_maps(request, body, value)
                value = self._send_apply(request, body, force=True, whole=True).value
                # Without a new object to compare with, what is there now counts as set by the API server itself.
                again = _differing(leftovers.find_unowned(value, rest), value, made) if made else {}
                kept, rest = united_trees(kept, again), {}
            except ApiError:
                with suppress(ApiError):
                    managed_fields.disclaim(request.client, request.path, request.manager, rest)
        told = _list_left(request, value, kept, leftovers.KEPT)
        return value, (*told, *_list_left(request, value, rest, "remove it"))

    def _send_apply(
        self, request: ApplyRequest, body: Mapping[str, Any], *, force: bool, whole: bool = False
    ) -> Response:
        reply = self._reader.pool.limit_of(request.options.user).watch(
            lambda: request.client.apply(request.path, body, manager=request.manager, force=force, metadata=not whole)
        )
        owner = request.options.owner.name
        existed = not force and reply.status == HTTPStatus.OK
        if existed and not request.task.target.bare and is_shared(reply.value, owner):
            # Equal values are no conflict, and we would own an object that was not judged (README.md, The request).
            release(request.client, request.path, owner, mark=False)
            raise ApiError(HTTPStatus.CONFLICT, "AlreadyExists", "already exists: another client was faster")
        return reply


def _reduced(request: ApplyRequest) -> Mapping[str, Any] | None:
    task = request.task
    return request.options.losses.reduced.get(task.target.key) if task.action is Action.APPLY else None


def _differing(fields: Tree, value: Mapping[str, Any], made: Mapping[str, Any] | None) -> Tree:
    return fields if made is None else differing(fields, value, made)


def _list_left(request: ApplyRequest, value: Mapping[str, Any], left: Tree, remedy: str) -> tuple[Leftover, ...]:
    conceals = request.options.conceals
    return leftovers.list_left(request.task.target.key, value, left, remedy, conceals=conceals)


def _take_over_sender(request: ApplyRequest, failure: ApplyFailure) -> ApplyRequest | None:
    place = (request.client, request.path, request.body(), request.manager)
    if failure.recovery is Recovery.TAKE_OVER_ITEMS:
        return request if managed_fields.take_over_items(*place) else None
    if request.task.action is Action.CREATE:
        return None
    replaced = managed_fields.take_over_fields(*place, failure.fields)
    return replace(request, replaced=replaced) if replaced else None


def _project(value: Mapping[str, Any], key: ObjectKey) -> Record:
    verdict = NOT_OBSERVED if needs_full_object(key.group, key.kind) else None
    return project(value, key.group, key.kind, verdict)


def _classify(error: ApiError, task: Task, options: ApplyOptions) -> ApplyFailure:
    namespace, conceals = options.install_namespace, options.conceals
    return classify(error, task.target.key, install_namespace=namespace, conceals=conceals)


def _about(task: Task, options: ApplyOptions) -> dict[str, str]:
    return {"BundleDeployment": options.owner.name, "object": str(task.target.key)}


def _describe(drift: DriftedObject | None) -> dict[str, str]:
    if drift is None:
        return {}
    holders = dict.fromkeys(field.holder for field in drift.fields if field.holder)
    found = {
        "field": ", ".join(field.path for field in drift.fields[:LOGGED_FIELDS]),
        "fieldManager": ", ".join(holders),
        "drift": drift.state,
    }
    return {key: text for key, text in found.items() if text}


def _namespace_of(task: Task) -> ObjectKey:
    return ObjectKey("", "Namespace", "", task.target.key.namespace)


def waiting_for(task: Task, holder: Record) -> BundleError:
    """Return why an object waits for a dropped one that is being deleted."""
    text = f"waiting until {describe_awaited(holder)} is gone, which has what it needs"
    return BundleError(Reason.APPLYING, text, place=str(task.target.key))


def _terminating(task: Task) -> BundleError:
    is_namespace = task.target.key[:2] == ("", "Namespace")
    reason = Reason.NAMESPACE_TERMINATING if is_namespace else Reason.APPLYING
    return BundleError(reason, "being deleted; will be applied again once it is gone", place=str(task.target.key))
