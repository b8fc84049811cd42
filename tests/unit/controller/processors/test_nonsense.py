"""Objects and patches of the right outer shape with nonsense inside: whatever they contain is no bug of ours."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Processor
from rukpak.controller.processors.images import ImagesProcessor
from rukpak.controller.processors.metadata import MetadataProcessor
from rukpak.controller.processors.patch import PatchProcessor
from rukpak.controller.processors.rollouts import RolloutsProcessor
from tests.support.rendered import processed

SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "y", "a=b", "1"])
)
NAMES = st.sampled_from(
    [
        *(
            "metadata",
            "name",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "spec",
            "template",
            "containers",
        ),
        *(
            "ports",
            "containerPort",
            "env",
            "envFrom",
            "configMapRef",
            "image",
            "selector",
            "matchLabels",
            "volumes",
            "tolerations",
            "$patch",
        ),
        *("$retainKeys", "$setElementOrder/finalizers", "$setElementOrder/containers", "$setElementOrder/ports"),
        *("$deleteFromPrimitiveList/finalizers", "$setElementOrder/tolerations", "$setElementOrder/x", "x"),
    ]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
MAPPINGS = st.dictionaries(NAMES, VALUES, max_size=4)
OPTIONAL = MAPPINGS | VALUES
POINTERS = st.lists(st.sampled_from(["spec", "metadata", "labels", "0", "-", "x", "~0", "01"]), max_size=4).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """Return an object with an identity, and anything else."""
    version, kind = draw(
        st.sampled_from([("apps/v1", "Deployment"), ("v1", "Pod"), ("v1", "Service"), ("x.io/v1", "X")])
    )
    metadata = {**draw(MAPPINGS), "name": "web"}
    namespace = draw(st.sampled_from([None, "shop"]))
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **{key: draw(VALUES) for key in ("spec", "x")}}


@st.composite
def patches(draw: st.DrawFn) -> dict[str, Any]:
    """Return parameters of the processor `patch` as the schema admits them."""
    target = draw(
        st.sampled_from([{"kind": "Deployment"}, {"labelSelector": "a=b,!c"}, {"labelSelector": "x in (y, z)"}])
    )
    way = draw(st.sampled_from(["merge", "strategic", "json"]))
    if way != "json":
        return {"target": target, "optional": True, way: draw(MAPPINGS)}
    operations = [
        {"op": op, "path": draw(POINTERS), **({"value": draw(VALUES)} if op in ("add", "replace", "test") else {})}
        | ({"from": draw(POINTERS)} if op in ("move", "copy") else {})
        for op in draw(st.lists(st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), max_size=4))
    ]
    return {"target": target, "optional": True, way: operations}


def survives(processor: Processor, parameters: dict[str, Any], item: dict[str, Any]) -> None:
    with suppress(BundleError):
        processed(processor, parameters, item)


def strategic(patch: dict[str, Any]) -> dict[str, Any]:
    return {"target": {"kind": "Pod"}, "optional": True, "strategic": patch}


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "finalizers": ["a"], "labels": {"a": ["b"], "x": {}}},
}


@given(patches(), objects())
@example(strategic({"metadata": {"$setElementOrder/finalizers": [["a"]]}}), POD)
@example(strategic({"metadata": {"finalizers": [["y"]]}}), POD)
@example(strategic({"metadata": {"$deleteFromPrimitiveList/finalizers": [["a"]]}}), POD)
@example({"target": {"labelSelector": "a=b"}, "merge": {}}, POD)
@example({"target": {"labelSelector": "x notin (y)"}, "merge": {}}, POD)
def test_a_patch_fails_with_a_message_alone(parameters: dict[str, Any], item: dict[str, Any]) -> None:
    survives(PatchProcessor(), parameters, item)


@given(st.booleans(), objects())
def test_labels_and_annotations_are_added_or_refused(everywhere: bool, item: dict[str, Any]) -> None:
    survives(MetadataProcessor(), {"labels": {"a": "b"}, "annotations": {"c": "d"}, "podTemplates": everywhere}, item)


@given(objects())
def test_images_are_replaced_or_left(item: dict[str, Any]) -> None:
    fields = [{"group": "x.io", "kind": "X", "paths": ["spec.containers.image", "x"]}]
    survives(ImagesProcessor(), {"images": [{"from": "docker.io", "to": "mirror.io"}], "imageFields": fields}, item)


@given(objects(), OPTIONAL)
def test_digests_are_added_or_not(item: dict[str, Any], data: Any) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": data}
    processed(RolloutsProcessor(), {}, item, config, config | {"kind": "Secret", "stringData": data})
