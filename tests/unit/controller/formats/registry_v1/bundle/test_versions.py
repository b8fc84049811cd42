"""Versions: what blang/semver's ParseTolerant accepts."""

from __future__ import annotations

import pytest

from controller.formats.registry_v1.bundle.typed import is_version

VERSIONS = [
    "1.2.3",
    "v1.2.3",
    " 1.2.3 ",
    "1",
    "1.2",
    "0.0.0",
    "01.002.0003",
    "1.2.3-rc.1",
    "1.2.3-0a.x-y+b.01",
    "1.2.3+b",
    "1.2.03-rc",
    "1.2.0-0",
    "1.2.3--",
]
OTHERS = [
    "",
    "v",
    "foo",
    "1.2.3.4",
    "1.x",
    "1.2.3-",
    "1.2.3+",
    "1.2.3-01",
    "1.2.3-a..b",
    "1.2-rc",
    "1+b",
    "1.2.3-a_b",
    "-1.2.3",
    "V1.2.3",
    "vv1",
    "1..3",
    "1.2.",
    "1.2.3 4",
    "1.2.99999999999999999999",
    "१.2.3",
]


@pytest.mark.parametrize("text", VERSIONS)
def test_versions(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts(text: str) -> None:
    assert not is_version(text)
