from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api import names
from controller.apply.ownership import Owner
from controller.apply.targets import TargetSet, leave_out_missing, make_targets
from controller.build.revision import Revision, Terms

CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
WIDGET: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}},
}
KIND = {"group": "example.com", "kind": "Widget"}


def marked(value: str, manifest: dict[str, Any] = WIDGET) -> dict[str, Any]:
    return {**manifest, "metadata": {"name": "w", "annotations": {names.OPTIONAL: value}}}


def targets(*objects: dict[str, Any], kinds: tuple[dict[str, str], ...] = ()) -> TargetSet:
    terms = Terms(inputs="", install_namespace="shop", optional=kinds)
    revision = Revision(digest="sha256:aa", objects=objects, terms=terms)
    served = {"ConfigMap": True, "CustomResourceDefinition": False}
    return make_targets(revision, Owner("foo", "uid"), orphan=False, is_namespaced=lambda kind: served.get(kind.kind))


class Case(NamedTuple):
    name: str
    targets: TargetSet
    skipped: list[str]


CASES = [
    Case("an object that must be there is not skipped", targets(WIDGET), []),
    Case("one that is marked is", targets(marked("true"), CONFIG_MAP), ["w"]),
    Case("a mark that is not true means nothing", targets(marked("false")), []),
    Case("one of a kind that the spec names is", targets(WIDGET, CONFIG_MAP, kinds=(KIND,)), ["w"]),
    Case("a kind of another group is another", targets(WIDGET, kinds=({"group": "", "kind": "Widget"},)), []),
    Case("one whose kind is served is applied", targets(marked("true", CONFIG_MAP)), []),
    Case("one whose definition comes with it waits for that", targets(marked("true"), DEFINITION), []),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_skipped(case: Case) -> None:
    present = leave_out_missing(case.targets, lambda kind: kind.kind == "Widget")
    assert [target.key.name for target in present.skipped] == case.skipped
    assert present.targets == tuple(target for target in case.targets.targets if target not in present.skipped)


def test_what_is_skipped_is_wanted_all_the_same() -> None:
    whole = targets(marked("true"), CONFIG_MAP)
    present = leave_out_missing(whole, lambda kind: kind.kind == "Widget")
    assert present.by_key == whole.by_key
    assert {kind.kind for kind in present.kinds} == {"ConfigMap"}
    assert present.skipped_kinds == ("example.com/v1/Widget",)
