"""The bundles to install: objects, images, BundleDeployments.

Equal arguments give equal objects. None of them creates pods, so that only the controller and the API server are
measured.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]
CRD = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    name: str
    """Name of the BundleDeployment, its repository and its install namespace."""
    objects: tuple[Manifest, ...]

    def files(self) -> dict[str, bytes]:
        """Return the content of its image, in the layout of the format `plain`."""
        return {f"manifests/{index:04}.json": json.dumps(each).encode() for index, each in enumerate(self.objects)}

    def deployment(self, host: str, version: str) -> Manifest:
        """Return the BundleDeployment that installs its image from a registry; `version` is `@DIGEST` or `:TAG`."""
        source = {"kind": "image", "image": {"ref": f"{host}/{self.name}{version}"}}
        return {
            "apiVersion": "core.rukpak.io/v1alpha2",
            "kind": "BundleDeployment",
            "metadata": {"name": self.name},
            "spec": {"format": "plain", "installNamespace": self.name, "sources": [source]},
        }


def make_bundle(name: str, count: int, size: int = 200) -> Bundle:
    """Return a bundle of `count` objects.

    Args:
        name: see Bundle.
        count: objects; every tenth is a Role, a RoleBinding, a ServiceAccount, two are Secrets, the others ConfigMaps.
        size: bytes of data in a ConfigMap or Secret.
    """
    makers = (*[_config_map] * 5, _secret, _secret, _service_account, _role, _role_binding)
    return Bundle(
        name=name, objects=tuple(makers[number % len(makers)](f"object-{number:04}", size) for number in range(count))
    )


def make_bundles(prefix: str, count: int) -> list[Bundle]:
    """Return bundles of five objects, one of which is a Deployment without pods, whose health is assessed."""
    makers: tuple[Callable[[str, int], Manifest], ...] = (
        _service_account,
        _role,
        _role_binding,
        _config_map,
        _workload,
    )
    return [
        Bundle(name=f"{prefix}-{number:03}", objects=tuple(make(f"app-{number:03}", 200) for make in makers))
        for number in range(count)
    ]


def make_kinds(name: str, count: int) -> Bundle:
    """Return a bundle of `count` CRDs with an object of each; another name gives other kinds."""
    return Bundle(name=name, objects=tuple(made for number in range(count) for made in _kind(name, f"kind{number}")))


def make_account(namespace: str) -> list[Manifest]:
    """Return a namespace with the ServiceAccount `installer`, which may install the bundles of this module there."""
    account = {"kind": "ServiceAccount", "name": "installer", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = _object("rbac.authorization.k8s.io/v1", "RoleBinding", "installer", roleRef=role, subjects=[account])
    found = [_object("v1", "ServiceAccount", "installer"), binding]
    for each in found:
        each["metadata"]["namespace"] = namespace
    return [_object("v1", "Namespace", namespace), *found]


def kinds_of(bundles: Iterable[Bundle]) -> int:
    return len({(each["apiVersion"], each["kind"]) for bundle in bundles for each in bundle.objects})


def path_of(manifest: Mapping[str, Any], namespace: str) -> str:
    """Return the path of an object of this module, in a namespace unless it is a CRD."""
    root = "/api/v1" if manifest["apiVersion"] == "v1" else f"/apis/{manifest['apiVersion']}"
    place = "" if manifest["kind"] == CRD else f"/namespaces/{namespace}"
    return f"{root}{place}/{manifest['kind'].lower()}s/{manifest['metadata']['name']}"


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}, **fields}


def _text(name: str, size: int) -> str:
    """Return text that compresses to about half."""
    return random.Random(name).randbytes(size // 2).hex()  # noqa: S311 - equal for equal names


def _config_map(name: str, size: int) -> Manifest:
    return _object("v1", "ConfigMap", name, data={"color": "blue", "text": _text(name, size)})


def _secret(name: str, size: int) -> Manifest:
    return _object(
        "v1", "Secret", name, data={"text": _text(name, size // 4 * 4)}
    )  # hexadecimal digits are base64, too


def _kind(owner: str, name: str) -> Iterator[Manifest]:
    group, open_schema = f"{owner}.example.com", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema}}
    names = {"kind": name.capitalize(), "plural": f"{name}s", "singular": name}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    yield _object("apiextensions.k8s.io/v1", CRD, f"{name}s.{group}", spec=spec)
    yield _object(f"{group}/v1", name.capitalize(), name, spec={"color": "blue"})


def _service_account(name: str, _size: int) -> Manifest:
    return _object("v1", "ServiceAccount", name)


def _role(name: str, _size: int) -> Manifest:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    return _object("rbac.authorization.k8s.io/v1", "Role", name, rules=rules)


def _role_binding(name: str, _size: int) -> Manifest:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name}]
    return _object("rbac.authorization.k8s.io/v1", "RoleBinding", name, roleRef=role, subjects=subjects)


def _workload(name: str, _size: int) -> Manifest:
    labels = {"app.kubernetes.io/name": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return _object("apps/v1", "Deployment", name, spec=spec)
