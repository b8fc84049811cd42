"""Revisions that are kept beside the installed one: how many, and what they are worth."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rukpak.controller.kube.errors import ApiError
from rukpak.controller.revisions.store import RETIRED
from tests.support.deployments import retired
from tests.support.fake_cluster import Json
from tests.support.reconciling import NAME, World

A, OLD = (f"/api/v1/namespaces/shop/configmaps/{name}" for name in ("a", "old"))


def config_map(name: str, value: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}


@pytest.fixture
def world() -> Iterator[World]:
    """A cluster with an installed bundle of two ConfigMaps, and more versions of it."""
    made = World()
    made.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.shelf.put("v0", config_map("a", "0"), config_map("old"))
    for number in range(1, 10):
        made.shelf.put(f"v{number}", config_map("a", str(number)))
    install(made, "v0")
    yield made
    made.applier.stop()


def install(world: World, tag: str, limit: int = 2) -> None:
    world.wish(tag, revisionHistoryLimit=limit)
    world.settle()


def secrets(world: World) -> dict[str, str]:
    """Return the path of the first Secret of each revision by its digest."""
    found = {path: each for path, each in world.cluster.objects.items() if "/secrets/revision." in path}
    return {each["metadata"]["annotations"]["core.rukpak.io/revision"]: path for path, each in found.items()}


def history(world: World) -> list[str]:
    return [each.revision for each in world.deployment.status.history]


def outcomes(world: World) -> list[str | None]:
    return [each.outcome for each in world.deployment.status.history]


def test_revisions_that_were_installed_are_kept_up_to_the_limit(world: World) -> None:
    for number in range(1, 5):
        install(world, f"v{number}")
        assert history(world)[0] == world.deployment.status.installed_revision
        assert sorted(history(world)) == sorted(secrets(world))
        assert len(history(world)) == min(number + 1, 3)
    assert outcomes(world) == ["Healthy"] * 3


def test_a_retired_revision_names_nothing_on_the_cluster(world: World) -> None:
    first = world.deployment.status.installed_revision
    install(world, "v1")
    assert not world.exists(OLD)
    assert world.revision_store.digests(NAME) == [world.deployment.status.installed_revision]
    assert retired(world.revision_store, NAME) == [first]
    marked = world.cluster.objects[secrets(world)[first]]["metadata"]["annotations"]
    assert marked[RETIRED] == "true"


def test_a_lower_limit_counts_at_once(world: World) -> None:
    for number in range(1, 4):
        install(world, f"v{number}")
    install(world, "v3", limit=0)
    assert history(world) == list(secrets(world)) == [world.deployment.status.installed_revision]


def test_one_that_an_administrator_deletes_costs_its_entry_only(world: World) -> None:
    install(world, "v1")
    install(world, "v2")
    newest, middle, oldest = history(world)
    world.cluster.remove(secrets(world)[middle])
    world.cluster.taken()
    world.reconcile()
    assert world.requests() == ["PATCH BundleDeployment/status"]
    assert history(world) == [newest, oldest]
    world.reconcile()
    assert world.requests() == []


@pytest.mark.parametrize("fails", [False, True])
def test_what_another_client_leaves_of_one_is_deleted(world: World, *, fails: bool) -> None:
    install(world, "v1")
    install(world, "v2")
    newest, middle, oldest = history(world)
    path = secrets(world)[middle]
    world.cluster.edit(path, data={"objects": "Z2FyYmFnZQ=="})
    world.cluster.taken()
    if fails:
        world.cluster.faults[f"DELETE {path}"] = [ApiError(503, "Unavailable", "no")]
        with pytest.raises(ApiError):
            world.reconcile()
        assert middle in history(world)
    world.reconcile()
    assert history(world) == sorted(secrets(world), key=history(world).index) == [newest, oldest]
    world.cluster.taken()
    world.reconcile()
    assert world.requests() == []


def test_a_history_costs_no_request_after_a_restart(world: World) -> None:
    install(world, "v1")
    world.restart()
    world.reconcile()
    assert [each for each in world.requests() if not each.startswith("GET")] == []


def test_one_that_is_installed_again_is_not_retired_any_more(world: World) -> None:
    first = world.deployment.status.installed_revision
    install(world, "v1")
    install(world, "v0")
    assert world.deployment.status.installed_revision == first
    assert world.revision_store.digests(NAME) == [first]
    assert history(world) == [first, *retired(world.revision_store, NAME)]
    assert world.exists(OLD)


def test_a_retirement_that_fails_is_made_up_for(world: World) -> None:
    first = world.deployment.status.installed_revision
    path = secrets(world)[first]
    world.cluster.faults[f"MERGE {path}"] = [ApiError(503, "Unavailable", "no")]
    world.wish("v1")
    with pytest.raises(ApiError):
        world.settle()
    world.settle()
    assert retired(world.revision_store, NAME) == [first]


def test_what_status_says_about_a_revision_that_was_never_applied_does_not_keep_it(world: World) -> None:
    """Whoever may write a status may not have a revision kept that still waits for approval."""
    world.wish("v1", approval="Manual")
    world.settle()
    pending = world.deployment.status.pending
    assert pending
    status = world.cluster.objects["/apis/core.rukpak.io/v1alpha2/bundledeployments/shop"]["status"]
    forged = [*status["history"], {"revision": pending.revision, "outcome": "Healthy"}]
    world.cluster.edit("/apis/core.rukpak.io/v1alpha2/bundledeployments/shop", status={**status, "history": forged})
    world.restart()
    install(world, "v2")
    assert pending.revision not in secrets(world)


def test_one_that_is_replaced_while_paused_is_deleted_before_it_was_ever_applied(world: World) -> None:
    first = world.deployment.status.installed_revision
    world.wish("v1", paused=True)
    world.settle()
    assert sorted(secrets(world)) == sorted({first, world.deployment.status.revision})
    for tag in ("v2", "v3"):
        world.wish(tag, paused=True)
        world.settle()
        assert sorted(secrets(world)) == sorted({first, world.deployment.status.revision})
    world.wish("v0", paused=True)
    world.settle()
    assert list(secrets(world)) == [first]
    install(world, "v3")
    assert world.deployment.status.installed_revision == world.deployment.status.revision
    assert sorted(history(world)) == sorted(secrets(world))
    assert first in history(world)


def test_one_whose_objects_may_exist_is_kept_while_paused(world: World) -> None:
    """A pass that was cut off has begun to apply it."""
    first = world.deployment.status.installed_revision
    world.cluster.faults[f"APPLY {A}"] = [ApiError(503, "Unavailable", "no")] * 3
    world.wish("v1")
    world.reconcile()
    begun = world.deployment.status.revision
    assert begun != first
    for tag in ("v2", "v3"):
        world.wish(tag, paused=True)
        world.settle()
    assert sorted(secrets(world)) == sorted({first, begun, world.deployment.status.revision})


def test_one_that_only_removes_objects_counts_as_applied(world: World) -> None:
    """None of its own objects is written."""
    world.shelf.put("smaller", config_map("a", "0"))
    install(world, "smaller")
    smaller = world.deployment.status.installed_revision
    assert not world.exists(OLD)
    install(world, "v1")
    world.wish("v2", paused=True)
    world.settle()
    assert history(world)[1] == smaller
    assert smaller in secrets(world)
