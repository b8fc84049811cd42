"""Settings of the tests of sources."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rukpak.api.plugins import Access
from rukpak.controller.sources import hosts as detours
from tests.support.clock import Unwaited

SECONDS = 1.5


@pytest.fixture(autouse=True)
def _quick_detours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report failures at another host than the spec names sooner than for users."""
    monkeypatch.setattr(detours, "SECONDS", SECONDS)
    monkeypatch.setattr(detours, "_MARGIN", 0.3)


@pytest.fixture
def access(request: pytest.FixtureRequest, tmp_path: Path) -> Access:
    """Access for a call of the source at the PATH of a module."""
    deadline = time.monotonic() + 250
    return Access(path=request.module.PATH, deadline=deadline, cancelled=Unwaited(), scratch=tmp_path)
