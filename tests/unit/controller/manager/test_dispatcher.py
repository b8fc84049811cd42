from __future__ import annotations

import pytest

from rukpak.controller.manager.queue import WorkQueue
from rukpak.controller.manager.workers import HEALTH_SECONDS, Dispatcher
from rukpak.controller.observe.following import Topic
from rukpak.controller.revisions.accounts import RIGHTS_SECONDS


class Noted(WorkQueue):
    """A queue that notes what is put into it, and when it is due."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, float]] = []

    def add(self, key: str) -> None:
        self.noted.append((key, 0.0))

    def add_after(self, key: str, seconds: float) -> None:
        self.noted.append((key, seconds))


class Waiting:
    """A reconciler of which two BundleDeployments wait."""

    def __init__(self) -> None:
        self.started_over = 0
        self.memories = self

    def start_over(self) -> None:
        self.started_over += 1

    def cluster_changed(self) -> list[str]:
        return ["a", "b"]


@pytest.fixture
def noted() -> Noted:
    return Noted()


def test_a_change_of_health_alone_waits_a_little_for_others(noted: Noted) -> None:
    dispatcher = Dispatcher(noted)
    dispatcher.objects_changed("shop", urgent=False)
    dispatcher.objects_changed("shop", urgent=True)
    dispatcher.deployment_changed("shop")
    assert noted.noted == [("shop", HEALTH_SECONDS), ("shop", 0.0), ("shop", 0.0)]


def test_a_change_of_the_cluster_ends_waits(noted: Noted) -> None:
    dispatcher = Dispatcher(noted)
    dispatcher.cluster_changed()
    assert not noted.noted
    dispatcher.reconciler = Waiting()  # type: ignore[assignment]
    dispatcher.cluster_changed()
    assert noted.noted == [("a", 0.0), ("b", 0.0)]


def test_a_restored_cluster_makes_the_reconciler_start_over(noted: Noted) -> None:
    dispatcher, reconciler = Dispatcher(noted), Waiting()
    dispatcher.cluster_restored()
    dispatcher.reconciler = reconciler  # type: ignore[assignment]
    dispatcher.cluster_restored()
    assert (reconciler.started_over, noted.noted) == (1, [])


def test_only_a_change_of_rights_waits_for_the_api_server_to_use_it(noted: Noted) -> None:
    dispatcher = Dispatcher(noted)
    for topic in Topic:
        dispatcher.followed_changed(topic, topic.name)
    delays = {name: seconds for name, seconds in noted.noted if seconds}
    assert (len(noted.noted), delays) == (len(Topic), {"RIGHTS": RIGHTS_SECONDS})
