"""10,000 BundleDeployments of one object, and 100 of 100 objects beside them.

`hack/bench/run` measures it after everything else; `python -m hack.bench.crowd` measures only this, or fewer. They are
not installed: `copies` writes to etcd what installations leave. Nothing else runs on the control plane but the API
server, so that only the controller is measured.

BundleDeployments that seem to have been installed: copies of one that was, written to etcd without the API server.

Installing ten thousand takes an hour on two processors. Instead, the controller installs one, and each copy gets what
an installation of it would have left: its namespace, its objects with their marks and managedFields, the Secret of its
revision, and the BundleDeployment with its status. All digests are computed with the controller's own functions, so
that a controller that starts finds nothing to do. The digest of what a copy was rendered from is that of the original.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import statistics
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hack.bench import raw
from hack.bench.api import BUNDLE_DEPLOYMENTS, Api, ApiError
from hack.bench.rows import Row, publish, publish_part, tell
from hack.bench.scenarios import time_install, time_repair
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, Manifest, make_bundle, path_of
from rukpak.api import names
from rukpak.api.v1alpha2.reading import read
from rukpak.controller.apply.ledger import Ledger
from rukpak.controller.apply.ownership import Owner
from rukpak.controller.apply.targets import make_targets
from rukpak.controller.building.request import Request, inputs_digest
from rukpak.controller.building.revision import Revision, pack, pack_terms, unpack_terms
from rukpak.controller.content.digests import digest_of
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.observe.records import project
from rukpak.controller.playground.processes import free_ports, wait_for
from rukpak.controller.revisions.store import secret_name
from rukpak.controller.status.report import short

STORE = f"/api/v1/namespaces/{names.DEFAULT_NAMESPACE}/secrets"
PUTS = 100
"""Values in one transaction; etcd allows 128."""
BATCH_BYTES = 1 << 20
"""Of one transaction; etcd allows 1.5 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """What the installation of a BundleDeployment left, whose name is also that of its namespace and nothing else."""

    name: str
    deployment: Manifest
    namespace: Manifest
    secret: Manifest
    """Of its revision."""
    objects: tuple[Manifest, ...]
    """In the order of the revision."""
    revision: Revision


def read_original(api: Api, name: str, objects: Iterable[Manifest]) -> Original:
    """Return what an installation left; `objects` are those of its bundle, in order."""
    [secret] = api.request("GET", f"{STORE}?labelSelector={names.REVISION_LABEL}={name}")["items"]
    deployment = api.request("GET", f"{BUNDLE_DEPLOYMENTS}/{name}")
    data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
    return Original(
        name=name,
        deployment=deployment,
        namespace=api.request("GET", f"/api/v1/namespaces/{name}"),
        secret={"apiVersion": "v1", "kind": "Secret", **secret},
        objects=tuple(api.request("GET", path_of(each, name)) for each in objects),
        revision=unpack_terms(deployment["status"]["revision"], data["terms"], data["objects"]).unpacked(),
    )


def copy(original: Original, name: str) -> Iterator[tuple[str, Manifest]]:
    """Yield what an installation under another name would have left, with the keys in etcd."""
    owner = Owner(name, str(uuid.uuid4()))
    named = {original.name: name, original.deployment["metadata"]["uid"]: owner.uid}
    deployment = _renamed(original.deployment, named)
    revision = _revision(original.revision, deployment, named)
    targets = make_targets(revision, owner, lambda _: True)
    digests = [target.digest for target in targets.targets if not target.bare]
    yield f"namespaces/{name}", _renamed(original.namespace, named)
    ledger = Ledger()
    for each, digest in zip(original.objects, digests, strict=True):
        made = _renamed(each, {**named, each["metadata"]["annotations"][names.APPLIED_DIGEST]: digest})
        ledger.learn([project(made, made["apiVersion"].rpartition("/")[0], made["kind"])])
        yield f"{made['kind'].lower()}s/{name}/{made['metadata']['name']}", made
    secret = _secret(original, revision, named)
    yield f"secrets/{names.DEFAULT_NAMESPACE}/{secret['metadata']['name']}", secret
    status = original.deployment["status"]
    states = {
        status["revision"]: revision.digest,
        short(status["revision"]): short(revision.digest),
        status["managedState"]: ledger.managed_state,
    }
    yield f"{names.GROUP}/{names.PLURAL}/{name}", _renamed(deployment, states, uid=owner.uid)


def _renamed(value: Manifest, texts: Mapping[str, str], uid: str = "") -> Manifest:
    """Return an object as it is stored, with other texts and a UID of its own."""
    text = json.dumps(value)
    for before, now in texts.items():
        text = text.replace(before, now)
    made: Manifest = json.loads(text)
    metadata = {key: part for key, part in made["metadata"].items() if key != "resourceVersion"}
    return {**made, "metadata": {**metadata, "uid": uid or str(uuid.uuid4())}}


def _revision(original: Revision, deployment: Manifest, named: Mapping[str, str]) -> Revision:
    objects = tuple(_with_namespace(each, named[each["metadata"]["namespace"]]) for each in original.objects)
    found = read(deployment)
    request = Request(
        name=found.metadata.name,
        spec=found.spec,
        pins=found.status.sources,
        install_namespace=found.status.install_namespace,
        requested_at="",
    )
    terms = replace(
        original.terms, inputs=inputs_digest(request), install_namespace=named[original.terms.install_namespace]
    )
    return replace(original, digest=revision_digest(objects, original.hooks), objects=objects, terms=terms)


def _with_namespace(manifest: Manifest, namespace: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _secret(original: Original, revision: Revision, named: Mapping[str, str]) -> Manifest:
    terms, marks = pack_terms(revision), original.secret["metadata"]["annotations"]
    texts = {original.revision.digest: revision.digest, digest_of(pack_terms(original.revision)): digest_of(terms)}
    made = _renamed({**original.secret, "metadata": {**original.secret["metadata"], "annotations": marks}}, named)
    made = _renamed(made, texts)
    data = {"objects": pack(revision).objects, "terms": terms}
    made["data"] = {key: base64.b64encode(value).decode() for key, value in data.items()}
    made["metadata"]["name"] = secret_name(named[original.name], revision.digest, 0)
    return made


def write(etcd: str, values: Iterable[tuple[str, Manifest]]) -> int:
    """Write values to etcd below the prefix of the API server; returns how many.

    Args:
        etcd: address of its JSON gateway.
        values: objects by key. They are stored as JSON, which the API server reads for all kinds.

    Raises: RuntimeError if etcd refuses them.
    """
    connection, count = http.client.HTTPConnection(urlsplit(etcd).netloc), 0
    for batch in _batches(values):
        connection.request("POST", "/v3/kv/txn", json.dumps({"success": batch}))
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"etcd: {answer.status} {said.decode()}")
        count += len(batch)
    connection.close()
    return count


def _batches(values: Iterable[tuple[str, Manifest]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for key, value in values:
        put = {"key": _encoded(f"/registry/{key}"), "value": _encoded(json.dumps(value))}
        if batch and (len(batch) == PUTS or size + len(put["value"]) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append({"requestPut": put})
        size += len(put["value"])
    if batch:
        yield batch


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SMALL, LARGE, OBJECTS = 10_000, 100, 100
EDITS = 9
SCRAPES = 9
IDLE_SECONDS = 60.0
START_SECONDS = 600.0
IDLE_CPU = 0.1
"""CPU seconds in a second below which the controller is idle; where memory is scarce, renewing its Lease takes 0.07."""
IDLE_CHECKS = 3
"""So many such seconds in a row: other processes may get all of the CPU for one."""
PASSES = 'controller_runtime_reconcile_total{controller="bundledeployment",result="success"}'
DEPTH = 'workqueue_depth{controller="bundledeployment",name="bundledeployment"}'
WORKING = 'controller_runtime_active_workers{controller="bundledeployment"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The BundleDeployments, and the controller that manages them."""

    testbed: Testbed
    bundle: Bundle
    """What each of the small ones installs."""
    names: Sequence[str]
    """Of the small ones."""
    count: int
    """Of all."""
    metrics: str
    """Host and port."""
    bare: raw.Effort
    """Of a bare client that lists what the controller lists when it starts."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.bench.crowd", description="Measure many BundleDeployments.")
    parser.add_argument("--small", type=int, default=SMALL, help="BundleDeployments of one object [%(default)s]")
    parser.add_argument("--large", type=int, default=LARGE, help=f"of {OBJECTS} objects [%(default)s]")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds to observe it idle [%(default)s]")
    options = parser.parse_args(arguments)
    with make_testbed() as testbed:
        return publish(measure(gather(testbed, options.small, options.large), options.idle))


def run(output: Path | None, *, is_quick: bool = False) -> None:
    """Measure all of them, or a hundredth, on a control plane of their own, and publish the table."""
    small, large, idle = (SMALL // 100, LARGE // 100, IDLE_SECONDS / 6) if is_quick else (SMALL, LARGE, IDLE_SECONDS)
    with make_testbed() as testbed:
        rows = tell(measure(gather(testbed, small, large), idle))
    publish_part("crowd", rows, output, is_whole=not is_quick)


def gather(testbed: Testbed, small: int, large: int) -> Crowd:
    """Install one BundleDeployment of either kind, and copy what that leaves."""
    bundles = [make_bundle("single", 1), make_bundle("hundred", OBJECTS)]
    bodies = [_named(body, f"original-{body['metadata']['name']}") for body in testbed.push(bundles)]
    with testbed.running_controller():
        time_install(testbed.api, bodies)
        testbed.wait_until_quiet(0)
    testbed.stop_workloads()
    wanted = ([f"small-{number:05}" for number in range(small)], [f"large-{number:05}" for number in range(large)])
    originals = [
        read_original(testbed.api, body["metadata"]["name"], bundle.objects)
        for body, bundle in zip(bodies, bundles, strict=True)
    ]
    made = (
        pair for original, each in zip(originals, wanted, strict=True) for name in each for pair in copy(original, name)
    )
    written = write(testbed.cluster.etcd, made)
    print(f"{small} and {large} copies: {written} values in etcd", file=sys.stderr, flush=True)
    testbed.restart_api_server()
    wait_for(lambda: _is_listed(testbed.api, bundles), START_SECONDS, "the API server has filled its caches")
    [port] = free_ports(1)
    return Crowd(
        testbed=testbed,
        bundle=bundles[0],
        names=wanted[0],
        count=small + large + len(bundles),
        metrics=f"127.0.0.1:{port}",
        bare=raw.read(testbed.api, bundles),
    )


def _is_listed(api: Api, bundles: Iterable[Bundle]) -> bool:
    """Return whether the API server answers: it refuses while it reads a kind from etcd for the first time."""
    try:
        raw.read(api, bundles)
    except ApiError:
        return False
    return True


def _named(body: Manifest, name: str) -> Manifest:
    """Return a BundleDeployment under another name, in a namespace of that name, with the same sources."""
    return {**body, "metadata": {"name": name}, "spec": {**body["spec"], "installNamespace": name}}


def measure(crowd: Crowd, idle_seconds: float) -> Iterator[Row]:
    """Start the controller, let it rest, and disturb it; yield the rows."""
    testbed = crowd.testbed
    since = testbed.position()
    try:
        bare = crowd.bare
        yield Row(title="start until all are known, s", value=start(crowd), at_most=20, digits=1, bare=bare.seconds)
        yield Row(title="CPU of the start, s", value=testbed.usage().cpu, at_most=15, digits=1, bare=bare.cpu)
        testbed.wait_until_quiet(since)
        requests = testbed.requests(since)
        yield Row(title="writes at start", value=len(requests.writes), at_most=0, digits=0)
        yield from _rest(testbed, idle_seconds)
        yield Row(title="repair of one edit, s", value=_time_edits(crowd), at_most=0.3, digits=3)
        yield Row(title="installation of one more, s", value=_time_one_more(testbed), at_most=1.0)
        yield from _scrape(crowd)
        yield Row(title="peak resident memory, MiB", value=testbed.peak(), digits=0)
    finally:
        testbed.stop_controller()


def start(crowd: Crowd) -> float:
    """Start the controller, and return the seconds until it has made a pass over each BundleDeployment."""
    started = time.monotonic()
    crowd.testbed.launch_controller({"RUKPAK_METRICS_ADDRESS": crowd.metrics})
    wait_for(lambda: _has_seen_all(crowd), START_SECONDS, "a pass over each BundleDeployment")
    return time.monotonic() - started - IDLE_CHECKS  # the idle seconds that ended the wait


def _has_seen_all(crowd: Crowd) -> bool:
    _wait_until_idle(crowd.testbed)  # before the metrics are read, which costs CPU, too
    try:
        values = _values(_get_metrics(crowd.metrics))
    except OSError:  # not served yet
        return False
    return values.get(PASSES, 0) >= crowd.count and not values.get(DEPTH) and not values.get(WORKING)


def _get_metrics(address: str) -> str:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _values(text: str) -> Mapping[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _rest(testbed: Testbed, seconds: float) -> Iterator[Row]:
    _wait_until_idle(testbed)
    since, cpu = testbed.position(), testbed.usage().cpu
    time.sleep(seconds)
    usage, scale = testbed.usage(), 60 / seconds
    yield Row(title="CPU per minute when idle, s", value=(usage.cpu - cpu) * scale, at_most=0.1)
    requests = testbed.requests(since).without_watches()
    yield Row(title="requests per minute when idle", value=requests.total * scale, at_most=0, digits=0)
    yield Row(title="resident memory when idle, MiB", value=usage.resident, at_most=260, digits=0)


def _wait_until_idle(testbed: Testbed) -> None:
    """Wait until the controller has used no CPU to speak of for some seconds."""
    used, checks = testbed.usage().cpu, 0
    while checks < IDLE_CHECKS:
        time.sleep(1)
        before, used = used, testbed.usage().cpu
        checks = checks + 1 if used - before < IDLE_CPU else 0


def _time_edits(crowd: Crowd) -> float:
    """Edit an object of some BundleDeployments; returns the median of the seconds until a watch shows its old value."""
    chosen = crowd.names[:: max(len(crowd.names) // EDITS, 1)][:EDITS]
    return statistics.median(time_repair(crowd.testbed.api, replace(crowd.bundle, name=each)) for each in chosen)


def _time_one_more(testbed: Testbed) -> float:
    return time_install(testbed.api, testbed.push([make_bundle("newcomer", 1)]))


def _scrape(crowd: Crowd) -> Iterator[Row]:
    cpu, times = crowd.testbed.usage().cpu, []
    for _ in range(SCRAPES):
        started = time.perf_counter()
        _get_metrics(crowd.metrics)
        times.append(time.perf_counter() - started)
    used = (crowd.testbed.usage().cpu - cpu) / SCRAPES
    yield Row(title="/metrics, s", value=statistics.median(times), at_most=0.15, digits=3)
    yield Row(title="CPU of /metrics, s", value=used, at_most=0.15, digits=3)


if __name__ == "__main__":
    sys.exit(main())
