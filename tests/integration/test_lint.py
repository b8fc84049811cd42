"""`rukpak lint` and a real API server: what lint finds is refused, what it accepts is accepted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, TypeAlias

import pytest

from controller.playground.cluster import Cluster
from controller.playground.waiting import wait_for
from tests.support.inside import ApiError, connect
from tests.support.wrong_objects import DEFINITION, GOOD, SHELF, WRONG, Wrong

Object: TypeAlias = dict[str, Any]
PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION['metadata']['name']}"


class Server:
    """An API server that knows the kind of the table."""

    def __init__(self, cluster: Cluster) -> None:
        self.client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")
        self._resources: dict[str, dict[str, Object]] = {}

    def refusal(self, item: Object) -> str:
        """Apply an object as a dry run, as a new one; return why it is refused, or nothing."""
        try:
            resource = self._find(item["apiVersion"]).get(item["kind"])
            if resource is None:
                return "no such kind"
            metadata = {"name": f"a-{uuid.uuid4().hex[:8]}"} if item["kind"] != DEFINITION["kind"] else {}
            place = "/namespaces/default" if resource["namespaced"] else ""
            named = {**item, "metadata": {**item["metadata"], **metadata}}
            path = f"{prefix(item['apiVersion'])}{place}/{resource['name']}/{named['metadata']['name']}"
            self.client.apply(path, named, manager="tests", force=True, dry_run=True)
        except ApiError as error:
            return f"{error.status}: {error.message}"
        return ""

    def _find(self, api_version: str) -> dict[str, Object]:
        if api_version not in self._resources:
            listed = self.client.get(prefix(api_version)).value["resources"]
            self._resources[api_version] = {each["kind"]: each for each in listed if "/" not in each["name"]}
        return self._resources[api_version]


def prefix(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[Server]:
    server = Server(cluster)
    server.client.apply(PATH, DEFINITION, manager="tests", force=True)
    wait_for(lambda: not server.refusal(SHELF), 30, lambda: server.refusal(SHELF))
    yield server
    server.client.delete(PATH)


@pytest.mark.parametrize("case", WRONG, ids=attrgetter("name"))
def test_what_lint_finds_is_refused(case: Wrong, server: Server) -> None:
    assert server.refusal(case.item)


@pytest.mark.parametrize("name", GOOD)
def test_what_lint_accepts_is_accepted(name: str, server: Server) -> None:
    assert server.refusal(GOOD[name]) == ""
