"""python -m hack.bench.waves: a bundle of 5,000 objects in ten waves, and the same one without waves.

Both are installed in turn, by the same controller on one control plane, which has had a bundle of that size before.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hack.bench.rows import Row, publish
from hack.bench.scenarios import time_install
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, make_bundle
from rukpak.api import names

WAVES = 10
MOST = 1.15
"""Times the seconds of one wave."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.bench.waves", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--objects", type=int, default=5000, help="objects of each bundle [%(default)s]")
    parser.add_argument("--runs", type=int, default=3, help="installations of each kind [%(default)s]")
    options = parser.parse_args(arguments)
    with make_testbed() as testbed:
        return publish(measure(testbed, options.objects, options.runs))


def measure(testbed: Testbed, count: int, runs: int) -> Iterator[Row]:
    """Yield the median times of both kinds of installations."""
    testbed.start_controller()
    try:
        _install(testbed, make_bundle("first", count))
        pairs = [
            (
                _install(testbed, make_bundle(f"one-{run}", count)),
                _install(testbed, _in_waves(make_bundle(f"ten-{run}", count))),
            )
            for run in range(runs)
        ]
    finally:
        testbed.stop_controller()
    one, ten = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    yield Row(
        title=f"{count} objects in {WAVES} waves, s; at most {MOST} times one wave", value=ten, at_most=MOST * one
    )


def _install(testbed: Testbed, bundle: Bundle) -> float:
    return time_install(testbed.api, testbed.push([bundle]))


def _in_waves(bundle: Bundle) -> Bundle:
    """Return a bundle whose objects are in as many waves, each with all of its kinds."""
    size = -(-len(bundle.objects) // WAVES)
    objects = [
        {**each, "metadata": {**each["metadata"], "annotations": {names.WAVE: str(index // size)}}}
        for index, each in enumerate(bundle.objects)
    ]
    return replace(bundle, objects=tuple(objects))


if __name__ == "__main__":
    sys.exit(main())
