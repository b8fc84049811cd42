"""What the digest in a pod template covers, which templates get one, and that releases agree on it."""

from __future__ import annotations

import base64
import copy
from dataclasses import replace
from typing import Any

import pytest

from rukpak.api.names import CONFIG_DIGEST, RECREATE, ROLLOUT
from rukpak.controller.formats.objects import ObjectKey, pod_template_path
from rukpak.controller.processors import rollouts
from rukpak.controller.processors.rollouts import RolloutsProcessor
from rukpak.controller.untrusted import field
from tests.support.bundles import config_map
from tests.support.objects import deployment, labelled, make, secret
from tests.support.rendered import processed, requested

FROZEN = "sha256:0c2cf615684b4b85983602a8d06765fd154a6aacd0059f154b9308e096384afe"
FROZEN_CONFIG_MAP = "sha256:2757a619b83beec4b9f30337e58f6ce92dda1f5c6b16659a2b19150051052cd5"
ROLLOUTS = RolloutsProcessor()
SETTINGS, PASSWORD = config_map("settings", color="blue"), secret("login", password="x")
OTHER = [config_map("other", color="red"), secret("another", password="y")]

Manifest = dict[str, Any]


def container(**fields: Any) -> Manifest:
    return {"containers": [{"name": "main", "image": "a/b:1", **fields}]}


def env(reference: str, name: str, **fields: Any) -> Manifest:
    return container(env=[{"name": "A", "valueFrom": {reference: {"name": name, "key": "k", **fields}}}])


def env_from(reference: str, name: str, **fields: Any) -> Manifest:
    return container(envFrom=[{"prefix": "A_", reference: {"name": name, **fields}}])


def mounted(**source: Any) -> Manifest:
    return {"volumes": [{"name": "v", **source}]}


def volume(**source: Any) -> Manifest:
    return container() | mounted(**source)


def projected(*sources: Manifest) -> Manifest:
    return volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}, *sources]})


def workload(kind: str, pod: Manifest, name: str = "web", **metadata: Any) -> Manifest:
    """Return a workload of a kind of Kubernetes with pods like that."""
    groups = {"CronJob": "batch/v1", "Job": "batch/v1", "Pod": "v1", "PodTemplate": "v1", "ReplicationController": "v1"}
    item = make(groups.get(kind, "apps/v1"), kind, name)
    path = pod_template_path(item["apiVersion"].rpartition("/")[0], kind)
    assert path is not None
    below: Manifest = {"metadata": {"labels": {"app": name}}, "spec": pod}
    if not path:
        return labelled({**item, **below, "metadata": item["metadata"]}, **metadata)
    for key in reversed(path):
        below = {key: below}
    return labelled({**item, **below}, **metadata)


def digest(item: Manifest) -> str | None:
    path = pod_template_path(item["apiVersion"].rpartition("/")[0], item["kind"]) or ()
    found: str | None = field(item, *path, "metadata", "annotations", CONFIG_DIGEST)
    return found


def digest_of(pod: Manifest, *config: Manifest, **metadata: Any) -> str | None:
    """Return the digest that a Deployment with pods like that gets in a bundle with this config."""
    return digest(processed(ROLLOUTS, {}, workload("Deployment", pod, **metadata), *config)[0])


SEEN: dict[str, tuple[Manifest, str]] = {
    "a variable of a ConfigMap": (env("configMapKeyRef", "settings"), "settings"),
    "a variable of a Secret": (env("secretKeyRef", "login"), "login"),
    "all variables of a ConfigMap": (env_from("configMapRef", "settings"), "settings"),
    "all variables of a Secret": (env_from("secretRef", "login"), "login"),
    "a volume of a ConfigMap": (volume(configMap={"name": "settings"}), "settings"),
    "a volume of a Secret": (volume(secret={"secretName": "login"}), "login"),
    "files of a ConfigMap in a projected volume": (projected({"configMap": {"name": "settings"}}), "settings"),
    "files of a Secret in a projected volume": (projected({"secret": {"name": "login"}}), "login"),
    "what is not optional, explicitly": (env_from("secretRef", "login", optional=False), "login"),
    "what is optional at one place of two": (
        env_from("secretRef", "login", optional=True) | mounted(secret={"secretName": "login"}),
        "login",
    ),
    "an init container": ({"initContainers": env_from("secretRef", "login")["containers"], **container()}, "login"),
    "an ephemeral container": (
        container() | {"ephemeralContainers": env_from("secretRef", "login")["containers"]},
        "login",
    ),
    "the second container": (
        {"containers": [*container()["containers"], *env("configMapKeyRef", "settings")["containers"]]},
        "settings",
    ),
}


@pytest.mark.parametrize("case", SEEN)
def test_the_digest_changes_with(case: str) -> None:
    pod, name = SEEN[case]
    kept = {"settings": SETTINGS, "login": PASSWORD}
    changed = {"settings": config_map("settings", color="green"), "login": secret("login", password="z")}
    before = digest_of(pod, *kept.values(), *OTHER)
    assert before
    assert before.startswith("sha256:")
    assert digest_of(pod, *(kept | {name: changed[name]}).values(), *OTHER) != before
    [rest] = kept.keys() - {name}
    assert digest_of(pod, *(kept | {rest: changed[rest]}).values(), OTHER[0]) == before


NOT_SEEN: dict[str, Manifest] = {
    "nothing": container(),
    "an optional variable": env("secretKeyRef", "login", optional=True),
    "optional variables": env_from("configMapRef", "settings", optional=True),
    "an optional volume": volume(secret={"secretName": "login", "optional": True}),
    "an optional file in a projected volume": projected({"configMap": {"name": "settings", "optional": True}}),
    "what is not of the bundle": volume(configMap={"name": "kube-root-ca.crt"}),
    "a Secret that is called like a ConfigMap": volume(secret={"secretName": "settings"}),
    "credentials of registries": container() | {"imagePullSecrets": [{"name": "login"}]},
    "credentials of volume drivers": volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "login"}}),
    "nonsense": {
        "containers": [None, {"env": [{"valueFrom": []}, 1], "envFrom": {"secretRef": {"name": "login"}}}],
        "initContainers": "x",
        "volumes": [{"secret": {"secretName": ["login"]}}, {"projected": {"sources": [None]}}],
    },
}


@pytest.mark.parametrize("case", NOT_SEEN)
def test_there_is_no_digest_for(case: str) -> None:
    item = workload("Deployment", NOT_SEEN[case])
    before = copy.deepcopy(item)
    assert processed(ROLLOUTS, {}, item, SETTINGS, PASSWORD) == [before, SETTINGS, PASSWORD]


ALL_KINDS = (
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "Pod",
    "PodTemplate",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
)
MARKED = {
    "by default": ({}, {}, {"CronJob", "DaemonSet", "Deployment", "StatefulSet"}),
    "of one kind": ({"kinds": ["StatefulSet"]}, {}, {"StatefulSet"}),
    "Jobs that cannot be changed": ({"kinds": ["Job"]}, {}, set[str]()),
    "Jobs that may be recreated": ({"kinds": ["Job", "CronJob"]}, {RECREATE: "true"}, {"Job", "CronJob"}),
    "by default, of those that may be recreated": (
        {},
        {RECREATE: "true"},
        {"CronJob", "DaemonSet", "Deployment", "StatefulSet"},
    ),
    "left out": ({}, {ROLLOUT: "false"}, set[str]()),
    "not left out": ({}, {ROLLOUT: "true"}, {"CronJob", "DaemonSet", "Deployment", "StatefulSet"}),
}


@pytest.mark.parametrize("case", MARKED)
def test_the_workloads_that_get_a_digest(case: str) -> None:
    parameters, annotations, expected = MARKED[case]
    pod = env_from("configMapRef", "settings")
    workloads = [workload(kind, pod, annotations=annotations) for kind in ALL_KINDS]
    made = processed(ROLLOUTS, parameters, *workloads, SETTINGS)
    assert {item["kind"] for item in made if digest(item)} == expected
    assert [item for item in made if item["kind"] not in expected] == [
        item for item in [*workloads, SETTINGS] if item["kind"] not in expected
    ]


def test_a_workload_of_another_group_is_left_alone() -> None:
    item = deployment("web") | {"apiVersion": "example.com/v1"}
    item["spec"]["template"]["spec"] = env_from("configMapRef", "settings")
    assert processed(ROLLOUTS, {}, item, SETTINGS) == [item, SETTINGS]


def test_config_that_is_left_out_does_not_count() -> None:
    pod = env_from("configMapRef", "settings") | mounted(secret={"secretName": "login"})
    left_out = [labelled(item, annotations={ROLLOUT: "false"}) for item in (SETTINGS, PASSWORD)]
    assert digest_of(pod, *left_out) is None
    assert digest_of(pod, left_out[0], PASSWORD) == digest_of(volume(secret={"secretName": "login"}), PASSWORD)


def test_config_is_that_of_the_namespace_of_the_workload() -> None:
    pod = env_from("configMapRef", "settings")
    here, there = (labelled(SETTINGS, namespace=name) for name in ("shop", "other"))
    assert digest_of(pod, there) is None
    assert digest_of(pod, there, namespace="other")
    # The install namespace is called shop: whoever names it means the same.
    assert digest_of(pod, here) == digest_of(pod, SETTINGS) == digest_of(pod, SETTINGS, namespace="shop")


def test_config_of_another_group_does_not_count() -> None:
    assert digest_of(env_from("secretRef", "login"), PASSWORD | {"apiVersion": "example.com/v1"}) is None


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SAME: dict[str, tuple[Manifest, Manifest]] = {
    "labels": (SETTINGS, labelled(SETTINGS, labels={"version": "2"})),
    "the order of keys": (config_map("settings", a="1", b="2"), config_map("settings", b="2", a="1")),
    "immutability": (SETTINGS, SETTINGS | {"immutable": True}),
    "the notation of a Secret": (PASSWORD, make("v1", "Secret", "login", data={"password": encoded("x")})),
    "a value that another overrides": (
        PASSWORD,
        make("v1", "Secret", "login", data={"password": encoded("y")}, stringData={"password": "x"}),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_no_pod_is_replaced_because_of(case: str) -> None:
    pod = env_from("configMapRef", "settings") | mounted(secret={"secretName": "login"})
    before, after = (digest_of(pod, item, *OTHER) for item in SAME[case])
    assert before
    assert before == after


OTHER_DATA: dict[str, tuple[Manifest, Manifest]] = {
    "another key": (SETTINGS, config_map("settings", colour="blue")),
    "one more key": (SETTINGS, config_map("settings", color="blue", size="")),
    "binary data": (SETTINGS, SETTINGS | {"binaryData": {"logo": "AAAA"}}),
    "text that is binary data now": (SETTINGS, make("v1", "ConfigMap", "settings", binaryData={"color": "blue"})),
}


@pytest.mark.parametrize("case", OTHER_DATA)
def test_pods_are_replaced_because_of(case: str) -> None:
    before, after = (digest_of(env_from("configMapRef", "settings"), item) for item in OTHER_DATA[case])
    assert before != after


def test_the_order_of_references_and_objects_does_not_count() -> None:
    first, second = env_from("configMapRef", "settings"), env_from("secretRef", "login")
    both = first["containers"] + second["containers"]
    assert digest_of({"containers": both}, SETTINGS, PASSWORD) == digest_of(
        {"containers": both[::-1]}, PASSWORD, SETTINGS
    )


def test_a_release_computes_what_earlier_ones_did() -> None:
    """Another value here would replace the pods of every bundle at the next rendering."""
    pod = env_from("configMapRef", "settings") | mounted(secret={"secretName": "login"})
    assert digest_of(pod, SETTINGS | {"binaryData": {"logo": "AAAA"}}, PASSWORD) == FROZEN
    assert digest_of(env_from("configMapRef", "settings"), SETTINGS) == FROZEN_CONFIG_MAP


def test_what_is_there_is_kept_and_inputs_are_not_changed() -> None:
    item = deployment("web")
    item["spec"]["template"]["metadata"]["annotations"] = {"note": "n", CONFIG_DIGEST: "forged"}
    item["spec"]["template"]["spec"] |= env_from("configMapRef", "settings")
    before = copy.deepcopy(item)
    [made, _] = processed(ROLLOUTS, {}, item, SETTINGS)
    template = made["spec"].pop("template")
    assert template["metadata"]["annotations"] == {"note": "n", CONFIG_DIGEST: FROZEN_CONFIG_MAP}
    assert template["spec"] == before["spec"]["template"]["spec"]
    assert item == before
    assert processed(ROLLOUTS, {}, made | {"spec": {**made["spec"], "template": template}}, SETTINGS)[0] == (
        made | {"spec": {**made["spec"], "template": template}}
    )


def charged(*objects: Manifest) -> int:
    """Return the steps, of about a microsecond, that a rendering with these objects is charged for."""
    steps: list[int] = []
    ROLLOUTS.process(replace(requested({}, *objects), charge=lambda _text_bytes, count: steps.append(count)))
    return sum(steps)


def test_a_guess_at_a_secret_takes_long_and_a_rendering_pays_once_for_each() -> None:
    pod = env_from("secretRef", "login")
    one = charged(workload("Deployment", pod), PASSWORD)
    assert one >= 10_000
    assert charged(*(workload("Deployment", pod, f"web-{index}") for index in range(50)), PASSWORD) < one + 1_000
    assert charged(workload("Deployment", env_from("configMapRef", "settings")), SETTINGS, PASSWORD) < 1_000


def test_no_table_of_digests_fits_two_secrets() -> None:
    places = [
        ObjectKey("", "Secret", *place) for place in (("shop", "login"), ("other", "login"), ("shop", "password"))
    ]
    assert len({rollouts.digest_of(place, PASSWORD, lambda *_: None) for place in places}) == len(places)
