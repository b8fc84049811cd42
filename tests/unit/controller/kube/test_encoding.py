from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.controller.kube.encoding import encode, parse_warnings
from rukpak.controller.untrusted import LEVELS, decode

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


@given(VALUES)
def test_what_was_encoded_is_decoded(value: object) -> None:
    assert decode(encode(value)) == value


ODD = [
    b"1e400", b"-Infinity", b"NaN", b"-0", b"1" * 5000, b"12345678901234567890123", b"0.1e-400", b"1E5", b"1.10", b"01",
    b"1.", b"-", b"123456789.123456789123456789", b'{"a":1,"a":2}', b"[1,]", b'"\\ud800"', b'"\\ud83d\\ude00"',
    b'"\\u0000"', b'"\x01"', b'"\xff"', b"\x00", b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b"", b" 1 ", b"1 2",
    b"[" * 300 + b"]" * 300,
]  # fmt: skip


def outcome(read: Callable[[bytes], object], data: bytes) -> str:
    try:
        return repr(read(data))
    except ValueError:
        return "refused"


@pytest.mark.parametrize("data", ODD)
def test_replies_are_read_as_json_reads_them(data: bytes) -> None:
    assert outcome(decode, data) == outcome(json.loads, data)


@given(st.binary(max_size=20) | st.text('[]{}",:\\u0d8-+.eE1 tn', max_size=20).map(str.encode))
def test_any_reply_is_read_as_json_reads_it(data: bytes) -> None:
    assert outcome(decode, data) == outcome(json.loads, data)


def nested(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * levels + "1" + closing * levels


def depth_of(value: object) -> int:
    layer, depth = [value], 0
    while layer := [item for each in layer if isinstance(each, dict | list) for item in _items(each)]:
        depth += 1
    return depth


def _items(value: dict[str, object] | list[object]) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else value


@pytest.mark.parametrize("levels", [1, 100, 500])
def test_what_is_nested_as_objects_are_is_read_as_it_is(levels: int) -> None:
    assert decode(nested(levels).encode()) == json.loads(nested(levels))


@pytest.mark.parametrize("levels", [501, 1500, 10_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('[{"]":', "}]")])
def test_what_is_nested_deeper_hides_nothing_else(levels: int, opening: str, closing: str) -> None:
    deep = nested(levels, opening, closing)
    value = decode(f'{{"first": "{{[", "deep": {deep}, "last": ["\\"]}}", "\u00e4"]}}'.encode())
    assert (value["first"], value["last"]) == ("{[", ['"]}', "\u00e4"])
    assert depth_of(value) == LEVELS


TEXTS = {
    "brackets": "]" * 5000,
    "brackets after a quote": '"' + "]" * 5000,
    "brackets after a backslash": "\\" + "]" * 5000,
    "brackets between quotes": '"]"' * 5000,
    "brackets between quotes and backslashes": '\\"]\\"' * 5000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_text_hides_how_deeply_something_is_nested(text: str) -> None:
    quoted = json.dumps(text)
    assert depth_of(decode(f"[{quoted}, {nested(1000)}, {quoted}]".encode())) == LEVELS
    wide = [text, [{}] * 1000, text]
    assert decode(json.dumps(wide).encode()) == wide


@pytest.mark.parametrize("text", ["{", "[" * 5000, "[" * 5000 + "]" * 4000, "]" * 5000, "[" * 5000 + '"', "{]" * 5000])
def test_what_is_no_json_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decode(text.encode())
