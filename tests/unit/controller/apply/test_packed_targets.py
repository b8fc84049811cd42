from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from controller.apply import targets as packed_targets
from controller.apply.ownership import Owner
from controller.apply.targets import PackedTargets, TargetSet, make_targets, pack_targets
from controller.build.revision import Revision, Terms
from controller.observe.records import ObjectKey

OWNER = Owner("shop", "uid")
RULES = {"ignore": [{"group": "", "kind": "ConfigMap", "name": "object-7", "paths": ["data.a"]}]}


def make_set(*objects: dict[str, Any]) -> TargetSet:
    terms = Terms(inputs="", install_namespace="shop", drift=RULES)
    revision = Revision(digest="sha256:1", objects=objects, terms=terms)
    return make_targets(revision, OWNER, orphan=False, is_namespaced=lambda kind: kind.kind != "Namespace")


def config_map(name: str, text: str = "1", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": text, "b": "2"}}


MANY = make_set(*(config_map(f"object-{number}") for number in range(200)))
ODD = make_set(
    config_map("object-7"),
    config_map("recreated", **{"core.rukpak.io/recreate": "true", "core.rukpak.io/optional": "true"}),
    {**config_map("surrogate", "\ud800"), "data": {"a": [1, 1.5, None, True, {"b": []}], "big": 1 << 70}},
)


def packed(wanted: TargetSet, *always: ObjectKey) -> PackedTargets:
    found = pack_targets(wanted, always)
    assert found
    return found


@pytest.mark.parametrize("wanted", [MANY, ODD, make_set()])
def test_what_is_unpacked_is_what_was_packed(wanted: TargetSet) -> None:
    assert packed(wanted).unpack(wanted.by_key) == wanted


def test_only_what_is_asked_for_is_unpacked_in_bundle_order_after_what_is_always_there() -> None:
    keys = [target.key for target in MANY.targets]
    found = packed(MANY, keys[9]).unpack([keys[150], keys[20], keys[100], ObjectKey("", "Secret", "shop", "x")])
    assert found
    assert [target.key for target in found.targets] == [keys[0], keys[9], keys[20], keys[100], keys[150]]
    assert MANY.targets[0].bare  # the install namespace
    assert (found.revision, found.resources) == (MANY.revision, MANY.resources)


def test_many_alike_need_little_memory() -> None:
    text = sum(len(str(target.manifest)) for target in MANY.targets)
    assert packed(MANY).size < text / 2


def test_a_few_large_ones_are_packed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_targets, "MOST_BYTES", 80_000)
    large = make_set(*(config_map(f"object-{number}", "x" * 8000) for number in range(8, 20)))
    found, keys = packed(large), [target.key for target in large.targets if not target.bare]
    assert len(found.blocks) == len(keys)
    assert found.unpack(keys[:2]) is not None
    assert found.unpack(keys) is None


TOO_MUCH: Any = []
for _ in range(3000):
    TOO_MUCH = [TOO_MUCH]
UNPACKABLE = [
    pytest.param("x" * packed_targets.MOST_BYTES, id="too large"),
    pytest.param(TOO_MUCH, id="nested too deeply"),
]


def test_large_ones_that_compress_badly_are_not_kept() -> None:
    def bundle(size: int) -> TargetSet:
        texts = (random.Random(number).randbytes(size // 2).hex() for number in range(80))
        return make_set(*(config_map(f"object-{number}", text) for number, text in enumerate(texts)))

    assert pack_targets(bundle(1000), ())
    assert pack_targets(bundle(3000), ()) is None


@pytest.mark.parametrize("value", UNPACKABLE)
def test_what_cannot_be_packed_is_not(value: Any) -> None:
    target = MANY.targets[1]
    odd = replace(target, manifest={**target.manifest, "data": value})
    assert pack_targets(replace(MANY, targets=(odd,), by_key={odd.key: odd}), ()) is None
