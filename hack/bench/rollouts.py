"""python -m hack.bench.rollouts: the cost of health for many simultaneous rollouts of Deployments.

No pods are created: the controller manager is stopped, and a bare client writes its changes of the status of each
Deployment, in waves. So only the controller is measured, and no node.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hack.bench import raw
from hack.bench.api import BUNDLE_DEPLOYMENTS, MERGE, describe
from hack.bench.rows import Usage
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, Manifest, make_rollouts, path_of
from rukpak.controller.playground.waiting import wait_for

REPLICAS = 10
WINDOW_SECONDS = 5.0
JITTER_SECONDS = 0.1
"""Difference between the delays of two writes."""
INSTALL_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    seconds: float
    events: int
    passes: Counter[int]
    """Status writes of a BundleDeployment within 5 s, at most: how many BundleDeployments had so many.

    The last of each is not counted: that all are healthy is reported immediately.
    """
    writes: int
    lists: int
    before: Usage
    after: Usage


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with make_testbed() as testbed:
        cost = _measure(testbed, options.deployments, options.bundles, options.waves)
    print(_describe(cost, options))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench.rollouts", description=(__doc__ or "").partition(":")[2]
    )
    parser.add_argument("--deployments", type=int, default=2000, help="Deployments in total [%(default)s]")
    parser.add_argument("--bundles", type=int, default=20, help="BundleDeployments to spread them over [%(default)s]")
    parser.add_argument("--waves", type=int, default=8, help="status changes of each Deployment [%(default)s]")
    return parser


def _measure(testbed: Testbed, deployments: int, bundles: int, waves: int) -> Cost:
    made = make_rollouts("roll", bundles, deployments // bundles, REPLICAS)
    testbed.stop_workloads()
    bodies = testbed.push(made)
    testbed.start_controller()
    try:
        _in_parallel(lambda body: testbed.api.request("POST", BUNDLE_DEPLOYMENTS, body), bodies)
        _wait_for(testbed, "Installed")
        return _roll(testbed, made, waves)
    finally:
        testbed.stop_controller()


def _roll(testbed: Testbed, made: Sequence[Bundle], waves: int) -> Cost:
    since, before, started = testbed.position(), testbed.usage(), time.monotonic()
    for wave in range(waves):
        _report(testbed, made, REPLICAS * wave // waves)
    _report(testbed, made, REPLICAS)
    seconds = time.monotonic() - started
    _wait_for(testbed, "Ready")
    time.sleep(WINDOW_SECONDS)
    requests = testbed.requests(since)
    writes = [event for event in requests.events if (event.get("objectRef") or {}).get("subresource") == "status"]
    return Cost(
        seconds=seconds,
        events=(waves + 1) * sum(len(bundle.objects) for bundle in made),
        passes=Counter(_most_within(sorted(times)[:-1]) for times in _times_by_name(writes).values()),
        writes=len(writes),
        lists=sum(describe(event).startswith("list pods ") for event in requests.events),
        before=before,
        after=testbed.usage(),
    )


def _report(testbed: Testbed, made: Iterable[Bundle], available: int) -> None:
    """Write the status of every Deployment, as its controller would with so many replicas available."""
    body = {"status": _status(available)}
    paths = [f"{path_of(each, bundle.name)}/status" for bundle in made for each in bundle.objects]
    _in_parallel(lambda path: testbed.api.request("PATCH", path, body, MERGE), paths)


def _status(available: int) -> Manifest:
    is_done = available == REPLICAS
    reason = "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated"
    counts = dict.fromkeys(("readyReplicas", "availableReplicas"), available)
    return {
        "observedGeneration": 1,
        **dict.fromkeys(("replicas", "updatedReplicas"), REPLICAS),
        **counts,
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": reason},
            {"type": "Available", "status": "True" if is_done else "False", "reason": "Minimum"},
        ],
    }


def _wait_for(testbed: Testbed, condition: str) -> None:
    """Wait until a condition of all BundleDeployments is True."""

    def all_true() -> bool:
        items = testbed.api.request("GET", BUNDLE_DEPLOYMENTS)["items"]
        return all(_is_true(each, condition) for each in items)

    wait_for(all_true, INSTALL_SECONDS, f"{condition} of all")


def _is_true(deployment: Mapping[str, Any], condition: str) -> bool:
    found = deployment.get("status", {}).get("conditions", [])
    return any(each["type"] == condition and each["status"] == "True" for each in found)


def _times_by_name(writes: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    for event in writes:
        times[event["objectRef"]["name"]].append(datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp())
    return times


def _most_within(ordered: Sequence[float]) -> int:
    """Return the most of these times that lie within one window."""
    window = WINDOW_SECONDS - JITTER_SECONDS
    counts = (sum(start <= each < start + window for each in ordered) for start in ordered)
    return max(counts, default=0)


def _in_parallel(function: Any, items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(raw.THREADS) as pool:
        for done in [pool.submit(function, item) for item in items]:
            done.result()


def _describe(cost: Cost, options: argparse.Namespace) -> str:
    most = ", ".join(f"{count} BundleDeployments: {most}" for most, count in sorted(cost.passes.items()))
    what = f"{options.deployments} Deployments in {options.bundles} bundles"
    before, after = cost.before, cost.after
    lines = (
        f"{what}: {cost.events} changes in {cost.seconds:.1f} s",
        f"status writes within {WINDOW_SECONDS:g} s, at most, before the last: {most or 'none'}; {cost.writes} in all",
        f"lists of pods: {cost.lists}",
        f"CPU: {after.cpu - before.cpu:.1f} s",
        f"resident: {before.resident:.0f} MiB before, {after.resident:.0f} MiB after, {after.peak:.0f} MiB peak",
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
