"""A tenant who wants the controller's memory by the size of BundleDeployments alone: admission refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bundles import DEPLOYMENTS
from tests.support.tenants import ANN, OWN, Tenants, refused

pytestmark = pytest.mark.timeout(300)
TOO_LARGE: dict[str, tuple[dict[str, Any], str]] = {
    "many small values": (
        {"format": "helm", "config": {"values": {"a": [{}] * 100_000}}},
        "spec.config: larger than 256 KiB; put the values into a file of the content",
    ),
    "a long text": ({"format": "helm", "config": {"values": "a" * (300 << 10)}}, "spec.config: larger than 256 KiB"),
    "large parameters": (
        {"sources": [{"kind": "example.com/s3", "parameters": {"a": [{}] * 10_000}}]},
        "spec.sources: parameters larger than 16 KiB",
    ),
    "large patches": (
        {"processors": [{"kind": "patch", "patch": {"target": {"kind": "A"}, "merge": {"a": [{}] * 100_000}}}]},
        "spec.processors: larger than 256 KiB; change more in the bundle itself",
    ),
}
MANY: dict[str, tuple[Any, str]] = {
    "labels": ({f"a{number}": "" for number in range(300)}, "metadata.labels: more than 256; remove some"),
    "annotations": ({f"a{number}": "" for number in range(300)}, "metadata.annotations: more than 256; remove some"),
    "finalizers": (
        [f"example.com/a{number}" for number in range(70)],
        "metadata.finalizers: more than 64; remove some",
    ),
}
ADMITTED: dict[str, dict[str, Any]] = {
    "many values": {"format": "helm", "config": {"values": {"a": [{}] * 60_000}}},
    "many names": {"format": "helm", "config": {"values": {f"name-{number}": "value" for number in range(10_000)}}},
    "a long text": {"format": "helm", "config": {"values": "a" * (240 << 10)}},
    "many patches": {
        "processors": [
            {"kind": "patch", "patch": {"target": {"kind": "A"}, "merge": {"a": [{"b": number}] * 400}}}
            for number in range(32)
        ]
    },
    "no config": {},
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_is_too_large_is_refused(tenants: Tenants, name: str) -> None:
    spec, message = TOO_LARGE[name]
    with refused(message):
        create(tenants, spec)


@pytest.mark.parametrize("name", ADMITTED)
def test_what_is_large_is_admitted(tenants: Tenants, name: str) -> None:
    create(tenants, ADMITTED[name])


@pytest.mark.parametrize("name", MANY)
def test_what_is_too_many_in_metadata_is_refused(tenants: Tenants, name: str) -> None:
    value, message = MANY[name]
    with refused(message):
        create(tenants, {}, {name: value})


def create(tenants: Tenants, spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Have it judged, and stored nowhere."""
    found = tenants.manifest("large", "registry.example.com/large:v1", **OWN, paused=True, **spec)
    body = {**found, "metadata": {**found["metadata"], **(metadata or {})}}
    tenants.world.client.acting_as(ANN).create(DEPLOYMENTS, body, dry_run=True)
