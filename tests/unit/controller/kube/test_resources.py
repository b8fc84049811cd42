from __future__ import annotations

import pytest

from rukpak.controller.kube.resources import GroupVersionKind, Resource

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
