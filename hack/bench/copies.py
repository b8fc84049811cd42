"""BundleDeployments that seem to have been installed: copies of one that was, written to etcd without the API server.

Installing ten thousand takes an hour on two processors. Instead, the controller installs one, and each copy gets what
an installation of it would have left: its namespace, its objects with their marks and managedFields, the Secret of its
revision, and the BundleDeployment with its status. All digests are computed with the controller's own functions, so
that a controller that starts finds nothing to do. The digest of what a copy was rendered from is that of the original.
"""

from __future__ import annotations

import base64
import http.client
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from api import names
from api.v1alpha2.reading import read
from controller.apply.ledger import Ledger
from controller.apply.ownership import Owner
from controller.apply.targets import make_targets
from controller.build.request import Request, inputs_digest
from controller.build.revision import Revision, pack, pack_terms, unpack
from controller.content.digests import digest_of
from controller.formats.applicable import revision_digest
from controller.observe.records import project
from controller.revisions.store import secret_name
from controller.status.report import short
from hack.bench.api import BUNDLE_DEPLOYMENTS, Api
from hack.bench.workloads import Manifest, path_of

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
        revision=unpack(deployment["status"]["revision"], data["objects"], data["terms"]),
    )


def copy(original: Original, name: str) -> Iterator[tuple[str, Manifest]]:
    """Yield what an installation under another name would have left, with the keys in etcd."""
    owner = Owner(name, str(uuid.uuid4()))
    named = {original.name: name, original.deployment["metadata"]["uid"]: owner.uid}
    deployment = _renamed(original.deployment, named)
    revision = _revision(original.revision, deployment, named)
    targets = make_targets(revision, owner, orphan=False, is_namespaced=lambda _: True)
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
