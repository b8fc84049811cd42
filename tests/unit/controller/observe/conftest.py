from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.watching import World, serving


@pytest.fixture
def world() -> Iterator[World]:
    with serving() as made:
        yield made
