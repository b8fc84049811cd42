"""The bare API server: the same objects, sent by eight threads that do nothing else, or read by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus

from hack.bench.api import APPLY, BUNDLE_DEPLOYMENTS, Api, ApiError
from hack.bench.workloads import Bundle, Manifest, path_of
from rukpak.api import names
from rukpak.controller.revisions.store import SELECTOR

THREADS = 8
SERVED_AFTER_SECONDS = 60.0
"""Within which the kind of a CRD is served."""
PAUSE_SECONDS = 0.1
"""Before an object is sent again whose kind is not served yet."""
NAMESPACES = "/api/v1/namespaces"
REVISIONS = f"{NAMESPACES}/{names.DEFAULT_NAMESPACE}/secrets?fieldSelector={SELECTOR}"
"""What the controller has stored."""
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


def read(api: Api, bundles: Iterable[Bundle]) -> Effort:
    """List what a controller lists that has installed bundles of these kinds: all BundleDeployments, and metadata.

    Raises: ApiError.
    """
    paths = dict.fromkeys(_collection_of(each) for bundle in bundles for each in bundle.objects)
    started, cpu = time.perf_counter(), time.thread_time()
    api.request("GET", BUNDLE_DEPLOYMENTS)
    for path in (NAMESPACES, REVISIONS, *(f"{path}?labelSelector={names.OWNER_LABEL}" for path in paths)):
        api.list_metadata(path)
    return Effort(seconds=time.perf_counter() - started, cpu=time.thread_time() - cpu)


def _collection_of(manifest: Manifest) -> str:
    """Return the path of all objects of its kind."""
    return path_of(manifest, "").replace("/namespaces/", "").rpartition("/")[0]


def remove(api: Api, bundles: Sequence[Bundle]) -> Effort:
    """Delete all objects; then, after the measurement, the namespaces."""
    effort = _run(api, [_delete(path_of(manifest, bundle.name)) for bundle in bundles for manifest in bundle.objects])
    remove_namespaces(api, [bundle.name for bundle in bundles])
    return effort


def remove_namespaces(api: Api, names: Iterable[str]) -> None:
    """Delete namespaces with their objects; return when they no longer exist."""
    version = api.version(NAMESPACES)
    waiting = set(names)
    _run(api, [_delete(f"{NAMESPACES}/{name}") for name in sorted(waiting)])
    for event in api.watch(NAMESPACES, version):
        if event["type"] == "DELETED":
            waiting.discard(event["object"]["metadata"]["name"])
        if not waiting:
            return


def _make_namespace(name: str) -> Work:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return lambda api: api.request("POST", NAMESPACES, body)


def _apply(bundle: Bundle, manifest: Manifest) -> Work:
    path = f"{path_of(manifest, bundle.name)}?fieldManager=raw&force=true"

    def _send(api: Api) -> None:
        latest = time.monotonic() + SERVED_AFTER_SECONDS
        while True:
            try:
                api.request("PATCH", path, manifest, APPLY)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND or time.monotonic() > latest:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                return

    return _send


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
