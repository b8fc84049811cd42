"""All metrics and their meaning: the single list for the program, its documentation and its tests."""

# ruff: noqa: E501 - one metric per line

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_QUEUE = ("name", "controller")
# Buckets in seconds; the first two are controller-runtime's.
_PASS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
_WAIT = tuple(10.0**exponent for exponent in range(-8, 4))
_PHASE = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


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


# fmt: off
_LIST = (
    Described("controller_runtime_reconcile_total", "counter", ("controller", "result"), "Passes by result: success, requeue_after (runs again at a set time), error (retried with backoff)."),
    Described("controller_runtime_reconcile_errors_total", "counter", ("controller",), "Passes that failed because of the API server or a bug. A bundle that fails does not count."),
    Described("controller_runtime_reconcile_panics_total", "counter", ("controller",), "Passes, and fetches and renderings for them, that failed on a bug."),
    Described("controller_runtime_reconcile_time_seconds", "histogram", ("controller",), "Duration of passes.", _PASS),
    Described("controller_runtime_active_workers", "gauge", ("controller",), "Workers that are running a pass."),
    Described("controller_runtime_max_concurrent_reconciles", "gauge", ("controller",), "Workers (--workers)."),
    Described("workqueue_depth", "gauge", _QUEUE, "BundleDeployments waiting for a worker."),
    Described("workqueue_adds_total", "counter", _QUEUE, "BundleDeployments added to the queue."),
    Described("workqueue_retries_total", "counter", _QUEUE, "BundleDeployments added again after a failed pass."),
    Described("workqueue_queue_duration_seconds", "histogram", _QUEUE, "Time BundleDeployments waited for a worker.", _WAIT),
    Described("workqueue_work_duration_seconds", "histogram", _QUEUE, "Time workers spent on BundleDeployments.", _WAIT),
    Described("workqueue_unfinished_work_seconds", "gauge", _QUEUE, "Seconds since all running passes started, added up. Growth without end means a stuck worker."),
    Described("workqueue_longest_running_processor_seconds", "gauge", _QUEUE, "Seconds since the oldest running pass started."),
    Described("rest_client_requests_total", "counter", ("code", "method", "host"), "Requests to the API server by status code; <error>: no response."),
    Described("leader_election_master_status", "gauge", ("name",), "1 if this process holds the Lease and acts, 0 otherwise."),
    Described("rukpak_phase_duration_seconds", "histogram", ("phase", "outcome"), "Duration of the phases of work: resolve and fetch for each source; render, apply and prune for each revision.", _PHASE),
    Described("rukpak_source_requests_total", "counter", ("kind", "result"), "Source requests by result: resolved, fetched, reused (already stored), not modified (after a poll), error."),
    Described("rukpak_drift_detected_total", "counter", (), "Managed objects found modified by other clients, each once."),
    Described("rukpak_drift_repaired_total", "counter", (), "Modified objects that were repaired."),
    Described("rukpak_thread_deaths_total", "counter", ("kind",), "Threads that died of a bug, by kind. They are restarted; please report every death."),
    Described("rukpak_bundledeployments", "gauge", (), "BundleDeployments. Like all gauges on them, leader only."),
    Described("rukpak_bundledeployments_paused", "gauge", (), "BundleDeployments with spec.paused."),
    Described("rukpak_bundledeployment_pending_timestamp_seconds", "gauge", ("name",), "Unix time since which a revision of a BundleDeployment waits for approval. No series while none waits."),
    Described("rukpak_bundledeployments_unserved", "gauge", ("shard",), "BundleDeployments of a shard that no controller serves; reported by the default shard."),
    Described("rukpak_managed_objects", "gauge", ("state",), "Managed objects: healthy, progressing or failed; drifted and retained count some of them again."),
    Described("rukpak_bundledeployment_condition", "gauge", ("name", "type", "reason"), "Condition of a BundleDeployment: 1 True, 0 False, -1 Unknown. A missing condition has no series."),
    Described("rukpak_content_store_bytes", "gauge", (), "Bytes of fetched content on disk."),
    Described("rukpak_preparations", "gauge", ("state",), "BundleDeployments being fetched or rendered: active (at most --fetch-workers) and waiting."),
    Described("rukpak_confinement", "gauge", ("mechanism",), "Confinement of git and helm by landlock (its ABI version), seccomp and network_namespace; 0 if unavailable."),
    Described("rukpak_build_info", "gauge", ("version",), "Always 1, labeled with the version of RukPak."),
)
# fmt: on
DESCRIBED = {each.name: each for each in _LIST}
PROCESS_METRICS = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
)
"""The standard process metrics of Prometheus' client libraries."""
