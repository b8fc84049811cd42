"""What an apply makes of an object, computed without the server.

`rukpak diff` with colors, and for whoever may not apply an object: what is shown of it, over a cluster in memory.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.controller.apply.ownership import make_body
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.cli import diff, main
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import CONFIG_MAPS
from rukpak.controller.views.comparison import Change, Comparison, Difference
from rukpak.controller.views.dry_run import DryRun, Reviewed, overlay
from rukpak.controller.views.objects import owner_of
from tests.support.deployments import observed
from tests.support.fake_cluster import FakeCluster

MANAGER = "rukpak/shop"
Value = dict[str, Any]


class Case(NamedTuple):
    name: str
    live: Value
    ours: Value
    owned: Value
    expected: Value


CASES = [
    Case("a field changes", {"a": 1}, {"a": 2}, {"f:a": {}}, {"a": 2}),
    Case("a field is added", {"a": 1}, {"a": 1, "b": 2}, {"f:a": {}}, {"a": 1, "b": 2}),
    Case("a field of ours is dropped", {"a": 1, "b": 2}, {"a": 1}, {"f:a": {}, "f:b": {}}, {"a": 1}),
    Case("a field of another client stays", {"a": 1, "b": 2}, {"a": 1}, {"f:a": {}}, {"a": 1, "b": 2}),
    Case(
        "of a map that is dropped, what others have added stays",
        {"m": {"ours": 1, "theirs": 2}, "n": {"ours": 1}},
        {},
        {"f:m": {"f:ours": {}}, "f:n": {"f:ours": {}}},
        {"m": {"theirs": 2}},
    ),
    Case(
        "an item of a list that is a map is merged by its key",
        {"spec": {"containers": [{"name": "web", "image": "v1", "terminationMessagePath": "/t"}, {"name": "sidecar"}]}},
        {"spec": {"containers": [{"name": "web", "image": "v2"}]}},
        {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}}}},
        {"spec": {"containers": [{"name": "web", "image": "v2", "terminationMessagePath": "/t"}, {"name": "sidecar"}]}},
    ),
    Case(
        "an item of ours is dropped",
        {"spec": {"containers": [{"name": "old"}, {"name": "web"}]}},
        {"spec": {"containers": [{"name": "web"}]}},
        {"f:spec": {"f:containers": {'k:{"name":"web"}': {}, 'k:{"name":"old"}': {}}}},
        {"spec": {"containers": [{"name": "web"}]}},
    ),
    Case("any other list is replaced", {"args": ["a", "b"]}, {"args": ["b"]}, {"f:args": {}}, {"args": ["b"]}),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_an_apply_is_computed(case: Case) -> None:
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": case.owned}
    live = {**case.live, "metadata": {"managedFields": [entry]}}
    found = overlay(live, case.ours, MANAGER)
    assert {key: value for key, value in found.items() if key != "metadata"} == case.expected


def test_without_an_entry_of_ours_nothing_is_dropped() -> None:
    assert overlay({"a": 1, "metadata": {}}, {"b": 2}, MANAGER) == {"a": 1, "b": 2, "metadata": {}}


DEPLOYMENT, _ = try_to_read(observed())
assert DEPLOYMENT is not None
OWNER = owner_of(DEPLOYMENT)
PATH = CONFIG_MAPS.path("shop", "a")
COMPUTED = "computed, since you may not apply it"


def config_map(color: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": color}}


class ReadOnly(FakeCluster):
    """A cluster on which the user may apply nothing."""

    def apply(self, path: str, body: Any, **_: Any) -> Any:
        raise ApiError(403, "Forbidden", f"{path} is forbidden")


class Denying(FakeCluster):
    """A cluster whose admission denies every apply, with the status of a lack of rights."""

    def apply(self, path: str, body: Any, **_: Any) -> Any:
        raise ApiError(403, "Forbidden", 'configmaps "a" is forbidden: exceeded quota: few, requested: count=1')


def compare(cluster: FakeCluster) -> Difference:
    """Compare a ConfigMap of a BundleDeployment `shop` with the cluster."""
    objects, _ = compare_all(cluster, config_map("blue"))
    return next(each for each in objects if each.key.kind == "ConfigMap")


def compare_all(cluster: FakeCluster, *bundle: Value) -> tuple[list[Difference], list[str]]:
    """Compare all objects of a BundleDeployment `shop`; returns the problems, too."""
    assert DEPLOYMENT is not None
    terms = Terms(inputs="", install_namespace="shop")
    revision = Revision(digest="sha256:aa", objects=bundle, terms=terms)
    reviewed = Reviewed(deployment=DEPLOYMENT, revision=revision, client=cluster.client)
    return DryRun(reviewed, cluster.discovery, None).compare(lambda _done, _all: None)


class ComputedCase(NamedTuple):
    live: dict[str, Any] | None
    fault: ApiError | None
    """Of a request that reads it."""
    change: Change
    note: str


FORBIDDEN = ApiError(403, "Forbidden", "may not be read")
COMPUTED_CASES = {
    "one that does not exist": ComputedCase(None, None, Change.CREATED, "as rendered, since you may not apply it"),
    "one that may be read": ComputedCase(config_map("red"), None, Change.CHANGED, COMPUTED),
    "one that may be listed": ComputedCase(make_body(config_map("red"), OWNER), None, Change.CHANGED, COMPUTED),
    "one that may not be read either": ComputedCase(config_map("red"), FORBIDDEN, Change.UNREAD, ""),
}


@pytest.mark.parametrize("case", COMPUTED_CASES.values(), ids=COMPUTED_CASES)
def test_what_is_shown_of_an_object_that_may_not_be_applied(case: ComputedCase) -> None:
    cluster = ReadOnly()
    if case.live:
        cluster.put(case.live)
    cluster.faults[f"GET {PATH}"] = [case.fault] if case.fault else []
    found = compare(cluster)
    assert (found.change, found.note) == (case.change, case.note)


def test_a_server_that_cannot_answer_is_no_difference() -> None:
    cluster = ReadOnly()
    cluster.faults[f"GET {PATH}"] = [ApiError(500, "InternalError", "etcd is away")]
    with pytest.raises(ApiError, match="InternalError"):
        compare(cluster)


@pytest.mark.parametrize("live", [None, config_map("red")], ids=["a new object", "a changed object"])
def test_what_admission_denies_is_refused(live: dict[str, Any] | None) -> None:
    cluster = Denying()
    if live:
        cluster.put(make_body(live, OWNER))
    found = compare(cluster)
    assert found.change is Change.REFUSED
    assert "exceeded quota" in found.note


def test_labels_that_a_namespace_of_others_lacks_are_told() -> None:
    cluster, about = ReadOnly(), {"apiVersion": "v1", "kind": "Namespace"}
    cluster.put({**about, "metadata": {"name": "more"}})
    objects, problems = compare_all(cluster, {**about, "metadata": {"name": "more", "labels": {"a": "b"}}})
    assert [each.change for each in objects if each.key.name == "more"] == [Change.NONE]
    assert problems == ['Namespace more: not managed by this bundle, and lacks the labels "a=b"; add them']


@pytest.mark.parametrize(
    ("words", "colored"), [(["--color=always"], True), ([], False), (["--color=always", "-o", "json"], False)], ids=str
)
def test_colors_are_a_choice(
    words: list[str],
    colored: bool,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = Comparison(name="shop", revision="sha256:a", against="the cluster", objects=())
    revision = Revision(digest="sha256:aa", objects=(), terms=Terms(inputs="", install_namespace="shop"))
    assert DEPLOYMENT is not None
    reviewed = Reviewed(deployment=DEPLOYMENT, revision=revision, client=cluster.client)
    monkeypatch.setattr(diff, "find", lambda _options: reviewed)
    monkeypatch.setattr(diff, "compare", lambda _reviewed, _options: found)
    assert main(["diff", "shop", *words]) == 0
    assert ("\x1b[1mshop: " in capsys.readouterr().out) is colored
