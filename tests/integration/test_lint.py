"""`rukpak lint` and a real API server: what lint finds is refused, what it accepts is accepted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, TypeAlias

import pytest

from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import wait_for
from tests.support.inside import ApiError, connect, find_problems
from tests.support.wrong_objects import DEFINITION, GOOD, SHELF, SHELVES, WRONG, Wrong, changed

Object: TypeAlias = dict[str, Any]
PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION['metadata']['name']}"


class Server:
    """An API server that knows the kind of the table."""

    def __init__(self, cluster: Cluster) -> None:
        self.client = connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")

    def refusal(self, item: Object) -> str:
        """Apply an object as a dry run, as a new one; return why it is refused, or nothing."""
        name = f"a-{uuid.uuid4().hex[:8]}"
        named = {**item, "metadata": {**item["metadata"], "name": name}}
        path = f"/apis/{item['apiVersion']}/namespaces/default/shelves/{name}"
        try:
            self.client.apply(path, named, manager="tests", force=True, dry_run=True)
        except ApiError as error:
            return f"{error.status}: {error.message}"
        return ""


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
    r"unknown field|field not declared in schema|expected|unmarshal|must be of type|[Ii]nvalid value"
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
    differences = []
    for what, mutant in mutants(GOOD[name]):
        found, refusal = find_problems(mutant, SHELVES), server.refusal(mutant)
        if (found and not refusal) or (not found and BY_SCHEMA.search(refusal)):
            differences.append((what, found, refusal))
    assert differences == []
