"""What pods do not restrict: the controls of the Pod Security Standard "restricted" that they lack.

A version of a bundle that drops `runAsNonRoot` gains a power without asking for one, so what is missing is stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.permissions.statement import texts
from controller.untrusted import mapping, mappings

# Kubernetes, Pod Security Standards: the volume types of "restricted".
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SECCOMP = ("RuntimeDefault", "Localhost")


def find_unrestricted(spec: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each control that a pod lacks, with the name of the container; without one for its volumes."""
    pod = mapping(spec, "securityContext")
    for container in containers:
        own = mapping(container, "securityContext")
        for control in _lacking(own, pod):
            yield control, str(container.get("name"))
    for volume in mappings(spec, "volumes"):
        for kind in sorted(set(volume) - _VOLUMES - {"name", "hostPath"}):
            yield f"volumes of type {kind}", ""


def _lacking(own: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    if own.get("allowPrivilegeEscalation") is not False:
        yield "privilege escalation"
    if "ALL" not in texts(mapping(own, "capabilities").get("drop")):
        yield "capabilities"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "root"
    seccomp = mapping(own, "seccompProfile") or mapping(pod, "seccompProfile")
    if seccomp.get("type") not in _SECCOMP:
        yield "system calls"
