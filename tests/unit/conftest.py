"""What tests of single modules share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.support.clock import Clock

# By the clock on the wall hypothesis would fail a property of which one input takes 0.2 s, as on a machine under load.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test sets."""
    return Clock()
