"""Scalars as Kubernetes reads them: the table of sigs.k8s.io/yaml."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from rukpak.controller.formats.manifests import read_documents


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    expect: Any


SCALARS = [
    Case("yes is true", "yes", True),
    Case("y is true", "y", True),
    Case("n is false, also where a name was meant", "n", False),
    Case("off is false", "off", False),
    Case("on in quotes is text", "'on'", "on"),
    Case("yes in odd case is text", "yEs", "yEs"),
    Case("a leading zero makes an octal number", "0755", 493),
    Case("0o makes an octal number", "0o14", 12),
    Case("0x makes a hexadecimal number", "0x1F", 31),
    Case("0b makes a binary number", "0b11", 3),
    Case("a leading zero before an 8 makes a decimal number", "08", 8),
    Case("underscores are left out of numbers", "1_000", 1000),
    Case("a sign may precede a number", "-0x10", -16),
    Case("a hexadecimal number with a sign inside is text", "0x-1", "0x-1"),
    Case("an integral float becomes an integer", "1.0", 1),
    Case("an exponent makes a number", "1e3", 1000),
    Case("a fraction remains a float", "1.10", 1.1),
    Case("a float beyond float64 remains text", "1e400", "1e400"),
    Case("the greatest unsigned integer of 64 bits is exact", "18446744073709551615", 18446744073709551615),
    Case("the least integer of 64 bits is exact", "-9223372036854775808", -9223372036854775808),
    Case("an integer beyond 64 bits becomes a float", "123456789012345678901234567890", 1.2345678901234568e29),
    Case("an integer of 5,000 digits remains text", "9" * 5000, "9" * 5000),
    Case("a large integral float has the digits of its shortest form", "0949938179606439654", 949938179606439700),
    Case("an integral float that fits 64 bits only by rounding remains a float", "9223372036854775807.0", 2.0**63),
    Case("an integer with the tag !!float is rounded", "!!float 9007199254740993", 9007199254740992),
    Case("a pair of numbers is text, not sexagesimal", "22:22", "22:22"),
    Case("a date is text", "2001-12-14", "2001-12-14"),
    Case("a time is text", "2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
    Case("a version is text", "1.2.3", "1.2.3"),
    Case("a quantity is text", "100m", "100m"),
    Case("an equals sign is text", "=", "="),
    Case("a merge sign as a value is text", "<<", "<<"),
    Case("nothing is null", "", None),
    Case("a tilde is null", "~", None),
    Case("the tag ! makes text", "! 12", "12"),
    Case("a tag of nobody makes text", "!foo 12", "12"),
    Case("the tag !!str makes text", "!!str 12", "12"),
    Case("the tag !!int reads text in quotes", '!!int "12"', 12),
    Case("the tag !!float reads an integer", "!!float 1", 1),
    Case("the tag !!bool reads yes", "!!bool yes", True),
    Case("the tag !!null reads a tilde", "!!null ~", None),
    Case("the tag !!timestamp makes text", "!!timestamp 2001-01-01", "2001-01-01"),
    Case("the tag !!binary is decoded", "!!binary aGVsbG8=", "hello"),
    Case("escapes are those of YAML", r'"\x41\u00e9\/"', "Aé/"),
    Case("a tab may follow the colon", "\tx", "x"),
    Case("infinity in quotes is text", "'.inf'", ".inf"),
]


@pytest.mark.parametrize("case", SCALARS, ids=attrgetter("name"))
def test_a_scalar(case: Case) -> None:
    (document,) = read_documents(f"v: {case.text}\n".encode(), "x.yaml")
    assert document.value == {"v": case.expect}
    assert type(document.value["v"]) is type(case.expect)
