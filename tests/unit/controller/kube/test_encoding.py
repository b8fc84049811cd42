from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.encoding import encode, parse_warnings

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=10,
)


@given(VALUES)
def test_json_reads_what_was_encoded(value: object) -> None:
    assert json.loads(encode(value)) == value


@pytest.mark.parametrize("number", [0x7F, 0x85, 0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF])
def test_what_yaml_refuses_or_folds_is_escaped(number: int) -> None:
    assert encode(chr(number)) == f'"\\u{number:04x}"'.encode()


def test_an_emoji_is_not_made_a_pair_of_surrogates() -> None:
    assert encode("\U0001f600") == '"\U0001f600"'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud83d"], ids=["NaN", "infinity", "lone surrogate"])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON|surrogates"):
        encode(value)


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        (['299 - "v1 is deprecated"'], ("v1 is deprecated",)),
        (['299 - "a"', '299 - "b"', '299 - "a"'], ("a", "b")),
        (['299 - "a", 299 - "b"'], ("a", "b")),
        ([r'299 - "unknown field \"spec.x\""'], ('unknown field "spec.x"',)),
        (["nonsense"], ()),
    ],
    ids=["one", "each once", "several in one header", "quotes", "nonsense"],
)
def test_warnings(headers: list[str], texts: tuple[str, ...]) -> None:
    assert parse_warnings(headers) == texts
