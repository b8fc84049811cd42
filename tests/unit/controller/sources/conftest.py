"""Settings of the tests of sources."""

from __future__ import annotations

import pytest

from controller.sources import hosts as detours

SECONDS = 1.5


@pytest.fixture(autouse=True)
def _quick_detours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report failures at another host than the spec names sooner than for users."""
    monkeypatch.setattr(detours, "SECONDS", SECONDS)
    monkeypatch.setattr(detours, "_MARGIN", 0.3)
