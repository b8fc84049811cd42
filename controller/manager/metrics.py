"""Metrics in the Prometheus format: those of controller-runtime, with their meaning, and our own.

`DESCRIBED` is the single list for the program, its documentation and its tests. Events are counted as they are reported
(Observer, queue, workers, requests). State is read by the scrape, so it costs nothing in between and disappears with
its object. Only the leader reports on BundleDeployments, so that replicas do not count them twice. The number of series
depends on nothing but the number of BundleDeployments, or of those with problems.

The only module that imports prometheus_client.
"""

# ruff: noqa: E501 - one metric per line

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from operator import attrgetter
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from rukpak.api.v1alpha2.conditions import ConditionType
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.building.entry_points import Installed
from rukpak.controller.kube.resources import lease_of
from rukpak.controller.manager.queue import QueueStats
from rukpak.controller.processes.supervision import Kind
from rukpak.controller.telemetry import Observer, Phase, SourceResult

MetricT = TypeVar("MetricT", Counter, Histogram)
_QUEUE = ("name", "controller")
# Buckets in seconds; the first two are controller-runtime's.
_PASS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
_WAIT = tuple(10.0**exponent for exponent in range(-8, 4))
_PHASE = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
PROCESS_METRICS = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
)
"""The standard process metrics of Prometheus' client libraries."""
CONTROLLER = "bundledeployment"
"""Name of controller and queue, derived from the kind as in controller-runtime."""
_OWN = (CONTROLLER,)
RESULTS = ("success", "error", "requeue_after")
OUTCOMES = ("success", "error")
SOURCE_KINDS = ("image", "git", "http", "configMap", "chart")
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_CONDITION_VALUES = {"True": 1, "False": 0}
_FAMILIES: Mapping[str, type[GaugeMetricFamily | CounterMetricFamily]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
}
_PROBLEMS = (ConditionType.STALLED, ConditionType.DRIFTED, ConditionType.PAUSED)
_OBJECT_STATES = ("healthy", "progressing", "failed", "drifted", "retained")


@dataclass(frozen=True, slots=True)
class Described:
    """One metric."""

    name: str
    """As exposed, suffix included."""
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""
    known: tuple[Sequence[str], ...] = ()
    """Values of each label: series with them exist from the start, as zero."""


def _values(kind: type[Enum]) -> tuple[str, ...]:
    return tuple(each.value for each in kind)


# fmt: off
_LIST = (
    Described("controller_runtime_reconcile_total", "counter", ("controller", "result"), "Passes by result: success, requeue_after (runs again at a set time), error (retried with backoff).", known=(_OWN, RESULTS)),
    Described("controller_runtime_reconcile_errors_total", "counter", ("controller",), "Passes that failed because of the API server or a bug. A bundle that fails is not counted.", known=(_OWN,)),
    Described("controller_runtime_reconcile_panics_total", "counter", ("controller",), "Passes, and fetches and renderings for them, that failed on a bug.", known=(_OWN,)),
    Described("controller_runtime_reconcile_time_seconds", "histogram", ("controller",), "Duration of passes.", _PASS, (_OWN,)),
    Described("controller_runtime_active_workers", "gauge", ("controller",), "Workers that are running a pass."),
    Described("controller_runtime_max_concurrent_reconciles", "gauge", ("controller",), "Workers (--workers)."),
    Described("workqueue_depth", "gauge", _QUEUE, "BundleDeployments waiting for a worker."),
    Described("workqueue_adds_total", "counter", _QUEUE, "BundleDeployments added to the queue."),
    Described("workqueue_retries_total", "counter", _QUEUE, "BundleDeployments added again after a failed pass."),
    Described("workqueue_queue_duration_seconds", "histogram", _QUEUE, "Time BundleDeployments waited for a worker.", _WAIT, (_OWN, _OWN)),
    Described("workqueue_work_duration_seconds", "histogram", _QUEUE, "Time workers spent on BundleDeployments.", _WAIT, (_OWN, _OWN)),
    Described("workqueue_unfinished_work_seconds", "gauge", _QUEUE, "Seconds since all running passes started, added up. Growth without end means a stuck worker."),
    Described("workqueue_longest_running_processor_seconds", "gauge", _QUEUE, "Seconds since the oldest running pass started."),
    Described("rest_client_requests_total", "counter", ("code", "method", "host"), "Requests to the API server by status code; <error>: no response."),
    Described("leader_election_master_status", "gauge", ("name",), "1 if this process holds the Lease and acts, 0 otherwise."),
    Described("rukpak_phase_duration_seconds", "histogram", ("phase", "outcome"), "Duration of the phases of work: resolve and fetch for each source; render, apply and prune for each revision.", _PHASE, (_values(Phase), OUTCOMES)),
    Described("rukpak_source_requests_total", "counter", ("kind", "result"), "Source requests by result: resolved, fetched, reused (already stored), not modified (after a poll), error.", known=(SOURCE_KINDS, _values(SourceResult))),
    Described("rukpak_drift_detected_total", "counter", (), "Managed objects found modified by other clients, each once."),
    Described("rukpak_drift_repaired_total", "counter", (), "Modified objects that were repaired."),
    Described("rukpak_thread_deaths_total", "counter", ("kind",), "Threads that died of a bug, by kind. They are restarted; please report every death.", known=(_values(Kind),)),
    Described("rukpak_bundledeployments", "gauge", (), "BundleDeployments. Like all gauges on them, leader only."),
    Described("rukpak_bundledeployments_paused", "gauge", (), "BundleDeployments with spec.paused."),
    Described("rukpak_bundledeployment_pending_timestamp_seconds", "gauge", ("name",), "Unix time since which a revision of a BundleDeployment waits for approval. No series while none waits."),
    Described("rukpak_managed_objects", "gauge", ("state",), "Managed objects: healthy, progressing or failed; drifted and retained count some of them again."),
    Described("rukpak_bundledeployment_condition", "gauge", ("name", "type", "reason"), "Condition of a BundleDeployment: 1 True, 0 False, -1 Unknown. A missing condition has no series."),
    Described("rukpak_content_store_bytes", "gauge", (), "Bytes of fetched content on disk."),
    Described("rukpak_preparations", "gauge", ("state",), "BundleDeployments being fetched or rendered: active (at most --fetch-workers) and waiting."),
    Described("rukpak_confinement", "gauge", ("mechanism",), "Confinement of git and helm by landlock (its ABI version), seccomp and network_namespace; 0 if unavailable."),
    Described("rukpak_plugin_info", "gauge", ("type", "name", "package", "version", "api"), "Always 1, for each installed plug-in: its package, and the versions of the contract that the package names."),
    Described("rukpak_plugin_failures_total", "counter", ("type", "name"), "Failures of plug-ins of other packages: exceptions, calls that hang, results that break the contract. Those that are built in have none."),
    Described("rukpak_plugin_abandoned_calls", "gauge", ("type", "name"), "Calls of plug-ins of other packages that were abandoned and have not ended. At 8, the plug-in is not called any more."),
    Described("rukpak_build_info", "gauge", ("version",), "Always 1, labeled with the version of RukPak."),
)
# fmt: on
DESCRIBED = {each.name: each for each in _LIST}
_COUNTED_ELSEWHERE = frozenset({"workqueue_adds_total", "workqueue_retries_total", "rukpak_plugin_failures_total"})
"""Counters that the queue and the plug-ins keep: a scrape reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """The state that a scrape reads."""

    queue: Callable[[], QueueStats]
    workers: int
    leading: Callable[[], bool]
    deployments: Callable[[], Iterable[BundleDeployment]]
    store_bytes: Callable[[], int]
    preparations: Callable[[], Mapping[str, int]]
    """By state."""
    version: str
    confinement: Mapping[str, int]
    """By mechanism; 0: unavailable."""
    plugins: Sequence[Installed] = ()
    only_problems: bool = False
    """Whether only conditions of BundleDeployments with problems are reported."""
    shard: str = ""


class _Registry(CollectorRegistry):
    """A registry whose samples have the name of a shard as a further label, if there is one."""

    shard = ""

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        for metric in super().collect():
            if self.shard:
                metric.samples = [each._replace(labels={**each.labels, "shard": self.shard}) for each in metric.samples]
            yield metric


class Metrics(Observer):
    """Thread-safe. Series with known labels exist from the start, as zero."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series each
        self._registry = _Registry()
        self._state: ProcessState | None = None
        self._counters = {
            each.name: self._make(Counter, each)
            for each in _LIST
            if each.type == "counter" and each.name not in _COUNTED_ELSEWHERE
        }
        self._histograms = {
            each.name: self._make(Histogram, each, buckets=each.buckets) for each in _LIST if each.type == "histogram"
        }
        ProcessCollector(registry=self._registry)

    def _make(self, kind: type[MetricT], described: Described, **more: Any) -> MetricT:
        made = kind(described.name, described.help, described.labels, registry=self._registry, **more)
        for labels in product(*described.known) if described.known else ():
            made.labels(*labels)
        return made

    def serve(self, state: ProcessState) -> None:
        """Include this state in scrapes; call it once."""
        self._state = state
        self._registry.shard = state.shard
        self._registry.register(_ProcessStateCollector(state))

    def scrape(self) -> bytes:
        """Return all metrics in the text format (CONTENT_TYPE); those of a named shard have its name as a label."""
        return generate_latest(self._registry) + self._conditions()

    def _conditions(self) -> bytes:
        state = self._state
        if state is None or not state.leading():
            return b""
        found = state.deployments()
        return _write_conditions(filter(_has_problem, found) if state.only_problems else found, state.shard)

    # events

    def phase_ended(self, phase: Phase, seconds: float, *, succeeded: bool) -> None:
        """Count a phase."""
        self._histograms["rukpak_phase_duration_seconds"].labels(phase.value, OUTCOMES[not succeeded]).observe(seconds)

    def source_asked(self, kind: str, result: SourceResult) -> None:
        """Count the result of a source request."""
        self._counters["rukpak_source_requests_total"].labels(kind, result.value).inc()

    def drift_found(self, detected: int, repaired: int) -> None:
        """Count drifted and repaired objects."""
        self._counters["rukpak_drift_detected_total"].inc(detected)
        self._counters["rukpak_drift_repaired_total"].inc(repaired)

    def request_ended(self, method: str, host: str, status: int) -> None:
        """Count a request to the API server; status 0: no response."""
        self._counters["rest_client_requests_total"].labels(str(status or "<error>"), method, host).inc()

    def pass_ended(self, result: str, seconds: float, is_bug: bool) -> None:
        """Count a pass; `result` is one of RESULTS."""
        self._counters["controller_runtime_reconcile_total"].labels(CONTROLLER, result).inc()
        self._histograms["controller_runtime_reconcile_time_seconds"].labels(CONTROLLER).observe(seconds)
        if result == "error":
            self._counters["controller_runtime_reconcile_errors_total"].labels(CONTROLLER).inc()
        if is_bug:
            self.bug_found()

    def bug_found(self) -> None:
        """Count a bug that ended work for a pass."""
        self._counters["controller_runtime_reconcile_panics_total"].labels(CONTROLLER).inc()

    def thread_died(self, kind: Kind) -> None:
        """Count a thread, or a task on one, that died of a bug."""
        self._counters["rukpak_thread_deaths_total"].labels(kind.value).inc()

    def waited(self, seconds: float) -> None:
        """Record the time that a BundleDeployment waited for a worker."""
        self._histograms["workqueue_queue_duration_seconds"].labels(CONTROLLER, CONTROLLER).observe(seconds)

    def worked(self, seconds: float) -> None:
        """Record the time that a worker spent on a BundleDeployment."""
        self._histograms["workqueue_work_duration_seconds"].labels(CONTROLLER, CONTROLLER).observe(seconds)


class _ProcessStateCollector(Collector):
    def __init__(self, state: ProcessState) -> None:
        self._state = state

    def describe(self) -> Iterable[Metric]:
        """Return nothing: otherwise registration would read the state."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the current state."""
        state, queue = self._state, self._state.queue()
        labels = (CONTROLLER, CONTROLLER)
        depth = queue.depth if state.leading() else 0  # on a standby nothing waits for a worker
        yield _family("workqueue_depth", {labels: depth})
        yield _family("workqueue_adds_total", {labels: queue.adds})
        yield _family("workqueue_retries_total", {labels: queue.retries})
        yield _family("workqueue_unfinished_work_seconds", {labels: sum(queue.busy)})
        yield _family("workqueue_longest_running_processor_seconds", {labels: max(queue.busy, default=0.0)})
        yield _family("controller_runtime_active_workers", {(CONTROLLER,): len(queue.busy)})
        yield _family("controller_runtime_max_concurrent_reconciles", {(CONTROLLER,): state.workers})
        yield _family("leader_election_master_status", {(lease_of(state.shard),): state.leading()})
        yield _family("rukpak_content_store_bytes", {(): state.store_bytes()})
        yield _family("rukpak_preparations", {(kind,): count for kind, count in state.preparations().items()})
        yield _family("rukpak_confinement", {(name,): value for name, value in state.confinement.items()})
        yield from _collect_plugins(state.plugins)
        yield _family("rukpak_build_info", {(state.version,): 1})
        if state.leading():
            yield from _collect_deployments(list(state.deployments()))


def _collect_plugins(plugins: Sequence[Installed]) -> Iterator[Metric]:
    known: dict[tuple[str, ...], float] = {
        (each.type, each.name, each.package, each.version, ",".join(each.api)): 1 for each in plugins
    }
    yield _family("rukpak_plugin_info", known)
    calls = {(each.type, each.name): each.calls for each in plugins}
    yield _family("rukpak_plugin_failures_total", {key: each.failures for key, each in calls.items()})
    yield _family("rukpak_plugin_abandoned_calls", {key: each.abandoned for key, each in calls.items()})


def _collect_deployments(deployments: list[BundleDeployment]) -> Iterator[Metric]:
    counts = [each.status.objects for each in deployments]
    yield _family("rukpak_bundledeployments", {(): len(deployments)})
    yield _family("rukpak_bundledeployments_paused", {(): sum(each.spec.paused for each in deployments)})
    yield _family("rukpak_bundledeployment_pending_timestamp_seconds", _find_pending(deployments))
    yield _family("rukpak_managed_objects", {(state,): sum(map(attrgetter(state), counts)) for state in _OBJECT_STATES})


def _has_problem(deployment: BundleDeployment) -> bool:
    conditions = deployment.status.conditions
    is_ready = any((each.type, each.status) == (ConditionType.READY, "True") for each in conditions)
    return not is_ready or any(each.type in _PROBLEMS for each in conditions)


def _find_pending(deployments: Iterable[BundleDeployment]) -> dict[tuple[str, ...], float]:
    waiting = ((each.metadata.name, each.status.pending) for each in deployments)
    return {(name,): pending.since.timestamp() for name, pending in waiting if pending}


def _write_conditions(deployments: Iterable[BundleDeployment], shard: str) -> bytes:
    """Return the one long family in the text format: the library would need 100 ms for a thousand.

    Names of objects, types and reasons need no escaping.
    """
    described = DESCRIBED["rukpak_bundledeployment_condition"]
    mark = f',shard="{shard}"' if shard else ""
    lines = [f"# HELP {described.name} {described.help}", f"# TYPE {described.name} {described.type}"]
    lines += [
        f'{described.name}{{name="{deployment.metadata.name}",type="{condition.type}",'
        f'reason="{condition.reason}"{mark}}} '
        f"{_CONDITION_VALUES.get(condition.status, -1)}"
        for deployment in deployments
        for condition in deployment.status.conditions
    ]
    return ("\n".join(lines) + "\n").encode()


def _family(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    described = DESCRIBED[name]
    family = _FAMILIES[described.type](name, described.help, labels=described.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
