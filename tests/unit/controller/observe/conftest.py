from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fake_api import FakeApi
from tests.support.watching import CLAIMS, CLASSES, DEPLOYMENTS, MAPS, NEW_WIDGETS, OTHERS, WEBS, WIDGETS, World


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(DEPLOYMENTS, MAPS, WEBS, WIDGETS, NEW_WIDGETS, CLAIMS, CLASSES, *OTHERS) as api:
        made = World(api)
        yield made
        made.watches.stop()
