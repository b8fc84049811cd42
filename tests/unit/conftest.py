"""Fixtures and settings of unit tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.support.clock import Clock


def pytest_configure(config: pytest.Config) -> None:
    """Set how many inputs hypothesis draws for a property that does not say so."""
    examples = 100 if config.getoption("--all") else 10
    # By wall-clock time, it would fail a property if one input takes 0.2 s, as on a busy machine.
    settings.register_profile(
        "unhurried", deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("unhurried")


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test sets."""
    return Clock()
