"""Workloads whose pods run on a real node: each container is the program `tiny`, and its arguments are what happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.control_plane.images import TINY
from rukpak.controller.playground.cluster import ControlPlane
from tests.support.bundles import Manifest
from tests.support.objects import make

SCRATCH = {"name": "scratch", "mountPath": "/scratch"}
"""A folder that outlives its containers, in every pod."""


def container(*steps: str, **fields: Any) -> Manifest:
    return {"name": "c", "image": TINY, "args": list(steps), "volumeMounts": [SCRATCH], **fields}


def pod_of(*containers: Manifest, volumes: list[Manifest] | None = None, **fields: Any) -> Manifest:
    """Return the spec of a pod."""
    folders = [{"name": "scratch", "emptyDir": {}}, *(volumes or [])]
    return {"terminationGracePeriodSeconds": 1, "containers": [*containers], "volumes": folders, **fields}


def workload(kind: str, pod: Manifest, **spec: Any) -> Manifest:
    """Return a Deployment, StatefulSet or DaemonSet `x`."""
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return make("apps/v1", kind, "x", spec={"selector": {"matchLabels": labels}, "template": template, **spec})


def deployment_of(*steps: str, **fields: Any) -> Manifest:
    """Return a Deployment of one pod with one container."""
    return workload("Deployment", pod_of(container(*steps, **fields)))


def job_of(pod: Manifest, **spec: Any) -> Manifest:
    return make("batch/v1", "Job", "x", spec={"template": {"spec": {"restartPolicy": "Never", **pod}}, **spec})


class Readiness:
    """What `kubectl wait --for=condition=Ready` would have seen, of all BundleDeployments and from the start."""

    def __init__(self, seen: Path) -> None:
        self._seen = seen

    def was_ready(self, name: str, generation: int = 1) -> bool:
        """Return whether Ready was ever True for a generation of the spec."""
        lines = self._seen.read_text(encoding="utf-8").splitlines()
        return f"{name} {generation} {generation} True" in lines


@contextmanager
def watching_readiness(cluster: ControlPlane, seen: Path) -> Iterator[Readiness]:
    condition = '.status.conditions[?(@.type=="Ready")]'
    columns = (".metadata.name", ".metadata.generation", f"{condition}.observedGeneration", f"{condition}.status")
    template = " ".join(f"{{{column}}}" for column in columns) + '{"\\n"}'
    command = ["get", "bundledeployments", "--watch", f"--output=jsonpath={template}"]
    with (
        seen.open("wb") as file,
        subprocess.Popen(
            [cluster.folder / "bin/kubectl", f"--kubeconfig={cluster.kubeconfig}", *command], stdout=file
        ) as watching,
    ):
        try:
            yield Readiness(seen)
        finally:
            watching.kill()
