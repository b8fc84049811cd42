"""A fake node, and kwok, which makes it Ready and lets the pods on it run.

stages.yaml configures what kwok does. A pod on the node is only an object: no container is ever started.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

STAGES = Path(__file__).parent / "stages.yaml"
NAME = "node-0"
MARK = "kwok.x-k8s.io/node"
CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "256Gi", "pods": "1000"}
NODE: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": NAME,
        "annotations": {MARK: "fake"},
        "labels": {"kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
    },
    "status": {"allocatable": CAPACITY, "capacity": CAPACITY},
}


def kwok_command(folder: Path, programs: Mapping[str, Path]) -> list[str | Path]:
    """Return the command line of kwok. It manages only nodes with its annotation."""
    return [
        programs["kwok"],
        f"--kubeconfig={folder / 'kwok.kubeconfig'}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={MARK}=fake",
        "--node-lease-duration-seconds=40",  # renews them, or the node would be NotReady every 55 s
    ]


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether pods are scheduled to a node: it is Ready and has no taint left."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node["spec"].get("taints")
