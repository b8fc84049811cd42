"""The paths that each listener serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from controller.manager.metrics import CONTENT_TYPE, Metrics
from controller.manager.serving.probes import Probes
from controller.manager.serving.server import Reply, Route


def metrics_routes(metrics: Metrics) -> Mapping[str, Route]:
    """Return the routes of the listener at `--metrics-address`."""
    return {"/metrics": lambda: Reply(HTTPStatus.OK, metrics.scrape(), CONTENT_TYPE)}


def probe_routes(probes: Probes) -> Mapping[str, Route]:
    """Return the routes of the listener at `--probe-address`."""
    return {
        "/healthz": lambda: _reply(probes.find_health_problems),
        "/readyz": lambda: _reply(probes.find_readiness_problems),
    }


def _reply(find_problems: Callable[[], list[str]]) -> Reply:
    problems = find_problems()
    status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    return Reply(status, "".join(f"{line}\n" for line in problems or ["ok"]).encode())
