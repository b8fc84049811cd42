"""`rukpak uninstall`: remove RukPak from a cluster, with the user's own permissions.

`kubectl delete -k` hangs if it deletes the controller first: nothing is left to remove the finalizers of the
BundleDeployments, and the CustomResourceDefinition waits for them. So this process runs a standby controller while they
are deleted, which takes the Lease if no controller runs in the cluster. CustomResourceDefinition and controller follow.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from api import names
from api.v1alpha2.reading import try_to_read
from api.v1alpha2.schema import crd
from controller.cli.command import FAILED, add_cluster_options, connect, make_parser, tell
from controller.cli.deployments import (
    AWAITING_CONTROLLER,
    POLL_SECONDS,
    Deployments,
    Manifest,
    NoApiError,
    ProgressLine,
    add_timeout,
)
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
"""On every object of config/."""
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
    """Remove RukPak from the cluster; return the exit status.

    Raises: ApiError, ConfigurationError.
    """
    parser = make_parser("uninstall", "Remove RukPak from a cluster: BundleDeployments, API and controller.")
    objects = parser.add_mutually_exclusive_group()
    objects.add_argument("--keep", action="store_true", help="keep installed objects, without an owner [default]")
    deletes = "delete installed objects, unless spec.deletionPolicy is Orphan"
    objects.add_argument("--delete", action="store_true", help=deletes)
    add_timeout(parser)
    add_cluster_options(parser)
    add_options(parser, os.environ, only=("namespace",))
    options = parser.parse_args(arguments)
    client = connect(options)
    if left := _delete_all(client, options):
        tell(f"rukpak uninstall: timed out: {left}; API and controller were not deleted, run it again to continue")
        return FAILED
    _Installation(client).delete(options.namespace, options.timeout)
    return 0


# BundleDeployments


def _delete_all(client: Client, options: argparse.Namespace) -> str:
    """Delete all BundleDeployments and wait until they are gone; return what is left when the time is up."""
    deployments = Deployments(client)
    try:
        found = deployments.all()
        for value in found:
            _request_deletion(deployments, value, keep=not options.delete)
        if not found:
            return ""
        with _controller(options):
            return _wait(deployments, options.timeout)
    except NoApiError:
        return ""


def _request_deletion(deployments: Deployments, value: Manifest, *, keep: bool) -> None:
    name = value["metadata"]["name"]
    if keep and value["spec"].get("deletionPolicy") != "Orphan":
        deployments.change(name, {"spec": {"deletionPolicy": "Orphan"}})
    deployments.delete(name)
    print(f"bundledeployment.{names.GROUP}/{name} deleted", flush=True)


@contextmanager
def _controller(options: argparse.Namespace) -> Iterator[None]:
    """Run a controller that acts if no other one holds the Lease."""
    log.set_up("text", "error")
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="rukpak-") as folder:
        settings = Settings(
            kubeconfig=options.kubeconfig,
            context=options.context,
            namespace=options.namespace,
            store=folder,
            metrics_address="off",
            probe_address="off",
        )
        runner = threading.Thread(target=make_manager(settings).run, args=(stop,), name="controller", daemon=True)
        runner.start()
        try:
            yield
        finally:
            stop.set()
            runner.join(STOP_SECONDS)


def _wait(deployments: Deployments, seconds: float) -> str:
    line, deadline = ProgressLine(), time.monotonic() + seconds
    try:
        while left := deployments.all():
            text = f"{len(left)} BundleDeployments left; {_describe(left[0])}"
            if time.monotonic() >= deadline:
                return text
            line.show(text)
            time.sleep(POLL_SECONDS)
    finally:
        line.clear()
    return ""


def _describe(value: Manifest) -> str:
    name = value["metadata"]["name"]
    deployment, problem = try_to_read(value)
    if deployment is None:
        return f"{name}: cannot be read: {problem}"
    ready = deployment.status.condition("Ready")
    return f"{name}: {ready.message if ready else AWAITING_CONTROLLER}"


# the API and the controller


class _Installation:
    """The objects of RukPak itself."""

    def __init__(self, client: Client) -> None:
        self._client, self._discovery = client, Discovery(client)

    def delete(self, namespace: str, seconds: float) -> None:
        """Delete the CustomResourceDefinition, all objects with the label of the controller, and its namespace.

        Raises: ApiError.
        """
        self._delete(_DEFINITION, f"customresourcedefinition.apiextensions.k8s.io/{crd()['metadata']['name']}")
        deadline = time.monotonic() + seconds
        while self._find_metadata(_DEFINITION) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        for kind in _PARTS:
            self._delete_kind(kind)
        self._delete(LEASES.path(namespace, names.LEASE), f"lease.{LEASES.group}/{names.LEASE}")
        path = NAMESPACES.path(name=namespace)
        if self._was_created_by_controller(path):
            self._delete(path, f"namespace/{namespace}")

    def _delete_kind(self, kind: GroupVersionKind) -> None:
        resource = self._discovery.resource(kind)
        if resource is None:
            return
        for item in list(self._client.list(resource.path(), metadata=True, label_selector=LABEL)):
            metadata = item["metadata"]
            shown = f"{kind.kind.lower()}{f'.{kind.group}' if kind.group else ''}/{metadata['name']}"
            self._delete(resource.path(metadata.get("namespace", ""), metadata["name"]), shown)

    def _was_created_by_controller(self, path: str) -> bool:
        metadata = self._find_metadata(path)
        managers = {str(entry.get("manager")) for entry in metadata.get("managedFields") or []}
        is_ours = bool(managers) and all(manager.startswith("rukpak") for manager in managers)
        return is_ours and not metadata.get("deletionTimestamp")

    def _find_metadata(self, path: str) -> Mapping[str, Any]:
        """Return the metadata of an object; empty if it does not exist."""
        try:
            metadata: Mapping[str, Any] = self._client.get(path, metadata=True).value["metadata"]
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return {}
        return metadata

    def _delete(self, path: str, shown: str) -> None:
        try:
            self._client.delete(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return
        print(f"{shown} deleted", flush=True)
