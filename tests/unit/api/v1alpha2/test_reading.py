from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.types import Status
from tests.support.deployments import manifest

BAD_URL = [{"kind": "http", "http": {"url": "http://127.0.0.1\u0085:9/a"}}]


class Unreadable(NamedTuple):
    name: str
    spec: dict[str, Any]
    problem: str
    deletion_policy: str = "Delete"


UNREADABLE = [
    Unreadable("a URL", {"sources": BAD_URL}, "spec.sources[0].http.url: string should match pattern"),
    Unreadable("a format", {"format": 3}, "spec.format: input should be a valid string"),
    Unreadable("the others stay", {"prune": "Soon", "deletionPolicy": "Orphan"}, "spec.prune: ", "Orphan"),
    Unreadable("a deletion policy keeps the objects", {"deletionPolicy": "Burn"}, "spec.deletionPolicy: ", "Orphan"),
]


@pytest.mark.parametrize("case", UNREADABLE, ids=attrgetter("name"))
def test_what_cannot_be_read_of_a_spec_is_told_and_the_rest_is_kept(case: Unreadable) -> None:
    found = read(manifest(spec=case.spec, status={"managedKinds": ["v1/ConfigMap"]}))
    assert found.problem.startswith(case.problem)
    assert found.model_copy(update={"status": found.status}).problem == found.problem
    assert (found.metadata.name, found.spec.install_namespace) == ("shop", "shop")
    assert found.spec.deletion_policy == case.deletion_policy
    assert found.status.managed_kinds == ("v1/ConfigMap",)


def test_one_that_can_be_read_has_no_problem() -> None:
    assert not read(manifest()).problem


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": {"serviceAccountName": "A B"}},
        {"spec": {"installNamespace": "A B"}},
        {"metadata": {"finalizers": 3}},
    ],
    ids=str,
)
def test_without_metadata_or_account_nothing_can_be_done(parts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(manifest(**parts))


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"managedKinds": 3, "revision": "sha256:1"}, "status.managedKinds: "),
        ({"conditions": [{"type": "Ready"}], "revision": "sha256:1"}, "status.conditions[0].status: "),
        ({"account": {"serviceAccountName": 3}, "revision": "sha256:1"}, "status.account.serviceAccountName: "),
    ],
    ids=str,
)
def test_a_field_of_the_status_that_cannot_be_read_counts_as_unknown(status: dict[str, Any], problem: str) -> None:
    found = read(manifest(status=status))
    assert found.status_problem.startswith(problem)
    assert not found.problem
    assert found.status == Status(revision="sha256:1")


def test_what_is_no_status_at_all_counts_as_unknown() -> None:
    found = read({**manifest(), "status": "none"})
    assert found.status_problem
    assert found.status == Status()


def test_what_is_no_spec_at_all_cannot_be_read() -> None:
    with pytest.raises(ValidationError):
        read({**manifest(), "spec": "none"})
