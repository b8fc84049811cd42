from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from controller.sharing.places import Places
from hack.control_plane.waiting import wait_for

SECONDS = 10
GOES_ON = threading.Event()


@contextmanager
def waiting(places: Places, share: str, cancelled: threading.Event = GOES_ON) -> Iterator[list[bool]]:
    """Ask for a place on another thread; what it gets is in the list."""
    got: list[bool] = []

    def ask() -> None:
        with places.place(share, cancelled) as holds:
            got.append(holds)

    thread = threading.Thread(target=ask)
    thread.start()
    yield got
    thread.join(SECONDS)


def test_a_share_that_takes_all_it_gets_leaves_places_to_another() -> None:
    places = Places(4)
    with ExitStack() as held:
        assert [held.enter_context(places.place("ann", GOES_ON)) for _ in range(2)] == [True, True]
        with waiting(places, "ann") as more:
            with places.place("ben", GOES_ON) as holds:
                assert holds
            assert more == []
            held.close()
            wait_for(lambda: more == [True], SECONDS, "the place that was given back")


def test_a_wait_ends_when_nobody_needs_the_result_any_more() -> None:
    places, cancelled = Places(1), threading.Event()
    with places.place("ann", GOES_ON), waiting(places, "ben", cancelled) as got:
        cancelled.set()
        wait_for(lambda: got == [False], SECONDS, "the end of the wait")
    with places.place("ben", GOES_ON) as holds:
        assert holds
