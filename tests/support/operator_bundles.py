"""Small generated OLM bundles, to be changed in one place and rendered."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, ContentTree, Rendering, RenderRequest
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.registry_v1.registry_format import RegistryV1Format

Manifest = dict[str, Any]

NAMESPACE = "inst"
PACKAGE = "operators.operatorframework.io.bundle.package.v1"
CERT_MANAGER = {("cert-manager.io", "v1", "Certificate"): True, ("cert-manager.io", "v1", "Issuer"): True}
OPENSHIFT = {("config.openshift.io", "v1", "ClusterVersion"): False}
MODES = ("AllNamespaces", "MultiNamespace", "OwnNamespace", "SingleNamespace")


def deployment(name: str = "manager", **pod: Any) -> Manifest:
    """Return an entry of the install strategy, with fields of its pod's spec."""
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "registry.example.com/x:1"}], **pod}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"name": name, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def webhook(name: str = "v.example.com", type_: str = "Validating", **fields: Any) -> Manifest:
    """Return a webhook definition; `type_` may leave out what all types end with."""
    full = type_ if type_.endswith("Webhook") else f"{type_}{'' if type_ == 'Conversion' else 'Admission'}Webhook"
    return {
        "type": full,
        "generateName": name,
        "deploymentName": "manager",
        "containerPort": 443,
        "targetPort": 9443,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **fields,
    }


def definition(name: str = "things.example.com", **spec: Any) -> Manifest:
    plural, _, group = name.partition(".")
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "names": {"kind": plural.title(), "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            **spec,
        },
    }


def object_of(kind: str, name: str = "x", api: str = "v1", **fields: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


def service_version(
    *,
    modes: Sequence[str] = ("AllNamespaces",),
    deployments: Sequence[Manifest] = (),
    permissions: Sequence[Manifest] = (),
    cluster_permissions: Sequence[Manifest] = (),
    webhooks: Sequence[Manifest] = (),
    owned: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    name: str = "op.v1.0.0",
    **spec: Any,
) -> Manifest:
    strategy = {
        "deployments": list(deployments),
        "permissions": list(permissions),
        "clusterPermissions": list(cluster_permissions),
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {
            "installModes": [{"type": mode, "supported": mode in modes} for mode in MODES],
            "install": {"strategy": "deployment", "spec": strategy},
            "customresourcedefinitions": {"owned": [{"name": crd, "kind": "X", "version": "v1"} for crd in owned]},
            "webhookdefinitions": list(webhooks),
            **spec,
        },
    }


def write_bundle(
    root: Path, csv: Manifest | None, *objects: Manifest, package: str = "op", files: Mapping[str, str] | None = None
) -> Path:
    """Write a bundle with a file for each object; `files` are added, or replace them."""
    manifests = {f"manifests/{index:02}.json": value for index, value in enumerate(objects)}
    if csv is not None:
        manifests["manifests/csv.json"] = csv
    texts = {name: json.dumps(value) for name, value in manifests.items()}
    texts["metadata/annotations.yaml"] = json.dumps({"annotations": {PACKAGE: package}})
    for name, text in {**texts, **(files or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return root


def render(
    root: Path,
    config: Any = None,
    *,
    namespace: str = NAMESPACE,
    kinds: Mapping[tuple[str, str, str], bool] | None = None,
    version: str = "v1.36.3",
    destinations: Sequence[str] = ("",),
    unknown: Collection[str] = (),
) -> Rendering:
    """Render a bundle; the cluster serves cert-manager unless other kinds are given."""
    capabilities = Capabilities(
        kubernetes_version=version, kinds=CERT_MANAGER if kinds is None else kinds, unknown=frozenset(unknown)
    )
    return RegistryV1Format().render(
        RenderRequest(
            name="b",
            install_namespace=namespace,
            tree=ContentTree(root=root, destinations=tuple(destinations)),
            config={} if config is None else config,
            capabilities=capabilities,
        )
    )


def refusal(root: Path, config: Any = None, **options: Any) -> tuple[Reason, str]:
    """Return why a bundle is not rendered."""
    with pytest.raises(BundleError) as raised:
        render(root, config, **options)
    return raised.value.reason, raised.value.message


def of_kind(rendering: Rendering, kind: str) -> list[Manifest]:
    return [item for item in rendering.objects if item["kind"] == kind]


def only(rendering: Rendering, kind: str) -> Manifest:
    (found,) = of_kind(rendering, kind)
    return found
