"""Deployments of the install strategy, with webhook certificates mounted (generator 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.objects import Object
from controller.formats.registry_v1.bundle.service_version import ServiceVersion, StrategyDeployment
from controller.formats.registry_v1.generators import names

_REVISION_HISTORY_LIMIT = 1
# apimachinery, ValidateAnnotationsSize: keys and values of all annotations.
_ANNOTATIONS_LIMIT = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    volume: str
    path: str
    files: Mapping[str, str]
    """Keys of the Secret to file names."""


_MOUNTS = (
    _Mount(
        volume="webhook-cert",
        path="/tmp/k8s-webhook-server/serving-certs",  # noqa: S108 - where controller-runtime looks
        files={"tls.crt": "tls.crt", "tls.key": "tls.key"},
    ),
    _Mount(
        volume="apiservice-cert",
        path="/apiserver.local.config/certificates",
        files={"tls.crt": "apiserver.crt", "tls.key": "apiserver.key"},
    ),
)


def make_deployments(
    version: ServiceVersion, namespace: str, targets: Sequence[str], certified: frozenset[str]
) -> Iterator[Object]:
    """Yield the Deployments in order of the CSV; those named in `certified` serve webhooks with certificates."""
    marks = {"olm.targetNamespaces": ",".join(targets), "olm.operatorNamespace": namespace}
    for deployment in version.deployments:
        made = _make_deployment(deployment, version.annotations, marks, namespace)
        yield _mount_certificates(made) if deployment.name in certified else made


def check_annotations(deployment: Object) -> None:
    """Refuse a pod template with more annotations than the API server accepts.

    Raises: BundleError (InvalidBundle).
    """
    annotations: Mapping[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        largest = max(annotations, key=lambda key: len(annotations[key].encode()))
        raise BundleError(
            Reason.INVALID_BUNDLE,
            f"Deployment {deployment['metadata']['name']}: spec.template.metadata.annotations: {size} bytes, but the"
            f" API server accepts {_ANNOTATIONS_LIMIT}; these include the annotations of the CSV, shorten"
            f' "{largest}"',
        )


def _make_deployment(
    deployment: StrategyDeployment, annotations: Mapping[str, str], marks: Mapping[str, str], namespace: str
) -> Object:
    spec = deployment.spec
    template = spec["template"]
    metadata = template["metadata"]
    merged = {**annotations, **metadata.get("annotations", {}), **marks}
    labels = {"labels": dict(deployment.label)} if deployment.label else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment.name, "namespace": namespace, **labels},
        "spec": {
            **spec,
            "revisionHistoryLimit": _REVISION_HISTORY_LIMIT,
            "template": {**template, "metadata": {**metadata, "annotations": merged}},
        },
    }


def _mount_certificates(deployment: Object) -> Object:
    spec = deployment["spec"]
    template = spec["template"]
    secret = names.certificate_name(deployment["metadata"]["name"])
    pod = _mount_in_pod(template["spec"], secret)
    return {**deployment, "spec": {**spec, "template": {**template, "spec": pod}}}


def _mount_in_pod(pod: Mapping[str, Any], secret: str) -> dict[str, Any]:
    containers = pod.get("containers") or []
    successors = _find_successors(containers)
    volumes = [volume for volume in pod.get("volumes", ()) if volume["name"] not in successors]
    result = {
        **pod,
        "containers": [_mount_in_container(container, successors) for container in containers],
        "volumes": [*volumes, *(_make_volume(mount, secret) for mount in _MOUNTS)],
    }
    if "initContainers" in pod:
        result["initContainers"] = [_follow_volumes(container, successors) for container in pod["initContainers"]]
    return result


def _find_successors(containers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the volumes that are replaced, each with the volume that replaces it."""
    by_path = {mount.path: mount.volume for mount in _MOUNTS}
    mounts = [mount for container in containers for mount in container.get("volumeMounts", ())]
    found = {mount["name"]: by_path[mount["mountPath"]] for mount in mounts if mount["mountPath"] in by_path}
    return {**found, **{mount.volume: mount.volume for mount in _MOUNTS}}


def _mount_in_container(container: Mapping[str, Any], successors: Mapping[str, str]) -> dict[str, Any]:
    kept = [mount for mount in container.get("volumeMounts", ()) if mount["name"] not in successors]
    added = [{"name": mount.volume, "mountPath": mount.path} for mount in _MOUNTS]
    return {**container, "volumeMounts": [*kept, *added]}


def _follow_volumes(container: Mapping[str, Any], successors: Mapping[str, str]) -> dict[str, Any]:
    """Change mounts of replaced volumes: upstream leaves them, and the API server rejects the pod."""
    if "volumeMounts" not in container:
        return dict(container)
    mounts = [{**mount, "name": successors.get(mount["name"], mount["name"])} for mount in container["volumeMounts"]]
    return {**container, "volumeMounts": mounts}


def _make_volume(mount: _Mount, secret: str) -> dict[str, Any]:
    items = [{"key": key, "path": path} for key, path in mount.files.items()]
    return {"name": mount.volume, "secret": {"secretName": secret, "items": items}}
