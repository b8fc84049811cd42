from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.kube.resources import SERVICE_ACCOUNTS
from rukpak.controller.observe.following import GrantWatches, NamedWatches, WatchedObject
from rukpak.controller.revisions.accounts import Account, AccountPolicy, Accounts
from tests.support.deployments import deployment
from tests.support.fake_cluster import SERVED, FakeCluster, Json
from tests.support.reconciling import Grants

SHOP = deployment()
OLD, NEW = Account("shop", "old"), Account("shop", "new")


class Named:
    """Stands for NamedWatches: keeps what is watched."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[WatchedObject, str]] = {}

    @property
    def names(self) -> list[str]:
        return sorted(each.name for objects in self.objects.values() for each in objects)

    def of(self, name: str) -> Collection[WatchedObject]:
        return set(self.objects.get(name, ()))

    def watch(self, name: str, objects: Mapping[WatchedObject, str], *, share: str = "") -> None:
        self.objects[name] = objects


def account(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "shop"}}


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with the account `old`."""
    made = FakeCluster(*SERVED, SERVICE_ACCOUNTS)
    made.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    made.put(account("old"))
    return made


@pytest.fixture
def named() -> Named:
    return Named()


@pytest.fixture
def accounts(cluster: FakeCluster, named: Named) -> Accounts:
    watches, grants = cast("NamedWatches", named), cast("GrantWatches", Grants())
    return Accounts(cluster.client, AccountPolicy(), watches, grants)


def test_an_account_that_is_missing_is_watched_until_it_is_there(
    accounts: Accounts, cluster: FakeCluster, named: Named
) -> None:
    assert accounts.hindrance(SHOP, NEW)
    assert named.names == ["new"]
    cluster.put(account("new"))
    assert accounts.hindrance(SHOP, NEW) is None
    assert named.names == []


def test_that_another_one_is_there_ends_no_wait(accounts: Accounts, named: Named) -> None:
    missing = accounts.hindrance(SHOP, NEW)
    assert accounts.hindrance(SHOP, OLD) is None
    accounts.note("shop", [missing])
    assert named.names == ["new"]


@pytest.mark.parametrize("errors", [[], [BundleError(Reason.REFUSED, "no")], [None]])
def test_what_nobody_waits_for_any_more_is_not_watched(
    errors: list[BundleError | None], accounts: Accounts, named: Named
) -> None:
    accounts.hindrance(SHOP, NEW)
    accounts.note("shop", errors)
    assert named.names == []
