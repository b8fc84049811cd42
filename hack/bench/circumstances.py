"""What installing costs on one processor, and what polling costs while nothing changes.

`hack/bench/run` measures it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hack.bench import raw
from hack.bench.rows import Row
from hack.bench.scenarios import MANY, delete, install, rest, time_install
from hack.bench.testbed import Testbed
from hack.bench.workloads import make_bundle

POLLING = 300
"""BundleDeployments that are polled every 30 seconds."""
POLL_SECONDS = 60.0


def measure(testbed: Testbed, polling: int = POLLING, seconds: float = POLL_SECONDS) -> Iterator[Row]:
    """Yield the figures. The testbed has no controller, before and afterwards."""
    yield from _measure_one_processor(testbed)
    yield from _measure_polls(testbed, polling, seconds)


def _measure_one_processor(testbed: Testbed) -> Iterator[Row]:
    bundles, processors = MANY.make("bare"), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})  # threads that this one starts are there, too
    try:
        bare = raw.install(testbed.api, bundles)
    finally:
        os.sched_setaffinity(0, processors)
    raw.remove(testbed.api, bundles)
    deployments = testbed.push(MANY.make("one-processor"))
    with testbed.running_controller():
        for task in Path("/proc", str(testbed.controller_id()), "task").iterdir():
            os.sched_setaffinity(int(task.name), {0})  # threads that these start are there, too
        sample = install(testbed, deployments)
        seconds, cpu = sample["install_seconds"].ours, sample["install_cpu"].ours
        yield Row(title=f"install {MANY.title} on one processor, s", value=seconds, bare=bare.seconds)
        yield Row(title="CPU of that, s", value=cpu, bare=bare.cpu)
        delete(testbed, deployments)


def _measure_polls(testbed: Testbed, count: int, seconds: float) -> Iterator[Row]:
    deployments = testbed.push([make_bundle(f"poll-{number}", 1) for number in range(count)], tag="latest")
    for each in deployments:
        each["spec"]["sources"][0]["pollInterval"] = "30s"
    with testbed.running_controller():
        time_install(testbed.api, deployments)
        before = testbed.usage().cpu
        requests = rest(testbed, seconds)["idle_requests"].ours
        cpu = (testbed.usage().cpu - before) * 60 / seconds
        yield Row(title=f"CPU per minute with {count} that are polled every 30 s, s", value=cpu)
        yield Row(title="requests to the API server per minute of that", value=requests, bare=0, digits=0)
        delete(testbed, deployments)
