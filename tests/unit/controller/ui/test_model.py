from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.ui.model import make_detail, make_row, make_steps, seal, write_yaml
from rukpak.controller.views.objects import Node, make_nodes, make_outline
from tests.support.pages import (
    DIGEST,
    NEXT,
    ago,
    condition,
    deployment,
    drifted,
    not_ready,
    pending,
    pin,
    ready,
    waiting,
)

Json = dict[str, Any]


def value(content: Json, **metadata: Any) -> Json:
    about = {
        "name": "shop",
        "uid": "u",
        "generation": 1,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {**content, "metadata": {**about, **metadata}}


def read(content: Json, **metadata: Any) -> BundleDeployment:
    found, problem = try_to_read(value(content, **metadata))
    assert found, problem
    return found


class RowCase(NamedTuple):
    name: str
    content: Json
    expected: Json
    metadata: Mapping[str, Any] = MappingProxyType({})


STALLED = not_ready("Failed", "Job shop/a has failed", condition("Stalled", "True", "Failed", "x"))
ROWS = [
    RowCase(
        "Ready",
        deployment(**ready()),
        {"state": "ready", "reason": "Ready", "healthy": 6, "total": 6, "revision": "1f2e3d4c5b6a"},
    ),
    RowCase(
        "stalled", deployment(**STALLED), {"state": "stalled", "reason": "Failed", "message": "Job shop/a has failed"}
    ),
    RowCase("waiting for approval", deployment(**waiting()), {"state": "waiting", "pending": True}),
    RowCase(
        "paused and drifted",
        deployment({"paused": True}, **drifted()),
        {"state": "paused", "paused": True, "drifted": 1},
    ),
    RowCase(
        "not observed",
        deployment(),
        {"state": "progressing", "ready": "Unknown", "message": "not yet observed by the controller"},
    ),
    RowCase("of a tag", deployment(**ready()), {"version": "v1.4.2"}),
    RowCase(
        "of a folder, which is in a ConfigMap with a name of its own",
        deployment(**ready(installedSources=[{**pin("shop-1f2e3d4c5b6a-1"), "kind": "configMap"}])),
        {"version": ""},
    ),
    RowCase("changed since", deployment(**ready()), {"state": "progressing", "ready": "Unknown"}, {"generation": 2}),
    RowCase("being deleted", deployment(**ready()), {"deleting": True}, {"deletionTimestamp": "2026-01-02T00:00:00Z"}),
    RowCase("not readable", {"spec": {"sources": 1}}, {"name": "shop", "state": "stalled"}),
    RowCase("nothing but a name", {}, {"name": "shop", "state": "stalled"}),
]


@pytest.mark.parametrize("case", ROWS, ids=attrgetter("name"))
def test_what_a_row_says(case: RowCase) -> None:
    row = make_row(value(case.content, **case.metadata))
    assert {key: getattr(row, key) for key in case.expected} == case.expected


def unpacked(reason: str) -> Json:
    found = [condition("Unpacked", "False", reason, "why"), condition("Ready", "False", reason, "why")]
    return {"observedGeneration": 1, "conditions": found}


def installed(reason: str) -> Json:
    conditions = [condition("Unpacked", "True", "Unpacked"), condition("Installed", "False", reason, "why")]
    return ready(conditions=conditions)


class StepCase(NamedTuple):
    name: str
    status: Json
    expected: list[str]


STEPS = [
    StepCase("all is well", ready(), ["done"] * 5),
    StepCase("nothing is known yet", {}, ["none"] * 5),
    StepCase("the source is not found", unpacked("NotFound"), ["failed", "none", "none", "none", "none"]),
    StepCase("the source does not answer", unpacked("Unreachable"), ["working", "none", "none", "none", "none"]),
    StepCase(
        "the source is gone, and what is installed stays",
        ready(
            conditions=[
                condition("Unpacked", "False", "NotFound", "why"),
                condition("Installed", "False", "NotFound", "revision 1f2e3d4c5b6a is installed; why"),
                condition("Healthy", "True", "Healthy"),
            ]
        ),
        ["failed", "done", "done", "done", "done"],
    ),
    StepCase(
        "the content is not what was pinned", unpacked("DigestMismatch"), ["none", "failed", "none", "none", "none"]
    ),
    StepCase("the bundle cannot be rendered", installed("RenderFailed"), ["done", "done", "failed", "done", "none"]),
    StepCase("a revision waits for approval", waiting(), ["done", "done", "waiting", "done", "done"]),
    StepCase("an object is refused", installed("Refused"), ["done", "done", "done", "failed", "none"]),
    StepCase("objects are applied", installed("Applying"), ["done", "done", "done", "working", "none"]),
    StepCase("an object is on its way", not_ready("Progressing", "why"), ["done", "done", "done", "done", "working"]),
    StepCase("an object has failed", not_ready("Failed", "why"), ["done", "done", "done", "done", "failed"]),
]


@pytest.mark.parametrize("case", STEPS, ids=attrgetter("name"))
def test_how_far_it_has_come(case: StepCase) -> None:
    steps = make_steps(read(deployment(**case.status)))
    assert [step.title for step in steps] == ["Sources", "Content", "Revision", "Objects", "Health"]
    assert [step.state for step in steps] == case.expected


def test_steps_tell_what_they_have_come_to_and_what_is_wrong() -> None:
    sources, _, revision, objects, health = make_steps(read(deployment(**{**drifted(), "pending": pending()})))
    assert sources.facts == ("image v1.4.2 @ 1f2e3d4c5b6a",)
    assert revision.facts == ("1f2e3d4c5b6a", "waiting: 77aa88bb99cc")
    assert objects.facts == ("5 of 6 healthy", "1 progressing", "1 drifted")
    assert (health.reason, health.facts) == ("Progressing", ("Deployment shop/web",))
    assert health.message == "Deployment shop/web: 1 of 2 replicas are available"


@pytest.mark.parametrize("kind", ["installedAt", "startedAt"])
def test_health_counts_from_when_the_revision_was_applied(kind: str) -> None:
    """Healthy is False all through an upgrade of what was not healthy before."""
    status = not_ready("Progressing", "Deployment shop/web: 1 of 2 replicas are available")
    [healthy] = [each for each in status["conditions"] if each["type"] == "Healthy"]
    status["history"] = [{"revision": NEXT, kind: ago(seconds=19)}, *status["history"]]
    assert make_steps(read(deployment(**status)))[-1].time == status["history"][0][kind]
    healthy["lastTransitionTime"] = ago(seconds=3)
    assert make_steps(read(deployment(**status)))[-1].time == healthy["lastTransitionTime"]


def test_who_has_signed_and_which_wave_is_applied_are_told() -> None:
    verified = {"by": "cosign", "identity": "https://example.com/release", "at": "2026-01-01T00:00:00Z"}
    signed = {**pin(), "verified": verified, "verifyDigest": DIGEST}
    wave = {"revision": DIGEST, "number": 2, "since": "2026-01-01T00:00:00Z"}
    sources, _, _, objects, _ = make_steps(read(deployment(**ready(sources=[signed], wave=wave))))
    assert sources.facts[1].startswith("signed by https://example.com/release (cosign)")
    assert objects.facts == ("6 of 6 healthy", "applying wave 2")


# objects


def manifest(kind: str, name: str, uid: str, *, owner: str = "", hook: str = "", **content: Any) -> Json:
    marks = {names.HOOK_RUN: f"{hook} u"} if hook else {} if owner else {names.OWNER_UID: "u"}
    references = [{"kind": "X", "name": "x", "uid": owner, "controller": True}] if owner else []
    labels = {} if owner else {names.OWNER_LABEL: "shop"}
    metadata = {"name": name, "namespace": "shop", "uid": uid, "annotations": marks, "ownerReferences": references}
    metadata["labels"] = labels
    version = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1"}.get(kind, "v1")
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, "generation": 1}, **content}


def nodes_of(status: Json, *manifests: Json, drift: dict[str, str] | None = None) -> list[Node]:
    found = (drift or {}).get
    return make_nodes(read(deployment(**status)), map(make_outline, manifests), lambda uid: found(uid, ""))


def test_what_workloads_own_is_below_them_with_the_states_of_containers() -> None:
    waits = {"name": "web", "state": {"waiting": {"reason": "ImagePullBackOff"}}, "restartCount": 2}
    ended = {"name": "init", "state": {"terminated": {"exitCode": 3}}}
    pod = manifest(
        "Pod", "web-1-a", "3", owner="2", status={"containerStatuses": [waits], "initContainerStatuses": [ended]}
    )
    kept = manifest("ReplicaSet", "web-1", "2", owner="1", spec={"replicas": 1})
    left = manifest("ReplicaSet", "web-0", "4", owner="1", spec={"replicas": 0})
    stranger = manifest("Pod", "other", "5", owner="9")
    [web] = nodes_of(ready(), manifest("Deployment", "web", "1", spec={"replicas": 1}), kept, left, pod, stranger)
    [replicas] = web.children
    [shown] = replicas.children
    assert [replicas.name, shown.name] == ["web-1", "web-1-a"]
    assert [(each.name, each.state, each.restarts) for each in shown.containers] == [
        ("init", "Terminated (exit code 3)", 0),
        ("web", "ImagePullBackOff", 2),
    ]


def test_what_is_reported_counts_more_than_what_the_object_looks_like() -> None:
    report = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "shop",
        "name": "a",
        "reason": "Refused",
        "message": "no",
    }
    [node] = nodes_of(ready(notReady=[report], objects={"failed": 1}), manifest("ConfigMap", "a", "1"))
    assert (node.state, node.reason, node.message) == ("failed", "Refused", "no")


@pytest.mark.parametrize(("failed", "state"), [(1, "failed"), (0, "progressing")])
@pytest.mark.parametrize("reason", ["ProgressDeadlineExceeded", "CrashLoopBackOff", "New"])
def test_an_object_has_failed_exactly_if_the_controller_counts_it_so(reason: str, failed: int, state: str) -> None:
    reports = [
        {"apiVersion": "v1", "kind": "Deployment", "namespace": "shop", "name": name, "reason": reason}
        for name in ("web", "late")
    ]
    found = [manifest("Deployment", name, name, spec={"replicas": 1}) for name in ("web", "late")]
    web, late = nodes_of(ready(notReady=reports, objects={"failed": failed}), *found)
    assert [(each.state, each.reason) for each in (web, late)] == [(state, reason), ("progressing", reason)]


def crashing(kind: str, *, ends: int, **pod: Any) -> tuple[Json, Json]:
    """Return a workload that reports no success yet, and its Pod, a container of which has ended so often."""
    ended = {"terminated": {"exitCode": 1}}
    status = {"name": "c", "restartCount": ends - 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    below = manifest("Pod", "a", "2", owner="1", status={"containerStatuses": [{**status, "lastState": ended}]})
    below["metadata"].update(pod)
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}
    return manifest(kind, "web", "1", spec=spec, status={"observedGeneration": 1}), below


CRASHES: list[tuple[str, str, int, Json, tuple[str, str]]] = [
    ("a container that has ended three times", "Deployment", 3, {}, ("failed", "CrashLoopBackOff")),
    ("one that may recover", "Deployment", 1, {}, ("progressing", "CrashLoopBackOff")),
    ("one of a Job, which counts itself", "Job", 3, {}, ("progressing", "CrashLoopBackOff")),
    (
        "a Pod that is being deleted",
        "Deployment",
        3,
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        ("progressing", "LessReplicas"),
    ),
]


@pytest.mark.parametrize("case", CRASHES, ids=lambda case: str(case[0]))
def test_a_workload_is_judged_with_its_pods_as_the_controller_does(
    case: tuple[str, str, int, Json, tuple[str, str]],
) -> None:
    _, kind, ends, about, expected = case
    [web] = nodes_of(ready(), *crashing(kind, ends=ends, **about))
    assert (web.state, web.reason) == expected


def test_the_pods_of_an_earlier_template_do_not_count() -> None:
    web, old = crashing(
        "Deployment", ends=3, labels={"pod-template-hash": "1"}, creationTimestamp="2026-01-01T00:00:00Z"
    )
    new = manifest("Pod", "b", "3", owner="1", status={"phase": "Pending"})
    new["metadata"].update(labels={"pod-template-hash": "2"}, creationTimestamp="2026-01-02T00:00:00Z")
    [node] = nodes_of(ready(), web, old, new)
    assert (node.state, node.reason) == ("progressing", "PodPending")


def test_what_is_reported_and_does_not_exist_is_missing() -> None:
    report = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "a", "reason": "Missing"}
    [node] = nodes_of(ready(notReady=[report]))
    assert (node.state, node.uid, node.name) == ("missing", "", "a")


def test_drift_strays_and_hooks_are_told() -> None:
    stray = {"kind": "ConfigMap", "namespace": "shop", "name": "old"}
    drift = {"1": "data.color, owned by kubectl", "3": "never: hooks do not drift"}
    found = nodes_of(
        ready(strays=[stray]),
        manifest("ConfigMap", "a", "1"),
        manifest("ConfigMap", "old", "2"),
        manifest("Job", "migrate", "3", hook="pre-upgrade"),
        drift=drift,
    )
    assert [(node.name, node.drift, node.is_stray, node.hook) for node in found] == [
        ("a", "data.color, owned by kubectl", False, ""),
        ("old", "", True, ""),
        ("migrate", "", False, "pre-upgrade"),
    ]


def test_a_replica_set_with_the_annotations_of_its_deployment_is_shown_below_it_alone() -> None:
    copied = manifest("ReplicaSet", "web-1", "2", owner="1", spec={"replicas": 1})
    copied["metadata"]["annotations"] = {names.OWNER_UID: "u"}
    [web] = nodes_of(ready(), manifest("Deployment", "web", "1", spec={"replicas": 1}), copied)
    assert [child.name for child in web.children] == ["web-1"]


def test_an_object_of_another_one_is_not_shown() -> None:
    copied = manifest("ConfigMap", "a", "1")
    copied["metadata"]["annotations"] = {names.OWNER_UID: "another"}
    assert nodes_of(ready(), copied) == []


# detail


def test_one_that_cannot_be_read_has_all_parts_of_a_page() -> None:
    whole = value(deployment(**ready()))
    unreadable = make_detail({**whole, "spec": 3}, [], [], ["a note"], {})
    assert unreadable.keys() == make_detail(whole, [], [], [], {}).keys()
    assert (unreadable["steps"], unreadable["notes"]) == ((), ("a note",))


def test_conditions_and_events_are_one_line_of_time() -> None:
    event = {
        "type": "Warning",
        "reason": "Drifted",
        "note": "x",
        "eventTime": "2020-01-01T00:00:00.1Z",
        "series": {"count": 3, "lastObservedTime": "2020-01-01T00:00:09.5Z"},
    }
    detail = make_detail(value(deployment(**ready())), [], [event], [], {})
    assert [each.title for each in detail["moments"]][-1] == "Warning (x3)"
    assert detail["moments"][-1].time == "2020-01-01T00:00:09Z"
    assert [each.tone for each in detail["moments"]] == ["good"] * 4 + ["bad"]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ("image:v1.4.2@1f2e3d4c5b6a", "image:v1.4.2"),
        ("chart:1.2.0@1f2e3d4c5b6a, git:main@9a8b7c6d5e4f", "chart:1.2.0, git:main"),
        ("image@1f2e3d4c5b6a", "image@1f2e3d4c5b6a"),
    ],
)
def test_history_names_tags_and_versions_and_digests_where_there_are_none(sources: str, expected: str) -> None:
    history = [{"revision": DIGEST, "sources": sources}]
    [entry] = make_detail(value(deployment(**ready(history=history))), [], [], [], {})["history"]
    assert entry["sources"] == expected


class SayCase(NamedTuple):
    name: str
    event: Json
    expected: list[str]


NOT_FOUND = {"type": "Warning", "reason": "NotFound", "note": "no tag v9", "eventTime": "2020-01-01T00:00:00.1Z"}
ONCE = "Installed is False, Unpacked is False, Ready is False"
SAID = [
    SayCase("an Event of the same text", NOT_FOUND, [ONCE]),
    SayCase("an Event of another text", {**NOT_FOUND, "note": "other"}, [ONCE, "Warning"]),
    SayCase("an Event of another reason", {**NOT_FOUND, "reason": "Other"}, [ONCE, "Warning"]),
    SayCase("of this BundleDeployment", {**NOT_FOUND, "note": "x", "regarding": {"uid": "u"}}, [ONCE, "Warning"]),
    SayCase("of an earlier one of the same name", {**NOT_FOUND, "note": "x", "regarding": {"uid": "v"}}, [ONCE]),
    SayCase("an Event that says nothing", {**NOT_FOUND, "note": ""}, [ONCE, "Warning"]),
]


@pytest.mark.parametrize("case", SAID, ids=attrgetter("name"))
def test_the_line_of_time_says_each_thing_once(case: SayCase) -> None:
    conditions = [
        condition("Unpacked", "False", "NotFound", "no tag v9"),
        condition("Installed", "False", "NotFound", "revision 1f2e3d4c5b6a is installed; no tag v9"),
        condition("Ready", "False", "NotFound", "no tag v9"),
    ]
    detail = make_detail(value(deployment(**ready(conditions=conditions))), [], [case.event], [], {})
    assert [each.title for each in detail["moments"]] == case.expected
    assert {each.tone for each in detail["moments"]} == {"bad"}


def test_waves_have_their_objects_and_what_the_present_one_waits_for() -> None:
    shown = [
        Node(kind="Job", name="migrate", state="healthy", reason="Healthy", hook="pre-upgrade"),
        *(Node(kind="ConfigMap", name=name, state=state, reason="x") for name, state in STATES.items()),
    ]
    wave = {"revision": DIGEST, "number": 1, "since": "2026-01-01T00:00:00Z"}
    waves = {"ConfigMap a": 0, "ConfigMap b": 1, "ConfigMap c": 1, "ConfigMap d": 2}
    found = make_detail(value(deployment(**ready(wave=wave))), shown, [], [], waves)["waves"]
    assert [(each["number"], each["state"], each["awaits"], each["places"]) for each in found] == [
        (0, "", [], [1]),
        (1, "Applying", ["ConfigMap c"], [2, 3]),
        (2, "Waiting", [], [4]),
    ]
    assert make_detail(value(deployment(**ready())), shown, [], [], {"ConfigMap a": 1})["waves"] == []


STATES = {"a": "healthy", "b": "healthy", "c": "progressing", "d": "waiting"}


class ActCase(NamedTuple):
    name: str
    content: Json
    expected: list[str]
    metadata: Mapping[str, Any] = MappingProxyType({})


ACTS = [
    ActCase("Ready", deployment(**ready()), ["pause", "reconcile", "rollback"]),
    ActCase("paused", deployment({"paused": True}, **ready()), ["resume", "reconcile", "rollback"]),
    ActCase("awaiting approval", deployment(**waiting()), ["pause", "reconcile", "approve", "deny", "rollback"]),
    ActCase(
        "pinned",
        deployment({"pinnedRevision": "sha256:" + 64 * "0"}, **ready(history=[])),
        ["pause", "reconcile", "undo"],
    ),
    ActCase("being deleted", deployment(**ready()), [], {"deletionTimestamp": "2026-01-02T00:00:00Z"}),
]


@pytest.mark.parametrize("case", ACTS, ids=attrgetter("name"))
def test_which_acts_make_sense(case: ActCase) -> None:
    assert list(make_detail(value(case.content, **case.metadata), [], [], [], {})["acts"]) == case.expected


def test_the_seal_of_what_waits_is_another_one_when_that_changes() -> None:
    one = read(deployment(**waiting()))
    same = (
        read(
            deployment(**{**waiting(), "pending": one.status.pending.model_dump(mode="json", by_alias=True)}),
            resourceVersion="8",
        )
        if one.status.pending
        else one
    )
    others = [
        read(deployment(**waiting()), generation=2),
        read(deployment(**waiting()), uid="another"),
        read(deployment(**{**waiting(), "pending": {**pending(), "permissions": {"added": []}}})),
        read(deployment(**ready())),
    ]
    assert seal(same) == seal(one)
    assert len({seal(each) for each in (one, *others)}) == 5


# YAML


def test_no_value_of_a_secret_is_in_its_yaml() -> None:
    applied = '{"data":{"password":"aHVudGVyMg=="}}'
    metadata = {
        "name": "a",
        "managedFields": [{"manager": "m"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied, "kept": "yes"},
    }
    text = write_yaml(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": "aHVudGVyMg=="}}, b"key"
    )
    assert "aHVudGVyMg" not in text
    assert "hunter2" not in text
    assert "managedFields" not in text
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "apiVersion: v1",
        "kind: Secret",
        "metadata:",
        "data:",
    ]
    assert "7 bytes, hash" in text
    assert 'kept: "yes"' in text
