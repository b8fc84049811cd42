"""Exits in a process of their own: with their status and in time, whatever the disk does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.controller.manager.process import DIED, LOST, exit_after_deaths, exit_after_loss

SECONDS = 60.0
PROGRAM = """
import functools, sys, threading
from rukpak.controller.manager import process as exits

exits.LAST_SECONDS = 0.1

class Quarantine:
    def end(self):
        {end}

threading.Thread(target=threading.Event().wait).start()  # it would keep the process alive
{leave}
print("still here")
"""


class Case(NamedTuple):
    name: str
    end: str
    leave: Callable[..., None]
    expect: int


CASES = [
    Case("the Lease is lost", "pass", exit_after_loss, LOST),
    Case("a thread keeps dying", "pass", exit_after_deaths, DIED),
    Case("the Lease is lost, and there is a bug", "1 / 0", exit_after_loss, LOST),
    Case("the Lease is lost, and the disk does not respond", "threading.Event().wait()", exit_after_loss, LOST),
    Case("a thread keeps dying, and the disk does not respond", "threading.Event().wait()", exit_after_deaths, DIED),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_process_exits(case: Case) -> None:
    arguments = "Quarantine()" if case.expect == LOST else 'Quarantine(), "why"'
    program = PROGRAM.format(end=case.end, leave=f"exits.{case.leave.__name__}({arguments})")
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (case.expect, b"")
