from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.processors.images.processor import ImagesProcessor
from tests.support.objects import make
from tests.support.rendered import processed

IMAGES = ImagesProcessor()
RULES = [{"from": "quay.io/", "to": "x/"}]
POD = {
    "containers": [{"name": "a", "image": "quay.io/a"}, {"name": "b"}],
    "initContainers": [{"name": "i", "image": "quay.io/i"}],
    "volumes": [{"name": "v", "image": {"reference": "quay.io/v"}}, {"name": "w", "emptyDir": {}}],
}
CHANGED = {
    "containers": [{"name": "a", "image": "x/a"}, {"name": "b"}],
    "initContainers": [{"name": "i", "image": "x/i"}],
    "volumes": [{"name": "v", "image": {"reference": "x/v"}}, {"name": "w", "emptyDir": {}}],
}


def below(pod: dict[str, Any], *path: str) -> dict[str, Any]:
    """Return the pod at a path of fields."""
    for field in reversed(path):
        pod = {field: pod}
    return pod


WORKLOADS = {
    ("v1", "Pod"): ("spec",),
    ("v1", "PodTemplate"): ("template", "spec"),
    ("v1", "ReplicationController"): ("spec", "template", "spec"),
    ("apps/v1", "Deployment"): ("spec", "template", "spec"),
    ("apps/v1", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps/v1", "StatefulSet"): ("spec", "template", "spec"),
    ("apps/v1", "DaemonSet"): ("spec", "template", "spec"),
    ("batch/v1", "Job"): ("spec", "template", "spec"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}


@pytest.mark.parametrize(("kind", "path"), WORKLOADS.items(), ids=lambda value: value[-1])
def test_every_container_of_a_workload(kind: tuple[str, str], path: tuple[str, ...]) -> None:
    item = make(*kind, "web", **below(POD, *path))
    before = copy.deepcopy(item)
    assert processed(IMAGES, {"images": RULES}, item) == [make(*kind, "web", **below(CHANGED, *path))]
    assert item == before


def test_a_custom_resource_only_where_the_spec_says() -> None:
    spec = {"image": "quay.io/a", "sidecars": [{"image": "quay.io/b"}, {}], "names": ["quay.io/c", 1]}
    fields = [{"group": "example.com", "kind": "Server", "paths": ["spec.sidecars.image", "spec.names", "spec.none.a"]}]
    item = make("example.com/v1", "Server", "a", spec=spec)
    [changed] = processed(IMAGES, {"images": RULES, "imageFields": fields}, item)
    assert changed["spec"] == {"image": "quay.io/a", "sidecars": [{"image": "x/b"}, {}], "names": ["x/c", 1]}


def test_what_does_not_change_is_shared() -> None:
    item = make("apps/v1", "Deployment", "web", **below(POD, "spec", "template", "spec"))
    [same] = processed(IMAGES, {"images": [{"from": "ghcr.io/", "to": "x/"}]}, item)
    assert same is item


@pytest.mark.parametrize("spec", [None, [], "x", {"template": None}, {"template": {"spec": {"containers": "x"}}}])
def test_a_workload_without_containers_is_left_to_the_checks_that_follow(spec: Any) -> None:
    item = make("apps/v1", "Deployment", "web", spec=spec)
    assert processed(IMAGES, {"images": RULES}, item) == [item]


PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "a registry that becomes part of a name": (
        {"images": [{"from": "quay.io/", "to": "mirror"}]},
        'p.images[0].to: must end with "/" if from does, and only then',
    ),
    "nothing to do": ({"images": [{"from": "a"}]}, "p.images[0]: set at least one of to, tag and digest"),
    "tag and digest": (
        {"images": [{"from": "a", "tag": "v1", "digest": "sha256:a"}]},
        "p.images[0].digest: must not be set together with tag",
    ),
    "a path that is none": (
        {"images": RULES, "imageFields": [{"kind": "A", "paths": ["a", "a[0]"]}]},
        "p.imageFields[0].paths[1]: 'a[0]' is not a field path; write it like spec.a[\"quoted.key\"].b",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_parameters_are_checked(case: str) -> None:
    parameters, problem = PROBLEMS[case]
    assert IMAGES.validate(parameters, "p") == [problem]
