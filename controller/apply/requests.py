"""How requests about objects are sent: threads that tenants share, and reading what the watches do not know.

Batches take turns, one request each. A tenant gets another thread only while more threads are free than it uses, so
that slow requests of one tenant leave some for the others.

How many run is limited as the API server can take them: additive increase, multiplicative decrease, at most one change
per second, since requests in flight report the same load several times. The API server has fair queues, so each tenant
has its own limit.

Read are objects without our label, and entries whose hash this process never saw. Requests are few: one LIST for many
objects of a kind in a namespace, else one GET each, metadata only. A failed request is the result of its objects.
Objects are read as the account that applies them, so that no user learns about objects that the account may not read;
objects with our label are listed as the controller, which watches them.

A write that is not answered may be waiting for an admission webhook. The API server names one that hangs once the time
of that is over, 10 s by default. Where writes have less time, as with a small `--renew-deadline`, they end before it
does: so the webhooks that may be called are read, and named.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import Context, copy_context
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from queue import SimpleQueue
from typing import Any, TypeVar

from rukpak.api import names
from rukpak.controller.apply.drift import (
    DELETED,
    RECREATED,
    DriftedObject,
    as_compared,
    equal_by_value,
    explain,
    is_claimed,
)
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.plan import Action, ApplyOptions, Task
from rukpak.controller.apply.replies import conceal_paths_of
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.client import ApiError, Client, User
from rukpak.controller.kube.resources import Resource
from rukpak.controller.observe.records import Record, entries_of, project
from rukpak.controller.processes.supervision import Kind, Supervisor
from rukpak.controller.untrusted import mappings, text, texts

REFUSED_FACTOR = 0.5
SLOW_FACTOR = 0.75
SLOW_SECONDS = 2.0
"""A slower reply means that the server is overloaded: milliseconds are usual."""
HOLD_SECONDS = 1.0
"""The least time between two changes: the limit grows by one request per second."""
Item = TypeVar("Item")
Result = TypeVar("Result")
LIST_FROM = 4
ReadObjects = Mapping[ObjectKey, Record | ApiError | None]
ComparedObjects = Mapping[ObjectKey, bool | ApiError]


class ConcurrencyLimit:
    """The limit of one tenant. Thread-safe.

    Args:
        most: concurrent requests while the API server is not busy.
        clock: monotonic seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self.limit, self._changed = most, clock() - HOLD_SECONDS
        """How many requests may run now, at least one; and when that changed."""
        self._lock = threading.Lock()

    def watch(self, send: Callable[[], Result]) -> Result:
        """Send a request and adapt the limit to its reply.

        Raises: what sending it raises.
        """
        started = self._clock()
        try:
            reply = send()
        except ApiError as error:
            # A webhook may also deny with this status: that is no load.
            busy = error.status == HTTPStatus.TOO_MANY_REQUESTS and error.transient
            self.learn(seconds=self._clock() - started, refused=busy)
            raise
        self.learn(seconds=self._clock() - started, refused=False)
        return reply

    def learn(self, *, seconds: float, refused: bool) -> None:
        """Adapt the limit to a reply; `refused`: the server has too many requests."""
        with self._lock:
            now = self._clock()
            if now - self._changed < HOLD_SECONDS:
                return
            limit = self._next(seconds, refused=refused)
            if limit != self.limit:
                self.limit, self._changed = limit, now

    def _next(self, seconds: float, *, refused: bool) -> int:
        if refused:
            return max(int(self.limit * REFUSED_FACTOR), 1)
        if seconds > SLOW_SECONDS:
            return max(int(self.limit * SLOW_FACTOR), 1)
        return min(self.limit + 1, self._most)


class _Batch:
    """The requests of one caller, which start in order."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], concurrency: ConcurrencyLimit, *, shares: bool
    ) -> None:
        self.function, self.items = function, items
        self.concurrency, self.shares = concurrency, shares
        self.results: list[Any] = [None] * len(items)
        self.errors: dict[int, BaseException] = {}
        self.started = self.finished = 0
        self.cancelled = False
        self.done = threading.Event()
        self._context: Context = copy_context()

    def release_caller(self) -> None:
        """Wake the caller once every item that was started, or will be, has finished."""
        if self.finished == len(self.items) or (self.cancelled and self.finished == self.started):
            self.done.set()

    def run(self, index: int) -> None:
        """Run one item in the context of the caller, which its log messages need."""
        try:
            self.results[index] = self._context.copy().run(self.function, self.items[index])
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.errors[index] = error


class Pool:
    """Thread-safe.

    The caller sends, too, as long as it is the turn of its batch, and each thread that starts a request wakes the next
    one if there is another to start: handing a request to another thread costs about as much as sending it.

    Args:
        workers: concurrent requests, and threads.
        supervisor: keeps the threads alive.
        clock: monotonic seconds.
    """

    def __init__(self, workers: int, supervisor: Supervisor, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers, self._clock = workers, clock
        self.limits: dict[str, ConcurrencyLimit] = {}
        self._batches: deque[_Batch] = deque()
        self._busy: Counter[ConcurrencyLimit] = Counter()
        self._stopped = False
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait and have not been woken."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        """Each wakes one of them."""
        for number in range(workers):
            supervisor.thread(Kind.APPLY, f"apply-{number}", self._work).start()

    def run(self, function: Callable[[Item], Result], items: Sequence[Item], user: User | None = None) -> list[Result]:
        """Run a function on each item, concurrently; returns the results in the order of the items.

        Args:
            function: sends requests as `user`.
            items: start in this order.
            user: whose share of the threads is used; None: the controller's, which may use all.

        Raises: the error of the first item that failed; CancelledError if the pool was stopped.
        """
        batch = _Batch(function, items, self.limit_of(user), shares=user is not None)
        with self._lock:
            batch.cancelled = self._stopped
            if items and not self._stopped:
                self._batches.append(batch)
            batch.release_caller()
        while (index := self._take_own_turn(batch)) is not None:
            self._run(batch, index)
        batch.done.wait()
        if batch.errors:
            raise batch.errors[min(batch.errors)]
        if batch.finished < len(items):
            raise CancelledError
        return batch.results

    def limit_of(self, user: User | None) -> ConcurrencyLimit:
        """Return the limit of a ServiceAccount, one per namespace; None: of the controller."""
        tenant = user.name.rpartition(":")[0] if user else ""
        with self._lock:
            return self.limits.setdefault(tenant, ConcurrencyLimit(self._workers, self._clock))

    def stop(self) -> None:
        """Start no more requests."""
        with self._lock:
            self._stopped = True
            while self._batches:
                batch = self._batches.popleft()
                batch.cancelled = True
                batch.release_caller()
        for _ in range(self._workers):
            self._wakes.put(None)

    def _work(self) -> None:
        while turn := self._next():
            self._run(*turn)
            del turn  # no batch is kept alive while a thread waits for the next one

    def _next(self) -> tuple[_Batch, int] | None:
        while True:
            with self._lock:
                if self._stopped:
                    return None
                if batch := self._first_startable():
                    return batch, self._begin(batch)
                self._idle += 1
            self._wakes.get()

    def _take_own_turn(self, batch: _Batch) -> int | None:
        with self._lock:
            if self._first_startable() is batch:
                return self._begin(batch)
            self._wake_next()
            return None

    def _begin(self, batch: _Batch) -> int:
        self._batches.remove(batch)
        index, batch.started = batch.started, batch.started + 1
        if batch.started < len(batch.items):
            self._batches.append(batch)
        self._busy[batch.concurrency] += 1
        self._wake_next()
        return index

    def _run(self, batch: _Batch, index: int) -> None:
        try:
            batch.run(index)
        finally:
            with self._lock:
                self._busy[batch.concurrency] -= 1
                self._busy += Counter()  # removes zeros
                batch.finished += 1
                batch.release_caller()

    def _wake_next(self) -> None:
        if self._idle and self._first_startable():
            self._idle -= 1
            self._wakes.put(None)

    def _first_startable(self) -> _Batch | None:
        return next((batch for batch in self._batches if self._may_start(batch)), None)

    def _may_start(self, batch: _Batch) -> bool:
        busy, free = self._busy[batch.concurrency], self._workers - self._busy.total()
        return free > 0 and busy < batch.concurrency.limit and (busy < free or not batch.shares)


class ObjectReader:
    """Reads metadata of objects; `pool` sends concurrent requests."""

    def __init__(self, client: Client, pool: Pool) -> None:
        self._client, self.pool = client, pool

    def read_all(self, items: Iterable[tuple[ObjectKey, Resource]], user: User | None) -> ReadObjects:
        """Read objects: None for one that does not exist, an ApiError for one that could not be read.

        Raises: CancelledError if the pool was stopped.
        """
        collections: dict[str, list[tuple[ObjectKey, Resource]]] = defaultdict(list)
        for key, resource in items:
            collections[resource.path(key.namespace)].append((key, resource))
        found: dict[ObjectKey, Record | ApiError | None] = {}
        rest: list[tuple[ObjectKey, Resource]] = []
        for path, members in collections.items():
            if len(members) >= LIST_FROM:
                found |= self._list(path, members, user)
            rest += [item for item in members if item[0] not in found]
        read = self.pool.run(partial(self.read, user=user), rest, user)
        found |= zip((key for key, _ in rest), read, strict=True)
        return found

    def _list(self, path: str, items: Sequence[tuple[ObjectKey, Resource]], user: User | None) -> ReadObjects:
        # One page: those that it lacks are absent if it is the only one, and else read one by one.
        try:
            page = next(self._client.acting_as(user).pages(path, metadata=True))
        except ApiError:
            return {}
        first = items[0][0]
        records = (project(manifest, first.group, first.kind) for manifest in page.items)
        keys = {key for key, _ in items}
        listed = {record.key: record for record in records if record.key in keys}
        return listed if page.more else {key: listed.get(key) for key in keys}

    def read(self, item: tuple[ObjectKey, Resource], user: User | None) -> Record | ApiError | None:
        """Read one object on the caller's thread; None if it does not exist, an ApiError if it cannot be read."""
        key, resource = item
        try:
            value = self._client.acting_as(user).get(resource.path(key.namespace, key.name), metadata=True).value
        except ApiError as error:
            return None if error.status == HTTPStatus.NOT_FOUND else error
        return project(value, key.group, key.kind)

    def read_whole(self, item: tuple[ObjectKey, Resource], user: User | None) -> Mapping[str, Any] | None:
        """Read all of one object on the caller's thread; None if it does not exist, or cannot be read."""
        key, resource = item
        try:
            value: Mapping[str, Any] = self._client.acting_as(user).get(resource.path(key.namespace, key.name)).value
        except ApiError:
            return None
        return value

    def compare(self, tasks: Sequence[tuple[Task, Resource]], options: ApplyOptions) -> ComparedObjects:
        """Return which objects are as this revision has them, without a known hash (README.md, Drift).

        An ApiError means that an object could not be read: that is no reason to apply it again.
        """
        collections: dict[tuple[str, str], dict[ObjectKey, tuple[Task, Resource]]] = defaultdict(dict)
        for task, resource in tasks:
            collections[resource.group, resource.kind][task.target.key] = (task, resource)
        same: dict[ObjectKey, bool | ApiError] = {}
        client = self._client.acting_as(options.user)
        for group_kind, wanted in collections.items():
            _, resource = next(iter(wanted.values()))
            found: dict[ObjectKey, bool | ApiError] = dict.fromkeys(wanted, False)
            selector = f"{names.OWNER_LABEL}={options.owner.name}"
            try:
                for manifest in self._client.list(resource.path(), metadata=True, label_selector=selector):
                    key = project(manifest, *group_kind).key
                    if key in wanted:
                        task, resource = wanted[key]
                        body = make_body(task.target.manifest, options.owner)
                        found[key] = _is_same(client, manifest, body, resource, options.owner)
            except ApiError as error:
                found = dict.fromkeys(wanted, error.transient and error)
            same |= found
        return same

    def explain_drift(self, task: Task, resource: Resource, options: ApplyOptions) -> DriftedObject | None:
        """Explain the drift of an object that is not repaired, reading each version once; None: its values are ours."""
        key, ledger = task.target.key, options.ledger
        if task.record is None:
            return DriftedObject(key=key, state=DELETED)
        version, known = ledger.explanations.get(key, ("", None))
        if version != task.record.resource_version:
            known = self._read_and_explain(task, resource, options)
            ledger.explanations[key] = (task.record.resource_version, known)
        return known

    def explain_repair(
        self, task: Task, resource: Resource, options: ApplyOptions
    ) -> tuple[DriftedObject, Mapping[str, Any] | None]:
        """Explain on the caller's thread the drift of an object that is repaired now.

        Returns: the drift, and the metadata that was read; None if there is none.
        """
        key = task.target.key
        if task.action is Action.CREATE:
            return DriftedObject(key=key, state=RECREATED if key in options.ledger.recreated else DELETED), None
        client, path = self._client.acting_as(options.user), resource.path(key.namespace, key.name)
        try:
            live = client.get(path, metadata=True).value
        except ApiError:
            return DriftedObject(key=key), None  # it is repaired, whoever modified it
        body = make_body(task.target.manifest, options.owner)
        return _explain(key, live, body, options), live["metadata"]

    def _read_and_explain(self, task: Task, resource: Resource, options: ApplyOptions) -> DriftedObject | None:
        key = task.target.key
        body = make_body(task.target.manifest, options.owner)
        try:
            live = self._client.acting_as(options.user).get(resource.path(key.namespace, key.name)).value
        except ApiError as error:
            return DriftedObject(key=key, state=DELETED if error.status == HTTPStatus.NOT_FOUND else "")
        if not live["metadata"].get("deletionTimestamp") and equal_by_value(as_compared(body, live), live):
            return None
        return _explain(key, live, body, options)


def _explain(key: ObjectKey, live: Mapping[str, Any], body: Mapping[str, Any], options: ApplyOptions) -> DriftedObject:
    drift = explain(key, live, body, names.field_manager(options.owner.name))
    if not options.conceals:
        return drift
    conceal = conceal_paths_of(key)
    fields = dict.fromkeys(each._replace(path=conceal(each.path)) for each in drift.fields)
    return replace(drift, fields=tuple(fields))


def _is_same(
    client: Client, manifest: Mapping[str, Any], body: Mapping[str, Any], resource: Resource, owner: Owner
) -> bool | ApiError:
    if entries_of(manifest):
        return is_claimed(manifest, body, names.field_manager(owner.name))
    # Its managedFields were wiped, which alone is no drift: its values are compared.
    metadata = body["metadata"]
    try:
        live = client.get(resource.path(metadata.get("namespace", ""), metadata["name"])).value
    except ApiError as error:
        return error.status != HTTPStatus.NOT_FOUND and error
    return equal_by_value(body, live)


WEBHOOK_CONFIGURATIONS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
)
WEBHOOK_SECONDS = 10.0
"""Between two reads, however many writes are not answered."""
_WRITES = frozenset({"CREATE", "UPDATE", "*"})


class Webhooks:
    """The webhooks of the cluster, read when they are asked for. Thread-safe.

    Args:
        client: acts as the controller.
        clock: monotonic seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._found: list[Mapping[str, Any]] = []
        self._read_at = -WEBHOOK_SECONDS
        self._lock = threading.Lock()

    def called_for(self, resource: Resource) -> list[str]:
        """Return the names of the webhooks that may be called for a write; none if that cannot be read."""
        with self._lock:
            if self._clock() - self._read_at >= WEBHOOK_SECONDS:
                self._found = list(self._read())
                self._read_at = self._clock()
        return sorted({text(each, "name") for each in self._found if _is_called(each, resource)})

    def _read(self) -> Iterator[Mapping[str, Any]]:
        try:
            for path in WEBHOOK_CONFIGURATIONS:
                for configuration in self._client.list(path):
                    yield from mappings(configuration, "webhooks")
        except ApiError:
            return


def _is_called(webhook: Mapping[str, Any], resource: Resource) -> bool:
    # Selectors and conditions are not evaluated.
    return any(
        not {resource.group, "*"}.isdisjoint(texts(rule, "apiGroups"))
        and not {resource.plural, "*", "*/*"}.isdisjoint(texts(rule, "resources"))
        and not _WRITES.isdisjoint(texts(rule, "operations"))
        for rule in mappings(webhook, "rules")
    )
