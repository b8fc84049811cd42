"""Objects of content with nonsense in them are corrected or refused with a message, and break nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Limits
from rukpak.controller.formats.applicable import (
    find_reserved_marks,
    make_applicable,
    revision_digest,
    without_reserved_marks,
)
from rukpak.controller.formats.helm.format import read_output
from rukpak.controller.formats.manifests import Document, TextBudget
from rukpak.controller.formats.objects import collect_objects, find_identity_problem
from rukpak.controller.kube.encoding import encode
from tests.support.nonsense import OBJECTS, nested, nonsense_in, objects_like

Item = dict[str, Any]
LIST = {"apiVersion": "v1", "kind": "List", "items": list(OBJECTS[:2])}


@given(st.lists(objects_like(*OBJECTS), max_size=3), st.sampled_from([None, True, False]))
def test_objects_are_made_applicable_or_refused(items: list[Item], scope: bool | None) -> None:
    with suppress(BundleError):
        revision_digest(make_applicable(items, install_namespace="shop", is_namespaced=lambda *_: scope))


@given(objects_like(*OBJECTS))
def test_marks_of_the_controller_are_found_and_dropped(item: Item) -> None:
    assert not find_reserved_marks(without_reserved_marks(item))


@given(st.lists(nonsense_in(LIST) | objects_like(*OBJECTS), max_size=3))
def test_lists_are_taken_apart_or_refused(items: list[Item]) -> None:
    with suppress(BundleError):
        for item in collect_objects(Document(each, "a.yaml", 1) for each in items):
            assert not find_identity_problem(item)


@given(objects_like(*OBJECTS), st.booleans())
def test_annotations_of_hooks_are_read(item: Item, skip_tests: bool) -> None:
    written = b"---\n# Source: c/templates/a.yaml\n" + encode(item)
    with suppress(BundleError):
        read_output(written, TextBudget(Limits()), skip_tests=skip_tests)


@given(objects_like(*OBJECTS), st.sampled_from(["map", "list", "both"]))
def test_the_deepest_nesting_that_is_read_breaks_nothing(item: Item, how: str) -> None:
    deep = {**item, "spec": nested(195, how)}
    with suppress(BundleError):
        revision_digest(make_applicable([deep], install_namespace="shop", is_namespaced=lambda *_: True))
