"""Which metrics there are, and what they mean: the one list for the program, its documentation and its tests."""

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
    """As a scrape shows it."""
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""


_LIST = (
    Described(
        "controller_runtime_reconcile_total",
        "counter",
        ("controller", "result"),
        "Passes by result: error (comes back with backoff), requeue_after (comes back at a set time), success.",
    ),
    Described(
        "controller_runtime_reconcile_errors_total",
        "counter",
        ("controller",),
        "Passes that could not go on, because of the API server or a bug. A bundle that fails is none of these.",
    ),
    Described("controller_runtime_reconcile_panics_total", "counter", ("controller",), "Passes that a bug has ended."),
    Described(
        "controller_runtime_reconcile_time_seconds", "histogram", ("controller",), "How long passes take.", _PASS
    ),
    Described("controller_runtime_active_workers", "gauge", ("controller",), "Workers that make a pass at the moment."),
    Described(
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        ("controller",),
        "Workers that there are (--workers).",
    ),
    Described("workqueue_depth", "gauge", _QUEUE, "BundleDeployments that wait for a worker."),
    Described("workqueue_adds_total", "counter", _QUEUE, "How often one was put into the queue."),
    Described("workqueue_retries_total", "counter", _QUEUE, "How often one was put there again after a failed pass."),
    Described("workqueue_queue_duration_seconds", "histogram", _QUEUE, "How long one waits for a worker.", _WAIT),
    Described("workqueue_work_duration_seconds", "histogram", _QUEUE, "How long one is worked on.", _WAIT),
    Described(
        "workqueue_unfinished_work_seconds",
        "gauge",
        _QUEUE,
        "Seconds since the passes under way began, all together. One that only grows tells of a stuck worker.",
    ),
    Described(
        "workqueue_longest_running_processor_seconds",
        "gauge",
        _QUEUE,
        "Seconds since the longest of the passes under way began.",
    ),
    Described(
        "rest_client_requests_total",
        "counter",
        ("code", "method", "host"),
        "Requests to the API server by status code; <error>: no answer.",
    ),
    Described(
        "leader_election_master_status", "gauge", ("name",), "1: this process holds the Lease and acts; 0: it does not."
    ),
    Described(
        "rukpak_phase_duration_seconds",
        "histogram",
        ("phase", "outcome"),
        "How long parts of the work take: resolve, fetch (of one source), render, apply, prune (of one revision).",
        _PHASE,
    ),
    Described(
        "rukpak_source_requests_total",
        "counter",
        ("kind", "result"),
        "What came of asking sources: resolved, fetched, reused (was in the store), not modified (a poll), error.",
    ),
    Described("rukpak_drift_detected_total", "counter", (), "Objects that were found changed by somebody, each once."),
    Described("rukpak_drift_repaired_total", "counter", (), "Objects of these that were put right."),
    Described(
        "rukpak_thread_deaths_total",
        "counter",
        ("kind",),
        "Threads that a bug has ended, by what they do. They are begun again; any of these is worth a report.",
    ),
    Described("rukpak_bundledeployments", "gauge", (), "BundleDeployments. These gauges are the leader's to tell."),
    Described("rukpak_bundledeployments_paused", "gauge", (), "BundleDeployments with spec.paused."),
    Described(
        "rukpak_managed_objects",
        "gauge",
        ("state",),
        "Managed objects: healthy, progressing, failed; and how many of them are drifted, how many retained.",
    ),
    Described(
        "rukpak_bundledeployment_condition",
        "gauge",
        ("name", "type", "reason"),
        "A condition of a BundleDeployment: 1 is True, 0 False, -1 Unknown. An absent one has no series.",
    ),
    Described("rukpak_content_store_bytes", "gauge", (), "Bytes of fetched content on disk."),
    Described(
        "rukpak_preparations",
        "gauge",
        ("state",),
        "Pieces of work on sources and content: active (at most --fetch-workers), and waiting for their turn.",
    ),
    Described(
        "rukpak_confinement",
        "gauge",
        ("mechanism",),
        "What keeps git and helm from other files and the network: landlock (its ABI), seccomp, network_namespace; 0 is"
        " none.",
    ),
    Described("rukpak_build_info", "gauge", ("version",), "Always 1: the release that runs."),
)
DESCRIBED = {each.name: each for each in _LIST}
OF_THE_PROCESS = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
)
"""What Prometheus' own libraries tell of a process, as they do."""
