"""Any spec that the API server admits, and any values, are checked, merged and matched, or refused with a message."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.controller.building.config_values import merge_config
from rukpak.controller.building.entry_points import find_installed, format_of
from rukpak.controller.building.request import check, match_pins, recall_pins
from rukpak.controller.building.revision import unpack_terms
from rukpak.controller.formats.helm.values import merge_values
from tests.support.nonsense import DEPLOYMENT, IDENTITY, OBJECTS, PIN, json_values, nonsense_in

FORMATS = [each.name for each in find_installed() if each.type == "format"]
KEPT = {*IDENTITY, ("metadata", "uid"), ("metadata", "resourceVersion")}
TEXTS = st.sampled_from([b"a: 1", b"[]", b"\xff", b"{a: {b: 1}}", b"values: 1", b"", None])
CONFIG = {
    "values": {"a": 1},
    "valuesFiles": ["a"],
    "releaseName": "a",
    "watchNamespace": "a",
    "deploymentConfig": {
        "env": [{"name": "a", "value": "b"}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a"}],
        "resources": {"limits": {"cpu": 1}},
        "volumes": [{"name": "a"}],
        "affinity": {"nodeAffinity": {}},
    },
}
TERMS = {
    "format": "v1",
    "warnings": ["a"],
    "namespace": {"labels": {"a": "b"}},
    "inputs": "a",
    "rendered_from": "b",
    "install_namespace": "c",
    "service_account_name": "d",
    "pins": [PIN],
    "drift": {"ignore": [{"kind": "a", "paths": ["a"]}]},
    "optional": [{"group": "a", "kind": "b"}],
    "account": {"uid": "a"},
    "held": "a",
    "left": ["v1/ConfigMap a b"],
    "past": ["apps/v1/Deployment a b"],
    "kinds": [["a", "b", "c", True]],
}
STORED = {"objects": list(OBJECTS[:2]), "hooks": [{"manifest": OBJECTS[8], "events": ["pre-install"], "weight": 0}]}


@given(nonsense_in(DEPLOYMENT, KEPT), TEXTS)
def test_any_spec_is_checked_and_its_config_is_merged(item: dict[str, Any], text: bytes | None) -> None:
    deployment, _ = try_to_read(item)
    if deployment is None:
        return
    spec = deployment.spec
    with suppress(BundleError):
        check(spec)
        match_pins(spec, deployment.status.sources)
        merge_config(spec, [text] * len(spec.config_from))


@given(nonsense_in(CONFIG, most=5), json_values("a", "b"))
def test_any_config_is_valid_or_has_problems(config: dict[str, Any], values: Any) -> None:
    for plugin in map(format_of, FORMATS):
        assert all(isinstance(problem, str) for problem in plugin.validate(config))
    merged = merge_values(config, values if isinstance(values, dict) else {})
    assert merged.keys() >= config.keys()


@given(st.lists(nonsense_in(PIN), max_size=2))
def test_any_pins_are_recalled_or_none(pins: list[dict[str, Any]]) -> None:
    assert len(recall_pins(pins)) in (0, len(pins))


@given(nonsense_in(TERMS), nonsense_in(STORED))
def test_any_stored_revision_is_unpacked_or_damaged(terms: dict[str, Any], content: dict[str, Any]) -> None:
    with suppress(ValueError):
        unpack_terms("sha256:a", json.dumps(terms).encode(), zlib.compress(json.dumps(content).encode())).unpacked()
