"""Whose turn it is: one decision at a time, and fleets of agents that share a Lease."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fake_cluster import FakeCluster, serve
from rukpak_hosts_agent import HostError
from rukpak_hosts_turns import (
    DAMAGED,
    FAILED,
    INSTALLING,
    REBOOTING,
    REMOVAL_FAILED,
    REMOVE,
    REMOVED,
    REMOVING,
    Agent,
    Entry,
    Stop,
    ask_for_turn,
    entries_of,
    make_entry,
    plan_id,
    remove_everywhere,
)

PACE = 0.002  # 40 ms in place of 20 s
SECONDS = 20.0


def make_plan(version: str = "v1", *, reboot: bool = False, places: int = 1, failures: int = 1) -> dict[str, Any]:
    return {
        "install": {"name": "tool", "version": version},
        "allowReboot": reboot,
        "timeoutSeconds": 600,
        "turns": {"lease": "tool", "maxUnavailable": places, "maxFailures": failures},
    }


OLD, NEW = make_plan("v1"), make_plan("v2")


def entry(state: str, plan: Mapping[str, Any] = NEW, message: str = "") -> Entry:
    return make_entry(plan, state, message)


class Case(NamedTuple):
    """A question of node "a", as a sentence."""

    name: str
    entries: Mapping[str, Entry]
    waits_for: str = ""
    state: str = INSTALLING
    places: int = 1
    failures: int = 1


CASES = [
    Case("the first node begins", {}),
    Case("a second one waits", {"b": entry(INSTALLING)}, "b is being worked on"),
    Case("one that reboots has a place", {"b": entry(REBOOTING)}, "b is being worked on"),
    Case("a second place is free", {"b": entry(INSTALLING)}, places=2),
    Case("both are taken", {"b": entry(INSTALLING), "c": entry(REBOOTING)}, "b, c are being worked on", places=2),
    Case("a failure stops all others", {"b": entry(FAILED, message="no disk")}, "b failed: no disk", places=2),
    Case("a failure that is allowed does not", {"b": entry(FAILED)}, failures=2),
    Case("a failure of another plan does not", {"b": entry(FAILED, OLD)}),
    Case("a node of another plan that is being worked on does", {"b": entry(INSTALLING, OLD)}, "b is being worked on"),
    Case("what had a place goes on", {"a": entry(INSTALLING), "b": entry(FAILED)}),
    Case("what had a place goes on with another plan", {"a": entry(INSTALLING, OLD), "b": entry(INSTALLING)}),
    Case("what has failed tries again", {"a": entry(FAILED), "b": entry(FAILED)}),
    Case("but not beside another", {"a": entry(FAILED), "b": entry(INSTALLING)}, "b is being worked on", failures=2),
    Case("what tries again has a place", {"b": entry(INSTALLING, message="no")}, "b is being worked on", failures=2),
    Case("and still counts as failed", {"b": entry(INSTALLING, message="no disk")}, "b failed: no disk", places=2),
    Case("but not with another plan", {"b": entry(INSTALLING, OLD, "no disk")}, places=2),
    Case("a node whose failure is forgotten waits, too", {"a": entry(FAILED, OLD), "b": entry(FAILED)}, "b failed: "),
    Case("a removal waits for its turn", {"b": entry(REMOVING)}, "b is being worked on", state=REMOVING),
    Case("a failure stops no removal", {"b": entry(FAILED), "c": entry(REMOVAL_FAILED)}, state=REMOVING),
    Case("what has been removed has no place", {"b": entry(REMOVED)}, state=REMOVING),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_whose_turn_it_is(case: Case) -> None:
    turns = {"maxUnavailable": case.places, "maxFailures": case.failures}
    turn = ask_for_turn("a", entry(case.state), case.entries, turns)
    assert turn.waits_for == case.waits_for
    assert ("a" in turn.entries) is not bool(case.waits_for)


def test_a_node_that_tries_again_says_why_until_it_has_succeeded() -> None:
    turns = {"maxUnavailable": 2, "maxFailures": 1}
    entries: Mapping[str, Entry] = {"a": entry(FAILED, message="no disk")}
    for _ in range(2):  # as what was killed meanwhile asks again
        entries = ask_for_turn("a", entry(INSTALLING), entries, turns).entries
        assert (entries["a"]["state"], entries["a"]["message"]) == (INSTALLING, "no disk")
    assert ask_for_turn("a", entry(REMOVING), entries, turns).entries["a"]["message"] == ""


def test_failures_of_another_plan_are_forgotten() -> None:
    turn = ask_for_turn("a", entry(INSTALLING), {"b": entry(FAILED, OLD)}, NEW["turns"])
    assert set(turn.entries) == {"a"}


class Damage(NamedTuple):
    """What somebody has written to the annotation of the Lease, as a sentence, and what is read there."""

    name: str
    text: str
    read: Mapping[str, str]
    """State of each node."""


GOOD = json.dumps(entry(INSTALLING))
ALL = {"a": DAMAGED, "b": DAMAGED}
DAMAGES = [
    Damage("no JSON", "{", ALL),
    Damage("JSON with something behind it", "null1", ALL),
    Damage("the text of another tool", "node-1,node-2", ALL),
    Damage("NUL", "\0", ALL),
    Damage("escape characters", "\x1b[31m{}", ALL),
    Damage("a list", "[]", ALL),
    Damage("a number", "1", ALL),
    Damage("null", "null", ALL),
    Damage("a text", '"a"', ALL),
    Damage("a number of 5,000 digits", "1" * 5000, ALL),
    Damage("100,000 lists in each other", "[" * 100_000, ALL),
    Damage("100,000 objects in each other", '{"a":' * 100_000, ALL),
    Damage("nothing", "", {}),
    Damage("no entry", "{}", {}),
    Damage("an entry that is null", '{"a": null}', {"a": DAMAGED}),
    Damage("an entry that is a number", '{"a": 1}', {"a": DAMAGED}),
    Damage("an entry that is a text", '{"a": "Installing"}', {"a": DAMAGED}),
    Damage("an entry that is a list", f'{{"a": [{GOOD}]}}', {"a": DAMAGED}),
    Damage("an entry in an entry", f'{{"a": {{"a": {GOOD}}}}}', {"a": DAMAGED}),
    Damage("an entry without its fields", '{"a": {"state": "Failed"}}', {"a": DAMAGED}),
    Damage("a state that does not exist", json.dumps({"a": entry("Done")}), {"a": DAMAGED}),
    Damage("a state that is a number", json.dumps({"a": {**entry(FAILED), "state": 1}}), {"a": DAMAGED}),
    Damage("a state that is not a number", f'{{"a": {GOOD.replace(chr(34) + INSTALLING + chr(34), "NaN")}}}',
           {"a": DAMAGED}),
    Damage("a message that is an object", json.dumps({"a": {**entry(FAILED), "message": {}}}), {"a": DAMAGED}),
    Damage("a message that is missing", GOOD.replace("message", "text").join(('{"a": ', "}")), {"a": DAMAGED}),
    Damage("a node that is there twice", f'{{"a": {GOOD}, "a": {GOOD}}}', {"a": DAMAGED}),
    Damage("a field that is there twice", f'{{"a": {GOOD[:-1]}, "state": "Removed"}}}}', {"a": DAMAGED}),
    Damage("one good entry beside a damaged one", f'{{"a": {GOOD}, "b": []}}', {"a": INSTALLING, "b": DAMAGED}),
    Damage("a field of another version", f'{{"a": {GOOD[:-1]}, "try": 1}}}}', {"a": INSTALLING}),
    Damage("names that no node has", json.dumps(dict.fromkeys(["", "A", "a,b=c", "../x", "\0", "\x1b"])), {}),
    Damage("a node that nobody knows", f'{{"gone": {GOOD}}}', {"gone": INSTALLING}),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_what_is_damaged_takes_a_place_until_it_is_replaced(damage: Damage) -> None:
    found = entries_of({"metadata": {"annotations": {"hosts.rukpak.io/nodes": damage.text}}}, lambda: ("a", "b"))
    assert {node: each["state"] for node, each in found.items()} == damage.read


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_damaged_annotation_stops_no_rollout(damage: Damage, fleet: Fleet) -> None:
    fleet.cluster.client().write(fleet.cluster.lease, **{"hosts.rukpak.io/nodes": damage.text})
    fleet.start(NEW, "a", "b")
    wait_until(lambda: fleet.ready() == {"a", "b"} and fleet.cluster.entries() == {})
    assert fleet.most == 1


@pytest.mark.parametrize("text", ["{", '{"b": 1}'])
def test_a_damaged_entry_of_a_node_that_does_not_answer_is_named(text: str, fleet: Fleet) -> None:
    fleet.cluster.nodes = {"b"}
    fleet.cluster.client().write(fleet.cluster.lease, **{"hosts.rukpak.io/nodes": text})
    fleet.start(NEW, "a")
    said = "waiting: b is being worked on (damaged in the annotation hosts.rukpak.io/nodes: b)"
    wait_until(lambda: said in fleet.said)
    assert fleet.ready() == set()


def test_a_failure_is_not_forgotten_with_a_damaged_annotation(fleet: Fleet) -> None:
    fleet.broken = {"a": "no disk"}
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.cluster.entries().get("a", {}).get("state") == FAILED)
    fleet.start(NEW, "b")
    fleet.cluster.client().write(fleet.cluster.client().read(), **{"hosts.rukpak.io/nodes": "{"})
    wait_until(lambda: "waiting: a failed: no disk" in fleet.said)
    assert set(fleet.order) == {"a"}


def test_a_removal_survives_a_damaged_annotation(fleet: Fleet) -> None:
    fleet.start(NEW, "a", "b")
    wait_until(lambda: fleet.ready() == {"a", "b"})
    fleet.cluster.client().write(fleet.cluster.client().read(), **{"hosts.rukpak.io/nodes": "{"})
    remove(fleet, pace=0.02)
    assert fleet.installed(NEW) == set()


@pytest.mark.parametrize("message", ["a\0b", "a\x1b[31mb", "a\ud800b", "a\nb", "a" * 5000])
def test_a_message_that_somebody_has_written_is_one_short_line(message: str) -> None:
    text = json.dumps({"a": {**entry(FAILED), "message": message}})
    found = entries_of({"metadata": {"annotations": {"hosts.rukpak.io/nodes": text}}})["a"]["message"]
    assert (found.isprintable(), len(found) <= 300, found[0]) == (True, True, "a")


def test_a_long_message_is_one_short_line() -> None:
    assert make_entry(NEW, FAILED, "a\nb " + "c" * 5000)["message"] == "a b " + "c" * 296


# fleets


class FakeHost:
    """A host on which nothing runs."""

    def __init__(self, fleet: Fleet, node: str) -> None:
        self._fleet, self._node = fleet, node
        self.installed = ""
        self.booted = True

    def install(self, plan: Mapping[str, Any], content: Path) -> None:
        with self._fleet.working(self._node):
            if self._node in self._fleet.broken:
                raise HostError(self._fleet.broken[self._node])
            self.installed, self.booted = plan_id(plan), not self._fleet.reboots

    def verify(self, plan: Mapping[str, Any]) -> None:
        if self._node in self._fleet.broken:
            raise HostError(self._fleet.broken[self._node])
        assert self.is_installed(plan)

    def remove(self, plan: Mapping[str, Any]) -> None:
        with self._fleet.working(self._node):
            if self._node in self._fleet.broken:
                raise HostError(self._fleet.broken[self._node])
            self.installed = ""

    def reboot(self, plan: Mapping[str, Any]) -> None:
        with self._fleet.working(self._node):
            self.booted = True

    def is_installed(self, plan: Mapping[str, Any]) -> bool:
        return self.installed == plan_id(plan)

    def needs_reboot(self, plan: Mapping[str, Any]) -> bool:
        return not self.booted


class Fleet:
    """Nodes with agents, whose containers are started again when they fail, as the kubelet does."""

    def __init__(self, cluster: FakeCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.hosts: dict[str, FakeHost] = {}
        self.broken: dict[str, str] = {}
        self.reboots = False
        self.on_work: Callable[[], object] = lambda: None
        """Called whenever a node is worked on."""
        self.seconds = 0.01
        """For which a node is worked on."""
        self.most = 0
        """Nodes that were worked on at the same time."""
        self.order: list[str] = []
        self.said: list[str] = []
        """By all agents."""
        self.ended: list[str] = []
        """Why containers have ended, in order."""
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Stop, threading.Thread]] = {}

    def working(self, node: str) -> Any:
        """Return a block in which a node is worked on."""
        return _Working(self, node)

    def begin(self, node: str) -> None:
        with self._lock:
            self._busy.add(node)
            self.order.append(node)
            self.most = max(self.most, len(self._busy))

    def end(self, node: str) -> None:
        with self._lock:
            self._busy.remove(node)

    def start(self, plan: Mapping[str, Any], *nodes: str) -> None:
        """Start the agents of nodes, in place of those that run there."""
        for node in nodes:
            self.stop(node)
            host = self.hosts.setdefault(node, FakeHost(self, node))
            self.cluster.nodes.add(node)
            stop, ready = Stop(), self.folder / node / "ready"
            ready.parent.mkdir(exist_ok=True)
            agent = Agent(
                plan, node, self.cluster.client(), host=host, content=self.folder, ready=ready, pace=PACE,
                say=self.said.append,
            )  # fmt: skip
            thread = threading.Thread(target=self._run, args=(agent, stop), daemon=True)
            self._running[node] = stop, thread
            thread.start()

    def _run(self, agent: Agent, stop: Stop) -> None:
        while not stop.wait(0.02):
            try:
                agent.run(stop)
            except HostError as error:
                self.ended.append(str(error))

    def stop(self, *nodes: str) -> None:
        for node in nodes:
            if node in self._running:
                stop, thread = self._running.pop(node)
                stop.set()
                thread.join(SECONDS)

    def stop_all(self) -> None:
        self.stop(*list(self._running))

    def ready(self) -> set[str]:
        return {path.parent.name for path in self.folder.glob("*/ready")}

    def installed(self, plan: Mapping[str, Any]) -> set[str]:
        return {node for node, host in self.hosts.items() if host.is_installed(plan)}


class _Working:
    def __init__(self, fleet: Fleet, node: str) -> None:
        self._fleet, self._node = fleet, node

    def __enter__(self) -> None:
        self._fleet.begin(self._node)
        self._fleet.on_work()
        time.sleep(self._fleet.seconds)  # so that others could begin meanwhile

    def __exit__(self, *_: object) -> None:
        self._fleet.end(self._node)


TEN = [f"node-{index}" for index in range(10)]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Return a fleet without nodes."""
    with serve() as cluster:
        fleet = Fleet(cluster, tmp_path)
        yield fleet
        fleet.stop_all()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ten_nodes_are_installed_one_at_a_time(fleet: Fleet) -> None:
    fleet.start(NEW, *TEN)
    wait_until(lambda: fleet.ready() == set(TEN))
    assert fleet.most == 1
    assert sorted(fleet.order) == TEN
    assert fleet.cluster.entries() == {}


def test_an_agent_asks_less_often_once_it_is_installed(fleet: Fleet) -> None:
    fleet.cluster.desired = 1000
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    asked, since = fleet.cluster.requests, time.monotonic()
    time.sleep(PACE * 600)
    most = (time.monotonic() - since) / (PACE * 30)  # every 30 s, and not every 20 s on average
    assert fleet.cluster.requests - asked <= most + 1


@pytest.mark.parametrize(("nodes", "seconds"), [(0, 2), (1, 2), (10, 5), (40, 20), (120, 60), (5000, 60)])
def test_the_more_nodes_there_are_the_less_often_each_looks(fleet: Fleet, nodes: int, seconds: float) -> None:
    fleet.cluster.desired, stop = nodes, Stop()
    agent = Agent(
        NEW, "a", fleet.cluster.client(), host=FakeHost(fleet, "a"), content=Path(), ready=fleet.folder / "ready"
    )
    assert agent._step(stop) == seconds


def test_no_more_are_worked_on_than_are_allowed(fleet: Fleet) -> None:
    fleet.seconds = 0.3
    fleet.start(make_plan(places=3), *TEN)
    wait_until(lambda: fleet.ready() == set(TEN))
    assert fleet.most == 3


def test_an_upgrade_goes_in_turns_and_a_rollback_too(fleet: Fleet) -> None:
    for plan in (OLD, NEW, OLD):
        fleet.start(plan, *TEN)
        wait_until(lambda plan=plan: fleet.installed(plan) == set(TEN) == fleet.ready())  # type: ignore[misc]
    assert fleet.most == 1
    assert len(fleet.order) == 30


def test_what_is_installed_is_not_installed_again(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.start(NEW, "a", "b")
        wait_until(lambda: fleet.ready() == {"a", "b"})
        fleet.stop_all()
    assert sorted(fleet.order) == ["a", "b"]


def test_a_node_that_fails_stops_the_others_which_say_why(fleet: Fleet) -> None:
    fleet.broken = {"node-0": "install.sh: exited with status 3"}
    fleet.start(NEW, "node-0")
    wait_until(lambda: fleet.cluster.entries().get("node-0", {}).get("state") == FAILED)
    fleet.start(NEW, *TEN[1:])
    said = "waiting: node-0 failed: install.sh: exited with status 3"
    wait_until(lambda: fleet.said.count(said) == 9)
    assert fleet.ready() == set()
    assert fleet.cluster.entries()["node-0"]["message"] == "install.sh: exited with status 3"
    assert set(fleet.order) == {"node-0"}


def test_what_has_stopped_the_rollout_fails_three_times_before_it_is_tried_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that whoever looks at pods calls it a failure soon, however long its scripts take."""
    monkeypatch.setattr("rukpak_hosts_turns._REPEAT_SECONDS", 600.0)  # 1.2 s
    fleet.broken = {"a": "install.sh: exited with status 3:\nno room"}
    fleet.start(NEW, "a")
    wait_until(lambda: len(fleet.ended) >= 3)
    assert fleet.order == ["a"]
    assert set(fleet.ended) == {fleet.broken["a"]}
    wait_until(lambda: fleet.order == ["a", "a"])
    fleet.broken = {}
    wait_until(lambda: fleet.ready() == {"a"})


def test_what_does_not_stop_the_rollout_is_tried_again_at_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rukpak_hosts_turns._REPEAT_SECONDS", 1e6)
    fleet.broken = {"a": "no"}
    fleet.start(make_plan(failures=2), "a")
    wait_until(lambda: fleet.order.count("a") >= 3)


def test_another_plan_is_tried_at_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rukpak_hosts_turns._REPEAT_SECONDS", 1e6)
    fleet.broken = {"a": "no"}
    fleet.start(OLD, "a")
    wait_until(lambda: len(fleet.ended) >= 2)
    fleet.broken = {}
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.ready() == {"a"})


AWAY = r"the API server cannot be used from here, so nobody gives it a turn: GET /apis/coordination.k8s.io/"


def test_an_agent_that_is_cut_off_says_so_as_it_ends(fleet: Fleet) -> None:
    fleet.cluster.is_away = True
    fleet.start(NEW, "a")
    wait_until(lambda: len(fleet.ended) >= 2)
    assert all(text.startswith(AWAY) and "503 Service Unavailable" in text for text in fleet.ended)
    assert len(set(fleet.ended)) == 1
    fleet.cluster.is_away = False
    wait_until(lambda: fleet.ready() == {"a"})


def test_an_agent_that_has_installed_it_goes_on_without_the_api_server(fleet: Fleet) -> None:
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    fleet.cluster.is_away = True
    time.sleep(PACE * 60 * 4)
    assert (fleet.ready(), fleet.ended) == ({"a"}, [])


def test_a_failure_is_told_also_without_the_api_server(fleet: Fleet) -> None:
    def cut_off() -> None:
        fleet.cluster.is_away = True

    fleet.broken, fleet.on_work = {"a": "no disk"}, cut_off
    fleet.start(NEW, "a")
    wait_until(lambda: bool(fleet.ended))
    assert fleet.ended[0] == "no disk"


def test_another_plan_goes_on_after_a_failure(fleet: Fleet) -> None:
    fleet.broken = {"a": "no"}
    fleet.start(OLD, "a", "b")
    wait_until(lambda: fleet.cluster.entries().get("a", {}).get("state") == FAILED)
    fleet.broken = {}
    fleet.start(NEW, "a", "b")
    wait_until(lambda: fleet.installed(NEW) == {"a", "b"} == fleet.ready())


def test_a_node_that_recovers_lets_the_others_go_on(fleet: Fleet) -> None:
    fleet.broken = {"a": "no"}
    fleet.start(NEW, "a")
    wait_until(lambda: "a" in fleet.cluster.entries())
    fleet.start(NEW, "b")
    fleet.broken = {}
    wait_until(lambda: fleet.ready() == {"a", "b"})
    assert fleet.cluster.entries() == {}


def test_a_node_that_tries_again_takes_a_place(fleet: Fleet) -> None:
    fleet.broken, fleet.seconds = {"a": "no"}, 0.2
    fleet.start(make_plan(failures=2), "a")
    wait_until(lambda: fleet.cluster.entries().get("a", {}).get("state") == FAILED)
    fleet.start(make_plan(failures=2), *TEN[:3])
    wait_until(lambda: fleet.ready() == set(TEN[:3]) and fleet.order.count("a") >= 2)
    assert fleet.most == 1


def test_a_node_that_joins_later_gets_it(fleet: Fleet) -> None:
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    fleet.start(NEW, "b")
    wait_until(lambda: fleet.ready() == {"a", "b"})


@pytest.mark.parametrize("state", [INSTALLING, FAILED])
def test_a_node_that_is_gone_blocks_nothing(fleet: Fleet, state: str) -> None:
    lease = fleet.cluster.client().read()
    write(fleet, lease, {"gone": entry(state)})
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    assert fleet.cluster.entries() == {}


def test_a_node_that_does_not_answer_blocks_the_others(fleet: Fleet) -> None:
    fleet.cluster.nodes.add("silent")
    write(fleet, fleet.cluster.client().read(), {"silent": entry(INSTALLING)})
    fleet.start(NEW, "a")
    wait_until(lambda: "waiting: silent is being worked on" in fleet.said)
    time.sleep(PACE * 60 * 3)  # for longer than a node may be without a pod
    assert fleet.ready() == set()
    assert set(fleet.cluster.entries()) == {"silent"}


def write(fleet: Fleet, lease: Mapping[str, Any], entries: Mapping[str, Entry]) -> None:
    fleet.cluster.client().write(lease, **{"hosts.rukpak.io/nodes": json.dumps(entries)})


def test_an_api_server_that_goes_away_delays_all_and_spoils_nothing(fleet: Fleet) -> None:
    fleet.start(NEW, *TEN)
    wait_until(lambda: len(fleet.ready()) >= 2)
    fleet.cluster.is_away = True
    time.sleep(0.1)
    fleet.cluster.is_away = False
    wait_until(lambda: fleet.ready() == set(TEN))
    assert fleet.most == 1


def test_a_reboot_keeps_the_place(fleet: Fleet) -> None:
    fleet.reboots = True
    fleet.start(make_plan(reboot=True), *TEN)
    wait_until(lambda: fleet.ready() == set(TEN))
    assert fleet.most == 1
    assert fleet.order[::2] == fleet.order[1::2]  # installed and rebooted, before another


def test_a_reboot_that_is_not_allowed_is_a_failure(fleet: Fleet) -> None:
    fleet.reboots = True
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.cluster.entries().get("a", {}).get("state") == FAILED)
    assert fleet.cluster.entries()["a"]["message"].startswith("it needs a reboot, which spec.config.allowReboot")
    assert fleet.order == ["a"]


# drain


DRAIN: dict[str, Any] = make_plan()
DRAIN["install"]["owner"] = "hosts/tool"
DRAIN["turns"]["drain"] = {"timeoutSeconds": 600, "force": False}


def pod(name: str, *, owner: str = "ReplicaSet", phase: str = "Running", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "annotations": annotations}
    owners = {"ownerReferences": [{"kind": owner}]} if owner else {}
    return {"metadata": {**metadata, **owners}, "status": {"phase": phase}}


def add_pods(fleet: Fleet, *pods: dict[str, Any]) -> None:
    fleet.cluster.pods = {each["metadata"]["name"]: each for each in pods}


def is_cordoned(fleet: Fleet) -> bool:
    return "unschedulable" in fleet.cluster.node["spec"]


def test_pods_are_evicted_before_and_may_come_back_afterwards(fleet: Fleet) -> None:
    mirror = {"kubernetes.io/config.mirror": "1"}
    stays = [pod("proxy", owner="DaemonSet"), pod("done", phase="Succeeded"), pod("apiserver", owner="Node", **mirror)]
    add_pods(fleet, pod("web"), *stays)
    fleet.start(DRAIN, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    assert set(fleet.cluster.pods) == {"proxy", "done", "apiserver"}
    assert fleet.cluster.node == {"metadata": {"name": "a", "annotations": {}}, "spec": {}}


def test_nothing_is_done_while_a_disruption_budget_protects_a_pod(fleet: Fleet) -> None:
    add_pods(fleet, pod("web"))
    fleet.cluster.protected = {"web"}
    fleet.start(DRAIN, "a")
    wait_until(lambda: is_cordoned(fleet))
    time.sleep(PACE * 100)
    assert fleet.order == []
    fleet.cluster.protected = set()
    wait_until(lambda: fleet.ready() == {"a"})
    assert not is_cordoned(fleet)


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ("ReplicaSet", "drain: the disruption budget of pod shop/web does not allow to evict it; correct that, or"),
        ("", "drain: pod shop/web has no controller that would replace it, and spec.config.drain.force is not set"),
    ],
)
def test_a_drain_that_fails_leaves_the_node_as_it_was(fleet: Fleet, owner: str, message: str) -> None:
    add_pods(fleet, pod("web", owner=owner))
    fleet.cluster.protected = {"web"}
    turns = {**DRAIN["turns"], "drain": {"timeoutSeconds": 30, "force": False}}
    fleet.start({**DRAIN, "turns": turns}, "a")
    wait_until(lambda: fleet.cluster.entries().get("a", {}).get("state") == FAILED)
    fleet.stop_all()
    assert fleet.cluster.entries()["a"]["message"].startswith(message)
    assert fleet.order == []


def test_a_drain_that_is_given_up_leaves_the_node_as_it_was(fleet: Fleet) -> None:
    add_pods(fleet, pod("web"))
    fleet.cluster.protected = {"web"}
    fleet.start(DRAIN, "a")
    wait_until(lambda: "draining" in fleet.said)
    assert is_cordoned(fleet)
    fleet.stop("a")
    assert not is_cordoned(fleet)


def test_a_node_that_others_have_cordoned_stays_so(fleet: Fleet) -> None:
    fleet.cluster.node["spec"]["unschedulable"] = True
    fleet.start(DRAIN, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    assert is_cordoned(fleet)


def test_a_node_stays_cordoned_until_what_was_installed_works(fleet: Fleet) -> None:
    fleet.broken = {"a": "no"}
    fleet.start(DRAIN, "a")
    wait_until(lambda: fleet.cluster.entries().get("a", {}).get("state") == FAILED)
    assert fleet.cluster.node["metadata"]["annotations"] == {"hosts.rukpak.io/cordoned-for": "hosts/tool"}
    assert is_cordoned(fleet)
    fleet.broken = {}
    wait_until(lambda: fleet.ready() == {"a"})
    assert not is_cordoned(fleet)


def test_a_pod_without_a_controller_is_evicted_by_force(fleet: Fleet) -> None:
    add_pods(fleet, pod("web", owner=""))
    fleet.start({**DRAIN, "turns": {**DRAIN["turns"], "drain": {"timeoutSeconds": 600, "force": True}}}, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    assert fleet.cluster.pods == {}


# removal


def remove(fleet: Fleet, pace: float = 1.0) -> None:
    remove_everywhere(NEW, fleet.cluster.client(), Stop(), pace=pace)


def test_all_nodes_remove_it_in_turns(fleet: Fleet) -> None:
    fleet.start(NEW, *TEN)
    wait_until(lambda: fleet.ready() == set(TEN))
    remove(fleet, pace=0.02)
    assert fleet.installed(NEW) == fleet.ready() == set()
    assert fleet.most == 1


def test_the_job_names_the_nodes_that_still_have_it(fleet: Fleet) -> None:
    fleet.start(NEW, "a", "b")
    wait_until(lambda: fleet.ready() == {"a", "b"})
    fleet.broken, fleet.cluster.nodes = {"b": "uninstall.sh: exited with status 1"}, {"a", "b", "silent"}
    with pytest.raises(HostError) as caught:
        remove(fleet, pace=0.001)
    assert "2 of 3 nodes still have it" in str(caught.value)
    assert "b (uninstall.sh: exited with status 1), silent (its agent does not answer)" in str(caught.value)


def test_a_node_that_is_gone_is_not_waited_for(fleet: Fleet) -> None:
    remove(fleet, pace=0.001)
    assert fleet.cluster.annotations() == {REMOVE: "true"}


def test_a_node_whose_pod_is_being_replaced_is_waited_for(fleet: Fleet) -> None:
    fleet.start(NEW, "a")
    wait_until(lambda: fleet.ready() == {"a"})
    fleet.stop("a")
    fleet.cluster.nodes.clear()
    fleet.cluster.desired = 1
    replaced = threading.Timer(0.3, fleet.start, (NEW, "a"))
    replaced.start()
    remove(fleet, pace=0.02)  # 1.2 s in place of 60 s
    replaced.join()
    assert fleet.installed(NEW) == set()


def test_one_node_is_rid_of_it_within_seconds(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_: Stop, seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > 20

    waited: list[float] = []
    monkeypatch.setattr(Stop, "wait", wait)
    fleet.cluster.nodes.add("a")
    write(fleet, fleet.cluster.client().read(), {"a": entry(REMOVED)})
    remove(fleet)
    assert waited == []


def test_nobody_knows_whether_all_have_a_pod_without_the_daemon_set(fleet: Fleet) -> None:
    fleet.cluster.desired = -1
    begun = time.monotonic()
    remove(fleet, pace=0.01)
    assert time.monotonic() - begun >= 0.6  # 60 s


def test_the_job_fails_with_what_the_api_server_says(fleet: Fleet) -> None:
    fleet.cluster.is_away = True
    with pytest.raises(HostError, match=r"^the API server cannot be used: GET /apis/.*/leases/tool: 503 "):
        remove(fleet, pace=0.0001)
