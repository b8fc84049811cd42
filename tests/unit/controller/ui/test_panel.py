"""The panel of one object: what is desired beside what is live."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.apply.targets import make_targets
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.ui.panel import Seen, compare_with_target, find_last_change, make_panel
from rukpak.controller.views.objects import Node
from tests.support.objects import make
from tests.support.pages import deployment

Json = dict[str, Any]


def pod_spec(*containers: Json, **more: Any) -> Json:
    return {"spec": {"template": {"spec": {"containers": list(containers), **more}}}}


class Case(NamedTuple):
    name: str
    desired: Json
    live: Json
    expected: list[tuple[str, str]]
    kind: str = "ConfigMap"


CASES = [
    Case("the same", {"data": {"a": "1"}}, {"data": {"a": "1"}}, []),
    Case("another value", {"data": {"a": "1"}}, {"data": {"a": "2"}}, [('  a: "1"', '  a: "2"')]),
    Case("a field that is gone", {"data": {"a": "x", "b": "z"}}, {"data": {"a": "x"}}, [("  b: z", "")]),
    Case("a field that others have added", {"data": {"a": "x"}}, {"data": {"a": "x", "b": "y"}}, []),
    Case("what is empty need not be there", {"data": {}}, {}, []),
    Case("a Secret by its hashes", {"data": {"p": "YQ=="}}, {"data": {"p": "YmI="}}, [], "Secret"),
    Case(
        "another spelling of a quantity, and what the server defaults",
        pod_spec({"name": "a", "resources": {"limits": {"cpu": "1000m"}}}),
        pod_spec(
            {"name": "a", "resources": {"limits": {"cpu": "1"}}, "imagePullPolicy": "Always"}, dnsPolicy="Default"
        ),
        [],
        "Deployment",
    ),
    Case(
        "containers by their names, also beside those that others have added",
        pod_spec({"name": "a", "image": "a:1"}),
        pod_spec({"name": "proxy", "image": "p:1"}, {"name": "a", "image": "a:2"}),
        [('      - image: "a:1"', '      - image: "a:2"')],
        "Deployment",
    ),
    Case(
        "a selector is a whole",
        {"spec": {"selector": {"app": "a"}}},
        {"spec": {"selector": {"app": "a", "tier": "b"}}},
        [("", "    tier: b")],
        "Service",
    ),
    Case("a list is a whole", {"x": ["a", "b"]}, {"x": ["a"]}, [("- b", "")], "Widget"),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_desired_beside_live(case: Case) -> None:
    about = {"apiVersion": "apps/v1" if case.kind == "Deployment" else "v1", "kind": case.kind}
    metadata = {"name": "a", "namespace": "shop"}
    manifest, live = {**about, "metadata": metadata, **case.desired}, {**about, "metadata": metadata, **case.live}
    live["metadata"] = {**metadata, "uid": "u", "labels": {"added": "by others"}}
    revision = Revision(digest="sha256:aa", objects=(manifest,), terms=Terms(inputs="", install_namespace="shop"))
    [target] = [each for each in make_targets(revision, Owner("shop", "u"), lambda _: True).targets if not each.bare]
    rows = compare_with_target(target, live, b"key")
    changed = [(left, right) for left, right, differs in rows if differs]
    if case.name == "a Secret by its hashes":
        [(left, right)] = changed
        assert (left[:11], right[:12]) == ('  p: "1 byt', '  p: "2 byte')
    else:
        assert changed == case.expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], ""),
        (
            [{"lastTransitionTime": "2026-01-01T00:00:00Z"}, {"lastTransitionTime": "2026-01-02T00:00:00Z"}],
            "2026-01-02T00:00:00Z",
        ),
        (["nonsense", {"lastTransitionTime": 1}], ""),
    ],
    ids=["none", "the latest", "nonsense"],
)
def test_since_when(conditions: list[Any], expected: str) -> None:
    assert find_last_change({"status": {"conditions": conditions}}) == expected


MAY_HAVE_PODS = [
    ("v1", "Pod", True),
    ("apps/v1", "Deployment", True),
    ("batch/v1", "CronJob", True),
    ("v1", "ConfigMap", False),
    ("example.com/v1", "Deployment", False),
]


@pytest.mark.parametrize(("version", "kind", "expected"), MAY_HAVE_PODS)
def test_only_what_may_have_pods_has_logs(version: str, kind: str, *, expected: bool) -> None:
    value = make(version, kind, "web")
    found, problem = try_to_read({**deployment(), "metadata": {"name": "shop", "uid": "u", "generation": 1}})
    assert found, problem
    node = Node(kind=kind, name="web", reason="")
    assert make_panel(found, Seen(value=value, line=[node]), [], [], b"key")["may_have_pods"] == expected
    above = Node(kind=kind, name="web", reason="", children=[Node(kind="Pod", name="web-0", reason="")])
    assert make_panel(found, Seen(value=value, line=[above]), [], [], b"key")["may_have_pods"]
