from __future__ import annotations

import copy
from typing import Any

import pytest

from rukpak.controller.processors.images import ImagesProcessor, replace_image
from tests.support.objects import make
from tests.support.rendered import processed, requested

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


QUAY = {"from": "quay.io/", "to": "mirror.example.com:5000/quay/"}
HUB = {"from": "docker.io/", "to": "mirror.example.com/hub/"}
FOO = {"from": "quay.io/foo", "to": "x"}
CASES: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "another registry": ("quay.io/foo/bar:v1", [QUAY], "mirror.example.com:5000/quay/foo/bar:v1"),
    "with a digest": ("quay.io/foo@sha256:ab", [QUAY], "mirror.example.com:5000/quay/foo@sha256:ab"),
    "with both": ("quay.io/foo:v1@sha256:ab", [QUAY], "mirror.example.com:5000/quay/foo:v1@sha256:ab"),
    "another registry is not touched": ("ghcr.io/foo:v1", [QUAY], "ghcr.io/foo:v1"),
    "a registry with a port": ("quay.io:443/foo", [QUAY], "quay.io:443/foo"),
    "Docker Hub, in short": ("nginx:1", [HUB], "mirror.example.com/hub/library/nginx:1"),
    "Docker Hub, with a user": ("grafana/grafana", [HUB], "mirror.example.com/hub/grafana/grafana"),
    "Docker Hub, in full": ("docker.io/grafana/grafana", [HUB], "mirror.example.com/hub/grafana/grafana"),
    "localhost is a registry": ("localhost/foo", [HUB], "localhost/foo"),
    "a name as it is written": ("nginx", [{"from": "nginx", "to": "example.com/web"}], "example.com/web"),
    "a name in full": ("nginx:1", [{"from": "docker.io/library/nginx", "tag": "2"}], "docker.io/library/nginx:2"),
    "one repository, not others that begin like it": ("quay.io/foobar", [FOO], "quay.io/foobar"),
    "one repository, not those below": ("quay.io/foo/bar", [FOO], "quay.io/foo/bar"),
    "the longest": ("quay.io/foo/bar", [QUAY, {"from": "quay.io/foo/", "to": "x/"}], "x/bar"),
    "the longest, whatever the order": ("quay.io/foo/bar", [{"from": "quay.io/foo/", "to": "x/"}, QUAY], "x/bar"),
    "only one rule": ("quay.io/a", [{"from": "quay.io/", "to": "x.io/"}, {"from": "x.io/", "to": "y/"}], "x.io/a"),
    "a tag": ("quay.io/a:v1@sha256:ab", [{"from": "quay.io/a", "tag": "v2"}], "quay.io/a:v2"),
    "a digest": ("quay.io/a:v1", [{"from": "quay.io/a", "digest": "sha256:cd"}], "quay.io/a@sha256:cd"),
    "a tag below a path": ("quay.io/a/b:v1", [{"from": "quay.io/", "tag": "v2"}], "quay.io/a/b:v2"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_an_image(case: str) -> None:
    image, rules, expect = CASES[case]
    assert replace_image(image, rules) == expect


UNMATCHED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("one that matches", {"from": "quay.io/a"}, []),
    ("a registry", {"from": "ghcr.io/"}, []),
    ("an optional one", {"from": "quay.io/z", "optional": True}, []),
    (
        "a misspelt one",
        {"from": "quay.io/aa"},
        ['images[0]: from matches no image; the nearest is "quay.io/a"; correct it, or set optional: true'],
    ),
    ("one like nothing", {"from": "b"}, ["images[0]: from matches no image; correct it, or set optional: true"]),
]


@pytest.mark.parametrize(("name", "rule", "told"), UNMATCHED, ids=[row[0] for row in UNMATCHED])
def test_a_rule_about_one_repository_that_matches_no_image_is_told(
    name: str, rule: dict[str, Any], told: list[str]
) -> None:
    pod = make("v1", "Pod", "a", spec={"containers": [{"name": "a", "image": "quay.io/a"}]})
    made = IMAGES.process(requested({"images": [{**rule, "tag": "1"}]}, pod))
    assert [warning[warning.index("images[") :] for warning in made.warnings] == told, name
