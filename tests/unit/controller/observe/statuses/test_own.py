from __future__ import annotations

import copy
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.types import Status
from rukpak.controller.observe.statuses import OwnStatuses, writers_of
from tests.support.deployments import DIGEST, manifest

Json = dict[str, Any]
OTHER = "sha256:" + "b" * 64
LEFT = {"revision": DIGEST, "installedRevision": DIGEST, "managedKinds": ["v1/ConfigMap"]}


def fields(status: Json) -> Json:
    """Return a status as fieldsV1 has it."""
    return {
        f"f:{key}": {f'v:"{each}"': {} for each in value} if isinstance(value, list) else {}
        for key, value in status.items()
    }


class Server:
    """One BundleDeployment, as an API server keeps its status and managedFields."""

    def __init__(self, **status: Any) -> None:
        self.value = manifest()
        self.time = 1
        self.write(names.STATUS_MANAGER, status)

    def write(self, manager: str, status: Json) -> None:
        """Replace the status; what the writer changes is its own, and what it removes is no one's."""
        before, entries = self.value["status"], self.value["metadata"].setdefault("managedFields", [])
        ours = next((each for each in entries if each["manager"] == manager), None)
        if ours is None:
            ours = {"manager": manager, "operation": "Update", "time": "", "fieldsV1": {"f:status": {}}}
            entries.append(ours)
        for key in {*before, *status}:
            if before.get(key) == status.get(key):
                continue
            for each in entries:
                each["fieldsV1"]["f:status"].pop(f"f:{key}", None)
            if key in status:
                ours["fieldsV1"]["f:status"] |= fields({key: status[key]})
                ours["time"] = str(self.time)
        self.value["metadata"]["managedFields"] = [each for each in entries if each["fieldsV1"]["f:status"]]
        self.value["status"] = copy.deepcopy(status)


class Process:
    """A controller that knows nothing of a status but what a watch shows."""

    def __init__(self, server: Server) -> None:
        self.server, self.statuses = server, OwnStatuses()
        self.see()

    def see(self) -> Status:
        """Return what a pass continues with."""
        return self.statuses.restore(read(self.server.value), writers_of(self.server.value)).status

    def is_foreign(self) -> bool:
        return self.statuses.is_foreign(read(self.server.value), writers_of(self.server.value))

    def write(self, status: Json) -> None:
        self.statuses.send(read(self.server.value), Status.model_validate(status))
        self.server.write(names.STATUS_MANAGER, status)
        self.statuses.keep(read(self.server.value), writers_of(self.server.value))


class Change(NamedTuple):
    name: str
    manager: str
    status: Json
    is_believed: bool
    later: bool = True
    """Whether it is written in another second than what is known."""


OURS, PERSON = names.STATUS_MANAGER, "kubectl-edit"
CHANGES = [
    Change("another process writes another revision", OURS, {**LEFT, "revision": OTHER}, is_believed=True),
    Change("it writes so in the same second", OURS, {**LEFT, "revision": OTHER}, is_believed=True, later=False),
    Change("it adds a field in the same second", OURS, {**LEFT, "warnings": ["a"]}, is_believed=True, later=False),
    Change("it changes one field and removes another", OURS, {"revision": OTHER}, is_believed=True),
    Change("it writes what no controller writes", OURS, {**LEFT, "revision": "x"}, is_believed=False),
    Change("it writes what cannot be read", OURS, {**LEFT, "managedKinds": 3}, is_believed=False),
    Change("a person edits a field", PERSON, {**LEFT, "revision": OTHER}, is_believed=False),
    Change("a person edits an item of a list", PERSON, {**LEFT, "managedKinds": ["v1/Secret"]}, is_believed=False),
    Change("a person adds a field", PERSON, {**LEFT, "warnings": ["a"]}, is_believed=False),
    Change("a person removes a field", PERSON, {"revision": DIGEST, "installedRevision": DIGEST}, is_believed=False),
    Change("a person wipes it", PERSON, {}, is_believed=False),
    Change("a person replaces it", PERSON, {"revision": OTHER}, is_believed=False),
]  # fmt: skip


@pytest.mark.parametrize("case", CHANGES, ids=attrgetter("name"))
def test_which_status_is_believed_while_a_process_runs(case: Change) -> None:
    server = Server(**LEFT)
    process = Process(server)
    server.time += case.later
    server.write(case.manager, case.status)
    assert process.is_foreign() is not case.is_believed
    assert process.see() == Status.model_validate(case.status if case.is_believed else LEFT)


@pytest.mark.parametrize("case", [each for each in CHANGES if each.manager == PERSON], ids=attrgetter("name"))
def test_what_another_process_has_repaired_is_believed(case: Change) -> None:
    server = Server(**LEFT)
    process = Process(server)
    server.write(PERSON, case.status)
    assert process.is_foreign()
    server.time += 1
    server.write(OURS, {**LEFT, "warnings": ["repaired"]})
    assert not process.is_foreign()
    assert process.see().warnings == ("repaired",)


@pytest.mark.parametrize("case", CHANGES, ids=attrgetter("name"))
def test_which_status_a_process_starts_with(case: Change) -> None:
    """It believes all that can be used: whether another client has changed it cannot be known."""
    server = Server(**LEFT)
    server.write(case.manager, case.status)
    seen = Process(server).see()
    usable = {key: value for key, value in case.status.items() if value not in ("x", 3)}
    assert seen == Status.model_validate(usable)


class Dispute(NamedTuple):
    name: str
    first: Json
    second: Json


DISPUTES = [
    Dispute("about a value", LEFT, {**LEFT, "revision": OTHER}),
    Dispute("about a field that one of them does not write", LEFT, {**LEFT, "warnings": ["a"]}),
    Dispute("about several fields", {"revision": DIGEST, "warnings": ["a"]}, {"managedKinds": ["a/A"]}),
    Dispute("about everything", LEFT, {}),
]  # fmt: skip


@pytest.mark.parametrize("writes_in_a_second", [1, 2, 5])
@pytest.mark.parametrize("case", DISPUTES, ids=attrgetter("name"))
def test_two_processes_that_disagree_do_not_rewrite_each_other_for_ever(case: Dispute, writes_in_a_second: int) -> None:
    server = Server(**LEFT)
    first, second = Process(server), Process(server)
    opinions = [(first, case.first), (second, case.second)]
    for process, opinion in opinions:
        server.time += 1
        process.write(opinion)
    writes = count(1)
    while foreign := [pair for pair in opinions if pair[0].is_foreign()]:
        process, opinion = foreign[0]
        process.write(opinion)
        number = next(writes)
        server.time += number % writes_in_a_second == 0
        assert number < 2 * writes_in_a_second + 2
    assert first.see() == second.see()


def test_its_own_status_is_not_foreign_before_the_reply() -> None:
    server = Server(**LEFT)
    process = Process(server)
    sent = {"revision": DIGEST}
    process.statuses.send(read(server.value), Status.model_validate(sent))
    server.write(OURS, sent)  # only removes fields, so that the time of our entry is the same
    assert not process.is_foreign()
    assert process.see() == Status.model_validate(sent)


def test_a_status_that_was_not_written_after_all_is_the_one_before() -> None:
    server = Server(**LEFT)
    process = Process(server)
    process.statuses.send(read(server.value), Status(revision=OTHER))
    assert not process.is_foreign()
    assert process.see() == Status.model_validate(LEFT)


@pytest.mark.parametrize(
    ("metadata", "is_believed"),
    [({}, False), ({"uid": "another"}, True), ({"generation": 0}, True), ({"generation": 2}, False)],
    ids=["the same", "a recreated one", "one that went back with its cluster", "a changed spec"],
)
def test_of_which_bundle_deployment_a_wiped_status_is_believed(metadata: Json, *, is_believed: bool) -> None:
    server = Server(**LEFT)
    process = Process(server)
    server.write(PERSON, {})
    server.value["metadata"] |= metadata
    assert process.see() == Status.model_validate({} if is_believed else LEFT)


@pytest.mark.parametrize("forget", [lambda known: known.drop("shop"), lambda known: known.clear()], ids=["one", "all"])
def test_what_is_forgotten_is_found_out_again(forget: Any) -> None:
    server = Server(**LEFT)
    process = Process(server)
    forget(process.statuses)
    server.write(PERSON, {"revision": OTHER})
    assert not process.is_foreign()
    assert process.see() == Status(revision=OTHER)


MOVES = [
    Change("another shard lets it go in the same second", OURS, {**LEFT, "relabeling": True},
           is_believed=True, later=False),
    Change("another shard takes it in the same second", OURS, {**LEFT, "shard": "b", "relabeling": True},
           is_believed=True, later=False),
    Change("it is let go in another second", OURS, {**LEFT, "relabeling": True}, is_believed=True),
    Change("a person removes the shard", PERSON, LEFT, is_believed=False, later=False),
    Change("a person moves it", PERSON, {**LEFT, "relabeling": True}, is_believed=False, later=False),
    Change("a person wipes it", PERSON, {}, is_believed=False, later=False),
]  # fmt: skip


@pytest.mark.parametrize("case", MOVES, ids=attrgetter("name"))
def test_which_move_to_another_shard_is_believed(case: Change) -> None:
    held = {**LEFT, "shard": "a", "warnings": ["of the earlier shard"]}
    server = Server(**held)
    process = Process(server)
    server.time += case.later
    server.write(case.manager, case.status)
    assert process.see() == Status.model_validate(case.status if case.is_believed else held)
