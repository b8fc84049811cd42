from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.web_servers import FileServer


@pytest.fixture
def file_server() -> Iterator[FileServer]:
    with FileServer().serving() as server:
        yield server
