from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.controller.apply.targets import TargetSet
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.reconcile.context import Context
from rukpak.controller.reconcile.installation import find_installed, keep_installed
from rukpak.controller.reconcile.memory import Memory
from tests.support.reconciling import PATH, World

REVISION = Revision(digest="sha256:1", objects=(), terms=Terms(inputs="", install_namespace="shop"))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.shelf.put("v1", *({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n}} for n in ("a", "b")))
    made.wish("v1")
    made.settle()
    yield made
    made.applier.stop()


class Case(NamedTuple):
    name: str
    change: Callable[[World, Memory], Memory | None]
    is_found: bool


CASES = [
    Case("those of this spec and revision", lambda _world, _state: None, is_found=True),
    Case("not those of another spec", lambda world, _state: world.wish("v1", prune="Never"), is_found=False),
    Case("not those of another request", lambda world, _state: world.ask("now"), is_found=False),
    Case(
        "not those of another revision",
        lambda world, _state: _install_another(world),
        is_found=False,
    ),
    Case(
        "not those from before everything was forgotten", lambda _world, memory: Memory(uid=memory.uid), is_found=False
    ),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_targets_are_found(case: Case, world: World) -> None:
    memory = Memory(uid="1")
    context = world.context(memory)
    keep_installed(context, REVISION, _of(context))
    changed = case.change(world, memory)
    assert (find_installed(world.context(changed or memory)) is not None) is case.is_found


def _install_another(world: World) -> None:
    world.cluster.patch(PATH, {"status": {"installedRevision": "sha256:2"}})


def _of(context: Context) -> TargetSet:
    return TargetSet(revision=context.status.installed_revision, targets=(), by_key={}, resources={}, undecided=False)


def test_those_that_were_used_longest_ago_make_room(world: World) -> None:
    settled = find_installed(world.context(world.memory))
    assert settled
    size = settled.targets.size
    assert size > 0
    world.installed_bytes = size - 1
    world.restart()
    world.cluster.edit("/api/v1/namespaces/shop/configmaps/a", data={"a": "edited"})
    world.settle()
    assert find_installed(world.context(world.memory)) is None


def test_those_of_one_that_is_gone_are_forgotten(world: World) -> None:
    assert find_installed(world.context(world.memory))
    context = world.context(world.memory)
    world.cluster.objects.pop(PATH)
    world.reconcile()
    assert find_installed(context) is None
