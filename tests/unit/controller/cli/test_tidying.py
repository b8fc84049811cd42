"""What an adopted object loses, and what stays on it."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.cli.adopted_objects import find_left, make_change, other_managers
from controller.cli.other_tools import Origin, Tool

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


class Case(NamedTuple):
    name: str
    entry: dict[str, Any]
    is_dropped: bool


COLOR: dict[str, Any] = {"f:data": {"f:color": {}}}
CASES = [
    Case("an entry with a field of ours", entry("helm", COLOR), True),
    Case("an Update entry", entry("kubectl-edit", COLOR, "Update"), True),
    Case("one with other fields only", entry("helm", {"f:data": {".": {}, "f:size": {}}}), False),
    Case("one with other labels", entry("helm", {"f:metadata": {"f:labels": {".": {}, "f:team": {}}}}), False),
    Case(
        "one with an item of a list of ours",
        entry("helm", {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:tty": {}}}}}),
        True,
    ),
    Case("one with all of a map", entry("helm", {"f:data": {}}), True),
    Case("one of a subresource", entry("helm", COLOR, "Update", subresource="status"), False),
    Case("one of another manager", entry("ci", COLOR), False),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_entries_of_the_tool_are_dropped(case: Case) -> None:
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
    assert find_left(metadata(entry("helm", THEIRS)), metadata(), "shop", HELM, None) == [
        'metadata.labels["example.com/team"]',
        "data.size",
        'spec.containers[name="main"].tty',
        'spec.containers[name="other"]',
        'spec.finalizers["x"]',
    ]


def test_defaults_in_the_entry_of_a_creator_are_not_left() -> None:
    created = metadata(entry("kubectl-create", {"f:data": {"f:color": {}, "f:size": {}}}, "Update"))
    assert find_left(created, metadata(), "shop", KUBECTL, None) == []


def test_what_the_tool_has_rendered_says_what_is_left() -> None:
    rendered = {"kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": None}, "data": {"size": "big"}}
    assert find_left(metadata(), metadata(), "shop", HELM, rendered) == ["data.size"]
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(rendered)}
    assert find_left(metadata(annotations=applied), metadata(), "shop", KUBECTL, None) == ["data.size"]


def test_other_managers_of_our_fields_are_named() -> None:
    others = (entry("ci", COLOR, "Update"), entry("kubelet", COLOR, subresource="status"), entry("x", {"f:y": {}}))
    assert other_managers(metadata(*others), "shop", HELM) == ["ci"]
