"""Settings of the tests of sources."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rukpak.api.plugins import Access
from tests.support.clock import Unwaited


@pytest.fixture
def access(request: pytest.FixtureRequest, tmp_path: Path) -> Access:
    """Access for a call of the source at the PATH of a module."""
    deadline = time.monotonic() + 250
    return Access(path=request.module.PATH, deadline=deadline, cancelled=Unwaited(), scratch=tmp_path)
