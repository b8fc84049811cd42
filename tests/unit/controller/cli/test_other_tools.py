"""What `--from` names, and releases of Helm as Helm stores them.

What an adopted object loses, and what stays on it.

Which objects of Flux would take back what is adopted, over a cluster in memory.

What kubectl has applied in a namespace, and what it has recorded of that.
"""

from __future__ import annotations

import base64
import gzip
import json
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.cli.other_tools import (
    HELM_RELEASE,
    KUSTOMIZATION,
    Origin,
    Tool,
    choose_origin,
    delete_release,
    find_applied,
    find_left_by_tool,
    find_release,
    find_rivals,
    hint_at_tool,
    is_tool,
    make_change,
    make_manifest,
    name_origin,
    other_managers,
    read_applied,
    read_origin,
)
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.errors import ApiError
from rukpak.controller.kube.resources import Resource
from rukpak.controller.views import FailedError, MisuseError
from tests.support.fake_cluster import FakeCluster

MANAGERS = [
    ("helm/a", "helm", True),
    ("helm/a", "terraform-provider-helm_v2.17.0_x5", True),
    ("helm/a", "kubectl-edit", True),
    ("helm/a", "kustomize-controller", False),
    ("flux/a", "kustomize-controller", True),
    ("flux/a", "kube-controller-manager", False),
    ("kubectl", "kubectl-client-side-apply", True),
    ("kubectl", "kubectl", True),
    ("kubectl", "helm", False),
    ("kubectl", "ci", True),
]
ORIGIN = Origin(tool=Tool.HELM, name="shop", namespace="n")
MANIFEST = """---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: other}
"""


class Case(NamedTuple):
    name: str
    text: str
    origin: Origin


CASES = [
    Case("a release in the install namespace", "helm/shop", Origin(tool=Tool.HELM, name="shop", namespace="installed")),
    Case("a release elsewhere", "helm/shop.team", Origin(tool=Tool.HELM, name="shop", namespace="team")),
    Case("a release with a dot in its name", "helm/a.b.team", Origin(tool=Tool.HELM, name="a.b", namespace="team")),
    Case("a Kustomization", "flux/apps", Origin(tool=Tool.FLUX, name="apps", namespace="flux-system")),
    Case("a Kustomization elsewhere", "flux/apps.team", Origin(tool=Tool.FLUX, name="apps", namespace="team")),
    Case("kubectl", "kubectl", Origin(tool=Tool.KUBECTL)),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_tool_is_read(case: Case) -> None:
    assert is_tool(case.text)
    assert read_origin(case.text, "installed", ()) == case.origin


@pytest.mark.parametrize("text", ["helm/", "argo/shop", "helm/.team", "flux"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="must be helm/RELEASE"):
        read_origin(text, "installed", ())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("helm", "name what it has installed: --from helm/RELEASE"),
        ("flux", "name what it has installed: --from flux/KUSTOMIZATION"),
        ("shop", ""),
    ],
)
def test_a_tool_without_a_name_gets_a_hint(text: str, hint: str) -> None:
    assert hint_at_tool(text) == hint


@pytest.mark.parametrize(("text", "manager", "is_theirs"), MANAGERS)
def test_its_field_managers_are_known(text: str, manager: str, is_theirs: bool) -> None:
    assert read_origin(text, "a", ("ci",)).is_manager(manager) is is_theirs


def test_its_marks_include_the_namespace() -> None:
    release = read_origin("helm/shop.team", "", ())
    marks = {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "team"}
    assert release.has_marked({"annotations": marks})
    assert not release.has_marked({"annotations": {**marks, "meta.helm.sh/release-namespace": "other"}})
    assert not read_origin("kubectl", "", ()).has_marked({"annotations": marks})


def stored(version: int, status: str = "deployed", *, data: str = "", kind: str = "Secret") -> dict[str, Any]:
    packed = base64.b64encode(gzip.compress(json.dumps({"manifest": MANIFEST}).encode())).decode()
    content = base64.b64encode(packed.encode()).decode() if kind == "Secret" else packed
    labels = {"owner": "helm", "name": "shop", "version": str(version), "status": status}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": f"sh.helm.release.v1.shop.v{version}", "namespace": "n", "labels": labels},
        "data": {"release": data or content},
    }


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_the_objects_of_the_latest_revision_are_read(kind: str) -> None:
    cluster = FakeCluster()
    for version in (10, 9):
        cluster.put(stored(version, kind=kind))
    release = find_release(cluster.client, cluster.discovery, ORIGIN)
    assert list(release.objects) == [
        ObjectKey("", "ConfigMap", "n", "a"),
        ObjectKey("", "ConfigMap", "other", "b"),
    ]
    assert [*release.paths] == [f"{kind} n/sh.helm.release.v1.shop.v9", f"{kind} n/sh.helm.release.v1.shop.v10"]
    delete_release(cluster.client, release)
    with pytest.raises(FailedError, match="Helm release n/shop: not found"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


def test_a_release_that_helm_is_changing_is_refused() -> None:
    cluster = FakeCluster()
    cluster.put(stored(1))
    cluster.put(stored(2, "pending-upgrade"))
    with pytest.raises(FailedError, match="is pending-upgrade"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


@pytest.mark.parametrize("data", ["", "bm90aGluZw==", base64.b64encode(b"!").decode()])
def test_a_release_that_cannot_be_read_is_refused(data: str) -> None:
    cluster = FakeCluster()
    cluster.put(stored(1, data=data or "IQ=="))
    with pytest.raises(FailedError, match="it is not a release of Helm"):
        find_release(cluster.client, cluster.discovery, ORIGIN)


HELM = Origin(tool=Tool.HELM, name="r", namespace="n")
KUBECTL = Origin(tool=Tool.KUBECTL)
OURS = {
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    "f:data": {"f:color": {}},
    "f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:name": {}, "f:image": {}}}},
}


def entry(manager: str, fields: Any, operation: str = "Apply", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def metadata(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"resourceVersion": "7", "managedFields": [entry("rukpak/shop", OURS), *entries], **more}


def live(**fields: Any) -> dict[str, Any]:
    """Return an object that is adopted."""
    return {"metadata": metadata(), **fields}


class TidyCase(NamedTuple):
    name: str
    entry: dict[str, Any]
    is_dropped: bool


COLOR: dict[str, Any] = {"f:data": {"f:color": {}}}
TIDY_CASES = [
    TidyCase("an entry with a field of ours", entry("helm", COLOR), True),
    TidyCase("an Update entry", entry("kubectl-edit", COLOR, "Update"), True),
    TidyCase("one with other fields only", entry("helm", {"f:data": {".": {}, "f:size": {}}}), False),
    TidyCase("one with other labels", entry("helm", {"f:metadata": {"f:labels": {".": {}, "f:team": {}}}}), False),
    TidyCase(
        "one with an item of a list of ours",
        entry("helm", {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:tty": {}}}}}),
        True,
    ),
    TidyCase("one with all of a map", entry("helm", {"f:data": {}}), True),
    TidyCase("one of a subresource", entry("helm", COLOR, "Update", subresource="status"), False),
    TidyCase("one of another manager", entry("ci", COLOR), False),
]


@pytest.mark.parametrize("case", TIDY_CASES, ids=attrgetter("name"))
def test_entries_of_the_tool_are_dropped(case: TidyCase) -> None:
    change = make_change(metadata(case.entry), "shop", HELM)
    expected = {"metadata": {"resourceVersion": "7", "managedFields": [entry("rukpak/shop", OURS)]}}
    assert change == (expected if case.is_dropped else None)


def test_marks_are_removed_unless_the_bundle_sets_them() -> None:
    marked = metadata(
        labels={"app": "a", "app.kubernetes.io/managed-by": "Helm", "kustomize.toolkit.fluxcd.io/name": "k"},
        annotations={"meta.helm.sh/release-name": "r", "other": "o"},
    )
    change = make_change(marked, "shop", HELM)
    assert change is not None
    assert change["metadata"]["annotations"] == {"meta.helm.sh/release-name": None}
    assert change["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": None,
        "kustomize.toolkit.fluxcd.io/name": None,
    }
    labels: dict[str, Any] = {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}}
    ours = {"resourceVersion": "7", "managedFields": [entry("rukpak/shop", labels)]}
    assert make_change({**ours, "labels": {"app.kubernetes.io/managed-by": "Helm"}}, "shop", HELM) is None


def test_somebody_elses_label_with_the_name_of_a_mark_stays() -> None:
    assert make_change(metadata(labels={"app.kubernetes.io/managed-by": "ops"}), "shop", HELM) is None


THEIRS = {
    "f:metadata": {"f:labels": {"f:kustomize.toolkit.fluxcd.io/name": {}, "f:example.com/team": {}}},
    "f:data": {"f:color": {}, "f:size": {}},
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {".": {}, "f:image": {}, "f:tty": {}},
            'k:{"name":"other"}': {".": {}, "f:image": {}},
        },
        "f:finalizers": {'v:"x"': {}},
    },
}


def test_fields_that_only_the_tool_has_set_are_left() -> None:
    items = [{"name": "main", "tty": True}, {"name": "other", "image": "x", "tty": True}]
    now = live(data={"color": "blue", "size": "big"}, spec={"containers": items, "finalizers": ["x"]})
    now["metadata"]["labels"] = {"example.com/team": "a"}
    assert find_left_by_tool(metadata(entry("helm", THEIRS)), now, "shop", HELM, None) == [
        'metadata.labels["example.com/team"]',
        "data.size",
        'spec.containers[name="main"].tty',
        'spec.containers[name="other"]',
        'spec.finalizers["x"]',
    ]


def test_defaults_in_the_entry_of_a_creator_are_not_left() -> None:
    created = metadata(entry("kubectl-create", {"f:data": {"f:color": {}, "f:size": {}}}, "Update"))
    assert find_left_by_tool(created, live(), "shop", KUBECTL, None) == []


def test_what_the_tool_has_rendered_says_what_is_left() -> None:
    rendered = {"kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": None}, "data": {"size": "big"}}
    assert find_left_by_tool(metadata(), live(data={"size": "big"}), "shop", HELM, rendered) == ["data.size"]
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(rendered)}
    before = metadata(annotations=applied)
    assert find_left_by_tool(before, live(data={"size": "big"}), "shop", KUBECTL, None) == ["data.size"]


PORTS = [{"port": 80, "name": "web"}, {"port": 81, "name": "old"}]
LIVE = {
    "data": {"password": "aA=="},
    "spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "web"}], "replicas": 1},
    "status": {"phase": "Active"},
}
STORED_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "stringData is stored as data": (
        {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "x"}},
        ["data.password"],
    ),
    "stringData that the bundle has as data": (
        {"apiVersion": "v1", "kind": "Secret", "stringData": {"color": "x"}},
        [],
    ),
    "status": ({"status": {"phase": "Active"}}, []),
    "metadata of the server": ({"metadata": {"uid": "u", "resourceVersion": "1", "generation": 1}}, []),
    "a field that the server did not store": ({"spec": {"replicas": 1, "unknown": {"a": 1}}}, ["spec.replicas"]),
    "a field that was removed since": ({"data": {"size": "big"}}, []),
    "an item that was removed since": ({"spec": {"ports": PORTS}}, ["spec.ports"]),
}


@pytest.mark.parametrize("case", STORED_CASES)
def test_nothing_is_left_that_nobody_could_remove(case: str) -> None:
    recorded, expected = STORED_CASES[case]
    assert (
        find_left_by_tool(metadata(), live(**LIVE), "shop", HELM, {"apiVersion": "v1", "kind": "X", **recorded})
        == expected
    )


def test_nothing_of_the_server_is_left_of_an_entry() -> None:
    fields = {
        "f:metadata": {"f:uid": {}, "f:generation": {}, "f:labels": {"f:team": {}}},
        "f:status": {"f:phase": {}},
        "f:data": {"f:color": {}},
        "f:stringData": {"f:color": {}, "f:token": {}},
    }
    now = live(**{**LIVE, "data": {"color": "blue", "token": "eA=="}})
    now["metadata"]["labels"] = {"team": "a"}
    assert find_left_by_tool(metadata(entry("helm", fields)), now, "shop", HELM, None) == [
        "metadata.labels.team",
        "data.token",
    ]
    assert find_left_by_tool(metadata(entry("helm", fields)), live(**LIVE), "shop", HELM, None) == []


HELM_MARKS = {"meta.helm.sh/release-name": "blog", "meta.helm.sh/release-namespace": "shop"}
FLUX_MARKS = {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
BUNDLE = {"labels": {names.OWNER_LABEL: "other"}, "annotations": {names.OWNER_UID: "u"}}
ORIGINS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a release in the install namespace": ({"annotations": HELM_MARKS}, "helm/blog"),
    "a release elsewhere": (
        {"annotations": {**HELM_MARKS, "meta.helm.sh/release-namespace": "web"}},
        "helm/blog.web",
    ),
    "a release whose name has a dot": (
        {"annotations": {**HELM_MARKS, "meta.helm.sh/release-name": "a.b"}},
        "helm/a.b.shop",
    ),
    "a release that no release can be": ({"annotations": {"meta.helm.sh/release-name": "x\ny; rm"}}, None),
    "a Kustomization": ({"labels": FLUX_MARKS}, "flux/apps"),
    "kubectl apply": (
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "kubectl",
    ),
    "another command of kubectl": ({"managedFields": [entry("kubectl-create", COLOR, "Update")]}, "kubectl"),
    "another client": ({"managedFields": [entry("OpenAPI-Generator", COLOR, "Update")]}, ""),
    "Argo CD, which uses kubectl": (
        {
            "annotations": {"argocd.argoproj.io/tracking-id": "x"},
            "managedFields": [entry("kubectl-client-side-apply", COLOR, "Update")],
        },
        None,
    ),
    "a controller": (
        {"ownerReferences": [{"kind": "Web", "name": "w", "uid": "u", "controller": True}], "annotations": HELM_MARKS},
        None,
    ),
    "another BundleDeployment": ({**BUNDLE, "managedFields": [entry("kubectl", COLOR, "Apply")]}, "other"),
    "another BundleDeployment, and a release before it": (
        {**BUNDLE, "annotations": {**BUNDLE["annotations"], **HELM_MARKS}},
        "other",
    ),
    "a BundleDeployment that does not exist any more": (
        {**BUNDLE, "annotations": {names.OWNER_UID: "gone"}, "managedFields": [entry("kubectl", COLOR, "Apply")]},
        "kubectl",
    ),
    "a BundleDeployment with the name of a tool": ({**BUNDLE, "labels": {names.OWNER_LABEL: "kubectl"}}, None),
}


@pytest.mark.parametrize("case", ORIGINS)
def test_from_what_an_object_can_be_adopted(case: str) -> None:
    metadata, expected = ORIGINS[case]
    live = {"metadata": {"name": "a", **metadata}}
    assert name_origin(live, "shop", lambda _, uid: uid == "u") == expected


CHOICES: dict[str, tuple[tuple[str | None, ...], str]] = {
    "kubectl": (("kubectl",), "kubectl"),
    "nobody": (("",), ""),
    "kubectl and nobody": (("kubectl", ""), "kubectl"),
    "a release": (("helm/a",), "helm/a"),
    "a release and what kubectl has added": (("helm/a", "kubectl", ""), "helm/a"),
    "two releases": (("helm/a", "helm/b"), ""),
    "a release and Flux": (("helm/a", "flux/b"), ""),
    "another BundleDeployment": (("other",), "other"),
    "another BundleDeployment and kubectl": (("other", "kubectl"), ""),
    "another BundleDeployment and a release": (("other", "helm/a"), ""),
    "kubectl and a controller": (("kubectl", None), ""),
    "a controller": ((None,), ""),
}


@pytest.mark.parametrize("case", CHOICES)
def test_from_what_several_objects_can_be_adopted_at_once(case: str) -> None:
    origins, expected = CHOICES[case]
    assert choose_origin(origins) == expected


def test_other_managers_of_our_fields_are_named() -> None:
    others = (entry("ci", COLOR, "Update"), entry("kubelet", COLOR, subresource="status"), entry("x", {"f:y": {}}))
    assert other_managers(metadata(*others), "shop", HELM) == ["ci"]


KINDS = {
    KUSTOMIZATION: Resource(KUSTOMIZATION, "v1", "Kustomization", "kustomizations", namespaced=True),
    HELM_RELEASE: Resource(HELM_RELEASE, "v2", "HelmRelease", "helmreleases", namespaced=True),
}


def make_cluster(*, suspend: bool = False) -> FakeCluster:
    """Return a cluster with a Kustomization and a HelmRelease, each `flux-system/shop`."""
    cluster = FakeCluster(*KINDS.values())
    for kind in KINDS.values():
        about = {"apiVersion": kind.gvk.api_version, "kind": kind.kind, "spec": {"suspend": suspend}}
        cluster.put({**about, "metadata": {"name": "shop", "namespace": "flux-system"}})
    return cluster


def labelled(group: str, name: str = "shop") -> dict[str, str]:
    return {f"{group}/name": name, f"{group}/namespace": "flux-system"}


def find(cluster: FakeCluster, origin: Origin, *labels: dict[str, str]) -> list[str]:
    return [str(rival) for rival in find_rivals(cluster.client, cluster.discovery, origin, labels)]


def test_labels_of_adopted_objects_name_rivals() -> None:
    found = find(make_cluster(), KUBECTL, labelled(KUSTOMIZATION), {}, labelled(HELM_RELEASE))
    assert found == ["Kustomization flux-system/shop", "HelmRelease flux-system/shop"]


def test_one_that_is_gone_is_no_rival_unless_it_is_named() -> None:
    gone = labelled(KUSTOMIZATION, "gone")
    assert find(make_cluster(), KUBECTL, gone) == []
    with pytest.raises(FailedError, match="flux-system/gone: not found"):
        find(make_cluster(), Origin(tool=Tool.FLUX, name="gone", namespace="flux-system"), gone)


def test_one_that_is_named_twice_is_found_once() -> None:
    origin = Origin(tool=Tool.FLUX, name="shop", namespace="flux-system")
    assert find(make_cluster(), origin, labelled(KUSTOMIZATION)) == ["Kustomization flux-system/shop"]


@pytest.mark.parametrize("suspend", [True, False])
def test_one_that_is_suspended_already_is_known(*, suspend: bool) -> None:
    cluster = make_cluster(suspend=suspend)
    [rival] = find_rivals(cluster.client, cluster.discovery, KUBECTL, [labelled(KUSTOMIZATION)])
    assert rival.is_suspended is suspend


VERBS = frozenset({"get", "list", "patch"})
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True, verbs=VERBS)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OWN_MAP: dict[str, Any] = {"f:data": {".": {}, "f:color": {}}}


def config_map(name: str, *entries: dict[str, Any], namespace: str = "n", **more: Any) -> dict[str, Any]:
    about = {"name": name, "namespace": namespace, "managedFields": list(entries), **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"color": "blue", "size": "big"}}


def record(name: str = "a", **metadata: Any) -> dict[str, str]:
    """Return the annotation of an object."""
    about = {"name": name, "namespace": "n", "creationTimestamp": None, **metadata}
    return {LAST_APPLIED: json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"a": "b"}})}


class AppliedCase(NamedTuple):
    name: str
    live: dict[str, Any]
    data: dict[str, str] | None
    """What kubectl has applied; None: nothing that is known."""


APPLIED_CASES = [
    AppliedCase("recorded in the annotation", config_map("a", annotations=record()), {"a": "b"}),
    AppliedCase("on the server's side", config_map("a", entry("kubectl", OWN_MAP)), {"color": "blue"}),
    AppliedCase("by a manager that is named", config_map("a", entry("ci", OWN_MAP)), {"color": "blue"}),
    AppliedCase(
        "on the client's side, with an annotation that was removed",
        config_map("a", entry("kubectl-client-side-apply", OWN_MAP, "Update")),
        {"color": "blue"},
    ),
    AppliedCase("recorded as another object", config_map("a", annotations=record("b")), None),
    AppliedCase("recorded as one elsewhere", config_map("a", annotations=record(namespace="kube-system")), None),
    AppliedCase("created", config_map("a", entry("kubectl-create", OWN_MAP, "Update")), None),
    AppliedCase("edited", config_map("a", entry("kubectl-edit", OWN_MAP, "Update")), None),
    AppliedCase("of another client", config_map("a", entry("argocd", OWN_MAP)), None),
]


@pytest.mark.parametrize("case", APPLIED_CASES, ids=attrgetter("name"))
def test_what_kubectl_has_applied_is_made_a_manifest(case: AppliedCase) -> None:
    cluster, origin = FakeCluster(CONFIG_MAPS), Origin(tool=Tool.KUBECTL, managers=("ci",))
    cluster.put(case.live)
    cluster.put(config_map("a", namespace="other", annotations=record(namespace="other")))
    found = [
        read_applied(cluster.client, cluster.discovery, origin, key, live["metadata"])
        for key, live in find_applied(cluster.client, cluster.discovery, origin, "n").items()
    ]
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}
    assert [each for each in found if each] == ([{**about, "data": case.data}] if case.data else [])


def test_a_manifest_has_the_fields_and_items_that_are_owned() -> None:
    ports = [{"port": 80, "protocol": "TCP", "name": "web", "nodePort": 30000}, {"port": 81, "protocol": "TCP"}]
    live = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"app": "a", "other": "b"}},
        "spec": {"ports": ports, "selector": {"app": "a"}, "ips": ["1", "2"], "args": ["x"], "clusterIP": "10.0.0.1"},
        "status": {"loadBalancer": {}},
    }
    port: dict[str, Any] = {".": {}, "f:port": {}, "f:name": {}}
    spec = {"f:ports": {'k:{"port":80,"protocol":"TCP"}': port}, "f:selector": {}, "f:ips": {'v:"2"': {}}, "f:args": {}}
    made = make_manifest(live, {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": spec})
    assert made == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"labels": {"app": "a"}, "name": "a", "namespace": "n"},
        "spec": {
            "args": ["x"],
            "ips": ["2"],
            "ports": [{"name": "web", "port": 80, "protocol": "TCP"}],
            "selector": {"app": "a"},
        },
    }


def test_a_kind_that_may_not_be_listed_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeCluster(CONFIG_MAPS)
    cluster.faults[f"LIST {CONFIG_MAPS.path('n')}"] = [ApiError(403, "Forbidden", "no")]
    assert find_applied(cluster.client, cluster.discovery, KUBECTL, "n") == {}
    assert "not searched, since you may not list them: ConfigMap" in capsys.readouterr().err
