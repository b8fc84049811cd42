from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Hook
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.processors.patch import PatchProcessor, parse_selector
from tests.support.bundles import config_map, definition
from tests.support.objects import deployment, labelled, make
from tests.support.rendered import processed, requested

PATCH = PatchProcessor()
RED = {"data": {"color": "red"}}
OBJECTS = (
    labelled(config_map("a"), labels={"app": "web"}),
    labelled(config_map("b"), namespace="other", annotations={"example.com/order": "-2"}),
    make("example.com/v1", "ConfigMap", "a"),
    make("v1", "Namespace", "a"),
)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    target: dict[str, str]
    expect: list[int]


TARGETS = [
    Case("a kind of any group", {"kind": "ConfigMap"}, [0, 1, 2]),
    Case("a kind of the core group", {"group": "", "kind": "ConfigMap"}, [0, 1]),
    Case("a group", {"group": "example.com"}, [2]),
    Case("a name of any kind", {"name": "a"}, [0, 2, 3]),
    Case("a namespace", {"namespace": "other"}, [1]),
    Case("the install namespace, which is the default", {"namespace": "shop"}, [0, 2]),
    Case("labels", {"labelSelector": "app=web"}, [0]),
    Case("an annotation of any value", {"annotationSelector": "example.com/order"}, [1]),
    Case("an annotation of another value", {"annotationSelector": "example.com/order=1"}, []),
    Case("labels and annotations", {"labelSelector": "app", "annotationSelector": "!example.com/order"}, [0]),
    Case("labels that are not there", {"labelSelector": "!app", "kind": "ConfigMap"}, [1, 2]),
]


@pytest.mark.parametrize("case", TARGETS, ids=attrgetter("name"))
def test_what_a_target_selects(case: Case) -> None:
    before = copy.deepcopy(OBJECTS)
    result = processed(PATCH, {"target": case.target, "merge": RED, "optional": True}, *OBJECTS)
    assert [index for index, item in enumerate(result) if item.get("data") == RED["data"]] == case.expect
    assert before == OBJECTS


def test_the_waves_of_argo_cd_are_copied_as_the_page_says() -> None:
    page = (Path(__file__).parents[4] / "config" / "migration.md").read_text(encoding="utf-8")
    example = next(each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "sync-wave" in each)
    [processor] = yaml.safe_load(example)["spec"]["processors"]  # noqa: TID251 - our own page
    ordered = labelled(config_map("a"), annotations={"argocd.argoproj.io/sync-wave": "-3"})
    first, second = processed(PATCH, processor["patch"], ordered, config_map("b"))
    assert (first["metadata"]["annotations"][names.WAVE], second) == ("-3", config_map("b"))


def test_a_kind_whose_definition_is_in_the_bundle_has_its_scope() -> None:
    crd = definition("example.com", "Widget")
    crd["spec"]["scope"] = "Cluster"
    widget = make("example.com/v1", "Widget", "a")
    with pytest.raises(BundleError, match="matches no object"):
        processed(PATCH, {"target": {"kind": "Widget", "namespace": "shop"}, "merge": RED}, crd, widget)


def test_hooks_are_patched() -> None:
    hook = Hook(manifest=config_map("hook"), events=("pre-install",))
    request = requested({"target": {"name": "hook"}, "merge": RED}, hooks=[hook])
    assert PATCH.process(request).hooks[0].manifest["data"] == RED["data"]


def test_a_patch_that_selects_nothing_is_refused_unless_it_is_optional() -> None:
    parameters: dict[str, Any] = {"target": {"kind": "Secret"}, "merge": RED}
    with pytest.raises(BundleError) as caught:
        processed(PATCH, parameters, *OBJECTS)
    assert caught.value.reason is Reason.INVALID_CONFIG
    assert caught.value.message == "spec.processors[0].target: matches no object; correct it, or set optional: true"
    assert processed(PATCH, {**parameters, "optional": True}, *OBJECTS) == list(OBJECTS)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a path that is not there": (
        {"json": [{"op": "remove", "path": "/data/size"}]},
        "spec.processors[0].json[0]: /data/size: ConfigMap a: there is no such field or list item; correct the path",
    ),
    "a test that fails": (
        {"json": [{"op": "test", "path": "/data/color", "value": "secret"}]},
        "spec.processors[0].json[0]: /data/color: ConfigMap a: the value there is another one; correct path or value",
    ),
    "an object replaced by a text": (
        {"json": [{"op": "replace", "path": "", "value": "x"}]},
        "spec.processors[0]: ConfigMap a: the patch replaces the whole object; patch its fields",
    ),
    "copies of copies": (
        {
            "json": [
                {"op": "add", "path": "/data/color", "value": "x" * 100_000},
                *({"op": "copy", "from": "/data", "path": f"/data/a{index}"} for index in range(20)),
            ]
        },
        "spec.processors[0].json[4]: /data/a3: ConfigMap a: copies more than 1 MiB; add the values instead",
    ),
    "an unknown directive": (
        {"strategic": {"data": {"$patch": "melt"}}},
        "spec.processors[0].strategic: ConfigMap a: data.$patch: must be replace or delete",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_applied_is_refused_without_its_values(case: str) -> None:
    patch, message = REFUSED[case]
    with pytest.raises(BundleError) as caught:
        processed(PATCH, {"target": {"name": "a"}, **patch}, config_map("a"))
    assert (caught.value.reason, caught.value.message) == (Reason.INVALID_CONFIG, message)


def test_a_strategic_patch_of_a_custom_resource_is_refused() -> None:
    with pytest.raises(BundleError) as caught:
        processed(PATCH, {"target": {"name": "a"}, "strategic": RED}, make("example.com/v1", "Widget", "a"))
    expect = "Widget a: the merge keys of example.com/v1 Widget are not known; use merge or json"
    assert caught.value.message == f"spec.processors[0].strategic: {expect}"


def test_a_list_index_below_zero_is_not_in_rfc_6902() -> None:
    patch = [{"op": "remove", "path": "/spec/template/spec/containers/-1"}]
    with pytest.raises(BundleError, match="no such field or list item"):
        processed(PATCH, {"target": {"kind": "Deployment"}, "json": patch}, deployment("web"))


LIKE = "write it like app=web, tier!=cache, app in (a, b), app or !app"
PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "no patch": ({}, "p: set exactly one of merge, strategic and json"),
    "two patches": ({"merge": {}, "json": []}, "p: set exactly one of merge, strategic and json"),
    "no target": (
        {"merge": {}, "target": {}},
        "p.target: set at least one of group, kind, name, namespace, labelSelector and annotationSelector",
    ),
    "a wrong selector of annotations": (
        {"merge": {}, "target": {"annotationSelector": "=c"}},
        f'p.target.annotationSelector: "=c" is not a requirement; {LIKE}',
    ),
    "a wrong selector": (
        {"merge": {}, "target": {"labelSelector": "a=b,=c"}},
        f'p.target.labelSelector: "=c" is not a requirement; {LIKE}',
    ),
    "no value": (
        {"json": [{"op": "add", "path": "/a"}]},
        "p.json[0].value: must be set for add, replace and test, and only then",
    ),
    "no from": (
        {"json": [{"op": "move", "path": "/a"}]},
        "p.json[0].from: must be set for move and copy, and only then",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_parameters_are_checked(case: str) -> None:
    parameters, problem = PROBLEMS[case]
    assert PATCH.validate({"target": {"name": "a"}, **parameters}, "p") == [problem]


def test_a_value_of_null_is_a_value() -> None:
    operation = {"op": "add", "path": "/a", "value": None}
    assert PATCH.validate({"target": {"name": "a"}, "json": [operation]}, "p") == []


LABELS = {"app": "web", "example.com/tier": "front", "empty": ""}
MATCHING = [
    *("app", "!other", "app=web", "app==web", "app = web", "app!=api", "other!=web", "app in (web, api)", "empty="),
    *(
        "app notin (api)",
        "other notin (api)",
        "example.com/tier=front",
        "app=web,example.com/tier",
        "app in (a,web),!x",
    ),
]
OTHERS = ["other", "!app", "app=api", "app!=web", "app in (api)", "app notin (web,api)", "app=web,other", "app="]
MALFORMED = ["", "=a", "app=web,", "app in web", "app in (we b)", "a=b=c", "app>1", "-a", "a/b/c", "(app)"]


@pytest.mark.parametrize("text", MATCHING)
def test_labels_that_match(text: str) -> None:
    assert parse_selector(text)(LABELS)


@pytest.mark.parametrize("text", OTHERS)
def test_labels_that_do_not_match(text: str) -> None:
    assert not parse_selector(text)(LABELS)


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a requirement"):
        parse_selector(text)
