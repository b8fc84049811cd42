"""A revision that waits for approval: what is written meanwhile, and what ends the wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.status import Pending
from tests.support.fake_cluster import DEFINITIONS, Json, KilledError
from tests.support.reconciling import NAME, PATH, World

A, B, OLD = (f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("a", "b", "old"))
READY = {"Unpacked": "True Unpacked", "Installed": "True Installed", "Healthy": "True Healthy", "Ready": "True Ready"}
NOTHING = {
    "Unpacked": "True Unpacked",
    "Installed": "False AwaitingApproval",
    "Healthy": "Unknown NotInstalled",
    "Ready": "False AwaitingApproval",
    "Reconciling": "True AwaitingApproval",
}
WAITS = {**NOTHING, "Healthy": "True Healthy"}
DENIED = {**READY, "Installed": "False Denied", "Ready": "False Denied"}


def config_map(name: str, value: str = "1", **annotations: str) -> Json:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}}


def make_world() -> World:
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v1", config_map("a"), config_map("old"))
    made.shelf.put("v2", config_map("a", "2"), config_map("b"))
    made.shelf.put("v3", config_map("a", "3"))
    return made


@contextmanager
def running_world() -> Iterator[World]:
    made = make_world()
    try:
        yield made
    finally:
        made.applier.stop()


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster without a bundle, and three versions of one."""
    with running_world() as made:
        yield made


def revision_of(world: World, tag: str) -> str:
    """Return the digest of the revision that a tag leads to, as another world with the same content computes it."""
    other = World()
    other.shelf = world.shelf
    other.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    other.restart()
    calls = len(world.shelf.calls)
    try:
        other.wish(tag, approval="Manual")
        other.settle()
        return pending(other).revision
    finally:
        other.applier.stop()
        del world.shelf.calls[calls:]


def status(world: World) -> Json:
    found: Json = world.cluster.objects[PATH]["status"]
    return found


def pending(world: World) -> Pending:
    found = world.deployment.status.pending
    assert found
    return found


def stored(world: World) -> list[str]:
    """Return the digests in the revision store."""
    return sorted(world.revision_store.digests(NAME))


def spec(world: World, **fields: Any) -> None:
    """Change fields of the spec; None removes one."""
    known = world.cluster.objects[PATH]
    found = {key: value for key, value in {**known["spec"], **fields}.items() if value is not None}
    metadata = {**known["metadata"], "generation": known["metadata"]["generation"] + 1}
    world.cluster.put({**known, "metadata": metadata, "spec": found})


def wish(world: World, tag: str) -> None:
    """Have the spec name another tag."""
    spec(world, sources=[{"kind": "image", "image": {"ref": tag}}])


def install(world: World, tag: str = "v1", **fields: Any) -> str:
    """Install a version with approval, and return its revision."""
    world.wish(tag, approval="Manual", **fields)
    world.settle()
    approved = pending(world).revision
    spec(world, approvedRevision=approved)
    world.settle()
    assert world.conditions == READY
    return approved


def writes(world: World, act: Callable[[], None]) -> list[str]:
    """Return what is written while something happens, except status, finalizer and store."""
    world.requests()
    act()
    sent = [request for request in world.requests() if request.partition(" ")[0] not in ("GET", "LIST")]
    return [request for request in sent if request.split()[1].partition("/")[0] not in ("BundleDeployment", "revision")]


def events(world: World, reason: str) -> list[str]:
    return [note.text for note in world.events.notes if note.reason == reason]


def test_a_first_revision_waits(world: World) -> None:
    world.wish("v1", approval="Manual")

    assert writes(world, world.reconcile_until_idle) == []

    assert world.conditions == NOTHING
    assert not world.exists(A)
    assert status(world)["pending"]["changes"] == {"create": 2, "change": 0, "delete": 0, "recreate": 0}
    assert stored(world) == [pending(world).revision]
    assert "revision" not in status(world)
    assert world.message("Installed").endswith('run "kubectl rukpak approve shop" or "kubectl rukpak deny shop"')


def test_an_approval_applies_it(world: World) -> None:
    approved = install(world)

    assert world.exists(A, OLD)
    assert status(world)["installedRevision"] == approved
    assert "pending" not in status(world)
    assert len(events(world, "AwaitingApproval")) == len(events(world, "Approved")) == 1


def test_an_approval_in_advance_lets_only_that_revision_pass(world: World) -> None:
    approved = revision_of(world, "v1")
    world.wish("v1", approval="Manual", approvedRevision=approved)
    world.settle()
    assert world.conditions == READY

    wish(world, "v2")
    world.settle()

    assert world.conditions == WAITS
    assert world.exists(A, OLD)


def test_an_upgrade_waits_while_what_is_installed_is_repaired(world: World) -> None:
    installed = install(world)
    wish(world, "v2")
    assert writes(world, world.reconcile_until_idle) == []

    world.cluster.edit(A, data={"a": "hacked"})
    world.settle()

    assert world.conditions == WAITS
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    assert world.exists(OLD)
    assert not world.exists(B)
    found = status(world)
    assert (found["revision"], found["installedRevision"]) == (installed, installed)
    assert found["pending"]["changes"] == {"create": 1, "change": 1, "delete": 1, "recreate": 0}
    assert "1 to create, 1 to change, 1 to delete" in world.message("Ready")
    assert stored(world) == sorted([installed, pending(world).revision])


def test_an_approved_upgrade_is_applied_and_pruned(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()

    spec(world, approvedRevision=pending(world).revision)
    world.settle()

    assert world.conditions == READY
    assert world.exists(A, B)
    assert not world.exists(OLD)
    assert stored(world) == [status(world)["installedRevision"]]


def test_while_it_waits_passes_send_nothing_and_status_stays(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    before = status(world)
    world.seconds += 1000.0

    world.reconcile()

    assert world.requests() == []
    assert status(world) == before


def test_a_restart_while_it_waits_asks_no_source_and_writes_nothing(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    before, asked = status(world), len(world.shelf.calls)
    world.restart()

    world.requests()
    world.reconcile_until_idle()

    assert world.shelf.calls[asked:] == []
    assert {request.partition(" ")[0] for request in world.requests()} <= {"GET", "LIST"}
    assert status(world) == before


def test_also_before_the_first_installation(world: World) -> None:
    world.wish("v1", approval="Manual")
    world.settle()
    before, asked = status(world), len(world.shelf.calls)
    world.restart()

    world.reconcile_until_idle()

    assert world.shelf.calls[asked:] == []
    assert status(world) == before


def test_another_revision_replaces_the_one_that_waits(world: World) -> None:
    installed = install(world)
    wish(world, "v2")
    world.settle()
    first = pending(world).revision
    world.seconds += 60.0
    wish(world, "v3")
    world.settle()

    assert pending(world).revision != first
    assert pending(world).since == world.now()
    assert stored(world) == sorted([installed, pending(world).revision])
    assert len(events(world, "AwaitingApproval")) == 3

    spec(world, approvedRevision=first)
    world.settle()
    assert world.conditions == WAITS
    assert world.cluster.objects[A]["data"] == {"a": "1"}


def test_before_the_first_installation_no_outdated_proposal_is_left(world: World) -> None:
    for tag in ("v1", "v2", "v3"):
        world.wish(tag, approval="Manual")
        world.settle()

    assert stored(world) == [pending(world).revision]


def test_a_spec_that_is_reverted_waits_for_nothing(world: World) -> None:
    installed = install(world)
    wish(world, "v2")
    world.settle()
    wish(world, "v1")

    assert writes(world, world.reconcile_until_idle) == []

    assert world.conditions == READY
    assert "pending" not in status(world)
    assert stored(world) == [installed]


def test_an_installed_revision_that_was_replaced_waits_again(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    spec(world, approvedRevision=pending(world).revision)
    world.settle()

    wish(world, "v1")
    world.settle()

    assert world.conditions == WAITS
    assert world.cluster.objects[A]["data"] == {"a": "2"}


def test_a_denied_revision_stalls_and_what_is_installed_stays(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    spec(world, deniedRevision=pending(world).revision)
    world.settle()

    world.cluster.edit(A, data={"a": "hacked"})
    world.settle()

    assert world.conditions == DENIED
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    assert "pending" not in status(world)
    assert len(events(world, "Denied")) == 1


def test_a_restart_does_not_build_a_denied_revision_again(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    spec(world, deniedRevision=pending(world).revision)
    world.settle()
    asked = len(world.shelf.calls)
    world.restart()

    world.reconcile_until_idle()

    assert world.shelf.calls[asked:] == []
    assert world.conditions == DENIED


def test_after_a_denial_the_next_revision_waits(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    spec(world, deniedRevision=pending(world).revision)
    world.settle()
    wish(world, "v3")
    world.settle()

    assert world.conditions == WAITS


def test_without_a_policy_a_denial_holds_as_well_until_it_is_removed(world: World) -> None:
    denied = revision_of(world, "v2")
    world.wish("v1", deniedRevision=denied)
    world.settle()
    wish(world, "v2")
    world.settle()
    assert world.conditions == DENIED

    spec(world, deniedRevision=None)
    world.settle()

    assert world.conditions == READY
    assert world.exists(B)


def test_while_paused_it_can_be_looked_at_and_approved_and_nothing_is_applied(world: World) -> None:
    install(world)
    spec(world, paused=True)
    wish(world, "v2")
    world.settle()
    assert world.conditions == {**WAITS, "Paused": "True Paused"}

    spec(world, approvedRevision=pending(world).revision)
    assert writes(world, world.reconcile_until_idle) == []
    assert world.conditions["Installed"] == "False PausedWithChanges"

    spec(world, paused=False)
    world.settle()
    assert world.conditions == READY
    assert world.exists(B)


def test_a_resumed_revision_that_is_not_approved_still_waits(world: World) -> None:
    install(world)
    spec(world, paused=True)
    wish(world, "v2")
    world.settle()

    spec(world, paused=False)
    assert writes(world, world.reconcile_until_idle) == []

    assert world.conditions == WAITS


def test_a_withdrawn_approval_of_a_paused_revision_counts_no_more(world: World) -> None:
    install(world)
    spec(world, paused=True)
    wish(world, "v2")
    world.settle()
    spec(world, approvedRevision=pending(world).revision)
    world.settle()

    spec(world, approvedRevision=None, paused=False)
    world.settle()

    assert world.conditions == WAITS
    assert not world.exists(B)


def test_a_policy_that_is_removed_lets_it_pass(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()

    spec(world, approval=None)
    world.settle()

    assert world.conditions == READY
    assert world.exists(B)


def test_a_policy_that_is_added_changes_nothing_about_what_is_installed(world: World) -> None:
    world.wish("v1")
    world.settle()
    spec(world, approval="Manual")

    assert writes(world, world.reconcile_until_idle) == []

    assert world.conditions == READY


def test_deletion_never_waits(world: World) -> None:
    install(world)
    wish(world, "v2")
    world.settle()
    world.delete()
    world.settle()

    assert PATH not in world.cluster.objects
    assert not (world.exists(A))
    assert not (world.exists(OLD))
    assert stored(world) == []


def test_nor_does_that_of_one_that_was_never_approved(world: World) -> None:
    world.wish("v1", approval="Manual")
    world.settle()
    world.delete()
    world.settle()

    assert PATH not in world.cluster.objects
    assert stored(world) == []


def test_pruning_for_an_installed_revision_never_waits(world: World) -> None:
    install(world, prune="Never")
    wish(world, "v2")
    world.settle()
    spec(world, approvedRevision=pending(world).revision)
    world.settle()
    assert world.exists(OLD)
    wish(world, "v3")
    world.settle()
    assert world.conditions["Installed"] == "False AwaitingApproval"

    spec(world, prune="AfterApply")
    world.settle()

    assert world.conditions == WAITS
    assert not world.exists(OLD)
    assert world.exists(A, B)


def test_objects_that_are_kept_do_not_count_as_deleted(world: World) -> None:
    world.shelf.put("keeps", config_map("a"), config_map("old", **{names.PRUNE: "false"}), config_map("more"))
    install(world, "keeps")
    wish(world, "v3")
    world.settle()

    assert status(world)["pending"]["changes"] == {"create": 0, "change": 1, "delete": 1, "recreate": 0}


def test_objects_that_may_be_recreated_are_counted(world: World) -> None:
    world.shelf.put("one", config_map("a", "1", **{names.RECREATE: "true"}))
    world.shelf.put("two", config_map("a", "2", **{names.RECREATE: "true"}))
    install(world, "one")
    wish(world, "two")
    world.settle()

    assert "1 to change, 1 of them possibly to recreate" in world.message("Ready")


def test_changed_drift_rules_do_not_wait(world: World) -> None:
    install(world)
    spec(world, drift={"mode": "Report"}, deletionPolicy="Orphan")
    world.settle()

    assert world.conditions == READY


# new permissions


def privileged(name: str, *, is_privileged: bool) -> Json:
    container = {"name": "main", "image": "example.com/main", "securityContext": {"privileged": is_privileged}}
    selector = {"app": name}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": selector}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def install_workload(world: World) -> None:
    """Install a workload; the tag `bold` has it with a privileged container, and the tag `more` another object."""
    world.shelf.put("meek", privileged("web", is_privileged=False))
    world.shelf.put("more", privileged("web", is_privileged=False), config_map("a"))
    world.shelf.put("bold", privileged("web", is_privileged=True))
    world.wish("meek", approval="NewPermissions")
    world.settle()
    assert world.conditions["Installed"] == "False AwaitingApproval"
    spec(world, approvedRevision=pending(world).revision)
    world.settle()
    assert world.conditions["Installed"] == "True Installed"


def test_a_revision_without_new_permissions_does_not_wait(world: World) -> None:
    install_workload(world)
    wish(world, "more")
    world.settle()

    assert world.conditions["Installed"] == "True Installed"
    assert world.exists(A)
    assert len(events(world, "AwaitingApproval")) == 1


def test_one_with_new_permissions_waits_and_says_which(world: World) -> None:
    install_workload(world)
    wish(world, "bold")
    world.settle()

    assert world.conditions["Installed"] == "False AwaitingApproval"
    [line] = [line for line in pending(world).permissions.added if "privileged" in line]
    assert "web" in line
    assert not pending(world).permissions.truncated
    assert "new permission" in world.message("Ready")

    spec(world, approvedRevision=pending(world).revision)
    world.settle()
    assert world.conditions["Installed"] == "True Installed"


# accounts


def account(world: World, name: str) -> None:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-of-{name}"}
    path = f"/api/v1/namespaces/shop/serviceaccounts/{name}"
    world.cluster.objects[path] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def applied_as(world: World) -> str:
    found = world.revision_store.read(NAME, status(world)["installedRevision"])
    assert found
    return found.terms.service_account_name


def test_another_account_waits_until_it_is_named(world: World) -> None:
    account(world, "one")
    account(world, "two")
    installed = install(world, serviceAccountName="one", installNamespace="shop")
    spec(world, serviceAccountName="two")
    world.settle()
    assert world.conditions == WAITS
    assert (pending(world).revision, pending(world).service_account_name) == (installed, "two")
    assert applied_as(world) == "one"

    world.restart()
    world.cluster.edit(A, data={"a": "hacked"})
    world.settle()
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    assert applied_as(world) == "one"

    spec(world, approvedServiceAccountName="two")
    world.settle()
    assert world.conditions == READY
    assert applied_as(world) == "two"


def test_an_account_that_is_changed_back_waits_for_nothing(world: World) -> None:
    account(world, "one")
    account(world, "two")
    install(world, serviceAccountName="one", installNamespace="shop")
    spec(world, serviceAccountName="two")
    world.settle()
    spec(world, serviceAccountName="one")
    world.settle()

    assert world.conditions == READY
    assert applied_as(world) == "one"


def test_an_account_that_is_changed_after_the_approval_waits(world: World) -> None:
    account(world, "one")
    account(world, "two")
    world.wish("v1", approval="Manual", serviceAccountName="one", installNamespace="shop", paused=True)
    world.settle()
    spec(world, approvedRevision=pending(world).revision)
    world.settle()
    spec(world, serviceAccountName="two", paused=False)
    world.settle()

    assert world.conditions == NOTHING
    assert 'is approved for ServiceAccount "one"' in world.message("Ready")
    assert not world.exists(A)


# other clients


class Forgery(NamedTuple):
    name: str
    status: Callable[[str, str], Json]
    """From the revision that waits and the installed one."""


def _pending(revision: str) -> Json:
    return {"revision": revision, "since": "2026-01-01T00:00:00Z"}


FORGERIES = [
    Forgery("all of it is wiped", lambda _, __: {}),
    Forgery("it names it as desired", lambda new, _: {"revision": new, "pending": None}),
    Forgery("it names it as begun", lambda new, _: {"revision": new, "managedState": "", "pending": None}),
    Forgery("it names it as installed", lambda new, _: {"installedRevision": new, "revision": new, "managedState": ""}),
    Forgery("it names it as installed in full", lambda new, _: {"installedRevision": new, "revision": new}),
    Forgery("it names nothing", lambda _, __: {"installedRevision": "", "revision": "", "pending": None}),
    Forgery("another one is pending", lambda _, old: {"pending": _pending(old)}),
    Forgery("nothing is pending", lambda _, __: {"pending": None}),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=attrgetter("name"))
@pytest.mark.parametrize("restarts", [False, True], ids=["", "before a restart"])
def test_a_forged_status_approves_nothing(world: World, forgery: Forgery, *, restarts: bool) -> None:
    installed = install(world)
    wish(world, "v2")
    world.settle()
    new = pending(world).revision
    forged = forgery.status(new, installed)
    known = {**status(world), **forged} if forged else {}
    world.cluster.edit(PATH, status={key: value for key, value in known.items() if value not in ("", None)})
    if restarts:
        world.restart()
    world.cluster.edit(A, data={"a": "hacked"})
    world.settle()

    assert world.cluster.objects[A]["data"] == {"a": "1"}
    assert world.exists(OLD)
    assert not world.exists(B)
    assert pending(world).revision == new


@pytest.mark.parametrize("forgery", FORGERIES, ids=attrgetter("name"))
def test_nor_before_the_first_installation(world: World, forgery: Forgery) -> None:
    world.wish("v1", approval="Manual")
    world.settle()
    new = pending(world).revision
    forged = {**status(world), "managedKinds": ["v1/ConfigMap"], **forgery.status(new, new)}
    world.cluster.edit(PATH, status={key: value for key, value in forged.items() if value not in ("", None)})
    world.restart()

    assert writes(world, world.reconcile_until_idle) == []
    assert not world.exists(A)


def test_a_status_that_names_a_replaced_revision_brings_none_back(world: World) -> None:
    old = install(world, prune="Never")
    wish(world, "v2")
    world.settle()
    spec(world, approvedRevision=pending(world).revision)
    world.reconcile()  # the old one is still stored
    wish(world, "v1")
    forged = {**status(world), "installedRevision": old, "revision": old, "managedState": ""}
    world.cluster.edit(PATH, status=forged)
    world.restart()
    world.settle()

    assert world.cluster.objects[A]["data"] == {"a": "2"}
    assert world.conditions["Installed"] == "False AwaitingApproval"


def test_a_lost_revision_is_built_again_and_needs_its_approval(world: World) -> None:
    install(world)
    secrets = [path for path in world.cluster.objects if "/secrets/revision." in path]
    for path in secrets:
        del world.cluster.objects[path]
    world.restart()
    world.cluster.edit(A, data={"a": "hacked"})
    world.settle()
    assert world.cluster.objects[A]["data"] == {"a": "1"}  # spec.approvedRevision still names it

    for path in secrets:
        del world.cluster.objects[path]
    spec(world, approvedRevision=None)
    world.restart()
    world.cluster.edit(A, data={"a": "hacked"})
    world.settle()

    assert world.conditions["Installed"] == "False AwaitingApproval"
    assert world.cluster.objects[A]["data"] == {"a": "hacked"}


def test_an_approval_is_not_for_another_one_of_the_same_name(world: World) -> None:
    install(world)
    del world.cluster.objects[PATH]  # its user had removed the finalizer, so its revisions are left
    world.cluster.edit(A, data={"a": "hacked"})
    world.wish("v1", approval="Manual")
    world.cluster.patch(PATH, {"metadata": {"uid": "uid-of-another"}})
    world.settle()

    assert world.conditions["Installed"] == "False AwaitingApproval"
    assert world.cluster.objects[A]["data"] == {"a": "hacked"}


# kills

WRITES = ("apply", "merge_patch", "json_patch", "delete")


class Killer:
    """Kills the controller before or after its n-th write."""

    def __init__(self, world: World, nth: int, *, is_carried_out: bool) -> None:
        self.count, self._nth, self._is_carried_out = 0, nth, is_carried_out
        self._cluster = world.cluster
        for verb in WRITES:
            setattr(world.cluster, verb, self._struck(getattr(world.cluster, verb)))

    def end(self) -> None:
        for verb in WRITES:
            delattr(self._cluster, verb)

    def _struck(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self._nth and not self._is_carried_out:
                raise KilledError
            reply = send(*args, **options)
            if self.count == self._nth:
                raise KilledError
            return reply

        return write


def propose_and_approve(world: World, nth: int = 0, *, is_carried_out: bool = False) -> int:
    """Install a version, propose another one and approve it, killed once; return the number of writes."""
    killer = Killer(world, nth, is_carried_out=is_carried_out)

    def settle() -> None:
        try:
            world.settle()
        except KilledError:
            world.restart()
            world.settle()

    world.wish("v1", approval="Manual")
    settle()
    assert not world.exists(A)
    spec(world, approvedRevision=pending(world).revision)
    settle()
    assert world.conditions == READY
    wish(world, "v2")
    settle()
    assert world.conditions == WAITS
    assert world.cluster.objects[A]["data"] == {"a": "1"}
    spec(world, approvedRevision=pending(world).revision)
    settle()
    killer.end()
    assert world.conditions == READY
    assert world.cluster.objects[A]["data"] == {"a": "2"}
    assert "pending" not in status(world)
    assert stored(world) == [status(world)["installedRevision"]]
    return killer.count


@pytest.mark.repeats
@pytest.mark.parametrize("is_carried_out", [False, True], ids=["before it", "after it"])
def test_a_kill_at_any_write_approves_and_loses_nothing(*, is_carried_out: bool) -> None:
    with running_world() as world:
        writes = propose_and_approve(world)
    assert writes > 15
    for nth in range(1, writes + 1):
        with running_world() as world:
            propose_and_approve(world, nth, is_carried_out=is_carried_out)


# what would prevent it


def definition(scope: str) -> Json:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    spec = {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": scope}
    return {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": {"name": "widgets.example.com"},
        "spec": {**spec, "versions": versions},
    }


def install_definition(world: World) -> None:
    """Install a CustomResourceDefinition; the tag `unsafe` has it with another scope."""
    world.shelf.put("safe", definition("Namespaced"))
    world.shelf.put("unsafe", definition("Cluster"))
    world.wish("safe")
    world.settle()
    established = [{"type": each, "status": "True"} for each in ("NamesAccepted", "Established")]
    world.cluster.edit(DEFINITIONS.path(name="widgets.example.com"), status={"conditions": established})
    spec(world, approval="Manual")
    world.settle()
    assert world.conditions == READY


def test_an_unsafe_upgrade_is_reported_before_it_is_approved(world: World) -> None:
    install_definition(world)
    wish(world, "unsafe")
    world.settle()

    [problem] = pending(world).problems
    assert "widgets.example.com" in problem
    assert f"1 problem to solve: {problem}" in world.message("Ready")


def test_an_approved_revision_that_is_unsafe_is_refused(world: World) -> None:
    install_definition(world)
    wish(world, "unsafe")
    world.settle()
    spec(world, approvedRevision=pending(world).revision)
    world.settle()

    assert world.conditions["Installed"] == "False UnsafeCRDUpgrade"
    assert "pending" not in status(world)
