from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading
from pathlib import Path
from rukpak.controller.manager.process import return_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

def work(kept):
    for _ in range(3):
        large = []
        for _ in range(50):
            large.append(b"x" * 200_000)
            kept.append(b"x" * 1_000)

if sys.argv[1] == "set up":
    return_freed_memory()
kept = []
before = resident()
for _ in range(8):
    thread = threading.Thread(target=work, args=(kept,))
    thread.start()
    thread.join()
print(resident() - before)
"""


def resident_after_use(how: str) -> float:
    """Return the mebibytes that a process has grown by after it used and freed 10 MB in each of several threads."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_goes_back_to_the_system() -> None:
    assert resident_after_use("set up") < resident_after_use("by default") / 2
