"""Work that takes more than one request ends the same, whichever write fails, gets no reply or is the last one.

With all real parts over a cluster in memory; tests/integration/test_kill_points.py does some of it on a real one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.kube.errors import ApiError
from tests.support.fake_cluster import FakeCluster, Json, KilledError
from tests.support.reconciling import PATH, World

MAP = "/api/v1/namespaces/shop/configmaps/a"
CLAIM = "/api/v1/namespaces/shop/persistentvolumeclaims/data"
KUBECTL = {
    "manager": "kubectl-client-side-apply",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsV1": {"f:data": {"f:a": {}}},
}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Work = Callable[[World], Iterator[None]]
"""Prepares, and begins when it is continued."""


# what can happen to a write


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """What happens to one write."""

    error: BaseException
    carried_out: bool
    """Whether the write is carried out before."""


STRIKES = {
    "killed before it": Strike(error=KilledError(), carried_out=False),
    "killed after it": Strike(error=KilledError(), carried_out=True),
    "conflict": Strike(error=ApiError(409, "Conflict", "it has changed"), carried_out=False),
    "server error": Strike(error=ApiError(500, "InternalError", "etcdserver: leader changed"), carried_out=False),
    "no reply": Strike(error=ApiError(0, "Unreachable", "connection lost"), carried_out=True),
}


@dataclass(slots=True)
class Weather:
    """Strikes the n-th write about the objects in the bundle."""

    cluster: FakeCluster
    nth: int
    strike: Strike
    writes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for verb in ("apply", "merge_patch", "delete"):
            setattr(self.cluster, verb, self._struck(verb, getattr(self.cluster, verb)))

    def end(self) -> None:
        for verb in ("apply", "merge_patch", "delete"):
            delattr(self.cluster, verb)

    def _struck(self, verb: str, send: Callable[..., Any]) -> Callable[..., Any]:
        def write(path: str, *args: Any, **options: Any) -> Any:
            if path not in (MAP, CLAIM):
                return send(path, *args, **options)
            self.writes.append(f"{verb} {path}")
            is_hit = len(self.writes) == self.nth
            if is_hit and not self.strike.carried_out:
                raise self.strike.error
            reply = send(path, *args, **options)
            if is_hit:
                raise self.strike.error
            return reply

        return write


# what is interrupted


def config_map(value: str = "1", **metadata: Any) -> Json:
    about = {"name": "a", "namespace": "shop", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"a": value}}


def claim() -> Json:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}}


def install(world: World, *objects: Json, tag: str = "v1", **spec: Any) -> None:
    world.shelf.put(tag, *objects)
    world.wish(tag, installNamespace="shop", **spec)


def take_back(world: World) -> Iterator[None]:
    install(world, claim(), tag="before")
    world.settle()
    install(world, config_map(), tag="without")
    world.settle()
    assert names.RELEASED_FROM in world.cluster.objects[CLAIM]["metadata"]["annotations"]
    yield
    install(world, config_map(), claim(), tag="with")


def adopt(world: World) -> Iterator[None]:
    world.cluster.put(config_map("2", managedFields=[KUBECTL], annotations={LAST_APPLIED: "{}"}))
    yield
    install(world, config_map(), collisionProtection="IfNoController")


def evict(world: World) -> Iterator[None]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "uid-b", "controller": True}
    world.cluster.put(config_map("2", managedFields=[KUBECTL], ownerReferences=[owner]))
    yield
    install(world, config_map(), collisionProtection="None")


def succeed(world: World) -> Iterator[None]:
    """Have what a BundleDeployment of the same name has left, which was deleted without its finalizer."""
    owner = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": "shop", "uid": "old"}
    world.cluster.put(
        config_map(
            "2",
            labels={names.OWNER_LABEL: "shop"},
            annotations={names.OWNER_UID: "old"},
            ownerReferences=[{**owner, "controller": True}],
        )
    )
    yield
    install(world, config_map(), collisionProtection="None")


def release(world: World) -> Iterator[None]:
    install(world, config_map(), claim())
    yield
    install(world, config_map(), tag="without")


def set_initial_fields(world: World) -> Iterator[None]:
    yield
    install(world, config_map(annotations={names.IGNORE_FIELDS: "data.a"}))


def leave_fields(world: World) -> Iterator[None]:
    install(world, config_map())
    yield
    install(world, config_map(annotations={names.IGNORE_FIELDS: "data.a"}), tag="ignored")


def recreate(world: World) -> Iterator[None]:
    """Replace an object that is immutable, while drift is only reported."""
    annotations = {names.RECREATE: "true"}
    install(world, {**config_map(annotations=annotations), "immutable": True}, drift={"mode": "Report"})
    yield
    fresh = {**config_map("2", annotations=annotations), "immutable": True}
    install(world, fresh, tag="v2", drift={"mode": "Report"})


def orphan(world: World) -> Iterator[None]:
    install(world, config_map(), claim())
    yield
    world.delete("orphan")


WORKS: list[Work] = [take_back, adopt, evict, succeed, release, set_initial_fields, leave_fields, recreate, orphan]


def state(world: World) -> dict[str, Any]:
    """Return what is compared: objects without versions and identities, and whether there is anything to do."""
    objects = {path: copy.deepcopy(world.cluster.objects.get(path)) for path in (MAP, CLAIM, PATH)}
    for value in filter(None, objects.values()):
        for name in ("resourceVersion", "uid", "creationTimestamp", "generation", "ownerReferences", "managedFields"):
            value["metadata"].pop(name, None)
    deployment = objects.pop(PATH)
    is_leaving = deployment is None or "deletionTimestamp" in deployment["metadata"]
    conditions = [] if is_leaving or deployment is None else deployment["status"]["conditions"]
    entries = {
        path: sorted(entry.get("manager", "") for entry in value["metadata"].get("managedFields", []))
        for path, value in world.cluster.objects.items()
        if path in objects
    }
    return {
        "objects": objects,
        "managers": entries,
        "conditions": {each["type"]: (each["status"], each["reason"]) for each in conditions},
    }


def finish(world: World) -> None:
    """Let all retries happen that are due within minutes."""
    for _ in range(4):
        world.seconds += 100
        world.settle()


def run(work: Work, nth: int, strike: Strike) -> tuple[dict[str, Any], list[str]]:
    """Do some work in a world of its own, strike its n-th write, and return its end and its writes."""
    world = World()
    steps = work(world)
    next(steps)
    world.settle()
    weather = Weather(world.cluster, nth, strike)
    next(steps, None)
    try:
        for _ in range(6):
            world.reconcile()
    except KilledError:
        world.restart()
    weather.end()
    finish(world)
    world.applier.stop()
    return state(world), weather.writes


@pytest.mark.parametrize("work", WORKS)
def test_an_interruption_at_any_write_changes_nothing_about_the_end(work: Work, pytestconfig: pytest.Config) -> None:
    expected, writes = run(work, 0, STRIKES["no reply"])
    assert writes
    for nth in range(1, len(writes) + 1):
        # With --all each write is struck in each way, else in every second, other ones at the next write and work.
        beginning, step = (0, 1) if pytestconfig.getoption("--all") else ((WORKS.index(work) + nth) % 2, 2)
        for name, strike in [*STRIKES.items()][beginning::step]:
            end, struck = run(work, nth, strike)
            assert end == expected, f"{name} at write {nth} of {struck}"
