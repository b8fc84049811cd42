"""One run of a scenario: install, rest, repair, restart, delete; first with a bare client, then with the controller.

Both start with a control plane that has no objects of either, and use their own namespaces.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from hack.bench import raw
from hack.bench.api import APPLY, BUNDLE_DEPLOYMENTS, MERGE, Api
from hack.bench.figures import Limits, Measured, Sample, at_most, twice
from hack.bench.testbed import Testbed
from hack.bench.workloads import Bundle, Manifest, kinds_of, make_bundle, make_bundles, path_of

EDITS = 9
CONFIG_MAPS = "/api/v1/configmaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is installed."""

    name: str
    title: str
    make: Callable[[str], list[Bundle]]
    """Called with the prefix of all names."""
    limits: Limits
    seconds: float = 40
    """How long a run takes besides the time in which the controller is idle."""


_ALWAYS = {"idle_requests": at_most(0), "restart_writes": at_most(0)}
ONE = Scenario(
    name="one",
    title="500 objects in one bundle",
    make=lambda prefix: [make_bundle(prefix, 500)],
    limits={
        **_ALWAYS,
        "install_seconds": twice,
        "install_requests": at_most(540),
        "install_cpu": at_most(1),
        "resident": at_most(80),
        "repair_seconds": at_most(0.15),
    },
)
MANY = Scenario(
    name="many",
    title="100 bundles of 5 objects",
    make=lambda prefix: make_bundles(prefix, 100),
    limits={
        **_ALWAYS,
        "install_seconds": at_most(7),
        "install_requests": at_most(1000),
        "install_cpu": at_most(3),
        "install_cpu_spread": at_most(10),
        "install_server_cpu": at_most(7.5),
        "peak": at_most(80),
    },
)
LARGE = Scenario(
    name="large",
    title="5,000 objects in one bundle",
    make=lambda prefix: [make_bundle(prefix, 5000)],
    limits={**_ALWAYS, "peak": at_most(85), "repair_seconds": at_most(0.15)},
    seconds=120,
)
SCENARIOS = (ONE, MANY, LARGE)


def run(testbed: Testbed, scenario: Scenario, number: int, idle_seconds: float) -> Sample:
    """Run a scenario once.

    Args:
        testbed: without a running controller, before and afterwards.
        scenario: which.
        number: of this run, to make names unique.
        idle_seconds: how long to observe an idle controller.
    """
    return _merge(
        _run_raw(testbed, scenario.make(f"raw-{scenario.name}-{number}")),
        _run_controller(testbed, scenario.make(f"{scenario.name}-{number}"), idle_seconds),
    )


def _merge(bare: Mapping[str, float], ours: Sample) -> Sample:
    return {key: replace(measured, raw=bare.get(key)) for key, measured in ours.items()}


def _run_raw(testbed: Testbed, bundles: Sequence[Bundle]) -> dict[str, float]:
    api, cpu = testbed.api, testbed.server_cpu()
    installed = raw.install(api, bundles)
    server_cpu = testbed.server_cpu() - cpu
    repair = _time_repairs(api, bundles, lambda bundle, manifest: _put_right(api, bundle, manifest))
    removed = raw.remove(api, bundles)
    count = sum(len(bundle.objects) for bundle in bundles)
    return {
        "install_seconds": installed.seconds,
        "install_requests": count,
        "install_cpu": installed.cpu,
        "install_server_cpu": server_cpu,
        "idle_requests": 0,
        "repair_seconds": repair,
        "repair_requests": 1,
        "restart_requests": kinds_of(bundles),
        "restart_writes": 0,
        "delete_seconds": removed.seconds,
        "delete_cpu": removed.cpu,
        "delete_requests": count,
    }


def _run_controller(testbed: Testbed, bundles: Sequence[Bundle], idle_seconds: float) -> Sample:
    deployments = testbed.push(bundles)
    with testbed.running_controller():
        sample = {
            **install(testbed, deployments),
            **rest(testbed, idle_seconds),
            **_repair(testbed, bundles),
            **restart(testbed),
            **delete(testbed, deployments),
        }
    raw.remove_namespaces(testbed.api, [bundle.name for bundle in bundles])
    return sample


def install(testbed: Testbed, deployments: Sequence[Manifest]) -> Sample:
    """Create BundleDeployments, and wait until each is Ready."""
    since, cpu, server_cpu = testbed.position(), testbed.usage().cpu, testbed.server_cpu()
    seconds = time_install(testbed.api, deployments)
    testbed.wait_until_quiet(since)
    requests = testbed.requests(since)
    return {
        "install_seconds": Measured(ours=seconds),
        "install_requests": Measured(ours=requests.total, verbs=requests.by_verb),
        "install_cpu": Measured(ours=testbed.usage().cpu - cpu),
        "install_server_cpu": Measured(ours=testbed.server_cpu() - server_cpu),
    }


def time_install(api: Api, deployments: Sequence[Manifest]) -> float:
    """Create BundleDeployments; returns the seconds until each is Ready."""
    version = api.version(BUNDLE_DEPLOYMENTS)
    started = time.perf_counter()
    _each(lambda body: api.request("POST", BUNDLE_DEPLOYMENTS, body), deployments)
    _await(api, version, deployments, _is_ready)
    return time.perf_counter() - started


def rest(testbed: Testbed, seconds: float) -> Sample:
    """Observe an idle controller for some seconds."""
    since = testbed.position()
    time.sleep(seconds)
    requests, usage = testbed.requests(since).without_watches(), testbed.usage()
    return {
        "idle_requests": Measured(ours=requests.total * 60 / seconds, verbs=requests.by_verb),
        "resident": Measured(ours=usage.resident),
        "peak": Measured(ours=testbed.peak()),
    }


def _repair(testbed: Testbed, bundles: Sequence[Bundle]) -> Sample:
    since = testbed.position()
    seconds = _time_repairs(testbed.api, bundles, lambda _bundle, _manifest: None)
    testbed.wait_until_quiet(since)
    requests = testbed.requests(since)
    return {
        "repair_seconds": Measured(ours=seconds),
        "repair_requests": Measured(ours=requests.total / EDITS, verbs=requests.by_verb),
    }


def restart(testbed: Testbed) -> Sample:
    """Restart the controller and wait until it is idle."""
    testbed.stop_controller()
    since, started = testbed.position(), time.time()
    testbed.start_controller()
    requests = testbed.requests(since)
    return {
        "restart_seconds": Measured(ours=(requests.last_answer() or started) - started),
        "restart_cpu": Measured(ours=testbed.usage().cpu),
        "restart_requests": Measured(ours=requests.total, verbs=requests.by_verb),
        "restart_writes": Measured(ours=len(requests.writes)),
    }


def delete(testbed: Testbed, deployments: Sequence[Manifest]) -> Sample:
    """Delete BundleDeployments, and wait until none exists."""
    since, cpu = testbed.position(), testbed.usage().cpu
    version = testbed.api.version(BUNDLE_DEPLOYMENTS)
    started = time.perf_counter()
    _each(lambda body: testbed.api.request("DELETE", f"{BUNDLE_DEPLOYMENTS}/{body['metadata']['name']}"), deployments)
    _await(testbed.api, version, deployments, lambda event: event["type"] == "DELETED")
    seconds = time.perf_counter() - started
    requests = testbed.requests(since)
    return {
        "delete_seconds": Measured(ours=seconds),
        "delete_requests": Measured(ours=requests.total, verbs=requests.by_verb),
        "delete_cpu": Measured(ours=testbed.usage().cpu - cpu),
    }


def _time_repairs(api: Api, bundles: Sequence[Bundle], put_right: Callable[[Bundle, Manifest], object]) -> float:
    """Return the median of the seconds from the answer to an edit until a watch shows the value that was before."""
    found = [(bundle, each) for bundle in bundles for each in bundle.objects if each["kind"] == "ConfigMap"]
    # Each object once: repairs of an object that is edited repeatedly are delayed.
    return statistics.median(_time_repair(api, *each, put_right) for each in found[:: len(found) // EDITS][:EDITS])


def time_repair(api: Api, bundle: Bundle) -> float:
    """Edit the first object of a bundle, a ConfigMap; returns the seconds until a watch shows its previous value."""
    return _time_repair(api, bundle, bundle.objects[0], lambda _bundle, _manifest: None)


def _time_repair(
    api: Api, bundle: Bundle, manifest: Manifest, put_right: Callable[[Bundle, Manifest], object]
) -> float:
    path = path_of(manifest, bundle.name)
    edited = api.request("PATCH", f"{path}?fieldManager=somebody", {"data": {"color": "red"}}, MERGE)
    started = time.perf_counter()
    put_right(bundle, manifest)
    metadata = edited["metadata"]
    for event in api.watch(CONFIG_MAPS, metadata["resourceVersion"]):
        if event["object"]["metadata"]["uid"] == metadata["uid"] and event["object"]["data"]["color"] == "blue":
            break
    return time.perf_counter() - started


def _put_right(api: Api, bundle: Bundle, manifest: Manifest) -> None:
    api.request("PATCH", f"{path_of(manifest, bundle.name)}?fieldManager=raw&force=true", manifest, APPLY)


def _each(function: Callable[[Manifest], object], items: Sequence[Manifest]) -> None:
    with ThreadPoolExecutor(raw.THREADS) as pool:
        for done in [pool.submit(function, item) for item in items]:
            done.result()


def _await(api: Api, version: str, deployments: Sequence[Manifest], is_so: Callable[[dict[str, Any]], bool]) -> None:
    """Follow the BundleDeployments until each has met a condition once."""
    waiting = {body["metadata"]["name"] for body in deployments}
    for event in api.watch(BUNDLE_DEPLOYMENTS, version):
        if is_so(event):
            waiting.discard(event["object"]["metadata"]["name"])
        if not waiting:
            return


def _is_ready(event: dict[str, Any]) -> bool:
    conditions = event["object"].get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
