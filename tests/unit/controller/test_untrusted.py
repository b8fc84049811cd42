"""Values of another type than expected count as missing."""

from __future__ import annotations

from typing import Any

from rukpak.controller.untrusted import field, integer, mapping, mappings, number, sequence, strings, text, texts

VALUE: dict[str, Any] = {"a": {"b": [1, "x", {"c": None}, True], "d": "y", "e": 2, "f": 0.5, "g": False}}


def test_a_value_of_its_type_is_found() -> None:
    assert (field(VALUE, "a", "d"), text(VALUE, "a", "d"), texts(VALUE, "a", "b")) == ("y", "y", ["x"])
    assert (integer(VALUE, "a", "e"), number(VALUE, "a", "f"), strings(VALUE, "a")) == (2, 0.5, {"d": "y"})
    assert (mapping(VALUE), strings({"a": "b"})) == (VALUE, {"a": "b"})
    assert (list(sequence(VALUE, "a", "b")), list(mappings(VALUE, "a", "b"))) == (VALUE["a"]["b"], [{"c": None}])


def test_a_value_of_another_type_is_missing() -> None:
    assert (field(VALUE, "a", "d", "x"), field(VALUE, "z", "d"), text(VALUE, "a", "e")) == (None, None, "")
    assert (integer(VALUE, "a", "g"), integer(VALUE, "a", "f"), number(VALUE, "a", "g")) == (None, None, None)
    assert (mapping(None), mapping(VALUE, "a", "b"), texts(VALUE, "a", "d")) == ({}, {}, [])
    assert (list(sequence(VALUE, "a", "d")), list(mappings(VALUE, "a"))) == ([], [])
