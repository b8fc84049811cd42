"""python -m hack.bench.drift: edits of single objects in bundles of several sizes, and a storm of edits in a large one.

Each bundle is measured on the same control plane, next to a bare client that knows of each edit and only applies.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hack.bench import raw
from hack.bench.api import APPLY, MERGE, Api
from hack.bench.scenarios import CONFIG_MAPS, time_install
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, Manifest, make_bundle, path_of

EDITS = 20
MOST_REPAIR, MOST_STORM = 0.15, 5.0
IDLE_CPU = 0.03
"""CPU of a second in which nothing is done but to measure it."""
Repair = Callable[[Manifest], object]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.bench.drift", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--objects", type=int, nargs="+", default=[50, 500, 5000], help="of each bundle [%(default)s]")
    parser.add_argument("--storm", type=int, default=1000, help="simultaneous edits of the last bundle [%(default)s]")
    options = parser.parse_args(arguments)
    with make_testbed() as testbed:
        for count in options.objects:
            storm = options.storm if count == options.objects[-1] else 0
            print("\n".join(_measure(testbed, count, storm)), flush=True)
    return 0


def _measure(testbed: Testbed, count: int, storm: int) -> list[str]:
    api, theirs, ours = testbed.api, make_bundle(f"raw-{count}", count), make_bundle(f"ours-{count}", count)
    raw.install(api, [theirs])
    bare = statistics.median(_time_edits(api, theirs, lambda each: _apply(api, theirs, each)))
    bare_storm = _time_storm(api, theirs, storm, lambda each: _apply(api, theirs, each)) if storm else 0.0
    raw.remove_namespaces(api, [theirs.name])
    testbed.start_controller()
    try:
        time_install(api, testbed.push([ours]))
        _rest(testbed)
        before, since = testbed.usage().cpu, testbed.position()
        repairs = _time_edits(api, ours, lambda _: None)
        _rest(testbed)
        cpu, requests = (testbed.usage().cpu - before) / EDITS, testbed.requests(since).total / EDITS
        limit = f"at most {MOST_REPAIR}; bare client {bare:.3f}"
        lines = [
            f"{count} objects in one bundle, edited one after the other",
            f"  half repaired after {statistics.median(repairs):.3f} s ({limit}), all after {max(repairs):.3f} s",
            f"  each of them: {requests:.1f} requests, {cpu * 1000:.0f} ms of CPU",
        ]
        if storm:
            lines.append(_measure_storm(testbed, ours, storm, bare_storm))
        return [*lines, f"  resident: {testbed.usage().resident:.0f} MiB, {testbed.usage().peak:.0f} MiB at most"]
    finally:
        testbed.stop_controller()


def _measure_storm(testbed: Testbed, bundle: Bundle, storm: int, bare: float) -> str:
    before = testbed.usage().cpu
    seconds = _time_storm(testbed.api, bundle, storm, lambda _: None)
    _rest(testbed)
    cpu = testbed.usage().cpu - before
    limit = f"at most {MOST_STORM:.0f}; bare client, with the edits, {bare:.1f}"
    return f"  {storm} edits at once: all repaired {seconds:.1f} s after the first ({limit}); {cpu:.1f} s of CPU"


def _rest(testbed: Testbed) -> None:
    """Wait until the controller has used no CPU to speak of for a second: its last Events are sent, too."""
    used = testbed.usage().cpu
    while True:
        time.sleep(1)
        before, used = used, testbed.usage().cpu
        if used - before < IDLE_CPU:
            return


def _config_maps(bundle: Bundle) -> list[Manifest]:
    return [each for each in bundle.objects if each["kind"] == "ConfigMap"]


def _time_edits(api: Api, bundle: Bundle, repair: Repair) -> list[float]:
    """Edit one object after the other; returns the seconds of each until a watch shows its previous value."""
    found = _config_maps(bundle)
    return [_time_edit(api, bundle, each, repair) for each in found[:: len(found) // EDITS][:EDITS]]


def _time_edit(api: Api, bundle: Bundle, manifest: Manifest, repair: Repair) -> float:
    edited = _edit(api, bundle, manifest)
    started = time.perf_counter()
    repair(manifest)
    _await_repairs(api, edited["metadata"]["resourceVersion"], bundle, {manifest["metadata"]["name"]})
    return time.perf_counter() - started


def _time_storm(api: Api, bundle: Bundle, count: int, repair: Repair) -> float:
    """Edit many objects with eight threads; returns the seconds from the first edit to the last repair."""
    found = _config_maps(bundle)[:count]
    version, started = api.version(CONFIG_MAPS), time.perf_counter()
    with ThreadPoolExecutor(raw.THREADS) as pool:
        pending = [pool.submit(lambda each: (_edit(api, bundle, each), repair(each)), each) for each in found]
        _await_repairs(api, version, bundle, {each["metadata"]["name"] for each in found})
        for future in pending:
            future.result()
    return time.perf_counter() - started


def _edit(api: Api, bundle: Bundle, manifest: Manifest) -> Manifest:
    path = f"{path_of(manifest, bundle.name)}?fieldManager=somebody"
    edited: Manifest = api.request("PATCH", path, {"data": {"color": "red"}}, MERGE)
    return edited


def _apply(api: Api, bundle: Bundle, manifest: Manifest) -> None:
    api.request("PATCH", f"{path_of(manifest, bundle.name)}?fieldManager=raw&force=true", manifest, APPLY)


def _await_repairs(api: Api, version: str, bundle: Bundle, waiting: set[str]) -> None:
    """Follow the ConfigMaps from a version on, until each of these has its previous value."""
    for event in api.watch(CONFIG_MAPS, version):
        value = event["object"]
        if value["metadata"]["namespace"] == bundle.name and value["data"].get("color") == "blue":
            waiting.discard(value["metadata"]["name"])
        if not waiting:
            return


if __name__ == "__main__":
    sys.exit(main())
