"""CPU time from the start of `rukpak` until it has shown help, for each verb, or has asked a cluster that is not there.

`.venv/bin/python -m hack.bench.startup` prints the median of some runs. No cluster is needed.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator

from hack.bench.rows import Row
from rukpak.controller.cli.verbs import VERBS

RUNS = 5
_BARE = "http.client, json, ssl"
"""What a bare client of the API server needs."""
LIMIT_SECONDS = 0.25
"""Of CPU, for help and mistakes of every verb."""


def rows(runs: int = RUNS) -> Iterator[Row]:
    """Yield the slowest help of all verbs, and verbs until they would connect."""
    bare = _measure(("-c", f"import {_BARE}"), runs)
    helped = max(measure(verb, "--help", runs=runs) for verb in VERBS)
    yield Row(title="CPU of the slowest --help of all verbs, s", value=helped, at_most=LIMIT_SECONDS, bare=bare)
    for verb in ("status", "diff", "history"):
        value = measure(verb, *_WORDS.get(verb, ()), runs=runs)
        yield Row(title=f"CPU of rukpak {verb} until it connects, s", value=value, at_most=LIMIT_SECONDS, bare=bare)


def measure(*words: str, runs: int = RUNS) -> float:
    """Return the median CPU time of a command, in seconds, once its modules are compiled."""
    return _measure(("-m", "rukpak", *words), runs)


def _measure(words: tuple[str, ...], runs: int) -> float:
    _measure_once(words)
    return statistics.median(_measure_once(words) for _ in range(runs))


def _measure_once(words: tuple[str, ...]) -> float:
    # Bytecode is kept, as where it is installed, even if this process keeps none.
    variables = {**os.environ, "KUBECONFIG": "/no/such/file", "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=variables, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line for each verb: help, a mistyped flag, and a run without a cluster."""
    print(f"{'verb':14} {'--help':>8} {'mistake':>8} {'no cluster':>11}   limit of the first two: {LIMIT_SECONDS} s")
    for verb in VERBS:
        values = (measure(verb, "--help"), measure(verb, "--wiat"), measure(verb, *_WORDS.get(verb, ())))
        print(f"{verb:14} {values[0]:8.3f} {values[1]:8.3f} {values[2]:11.3f}")


_WORDS = {"events": ("a",), "logs": ("a",), "render": ("/no/such",)}
_WORDS |= dict.fromkeys(("pause", "resume", "reconcile", "diff", "history"), ("a",))

if __name__ == "__main__":
    main()
