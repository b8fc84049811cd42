"""What RukPak demands of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rukpak.conformance import FormatContract
from rukpak.plugins import Reason
from rukpak_kustomize import KustomizeFormat

CONFIG_MAP = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {color: red}}\n"


class TestKustomizeFormat(FormatContract):
    plugin = KustomizeFormat
    content: ClassVar[Sequence[Mapping[str, bytes]]] = [
        {
            "kustomization.yaml": b"""
namespace: shop
namePrefix: my-
resources: [base]
patches: [{path: patch.yaml}]
transformers: [labels.yaml]
""",
            "patch.yaml": b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: big}}",
            "labels.yaml": b"{apiVersion: builtin, kind: LabelTransformer, metadata: {name: l}, labels: {a: b},"
            b" fieldSpecs: [{path: metadata/labels, create: true}]}",
            "base/kustomization.yml": b"""
resources: [a.yaml]
secretGenerator: [{name: access, envs: [access.env]}]
""",
            "base/a.yaml": CONFIG_MAP,
            "base/access.env": b"password=hunter2\n",
        },
        {"Kustomization": b"resources: [a.yaml]", "a.yaml": CONFIG_MAP},
    ]
    good_config: ClassVar = [{}, {"path": "."}, {"path": "overlays/production"}]
    bad_config: ClassVar = [
        ({"path": 1}, "spec.config.path: "),
        ({"path": ""}, "spec.config.path: "),
        ({"path": "../a"}, "spec.config.path: "),
        ({"images": ["a"]}, "spec.config.images: "),
    ]
    bad_content: ClassVar = [
        ({"a.yaml": CONFIG_MAP}, Reason.NO_CONTENT),
        ({"kustomization.yaml": b"resources: [https://example.com/a.yaml]"}, Reason.INVALID_BUNDLE),
        ({"kustomization.yaml": b"helmCharts: [{name: a}]"}, Reason.INVALID_BUNDLE),
        ({"kustomization.yaml": b"resources: [a.yaml]"}, Reason.INVALID_BUNDLE),
        ({"kustomization.yaml": b"resources: [a.yaml]", "a.yaml": b"{"}, Reason.INVALID_BUNDLE),
        ({"kustomization.yaml": b"namePrefix: [1]"}, Reason.INVALID_BUNDLE),
    ]
