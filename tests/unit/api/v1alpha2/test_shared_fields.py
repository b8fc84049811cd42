from __future__ import annotations

from typing import Any

import pytest

from rukpak.api.v1alpha2 import reading
from rukpak.api.v1alpha2.reading import read
from rukpak.api.v1alpha2.types import BundleDeployment


def make(name: str, **spec: Any) -> BundleDeployment:
    source = {"kind": "image", "image": {"ref": f"example.com/{name}:1"}}
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
    return read({"metadata": metadata, "spec": {"format": "plain", "sources": [source], **spec}})


def test_models_of_one_shape_share_the_set_of_their_fields() -> None:
    one, other, paused = make("a"), make("b"), make("c", paused=True)
    assert one.model_fields_set is other.model_fields_set
    assert one.spec.sources[0].model_fields_set is other.spec.sources[0].model_fields_set
    assert one.spec.model_fields_set is other.spec.model_fields_set
    assert paused.spec.model_fields_set == one.spec.model_fields_set | {"paused"}


def test_a_changed_copy_of_one_changes_no_other() -> None:
    one, other = make("a"), make("b")
    changed = one.model_copy(update={"spec": one.spec.model_copy(update={"paused": True})})
    assert "paused" in changed.spec.model_fields_set
    assert "paused" not in other.spec.model_fields_set
    assert other.model_dump(exclude_unset=True)["spec"].keys() == {"format", "sources"}


def test_parameters_of_a_plug_in_are_no_fields_of_the_model() -> None:
    source = {"kind": "example.com/s3", "parameters": {"bucket": "a"}}
    parameters = make("a", sources=[source]).spec.sources[0].parameters
    assert parameters
    assert parameters.model_fields_set == {"bucket"}


def test_shapes_beyond_a_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[frozenset[str], set[str]] = {}
    monkeypatch.setattr(reading, "_SETS", known)
    monkeypatch.setattr(reading, "MOST_SETS", 1)
    one, other = make("a"), make("b")
    assert len(known) == 1
    assert one.spec.model_fields_set is not other.spec.model_fields_set
    assert one == make("a")
