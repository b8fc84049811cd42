"""Objects as the API server shows them, in as few words as possible."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def manifest(kind: str, *, spec: Any = None, status: Any = None, **metadata: Any) -> Manifest:
    """Return an object; `kind` is apiVersion and kind: `apps/v1 Deployment`."""
    api_version, _, name = kind.rpartition(" ")
    found = {"apiVersion": api_version, "kind": name, "metadata": {"name": "web", "namespace": "foo", **metadata}}
    parts = {"spec": spec, "status": status}
    return found | {key: value for key, value in parts.items() if value is not None}


def conditions(*given: str) -> list[dict[str, str]]:
    """Return conditions written as `type=status`, `type=status/reason` or `type=status/reason/message`."""
    return [_condition(*entry.split("=", 1)) for entry in given]


def _condition(condition_type: str, rest: str) -> dict[str, str]:
    keys = ("status", "reason", "message")
    return {"type": condition_type, **dict(zip(keys, rest.split("/", 2), strict=False))}


ROLLED_OUT = ("Progressing=True/NewReplicaSetAvailable", "Available=True/MinimumReplicasAvailable")


def deployment(
    *given: str, spec: Any = None, counts: tuple[int, int, int, int] | None = None, **status: Any
) -> Manifest:
    """Return a Deployment of 3; counts are replicas, updated, ready and available."""
    keys = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    numbers = dict(zip(keys, counts or (3, 3, 3, 3), strict=True))
    wanted = {"replicas": 3, "progressDeadlineSeconds": 600, **(spec or {})}
    observed = {"observedGeneration": 1, **numbers, "conditions": conditions(*given), **status}
    return manifest("apps/v1 Deployment", spec=wanted, status=observed, generation=1)


def stateful_set(*, spec: Any = None, partition: int | None = 0, **status: Any) -> Manifest:
    """Return a StatefulSet of 3, all of them ready and updated."""
    rolling = {"type": "RollingUpdate"} | ({} if partition is None else {"rollingUpdate": {"partition": partition}})
    numbers = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas"), 3)
    revisions = {"currentRevision": "web-1", "updateRevision": "web-1"}
    observed = {"observedGeneration": 1, **numbers, **revisions, **status}
    return manifest(
        "apps/v1 StatefulSet",
        spec={"replicas": 3, "updateStrategy": rolling, **(spec or {})},
        status=observed,
        generation=1,
    )


def daemon_set(desired: int | None = 3, *, strategy: str = "RollingUpdate", **status: Any) -> Manifest:
    """Return a DaemonSet that wants as many pods, all of them available and updated."""
    keys = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    numbers: dict[str, Any] = dict.fromkeys(("desiredNumberScheduled", *keys), desired)
    observed = {"observedGeneration": 1, **numbers, **status}
    return manifest("apps/v1 DaemonSet", spec={"updateStrategy": {"type": strategy}}, status=observed, generation=1)


def pod(phase: str, *given: str, containers: Any = (), inits: Any = (), **status: Any) -> Manifest:
    """Return a Pod."""
    statuses = {"containerStatuses": list(containers), "initContainerStatuses": list(inits)}
    return manifest("v1 Pod", status={"phase": phase, "conditions": conditions(*given), **statuses, **status})


def waiting(reason: str, name: str = "app", restarts: int | None = None) -> Manifest:
    """Return the status of a container that waits; one that crashes has ended three times."""
    count = (2 if reason == "CrashLoopBackOff" else 0) if restarts is None else restarts
    return {"name": name, "ready": False, "restartCount": count, "state": {"waiting": {"reason": reason}}}


def crashed(restarts: int, *, ready: bool = False, name: str = "app", message: str = "") -> Manifest:
    """Return the status of a container that runs again after crashes."""
    last = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    return {"name": name, "ready": ready, "restartCount": restarts, "state": {"running": {}}, "lastState": last}


def ended(code: int, reason: str = "Error", name: str = "app", message: str = "") -> Manifest:
    """Return the status of a container that has ended for good."""
    terminated = {"exitCode": code, "reason": reason, "message": message}
    return {"name": name, "ready": False, "state": {"terminated": terminated}}


def job(*given: str, spec: Any = None, **status: Any) -> Manifest:
    """Return a Job."""
    return manifest("batch/v1 Job", spec=spec or {}, status={"conditions": conditions(*given), **status})


def claim(phase: str, *, spec: Any = None, **metadata: Any) -> Manifest:
    """Return a PersistentVolumeClaim of the class `disk`."""
    wanted = {"storageClassName": "disk"} if spec is None else spec
    return manifest("v1 PersistentVolumeClaim", spec=wanted, status={"phase": phase}, **metadata)


def custom(*given: str, **metadata: Any) -> Manifest:
    """Return a custom resource with conditions."""
    return manifest("example.com/v1 Cache", status={"conditions": conditions(*given)}, **metadata)


def conditioned(kind: str, *given: str, **metadata: Any) -> Manifest:
    """Return an object of a kind of which only the conditions matter."""
    return manifest(kind, status={"conditions": conditions(*given)}, **metadata)
