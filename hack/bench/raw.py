"""The bare API server: the same objects, sent by eight threads that do nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hack.bench.api import APPLY, Api
from hack.bench.workloads import Bundle, path_of

THREADS = 8
Work = Callable[[Api], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Cost of some requests."""

    seconds: float
    cpu: float
    """Seconds, of the threads that sent them."""


def install(api: Api, bundles: Sequence[Bundle]) -> Effort:
    """Apply all objects, each bundle into the namespace of its name, which is created before the measurement."""
    _run(api, [_make_namespace(bundle.name) for bundle in bundles])
    return _run(api, [_apply(bundle, manifest) for bundle in bundles for manifest in bundle.objects])


def remove(api: Api, bundles: Sequence[Bundle]) -> Effort:
    """Delete all objects; then, after the measurement, the namespaces."""
    effort = _run(api, [_delete(path_of(manifest, bundle.name)) for bundle in bundles for manifest in bundle.objects])
    remove_namespaces(api, [bundle.name for bundle in bundles])
    return effort


def remove_namespaces(api: Api, names: Iterable[str]) -> None:
    """Delete namespaces with their objects; return when they no longer exist."""
    version = api.version("/api/v1/namespaces")
    waiting = set(names)
    _run(api, [_delete(f"/api/v1/namespaces/{name}") for name in sorted(waiting)])
    for event in api.watch("/api/v1/namespaces", version):
        if event["type"] == "DELETED":
            waiting.discard(event["object"]["metadata"]["name"])
        if not waiting:
            return


def _make_namespace(name: str) -> Work:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return lambda api: api.request("POST", "/api/v1/namespaces", body)


def _apply(bundle: Bundle, manifest: dict[str, Any]) -> Work:
    path = f"{path_of(manifest, bundle.name)}?fieldManager=raw&force=true"
    return lambda api: api.request("PATCH", path, manifest, APPLY)


def _delete(path: str) -> Work:
    return lambda api: api.request("DELETE", path, {"propagationPolicy": "Background"})


def _run(api: Api, work: Sequence[Work]) -> Effort:
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        cpu = sum(pool.map(lambda share: _run_share(api, share), [work[n::THREADS] for n in range(THREADS)]))
    return Effort(seconds=time.perf_counter() - started, cpu=cpu)


def _run_share(api: Api, work: Sequence[Work]) -> float:
    started = time.thread_time()
    for each in work:
        each(api)
    return time.thread_time() - started
