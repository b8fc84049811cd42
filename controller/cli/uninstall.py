"""`rukpak uninstall`: RukPak off a cluster, from the desk and with the user's own rights.

`kubectl delete -k` alone hangs where the controller goes first: the CustomResourceDefinition waits for
BundleDeployments whose finalizers nobody removes. Here a controller of this process stands by while they are deleted:
one that runs in the cluster does the work, and where none does, this one takes the Lease. Then definition and
controller go.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from api import names
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.schema import crd
from controller.cli.command import FAILED, add_cluster_options, connect, make_parser, tell
from controller.cli.deployments import POLL_SECONDS, Deployments, Manifest, NoApiError, ProgressLine, add_timeout
from controller.kube.client import Client
from controller.kube.discovery import Discovery
from controller.kube.errors import ApiError
from controller.kube.lease import LEASES
from controller.kube.resources import NAMESPACES, GroupVersionKind
from controller.manager import log
from controller.manager.manager import make_manager
from controller.options import add_options
from controller.settings import Settings

STOP_SECONDS = 10.0
LABEL = "app.kubernetes.io/name=rukpak"
"""What config/ labels everything of the controller with."""
_PARTS = tuple(
    GroupVersionKind.parse(text)
    for text in (
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
        "monitoring.coreos.com/v1/ServiceMonitor",
        "monitoring.coreos.com/v1/PrometheusRule",
        "apps/v1/Deployment",
        "policy/v1/PodDisruptionBudget",
        "networking.k8s.io/v1/NetworkPolicy",
        "v1/Service",
        "v1/ConfigMap",
        "rbac.authorization.k8s.io/v1/RoleBinding",
        "rbac.authorization.k8s.io/v1/Role",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "v1/ServiceAccount",
        "v1/Namespace",
    )
)
_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd()['metadata']['name']}"


def main(arguments: Sequence[str]) -> int:
    """Take it off; returns the exit status."""
    parser = make_parser("uninstall", "Take RukPak off a cluster: all BundleDeployments, its API and its controller.")
    objects = parser.add_mutually_exclusive_group()
    objects.add_argument("--keep", action="store_true", help="what is installed stays and is released (the default)")
    objects.add_argument("--delete", action="store_true", help="what is installed goes, as spec.deletionPolicy says")
    add_timeout(parser)
    add_cluster_options(parser)
    add_options(parser, os.environ, only=("namespace",))
    options = parser.parse_args(arguments)
    client = connect(options)
    left = _end_all(client, options)
    if left:
        tell(f"rukpak uninstall: not in time: {left}; the API and the controller stay until they are gone")
        return FAILED
    _Remains(client).remove(options.namespace, options.timeout)
    return 0


# BundleDeployments


def _end_all(client: Client, options: argparse.Namespace) -> str:
    """Carry all BundleDeployments to their end; returns what is left when the time is over."""
    deployments = Deployments(client)
    try:
        found = deployments.all()
        for value in found:
            _ask_to_go(deployments, value, keep=not options.delete)
        if not found:
            return ""
        with _controller(options):
            return _wait(deployments, options.timeout)
    except NoApiError:
        return ""


def _wait(deployments: Deployments, seconds: float) -> str:
    line, deadline = ProgressLine(), time.monotonic() + seconds
    try:
        while left := deployments.all():
            text = f"{len(left)} BundleDeployments are left; {_describe(left[0])}"
            if time.monotonic() >= deadline:
                return text
            line.show(text)
            time.sleep(POLL_SECONDS)
    finally:
        line.end()
    return ""


def _describe(value: Manifest) -> str:
    name = value["metadata"]["name"]
    deployment, problem = try_to_read(value)
    if deployment is None:
        return f"{name}: cannot be read: {problem}"
    ready = deployment.status.condition("Ready")
    return f"{name}: {ready.message if ready else 'waits for a controller'}"


@contextmanager
def _controller(options: argparse.Namespace) -> Iterator[None]:
    """Have a controller that stands by, and acts when nobody else holds the Lease."""
    log.set_up("text", "error")
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        chosen = Settings(
            kubeconfig=options.kubeconfig,
            context=options.context,
            namespace=options.namespace,
            store=folder,
            metrics_address="off",
            probe_address="off",
        )
        runner = threading.Thread(target=make_manager(chosen).run, args=(stop,), name="controller", daemon=True)
        runner.start()
        try:
            yield
        finally:
            stop.set()
            runner.join(STOP_SECONDS)


def _ask_to_go(deployments: Deployments, value: Manifest, *, keep: bool) -> None:
    name = value["metadata"]["name"]
    if keep and value["spec"].get("deletionPolicy") != "Orphan":
        deployments.change(name, {"spec": {"deletionPolicy": "Orphan"}})
    deployments.delete(name)
    print(f"bundledeployment.{names.GROUP}/{name} deleted", flush=True)


# the API and the controller


class _Remains:
    """What is of RukPak itself."""

    def __init__(self, client: Client) -> None:
        self._client, self._discovery = client, Discovery(client)

    def remove(self, namespace: str, seconds: float) -> None:
        """Delete the CustomResourceDefinition, what carries the label of the controller, and its namespace.

        Raises: ApiError.
        """
        self._delete(_DEFINITION, f"customresourcedefinition.apiextensions.k8s.io/{crd()['metadata']['name']}")
        deadline = time.monotonic() + seconds
        while self._exists(_DEFINITION) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        for kind in _PARTS:
            self._remove_kind(kind)
        path = NAMESPACES.path(name=namespace)
        self._delete(LEASES.path(namespace, names.LEASE), f"lease.{LEASES.group}/{names.LEASE}")
        if self._is_made_by_us(path):
            self._delete(path, f"namespace/{namespace}")

    def _remove_kind(self, kind: GroupVersionKind) -> None:
        resource = self._discovery.resource(kind)
        if resource is None:
            return
        for item in list(self._client.list(resource.path(), metadata=True, label_selector=LABEL)):
            metadata = item["metadata"]
            shown = f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}/{metadata['name']}"
            self._delete(resource.path(metadata.get("namespace", ""), metadata["name"]), shown)

    def _is_made_by_us(self, path: str) -> bool:
        """Whether a namespace is there only since a controller has made it."""
        try:
            metadata = self._client.get(path, metadata=True).value["metadata"]
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        managers = {str(entry.get("manager")) for entry in metadata.get("managedFields") or []}
        by_us = bool(managers) and all(manager.startswith("rukpak") for manager in managers)
        return by_us and not metadata.get("deletionTimestamp")

    def _exists(self, path: str) -> bool:
        try:
            self._client.get(path, metadata=True)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        return True

    def _delete(self, path: str, shown: str) -> None:
        try:
            self._client.delete(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return
        print(f"{shown} deleted", flush=True)
