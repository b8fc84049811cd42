"""`rukpak tree`: which objects are shown below which, and how."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rukpak.api import names
from rukpak.controller.apply.drift import IgnoredFields
from rukpak.controller.apply.ownership import Owner, make_body
from rukpak.controller.apply.targets import Target
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.cli import main, tree
from rukpak.controller.cli.tree import draw, to_value
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.resources import DEPLOYMENTS, GroupVersionKind
from rukpak.controller.observe.records import key_of
from rukpak.controller.views.objects import (
    Node,
    by_owner,
    describe_drift,
    describe_wave,
    find_owned_resources,
    find_waves_by_title,
    group_by_wave,
    grow,
)
from tests.support.deployments import DIGEST, NOW, READY, condition, deployment, observed
from tests.support.fake_cluster import FakeCluster

Manifest = dict[str, Any]
OWNER = Owner("shop", "uid")


def made(kind: str, name: str, owner: str = "", **content: Any) -> Manifest:
    references = [{"uid": owner, "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": references}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


def branch(value: Mapping[str, Any], children: Sequence[Node]) -> Node:
    return Node(kind=value["kind"], name=value["metadata"]["name"], reason="Healthy", children=children)


def test_lines_connect_an_object_with_what_it_owns() -> None:
    pods = [
        Node(kind="Pod", namespace="shop", name="a", reason="Running"),
        Node(kind="Pod", namespace="shop", name="b", reason="Failed", message="why"),
    ]
    web = Node(
        kind="Deployment", namespace="shop", name="web", reason="Available", children=pods, drift="spec.replicas"
    )
    last = Node(
        kind="Job",
        namespace="shop",
        name="j",
        reason="Complete",
        children=[Node(kind="Pod", namespace="shop", name="c", reason="Succeeded")],
    )
    root = Node(kind="BundleDeployment", name="shop", reason="Ready", children=[web, last])
    assert list(draw(root)) == [
        ("BundleDeployment shop", "Ready", "", ""),
        ("├─ Deployment shop/web", "Available", "spec.replicas", ""),
        ("│  ├─ Pod shop/a", "Running", "", ""),
        ("│  └─ Pod shop/b", "Failed", "", "why"),
        ("└─ Job shop/j", "Complete", "", ""),
        ("   └─ Pod shop/c", "Succeeded", "", ""),
    ]


def test_data_names_each_part() -> None:
    value = Node(
        kind="Deployment",
        namespace="shop",
        name="web",
        reason="Available",
        children=[Node(kind="Node", name="n", reason="Ready")],
    )
    shown = to_value(value)
    assert (shown["kind"], shown["namespace"], shown["name"]) == ("Deployment", "shop", "web")
    assert (shown["children"][0]["namespace"], shown["children"][0]["name"]) == ("", "n")


KINDS = {
    "a Deployment owns Pods through ReplicaSets": (("apps", "Deployment"), ["v1 Pod", "apps/v1 ReplicaSet"]),
    "a CronJob owns Pods through Jobs": (("batch", "CronJob"), ["v1 Pod", "batch/v1 Job"]),
    "a ConfigMap owns nothing": (("", "ConfigMap"), []),
}


@pytest.mark.parametrize("name", KINDS)
def test_only_what_may_be_owned_is_listed(name: str) -> None:
    kind, expected = KINDS[name]
    found = list(find_owned_resources([ObjectKey(*kind, "shop", each) for each in ("a", "b")]))
    assert [f"{each.api_version} {each.kind}" for _, each in found] == expected
    assert {namespace for namespace, _ in found} <= {"shop"}


def test_replica_sets_of_earlier_rollouts_are_left_out() -> None:
    owned = by_owner(
        [
            made("ReplicaSet", "old", "web", spec={"replicas": 0}),
            made("ReplicaSet", "draining", "web", spec={"replicas": 0}),
            made("Pod", "last", "draining"),
            made("ReplicaSet", "current", "web", spec={"replicas": 1}),
            made("ReplicaSet", "of-another", "other", spec={"replicas": 1}),
        ]
    )
    found = grow(made("Deployment", "web"), owned, branch)
    assert [(each.title, [child.title for child in each.children]) for each in found] == [
        ("ReplicaSet current", []),
        ("ReplicaSet draining", ["Pod last"]),
    ]


def live_and_target(**fields: Any) -> tuple[Manifest, Target]:
    """Return an object whose `color` another client has taken over, and its target."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop"},
        "data": {"color": "blue", "size": "1"},
    }
    body = make_body(manifest, replace(OWNER, orphan=True))
    digest = body["metadata"]["annotations"]["core.rukpak.io/applied-digest"]
    marks: Manifest = {"f:labels": {}, "f:annotations": {}}
    entries = [
        {
            "manager": "rukpak/shop",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsV1": {"f:metadata": marks, "f:data": {"f:size": {}}},
        },
        {
            "manager": "edit",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsV1": {"f:metadata": marks, "f:data": {"f:color": {}}},
        },
    ]
    live = {**body, "metadata": {**body["metadata"], "managedFields": entries}}
    target = Target(
        key=key_of(manifest),
        kind=GroupVersionKind.of(manifest),
        digest=digest,
        carries_reference=False,
        manifest=manifest,
        **fields,
    )
    return live, target


def test_drift_names_the_field_and_who_owns_it() -> None:
    live, target = live_and_target()
    assert describe_drift(live, target, replace(OWNER, orphan=True)) == 'data.color, owned by "edit"'


def test_an_object_of_another_revision_has_not_drifted() -> None:
    live, target = live_and_target()
    assert not describe_drift(live, replace(target, digest="v1:other"), replace(OWNER, orphan=True))


def test_accepted_drift_is_not_shown() -> None:
    live, target = live_and_target(ignored=IgnoredFields(accepts_drift=True))
    assert not describe_drift(live, target, replace(OWNER, orphan=True))


# BundleDeployments among the objects

KINDS_OF_PARENT = [f"{names.GROUP}/v1alpha2/{names.KIND}", "v1/ConfigMap"]


def part_of(owner: str, value: Manifest) -> Manifest:
    """Return an object with the marks of a BundleDeployment."""
    marks = {"labels": {names.OWNER_LABEL: owner}, "annotations": {names.OWNER_UID: f"uid-{owner}"}}
    return {**value, "metadata": {**value["metadata"], **marks}}


def parent(name: str, *conditions: Manifest, **status: Any) -> Manifest:
    about = {"revision": DIGEST, "installedRevision": DIGEST, "managedKinds": KINDS_OF_PARENT}
    return observed(name, status={**about, "conditions": list(conditions), **status})


@pytest.fixture
def nested(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The same cluster, where `shop` contains `till`, which contains a ConfigMap and, as nobody should, `shop`."""
    cluster.served.append(DEPLOYMENTS)
    monkeypatch.setattr(tree, "Discovery", lambda _client: cluster.discovery)
    stalled = [condition("Ready", "False", "NotFound", "no tag"), condition("Stalled", "True", "NotFound", "no tag")]
    cluster.put(part_of("till", parent("shop", READY)))
    cluster.put(part_of("shop", parent("till", *stalled, objects={"drifted": 1})))
    cluster.put(part_of("till", made("ConfigMap", "settings")))
    return cluster


def test_the_tree_goes_on_into_a_bundle_deployment_and_ends_where_it_began(
    nested: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tree", "shop"]) == 0
    out, err = capsys.readouterr()
    assert [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in out.splitlines()[1:]] == [
        ["BundleDeployment shop", "Ready", "revision aaa is installed and healthy"],
        ["└─ BundleDeployment till", "NotFound", "1 drifted", "no tag"],
        ["├─ BundleDeployment shop", "Healthy"],
        ["└─ ConfigMap shop/settings", "Healthy"],
    ]
    assert err == (
        "warning: BundleDeployment shop: its objects are not shown, since BundleDeployments contain each other\n"
    )


def test_health_has_a_color(nested: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", "shop", "--color=always"]) == 0
    lines = capsys.readouterr().out.splitlines()
    words = [line.partition("\x1b[")[2].partition("\x1b")[0] for line in lines]
    assert words == ["", "32mReady", "31mNotFound", "32mHealthy", "32mHealthy"]
    assert main(["tree", "shop", "--color=always", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["children"][0]["health"] == "NotFound"


def test_what_the_controller_reports_about_an_object_decides_its_color(
    nested: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = [
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": name, "reason": reason}
        for name, reason in (("settings", "Forbidden"), ("missing", "WaitingForCRD"))
    ]
    nested.patch(DEPLOYMENTS.path(name="till"), {"status": {"notReady": reports, "objects": {"failed": 1}}})
    main(["tree", "till", "--color=always"])
    out = capsys.readouterr().out
    assert ("\x1b[31mForbidden\x1b" in out, "\x1b[33mWaitingForCRD\x1b" in out) == (True, True)


CUTS = {"a terminal": (True, "", True), "wide": (True, "wide", False), "a pipe": (False, "", False)}


@pytest.mark.parametrize("where", CUTS)
def test_messages_are_cut_at_the_width_of_a_terminal(
    where: str, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_terminal, form, is_cut = CUTS[where]
    cluster.put(observed(status={"conditions": [condition("Ready", "False", "Applying", "word " * 40)]}))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((90, 20)))
    assert main(["tree", "shop", "--color=never", f"--output={form}"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert (len(line) == 90, line.endswith("…")) == (is_cut, is_cut)


# waves


def in_wave(name: str, wave: int | None) -> Manifest:
    annotations = {} if wave is None else {names.WAVE: str(wave)}
    value = made("ConfigMap", name)
    value["metadata"]["annotations"] = annotations
    return value


def shown(name: str) -> Node:
    return Node(kind="ConfigMap", namespace="shop", name=name, reason="Healthy")


def test_objects_are_grouped_by_wave_the_lowest_first_and_unknown_ones_last() -> None:
    waits = Node(kind="Job", namespace="shop", name="c", reason="WaitingForWave")
    waves = find_waves_by_title([in_wave("b", 2), in_wave("a", None)])
    groups = group_by_wave([shown("b"), waits, shown("a")], waves)
    assert [(number, [each.title for each in members]) for number, members in groups] == [
        (0, ["ConfigMap shop/a"]),
        (2, ["ConfigMap shop/b"]),
        (None, ["Job shop/c"]),
    ]


def test_objects_of_one_wave_are_not_grouped() -> None:
    waves = find_waves_by_title([in_wave("a", 3), in_wave("b", 3)])
    assert group_by_wave([shown("a"), shown("b")], waves) == []


def test_a_revision_says_in_which_wave_an_object_is_that_waits() -> None:
    waits = {**made("Job", "c"), "metadata": {"name": "c", "namespace": "shop", "annotations": {names.WAVE: "1"}}}
    revision = Revision(digest=DIGEST, objects=(waits,), terms=Terms(inputs="", install_namespace="shop"))
    assert find_waves_by_title([in_wave("a", None)], revision) == {"ConfigMap shop/a": 0, "Job shop/c": 1}


@pytest.mark.parametrize(("number", "state"), [(-1, ""), (0, "Applying"), (1, "Waiting"), (None, "")])
def test_what_a_wave_is_doing(number: int | None, state: str) -> None:
    wave = {"revision": DIGEST, "number": 0, "since": NOW}
    assert describe_wave(deployment(status={"observedGeneration": 1, "wave": wave}), number) == state
