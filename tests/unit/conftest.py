"""What tests of single modules share."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test sets."""
    return Clock()
