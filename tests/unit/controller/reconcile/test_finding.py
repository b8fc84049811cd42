from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple, cast

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.observe.following import Topic
from rukpak.controller.reconcile import stored
from rukpak.controller.reconcile.context import Context, Services
from rukpak.controller.reconcile.finding import QUEUED, RESOLVING, Wanted, find_wanted, poll_sources
from rukpak.controller.reconcile.memory import Memory
from rukpak.controller.revisions import store as revisions
from tests.support.deployments import deployment, make_store
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, PATH, World

UNREACHABLE = BundleError(Reason.UNREACHABLE, "spec.sources[0]: no answer")
OLDEST, OLDER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def config_map(value: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": value}}


class Search(World):
    """A finder, and what it remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.known = Memory(uid="uid-shop", retries=self.make_retries())
        for tag in ("v1", "v2"):
            self.shelf.put(tag, config_map(tag))

    def find(self) -> Wanted:
        """Find the wanted revision, and have in status what a pass writes of it."""
        found = find_wanted(self.context(self.known))
        if found.sources:
            pins = [pin.model_dump(mode="json", by_alias=True) for pin in found.sources]
            self.status(sources=pins, lastHandledReconcileAt=self.context(self.known).requested_at)
        return found

    def status(self, **fields: Any) -> None:
        """Have something in status."""
        self.cluster.patch(PATH, {"status": fields})

    def install(self, tag: str) -> str:
        """Have the revision of a tag installed; returns its digest."""
        self.wish(tag)
        found = self.find()
        assert found.revision is not None
        memory = "v1:sha256:" + "c" * 64
        digest = found.revision.digest
        self.status(revision=digest, installedRevision=digest, managedState=memory)
        self.known.stored.unapplied.discard(digest)
        self.known.rest()
        self.shelf.calls.clear()
        self.cluster.taken()
        return digest

    def keep(self, digest: str) -> None:
        """Have another revision in the store."""
        terms = Terms(inputs="", install_namespace="shop")
        self.revisions.write(NAME, Revision(digest=digest, objects=(), terms=terms), self.known.uid)

    @property
    def revisions(self) -> revisions.RevisionStore:
        return make_store(self.cluster.client, names.DEFAULT_NAMESPACE)


@pytest.fixture
def search() -> Iterator[Search]:
    made = Search()
    yield made
    made.applier.stop()


def test_what_is_new_is_resolved_and_made_and_the_revision_is_kept(search: Search) -> None:
    search.wish("v1")
    found = search.find()
    assert found.current
    assert found.revision is not None
    assert search.requests() == ["APPLY revision"]
    assert search.shelf.calls == ["resolve v1", "build v1"]
    assert search.revisions.read(NAME, found.revision.digest) == found.revision


def test_the_content_of_a_first_install_is_fetched_as_soon_as_it_is_known(search: Search) -> None:
    search.wish("v1")
    search.find()
    assert search.background.begun == search.background.taken[1:] != []


def test_that_of_an_upgrade_is_not_since_it_may_be_at_hand(search: Search) -> None:
    search.install("v1")
    search.background.begun.clear()
    search.wish("v2")
    search.find()
    assert search.shelf.calls == ["resolve v2", "build v2"]
    assert search.background.begun == []


def test_what_was_resolved_is_not_asked_for_again_before_status_has_it(search: Search) -> None:
    search.wish("v1")
    first, second = (find_wanted(search.context(search.known)) for _ in range(2))
    assert first.sources == second.sources
    assert search.shelf.calls == ["resolve v1", "build v1"]


def test_the_validators_of_what_was_resolved_are_not_lost_before_status_has_them(search: Search) -> None:
    search.wish("v1")
    first = find_wanted(search.context(search.known))
    assert first.revision
    search.known.stored.kept = (first.revision.digest,)  # as a pass leaves it
    assert search.known.sources.resolved
    version, found = search.known.sources.resolved
    pins = tuple(pin.model_copy(update={"validator": '"1"'}) for pin in found)
    search.known.sources.resolved = (version, pins)
    assert find_wanted(search.context(search.known)).sources == pins


def test_what_waits_for_its_turn_is_said_to_wait_and_not_to_be_fetched(search: Search) -> None:
    search.wish("v1")
    search.background.full = True
    assert search.find().fetching == QUEUED
    search.background.full, search.background.busy = False, True
    assert search.find().fetching == RESOLVING


def test_what_sources_fail_for_is_looked_at_when_they_have_been_asked(search: Search) -> None:
    search.wish("v1")
    search.background.busy = True
    for _ in range(2):
        search.reconcile()
    assert Topic.SOURCES not in search.follower.topics()
    search.background.busy = False
    search.reconcile()
    assert Topic.SOURCES in search.follower.topics()


def test_what_is_installed_is_read_and_not_made(search: Search) -> None:
    digest = search.install("v1")
    found = search.find()
    assert (found.current, found.revision and found.revision.digest) == (True, digest)
    assert search.requests() == ["GET revision"]
    search.find()
    assert search.requests() == []
    assert search.shelf.calls == []


def test_what_was_made_for_a_spec_that_was_given_up_is_not_made_again(search: Search) -> None:
    digest = search.install("v1")
    search.wish("v2")
    search.find()
    search.wish("v1")
    found = search.find()
    assert (found.current, found.revision and found.revision.digest) == (True, digest)
    assert search.shelf.calls == ["resolve v2", "build v2", "resolve v1"]


def test_what_the_spec_says_about_the_same_objects_is_kept_with_them(search: Search) -> None:
    digest = search.install("v1")
    report = {"mode": "Report", "ignore": []}
    search.wish("v1", serviceAccountName="deployer", optional=[{"group": "g", "kind": "K"}], drift=report)
    found = search.find()
    # Whether it is still needed, and what the namespace keeps.
    assert search.requests() == ["GET revision", "GET BundleDeployment", "LIST revision", "APPLY revision"]
    assert found.revision is not None
    assert found.revision.digest == digest
    assert found.revision == search.revisions.read(NAME, digest)
    terms = found.revision.terms
    assert (terms.service_account_name, terms.drift) == ("deployer", report)
    assert terms.optional == ({"group": "g", "kind": "K"},)


def test_what_is_kept_with_the_same_objects_is_written_once(search: Search) -> None:
    search.install("v1")
    search.wish("v1", serviceAccountName="deployer")
    search.find()
    search.cluster.taken()
    search.find()
    search.known.rest()
    search.find()
    assert search.requests() == ["GET revision"]


def test_what_goes_on_is_said_and_what_is_installed_is_worked_on_meanwhile(search: Search) -> None:
    digest = search.install("v1")
    search.wish("v2")
    search.background.busy = True
    found = search.find()
    assert (found.current, found.revision and found.revision.digest) == (False, digest)
    assert found.fetching.startswith("resolving the sources")


def test_what_has_its_pins_is_fetched(search: Search) -> None:
    search.wish("v1")
    search.find()
    search.wish("v1", installNamespace="elsewhere")
    search.known.rest()
    search.background.busy = True
    assert search.find().fetching.startswith("fetching and rendering the content")


def test_before_anything_is_installed_there_is_nothing_to_work_on(search: Search) -> None:
    search.wish("v1")
    search.background.busy = True
    assert search.find().revision is None


class Good(NamedTuple):
    name: str
    status: dict[str, Any]
    expect: str
    """Tag of the revision that is worked on."""


INSTALLED = {"managedState": "v1:sha256:" + "c" * 64}
BEGUN = {"managedState": "", "managedKinds": ["v1/ConfigMap"]}
GOOD = [
    Good("what is installed", INSTALLED, "v1"),
    Good("what has been begun: from its first write on it is the target", BEGUN, "v2"),
    Good("what was only prepared has not been begun", {"managedState": "", "managedKinds": []}, "v1"),
]


@pytest.mark.parametrize("case", GOOD, ids=attrgetter("name"))
def test_what_is_worked_on_while_the_wanted_one_cannot_be_had(case: Good, search: Search) -> None:
    digests = {tag: search.install(tag) for tag in ("v2", "v1")}
    search.status(revision=digests["v2"], **case.status)
    search.wish("missing")
    found = search.find()
    assert found.failure is not None
    assert found.failure.reason is Reason.NOT_FOUND
    assert found.revision is not None
    assert found.revision.digest == digests[case.expect]


# failures


def fail(search: Search, tag: str = "v1") -> None:
    """Let making the content of a tag fail."""
    search.shelf.contents[search.shelf.tags[tag]] = UNREACHABLE


def test_a_failure_holds_until_its_time_and_waits_longer_each_time(search: Search) -> None:
    fail(search)
    search.wish("v1")
    tried = []
    for second in range(16):
        search.seconds = float(second)
        assert search.find().failure is not None
        tried.append(search.shelf.calls.count("build v1"))
    assert [second for second in range(1, 16) if tried[second] > tried[second - 1]] == [1, 3, 7, 15]


def test_a_failed_resolution_is_not_retried_too_soon(search: Search) -> None:
    search.wish("missing")
    for _ in range(3):
        search.find()
    assert search.shelf.calls == ["resolve missing"]


def test_another_spec_is_tried_at_once(search: Search) -> None:
    fail(search)
    search.wish("v1")
    search.find()
    search.wish("v1", prune="Never")
    search.find()
    assert search.shelf.calls.count("build v1") == 2


def test_a_failed_build_is_retried_immediately_on_request(search: Search) -> None:
    fail(search)
    search.wish("v1")
    search.find()
    search.ask("now")
    search.find()
    assert search.shelf.calls == ["resolve v1", "build v1"] * 2


def test_while_it_is_tried_again_the_failure_stays(search: Search) -> None:
    fail(search)
    search.wish("v1")
    search.find()
    search.seconds += 2
    search.background.busy = True
    found = search.find()
    assert found.failure is not None
    assert found.failure.message == UNREACHABLE.message
    assert not found.fetching


def test_success_forgets_the_failure(search: Search) -> None:
    fail(search)
    search.wish("v1")
    search.find()
    search.shelf.put("v1", config_map("v1"))
    search.seconds += 2
    assert search.find().current
    assert search.known.retries.seconds_to_next() is None


def test_a_spec_that_cannot_be_served_asks_nobody(search: Search) -> None:
    search.wish("v1", format="example.com/unknown")
    found = search.find()
    assert found.failure is not None
    assert found.failure.reason is Reason.UNKNOWN_FORMAT
    assert not search.shelf.calls


def test_a_revision_that_is_too_large_to_keep_is_not_used(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "MAX_BYTES", 10)
    search.wish("v1")
    for _ in range(2):
        found = search.find()
        assert found.failure is not None
        assert found.failure.reason is Reason.TOO_LARGE
        assert found.revision is None
    assert search.shelf.calls == ["resolve v1", "build v1"]
    assert "APPLY revision" not in search.requests()


# what is learnt on the way


def test_how_far_it_is_is_said_once_it_is_known(search: Search) -> None:
    search.wish("v1")
    search.background.busy = True
    search.find()
    search.known.sources.progress.text = "spec.sources[0]: 5 of 10 MiB"
    assert search.find().fetching == "resolving the sources (spec.sources[0]: 5 of 10 MiB)"
    search.wish("v2")
    assert search.find().fetching == "resolving the sources"


def test_a_spec_that_cannot_be_served_ends_what_goes_on(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[str] = []
    monkeypatch.setattr(search.background, "cancel", lambda _name, *purposes: cancelled.extend(purposes))
    search.wish("v1")
    search.background.busy = True
    search.find()
    search.wish("v1", format="example.com/unknown")
    search.find()
    assert cancelled == ["resolve", "build"]


class Polls(NamedTuple):
    name: str
    spec: dict[str, Any]
    annotation: str | None
    expect: bool


FLOATING = {"sources": [{"kind": "image", "pollInterval": "30s", "image": {"ref": "v1"}}]}
POLLS = [
    Polls("with an interval it is polled", FLOATING, None, True),
    Polls("without one it is not", {}, None, False),
    Polls("nor while somebody asks for a new resolution", FLOATING, "now", False),
    Polls("nor while the spec cannot be served", {**FLOATING, "format": "example.com/unknown"}, None, False),
    Polls("nor while it is paused", {**FLOATING, "paused": True}, None, False),
]


@pytest.mark.parametrize("case", POLLS, ids=attrgetter("name"))
def test_when_a_source_is_polled(case: Polls, search: Search) -> None:
    search.install("v1")
    search.shelf.put("v1", config_map("moved"))
    search.seconds = 60.0
    search.wish("v1", **case.spec)
    search.ask(case.annotation)
    polled = poll_sources(search.context(search.known))
    assert search.shelf.calls == (["resolve v1"] if case.expect else [])
    assert (polled.status.sources[0].digest == search.shelf.tags["v1"]) is case.expect


# the revision before


class Before(NamedTuple):
    name: str
    installed: str
    managed_state: str
    expect: str


WANTED = "sha256:" + "9" * 64
STATE = "v1:sha256:" + "c" * 64
BEFORES = [
    Before("while another is wanted it is the installed one", OLDER, STATE, OLDER),
    Before("also once the wanted one has been begun", OLDER, "", OLDER),
    Before("when nothing is left to do there is none", WANTED, STATE, ""),
    Before("while its objects wait for their prune it is the newest other one", WANTED, "", OLDER),
    Before("nothing was installed", "", "", ""),
]


@pytest.mark.parametrize("case", BEFORES, ids=attrgetter("name"))
def test_whose_objects_may_be_left_beside_the_wanted_ones(case: Before, search: Search) -> None:
    search.wish("v1")
    for digest in (OLDEST, OLDER, WANTED):
        search.keep(digest)
    search.status(installedRevision=case.installed, managedState=case.managed_state)
    search.cluster.taken()
    stored.revision_before(search.context(search.known), WANTED)
    asked = [request.rpartition("/")[2] for request in search.cluster.taken() if request.startswith("GET ")]
    assert asked == ([f"revision.{NAME}.{case.expect[7:23]}.0"] if case.expect else [])


def test_it_is_known_without_a_request(search: Search) -> None:
    search.wish("v1")
    search.status(installedRevision=WANTED)
    for _ in range(3):
        stored.revision_before(search.context(search.known), WANTED)
    assert search.requests() == []


# the annotation


class Asked(NamedTuple):
    name: str
    annotation: str | None
    handled: str
    expect: str


ASKED = [
    Asked("nobody asks", None, "", ""),
    Asked("somebody asks", "now", "", "now"),
    Asked("somebody asks again", "now", "before", "now"),
    Asked("to take it off asks for nothing", None, "before", "before"),
    Asked("nor does to empty it", "", "before", "before"),
]


@pytest.mark.parametrize("case", ASKED, ids=attrgetter("name"))
def test_what_is_asked_for(case: Asked) -> None:
    annotations = {} if case.annotation is None else {names.RECONCILE_REQUESTED_AT: case.annotation}
    seen = deployment(metadata={"annotations": annotations}, status={"lastHandledReconcileAt": case.handled})
    services = cast("Services", None)
    assert Context(deployment=seen, memory=Memory(uid=""), services=services).requested_at == case.expect
