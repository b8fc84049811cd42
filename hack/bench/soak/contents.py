"""The versions of the bundle that is installed hundreds of times: what a BundleDeployment has to hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]
Identity = tuple[str, str, str]
"""Kind, namespace, and name of an object."""

VERSIONS = ("v1", "v2", "v3", "v4")
PLURALS = {"ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts", "Deployment": "deployments"}


def manifests(version: str) -> list[Manifest]:
    """Return the objects of a version: one is always equal, two change, and one exists in this version only."""
    labels = {"app": "soak"}
    container = {"name": "app", "image": f"example.com/{version}"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return [
        _object("v1", "ConfigMap", "settings", data={"color": "blue"}),
        _object("v1", "ConfigMap", "release", data={"version": version}),
        _object("v1", "ConfigMap", f"only-{version}", data={"version": version}),
        _object("v1", "ServiceAccount", "app"),
        _object("apps/v1", "Deployment", "app", spec=deployment),
    ]


def expected(deployment: Mapping[str, Any]) -> dict[Identity, object]:
    """Return the content of each object that a BundleDeployment has to hold, by its spec."""
    version = version_of(deployment["spec"]["sources"])
    namespace = deployment["spec"]["installNamespace"]
    return {(each["kind"], namespace, each["metadata"]["name"]): content(each) for each in manifests(version)}


def version_of(sources: object) -> str:
    """Return the version that the sources of a BundleDeployment name.

    Raises: ValueError if they name none.
    """
    found = re.search(r"\bv[1-9]\b", str(sources))
    if not found:
        raise ValueError(f"no version in {sources}")
    return found[0]


def content(manifest: Mapping[str, Any]) -> object:
    """Return what tells versions of an object apart."""
    match manifest["kind"]:
        case "ConfigMap":
            return manifest["data"]
        case "Deployment":
            return manifest["spec"]["template"]["spec"]["containers"][0]["image"]
        case _:
            return None


def collection(kind: str) -> str:
    """Return the path of the objects of a kind in all namespaces."""
    return f"{'/apis/apps/v1' if kind == 'Deployment' else '/api/v1'}/{PLURALS[kind]}"


def _object(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}
