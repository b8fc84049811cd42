"""A BundleDeployment is read as the API server serves it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from rukpak.api.v1alpha2.types import BundleDeployment

SAMPLES = Path(__file__).resolve().parents[4] / "config/samples"
METADATA = {"name": "foo", "uid": "u", "generation": 3, "resourceVersion": "17"}
SPEC: dict[str, Any] = {"format": "plain", "sources": [{"kind": "image", "image": {"ref": "foo/bar:v1"}}]}


def read(metadata: dict[str, Any] | None = None, **members: Any) -> BundleDeployment:
    return BundleDeployment.model_validate({"metadata": metadata or METADATA, "spec": SPEC, **members})


def test_the_first_proposal_is_understood() -> None:
    text = (SAMPLES / "proposal.yaml").read_text("utf-8")
    sources = BundleDeployment.model_validate(yaml.load(text, yaml.CSafeLoader)).spec.sources  # noqa: TID251 - our own file
    assert [source.target for source in sources] == ["foo/bar", "foo/moo", "foo/bar"]
    secrets = [source.secret for source in sources]
    assert [secret and (secret.namespace, secret.name) for secret in secrets] == [
        ("ns", "n"),
        ("foo", "my-git-creds"),
        ("foo", "my-https-creds"),
    ]


def test_defaults_are_those_of_the_api_server() -> None:
    deployment = read()
    assert deployment.status.observed_generation == -1
    assert deployment.spec.progress_deadline_seconds == 600
    assert (deployment.spec.prune, deployment.spec.drift.mode, deployment.spec.paused) == (
        "AfterHealthy",
        "Repair",
        False,
    )


def test_metadata_is_read() -> None:
    metadata = read(METADATA | {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["a"], "labels": {"b": "c"}})
    assert metadata.metadata.deletion_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (metadata.metadata.finalizers, metadata.metadata.labels) == (("a",), {"b": "c"})
    assert (metadata.metadata.generation, metadata.metadata.resource_version) == (3, "17")


def test_unknown_fields_are_ignored() -> None:
    assert read(spec=SPEC | {"somethingNew": 1}, apiVersion="core.rukpak.io/v1alpha2") == read()


def test_a_deployment_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read().spec.paused = True  # type: ignore[misc]


REFUSED: dict[str, dict[str, Any]] = {
    "no sources": {"sources": []},
    "33 sources": {"sources": SPEC["sources"] * 33},
    "an unknown prune": {"prune": "Always"},
    "a deadline that is no duration": {"progressDeadline": "soon"},
    "an install namespace that is none": {"installNamespace": "A"},
}


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED.keys())
def test_what_no_api_server_lets_through_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(spec=SPEC | spec)
