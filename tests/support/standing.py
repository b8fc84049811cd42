"""Controllers that go on from one file to the next, as long as no file leaves something or needs another one.

A file borrows a controller with its world. BundleDeployments and CustomResourceDefinitions, which outlive bundles, are
deleted afterwards. If they do not go, or if revisions, webhooks, policies or a traceback in the log are left, the file
fails, and the next one gets a new controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from rukpak.api import names
from rukpak.controller.playground.processes import wait_for
from tests.support.bundles import DEPLOYMENTS, SECONDS, STORE, World
from tests.support.inside import ApiError

TRACEBACK = "Traceback (most recent call last)"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS: Mapping[str, str] = {
    "BundleDeployment": DEPLOYMENTS,
    "revision": STORE,
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
    "ValidatingWebhookConfiguration": f"{ADMISSION}/validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": f"{ADMISSION}/mutatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
"""Paths of what a file must not leave behind, by kind."""
HELD = "NamespaceFinalizersRemaining"


DELETED = ("BundleDeployment", "CustomResourceDefinition")


def find_objects(world: World) -> dict[str, str]:
    """Return the paths of what there is of these kinds, and of namespaces that cannot end because of finalizers."""
    selectors = {STORE: names.REVISION_LABEL}
    found = {
        f"{kind} {each['metadata']['name']}": f"{path}/{each['metadata']['name']}"
        for kind, path in KINDS.items()
        for each in world.client.list(path, metadata=True, label_selector=selectors.get(path, ""))
    }
    for namespace in world.client.list("/api/v1/namespaces"):
        conditions = namespace.get("status", {}).get("conditions") or []
        if any(each["type"] == HELD and each["status"] == "True" for each in conditions):
            name = namespace["metadata"]["name"]
            found[f"finalizers in the namespace {name}"] = f"/api/v1/namespaces/{name}"
    return found


@dataclass(slots=True)
class Standing:
    """The controllers of a session, at most one at each place, which is the name of a cluster."""

    _kept: dict[str, tuple[World, ExitStack]] = field(default_factory=dict)

    @contextmanager
    def lend(
        self,
        place: str,
        start: Callable[[], AbstractContextManager[World]],
        clean_up: Callable[[World], None] = World.clean_up,
    ) -> Iterator[World]:
        """Lend the controller at a place to a file.

        Args:
            place: of the controller.
            start: starts it if there is none.
            clean_up: deletes what the file has made.

        Raises: AssertionError if the file leaves something behind.
        """
        if place not in self._kept:
            stack = ExitStack()
            self._kept[place] = stack.enter_context(start()), stack
        world = self._kept[place][0]
        world.controller.begin_log()
        before = find_objects(world).keys()
        try:
            yield world
            clean_up(world)
            _delete_kept(world, before)
            left = self._find_left(world, before)
        except BaseException:
            self.end(place)
            raise
        if left:
            self.end(place)
            raise AssertionError(f"the file has left something behind: {'; '.join(left)}")

    def _find_left(self, world: World, before: Collection[str]) -> list[str]:
        left: list[str] = []

        def is_nothing() -> bool:
            left[:] = sorted(find_objects(world).keys() - before)
            return not left

        with suppress(TimeoutError):  # `left` says what it is
            wait_for(is_nothing, SECONDS, "what the file has made gone")
        if TRACEBACK in world.controller.log:
            left.append(f"a traceback in the log: {world.controller.log.partition(TRACEBACK)[2][:2000]}")
        return left

    def end(self, place: str) -> None:
        """Stop the controller at a place, if there is one: somebody else needs the cluster."""
        if place in self._kept:
            self._kept.pop(place)[1].close()


def _delete_kept(world: World, before: Collection[str]) -> None:
    for what, path in find_objects(world).items():
        if what not in before and what.startswith(DELETED):
            with suppress(ApiError):  # it is gone meanwhile
                world.client.delete(path)
