"""Objects for tests, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.applicable import make_applicable
from rukpak.controller.formats.manifests import read_documents

Object = dict[str, Any]
SCOPES = {("", "Namespace"): False, ("rbac.authorization.k8s.io", "ClusterRole"): False, ("", "ConfigMap"): True}


def is_namespaced(group: str, kind: str) -> bool | None:
    return SCOPES.get((group, kind))


def parse(text: str) -> list[Object]:
    return [document.value for document in read_documents(text.encode(), "x.yaml")]


def applicable(*objects: Object) -> list[Object]:
    return make_applicable(objects, install_namespace="install", is_namespaced=is_namespaced)


def refusal(*objects: Object) -> str:
    with pytest.raises(BundleError) as raised:
        applicable(*objects)
    assert raised.value.reason is Reason.INVALID_BUNDLE
    return raised.value.message


def make(kind: str, api_version: str = "v1", metadata: Object | None = None, **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **(metadata or {})}, **fields}


def with_pod(**spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": spec}
    return make("Deployment", "apps/v1", spec={"selector": {"matchLabels": {"app": "a"}}, "template": template})


def with_container(**fields: Any) -> Object:
    return with_pod(containers=[{"name": "c", **fields}])


@dataclass(frozen=True)
class Case:
    name: str
    given: Object
    expect: Any


CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.e.x}
spec:
  group: e.x
  scope: SCOPE
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              strict: {type: string}
              nullable: {type: string, nullable: true}
              items: {type: array, items: {type: object, properties: {a: {type: string, nullable: true}}}}
              map: {type: object, additionalProperties: {type: string, nullable: true}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}
"""
