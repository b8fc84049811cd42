from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.plugins import CustomKind
from rukpak.controller.building.revision import (
    Revision,
    Terms,
    has_objects,
    measure,
    pack,
    pack_objects,
    pack_terms,
    unpack_terms,
)
from rukpak.controller.formats.applicable import revision_digest

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=4).map(tuple)
TEXT_MAPS = st.dictionaries(st.text(), st.text(), max_size=2)
CUSTOM_KINDS = st.builds(CustomKind, has_status=st.booleans(), schema=st.dictionaries(st.text(), JSON, max_size=2))
TERMS = st.builds(
    Terms,
    inputs=st.text(),
    install_namespace=st.text(),
    service_account_name=st.text(),
    pins=st.lists(TEXT_MAPS, max_size=2).map(tuple),
    drift=st.none() | st.dictionaries(st.text(), JSON, max_size=2),
    optional=st.lists(TEXT_MAPS, max_size=2).map(tuple),
    left=st.lists(st.text(), max_size=2).map(tuple),
    custom=st.lists(st.tuples(st.text(), st.text(), st.text(), st.none() | CUSTOM_KINDS), max_size=2).map(tuple),
    kinds=st.lists(st.tuples(st.text(), st.text(), st.text(), st.booleans()), max_size=2).map(tuple),
)
REVISION = Revision(
    digest="sha256:aa",
    objects=({"kind": "ConfigMap", "metadata": {"name": "a"}},),
    terms=Terms(inputs="sha256:bb", install_namespace="shop"),
)


@given(objects=OBJECTS, hooks=OBJECTS, terms=TERMS)
def test_packed_objects_and_terms_are_unpacked(objects: tuple[Any, ...], hooks: tuple[Any, ...], terms: Terms) -> None:
    revision = Revision(
        digest="sha256:aa", objects=objects, hooks=hooks, terms=terms, warnings=("a",), namespace={"labels": {}}
    )
    again = unpack_terms("sha256:aa", pack_terms(revision), pack_objects(revision)).unpacked()
    assert again == revision
    assert revision_digest(again.objects, again.hooks) == revision_digest(objects, hooks)


def test_text_that_is_not_unicode_is_preserved() -> None:
    revision = Revision(digest="", objects=({"data": "\ud800"},), terms=REVISION.terms)
    assert unpack_terms("", pack_terms(revision), pack_objects(revision)).unpacked() == revision


def test_equal_revisions_give_equal_bytes() -> None:
    again = Revision(digest="another", objects=({**REVISION.objects[0]},), terms=REVISION.terms)
    assert pack_objects(again) == pack_objects(REVISION)


def packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode())


GOOD_OBJECTS, GOOD_TERMS = pack_objects(REVISION), pack_terms(REVISION)
DEEP = b"[" * 200_000
TAMPERED = [
    pytest.param(b"", GOOD_TERMS, id="no objects"),
    pytest.param(GOOD_OBJECTS[:-1], GOOD_TERMS, id="cut objects"),
    pytest.param(b"objects", GOOD_TERMS, id="objects that are not compressed"),
    pytest.param(packed([]), GOOD_TERMS, id="objects that are a list"),
    pytest.param(packed({"objects": []}), GOOD_TERMS, id="no hooks"),
    pytest.param(packed({"objects": 1, "hooks": []}), GOOD_TERMS, id="objects that are a number"),
    pytest.param(zlib.compress(b"\xff"), GOOD_TERMS, id="objects that are no text"),
    pytest.param(zlib.compress(DEEP), GOOD_TERMS, id="objects nested without end"),
    pytest.param(GOOD_OBJECTS, b"", id="no terms"),
    pytest.param(GOOD_OBJECTS, b"{}", id="terms without a format"),
    pytest.param(GOOD_OBJECTS, b'"v1"', id="terms that are a text"),
    pytest.param(GOOD_OBJECTS, b"1", id="terms that are a number"),
    pytest.param(GOOD_OBJECTS, b"[]", id="terms that are a list"),
    pytest.param(GOOD_OBJECTS, DEEP, id="terms nested without end"),
    pytest.param(GOOD_OBJECTS, GOOD_TERMS.replace(b'"v1"', b'"v2"'), id="terms of another format"),
    pytest.param(GOOD_OBJECTS, GOOD_TERMS.replace(b'"inputs"', b'"input"'), id="terms with another field"),
]


@pytest.mark.parametrize(("objects", "terms"), TAMPERED)
def test_damaged_bytes_are_refused(objects: bytes, terms: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which of them it is says nothing
        unpack_terms("sha256:aa", terms, objects).unpacked()


@given(objects=OBJECTS)
def test_its_size_is_known_without_unpacking_it(objects: tuple[dict[str, Any], ...]) -> None:
    packed = pack_objects(Revision(digest="sha256:aa", objects=objects, terms=REVISION.terms))
    text = zlib.decompress(packed)
    size = measure(packed)
    assert size.text_bytes == len(text)
    assert size.values == sum(map(text.count, (b",", b"{", b"[")))


def test_damaged_objects_have_no_size() -> None:
    with pytest.raises(ValueError, match="error"):
        measure(b"damaged")


def test_a_packed_revision_is_unpacked_unchanged() -> None:
    assert pack(REVISION).unpacked() == REVISION


@pytest.mark.parametrize(("objects", "expected"), [((), False), (REVISION.objects, True)], ids=["none", "one"])
@pytest.mark.parametrize("hooks", [(), ({"manifest": {}},)], ids=["no hooks", "a hook"])
def test_whether_a_revision_has_objects_is_known_without_unpacking_it(
    objects: tuple[Any, ...], hooks: tuple[Any, ...], *, expected: bool
) -> None:
    revision = replace(REVISION, objects=objects, hooks=hooks)
    assert (has_objects(revision), has_objects(pack(revision))) == (expected, expected)
