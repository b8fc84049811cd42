from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from controller.apply.pool import SLOW_SECONDS, ConcurrencyLimit, ConcurrencyLimits
from controller.kube.configuration import User
from controller.kube.errors import ApiError
from tests.support.clock import Clock

BUSY = ApiError(429, "TooManyRequests", "too many requests")
DENIED = ApiError(429, "TooManyRequests", 'admission webhook "x" denied the request: no')
GONE = ApiError(404, "NotFound", "gone")


@pytest.fixture
def concurrency(clock: Clock) -> ConcurrencyLimit:
    return ConcurrencyLimit(8, clock)


class Case(NamedTuple):
    name: str
    replies: list[tuple[float, ApiError | None]]
    """Each a second after the one before: how long it took, and what it said."""
    limits: list[int]


CASES = [
    Case("without trouble it is as high as may be", [(0.01, None)] * 2, [8, 8]),
    Case("each second that refuses halves it, down to one", [(0.01, BUSY)] * 5, [4, 2, 1, 1, 1]),
    Case("slow replies lower it by a quarter", [(SLOW_SECONDS + 1, None)] * 4, [6, 4, 3, 2]),
    Case("recovery raises it by one each second", [(0.01, BUSY), *[(0.01, None)] * 5], [4, 5, 6, 7, 8, 8]),
    Case("what a webhook denies is no load", [(0.01, DENIED)], [8]),
    Case("nor is another failure", [(0.01, GONE)], [8]),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_how_many_requests_may_be_under_way(case: Case, concurrency: ConcurrencyLimit, clock: Clock) -> None:
    limits = []
    for seconds, error in case.replies:
        clock.now += 1

        def send(seconds: float = seconds, error: ApiError | None = error) -> str:
            clock.now += seconds
            if error:
                raise error
            return "reply"

        if error:
            with pytest.raises(ApiError):
                concurrency.watch(send)
        else:
            assert concurrency.watch(send) == "reply"
        limits.append(concurrency.limit)
    assert limits == case.limits


def test_what_was_in_flight_together_counts_once(concurrency: ConcurrencyLimit) -> None:
    for _ in range(8):
        concurrency.learn(seconds=0.01, refused=True)
    assert concurrency.limit == 4


def test_what_does_not_change_it_holds_no_change_up(concurrency: ConcurrencyLimit) -> None:
    concurrency.learn(seconds=0.01, refused=False)
    concurrency.learn(seconds=0.01, refused=True)
    assert concurrency.limit == 4


def test_what_slows_one_tenant_slows_no_other(clock: Clock) -> None:
    limits = ConcurrencyLimits(8, clock)
    ann, hers, ben = (User.service_account(*name) for name in (("ann", "a"), ("ann", "b"), ("ben", "a")))
    limits.of(ann).learn(seconds=0.01, refused=True)
    assert [limits.of(user).limit for user in (ann, hers, ben, None)] == [4, 4, 8, 8]
