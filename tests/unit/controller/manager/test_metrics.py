from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.status import Pending
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.manager.metrics import DESCRIBED, PROCESS_METRICS, Metrics, ProcessState
from rukpak.controller.manager.queue import WorkQueue
from rukpak.controller.telemetry import Phase, SourceResult

SCRAPE_SECONDS, SCRAPE_BYTES = 0.05, 1 << 20


def deployment(name: str, *conditions: tuple[str, str, str], paused: bool = False, **objects: int) -> BundleDeployment:
    found = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "m",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind, status, reason in conditions
    ]
    spec = {"format": "plain", "paused": paused, "sources": [{"kind": "image", "image": {"ref": "a/b:c"}}]}
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
    status = {"conditions": found, "objects": objects}
    return BundleDeployment.model_validate({"metadata": metadata, "spec": spec, "status": status})


def serve(
    metrics: Metrics,
    *deployments: BundleDeployment,
    leading: bool = True,
    queue: WorkQueue | None = None,
    only_problems: bool = False,
    shard: str = "",
) -> None:
    state = ProcessState(
        queue=(queue or WorkQueue()).stats,
        workers=4,
        leading=lambda: leading,
        deployments=lambda: deployments,
        store_bytes=lambda: 4096,
        preparations=lambda: {"waiting": 7, "active": 2},
        version="1.2.3",
        confinement={"landlock": 7, "seccomp": 1, "network_namespace": 0},
        only_problems=only_problems,
        shard=shard,
    )
    metrics.serve(state)


def samples(metrics: Metrics) -> dict[str, float]:
    """Return what a scrape says, by name and labels."""
    lines = [line for line in metrics.scrape().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def ask_twice(metrics: Metrics) -> None:
    metrics.request_ended("GET", "h:1", 200)
    metrics.request_ended("GET", "h:1", 0)


def work_late(metrics: Metrics) -> None:
    metrics.waited(0.5)
    metrics.worked(2.0)


class Case(NamedTuple):
    name: str
    happens: Callable[[Metrics], None]
    expect: dict[str, float]


BUNDLE = 'controller="bundledeployment"'
# fmt: off
CASES = [
    Case(
        "a pass with nothing left to do",
        lambda metrics: metrics.pass_ended("success", 0.3, False),
        {
            f'controller_runtime_reconcile_total{{{BUNDLE},result="success"}}': 1,
            f'controller_runtime_reconcile_total{{{BUNDLE},result="error"}}': 0,
            f"controller_runtime_reconcile_errors_total{{{BUNDLE}}}": 0,
            f'controller_runtime_reconcile_time_seconds_bucket{{{BUNDLE},le="0.25"}}': 0,
            f'controller_runtime_reconcile_time_seconds_bucket{{{BUNDLE},le="0.3"}}': 1,
        },
    ),
    Case("a pass that the API server stopped", lambda metrics: metrics.pass_ended("error", 0.1, False),
         {f'controller_runtime_reconcile_total{{{BUNDLE},result="error"}}': 1,
         f"controller_runtime_reconcile_errors_total{{{BUNDLE}}}": 1,
         f"controller_runtime_reconcile_panics_total{{{BUNDLE}}}": 0}),
    Case("a bug", lambda metrics: metrics.pass_ended("error", 0.1, True),
         {f"controller_runtime_reconcile_panics_total{{{BUNDLE}}}": 1}),
    Case("what confines the programs that are started", serve,
         {'rukpak_confinement{mechanism="landlock"}': 7, 'rukpak_confinement{mechanism="seccomp"}': 1,
         'rukpak_confinement{mechanism="network_namespace"}': 0}),
    Case("requests, answered and not", ask_twice,
         {'rest_client_requests_total{code="200",host="h:1",method="GET"}': 1,
         'rest_client_requests_total{code="<error>",host="h:1",method="GET"}': 1}),
    Case("phases", lambda metrics: metrics.phase_ended(Phase.FETCH, 2, succeeded=False),
         {'rukpak_phase_duration_seconds_sum{outcome="error",phase="fetch"}': 2,
         'rukpak_phase_duration_seconds_count{outcome="success",phase="fetch"}': 0}),
    Case("sources", lambda metrics: metrics.source_asked("git", SourceResult.NOT_MODIFIED),
         {'rukpak_source_requests_total{kind="git",result="not modified"}': 1}),
    Case("drift", lambda metrics: metrics.drift_found(3, 2),
         {"rukpak_drift_detected_total": 3, "rukpak_drift_repaired_total": 2}),
    Case("how long one waits, and is worked on", work_late,
         {f'workqueue_queue_duration_seconds_sum{{{BUNDLE},name="bundledeployment"}}': 0.5,
         f'workqueue_work_duration_seconds_count{{{BUNDLE},name="bundledeployment"}}': 1}),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_counted(case: Case) -> None:
    metrics = Metrics()
    case.happens(metrics)
    found = samples(metrics)
    assert {name: found.get(name) for name in case.expect} == case.expect


def test_what_the_queue_does() -> None:
    metrics, queue = Metrics(), WorkQueue()
    for name in "abc":
        queue.add(name)
    queue.get()
    serve(metrics, queue=queue)
    found = samples(metrics)
    labels = f'{{{BUNDLE},name="bundledeployment"}}'
    assert [found[f"workqueue_{name}{labels}"] for name in ("depth", "adds_total", "retries_total")] == [2, 3, 0]
    assert found[f"controller_runtime_active_workers{{{BUNDLE}}}"] == 1
    assert found[f"controller_runtime_max_concurrent_reconciles{{{BUNDLE}}}"] == 4


def test_in_the_queue_of_a_standby_nothing_waits_for_a_worker() -> None:
    metrics, queue = Metrics(), WorkQueue()
    queue.add("a")
    serve(metrics, queue=queue, leading=False)
    assert samples(metrics)[f'workqueue_depth{{{BUNDLE},name="bundledeployment"}}'] == 0


def test_what_is_told_of_bundle_deployments() -> None:
    metrics = Metrics()
    one = deployment("a", ("Ready", "True", "Ready"), healthy=2, total=3, progressing=1)
    two = deployment(
        "b", ("Ready", "False", "Unreachable"), ("Healthy", "Unknown", "NotInstalled"), paused=True, failed=1
    )
    serve(metrics, one, two)
    found = samples(metrics)
    condition = "rukpak_bundledeployment_condition"
    assert {name: value for name, value in found.items() if name.startswith(condition)} == {
        f'{condition}{{name="a",type="Ready",reason="Ready"}}': 1,
        f'{condition}{{name="b",type="Ready",reason="Unreachable"}}': 0,
        f'{condition}{{name="b",type="Healthy",reason="NotInstalled"}}': -1,
    }
    assert (found["rukpak_bundledeployments"], found["rukpak_bundledeployments_paused"]) == (2, 1)
    states = ("healthy", "progressing", "failed", "drifted")
    assert [found[f'rukpak_managed_objects{{state="{state}"}}'] for state in states] == [2, 1, 1, 0]


def test_with_only_problems_those_that_are_just_ready_have_no_series_of_their_own() -> None:
    metrics, ready = Metrics(), ("Ready", "True", "Ready")
    serve(
        metrics,
        deployment("fine", ready, ("Healthy", "True", "Healthy")),
        deployment("broken", ("Ready", "False", "Unreachable")),
        deployment("new"),
        deployment("paused", ready, ("Paused", "True", "Paused"), paused=True),
        deployment("drifted", ready, ("Drifted", "True", "DriftConflict")),
        deployment("stalled", ready, ("Stalled", "True", "NotFound")),
        only_problems=True,
    )
    found = samples(metrics)
    named = {name.split('"')[1] for name in found if name.startswith("rukpak_bundledeployment_condition")}
    assert named == {"broken", "paused", "drifted", "stalled"}
    assert (found["rukpak_bundledeployments"], found["rukpak_bundledeployments_paused"]) == (6, 1)


def test_since_when_revisions_wait_for_approval() -> None:
    metrics = Metrics()
    pending = Pending(revision="sha256:1", since=datetime(2026, 1, 1, tzinfo=UTC))
    waiting = deployment("a", ("Ready", "False", "AwaitingApproval"))
    status = waiting.status.model_copy(update={"pending": pending})
    serve(metrics, waiting.model_copy(update={"status": status}), deployment("b", ("Ready", "True", "Ready")))
    name = "rukpak_bundledeployment_pending_timestamp_seconds"
    found = {sample: value for sample, value in samples(metrics).items() if sample.startswith(name)}
    assert found == {f'{name}{{name="a"}}': datetime(2026, 1, 1, tzinfo=UTC).timestamp()}


def test_a_standby_tells_nothing_of_bundle_deployments() -> None:
    metrics = Metrics()
    serve(metrics, deployment("a", ("Ready", "True", "Ready")), leading=False)
    found = samples(metrics)
    assert found['leader_election_master_status{name="rukpak"}'] == 0
    assert not [name for name in found if name.startswith("rukpak_bundledeployment")]


def test_every_metric_is_described_and_every_described_one_is_there() -> None:
    metrics = Metrics()
    metrics.request_ended("GET", "h:1", 200)
    serve(metrics, deployment("a", ("Ready", "True", "Ready")))
    text = metrics.scrape().decode()
    told = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    assert set(told) == {*DESCRIBED, *PROCESS_METRICS}
    assert {name: told[name] for name in DESCRIBED} == {name: each.help for name, each in DESCRIBED.items()}
    types = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.MULTILINE))
    assert {name: types[name] for name in DESCRIBED} == {name: each.type for name, each in DESCRIBED.items()}


def test_a_scrape_of_a_thousand_is_fast_and_small() -> None:
    metrics = Metrics()
    kinds = ("Unpacked", "Installed", "Healthy", "Ready", "Reconciling", "Drifted")
    conditions: list[Any] = [(kind, "False", "ProgressDeadlineExceeded") for kind in kinds]
    serve(
        metrics, *[deployment(f"a-name-that-is-not-all-that-short-{number:04}", *conditions) for number in range(1000)]
    )
    took = []
    for _ in range(5):
        started = time.thread_time()
        body = metrics.scrape()
        took.append(time.thread_time() - started)
    assert len(body) < SCRAPE_BYTES
    assert min(took) < SCRAPE_SECONDS


def test_how_much_work_on_sources_waits_and_goes_on() -> None:
    metrics = Metrics()
    serve(metrics)
    told = samples(metrics)
    assert [told[f'rukpak_preparations{{state="{state}"}}'] for state in ("waiting", "active")] == [7, 2]


def test_all_samples_of_a_named_shard_have_its_name() -> None:
    metrics = Metrics()
    serve(metrics, deployment("a", ("Ready", "True", "Ready")), shard="blue")
    told = [line for line in metrics.scrape().decode().splitlines() if not line.startswith("#")]
    assert [line for line in told if 'shard="blue"' not in line] == []
    assert 'leader_election_master_status{name="rukpak-blue",shard="blue"} 1.0' in told
