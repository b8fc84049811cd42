"""`rukpak lint` and a real API server: what lint finds is refused, what it accepts is accepted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, TypeAlias

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.waiting import wait_for
from tests.support.inside import ApiError, Schemas, connect
from tests.support.wrong_objects import DEFINITION, GOOD, SHELF, WRONG, Wrong, changed

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


SAMPLES: tuple[Any, ...] = ("text", 1, 1.5, True, [], {}, ["x"], {"x": "y"})
BY_SCHEMA = re.compile(
    r"unknown field|expected|cannot unmarshal|must be of type|unmarshal|quantities must match|^no such kind"
)


def mutants(item: Object) -> Iterator[tuple[str, Object]]:
    """Yield an object with each of its fields removed or of another type, and with a field that is unknown."""
    for path, value in fields(item):
        yield f"without {path}", changed(item, path)
        if isinstance(value, dict):
            yield f"unknown in {path}", changed(item, f"{path}/zzz", "1")
        for sample in SAMPLES:
            if type(sample) is not type(value):
                yield f"{sample!r} at {path}", changed(item, path, sample)


def fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in pairs:
        place = f"{path}/{step}".removeprefix("/")
        if place not in ("apiVersion", "kind", "metadata", "metadata/name") and "/" not in str(step):
            yield place, each
            yield from fields(each, place)


@pytest.mark.thorough
@pytest.mark.parametrize("name", GOOD)
def test_lint_and_the_server_agree_on_every_mutant(name: str, server: Server) -> None:
    """Whatever lint finds is refused, and whatever the server says of a schema is found."""
    schemas, item = Schemas("1.36", [DEFINITION]), GOOD[name]
    group, _, version = item["apiVersion"].rpartition("/")
    differences = []
    for what, mutant in mutants(item):
        found, refusal = schemas.find_problems((group, version, item["kind"]), mutant), server.refusal(mutant)
        if (found and not refusal) or (not found and BY_SCHEMA.search(refusal)):
            differences.append((what, found, refusal))
    assert differences == []
