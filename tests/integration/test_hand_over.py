"""spec.takeOver: objects pass from one BundleDeployment to another, in place."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, World, config_map, definition, image, new_name
from tests.support.inside import ApiError
from tests.support.objects import claim, deployment, is_owned, labelled, make, namespace, read

pytestmark = pytest.mark.own_cluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPS = "/apis/apps/v1"
MANY = 190
RETRY_SECONDS = 300.0
"""After which what waits looks again if it is not woken."""


def take_over(*givers: Deployed | str) -> list[dict[str, str]]:
    return [{"name": each if isinstance(each, str) else each.name} for each in givers]


def identities(world: World, *collections: str) -> dict[str, str]:
    """Return the UIDs of the objects in collections, but for those that every namespace has."""
    found = {f"{path}/{each['metadata']['name']}": each for path in collections for each in world.client.list(path)}
    return {path: each["metadata"]["uid"] for path, each in found.items() if "kube-root-ca" not in path}


def of_giver(**spec: Any) -> list[Manifest]:
    """Return the bundle of a giver, of which a taker gets all but the last."""
    return [config_map("shared", color="blue", size="1"), config_map("both"), config_map("left")]


def of_taker() -> list[Manifest]:
    return [config_map("shared", color="red"), config_map("both"), config_map("own")]


def give(world: World, *bundle: Manifest, paused: bool = True, **spec: Any) -> Deployed:
    """Deploy a BundleDeployment and pause it."""
    giver = world.deploy(*(bundle or of_giver()), **spec)
    giver.wait_for("Installed")
    if paused:
        pause(giver)
    return giver


def pause(deployed: Deployed) -> None:
    deployed.change(paused=True)
    deployed.wait_for("Paused")


def take(world: World, giver: Deployed, *bundle: Manifest, **spec: Any) -> Deployed:
    fields = {"installNamespace": giver.namespace, "takeOver": take_over(giver), **spec}
    return world.deploy(*(bundle or of_taker()), **fields)


def inside(giver: Deployed, name: str, plural: str = "configmaps", prefix: str = "/api/v1") -> Manifest:
    """Return an object in the namespace of a giver."""
    found = giver.get(name, plural, prefix)
    assert found
    return found


def managers(value: Manifest) -> set[str]:
    return {entry["manager"] for entry in value["metadata"]["managedFields"]}


def wait_handed_over(giver: Deployed, taker: Deployed, count: int, left: int) -> None:
    """Wait until a paused giver reports how much it has handed over, and how much is left to it."""
    told = f'handed over: {count} to BundleDeployment "{taker.name}"'
    giver.wait_for("Paused", saying=told)
    giver.wait_for("Installed", saying=told)
    counts = {"handedOver": count, "total": left, "healthy": left, "drifted": 0}
    giver.wait(lambda: counts.items() <= giver.status()["objects"].items(), f"{giver.name}: {counts}")
    assert "Drifted" not in giver.conditions()
    assert not giver.status().get("notReady")


# a hand-over


@pytest.mark.thorough
def test_a_large_bundle_passes_without_a_deletion_and_without_a_new_pod(kwok_world: World) -> None:
    world = kwok_world
    workloads = [deployment(f"web-{index}", replicas=1) for index in range(3)]
    rest = [make("v1", "ServiceAccount", "account"), claim("data"), deployment("idle")]
    bundle = [*workloads, *rest, *(config_map(f"settings-{index:03}") for index in range(MANY + 4))]
    giver = world.deploy(*bundle, prune="AfterApply")
    giver.wait_for("Installed")
    world.wait(lambda: len(list(world.client.list(giver.path_of("", "pods").rstrip("/")))) == 3, "the pods")
    pause(giver)
    places = [giver.path_of("", plural).rstrip("/") for plural in ("configmaps", "serviceaccounts", "pods")]
    places += [giver.path_of("", "persistentvolumeclaims").rstrip("/")]
    places += [giver.path_of("", plural, APPS).rstrip("/") for plural in ("deployments", "replicasets")]
    before, since = identities(world, *places), world.position()
    assert len(before) > len(bundle)

    taker = take(world, giver, *bundle)
    taker.wait_for("Installed")
    wait_handed_over(giver, taker, len(bundle), 0)

    assert identities(world, *places) == before
    assert [each for each in world.requests(since) if each.startswith("delete") and giver.namespace in each] == []
    for name in ("web-0", "idle"):
        found = inside(giver, name, "deployments", APPS)
        assert is_owned(found, taker.name)
        assert [each["name"] for each in found["metadata"]["ownerReferences"]] == [taker.name]
        assert names.field_manager(giver.name) not in managers(found)
    assert "ownerReferences" not in inside(giver, "data", "persistentvolumeclaims")["metadata"]
    [event] = taker.all_events("TakenOver")
    assert f'and {len(bundle) - 10} more: taken over from BundleDeployment "{giver.name}"' in event


@pytest.mark.thorough
def test_fields_that_only_the_giver_has_set_go(world: World) -> None:
    giver = give(world)
    before = inside(giver, "shared")
    taker = take(world, giver)
    taker.wait_ready()

    after = inside(giver, "shared")
    assert after["data"] == {"color": "red"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert managers(after) == {names.field_manager(taker.name)}
    wait_handed_over(giver, taker, 2, 1)


def test_nothing_is_taken_from_one_that_is_not_paused_and_everything_as_soon_as_it_is(world: World) -> None:
    giver = give(world, paused=False)
    taker = take(world, giver, collisionProtection="None")
    taker.wait_for("Installed", "False", "Collision", saying=f"kubectl rukpak pause {giver.name}")
    assert giver.data("shared") == {"color": "blue", "size": "1"}
    world.restart()
    taker.wait_for("Installed", "False", "Collision", saying=f"kubectl rukpak pause {giver.name}")

    since = time.monotonic()
    pause(giver)
    taker.wait_ready()
    assert time.monotonic() - since < RETRY_SECONDS / 2  # it was woken
    wait_handed_over(giver, taker, 2, 1)

    # What was taken is repaired, upgraded and pruned as one's own.
    installed = taker.wait_ready()["installedRevision"]
    world.client.merge_patch(giver.path_of("shared"), {"data": {"color": "green"}}, manager="somebody")
    world.wait(lambda: giver.data("shared") == {"color": "red"}, "the repair")
    taker.change(sources=[image(world.push(taker.name, config_map("both", color="pink"), tag="v2"))])
    taker.wait_installed(installed)
    assert giver.data("both") == {"color": "pink"}
    world.wait(lambda: giver.get("shared") is None, "pruned")
    assert giver.get("left") is not None


def test_one_that_does_not_exist_is_no_obstacle(world: World) -> None:
    world.deploy(*of_taker(), takeOver=take_over("absent")).wait_ready()


def test_a_bundle_deployment_cannot_take_over_its_own_objects(world: World) -> None:
    name = new_name()
    with pytest.raises(ApiError, match=r"spec\.takeOver"):
        world.apply(name, sources=[image("example.com/a:v1")], takeOver=take_over(name))


@pytest.mark.parametrize("policies", [("Orphan", "Orphan"), ("Orphan", "Delete"), ("Delete", "Orphan")])
def test_objects_without_reference_pass_as_well(world: World, policies: tuple[str, str]) -> None:
    group, brought = f"{new_name()}.example.com", new_name()
    defined = [definition(group, "Foo")] if policies == ("Delete", "Orphan") else []
    bundle = [config_map("a"), claim("data"), *defined, namespace(brought)]
    giver = give(world, *bundle, deletionPolicy=policies[0], prune="AfterApply")
    taker = take(world, giver, *bundle, deletionPolicy=policies[1])
    taker.wait_for("Installed")

    paths = [giver.path_of("a"), giver.path_of("data", "persistentvolumeclaims")]
    paths += [f"/api/v1/namespaces/{brought}", *(f"{CRDS}/foos.{group}" for _ in defined)]
    for path in paths:
        found = read(world.client, path)
        assert found
        assert is_owned(found, taker.name)
        assert names.field_manager(giver.name) not in managers(found)
    references = inside(giver, "a")["metadata"].get("ownerReferences", [])
    assert [each["name"] for each in references] == ([taker.name] if policies[1] == "Delete" else [])


def test_ignored_fields_keep_the_value_that_others_gave_them(world: World) -> None:
    ignored = {"ignore": [{"kind": "ConfigMap", "name": "shared", "paths": ["data.color"]}]}
    giver = give(world, drift=ignored, paused=False)
    giver.edit("shared", color="green")
    world.wait_until_looked_at()
    pause(giver)
    taker = take(world, giver, drift=ignored)
    taker.wait_ready()
    assert giver.data("shared") == {"color": "green"}
    assert not {entry for entry in managers(inside(giver, "shared")) if entry.endswith(f"/{giver.name}")}


def test_an_object_whose_entries_were_wiped_passes_as_well_and_goes_with_the_taker(world: World) -> None:
    giver = give(world)
    world.client.merge_patch(giver.path_of("shared"), {"metadata": {"managedFields": [{}]}})
    taker = take(world, giver)
    taker.wait_ready()
    found = inside(giver, "shared")
    assert found["data"]["color"] == "red"
    assert [each["name"] for each in found["metadata"]["ownerReferences"]] == [taker.name]

    taker.delete()
    taker.wait_gone()
    assert [giver.get(name) for name in ("shared", "both", "own")] == [None, None, None]
    assert giver.data("left") == {"color": "blue"}
    giver.wait_for("Healthy", "False")


# afterwards


@pytest.mark.parametrize("protection", ["Prevent", "None"])
def test_a_giver_that_is_resumed_does_not_take_them_back_and_deletes_only_what_is_its_own(
    world: World, protection: str
) -> None:
    giver = give(world, collisionProtection=protection)
    taker = take(world, giver)
    taker.wait_ready()
    versions = taker_versions(giver, taker)

    giver.change(paused=False)
    told = f'was handed over to BundleDeployment "{taker.name}"'
    giver.wait_for("Installed", "False", "Collision", saying=told)
    giver.edit("left", color="changed")
    world.wait(lambda: giver.data("left") == {"color": "blue"}, "the repair of what is its own")
    world.wait_until_looked_at()
    assert taker_versions(giver, taker) == versions
    taker.wait_ready()

    giver.delete()
    giver.wait_gone()
    assert giver.get("left") is None
    assert taker_versions(giver, taker) == versions
    assert taker.wait_ready()["objects"]["healthy"] == 3


def taker_versions(giver: Deployed, taker: Deployed) -> dict[str, str]:
    """Return the versions of the objects that a taker has in the namespace of a giver."""
    found = {name: inside(giver, name) for name in ("shared", "both", "own")}
    assert all(is_owned(each, taker.name) for each in found.values())
    return {name: each["metadata"]["resourceVersion"] for name, each in found.items()}


@pytest.mark.thorough
def test_objects_are_handed_back_in_the_same_way(world: World) -> None:
    giver = give(world)
    taker = take(world, giver)
    taker.wait_ready()
    uid = inside(giver, "shared")["metadata"]["uid"]

    pause(taker)
    giver.change(paused=False, takeOver=take_over(taker))
    giver.wait_ready()
    found = inside(giver, "shared")
    assert is_owned(found, giver.name)
    assert (found["metadata"]["uid"], found["data"]) == (uid, {"color": "blue", "size": "1"})
    wait_handed_over(taker, giver, 2, 1)


def test_an_interrupted_hand_over_leaves_no_entry_to_a_giver_that_goes_on(world: World) -> None:
    """The controller was killed after its first write, and the taker is gone when it comes back."""
    giver = give(world, paused=False)
    world.controller.kill()
    taken = inside(giver, "shared")["metadata"]
    entries = [{**each, "manager": names.field_manager("gone")} for each in taken["managedFields"]]
    patch = {"resourceVersion": taken["resourceVersion"], "managedFields": entries}
    world.client.merge_patch(giver.path_of("shared"), {"metadata": patch})
    world.controller.start()
    own = {names.field_manager(giver.name)}
    world.wait(lambda: managers(inside(giver, "shared")) == own, "its own entry")
    giver.wait_ready()


def test_copies_of_marks_are_not_taken(world: World) -> None:
    """Operators copy labels to children; an object without all marks of the giver is not the giver's."""
    giver = give(world)
    copied = {"labels": {names.OWNER_LABEL: giver.name}}
    world.client.create(f"/api/v1/namespaces/{giver.namespace}/configmaps", labelled(config_map("own"), **copied))
    taker = take(world, giver)
    taker.wait_for("Installed", "False", "Collision", saying="/own: already exists")


# changes of mind, half way


def many(color: str = "blue") -> list[Manifest]:
    return [config_map(f"settings-{index:02}", color=color) for index in range(12)]


def uids(giver: Deployed, world: World) -> dict[str, str]:
    return identities(world, giver.path_of("").rstrip("/"))


def delete_before_anything_is_taken(world: World, *givers: Deployed) -> None:
    """Pause and delete givers while the controller is away."""
    for giver in givers:
        giver.change(paused=True)
        giver.delete()


def test_a_giver_that_is_deleted_before_everything_is_taken_waits_for_its_takers(world: World) -> None:
    protected = {"Delete": give(world, *many(), config_map("left"), paused=False)}
    protected["Orphan"] = give(world, *many(), config_map("left"), paused=False, deletionPolicy="Orphan")
    known = {policy: take(world, giver, *many("red")) for policy, giver in protected.items()}
    for taker in known.values():
        taker.wait_for("Installed", "False", "Collision")
    protected["unknown"] = give(world, *many(), config_map("left"), paused=False)
    before = {policy: uids(giver, world) for policy, giver in protected.items()}
    world.controller.kill()
    delete_before_anything_is_taken(world, *protected.values())
    known["unknown"] = take(world, protected["unknown"], *many("red"))  # not even resolved
    world.controller.start()

    for policy, giver in protected.items():
        known[policy].wait_ready()
        giver.wait_gone()
        after = uids(giver, world)
        assert {path: uid for path, uid in before[policy].items() if not path.endswith("left")}.items() <= after.items()
        assert (giver.get("left") is not None) == (policy == "Orphan")
        assert giver.data("settings-11") == {"color": "red"}


@pytest.mark.thorough
def test_how_the_deletion_of_a_giver_continues_without_its_taker(world: World) -> None:
    ways = ["resume the giver", "do not take over any more", "delete the taker", "resume the taker", "Orphan"]
    givers = {way: give(world, *many(), deletionPolicy="Orphan" if way == "Orphan" else "Delete") for way in ways}
    takers = {way: take(world, giver, *many("red"), paused=True) for way, giver in givers.items()}
    for taker in takers.values():
        taker.wait_for("Installed", "False", "PausedWithChanges")
    broken = give(world, *many())
    absent = world.deploy(ref=f"{world.registry.host}/absent:v1", takeOver=take_over(broken))
    before = {way: uids(giver, world) for way, giver in givers.items()}
    for giver in (*givers.values(), broken):
        giver.delete()
    for way, giver in givers.items():
        said = f'waiting until BundleDeployment "{takers[way].name}" has taken over 12 objects (spec.takeOver)'
        giver.wait_for("Ready", "False", "Deleting", said)
    said = f'it is not known yet which of them BundleDeployment "{absent.name}" takes over'
    broken.wait_for("Ready", "False", "Deleting", said)
    assert {way: uids(giver, world) for way, giver in givers.items()} == before

    givers["resume the giver"].change(paused=False)
    broken.change(paused=False)
    takers["do not take over any more"].change(takeOver=[])
    takers["delete the taker"].delete()
    for way in ways[3:]:
        takers[way].change(paused=False)
    for giver in (*givers.values(), broken):
        giver.wait_gone()
    for way in ways[3:]:
        takers[way].wait_ready()
        assert uids(givers[way], world) == before[way]
    for way in ways[:3]:
        assert givers[way].get("settings-00") is None


@pytest.mark.thorough
def test_a_giver_says_whose_objects_are_after_a_hand_over_that_was_given_up(world: World) -> None:
    giver = give(world)
    taker = take(world, giver)
    taker.wait_ready()
    wait_handed_over(giver, taker, 2, 1)

    taker.change(takeOver=[])
    said = f'already exists and belongs to BundleDeployment "{taker.name}"'
    found = giver.wait_for("Healthy", "False", saying=said)
    assert "not found" not in found["message"]
    told = {each["name"]: (each["reason"], each["message"]) for each in giver.status()["notReady"]}
    assert {name: reason for name, (reason, _) in told.items()} == {"shared": "Collision", "both": "Collision"}
    assert "Drifted" not in giver.conditions()
    world.restart()
    giver.request_reconcile("again")
    giver.wait(lambda: giver.status().get("lastHandledReconcileAt") == "again", "another pass")
    giver.wait_for("Healthy", "False", saying=said)
    giver.change(paused=False)
    giver.wait_for("Installed", "False", "Collision", saying=said)
    giver.wait_for("Healthy", "False", saying=said)

    pause(giver)
    taker.change(takeOver=take_over(giver))
    wait_handed_over(giver, taker, 2, 1)
