"""`rukpak status` over a cluster in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.cli import main, status
from rukpak.controller.cli.status import cells_of, describe
from rukpak.controller.kube.resources import DEPLOYMENTS, Resource
from rukpak.controller.views import access
from rukpak.controller.views.objects import DeploymentState, state_of
from rukpak.controller.views.texts import WIDTH, fit
from tests.support.deployments import DIGEST, NOT_READY, NOW, READY, condition, observed
from tests.support.fake_cluster import FakeCluster

OTHER = "sha256:" + "b" * 64


def test_a_table_has_a_line_for_each(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "FORMAT", "PAUSED", "READY", "REASON", "REVISION", "OBJECTS", "DRIFTED", "AGE"]
    assert line.split()[:5] == ["shop", "plain", "false", "True", "Ready"]


def test_a_wide_table_has_the_message(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-o", "wide"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[-2:] == ["SOURCES", "MESSAGE"]
    assert line.endswith("revision aaa is installed and healthy")


def test_what_is_printed_has_no_managed_fields(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"metadata": {"managedFields": [{"manager": "x"}]}})
    assert main(["status", "shop", "-o", "json"]) == 0
    assert "managedFields" not in json.loads(capsys.readouterr().out)["metadata"]


def test_where_there_is_none_it_says_so(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.objects.clear()
    assert main(["status"]) == 0
    assert capsys.readouterr() == ("", "no BundleDeployments found\n")


# many

STALLED = [condition("Ready", "False", "NotFound", "no tag"), condition("Stalled", "True", "NotFound", "no tag")]


def made(
    *conditions: dict[str, Any], spec: Mapping[str, Any] | None = None, seen: int = 1, name: str = "x"
) -> dict[str, Any]:
    return observed(name, spec=spec, status={"conditions": list(conditions), "observedGeneration": seen})


def not_ready(reason: str) -> dict[str, Any]:
    return condition("Ready", "False", reason)


class Told(NamedTuple):
    name: str
    value: dict[str, Any]
    state: DeploymentState


STATES = [
    Told("a revision that is installed and healthy is Ready", made(READY), DeploymentState.READY),
    Told("one that needs a person is stalled", made(*STALLED), DeploymentState.STALLED),
    Told("also if it is paused", made(*STALLED, spec={"paused": True}), DeploymentState.STALLED),
    Told("one that is paused, whatever it has", made(READY, spec={"paused": True}), DeploymentState.PAUSED),
    Told("one with work left is progressing", made(not_ready("Applying")), DeploymentState.PROGRESSING),
    Told("one that waits for an event is waiting", made(not_ready("DependencyNotReady")), DeploymentState.WAITING),
    Told("so is one that waits for a person", made(not_ready("AwaitingApproval")), DeploymentState.WAITING),
    Told("a user has denied what the sources lead to", made(not_ready("Denied")), DeploymentState.WAITING),
    Told("a reason of a later release is progress", made(not_ready("New")), DeploymentState.PROGRESSING),
    Told("nobody has seen it", made(seen=-1), DeploymentState.PROGRESSING),
    Told("nobody has seen its change", made(READY, seen=0), DeploymentState.PROGRESSING),
    Told("nor the change that may help", made(*STALLED, seen=0), DeploymentState.PROGRESSING),
]


@pytest.mark.parametrize("case", STATES, ids=attrgetter("name"))
def test_what_one_is_doing(case: Told) -> None:
    assert state_of(BundleDeployment.model_validate(case.value)) is case.state


@pytest.fixture
def many(cluster: FakeCluster) -> FakeCluster:
    """A cluster with one in each state, and two that are Ready."""
    cluster.put(made(READY, name="a"))
    cluster.put(made(READY, spec={"paused": True}, name="b"))
    cluster.put(made(not_ready("Applying"), name="c"))
    cluster.put(made(*STALLED, name="d"))
    return cluster


@pytest.mark.parametrize(("is_terminal", "order"), [(True, "d c b a shop"), (False, "a b c d shop")], ids=str)
def test_a_terminal_shows_the_worst_first_and_scripts_read_them_by_name(
    is_terminal: bool,
    order: str,
    many: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    assert main(["status", "--color=never"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[1:]] == order.split()
    assert err == "2 Ready, 1 paused, 1 progressing, 1 stalled\n"


def test_colors_say_what_words_say(many: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "--color=always"])
    colored = capsys.readouterr().out
    lines = {line.split()[0]: line for line in colored.splitlines()}
    assert ["\x1b[32mTrue\x1b[0m" in lines["a"], "\x1b[32mReady\x1b[0m" in lines["a"]] == [True, True]
    assert "\x1b[33mApplying\x1b[0m" in lines["c"]
    assert "\x1b[31mNotFound\x1b[0m" in lines["d"]
    assert "\x1b" not in lines["b"] + lines["NAME"]
    main(["status"])
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    main(["status", "d", "--color=always"])
    assert capsys.readouterr().out.startswith("d: \x1b[31mnot Ready, stalled\x1b[0m: NotFound: no tag\n")


@pytest.mark.parametrize("output", ["json", "yaml", "name"])
def test_data_is_never_colored(output: str, many: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "--color=always", "-o", output])
    out, err = capsys.readouterr()
    assert (bool(out), "\x1b" in out, err) == (True, False, "")


def described(*, paused: bool = False, metadata: Mapping[str, Any] | None = None, **more: Any) -> list[str]:
    state = {"conditions": [READY], "revision": DIGEST, "installedRevision": DIGEST, **more}
    return fit(
        describe(BundleDeployment.model_validate(observed(spec={"paused": paused}, metadata=metadata, status=state)))
    ).splitlines()


PIN = {
    "kind": "image",
    "resolved": f"x@{DIGEST}",
    "digest": DIGEST,
    "specDigest": OTHER,
    "origin": OTHER,
    "resolvedAt": NOW,
}
DRIFTED = condition(
    "Drifted", "True", "Paused", "ConfigMap shop/a: modified; will be repaired when spec.paused is false"
)

TAKEN = condition(
    "Installed", "True", "Installed", 'revision aaa is applied; handed over: 2 to BundleDeployment "till"'
)


class Shown(NamedTuple):
    name: str
    lines: list[str]
    expect: list[str]


SHOWN = [
    Shown("what it is", described(), ["shop: Ready: revision aaa is installed and healthy", f"Revision:  {DIGEST}"]),
    Shown("since when it is not ready", described(conditions=[condition("Ready", "False", "Progressing", "0 of 1")]),
          ["shop: not Ready: Progressing: 0 of 1", f"Since:     {NOW}", f"Revision:  {DIGEST}"]),
    Shown("its sources with digests", described(sources=[PIN]),
          ["Sources:", "  image x", f"    {DIGEST}"]),
    Shown("who has signed with a key",
          described(sources=[PIN | {"verified": {"by": "cosign", "key": "sha256:1f2e", "at": NOW}}]),
          [f"    {DIGEST}", "    signed by sha256:1f2e (cosign), checked 2026-01-01T00:00:00Z"]),
    Shown("who has signed with a key that names its owner",
          described(sources=[PIN | {"verified": {"by": "pgp", "key": "AB12", "identity": "Ann <a@b.c>", "at": NOW}}]),
          ["    signed by Ann <a@b.c> (pgp, key AB12), checked 2026-01-01T00:00:00Z"]),
    Shown("who has signed without a key",
          described(
              sources=[PIN | {"verified": {"by": "cosign", "identity": "a@b.c", "issuer": "https://i", "at": NOW}}]
          ),
          ["    signed by a@b.c (cosign, issuer https://i), checked 2026-01-01T00:00:00Z"]),
    Shown("what is not ready, and why", described(notReady=[{**NOT_READY, "message": "0 of 1"}]),
          ["Not ready:", "  Deployment shop/web: Progressing: 0 of 1"]),
    Shown("what others have taken over", described(objects={"handedOver": 2}, conditions=[READY, TAKEN]),
          ["Objects:   0/0 healthy, 2 handed over", f"Installed: Installed: {TAKEN['message']}"]),
    Shown("a revision that waits", described(paused=True, revision=OTHER),
          [f"Desired:   {OTHER}", "Resuming would:", f"  install revision {OTHER}"]),
    Shown("the wave that is being applied",
          described(revision=OTHER, wave={"revision": OTHER, "number": -1, "since": NOW}),
          [f"Desired:   {OTHER}", f"Wave:      -1, since {NOW}"]),
    Shown("what a resume reverts", described(paused=True, objects={"drifted": 1}, conditions=[READY, DRIFTED]),
          ["Resuming would:", "  repair modified objects: 1"]),
    Shown("that a resume changes nothing", described(paused=True), ["Resuming would:", "  change nothing"]),
    Shown("that a resume meets what was handed over", described(paused=True, objects={"handedOver": 2}),
          ["Resuming would:",
           "  report Collision: the bundle still has 2 objects that were handed over; remove these there, or",
           "    delete this BundleDeployment"]),
    Shown("what is skipped", described(skippedKinds=["a.b/v1/Foo"]),
          ["Skipped:   a.b/v1/Foo: optional and not served by the cluster"]),
    Shown("warnings", described(warnings=["old API"]), ["Warning:   old API"]),
    Shown("one that was never seen", described(conditions=[], revision="", installedRevision="", observedGeneration=-1),
          ["shop: not yet observed by the controller", "Revision:  none installed"]),
    Shown("that the controller has not seen the spec", described(observedGeneration=0),
          ["shop: generation 1 not yet observed by the controller; before: Ready: revision aaa is installed and",
           "  healthy"]),
    Shown("that it has not seen the deletion", described(metadata={"deletionTimestamp": NOW}, observedGeneration=0),
          ["shop: being deleted since 2026-01-01T00:00:00Z, generation 1 not yet observed by the controller;",
           "  before: Ready: revision aaa is installed and healthy"]),
]  # fmt: skip


@pytest.mark.parametrize("case", SHOWN, ids=attrgetter("name"))
def test_what_is_described(case: Shown) -> None:
    assert [line for line in case.lines if line in case.expect] == case.expect


LONG = "Deployment shop/web: " + "0 of 1 replicas are updated " * 10


def test_a_description_fits_into_100_columns_and_says_each_thing_once() -> None:
    failing = [condition(kind, "False", "Progressing", LONG) for kind in ("Ready", "Healthy")]
    conditions = [*failing, condition("Reconciling", "True", "Progressing", LONG)]
    object_ = {**NOT_READY, "message": LONG.partition(": ")[2].strip()}
    lines = described(conditions=conditions, notReady=[object_], sources=[PIN], warnings=["word " * 50])
    assert max(map(len, lines)) <= WIDTH
    assert " ".join(line.strip() for line in lines).count(LONG.strip()) == 1


def test_objects_with_one_message_share_a_line_and_a_shortened_message_is_known() -> None:
    lack = "lacks permissions; grant it a ClusterRole with rules: [{apiGroups: [apps], resources: [deployments]}]"
    told = f"Deployment shop/web: Forbidden: {lack[:70]}… (and 2 more)"
    conditions = [condition("Ready", "False", "Forbidden", lack), condition("Healthy", "False", "Failed", told)]
    names = ("web", "api", "db")
    objects = [{**NOT_READY, "name": name, "reason": "Forbidden", "message": f"{lack[:80]}…"} for name in names]
    objects.append({**NOT_READY, "name": "late", "message": "0 of 1"})
    lines = described(conditions=conditions, notReady=objects)
    assert lines[-3:] == [
        "Not ready:",
        "  Deployment shop/web, Deployment shop/api, Deployment shop/db: Forbidden: see above",
        "  Deployment shop/late: Progressing: 0 of 1",
    ]


def test_an_age_is_short() -> None:
    made = BundleDeployment.model_validate(observed(metadata={"creationTimestamp": NOW}))
    ages = [cells_of(made, datetime(2026, 1, day, hour, second=second, tzinfo=UTC))["AGE"]
            for day, hour, second in ((1, 0, 5), (1, 3, 0), (9, 0, 0))]  # fmt: skip
    assert ages == ["5s", "3h", "8d"]


# one that cannot be read

BAD_URL = {"sources": [{"kind": "http", "http": {"url": "http://127.0.0.1\u0085:9/a"}}]}


@pytest.fixture
def odd(cluster: FakeCluster) -> FakeCluster:
    """The same cluster with one whose spec, and one whose status cannot be read."""
    cluster.put(observed("odd", spec=BAD_URL))
    cluster.put(observed("odder", spec={"installNamespace": "A B"}))
    return cluster


def test_one_that_cannot_be_read_is_listed_with_the_others(
    odd: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [odd.objects[DEPLOYMENTS.path(name=name)] for name in ("odd", "odder", "shop")]
    monkeypatch.setattr(access.Deployments, "all", lambda _self, _selector: found)
    assert main(["status", "-o", "wide"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "odd", "odder", "shop"]
    assert "cannot be read: spec.sources[0].http.url: " in lines[1]
    assert "cannot be read: spec.installNamespace: " in lines[2]


@pytest.mark.parametrize("name", ["odd", "odder"])
def test_one_that_cannot_be_read_is_described(name: str, odd: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", name]) == 0
    assert "cannot be read: s" in capsys.readouterr().out


# control characters

HOSTILE = "\x1b[2J\x1b]0;pwn\x07 \u009b31m \u202egpj\nshop True"
WRITTEN_OUT = "\\u001b[2J\\u001b]0;pwn\\u0007 \\u009b31m \\u202egpj shop True"


@pytest.mark.parametrize("words", [["status", "shop"], ["status", "shop", "--wait", "--timeout=1ms"]], ids=str)
def test_no_control_character_reaches_the_terminal(
    words: list[str], cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed(status={"conditions": [condition("Ready", "False", "InvalidConfig", HOSTILE)]}))
    main(words)
    out, err = capsys.readouterr()
    assert WRITTEN_OUT in out
    assert not set("\x1b\x07\u009b\u202e") & set(out + err)


# objects


def test_objects_are_judged_with_their_pods(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workloads = [
        Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=True, verbs=frozenset({"list"}))
        for group, kind in (("apps", "Deployment"), ("apps", "ReplicaSet"), ("", "Pod"))
    ]
    cluster.served += workloads
    monkeypatch.setattr(status, "Discovery", lambda _client: cluster.discovery)
    cluster.put(observed(status={"conditions": [READY], "managedKinds": ["apps/v1/Deployment"]}))
    ended = {"name": "c", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}
    marks = {"labels": {names.OWNER_LABEL: "shop"}, "annotations": {names.OWNER_UID: "uid-shop"}, "generation": 1}
    for version, kind, owner, content in (
        ("apps/v1", "Deployment", "", {"spec": spec, "status": {"observedGeneration": 1}}),
        ("apps/v1", "ReplicaSet", "Deployment", {"spec": spec}),
        ("v1", "Pod", "ReplicaSet", {"status": {"containerStatuses": [ended]}}),
    ):
        about = {"ownerReferences": [{"uid": owner, "controller": True}]} if owner else marks
        metadata = {"name": "web", "namespace": "shop", "uid": kind, **about}
        cluster.put({"apiVersion": version, "kind": kind, "metadata": metadata, **content})
    assert main(["status", "shop", "--objects"]) == 0
    assert 'Deployment shop/web   CrashLoopBackOff   container "c"' in capsys.readouterr().out
