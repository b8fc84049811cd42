"""Patches of `spec.processors` compared with those of the real kubectl, which applies them as the API server does."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.controller.playground.cluster import ControlPlane, KubectlError
from tests.support.bundles import ROOT, Manifest, config_map
from tests.support.inside import Client, processor_of
from tests.support.objects import make
from tests.support.rendered import processed

pytestmark = pytest.mark.timeout(120)
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "a:1",
                "args": ["--a", "--b"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            {"name": "side", "image": "b:1"},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
        "imagePullSecrets": [{"name": "first"}],
    },
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}, "finalizers": ["a.b/c", "d.e/f"]},
    "spec": {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "selector": {"matchLabels": {"app": "web"}},
        "template": TEMPLATE,
    },
}
SERVICE = make("v1", "Service", "web", spec={"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]})
CONFIG = config_map("web", color="blue", size="large")


def pods(**spec: Any) -> Manifest:
    return {"spec": {"template": {"spec": spec}}}


def change(op: str, path: str, **others: Any) -> Manifest:
    return {"op": op, "path": path, **others}


MERGE: dict[str, Any] = {
    "a field": {"spec": {"replicas": 3}},
    "a field removed": {"spec": {"replicas": None}},
    "a field removed that is not there": {"metadata": {"annotations": None, "labels": {"none": None}}},
    "labels merged": {"metadata": {"labels": {"tier": None, "team": "shop"}}},
    "a list replaced": pods(containers=[{"name": "only", "image": "c:1"}]),
    "a mapping in place of nothing": {"metadata": {"annotations": {"a": "b", "c": None}}},
    "a mapping emptied": {"spec": {"strategy": {"rollingUpdate": None}}},
    "an empty patch": {},
    "an empty mapping": pods(nodeSelector={}),
    "an empty list": pods(tolerations=[]),
}
STRATEGIC: dict[str, Any] = {
    "a field": {"spec": {"replicas": 3}},
    "a container changed": pods(containers=[{"name": "side", "image": "c:1"}]),
    "a container added": pods(containers=[{"name": "new", "image": "n"}]),
    "changed and added": pods(containers=[{"name": "side", "image": "x"}, {"name": "new"}]),
    "changed in another order": pods(containers=[{"name": "side", "image": "x"}, {"name": "web", "image": "y"}]),
    "a container removed": pods(containers=[{"name": "side", "$patch": "delete"}]),
    "one removed that is not there": pods(containers=[{"name": "none", "$patch": "delete"}]),
    "removed and added": pods(containers=[{"name": "web", "$patch": "delete"}, {"name": "new", "image": "n"}]),
    "all containers replaced": pods(containers=[{"$patch": "replace"}, {"name": "only"}]),
    "an order": pods(**{"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}),
    "an order with a change": pods(
        **{
            "$setElementOrder/containers": [{"name": "side"}, {"name": "web"}],
            "containers": [{"name": "web", "tty": True}],
        }
    ),
    "an order with an addition": pods(
        **{"$setElementOrder/containers": [{"name": "new"}, {"name": "side"}], "containers": [{"name": "new"}]}
    ),
    "an order that lacks the change": pods(
        **{"$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "side", "image": "z"}]}
    ),
    "an order of texts": {"metadata": {"$setElementOrder/finalizers": ["d.e/f", "a.b/c"]}},
    "a text added": {"metadata": {"finalizers": ["x.y/z"]}},
    "a text that is there": {"metadata": {"finalizers": ["d.e/f", "x.y/z"]}},
    "a text removed": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c", "none"]}},
    "a text removed that is not in a list": {"metadata": {"$deleteFromPrimitiveList/finalizers": "a.b/c"}},
    "kept keys": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    "kept keys that lack one": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "a", "rollingUpdate": {}}}},
    "kept keys of an item": pods(
        volumes=[{"name": "data", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]
    ),
    "a mapping replaced": {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}},
    "a mapping emptied": {"spec": {"strategy": {"$patch": "delete"}}},
    "a mapping that is not there emptied": pods(securityContext={"$patch": "delete"}),
    "an unknown directive": {"spec": {"$patch": "merge"}},
    "an unknown directive of an item": pods(containers=[{"name": "web", "$patch": "merge"}]),
    "an item without its key": pods(containers=[{"image": "x"}]),
    "variables": pods(containers=[{"name": "web", "env": [{"name": "B", "value": None}, {"name": "C", "value": "3"}]}]),
    "a port by its number": pods(containers=[{"name": "web", "ports": [{"containerPort": 80, "name": "http"}]}]),
    "a mount by its path": pods(
        containers=[{"name": "web", "volumeMounts": [{"mountPath": "/data", "readOnly": True}]}]
    ),
    "a list without a key is replaced": pods(tolerations=[{"key": "b", "operator": "Exists"}]),
    "arguments are replaced": pods(containers=[{"name": "web", "args": ["--c"]}]),
    "a list removed": pods(volumes=None),
    "nulls in what is added": pods(containers=[{"name": "new", "image": "n", "env": None}]),
    "a selector of nodes replaced": pods(nodeSelector={"$patch": "replace", "zone": "a"}),
    "an empty list": pods(imagePullSecrets=[]),
}
JSON: dict[str, list[Any]] = {
    "a field": [change("replace", "/spec/replicas", value=3)],
    "a field added": [change("add", "/spec/paused", value=True)],
    "a field added that is there": [change("add", "/spec/replicas", value=2)],
    "a field removed": [change("remove", "/spec/template/spec/nodeSelector")],
    "a field removed that is not there": [change("remove", "/spec/paused")],
    "an item inserted": [change("add", "/spec/template/spec/containers/1", value={"name": "new"})],
    "an item appended": [change("add", "/spec/template/spec/containers/0/args/-", value="--c")],
    "an item removed": [change("remove", "/spec/template/spec/containers/0")],
    "an item that is not there": [change("remove", "/spec/template/spec/containers/7")],
    "a key with a slash": [change("add", "/metadata/labels/example.com~1team", value="shop")],
    "below what is not there": [change("add", "/metadata/annotations/a", value="b")],
    "a test that holds": [change("test", "/spec/replicas", value=1), change("replace", "/spec/replicas", value=2)],
    "a test that fails": [change("test", "/spec/replicas", value=9), change("replace", "/spec/replicas", value=2)],
    "a copy": [change("copy", "/metadata/labels/copy", **{"from": "/metadata/labels/app"})],
    "a move": [change("move", "/metadata/labels/layer", **{"from": "/metadata/labels/tier"})],
    "a move of an item": [
        change("move", "/spec/template/spec/containers/1", **{"from": "/spec/template/spec/containers/0"})
    ],
    "a name": [change("replace", "/metadata/name", value="other")],
}


def by_kubectl(cluster: ControlPlane, item: Manifest, way: str, patch: Any) -> Manifest | None:
    """Return the object as kubectl patches it; None if it refuses."""
    kubectl = partial(cluster.kubectl, "patch", "--local", "--filename=-", "--output=json", input=json.dumps(item))
    try:
        patched: Manifest = json.loads(kubectl(f"--type={way}", f"--patch={json.dumps(patch)}"))
    except KubectlError:
        return None
    return patched


def by_processor(item: Manifest, way: str, patch: Any) -> Manifest | None:
    try:
        [patched] = processed(
            processor_of("patch", "spec.processors[0]"), {"target": {"name": "web"}, way: patch}, item
        )
    except BundleError:
        return None
    return patched


CASES = [
    *(pytest.param(DEPLOYMENT, "merge", patch, id=f"merge: {name}") for name, patch in MERGE.items()),
    *(pytest.param(DEPLOYMENT, "strategic", patch, id=f"strategic: {name}") for name, patch in STRATEGIC.items()),
    *(pytest.param(DEPLOYMENT, "json", patch, id=f"json: {name}") for name, patch in JSON.items()),
    pytest.param(SERVICE, "strategic", {"spec": {"ports": [{"port": 443, "nodePort": 3}]}}, id="strategic: a Service"),
    pytest.param(CONFIG, "strategic", {"data": {"size": None, "new": "x"}}, id="strategic: a ConfigMap"),
]


RECORDED: dict[str, Manifest | None] = json.loads((ROOT / "tests/data/patches/by_kubectl.json").read_bytes())
"""The objects as kubectl patches them; None where it refuses."""


@pytest.mark.parametrize(("item", "way", "patch"), CASES)
def test_an_object_is_patched_as_kubectl_has_patched_it(
    request: pytest.FixtureRequest, item: Manifest, way: str, patch: Any
) -> None:
    assert by_processor(item, way, patch) == RECORDED[request.node.callspec.id]


@pytest.mark.thorough
def test_kubectl_patches_them_so_still(cluster: ControlPlane) -> None:
    patched = {str(each.id): by_kubectl(cluster, *cast("tuple[Any, Any, Any]", each.values)) for each in CASES}
    assert patched == RECORDED


STRICTER = {
    "a field replaced that is not there": [change("replace", "/spec/paused", value=True)],
    "a list index from the end": [change("remove", "/spec/template/spec/containers/-1")],
}


def test_what_rfc_6902_does_not_allow_is_refused_although_kubectl_takes_it(cluster: ControlPlane) -> None:
    for patch in STRICTER.values():
        assert by_kubectl(cluster, DEPLOYMENT, "json", patch)
        assert by_processor(DEPLOYMENT, "json", patch) is None


CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
SERVED = {
    "merge": MERGE["labels merged"],
    "strategic": STRATEGIC["changed and added"]
    | {
        "spec": {
            "template": {"spec": {"containers": [{"name": "side", "image": "x:2"}, {"name": "new", "image": "y:1"}]}}
        }
    },
    "json": JSON["an item appended"],
}


def test_an_object_is_patched_as_the_api_server_patches_it(cluster_client: Client, namespace: str) -> None:
    """The same patch, applied by the processor before and by the API server after the object is created."""
    item = {**DEPLOYMENT, "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}}}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    query = [("dryRun", "All")]
    for way, content_type in CONTENT_TYPES.items():
        ours = by_processor(item, way, SERVED[way])
        cluster_client.create(path, item)
        patched = cluster_client.request(
            "PATCH", f"{path}/web", query=query, body=SERVED[way], content_type=content_type
        ).value
        cluster_client.delete(f"{path}/web")
        assert ours
        created = cluster_client.create(path, ours, dry_run=True).value
        assert created["spec"] == patched["spec"], way
        assert created["metadata"]["labels"] == patched["metadata"]["labels"], way
