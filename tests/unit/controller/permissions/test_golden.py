"""What real bundles may do: the lines in tests/data/permissions, which a person has read and found true."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest

from tests.support.golden_permissions import BUNDLES, describe, read_bundle


def test_there_are_at_least_twelve() -> None:
    assert len(BUNDLES) >= 12


@pytest.mark.parametrize("folder", BUNDLES, ids=attrgetter("name"))
def test_what_a_real_bundle_may_do(folder: Path) -> None:
    assert describe(read_bundle(folder)) == (folder / "expected.txt").read_text()
