from __future__ import annotations

import copy
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.names import OWNER_LABEL, OWNER_UID
from rukpak.controller.processors.metadata import MetadataProcessor
from tests.support.bundles import config_map
from tests.support.objects import deployment, labelled, make
from tests.support.rendered import processed

METADATA = MetadataProcessor()


def test_labels_and_annotations_are_added_to_what_is_there() -> None:
    item = labelled(config_map("a"), labels={"app": "web", "team": "x"})
    parameters = {"labels": {"team": "shop"}, "annotations": {"note": "n"}}
    [changed] = processed(METADATA, parameters, item)
    assert changed["metadata"] == {"name": "a", "labels": {"app": "web", "team": "shop"}, "annotations": {"note": "n"}}
    assert item["metadata"]["labels"]["team"] == "x"


def test_pod_templates_only_on_request_and_selectors_never() -> None:
    item = deployment("web")
    before = copy.deepcopy(item)
    [without] = processed(METADATA, {"labels": {"team": "shop"}}, item)
    [changed] = processed(METADATA, {"labels": {"team": "shop"}, "podTemplates": True}, item)
    assert without["spec"] == changed["spec"] | {"template": before["spec"]["template"]} == before["spec"]
    assert changed["spec"]["template"]["metadata"]["labels"] == {"app": "web", "team": "shop"}
    assert item == before


@pytest.mark.parametrize("kind", ["Deployment", "ReplicationController"])
def test_a_label_that_a_selector_needs_is_refused(kind: str) -> None:
    selector: dict[str, Any] = {"matchLabels": {"app": "web"}} if kind == "Deployment" else {"app": "web"}
    version = "apps/v1" if kind == "Deployment" else "v1"
    item = make(version, kind, "web", spec={"selector": selector, "template": {"metadata": {"labels": {"app": "web"}}}})
    assert processed(METADATA, {"labels": {"app": "web"}, "podTemplates": True}, item)
    with pytest.raises(BundleError) as caught:
        processed(METADATA, {"labels": {"app": "other"}, "podTemplates": True}, item)
    expect = f"{kind} web selects its pods by another value of this label; set podTemplates: false"
    assert caught.value.message == f'spec.processors[0].labels["app"]: {expect}'


def test_parameters_are_checked() -> None:
    assert METADATA.validate({"podTemplates": True}, "p") == ["p: set labels or annotations"]
    assert METADATA.validate({"labels": {OWNER_LABEL: "a"}, "annotations": {OWNER_UID: "b", "c": "d"}}, "p") == [
        f'p.labels["{OWNER_LABEL}"]: belongs to the controller; remove it',
        f'p.annotations["{OWNER_UID}"]: belongs to the controller; remove it',
    ]
