"""The deletion of a BundleDeployment whose objects another one takes over, over a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import manifest
from tests.support.reconciling import World

OBJECT, TAKER = "/api/v1/namespaces/shop/configmaps/a", "shop-v2"
CONFIG_MAP: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.shelf.put("v1", CONFIG_MAP)
    made.wish("v1", installNamespace="shop")
    made.settle()
    yield made
    made.applier.stop()


def delete(world: World, *, paused: bool = True, shard: str = "", **taker: Any) -> None:
    labels = {names.SHARD: shard} if shard else {}
    world.cluster.put(manifest(TAKER, metadata={"labels": labels}, spec={"takeOver": [{"name": "shop"}], **taker}))
    world.wish("v1", installNamespace="shop", paused=paused)
    world.settle()
    world.delete()
    world.settle()


@pytest.mark.parametrize("shard", ["", "a"], ids=["of this shard", "of another shard"])
def test_the_deletion_of_one_that_is_paused_waits_for_its_taker(shard: str, world: World) -> None:
    delete(world, shard=shard)
    assert world.exists(OBJECT)
    assert world.conditions["Ready"] == "False Deleting"
    assert f'it is not known yet which of them BundleDeployment "{TAKER}" takes over' in world.message("Ready")
    assert world.reconcile().after == 5.0

    world.restart()
    world.settle()
    assert world.exists(OBJECT)

    world.cluster.remove(DEPLOYMENTS.path(name=TAKER))
    world.settle()
    assert not world.exists(OBJECT)
    assert world.watches.deployments.find("shop") is None


def test_the_deletion_of_one_that_is_not_paused_waits_for_nobody(world: World) -> None:
    delete(world, paused=False)
    assert not world.exists(OBJECT)
    assert world.watches.deployments.find("shop") is None


def test_the_deletion_waits_for_nobody_who_takes_from_others(world: World) -> None:
    delete(world, takeOver=[{"name": "other"}])
    assert world.watches.deployments.find("shop") is None
