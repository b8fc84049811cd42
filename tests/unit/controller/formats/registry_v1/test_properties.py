"""For any bundle: rendering is pure, ignores the order of keys, and raises only BundleError."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Rendering
from rukpak.controller.formats.applicable import make_applicable, revision_digest
from rukpak.controller.formats.manifests import read_documents
from tests.support.operator_bundles import MODES, render, write_bundle

HELLO = Path(__file__).parents[4] / "data" / "registry-v1" / "hello-operator" / "bundle"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
CONFIG_KEYS = st.sampled_from(
    ["watchNamespace", "watchNamespaces", "certificateProvider", "deploymentConfig", "env", "affinity", "name", "x"]
)
CONFIG = st.recursive(
    JSON, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(CONFIG_KEYS, inner, max_size=3), max_leaves=6
)


def manifests() -> dict[str, Any]:
    paths = sorted((HELLO / "manifests").iterdir())
    return {f"manifests/{path.stem}.json": next(read_documents(path.read_bytes(), path.name)).value for path in paths}


MANIFESTS = manifests()


def rendered(values: dict[str, Any], config: Any = None) -> Rendering:
    with tempfile.TemporaryDirectory() as folder:
        files = {name: json.dumps(value) for name, value in values.items()}
        return render(write_bundle(Path(folder), None, files=files), config)


def revision(rendering: Rendering) -> str:
    made = make_applicable(rendering.objects, install_namespace="inst", is_namespaced=lambda *_: None)
    return revision_digest(made)


def shuffle(value: Any, random: Any) -> Any:
    if isinstance(value, list):
        return [shuffle(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.shuffle(keys)
    return {key: shuffle(value[key], random) for key in keys}


def test_rendering_twice_gives_equal_bytes() -> None:
    first, second = (json.dumps(rendered(MANIFESTS).objects) for _ in range(2))
    assert first == second


@given(st.randoms(use_true_random=False))
@settings(deadline=None)
def test_any_order_of_keys_gives_the_same_revision(random: Any) -> None:
    assert revision(rendered(shuffle(MANIFESTS, random))) == revision(rendered(MANIFESTS))


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


PLACES = [place for place in places(MANIFESTS) if place]


@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3))
@settings(deadline=None)
def test_a_bundle_with_anything_anywhere_is_rendered_or_refused(changes: list[tuple[Any, Any]]) -> None:
    values = copy.deepcopy(MANIFESTS)
    for (*path, last), value in changes:
        parent: Any = values
        try:
            for key in path:
                parent = parent[key]
            parent[last] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    try:
        revision(rendered(values))
    except BundleError as error:
        assert error.message


@given(CONFIG)
@settings(deadline=None)
def test_any_config_is_applied_or_refused(config: Any) -> None:
    values = copy.deepcopy(MANIFESTS)
    spec = values["manifests/csv.json"]["spec"]
    spec["installModes"] = [{"type": mode, "supported": True} for mode in MODES]
    spec["webhookdefinitions"] = []
    try:
        rendered(values, config)
    except BundleError as error:
        assert error.message


@pytest.mark.parametrize("name", ["manifests/csv.yaml", "metadata/annotations.yaml", "metadata/properties.yaml"])
@given(data=st.binary(max_size=60))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = {path: json.dumps(value) for path, value in MANIFESTS.items()}
        root = write_bundle(Path(folder), None, files=files)
        (root / name).write_bytes(data)
        try:
            render(root)
        except BundleError as error:
            assert error.message
