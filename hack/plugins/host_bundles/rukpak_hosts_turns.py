"""What runs in the pods: an agent on each node that waits for its turn, and the Job that has the bundle removed.

All agents read and write one Lease. Its annotation `hosts.rukpak.io/nodes` has an entry for each node that is being
worked on or has failed, and the API server refuses a write of one who has not seen the last: so no two agents take the
last place, or begin after a failure that they do not know of. A node without an entry is done, or has not begun; which
of them, only its own journal tells.

Entries do not expire: a node that does not answer may be down because of what was installed there. Those of a node that
has no agent any more are dropped, since Kubernetes deletes the pods of nodes that were deleted.

Each step reads what is there and does what is missing, so that an agent may be killed at any time, and the API server
may be away. Nothing but Python's library. Not here: what is done on the host (rukpak_hosts_agent.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import select
import signal
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import rukpak_hosts_agent
from rukpak_hosts_agent import HostError

NODES, REMOVE = "hosts.rukpak.io/nodes", "hosts.rukpak.io/remove"
"""Annotations of the Lease."""
CORDONED_FOR = "hosts.rukpak.io/cordoned-for"
"""Annotation of a Node that an agent has cordoned: the owner in its plan. What others have cordoned has none."""
INSTALLING, REBOOTING, FAILED = "Installing", "Rebooting", "Failed"
REMOVING, REMOVED, REMOVAL_FAILED = "Removing", "Removed", "RemovalFailed"
DAMAGED = "Damaged"
"""State of an entry that somebody has damaged, until the agent of that node replaces it: it may have had a place."""
_STATES = (INSTALLING, REBOOTING, FAILED, REMOVING, REMOVED, REMOVAL_FAILED)
WORKING = (INSTALLING, REBOOTING, REMOVING)
"""States in which a node has one of `maxUnavailable` places."""
READY = Path("/run/rukpak-hosts/ready")
_CONTENTS = (Path("/content/parts"), Path("/content/image"))
_TERMINATION_LOG = Path("/dev/termination-log")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# All agents together read the Lease about twice a second, within these limits for each.
_SECONDS_FOR_EACH_NODE = 0.5
_POLL_SECONDS = (2.0, 20.0)
_IDLE_SECONDS = (2.0, 60.0)  # once it is installed: then it looks only for a removal
_AWAY_SECONDS = 60.0  # in which the API server is expected to be back, if it is not what was installed
_REPEAT_SECONDS = 45.0  # in which a container that fails has ended three times, with the pauses of the kubelet
_GONE_SECONDS = 60.0  # while a DaemonSet replaces its pod, a node has none
_RETRY_SECONDS = 1.0
_REQUEST_SECONDS = 30.0
_LOOK_SECONDS = (1.0, 5.0)  # of the removal
_REMOVAL_SECONDS = 120.0  # in which some agent must begin, beside the time limit of its script
_SHOWN = 300  # characters of a message in the Lease: it may have to hold many
_SHOWN_NODES = 10

Entry: TypeAlias = dict[str, str]
"""Of a node: plan, state, message, since."""
Entries: TypeAlias = dict[str, Entry]


class Host(Protocol):
    """What is done on this host. Each raises HostError."""

    def install(self, plan: Mapping[str, Any], content: Path) -> None:
        """Install the bundle, unless it is installed already, and verify it."""

    def verify(self, plan: Mapping[str, Any]) -> None:
        """Check that the bundle is installed and works."""

    def remove(self, plan: Mapping[str, Any]) -> None:
        """Undo what was installed, if anything was."""

    def reboot(self, plan: Mapping[str, Any]) -> None:
        """Begin to reboot."""

    def is_installed(self, plan: Mapping[str, Any]) -> bool:
        """Return whether exactly this was installed."""

    def needs_reboot(self, plan: Mapping[str, Any]) -> bool:
        """Return whether what is installed takes effect with the next boot only."""


# whose turn it is


class Turn(NamedTuple):
    """Whether a node may go ahead."""

    entries: Entries
    """With that of the node, if it may."""
    waits_for: str = ""
    """Why it may not."""


def ask_for_turn(node: str, wanted: Entry, entries: Mapping[str, Entry], turns: Mapping[str, Any]) -> Turn:
    """Return whether a node may be worked on.

    Args:
        node: that asks.
        wanted: its entry if it may, with the state Installing, Rebooting or Removing.
        entries: of all nodes that have an agent.
        turns: maxUnavailable and maxFailures.
    """
    # Failures of another plan do not count: this one may be what corrects them.
    failed = _find_failed(wanted["plan"], entries)
    known = {name: each for name, each in entries.items() if each["state"] != FAILED or name in failed}
    mine = known.get(node)
    if not mine or mine["state"] not in WORKING:
        # What has failed may try again: it is what others wait for.
        if wanted["state"] != REMOVING and node not in failed and len(failed) >= turns["maxFailures"]:
            return Turn({}, f"{_list(failed)} failed: {known[failed[0]]['message']}")
        working = sorted(name for name, each in known.items() if each["state"] in (*WORKING, DAMAGED))
        if len(working) >= turns["maxUnavailable"]:
            damaged = [name for name in working if known[name]["state"] == DAMAGED]
            problem = f" (damaged in the annotation {NODES}: {_list(damaged)})" if damaged else ""
            return Turn({}, f"{_list(working)} {'is' if len(working) == 1 else 'are'} being worked on{problem}")
    is_retry = mine and (mine["state"] == REMOVAL_FAILED if wanted["state"] == REMOVING else node in failed)
    before = mine["message"] if mine and is_retry else ""
    return Turn({**known, node: {**wanted, "message": before}})  # what tries again still says why


def _has_failed(entry: Entry) -> bool:
    """Whether a node has failed; it still has while it tries again, which leaves the message in its entry."""
    return entry["state"] == FAILED or (entry["state"] in (INSTALLING, REBOOTING) and bool(entry["message"]))


def _list(nodes: Collection[str]) -> str:
    shown = sorted(nodes)[:_SHOWN_NODES]
    return ", ".join(shown) + (f" and {len(nodes) - len(shown)} more" if len(nodes) > len(shown) else "")


def is_stopped(plan: Mapping[str, Any], entries: Mapping[str, Entry]) -> bool:
    """Return whether so many nodes have failed that no other is begun."""
    return len(_find_failed(plan_id(plan), entries)) >= int(plan["turns"]["maxFailures"])


def _find_failed(plan: str, entries: Mapping[str, Entry]) -> list[str]:
    return sorted(name for name, each in entries.items() if each["plan"] == plan and _has_failed(each))


def plan_id(plan: Mapping[str, Any]) -> str:
    """Return what identifies what is installed by a plan."""
    return hashlib.sha256(json.dumps(plan["install"], sort_keys=True).encode()).hexdigest()[:16]


def make_entry(plan: Mapping[str, Any], state: str, message: str = "") -> Entry:
    """Return the entry of a node, as of now."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"plan": plan_id(plan), "state": state, "message": _one_line(message), "since": now}


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_SHOWN]


# the cluster


class ClusterError(Exception):
    """The API server did not do what it was asked for."""


class ConflictError(ClusterError):
    """Somebody else has written the Lease."""


class MissingError(ClusterError):
    """There is no such object, or not any more."""


class BudgetError(ClusterError):
    """A PodDisruptionBudget does not allow it now."""


_ERRORS = {
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.NOT_FOUND: MissingError,
    HTTPStatus.TOO_MANY_REQUESTS: BudgetError,
}


class Cluster:
    """The Lease, and the pods of the agents.

    Args:
        url: of the API server.
        namespace: of the Lease and of the pods.
        lease: its name, which is also that of the DaemonSet, and in a label of the pods.
        token: returns that of the account, which changes by and by.
        tls: None for a URL without it.
    """

    def __init__(
        self, url: str, namespace: str, lease: str, *, token: Callable[[], str], tls: ssl.SSLContext | None = None
    ) -> None:
        self._url, self._token = url, token
        self._lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._daemon_set = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{lease}"
        self._selector = f"hosts.rukpak.io/deployment={lease},hosts.rukpak.io/part=agent"
        handlers = [urllib.request.ProxyHandler({})]
        self._opener = urllib.request.build_opener(*handlers, urllib.request.HTTPSHandler(context=tls))

    def read(self) -> dict[str, Any]:
        """Return the Lease. Raises: ClusterError."""
        return self._request("GET", self._lease)

    def write(self, lease: Mapping[str, Any], **annotations: str) -> None:
        """Change annotations of the Lease as it was read. Raises: ClusterError, ConflictError if it has changed."""
        metadata = lease["metadata"]
        changed = {**(metadata.get("annotations") or {}), **annotations}
        self._request("PUT", self._lease, {**lease, "metadata": {**metadata, "annotations": changed}})

    def nodes(self, node: str = "") -> set[str]:
        """Return the nodes that have an agent: of one node, if it is given, and else of all. Raises: ClusterError."""
        query = {"labelSelector": self._selector, **({"fieldSelector": f"spec.nodeName={node}"} if node else {})}
        found = self._request("GET", f"{self._pods}?{urllib.parse.urlencode(query)}")
        return {name for item in found["items"] if (name := item["spec"].get("nodeName"))}

    def count_nodes(self) -> tuple[int, int]:
        """Return how many nodes should have an agent, and how many of them have one. Raises: ClusterError."""
        status = self._request("GET", self._daemon_set).get("status") or {}
        return status.get("desiredNumberScheduled", 0), status.get("currentNumberScheduled", 0)

    def read_node(self, node: str) -> dict[str, Any]:
        """Return a Node. Raises: ClusterError."""
        return self._request("GET", f"/api/v1/nodes/{node}")

    def cordon(self, node: str, *, owner: str | None) -> None:
        """Have no pods scheduled to a node, and note for whom; None: undo both. Raises: ClusterError."""
        body = {
            "metadata": {"annotations": {CORDONED_FOR: owner}},
            "spec": {"unschedulable": True if owner else None},
        }
        self._request("PATCH", f"/api/v1/nodes/{node}", body)

    def pods_of(self, node: str) -> list[dict[str, Any]]:
        """Return the pods of a node that a drain evicts. Raises: ClusterError."""
        query = urllib.parse.urlencode({"fieldSelector": f"spec.nodeName={node}"})
        return [pod for pod in self._request("GET", f"/api/v1/pods?{query}")["items"] if not _stays(pod)]

    def evict(self, pod: Mapping[str, Any]) -> None:
        """Have a pod deleted if its disruption budget allows that. Raises: ClusterError."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        self._request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            request = urllib.request.Request(  # noqa: S310 - the URL is that of the API server
                f"{self._url}{path}",
                method=method,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Authorization": f"Bearer {self._token()}", "Content-Type": kind},
            )
            with self._opener.open(request, timeout=_REQUEST_SECONDS) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            failure = _ERRORS.get(HTTPStatus(error.code), ClusterError)
            raise failure(f"{method} {path.partition('?')[0]}: {error.code} {error.reason}") from error
        except (OSError, ValueError) as error:
            raise ClusterError(f"{method} {path.partition('?')[0]}: {error}") from error
        return answer


def _stays(pod: Mapping[str, Any]) -> bool:
    """Whether a drain leaves a pod: it would be back at once, cannot be deleted, or has ended."""
    metadata = pod["metadata"]
    return (
        any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences") or [])
        or "kubernetes.io/config.mirror" in (metadata.get("annotations") or {})
        or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    )


def entries_of(lease: Mapping[str, Any], nodes: Callable[[], Collection[str]] = tuple) -> Entries:
    """Return the entries in a Lease. What somebody has damaged is `DAMAGED`, and takes a place until it is replaced.

    Args:
        lease: as the API server has it; what is in its annotation, anybody may have written who may write the Lease.
        nodes: returns those that have an agent: each of them may have had an entry if nothing can be read.
    """
    text = (lease["metadata"].get("annotations") or {}).get(NODES) or "{}"
    try:
        found = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        found = dict.fromkeys(nodes())
    return {node: _read_entry(entry) for node, entry in found.items() if _NODE_NAME.fullmatch(node)}


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. What has two values has none."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = None if key in found else value
    return found


def _read_entry(found: Any) -> Entry:
    keys = ("plan", "state", "message", "since")
    is_whole = isinstance(found, dict) and all(isinstance(found.get(key), str) for key in keys)
    if not is_whole or found["state"] not in _STATES:
        return {"plan": "", "state": DAMAGED, "message": "", "since": ""}
    return {key: _one_line(found[key]) for key in keys}


def is_being_removed(lease: Mapping[str, Any]) -> bool:
    """Return whether all nodes are asked to remove the bundle."""
    return REMOVE in (lease["metadata"].get("annotations") or {})


class Stop:
    """Whether this process is asked to end. An Event must not be set by what handles a signal: it may be locked."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def set(self, *_signal: object) -> None:
        """Ask it to end."""
        os.write(self._writing, b"\0")

    def wait(self, seconds: float) -> bool:
        """Wait for some time or until it is asked, and return whether it is."""
        return bool(select.select([self._reading], [], [], seconds)[0])


# the agent of a node


def _print(message: str) -> None:
    print(message, flush=True)  # noqa: T201 - its log


class Agent:
    """Has the bundle installed on its node, or removed, when it is its turn.

    Args:
        plan: of the bundle.
        node: the name of this one.
        cluster: with the Lease.
        host: this one.
        ready: a file that exists while the bundle is installed and works. Beside it is how this node has failed last.
        pace: what the number of seconds between two steps is multiplied by.
        say: writes its log.
    """

    def __init__(
        self,
        plan: Mapping[str, Any],
        node: str,
        cluster: Cluster,
        *,
        host: Host = rukpak_hosts_agent,
        content: Path,
        ready: Path = READY,
        pace: float = 1.0,
        say: Callable[[str], object] = _print,
    ) -> None:
        self._plan, self._node, self._cluster, self._host = plan, node, cluster, host
        self._content, self._ready, self._pace, self._write_log = content, ready, pace, say
        self._failure = ready.with_name("failure.json")
        self._missing: dict[str, float] = {}
        self._drained_since = self._away_since = 0.0
        self._fleet = 0
        self._said = ""

    def run(self, stop: Stop) -> None:
        """Work until this process is asked to end.

        Raises: HostError if the host has not what it should have, or is cut off from the API server before it has it.
        """
        self._ready.unlink(missing_ok=True)  # of a container that ran before in this pod
        while not stop.wait(0):
            try:
                seconds = self._step(stop)
            except ConflictError:
                seconds = _RETRY_SECONDS
            except ClusterError as error:
                self._miss(error)
                seconds = self._seconds_of(_POLL_SECONDS)
            stop.wait(self._pace * seconds * random.uniform(0.5, 1.5))  # noqa: S311 - not a secret
        if self._drained_since:  # nothing was changed on the host, and perhaps no other agent will come here
            with suppress(ClusterError):
                self._uncordon()

    def _miss(self, error: ClusterError) -> None:
        """Say that the API server cannot be used. Raises: HostError once that lasts, unless all is done here."""
        self._say(f"the API server cannot be used now: {error}")
        self._away_since = self._away_since or time.monotonic()
        lasts = time.monotonic() - self._away_since > self._pace * _AWAY_SECONDS
        if lasts and not self._ready.exists():
            remedy = "correct the network of the node, or what the API server says"
            raise HostError(f"the API server cannot be used from here, so nobody gives it a turn: {error}; {remedy}")

    def _seconds_of(self, limits: tuple[float, float]) -> float:
        """Return how long this agent waits between two looks at the Lease: the longer, the more others look."""
        return min(max(self._fleet * _SECONDS_FOR_EACH_NODE, limits[0]), limits[1])

    def _step(self, stop: Stop) -> float:
        """Do what is to be done now, and return how many seconds that holds. Raises: HostError, ClusterError."""
        lease = self._cluster.read()
        self._away_since = 0.0
        with suppress(ClusterError):  # it is only about how often to look
            self._fleet = self._fleet or self._cluster.count_nodes()[0]
        entries = entries_of(lease, self._cluster.nodes)
        if entries.get(self._node, {}).get("state") == DAMAGED:
            failure = self._read_failure()
            self._record(make_entry(self._plan, FAILED, failure) if failure else None, stop)
            return 0.0
        if is_being_removed(lease):
            self._remove(lease, stop)
        elif not self._ready.exists():
            self._repeat_failure(entries)
            self._install(lease, stop)
        return self._seconds_of(_IDLE_SECONDS if self._ready.exists() else _POLL_SECONDS)

    def _repeat_failure(self, entries: Entries) -> None:
        """Fail as this node has just failed, if that has stopped the rollout.

        A container that ends again and again is a failure for everybody who looks at pods. The scripts may take an hour
        each time, and would hardly succeed now. Raises: HostError.
        """
        mine = entries.get(self._node)
        if mine and mine["state"] == FAILED and is_stopped(self._plan, entries):
            failure = self._read_failure()
            if failure and time.time() - self._failure.stat().st_mtime < self._pace * _REPEAT_SECONDS:
                raise HostError(failure)

    def _read_failure(self) -> str:
        """Return how this node has failed last with this plan, in this pod; empty if it has not."""
        try:
            found: dict[str, str] = json.loads(self._failure.read_bytes())
        except (FileNotFoundError, ValueError):
            return ""
        return found["message"] if found["plan"] == plan_id(self._plan) else ""

    def _fail(self, error: HostError, stop: Stop) -> None:
        self._failure.write_text(json.dumps({"plan": plan_id(self._plan), "message": str(error)}), encoding="ascii")
        self._record(make_entry(self._plan, FAILED, str(error)), stop)

    def _install(self, lease: Mapping[str, Any], stop: Stop) -> None:
        host, plan = self._host, self._plan
        try:
            is_installed = host.is_installed(plan)
            if not is_installed or host.needs_reboot(plan):
                if not self._take_turn(lease, REBOOTING if is_installed else INSTALLING):
                    return
                if not is_installed:
                    if not self._drain():
                        return
                    self._say(f"installing {plan['install']['name']} {plan['install']['version']}")
                    host.install(plan, self._content)
            else:
                host.verify(plan)
            if host.needs_reboot(plan):
                self._reboot(stop)
                return
        except HostError as error:
            self._fail(error, stop)
            raise
        self._failure.unlink(missing_ok=True)
        self._uncordon()
        self._record(None, stop)
        self._say("installed")
        self._ready.touch()

    def _reboot(self, stop: Stop) -> None:
        if not self._plan["allowReboot"]:
            raise HostError(
                "it needs a reboot, which spec.config.allowReboot does not allow; set it, or reboot the node"
            )
        self._record(make_entry(self._plan, REBOOTING), stop)
        self._say("rebooting")
        self._host.reboot(self._plan)

    def _remove(self, lease: Mapping[str, Any], stop: Stop) -> None:
        self._ready.unlink(missing_ok=True)
        mine = entries_of(lease).get(self._node)
        if (mine and mine["state"] == REMOVED) or not self._take_turn(lease, REMOVING):
            return
        self._say("removing")
        try:
            self._host.remove(self._plan)
        except HostError as error:
            self._record(make_entry(self._plan, REMOVAL_FAILED, str(error)), stop)
            raise
        self._uncordon()
        self._record(make_entry(self._plan, REMOVED), stop)

    def _drain(self) -> bool:
        """Cordon the node, evict its pods, and return whether none is left. Raises: HostError, ClusterError."""
        drain = self._plan["turns"].get("drain")
        if not drain:
            return True
        if not self._cluster.read_node(self._node)["spec"].get("unschedulable"):
            self._cluster.cordon(self._node, owner=self._plan["install"]["owner"])
        problems = [problem for pod in self._cluster.pods_of(self._node) if (problem := self._evict(pod, drain))]
        self._drained_since = self._drained_since or time.monotonic()
        if problems and time.monotonic() - self._drained_since > self._pace * drain["timeoutSeconds"]:
            self._uncordon()  # nothing was changed yet
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise HostError(f"drain: {problems[0]}{more}; correct that, or raise spec.config.drain.timeoutSeconds")
        if not problems:
            self._drained_since = 0.0
            return True
        self._say("draining")
        return False

    def _evict(self, pod: Mapping[str, Any], drain: Mapping[str, Any]) -> str:
        """Evict a pod, and return why it is still there. Raises: ClusterError."""
        metadata = pod["metadata"]
        name = f"pod {metadata['namespace']}/{metadata['name']}"
        if not (metadata.get("ownerReferences") or drain["force"]):
            return f"{name} has no controller that would replace it, and spec.config.drain.force is not set"
        try:
            if not metadata.get("deletionTimestamp"):
                self._cluster.evict(pod)
        except BudgetError:
            return f"the disruption budget of {name} does not allow to evict it"
        except MissingError:
            return ""
        return f"{name} has not ended"

    def _uncordon(self) -> None:
        """Undo what an agent has done to the Node, and nothing that others have. Raises: ClusterError."""
        if self._plan["turns"].get("drain"):
            annotations = self._cluster.read_node(self._node)["metadata"].get("annotations") or {}
            if annotations.get(CORDONED_FOR) == self._plan["install"]["owner"]:
                self._cluster.cordon(self._node, owner=None)

    def _take_turn(self, lease: Mapping[str, Any], state: str) -> bool:
        """Return whether it is the turn of this node, which is then written to the Lease. Raises: ClusterError."""
        entries = self._drop_gone(entries_of(lease, self._cluster.nodes))
        turn = ask_for_turn(self._node, make_entry(self._plan, state), entries, self._plan["turns"])
        if turn.waits_for:
            self._say(f"waiting: {turn.waits_for}")
        else:
            self._cluster.write(lease, **{NODES: json.dumps(turn.entries, sort_keys=True)})
        return not turn.waits_for

    def _drop_gone(self, entries: Entries) -> Entries:
        """Return the entries of nodes that still have an agent."""
        kept = {}
        for node, entry in entries.items():
            if node == self._node or entry["state"] == REMOVED or self._cluster.nodes(node):
                self._missing.pop(node, None)
                kept[node] = entry
            elif time.monotonic() - self._missing.setdefault(node, time.monotonic()) < self._pace * _GONE_SECONDS:
                kept[node] = entry
        return kept

    def _record(self, entry: Entry | None, stop: Stop) -> None:
        """Write the entry of this node to the Lease, however long that takes, unless this process is asked to end.

        What is not written is found again by the next agent of this node.

        Raises: HostError if the API server is away for long, unless it is a failure that is to be written: that is what
            the caller ends with.
        """
        while True:
            seconds = self._seconds_of(_POLL_SECONDS)
            try:
                lease = self._cluster.read()
                entries = entries_of(lease, self._cluster.nodes)
                if entry is None and self._node not in entries:
                    return
                others = {node: each for node, each in entries.items() if node != self._node}
                changed = others if entry is None else {**others, self._node: entry}
                self._cluster.write(lease, **{NODES: json.dumps(changed, sort_keys=True)})
            except ConflictError:
                seconds = _RETRY_SECONDS
            except ClusterError as error:  # what was installed may be the API server
                try:
                    self._miss(error)
                except HostError:
                    if entry and entry["state"] in (FAILED, REMOVAL_FAILED):
                        return
                    raise
            else:
                self._away_since = 0.0
                return
            if stop.wait(self._pace * seconds * random.uniform(0.5, 1.5)):  # noqa: S311 - not a secret
                return

    def _say(self, message: str) -> None:
        if message != self._said:
            self._write_log(message)
        self._said = message


# the removal


def remove_everywhere(plan: Mapping[str, Any], cluster: Cluster, stop: Stop, *, pace: float = 1.0) -> None:
    """Ask all agents to remove the bundle, and wait for them.

    Raises: HostError, with the nodes that still have it, if none has got rid of it for longer than a script may take.
    """
    limit = pace * (plan["timeoutSeconds"] + _REMOVAL_SECONDS)
    deadline, before, told, seconds = time.monotonic() + limit, set[str](), "", _LOOK_SECONDS[0]
    unseen = 0.0  # seconds of looks in a row at which a node had no pod: none is made while there is no API server
    while True:
        try:
            lease = cluster.read()
            if not is_being_removed(lease):
                cluster.write(lease, **{REMOVE: "true"})
            nodes = cluster.nodes()
            entries = entries_of(lease, lambda found=nodes: found)  # type: ignore[misc]
            left = {node for node in nodes if entries.get(node, {}).get("state") != REMOVED}
            unseen = 0.0 if left else unseen + seconds
            if not left and (unseen > _GONE_SECONDS or _have_all_pods(nodes, cluster)):
                return
            if left != before:  # and not the entries: those of nodes that try again change, too
                deadline, before = time.monotonic() + limit, left
            told = f"{len(left)} of {len(nodes)} nodes still have it: {_describe(left, entries)}"
            seconds = min(max(len(nodes) / 10, _LOOK_SECONDS[0]), _LOOK_SECONDS[1])
        except ClusterError as error:
            told = f"the API server cannot be used: {error}"
        if time.monotonic() > deadline or stop.wait(pace * seconds):
            raise HostError(told)


def _have_all_pods(nodes: Collection[str], cluster: Cluster) -> bool:
    """Whether no other node should have a pod of an agent: one whose pod is being replaced has none for a while."""
    try:
        return set(cluster.count_nodes()) == {len(nodes)}
    except MissingError:  # somebody has deleted the DaemonSet
        return False


def _describe(nodes: Collection[str], entries: Entries) -> str:
    shown = sorted(nodes)[:_SHOWN_NODES]
    texts = [f"{node} ({_describe_entry(entries.get(node))})" for node in shown]
    return ", ".join(texts) + (f" and {len(nodes) - len(shown)} more" if len(nodes) > len(shown) else "")


def _describe_entry(entry: Entry | None) -> str:
    if entry is None or entry["state"] not in (REMOVING, REMOVAL_FAILED):
        return "its agent does not answer"
    return entry["message"] or "not done yet"


# the program


def _in_cluster(lease: str) -> Cluster:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return Cluster(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        os.environ["POD_NAMESPACE"],
        lease,
        token=lambda: (_ACCOUNT / "token").read_text(encoding="ascii"),
        tls=ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt")),
    )


def main(role: str, plan_text: bytes) -> int:
    """Run as the agent of a node ("node"), or as the Job that removes the bundle ("remove")."""
    plan, stop = json.loads(plan_text), Stop()
    signal.signal(signal.SIGTERM, stop.set)
    try:
        cluster = _in_cluster(plan["turns"]["lease"])
        if role == "remove":
            remove_everywhere(plan, cluster, stop)
        else:
            content = next(path for path in _CONTENTS if path.exists())
            Agent(plan, os.environ["NODE_NAME"], cluster, content=content).run(stop)
    except (HostError, OSError) as error:
        # Whoever reads it may see only that of one of many pods.
        message = str(error) if role == "remove" else f"{os.environ['NODE_NAME']}: {error}"
        print(message, file=sys.stderr, flush=True)  # noqa: T201 - its log
        _TERMINATION_LOG.write_text(message, encoding="utf-8")
        return 1
    return 0
