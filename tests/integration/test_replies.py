"""What the API server really says when it refuses an object, and what is made of that (controller/apply/README.md)."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rukpak.api.v1alpha2.conditions import Reason
from tests.support.inside import (
    ApiError,
    ApplyFailure,
    Client,
    GroupVersionKind,
    Recovery,
    Resource,
    User,
    classify,
    connect,
    key_of,
    managed_fields,
)

PLANTED = "s3cr3t-planted"
DEADLINE = 30
"""Seconds until the server has taken notice of a policy, a webhook or a definition."""
CLUSTER_SCOPED = frozenset(
    {"Namespace", "CustomResourceDefinition", "PriorityClass", "PersistentVolume", "ClusterRole", "StorageClass"}
    | {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"}
)
PLURALS = {
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
# Nothing listens there.
NOBODY = "https://127.0.0.1:1/"


class Cluster(Protocol):
    kubeconfig: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A namespace of a test's own, and objects of the cluster that go when it is over."""

    client: Client
    namespace: str
    cluster_scoped: list[str]

    def apply(
        self, manifest: Mapping[str, Any], *, manager: str = "rukpak/x", force: bool = True, user: str = ""
    ) -> None:
        """Apply an object into this namespace; one of the cluster is called after it."""
        path, body = self.locate(manifest)
        account = User.service_account(self.namespace, user) if user else None
        self.client.acting_as(account).apply(path, body, manager=manager, force=force)
        if body["kind"] in CLUSTER_SCOPED:
            self.cluster_scoped.append(path)

    def refusal(self, manifest: Mapping[str, Any], **options: Any) -> ApplyFailure:
        """Apply an object that is refused, and return what is made of that."""
        _, body = self.locate(manifest)
        with pytest.raises(ApiError) as caught:
            self.apply(manifest, **options)
        failure = classify(caught.value, key_of(body), install_namespace=self.namespace)
        assert PLANTED not in failure.message
        assert failure.message.startswith(f"{key_of(body)}: ")
        return failure

    def locate(self, manifest: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        gvk = GroupVersionKind.of(manifest)
        namespaced = gvk.kind not in CLUSTER_SCOPED
        plural = PLURALS.get(gvk.kind, f"{gvk.kind.lower()}s")
        own = {"namespace": self.namespace} if namespaced else {}
        body = {**manifest, "metadata": {"name": "a", **own, **manifest.get("metadata", {})}}
        if not namespaced and "name" not in manifest.get("metadata", {}):
            body["metadata"]["name"] = self.namespace
        resource = Resource(gvk.group, gvk.version, gvk.kind, plural, namespaced=namespaced)
        return resource.path(body["metadata"].get("namespace", ""), body["metadata"]["name"]), body


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Client:
    return connect(kubeconfig=str(cluster.kubeconfig), user_agent="rukpak-test")


@pytest.fixture
def place(client: Client) -> Iterator[Place]:
    with _make_place(client) as made:
        yield made


@pytest.fixture(scope="module")
def shared_place(client: Client) -> Iterator[Place]:
    """One for all tests whose objects have names of their own, or are refused."""
    with _make_place(client) as made:
        yield made


@contextmanager
def _make_place(client: Client) -> Iterator[Place]:
    namespace = f"replies-{uuid.uuid4().hex[:8]}"
    made = Place(client=client, namespace=namespace, cluster_scoped=[])
    made.apply({"apiVersion": "v1", "kind": "Namespace"})
    # A Pod needs it; its own controller may be faster or not run at all.
    made.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    yield made
    for path in reversed(dict.fromkeys(made.cluster_scoped)):
        client.delete(path)


def _anew() -> dict[str, Any]:
    """Return the metadata of another object each time: one that slipped through before is not refused later."""
    return {"name": uuid.uuid4().hex}


def _said(failure: ApplyFailure) -> str:
    return failure.message.partition(": ")[2]


def _eventually(attempt: Callable[[], ApplyFailure], reason: Reason) -> ApplyFailure:
    """Try until the server says no for this reason: it takes notice of policies, webhooks and the like a bit later."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            failure = attempt()
        except pytest.fail.Exception:
            failure = None
        if failure and failure.reason is reason:
            return failure
        assert time.monotonic() < deadline, f"still {failure}"
        time.sleep(0.1)


# One object that is refused


def _config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **fields}


def _secret(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", **fields}


def _pod_spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": PLANTED}], **container}]}


def _workload(
    kind: str = "Deployment", label: str = "a", spec: Mapping[str, Any] | None = None, **container: Any
) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": label}}, "spec": _pod_spec(**container)}
    selector = {"matchLabels": {"app": label}}
    return {"apiVersion": "apps/v1", "kind": kind, "spec": {"selector": selector, "template": template, **(spec or {})}}


def _exported_job() -> dict[str, Any]:
    labels = {"batch.kubernetes.io/controller-uid": "3f2a", "controller-uid": "3f2a", "job-name": "a"}
    template = {"metadata": {"labels": labels}, "spec": {**_pod_spec(), "restartPolicy": "Never"}}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": "3f2a"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"selector": selector, "template": template}}


class Refused(NamedTuple):
    name: str
    manifest: dict[str, Any]
    reason: Reason
    said: str
    """How the message goes on after the object."""


BIG = "x" * (1 << 20)

# fmt: off
REFUSED = [
    Refused("an unknown field", _workload(imagee=PLANTED), Reason.REFUSED,
         'spec.template.spec.containers[name="c"].imagee: field not declared in schema'),
    Refused("a wrong type", _workload(args=PLANTED), Reason.REFUSED,
         'spec.template.spec.containers[name="c"].args: expected list'),
    Refused("a number for a text", _config_map(data={"a": 5}), Reason.REFUSED, "data.a: expected string"),
    Refused("an environment variable twice", _workload(env=[{"name": "A", "value": PLANTED}, {"name": "A"}]),
         Reason.REFUSED, 'spec.template.spec.containers[name="c"].env: duplicate entries for key [name="A"]'),
    Refused("data that is not base64", _secret(data={"a": f"{PLANTED}!"}), Reason.REFUSED,
         "a value cannot be decoded: illegal base64 data at input byte"),
    Refused("a quantity that is none", _workload(resources={"limits": {"cpu": PLANTED}}), Reason.REFUSED,
         "a value cannot be decoded: quantities must match the regular expression"),
    Refused("a ConfigMap over 1 MiB", _config_map(data={"a": f"{BIG}y"}), Reason.TOO_LARGE,
         "may not be more than 1048576 bytes; split it"),
    Refused("annotations over 256 KiB", _config_map(metadata={"annotations": {"a": BIG[: 300 << 10]}}),
         Reason.TOO_LARGE, "metadata.annotations: may not be more than 262144 bytes; split it"),
    Refused("a request over 3 MiB", _config_map(data={"a": BIG * 3 + "y" * 200}), Reason.TOO_LARGE,
         "too large for the API server"),
    Refused("a required field", _workload(image=""), Reason.REFUSED,
         "spec.template.spec.containers[0].image: required value"),
    Refused("a number out of range", _workload(ports=[{"containerPort": 99999}]), Reason.REFUSED,
         "spec.template.spec.containers[0].ports[0].containerPort: must be between 1 and 65535, inclusive"),
    Refused("a word that is not one of some", _workload(imagePullPolicy=PLANTED), Reason.REFUSED,
         'spec.template.spec.containers[0].imagePullPolicy: supported values: "Always", "IfNotPresent", "Never"'),
    Refused("a Job that was exported from a cluster", _exported_job(), Reason.REFUSED,
         "spec.selector: `selector` not auto-generated"),
    Refused("a label with a space", _config_map(metadata={"labels": {"a": f"{PLANTED} x"}}), Reason.REFUSED,
         "metadata.labels: a valid label must be"),
    Refused("a Secret that is not what its type says",
         _secret(type="kubernetes.io/dockerconfigjson",
         data={".dockerconfigjson": base64.b64encode(PLANTED.encode()).decode()}), Reason.REFUSED,
         "data[.dockerconfigjson]: invalid character"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_an_object_that_is_refused(shared_place: Place, case: Refused) -> None:
    failure = shared_place.refusal(case.manifest)
    assert failure.reason is case.reason
    assert _said(failure).startswith(case.said)


# A change that is refused


class Change(NamedTuple):
    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    said: str


def _job(image: str, completions: int = 1) -> dict[str, Any]:
    template = {"spec": {**_pod_spec(image=image), "restartPolicy": "Never"}}
    spec = {"suspend": True, "completions": completions, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


def _claim(mode: str) -> dict[str, Any]:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}


def _volume(path: str) -> dict[str, Any]:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": path}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec}


def _binding(role: str) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "roleRef": reference}


def _service(cluster_ip: str, port: int = 80) -> dict[str, Any]:
    spec = {"ports": [{"name": "web", "port": port}], **({"clusterIP": cluster_ip} if cluster_ip else {})}
    return {"apiVersion": "v1", "kind": "Service", "spec": spec}


def _priority(value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}


def _storage_class(provisioner: str) -> dict[str, Any]:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": provisioner}


def _pod(value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": _pod_spec(env=[{"name": "A", "value": value}])}


def _deadline(seconds: int | None) -> dict[str, Any]:
    return _with(**({"activeDeadlineSeconds": seconds} if seconds else {}))


def _with(**fields: Any) -> dict[str, Any]:
    pod = _pod("a")
    return {**pod, "spec": {**pod["spec"], **fields}}


def _tolerant(*keys: str) -> dict[str, Any]:
    return _with(tolerations=[{"key": key, "operator": "Exists"} for key in keys])


def _gated(name: str) -> dict[str, Any]:
    return _with(schedulingGates=[{"name": name}])


def _affine(key: str) -> dict[str, Any]:
    volume = _volume("/a")
    term = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    return {**volume, "spec": {**volume["spec"], "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}


# fmt: off
CHANGES = [
    Change("the selector of a Deployment", _workload(), _workload(label="b"), "spec.selector: field is immutable"),
    Change("the template of a Job", _job("i"), _job("j"), "spec.template.spec: field is immutable"),
    Change("the completions of a Job", _job("i"), _job("i", 2), "spec.completions: field is immutable"),
    Change("the provisioner of a StorageClass", _storage_class("a/b"), _storage_class("a/c"),
         "provisioner: field is immutable"),
    Change("the type of a Secret", _secret(type="Opaque"), _secret(type="example.com/other"),
         "type: field is immutable"),
    Change("an immutable ConfigMap", _config_map(immutable=True, data={"a": "1"}),
         _config_map(immutable=True, data={"a": PLANTED}), "data: field is immutable when `immutable` is set"),
    Change("the spec of a StatefulSet", _workload("StatefulSet", spec={"serviceName": "a", "replicas": 0}),
         _workload("StatefulSet", spec={"serviceName": "b", "replicas": 0}),
         "spec: updates to statefulset spec for fields other than"),
    Change("the spec of a Pod", _pod("a"), _pod(PLANTED), "spec: pod updates may not change fields other than"),
    Change("the spec of a PVC", _claim("ReadWriteOnce"), _claim("ReadWriteMany"),
         "spec: spec is immutable after creation except"),
    Change("the source of a PV", _volume("/a"), _volume(f"/{PLANTED}"),
         "spec.persistentvolumesource: spec.persistentvolumesource is immutable after creation"),
    Change("the role of a RoleBinding", _binding("a"), _binding("b"), "roleRef: cannot change roleRef"),
    Change("a longer deadline of a Pod", _deadline(60), _deadline(90),
         "spec.activeDeadlineSeconds: must be less than or equal to previous value"),
    Change("no deadline of a Pod any more", _deadline(60), _deadline(None),
         "spec.activeDeadlineSeconds: must not update from a positive integer to nil value"),
    Change("fewer tolerations of a Pod", _tolerant("a", "b"), _tolerant("a"),
         "spec.tolerations: existing toleration can not be modified except its tolerationSeconds"),
    Change("another gate of a Pod", _gated("example.com/a"), _gated("example.com/b"),
         "spec.schedulingGates[0].name: only deletion is allowed, but found new scheduling gate"),
    Change("the affinity of a PV", _affine("a"), _affine("b"),
         "nodeAffinity: field is immutable, except for updating from beta label to GA"),
    Change("the value of a PriorityClass", _priority(5), _priority(6), "value: may not be changed in an update"),
]
# fmt: on


@pytest.mark.parametrize("case", CHANGES, ids=attrgetter("name"))
def test_a_field_that_cannot_be_changed(shared_place: Place, case: Change) -> None:
    name = _anew()
    shared_place.apply({**case.before, "metadata": name})
    failure = shared_place.refusal({**case.after, "metadata": name})
    assert failure.reason is Reason.IMMUTABLE
    assert _said(failure).startswith(case.said)


def test_the_address_of_a_service_cannot_be_changed(place: Place) -> None:
    place.apply(_service(""))
    path, _ = place.locate(_service(""))
    first = ipaddress.ip_address(place.client.get(path).value["spec"]["clusterIP"])
    failure = place.refusal(_service(str(first + 1)))
    assert failure.reason is Reason.IMMUTABLE
    assert _said(failure).startswith("spec.clusterIPs[0]: may not change once set; delete the object, or set ")


def test_a_renamed_list_item_that_somebody_left_behind(place: Place) -> None:
    place.apply(_service(""))
    path, _ = place.locate(_service(""))
    renumber = [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]
    place.client.json_patch(path, renumber)
    failure = place.refusal(_service(""))
    assert (failure.reason, failure.recovery) == (Reason.REFUSED, Recovery.TAKE_OVER_ITEMS)
    assert _said(failure) == "spec.ports[1].name: duplicate value"


# Other objects that are there or not


def test_a_namespace_that_is_missing(place: Place) -> None:
    failure = place.refusal(_config_map(metadata={"namespace": "is-not-there"}))
    assert (failure.reason, failure.recovery) == (Reason.NAMESPACE_NOT_FOUND, Recovery.NONE)


def test_an_install_namespace_that_is_missing_can_be_created(client: Client) -> None:
    missing = Place(client=client, namespace=f"replies-{uuid.uuid4().hex[:8]}", cluster_scoped=[])
    assert missing.refusal(_config_map()).recovery is Recovery.CREATE_NAMESPACE


def test_a_kind_that_is_not_served(place: Place) -> None:
    failure = place.refusal({"apiVersion": "example.com/v1", "kind": "Nothing"})
    assert (failure.reason, failure.recovery) == (Reason.KIND_NOT_SERVED, Recovery.REFRESH_DISCOVERY)


def test_a_namespace_that_is_being_deleted(place: Place) -> None:
    place.apply(_config_map(metadata={"name": "holds", "finalizers": ["example.com/hold"]}))
    place.client.delete(f"/api/v1/namespaces/{place.namespace}")
    try:
        failure = _eventually(lambda: place.refusal(_config_map(metadata=_anew())), Reason.NAMESPACE_TERMINATING)
        assert _said(failure) == f'namespace "{place.namespace}" is being deleted'
    finally:
        path, _ = place.locate(_config_map(metadata={"name": "holds"}))
        place.client.merge_patch(path, {"metadata": {"finalizers": None}})


def test_an_object_that_was_changed_meanwhile(place: Place) -> None:
    place.apply(_config_map())
    failure = place.refusal(_config_map(metadata={"resourceVersion": "1"}))
    assert (failure.reason, failure.recovery) == (Reason.API_UNAVAILABLE, Recovery.JUDGE_AGAIN)


def test_an_object_whose_uid_is_another(place: Place) -> None:
    failure = place.refusal(_config_map(metadata={"uid": str(uuid.uuid4())}))
    assert (failure.reason, failure.recovery) == (Reason.API_UNAVAILABLE, Recovery.JUDGE_AGAIN)


def test_an_object_that_somebody_made_first(place: Place) -> None:
    place.apply(_config_map(data={"a": "1"}), manager="other")
    failure = place.refusal(_config_map(data={"a": PLANTED}), force=False)
    assert (failure.reason, failure.recovery) == (Reason.COLLISION, Recovery.JUDGE_AGAIN)
    assert _said(failure) == "already exists, and other field managers own data.a; delete it"


def test_an_object_that_another_controls(place: Place) -> None:
    def owned(by: str) -> dict[str, Any]:
        owner = _config_map(metadata={"name": by})
        place.apply(owner)
        uid = place.client.get(place.locate(owner)[0]).value["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": by, "uid": uid, "controller": True}
        return _config_map(metadata={"ownerReferences": [reference]})

    place.apply(owned("first"), manager="other")
    failure = place.refusal(owned("second"))
    assert (failure.reason, failure.recovery) == (Reason.COLLISION, Recovery.JUDGE_AGAIN)


# Rights, quotas, policies


def _role(*rules: dict[str, Any], name: str = "a") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _grant(place: Place, *rules: dict[str, Any]) -> None:
    place.apply(_role(*rules))
    place.apply(
        {**_binding("a"), "subjects": [{"kind": "ServiceAccount", "name": "bob", "namespace": place.namespace}]}
    )


RBAC = "rbac.authorization.k8s.io"


def test_rights_that_the_account_lacks(place: Place) -> None:
    account = f"system:serviceaccount:{place.namespace}:bob"
    where = f'configmaps in namespace "{place.namespace}"'
    first = place.refusal(_config_map(), user="bob")
    said = f'"{account}" may not patch {where}; grant it this permission'
    assert (first.reason, _said(first)) == (Reason.FORBIDDEN, said)
    _grant(place, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]})
    second = _eventually(lambda: place.refusal(_config_map(), user="bob"), Reason.FORBIDDEN)
    assert second.missing[0].verbs in (("create",), ("patch",))


def test_rights_that_the_account_may_not_grant(place: Place) -> None:
    _grant(place, {"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["create", "patch"]})
    wanted = _role({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}, name="more")
    where = f'get,list deployments.apps in namespace "{place.namespace}"'

    def attempt() -> ApplyFailure:
        failure = place.refusal(wanted, user="bob")
        assert "may not grant" in failure.message
        return failure

    failure = _retry(attempt)
    assert failure.reason is Reason.FORBIDDEN
    assert _said(failure).endswith(f"may not grant permissions that it lacks: {where}; grant them to it first")


def _retry(attempt: Callable[[], ApplyFailure]) -> ApplyFailure:
    """Repeat an attempt whose assertions fail until the server has taken notice of a new right."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            return attempt()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_a_quota(place: Place) -> None:
    place.apply({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"count/secrets": "0"}}})
    failure = _eventually(lambda: place.refusal(_secret(metadata=_anew())), Reason.REFUSED)
    assert _said(failure) == (
        "exceeded quota: a, requested: count/secrets=1, limited: count/secrets=0; raise the quota, or delete what it "
        "counts"
    )


def test_pod_security(place: Place) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    place.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.namespace, "labels": labels}})
    failure = _eventually(lambda: place.refusal({**_pod("a"), "metadata": _anew()}), Reason.REFUSED)
    assert _said(failure).startswith('violates PodSecurity "restricted:latest": ')


ADMISSION = "admissionregistration.k8s.io"


def _rules(place: Place) -> dict[str, Any]:
    """Return what an admission configuration is about: ConfigMaps and Secrets of this test's namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps", "secrets"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    return {"namespaceSelector": selector, "rules": [rule]}


@pytest.mark.parametrize("reason", ["Invalid", "Forbidden", "RequestEntityTooLarge"])
def test_a_policy_of_the_cluster_with_any_code(place: Place, reason: str) -> None:
    about = _rules(place)
    about["resourceRules"] = about.pop("rules")
    validation = {"expression": "false", "message": "Not here.", "reason": reason}
    policy = {"matchConstraints": about, "validations": [validation]}
    binding = {"policyName": place.namespace, "validationActions": ["Deny"]}
    place.apply({"apiVersion": f"{ADMISSION}/v1", "kind": "ValidatingAdmissionPolicy", "spec": policy})
    place.apply({"apiVersion": f"{ADMISSION}/v1", "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})
    failure = _eventually(lambda: place.refusal(_config_map(metadata=_anew())), Reason.REFUSED)
    assert _said(failure) == f'admission policy "{place.namespace}" denied the request: not here'


# Webhooks


def _certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 and its key, as one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now, now + dt.timedelta(days=1)
        )
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "webhook.pem"
    path.write_bytes(certificate.public_bytes(pem) + private)
    return path


class _Denies(BaseHTTPRequestHandler):
    """An admission webhook that says no to everything, with the code that the object's name ends in."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        status = {"code": int(request["name"].rpartition("-")[2]), "message": "Never.", "reason": "Whatever"}
        response = {"uid": request["uid"], "allowed": False, "status": status}
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _serve(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Denies)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _webhook(place: Place, url: str, bundle: str) -> dict[str, Any]:
    """Return a webhook configuration that matches all codes that a test may ask for."""
    webhook = {
        "name": "no.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "clientConfig": {"url": url, "caBundle": bundle},
        **_rules(place),
    }
    return {"apiVersion": f"{ADMISSION}/v1", "kind": "ValidatingWebhookConfiguration", "webhooks": [webhook]}


def _bundle(certificate: Path) -> str:
    return base64.b64encode(certificate.read_bytes().partition(b"-----BEGIN PRIVATE")[0]).decode()


def test_a_webhook_says_no_with_any_code(place: Place, tmp_path: Path) -> None:
    certificate = _certificate(tmp_path)
    with _serve(certificate) as url:
        place.apply(_webhook(place, url, _bundle(certificate)))
        _eventually(lambda: place.refusal(_config_map(metadata={"name": f"{uuid.uuid4().hex}-400"})), Reason.REFUSED)
        for code in (400, 401, 403, 404, 409, 413, 422, 429, 500, 503):
            failure = place.refusal(_config_map(metadata={"name": f"a-{code}"}))
            assert failure.reason is Reason.REFUSED
            assert _said(failure) == 'admission webhook "no.example.com" denied the request: never'


def test_an_admission_webhook_that_is_not_up(place: Place, tmp_path: Path) -> None:
    place.apply(_webhook(place, NOBODY, _bundle(_certificate(tmp_path))))
    attempt = lambda: place.refusal(_config_map(metadata=_anew()))  # noqa: E731
    failure = _eventually(attempt, Reason.WEBHOOK_UNAVAILABLE)
    who = 'admission webhook "no.example.com"'
    said = f"{who} could not be called: connection refused; check the workload that serves it"
    assert _said(failure) == said


# Custom resources


def _definition(place: Place, **spec: Any) -> dict[str, Any]:
    """Return a definition of the kind Widget, in a group of this test's own."""
    rule = {"rule": "self == oldSelf", "message": "field is immutable"}
    properties = {"a": {"type": "string", "x-kubernetes-validations": [rule]}, "b": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    group = f"{place.namespace}.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [version, {**version, "name": "v2", "storage": False}],
            **spec,
        },
    }


def _widget(place: Place, version: str = "v1", *, name: str = "a", **spec: Any) -> dict[str, Any]:
    manifest = {"apiVersion": f"{place.namespace}.example.com/{version}", "kind": "Widget", "spec": spec}
    return {**manifest, "metadata": {"name": name}}


def _establish(place: Place, **spec: Any) -> None:
    place.apply(_definition(place, **spec))
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            place.apply(_widget(place, a="x"))
        except ApiError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def test_a_rule_of_a_custom_resource_has_its_authors_words(place: Place) -> None:
    _establish(place)
    failure = place.refusal(_widget(place, a=PLANTED))
    assert (failure.reason, _said(failure)) == (Reason.REFUSED, "spec.a: field is immutable")


def _version(name: str, *, storage: bool, **fields: Any) -> dict[str, Any]:
    properties = {"spec": {"type": "object", "properties": {"a": {"type": "string"}, **fields}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def test_an_entry_of_an_older_version_is_migrated_where_a_newer_one_has_a_default(place: Place) -> None:
    """Flux is stuck there (flux2#5715): the object does not fit the version of the entry of another client."""
    _establish(place, versions=[_version("v1", storage=False), _version("v2", storage=True)])
    path, ours = place.locate(_widget(place, "v2", a="ours"))
    # A field that we do not take: with its last one the entry would go.
    label = {"metadata": {"labels": {"x": "y"}}}
    place.client.merge_patch(path.replace("/v2/", "/v1/"), label, manager="somebody")
    default = {"type": "string", "default": "d"}
    place.apply(_definition(place, versions=[_version("v1", storage=False), _version("v2", storage=True, b=default)]))

    failure = _eventually(lambda: place.refusal(ours), Reason.REFUSED)
    assert failure.recovery is Recovery.MIGRATE_ENTRIES

    managed_fields.migrate_entries(place.client, path, ours["apiVersion"])
    place.apply(ours)
    assert place.client.get(path).value["spec"] == {"a": "ours", "b": "d"}


@pytest.mark.parametrize("size", [1_600_000, 2_500_000], ids=["etcd takes", "is sent to etcd"])
def test_a_custom_resource_that_is_larger_than(place: Place, size: int) -> None:
    _establish(place)
    assert place.refusal(_widget(place, a="x", b="y" * size)).reason is Reason.TOO_LARGE


def test_the_scope_of_a_definition_cannot_be_changed(place: Place) -> None:
    _establish(place)
    failure = place.refusal(_definition(place, scope="Cluster"))
    assert (failure.reason, _said(failure)) == (
        Reason.IMMUTABLE,
        "spec.scope: field is immutable; revert the change, or delete the object",
    )


def test_a_definition_that_is_being_deleted(place: Place) -> None:
    _establish(place)
    place.apply({**_widget(place, a="x"), "metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    path, _ = place.locate(_definition(place))
    place.client.delete(path)
    try:
        _eventually(lambda: place.refusal(_widget(place, name=_anew()["name"])), Reason.WAITING_FOR_CRD)
    finally:
        held, _ = place.locate(_widget(place))
        place.cluster_scoped.remove(path)
        place.client.merge_patch(held, {"metadata": {"finalizers": None}})


def test_a_conversion_webhook_that_is_not_up(place: Place, tmp_path: Path) -> None:
    access = {"url": NOBODY, "caBundle": _bundle(_certificate(tmp_path))}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": access}
    _establish(place, conversion={"strategy": "Webhook", "webhook": webhook})
    failure = place.refusal(_widget(place, "v2", a="x"))
    assert failure.reason is Reason.WEBHOOK_UNAVAILABLE
    assert "the conversion webhook of Widget" in failure.message


def test_an_api_server_that_is_not_there(tmp_path: Path) -> None:
    cluster = {"name": "a", "cluster": {"server": NOBODY}}
    user = {"name": "a", "user": {"token": "a"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [user], "contexts": [context]}
    (tmp_path / "kubeconfig").write_text(json.dumps({**config, "current-context": "a"}))
    client = connect(kubeconfig=str(tmp_path / "kubeconfig"), user_agent="rukpak-test")
    failure = Place(client=client, namespace="a", cluster_scoped=[]).refusal(_config_map())
    assert (failure.reason, _said(failure)) == (Reason.API_UNAVAILABLE, "the API server did not answer")
