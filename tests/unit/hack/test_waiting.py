from __future__ import annotations

import socket

import pytest

from hack.control_plane.ports import FIRST, LAST, free_ports
from hack.control_plane.waiting import wait_for


def test_the_first_true_value_is_returned() -> None:
    values = iter([None, "", 0, "here"])
    assert wait_for(lambda: next(values), 10, "a value") == "here"


def test_what_is_waited_for_is_told_when_it_does_not_come() -> None:
    with pytest.raises(TimeoutError, match=r"^timed out after 0\.01 s: pods Ready$"):
        wait_for(lambda: False, 0.01, "pods Ready")


def test_how_far_it_is_is_asked_at_the_end() -> None:
    seen: list[int] = []

    def condition() -> bool:
        seen.append(1)
        return False

    with pytest.raises(TimeoutError, match=r"asked [0-9]+ times"):
        wait_for(condition, 0.01, lambda: f"asked {len(seen)} times")


def test_what_the_condition_raises_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 / 0, 10, "never")


def test_ports_are_free_and_outside_of_what_outgoing_connections_take() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST <= port < LAST for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
