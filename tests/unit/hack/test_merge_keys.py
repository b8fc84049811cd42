from __future__ import annotations

from hack.merge_keys import table_of

POD = {"group": "", "version": "v1", "kind": "Pod"}
DOCUMENT = {
    "definitions": {
        "io.k8s.api.core.v1.Pod": {
            "properties": {"spec": {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}, "kind": {"type": "string"}},
            "x-kubernetes-group-version-kind": [POD],
        },
        "io.k8s.api.core.v1.PodSpec": {
            "properties": {
                "containers": {
                    "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Container"},
                    "x-kubernetes-patch-strategy": "merge,retainKeys",
                    "x-kubernetes-patch-merge-key": "name",
                }
            }
        },
        "io.k8s.api.core.v1.Container": {"properties": {"image": {"type": "string"}}},
        "io.k8s.Options": {"properties": {"pod": {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}},
                           "x-kubernetes-group-version-kind": [POD, {**POD, "kind": "Other"}]},
    }
}  # fmt: skip


def test_a_table_has_the_types_from_which_a_key_is_reached() -> None:
    assert table_of(DOCUMENT, "v1.2.3") == {
        "kubernetesVersion": "v1.2.3",
        "kinds": {"v1/Pod": "core.v1.Pod"},
        "types": {
            "Options": {"pod": "core.v1.Pod,,"},
            "core.v1.Pod": {"spec": "core.v1.PodSpec,,"},
            "core.v1.PodSpec": {"containers": ",merge,name"},
        },
    }
