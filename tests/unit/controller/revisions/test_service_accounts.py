from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.kube.resources import SERVICE_ACCOUNTS
from rukpak.controller.observe.following import ObjectFollower, ObjectReference, Topic
from rukpak.controller.revisions.accounts import Account, AccountPolicy, Accounts
from tests.support.deployments import deployment
from tests.support.fake_cluster import SERVED, FakeCluster, Json

SHOP = deployment()
OLD, NEW = Account("shop", "old"), Account("shop", "new")


class Follower:
    """Stands for ObjectFollower: keeps what is followed."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[ObjectReference, str]] = {}

    @property
    def names(self) -> list[str]:
        return sorted(each.name for objects in self.objects.values() for each in objects)

    def followed(self, name: str, topic: Topic) -> Collection[ObjectReference]:
        assert topic is Topic.ACCOUNTS
        return set(self.objects.get(name, ()))

    def follow(self, name: str, topic: Topic, objects: Mapping[ObjectReference, str], *, share: str = "") -> None:
        assert topic is Topic.ACCOUNTS
        self.objects[name] = objects

    def follow_rights(self, name: str, *, lacks: bool) -> None:
        """No rights are missing here."""


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
def follower() -> Follower:
    return Follower()


@pytest.fixture
def accounts(cluster: FakeCluster, follower: Follower) -> Accounts:
    return Accounts(cluster.client, AccountPolicy(), cast("ObjectFollower", follower))


def test_an_account_that_is_missing_is_watched_until_it_is_there(
    accounts: Accounts, cluster: FakeCluster, follower: Follower
) -> None:
    assert accounts.hindrance(SHOP, NEW)
    assert follower.names == ["new"]
    cluster.put(account("new"))
    assert accounts.hindrance(SHOP, NEW) is None
    assert follower.names == []


def test_that_another_one_is_there_ends_no_wait(accounts: Accounts, follower: Follower) -> None:
    missing = accounts.hindrance(SHOP, NEW)
    assert accounts.hindrance(SHOP, OLD) is None
    accounts.note("shop", [missing])
    assert follower.names == ["new"]


@pytest.mark.parametrize("errors", [[], [BundleError(Reason.REFUSED, "no")], [None]])
def test_what_nobody_waits_for_any_more_is_not_watched(
    errors: list[BundleError | None], accounts: Accounts, follower: Follower
) -> None:
    accounts.hindrance(SHOP, NEW)
    accounts.note("shop", errors)
    assert follower.names == []
