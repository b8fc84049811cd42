"""Namespaces, equal objects, and the digest of a revision."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import BundleError
from controller.formats.applicable.applicable import make_applicable, revision_digest, scopes_of_crds
from tests.unit.controller.formats.objects import CRD, Case, Object, applicable, make, parse, refusal

# fmt: off
NAMESPACES = [
    Case("a namespaced object without namespace gets the install namespace", make("ConfigMap"),
         make("ConfigMap", metadata={"namespace": "install"})),
    Case("an empty namespace is none", make("ConfigMap", metadata={"namespace": ""}),
         make("ConfigMap", metadata={"namespace": "install"})),
    Case("a null namespace is none", make("ConfigMap", metadata={"namespace": None}),
         make("ConfigMap", metadata={"namespace": "install"})),
    Case("a namespace of the object's own stays", make("ConfigMap", metadata={"namespace": "n"}),
         make("ConfigMap", metadata={"namespace": "n"})),
    Case("the namespace of a cluster-scoped object goes", make("Namespace", metadata={"namespace": "n"}),
         make("Namespace")),
    Case("without a known scope nothing is added", make("Thing", "e.x/v1"), make("Thing", "e.x/v1")),
    Case("without a known scope nothing is removed", make("Thing", "e.x/v1", {"namespace": "n"}),
         make("Thing", "e.x/v1", {"namespace": "n"})),
]
# fmt: on


@pytest.mark.parametrize("case", NAMESPACES, ids=attrgetter("name"))
def test_the_namespace_of_an_object(case: Case) -> None:
    assert applicable(case.given) == [case.expect]


@pytest.mark.parametrize(("scope", "namespace"), [("Namespaced", "install"), ("Cluster", None)])
def test_a_crd_of_the_bundle_decides_the_scope_before_the_cluster(scope: str, namespace: str | None) -> None:
    crd, thing = *parse(CRD.replace("SCOPE", scope)), make("Thing", "e.x/v3")
    result = make_applicable([thing, crd], install_namespace="install", is_namespaced=lambda *_: scope == "Cluster")
    assert result[0]["metadata"].get("namespace") == namespace
    assert scopes_of_crds([thing, crd]) == {("e.x", "Thing"): scope == "Namespaced"}


def test_objects_that_are_equal_by_their_namespace_are_refused() -> None:
    message = refusal(make("ConfigMap"), make("ConfigMap", metadata={"namespace": "install"}))
    assert message == "ConfigMap install/a: defined twice in the bundle; remove one"


def test_the_namespace_of_a_kind_that_is_not_served_distinguishes() -> None:
    objects = [make("Thing", "e.x/v1"), make("Thing", "e.x/v1", {"namespace": "n"})]
    assert applicable(*objects) == objects


def test_the_cluster_is_asked_once_for_a_kind() -> None:
    asked: list[tuple[str, str, str]] = []

    def answer(group: str, version: str, kind: str) -> None:
        asked.append((group, version, kind))

    things = [make("Thing", "e.x/v1"), {**make("Thing", "e.x/v1"), "metadata": {"name": "b"}}, make("Secret")]
    make_applicable(things, install_namespace="n", is_namespaced=answer)
    assert asked == [("e.x", "v1", "Thing"), ("", "v1", "Secret")]


def test_unchanged_parts_are_shared() -> None:
    given_object = make("ConfigMap", data={"a": "b"})
    assert applicable(given_object)[0]["data"] is given_object["data"]


def test_the_digest_is_that_of_canonical_json() -> None:
    # printf '{"hooks":[],"objects":[{"a":"ä","b":[1,null]}]}' | sha256sum
    expected = "sha256:3911f26df3b12987f54a90212d32f1e1395aae37e6d586981e74b54eb5d6be0b"
    assert revision_digest([{"b": [1, None], "a": "ä"}]) == expected


DIFFERENT: list[Callable[[], str]] = [
    lambda: revision_digest([]),
    lambda: revision_digest([{"a": 1}]),
    lambda: revision_digest([{"a": "1"}]),
    lambda: revision_digest([{"a": 1}, {"b": 1}]),
    lambda: revision_digest([{"b": 1}, {"a": 1}]),
    lambda: revision_digest([{"a": [1, 2]}]),
    lambda: revision_digest([{"a": [2, 1]}]),
    lambda: revision_digest([], [{"a": 1}]),
    lambda: revision_digest([{"a": 1}], [{"a": 1}]),
]


def test_different_content_has_different_digests() -> None:
    digests = [make_digest() for make_digest in DIFFERENT]
    assert len(set(digests)) == len(digests)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=15,
)
OBJECTS = st.builds(
    lambda kind, name, labels, fields: {**fields, **make(kind, metadata={"name": name, "labels": labels})},
    st.sampled_from(["ConfigMap", "Secret", "Pod", "Service", "Namespace", "Thing"]),
    st.text(min_size=1),
    st.dictionaries(st.text(), st.text() | st.none(), max_size=3),
    st.dictionaries(st.sampled_from(["spec", "data", "stringData", "status", "type"]), VALUES),
)


def shuffled(value: Any, dice: random.Random) -> Any:
    """Return an equal value with the keys of all mappings in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], dice) for key in dice.sample(list(value), len(value))}
    return [shuffled(item, dice) for item in value] if isinstance(value, list) else value


def digest_or_refusal(objects: list[Object]) -> str:
    try:
        return revision_digest(applicable(*objects))
    except BundleError as error:
        return error.message.partition(":")[0]


@given(st.lists(OBJECTS, max_size=4), st.randoms(use_true_random=False))
def test_any_order_of_keys_gives_the_same_revision(objects: list[Object], dice: random.Random) -> None:
    before = json.dumps(objects)
    assert digest_or_refusal(objects) == digest_or_refusal(shuffled(objects, dice))
    assert json.dumps(objects) == before


@given(st.lists(VALUES, max_size=4))
def test_values_that_are_not_objects_are_bundle_errors(values: list[Any]) -> None:
    if not values:
        return
    assert refusal(*values).startswith("objects[0]: ")
