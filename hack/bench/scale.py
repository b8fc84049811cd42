"""python -m hack.bench.scale: a bundle of 5,000 objects with a small one, 1,000 bundles of five, 100 edits, and lists.

Each part has its own control plane and is printed with its limit. Times are compared with those of a bare client that
does the same immediately before.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hack.bench import raw
from hack.bench.api import BUNDLE_DEPLOYMENTS, MERGE, Api
from hack.bench.figures import Sample
from hack.bench.scenarios import CONFIG_MAPS, install, rest, restart, time_install
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, Manifest, make_bundle, make_bundles, path_of
from rukpak.api import names
from rukpak.controller.kube.cache import Trace, make_trace
from rukpak.controller.kube.watch import Reflector
from rukpak.controller.playground.waiting import wait_for

UPGRADE_SECONDS = 600.0
REST_SECONDS = 10.0
LISTS = 20
# The minimum of the bare client's rate, and the maximum of other figures.
LARGE_RATE, MANY_RATE = 0.6, 0.5
MOST_RESIDENT, MOST_RESTART, MOST_REPAIR = 200, 10, 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    parts: list[tuple[int, Callable[[Testbed], list[str]]]] = [
        (options.objects, lambda testbed: _measure_large(testbed, options.objects)),
        (options.objects, lambda testbed: _measure_small_beside(testbed, options.objects)),
        (options.bundles, lambda testbed: _measure_many(testbed, options.bundles, options.edits)),
        (options.lists, lambda testbed: _measure_lists(testbed, options.lists)),
    ]
    for size, measure in parts:
        if size:
            with make_testbed() as testbed:
                print("\n".join(measure(testbed)), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack.bench.scale", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--objects", type=int, default=5000, help="objects of the large bundle; 0: none [%(default)s]")
    parser.add_argument("--bundles", type=int, default=1000, help="bundles of five objects; 0: none [%(default)s]")
    parser.add_argument("--edits", type=int, default=100, help="simultaneous edits, in as many bundles [%(default)s]")
    parser.add_argument("--lists", type=int, default=5000, help="objects that are listed again; 0: none [%(default)s]")
    return parser


def _measure_large(testbed: Testbed, count: int) -> list[str]:
    bare = _install_bare(testbed.api, [make_bundle("raw-large", count)])
    bundle = make_bundle("large", count)
    [body] = testbed.push([bundle])
    testbed.start_controller()
    try:
        sample = install(testbed, [body])
        seconds, applies = _upgrade_one(testbed, bundle)
    finally:
        testbed.stop_controller()
    return [
        f"{count} objects in one bundle",
        _describe_rate(sample, count, bare, LARGE_RATE),
        f"  upgrade of one object: {applies} applies (at most 1), {seconds:.1f} s",
    ]


def _measure_small_beside(testbed: Testbed, count: int) -> list[str]:
    """Install a bundle of five alone, and another one while a large one is being applied."""
    large, *small = [make_bundle("large", count), *make_bundles("small", 2)]
    body, first, second = testbed.push([large, *small])
    testbed.start_controller()
    try:
        alone = time_install(testbed.api, [first])
        testbed.api.request("POST", BUNDLE_DEPLOYMENTS, body)
        wait_for(lambda: _is_applied_now(testbed.api, large), UPGRADE_SECONDS, "the large one's turn")
        beside = time_install(testbed.api, [second])
        was_beside = _is_applied_now(testbed.api, large)
    finally:
        testbed.stop_controller()
    remark = "" if was_beside else "; the large one had finished before"
    return [f"a bundle of five: Ready after {alone:.2f} s, and {beside:.2f} s while one of {count} is applied{remark}"]


def _measure_lists(testbed: Testbed, count: int) -> list[str]:
    """List objects again that a watch follows, as the controller does every --relist-interval."""
    testbed.start_controller()
    try:
        install(testbed, testbed.push([make_bundle("listed", count)]))
    finally:
        testbed.stop_controller()
    client = testbed.connect()
    reflector = Reflector[Trace](
        client, CONFIG_MAPS, label_selector=names.OWNER_LABEL, metadata=True, project=make_trace
    )
    reflector.start()
    wait_for(lambda: reflector.synced, UPGRADE_SECONDS, "the first list")
    objects, before = len(reflector.records()), (time.process_time(), testbed.server_usage().cpu, time.monotonic())
    for _ in range(LISTS):
        reflector.refresh()
        wait_for(lambda: reflector.synced, UPGRADE_SECONDS, "the list again")
    after = (time.process_time(), testbed.server_usage().cpu, time.monotonic())
    reflector.stop()
    ours, server, seconds = ((end - start) / LISTS for start, end in zip(before, after, strict=True))
    cpu = f"CPU of the client {ours * 1000:.0f} ms, of the API server {server * 1000:.0f} ms"
    return [f"one list of {objects} objects, metadata only: {cpu}; {seconds:.2f} s"]


def _is_applied_now(api: Api, bundle: Bundle) -> bool:
    conditions = api.request("GET", f"{BUNDLE_DEPLOYMENTS}/{bundle.name}").get("status", {}).get("conditions", [])
    return any((each["type"], each["reason"]) == ("Installed", "Applying") for each in conditions)


def _measure_many(testbed: Testbed, count: int, edits: int) -> list[str]:
    bare = _install_bare(testbed.api, make_bundles("raw-many", count))
    bundles = make_bundles("many", count)
    bodies = testbed.push(bundles)
    testbed.start_controller()
    try:
        sample = install(testbed, bodies)
        sample = {**sample, **rest(testbed, REST_SECONDS)}
        since = testbed.position()
        edited, repairs = _edit_at_once(testbed.api, bundles[:edits])
        testbed.wait_until_quiet(since)
        sample = {**sample, **restart(testbed)}
    finally:
        testbed.stop_controller()
    figures = {key: measured.ours for key, measured in sample.items()}
    last = f"all after {max(repairs):.2f} s (at most {MOST_REPAIR})"
    writes = f"{figures['restart_writes']:.0f} writes (at most 0)"
    return [
        f"{count} bundles of 5 objects",
        _describe_rate(sample, 5 * count, bare, MANY_RATE),
        f"  resident: {figures['resident']:.0f} MiB (at most {MOST_RESIDENT}), {figures['peak']:.0f} MiB at most",
        f"  idle: {figures['idle_requests']:.0f} requests a minute (at most 0)",
        f"  {len(repairs)} edits in {edited:.1f} s: half repaired after {statistics.median(repairs):.2f} s, {last}",
        f"  restart: {figures['restart_seconds']:.1f} s (at most {MOST_RESTART}), {writes}",
    ]


def _install_bare(api: Api, bundles: Sequence[Bundle]) -> float:
    seconds = raw.install(api, bundles).seconds
    raw.remove_namespaces(api, [bundle.name for bundle in bundles])
    return seconds


def _describe_rate(sample: Sample, objects: int, bare: float, least: float) -> str:
    seconds = sample["install_seconds"].ours
    share = f"{bare / seconds:.2f} of the bare client's {objects / bare:.0f} (at least {least})"
    return f"  install: {seconds:.1f} s, {objects / seconds:.0f} objects a second, {share}"


def _upgrade_one(testbed: Testbed, bundle: Bundle) -> tuple[float, int]:
    """Upgrade to a bundle of which one object differs; returns the seconds, and how many objects were applied."""
    first, *others = bundle.objects
    changed = {**first, "data": {**first["data"], "color": "green"}}
    [body] = testbed.push([replace(bundle, objects=(changed, *others))])
    path = f"{BUNDLE_DEPLOYMENTS}/{bundle.name}"
    since, started = testbed.position(), time.perf_counter()
    testbed.api.request("PATCH", path, {"spec": body["spec"]}, MERGE)
    wait_for(lambda: _is_upgraded(testbed.api, bundle, path), UPGRADE_SECONDS, "the upgrade")
    seconds = time.perf_counter() - started
    testbed.wait_until_quiet(since)
    # Other writes are those of the BundleDeployment and the revision, which are not objects of the bundle.
    applies = [
        write for write in testbed.requests(since).writes if write.startswith("patch ") and f" {bundle.name}/" in write
    ]
    return seconds, len(applies)


def _is_upgraded(api: Api, bundle: Bundle, path: str) -> bool:
    if api.request("GET", path_of(bundle.objects[0], bundle.name))["data"]["color"] != "green":
        return False
    found = api.request("GET", path)
    ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
    is_current: bool = ready["observedGeneration"] == found["metadata"]["generation"] and ready["status"] == "True"
    return is_current


def _edit_at_once(api: Api, bundles: Sequence[Bundle]) -> tuple[float, list[float]]:
    """Edit one ConfigMap of each bundle; returns the seconds of all edits, and those of each until it was repaired."""
    found = [(bundle, each) for bundle in bundles for each in bundle.objects if each["kind"] == "ConfigMap"]
    version, started = api.version(CONFIG_MAPS), time.perf_counter()
    with ThreadPoolExecutor(raw.THREADS) as pool:
        pending = [pool.submit(_edit, api, *each) for each in found]
        repaired = _await_repairs(api, version, {bundle.name for bundle in bundles})
        edited = dict(future.result() for future in pending)
    return max(edited.values()) - started, [repaired[name] - edited[name] for name in edited]


def _edit(api: Api, bundle: Bundle, manifest: Manifest) -> tuple[str, float]:
    path = f"{path_of(manifest, bundle.name)}?fieldManager=somebody"
    api.request("PATCH", path, {"data": {"color": "red"}}, MERGE)
    return bundle.name, time.perf_counter()


def _await_repairs(api: Api, version: str, waiting: set[str]) -> dict[str, float]:
    """Return by namespace when a watch showed the value that was before."""
    repaired: dict[str, float] = {}
    for event in api.watch(CONFIG_MAPS, version):
        value = event["object"]
        name = value["metadata"]["namespace"]
        if name in waiting and value.get("data", {}).get("color") == "blue":
            repaired[name] = time.perf_counter()
            waiting.discard(name)
        if not waiting:
            break
    return repaired


if __name__ == "__main__":
    sys.exit(main())
