"""Exits in processes of their own: with their status and in time, whatever the disk does."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

from rukpak.controller.manager.process import DIED, LOST

SECONDS = 60.0
PROGRAM = """
import os, sys, threading
from rukpak.controller.manager import process as exits

exits.LAST_SECONDS = 0.1

class Quarantine:
    def __init__(self, end):
        self.end = lambda: eval(end)

for call in sys.argv[1:]:
    child = os.fork()
    if not child:
        threading.Thread(target=threading.Event().wait).start()  # it would keep the process alive
        eval(call)
        print("still here", flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Importing the module takes longer than anything else, so that one process forks one for each case."""


class Case(NamedTuple):
    name: str
    end: str
    expect: int


CASES = [
    Case("the Lease is lost", "None", LOST),
    Case("a thread keeps dying", "None", DIED),
    Case("the Lease is lost, and there is a bug", "1 / 0", LOST),
    Case("the Lease is lost, and the disk does not respond", "threading.Event().wait()", LOST),
    Case("a thread keeps dying, and the disk does not respond", "threading.Event().wait()", DIED),
]


def call_of(case: Case) -> str:
    return f"exits.exit_at_once(Quarantine({case.end!r}), {case.expect})"


def test_the_processes_exit() -> None:
    calls = [call_of(case) for case in CASES]
    command = [sys.executable, "-c", PROGRAM, *calls]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    ended = dict(zip([case.name for case in CASES], done.stdout.splitlines(), strict=True))
    assert ended == {case.name: str(case.expect) for case in CASES}
