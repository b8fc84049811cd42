"""What a cluster serves, as a file: written, read back, and the messages for invalid files."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, CustomKind
from rukpak.controller.building.capabilities import (
    dump,
    parse,
    recall_custom_kinds,
    recall_kinds,
    record_kinds,
    shipped,
    write,
)
from rukpak.controller.building.revision import RecordedCustomKind, RecordedKind, Revision, Terms

CAPABILITIES = Capabilities(
    kubernetes_version="v1.36.3", kinds={("apps", "v1", "Deployment"): True, ("", "v1", "Node"): False}
)


def test_capabilities_are_written_in_a_stable_order_and_read_back() -> None:
    text = write(CAPABILITIES)
    assert text == (
        "kubernetesVersion: v1.36.3\nkinds:\n"
        '- {group: "", version: v1, kind: Node, scope: Cluster}\n'
        "- {group: apps, version: v1, kind: Deployment, scope: Namespaced}\n"
    )
    assert parse(text.encode(), "x") == CAPABILITIES
    assert dump(parse(text.encode(), "x")) == dump(CAPABILITIES)


def test_what_custom_kinds_store_is_written_and_read_back() -> None:
    schema = {"properties": {"a.b": {"nullable": True}, "yes": {"x-kubernetes-preserve-unknown-fields": True}}}
    foo, bar = ("x.io", "v1", "Foo"), ("y.io", "v1", "Bar")
    custom = {foo: CustomKind(has_status=False, schema=schema), bar: CustomKind(has_status=True, schema={})}
    capabilities = replace(CAPABILITIES, kinds={**CAPABILITIES.kinds, foo: True, bar: False}, custom=custom)
    text = write(capabilities)
    assert "- {group: y.io, version: v1, kind: Bar, scope: Cluster, hasStatus: true}\n" in text
    assert parse(text.encode(), "x") == capabilities
    assert parse(json.dumps(dump(capabilities)).encode(), "x") == capabilities


def test_groups_whose_kinds_are_not_known_are_written_and_read_back() -> None:
    capabilities = replace(CAPABILITIES, unknown=frozenset({"y.io", "x.io"}))
    text = write(capabilities)
    assert "\nunknownGroups: [x.io, y.io]\nkinds:\n" in text
    assert parse(text.encode(), "x") == capabilities
    assert dump(capabilities)["unknownGroups"] == ["x.io", "y.io"]


def test_the_default_capabilities_contain_the_kinds_of_kubernetes() -> None:
    capabilities = shipped()
    assert capabilities.is_namespaced("apps", "Deployment") is True
    assert capabilities.is_namespaced("", "Namespace") is False
    assert capabilities.is_namespaced("example.com", "Foo") is None
    assert parse(write(capabilities).encode(), "x") == capabilities


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must contain one document, not 0"),
        ("kubernetesVersion: v1.36.3\n", "kinds: "),
        ("kubernetesVersion: '1.36'\nkinds: []\n", "kubernetesVersion: "),
        ("kubernetesVersion: v1.36.3\nkinds: [{version: v1, kind: A, scope: Both}]\n", "kinds.0.scope: "),
        ("kubernetesVersion: v1.36.3\nkinds: [{version: v1, kind: A, scope: Cluster, nulls: 1}]\n", "kinds.0.nulls: "),
        ("kubernetesVersion: v1.36.3\nkinds: []\nkind: X\n", "kind: "),
    ],
)
def test_an_invalid_file_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BundleError) as raised:
        parse(text.encode(), "c.yaml")
    assert raised.value.message.startswith(f"c.yaml: {problem}")
    assert raised.value.message.endswith('; generate the file with "rukpak capabilities"')


FOO, BAR, NODE = ("x.io", "v1", "Foo"), ("y.io", "v1", "Bar"), ("", "v1", "Node")
SERVED = {FOO: True, BAR: False, NODE: False}


def capabilities(*kinds: tuple[str, str, str], unknown: str = "") -> Capabilities:
    return Capabilities(
        kubernetes_version="v1.36.3",
        kinds={kind: SERVED[kind] for kind in kinds},
        unknown=frozenset(filter(None, [unknown])),
    )


class Recalled(NamedTuple):
    name: str
    now: Capabilities
    recorded: tuple[RecordedKind, ...] | None
    expect: Capabilities


CASES = [
    Recalled("while all groups answer, the record does not count", capabilities(NODE), ((*FOO, True),),
             capabilities(NODE)),
    Recalled("of a group that fails, the recorded kinds count", capabilities(NODE, unknown="x.io"), ((*FOO, True),),
             capabilities(FOO, NODE)),
    Recalled("of other groups they do not", capabilities(NODE, unknown="x.io"), ((*BAR, False),), capabilities(NODE)),
    Recalled("what was not served then is not served", capabilities(NODE, unknown="x.io"), (), capabilities(NODE)),
    Recalled("for a first installation nothing is recorded", capabilities(NODE, unknown="x.io"), None,
             capabilities(NODE, unknown="x.io")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_counts_while_a_group_fails(case: Recalled) -> None:
    assert recall_kinds(case.now, case.recorded) == case.expect


def test_only_kinds_of_other_api_servers_are_recorded() -> None:
    made = Revision(digest="", objects=(), terms=Terms(inputs="", install_namespace=""))
    recorded = record_kinds(made, capabilities(NODE, BAR, FOO), lambda group, kind: (group, kind) == ("x.io", "Foo"))
    assert recorded.terms.kinds == ((*FOO, True),)


OLD, NEW = CustomKind(has_status=True, schema={}), CustomKind(has_status=False, schema={"nullable": True})


@pytest.mark.parametrize(
    ("found", "recorded", "expect"),
    [
        pytest.param({FOO: NEW}, ((*FOO, OLD),), {FOO: NEW}, id="what the cluster says counts"),
        pytest.param({}, ((*FOO, OLD),), {FOO: OLD}, id="else what is recorded"),
        pytest.param({}, ((*FOO, None),), {}, id="which may be that nothing was known"),
        pytest.param({}, ((*BAR, OLD),), {}, id="of other kinds nothing"),
        pytest.param({FOO: NEW}, (), {FOO: NEW}, id="for a first installation nothing is recorded"),
    ],
)
def test_what_is_known_of_a_custom_kind(
    found: dict[tuple[str, str, str], CustomKind],
    recorded: tuple[RecordedCustomKind, ...],
    expect: dict[tuple[str, str, str], CustomKind],
) -> None:
    assert recall_custom_kinds(found, [FOO], recorded) == expect
