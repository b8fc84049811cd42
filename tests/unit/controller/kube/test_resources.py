from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import pytest

from rukpak.api import names
from rukpak.controller.kube.resources import GroupVersionKind, Resource, is_shard_name, lease_of, shard_of

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (CONFIG_MAPS.path(), "/api/v1/configmaps"),
        (CONFIG_MAPS.path("ns"), "/api/v1/namespaces/ns/configmaps"),
        (CONFIG_MAPS.path("ns", "a"), "/api/v1/namespaces/ns/configmaps/a"),
        (CLUSTER_ROLES.path(), "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        (
            CLUSTER_ROLES.path(name="system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        ),
        (CLUSTER_ROLES.path("ns", "a"), "/apis/rbac.authorization.k8s.io/v1/clusterroles/a"),
    ],
    ids=["all namespaces", "one namespace", "object", "cluster-scoped", "quoted", "namespace of none is ignored"],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", [".", "..", "a/b", "../../namespaces/kube-system", "a%2fb"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a name"):
        CONFIG_MAPS.path("ns", name)
    with pytest.raises(ValueError, match="cannot be a name"):
        CONFIG_MAPS.path(name, "a")


def test_an_object_of_a_namespaced_kind_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="namespace is missing"):
        CONFIG_MAPS.path(name="a")


@pytest.mark.parametrize("text", ["apps/v1/Deployment", "v1/ConfigMap"])
def test_a_kind_is_written_and_read_back(text: str) -> None:
    assert str(GroupVersionKind.parse(text)) == text


@pytest.mark.parametrize("text", ["", "ConfigMap", "/ConfigMap", "v1/", "/v1/X", "a/b/c/d", "//"])
def test_what_is_no_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an apiVersion and kind"):
        GroupVersionKind.parse(text)


def test_the_kind_of_an_object() -> None:
    assert GroupVersionKind.of({"apiVersion": "apps/v1", "kind": "Deployment"}) == ("apps", "v1", "Deployment")
    with pytest.raises(ValueError, match="not an apiVersion and kind"):
        GroupVersionKind.of({"kind": "Deployment"})


A = "a"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shard: str
    labels: dict[str, str]
    expect: bool


CASES = [
    Case("one without labels belongs to the default shard", "", {}, expect=True),
    Case("so does one with other labels only", "", {"app": "a"}, expect=True),
    Case("and one whose label is empty", "", {names.SHARD: ""}, expect=True),
    Case("one with a label does not", "", {names.SHARD: "a"}, expect=False),
    Case("nor one whose label cannot be the name of a shard", "", {names.SHARD: "No_Name"}, expect=False),
    Case("one with the label of a shard belongs to it", A, {names.SHARD: "a", "app": "b"}, expect=True),
    Case("one with that of another one does not", A, {names.SHARD: "b"}, expect=False),
    Case("nor one without", A, {}, expect=False),
    Case("nor one whose label only begins like it", A, {names.SHARD: "ab"}, expect=False),
    Case("nor one in other letters", A, {names.SHARD: "A"}, expect=False),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_bundledeployments_a_controller_serves(case: Case) -> None:
    assert (shard_of(case.labels) == case.shard) is case.expect


def test_each_shard_has_a_lease_of_its_own() -> None:
    assert (lease_of(""), lease_of("a")) == ("rukpak", "rukpak-a")


@pytest.mark.parametrize(("name", "is_one"), [("a", True), ("a-1", True), ("", False), ("A", False), ("a.b", False),
                                              ("-a", False), ("a" * 50, True), ("a" * 51, False)])  # fmt: skip
def test_names_of_shards_are_dns_labels(name: str, is_one: bool) -> None:
    assert is_shard_name(name) is is_one
