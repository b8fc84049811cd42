"""What `hack/bench/sources requests` measures, and that it stays so."""

from __future__ import annotations

from hack.bench.sources import count


def test_servers_that_behave_get_no_request_more() -> None:
    rows = list(count())
    assert len(rows) > 20
    assert [row.title for row in rows if row.value != row.at_most] == []
