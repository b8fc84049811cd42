"""Where built-in kinds define pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.formats.objects import Object, group_of

_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def pod_template_path(group: str, kind: str) -> tuple[str, ...] | None:
    """Return where objects of a kind have their pod template: () for a Pod, None if its kind has none."""
    return _TEMPLATES.get((group, kind))


def find_pod_template(item: Object) -> tuple[str, Mapping[str, Any]] | None:
    """Return the path and the value of the pod template of an object; None if its kind has none."""
    path = pod_template_path(group_of(item), item["kind"])
    if path is None:
        return None
    value: Any = item
    for field in path:
        value = value.get(field) if isinstance(value, dict) else None
    return (".".join(path), value) if isinstance(value, dict) else None


def list_containers(pod_spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the value of every container of a pod."""
    for field in _CONTAINER_LISTS:
        containers = pod_spec.get(field)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                yield f"{path}.{field}[{index}]", container
