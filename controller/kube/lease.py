"""Leader election with a Lease (`coordination.k8s.io/v1`): at most one of the participating processes acts.

A leader counts from when it *sent* a renewal, a candidate from when *it* saw the Lease change: clocks are not compared.
A leader gives up before others may take over (`renew` < `duration`), so there are never two. By then the fence has
ended its writes; the process exits, as threads cannot be stopped. A regular exit releases the Lease immediately.

The Lease is written every few seconds, so it tells first that etcd was restored from a backup: its resourceVersion is
older than known then, however many writes other components have made since.

A process takes over a Lease with its own identity without waiting: identities guarantee that the predecessor is gone
(manager/process.py). If there are two nevertheless, `acquireTime` distinguishes them.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from rukpak.api.bounds import clamp, clamp_wait
from rukpak.controller.kube.cache import make_trace, parse_version
from rukpak.controller.kube.client import Client, Fence, read_clock
from rukpak.controller.kube.encoding import micro_time
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.kube.resources import NAMESPACES, Resource
from rukpak.controller.kube.watch import ListWatch, Reflector
from rukpak.controller.processes.supervision import Kind
from rukpak.controller.untrusted import field, mapping, text

log = logging.getLogger(__name__)

LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
JITTER = 1.2
RELEASE_SECONDS = (0.5, 0.5)
"""To connect, and of silence: an exit does not wait long for an unavailable server."""
SHORTEST_TIMEOUT = 0.05
LONGEST_DURATION = 3600.0
"""Seconds; upper bound of the duration in a Lease, which must not exclude all others for years."""
MOST_TRANSITIONS = 2**31 - 1
"""The largest value that the API server accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """Timing of an election, in seconds."""

    duration: float = 30
    """After which others may take the Lease of a silent leader."""
    renew: float = 20
    """After which a leader that cannot renew gives up. This less `retry` also limits each write: webhooks may take 10 s
    by default, so the 10 s that Kubernetes uses here would be too short."""
    retry: float = 2
    """Between two renewals, and between two reads of the Lease of another process."""

    def problem(self) -> str:
        """Return what is invalid; empty if nothing is."""
        if self.duration <= self.renew:
            return "the lease duration must be longer than the renew deadline"
        return "" if self.renew > JITTER * self.retry else "the renew deadline must be longer than the retry period"


class Election:
    """The participation of this process in one election.

    Args:
        client: for the Lease only, without the fence. Its `on_restored` is called on the thread of the election.
        namespace: of the Lease; created if missing.
        name: of the Lease.
        identity: of this process.
        annotations: on the Lease while this process holds it.
        fence: opened while this process leads.
        on_elected: called once, on the thread of the election; keep it short.
        on_lost: called once, on that thread, when the Lease is lost: it must end the process.
        clock: seconds.
    """

    def __init__(
        self,
        *,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        fence: Fence,
        on_elected: Callable[[], None],
        on_lost: Callable[[], None],
        annotations: Mapping[str, str] | None = None,
        clock: Callable[[], float] = read_clock,
    ) -> None:
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._path, self._about = LEASES.path(namespace, name), {"lease": f"{namespace}/{name}"}
        self._times, self._fence, self._clock = times, fence, clock
        self._annotations = dict(annotations or {})
        self._on_elected, self._on_lost = on_elected, on_lost
        self._lease: dict[str, Any] | None = None
        self._seen_at = clock()
        self._acquired = ""
        self._until = 0.0
        self._sent = clock()
        """When the last write of the Lease was sent."""
        self._took = 0.0
        """Seconds until the reply to the last request."""
        self._leading = False
        self.follows = False
        """Whether another process has led since this one started: the caches may be older than its last write."""
        self._stopping = threading.Event()
        self._awake = threading.Event()
        # Restarted, it could lead with what the bug has left of its state: a new process cannot.
        self._thread = client.supervisor.thread(Kind.ELECTION, "election", self._run, deaths=0)
        self._watch = Reflector(
            ListWatch(client, LEASES.path(namespace), field_selector=f"metadata.name={name}", metadata=True),
            project=make_trace,
            on_change=lambda _old, _new: self._awake.set(),
        )
        self.last_error: ApiError | None = None
        """The failure of the last attempt; None if it succeeded."""

    @property
    def alive(self) -> bool:
        """Whether the election is running."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start to take part; returns immediately. Only once."""
        self._watch.start()
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop leading; release the Lease if no write of this process is in progress after `seconds`."""
        is_idle = self._fence.shut(seconds)
        self._stopping.set()
        self._awake.set()
        self._watch.stop()
        self._thread.join(sum(RELEASE_SECONDS))
        if is_idle and self._leading and not self._thread.is_alive():
            self._release()

    def _run(self) -> None:
        while not self._stopping.is_set():
            holds = self._try()
            if holds:
                self._lead(self._sent + self._times.renew)
            elif self._leading and (holds is False or self._remaining() <= 0):
                self._lose()
                return
            self._awake.wait(clamp_wait(self._pause()))
            self._awake.clear()

    def _try(self) -> bool | None:
        try:
            holds = self._acquire_or_renew()
        except ApiError as error:
            if self.last_error is None or str(self.last_error) != str(error):
                log.warning("Lease not available", extra={**self._about, "error": str(error)})
            self.last_error = error
            return None
        self.last_error = None
        return holds

    def _lead(self, until: float) -> None:
        self._until = until
        self._fence.open_until(until)
        if not self._leading:
            self._leading = True
            self._watch.stop()
            log.info("leading", extra={**self._about, "identity": self._identity})
            self._on_elected()

    def _lose(self) -> None:
        self._fence.shut()
        self._leading = False
        log.error("Lease lost", extra={**self._about, "identity": self._identity})
        self._on_lost()

    def _remaining(self) -> float:
        return self._until - self._clock() if self._leading else self._times.renew

    def _pause(self) -> float:
        pause = self._times.retry * random.uniform(1, JITTER)  # noqa: S311
        # The next renewal may take as long as the last one.
        return min(pause, max(self._remaining() - 2 * self._took, SHORTEST_TIMEOUT))

    # the record

    def _acquire_or_renew(self) -> bool:
        if not self._is_ours():
            self._read()
        for _ in range(2):
            if not self._may_take():
                return False
            if self._write():
                return True
            # Changed meanwhile; by us, if the reply to a renewal was lost, which does not count: its time is unknown.
            self._read()
        return False

    def _is_ours(self) -> bool:
        return self._lease is not None and bool(self._acquired) and self._spec().get("acquireTime") == self._acquired

    def _may_take(self) -> bool:
        spec = self._spec()
        if self._lease is None:  # also if it was deleted: only one process can create it
            return True
        if self._leading:
            return self._is_ours() and spec.get("holderIdentity") == self._identity
        if spec.get("holderIdentity") in (None, "", self._identity):
            return True
        duration = clamp(spec.get("leaseDurationSeconds"), 0.0, LONGEST_DURATION) or 0.0
        return self._clock() - self._seen_at >= max(duration, self._times.duration)

    def _spec(self) -> Mapping[str, Any]:
        return mapping(self._lease, "spec")

    def _seconds(self) -> float:
        return max(min(self._remaining(), self._times.renew), SHORTEST_TIMEOUT)

    def _read(self) -> None:
        if found := attempt(lambda: self._request("GET", self._path), HTTPStatus.NOT_FOUND):
            self._see(found)
        else:
            self._lease = None

    def _see(self, lease: dict[str, Any]) -> None:
        if self._lease is None or lease.get("spec") != self._lease.get("spec"):
            self._seen_at = self._clock()
        if self._lease is not None and _is_restored(lease["metadata"], self._lease["metadata"]):
            log.warning("the Lease is older than known, etcd was restored", extra=self._about)
            self._client.on_restored()
        self._lease = lease
        holder = self._spec().get("holderIdentity")
        if not self.follows and holder not in (None, "", self._identity):
            self.follows = True
            log.info("waiting for the Lease", extra={**self._about, "holder": holder})

    def _write(self) -> bool:
        body = self._body()
        if self._lease:
            update = partial(self._request, "PUT", self._path, body)
            written = attempt(update, HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
        else:
            written = attempt(partial(self._create, body), HTTPStatus.CONFLICT)
        if written is None:
            return False
        self._see(written)
        self._acquired = body["spec"]["acquireTime"]
        return True

    def _body(self) -> dict[str, Any]:
        now, spec = micro_time(), self._spec()
        is_same = spec.get("holderIdentity") == self._identity
        transitions = int(clamp(spec.get("leaseTransitions"), 0, MOST_TRANSITIONS) or 0)
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": self._metadata(),
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(int(self._times.duration), 1),
                "leaseTransitions": min(transitions + (not is_same and self._lease is not None), MOST_TRANSITIONS),
                "acquireTime": self._acquired if self._leading else now,
                "renewTime": now,
            },
        }

    def _metadata(self) -> dict[str, Any]:
        new = {"name": self._name, "namespace": self._namespace}
        metadata: dict[str, Any] = (self._lease or {}).get("metadata") or new
        annotations = {**(metadata.get("annotations") or {}), **self._annotations}
        return {**metadata, **({"annotations": annotations} if annotations else {})}

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the Lease in a reply; a reply to a write must contain what was written.

        Raises: ApiError, also for a reply with 200 and another body, such as that of a proxy.
        """
        began = self._clock()
        if body is not None:
            self._sent = began
        try:
            value = self._client.request(method, path, body=body, seconds=self._seconds()).value
        finally:
            self._took = self._clock() - began
        if _is_lease(value, self._namespace, self._name) and (body is None or _is_written(value, body)):
            lease: dict[str, Any] = value
            return lease
        raise ApiError(0, "NotUnderstood", f"the reply is not Lease {self._about['lease']}")

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        create = partial(self._request, "POST", LEASES.path(self._namespace), body)
        if created := attempt(create, HTTPStatus.NOT_FOUND):
            return created
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        post = partial(self._client.request, "POST", NAMESPACES.path(), body=namespace, seconds=self._seconds())
        attempt(post, HTTPStatus.CONFLICT)
        return create()

    def _release(self) -> None:
        spec = {**self._spec(), "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time()}
        body = {**(self._lease or {}), "spec": spec}
        try:
            self._client.request("PUT", self._path, body=body, timeout=RELEASE_SECONDS)
        except ApiError as error:
            log.warning("Lease not released; others wait until it expires", extra={"error": str(error)})
            return
        self._leading = False
        log.info("Lease released", extra=self._about)


def _is_lease(value: Any, namespace: str, name: str) -> bool:
    about = mapping(value, "metadata")
    kind, place = (text(value, "apiVersion"), text(value, "kind")), (text(about, "namespace"), text(about, "name"))
    is_whole = text(about, "resourceVersion") != "" and isinstance(field(value, "spec") or {}, dict)
    return is_whole and (kind, place) == ((LEASES.api_version, LEASES.kind), (namespace, name))


def _is_restored(metadata: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    versions = (parse_version(each["resourceVersion"]) for each in (metadata, known))
    return metadata.get("uid") == known.get("uid") and next(versions) < next(versions)


def _is_written(lease: dict[str, Any], body: dict[str, Any]) -> bool:
    keys = ("holderIdentity", "acquireTime")
    spec = lease.get("spec") or {}
    return all(spec.get(key) == body["spec"][key] for key in keys)
