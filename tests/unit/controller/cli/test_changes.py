"""`rukpak pause`, `resume` and `reconcile` over a cluster in memory.

`rukpak approve` and `deny` over a cluster in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.controller.cli import changes, command, deployments, main
from rukpak.controller.kube.errors import ApiError, ConfigurationError
from rukpak.controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import DIGEST, manifest, observed
from tests.support.fake_cluster import FakeCluster


class Change(NamedTuple):
    name: str
    words: list[str]
    path: tuple[str, ...]
    value: object
    said: str


CHANGES = [
    Change("pause", ["pause", "shop"], ("spec", "paused"), True, "paused"),
    Change("resume", ["resume", "shop"], ("spec", "paused"), False, "resumed"),
    Change("resume and wait", ["resume", "shop", "--wait"], ("spec", "paused"), False, "resumed"),
]


@pytest.mark.parametrize("case", CHANGES, ids=attrgetter("name"))
def test_what_a_verb_changes(case: Change, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(case.words) == 0
    value: Any = cluster.objects[DEPLOYMENTS.path(name="shop")]
    for key in case.path:
        value = value[key]
    assert value == case.value
    assert capsys.readouterr() == (f"bundledeployment.core.rukpak.io/shop {case.said}\n", "")


def test_reconcile_sets_the_annotation_and_waits_until_it_is_obeyed(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reconcile", "shop", "--wait", "--timeout=500ms", "-o", "json"]) == 1
    out, err = capsys.readouterr()
    assert "core.rukpak.io/reconcile-requested-at" in json.loads(out)["metadata"]["annotations"]
    awaited = 'sources are not re-resolved yet: waiting for the controller; "rukpak check" shows whether one is running'
    progress, last = err.splitlines()
    assert (progress[9:], last) == (f"shop: {awaited}", f"rukpak reconcile: shop: timed out: {awaited}")


@pytest.mark.parametrize(
    ("words", "chosen"),
    [(["--all"], ["shop", "till"]), (["-A"], ["shop", "till"]), (["-l", "team=till"], ["till"]), (["shop"], ["shop"])],
    ids=str,
)
def test_which_ones_a_verb_changes(
    words: list[str], chosen: list[str], cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed("till", metadata={"labels": {"team": "till"}}))
    assert main(["pause", *words]) == 0
    assert capsys.readouterr().out.splitlines() == [f"bundledeployment.core.rukpak.io/{name} paused" for name in chosen]


MARK = names.PAUSED_WITH_ALL


def marked(name: str) -> dict[str, Any]:
    return observed(name, metadata={"annotations": {MARK: "true"}}, spec={"paused": True})


def states(cluster: FakeCluster, *wanted: str) -> list[tuple[bool, bool]]:
    """Return of each whether it is paused, and whether it is marked."""
    found = [cluster.objects[DEPLOYMENTS.path(name=name)] for name in wanted]
    return [(bool(each["spec"].get("paused")), MARK in (each["metadata"].get("annotations") or {})) for each in found]


def test_all_are_paused_and_what_was_paused_before_stays_so(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(observed("till", spec={"paused": True}))
    for _ in range(2):  # as after a failure
        assert main(["pause", "--all"]) == 0
        assert states(cluster, "shop", "till") == [(True, True), (True, False)]
    assert "paused by themselves: till\n" in capsys.readouterr().err
    for _ in range(2):
        assert main(["resume", "--all"]) == 0
        assert states(cluster, "shop", "till") == [(False, False), (True, False)]
    assert 'paused by themselves: till; "rukpak resume NAME" resumes one' in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_one_that_cannot_be_changed_does_not_keep_all_others_from_it(
    verb: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shop", "till", "web"):
        cluster.put(marked(name) if verb == "resume" else observed(name))
    change = cluster.merge_patch

    def fail_once(path: str, *arguments: Any, **named: Any) -> Any:
        if path.endswith("/shop"):
            raise ApiError(403, "Forbidden", "you may not")
        return change(path, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "merge_patch", fail_once)
        assert main([verb, "--all"]) == 1
    assert f"rukpak {verb}: shop: 403 Forbidden: you may not" in capsys.readouterr().err
    assert main([verb, "--all"]) == 0
    is_paused = verb == "pause"
    assert states(cluster, "shop", "till", "web") == [(is_paused, is_paused)] * 3


def test_one_that_changes_meanwhile_is_read_again(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    change = cluster.merge_patch

    def pause_first(path: str, *arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(cluster, "merge_patch", change)
        cluster.put(observed(spec={"paused": True}))
        return change(path, *arguments, **named)

    monkeypatch.setattr(cluster, "merge_patch", pause_first)
    assert main(["pause", "--all"]) == 0
    assert states(cluster, "shop") == [(True, False)]


@pytest.mark.parametrize(("verb", "expect"), [("pause", (True, False)), ("resume", (False, False))])
def test_what_is_changed_by_its_name_does_not_follow_all_others(
    verb: str, expect: tuple[bool, bool], cluster: FakeCluster
) -> None:
    cluster.put(marked("shop"))
    assert main([verb, "shop"]) == 0
    assert states(cluster, "shop") == [expect]


def test_one_that_is_missing_does_not_keep_the_others_from_it(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pause", "nobody", "shop", "-o", "name"]) == 1
    assert capsys.readouterr() == (
        "bundledeployment.core.rukpak.io/shop\n",
        'rukpak pause: BundleDeployment "nobody" not found\n',
    )


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            ApiError(404, "", "404 page not found"),
            'the cluster does not serve BundleDeployments; run "rukpak crd | kubectl apply',
        ),
        (ApiError(403, "Forbidden", "you may not"), "403 Forbidden: you may not"),
        (ConfigurationError('kubeconfig "x": no such file'), 'kubeconfig "x": no such file'),
    ],
    ids=["no API", "no right", "no kubeconfig"],
)
def test_a_failure_is_one_line(
    error: Exception, says: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.merge_patch = raising(error)  # type: ignore[method-assign]
    assert main(["pause", "shop"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"rukpak pause: {says}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["resume", "a", "--timeout=soon"], ["status", "-o", "tabel"]])
def test_misuse_ends_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


OTHER = "sha256:" + "b" * 64
PATH = DEPLOYMENTS.path(name="shop")
PENDING = {
    "revision": OTHER,
    "since": "2026-01-01T00:00:00Z",
    "serviceAccountName": "deployer",
    "changes": {"create": 3, "change": 12, "delete": 1, "recreate": 0},
    "problems": ["CustomResourceDefinition a: unsafe"],
}


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A waiting with one BundleDeployment, `shop`, of which a revision waits; questions are answered with yes."""
    made = FakeCluster()
    spec = {"approval": "Manual", "approvedRevision": DIGEST, "serviceAccountName": "deployer", "installNamespace": "a"}
    made.put(manifest(spec=spec, status={"pending": PENDING, "installedRevision": DIGEST, "revision": DIGEST}))
    monkeypatch.setattr(changes, "connect", lambda _options: made.client)
    monkeypatch.setattr(command, "ask", lambda _without: True)
    monkeypatch.setattr(deployments, "POLL_SECONDS", 0.001)
    return made


def spec(waiting: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = waiting.objects[PATH]["spec"]
    return found


def test_what_waits_is_shown_and_approved(waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approve", "shop"]) == 0

    out, err = capsys.readouterr()
    assert out == f"bundledeployment.core.rukpak.io/shop revision {'b' * 12} approved\n"
    for text in (OTHER, DIGEST, "3 to create, 12 to change, 1 to delete", "ServiceAccount deployer", "unsafe"):
        assert text in err
    assert spec(waiting)["approvedRevision"] == OTHER
    assert spec(waiting)["approvedServiceAccountName"] == "deployer"


def test_a_denial_withdraws_the_approval(waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    waiting.patch(PATH, {"spec": {"approvedRevision": OTHER, "approvedServiceAccountName": "deployer"}})
    assert main(["deny", "shop"]) == 0

    assert capsys.readouterr().out == f"bundledeployment.core.rukpak.io/shop revision {'b' * 12} denied\n"
    assert spec(waiting)["deniedRevision"] == OTHER
    assert not {"approvedRevision", "approvedServiceAccountName"} & spec(waiting).keys()


def test_a_denial_leaves_the_approval_of_another_revision(waiting: FakeCluster) -> None:
    assert main(["deny", "shop"]) == 0
    assert spec(waiting)["approvedRevision"] == DIGEST


def test_an_approval_withdraws_the_denial(waiting: FakeCluster) -> None:
    waiting.patch(PATH, {"spec": {"deniedRevision": OTHER}})
    assert main(["approve", "shop"]) == 0
    assert "deniedRevision" not in spec(waiting)


class Case(NamedTuple):
    name: str
    words: list[str]
    status: int
    says: str


REFUSED = [
    Case("one that does not exist", ["approve", "till"], 1, 'rukpak approve: BundleDeployment "till" not found'),
    Case("another abbreviated revision", ["approve", "shop", "--revision", "aaaaaaaaaaaa"], 2,
         'rukpak approve: --revision "aaaaaaaaaaaa": no revision that waits for approval begins so'),
    Case("no digest", ["deny", "shop", "--revision", "latest"], 2, 'rukpak deny: --revision "latest"'),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_not_approved(case: Case, waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(spec(waiting))
    assert main(case.words) == case.status
    assert case.says in capsys.readouterr().err
    assert spec(waiting) == before


def test_nothing_waits(waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    waiting.patch(PATH, {"status": {"pending": None}})
    assert main(["approve", "shop"]) == 1
    assert capsys.readouterr().err == "rukpak approve: shop: no revision waits for approval\n"


def test_nothing_waits_after_a_denial(waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    waiting.patch(PATH, {"spec": {"deniedRevision": OTHER}, "status": {"pending": None}})
    assert main(["approve", "shop"]) == 1
    err = capsys.readouterr().err
    assert f"{'b' * 12} was denied (spec.deniedRevision)" in err
    assert f"approve shop --revision {OTHER}" in err

    assert main(["approve", "shop", "--revision", OTHER]) == 0
    assert spec(waiting)["approvedRevision"] == OTHER
    assert "deniedRevision" not in spec(waiting)


def test_a_no_changes_nothing(
    waiting: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ask", lambda _without: False)
    assert main(["approve", "shop"]) == 1
    assert capsys.readouterr().err.endswith("rukpak approve: nothing was approved\n")
    assert spec(waiting)["approvedRevision"] == DIGEST


@pytest.mark.parametrize("text", ["b" * 12, f"sha256:{'b' * 12}", OTHER, "b" * 64])
def test_a_revision_is_named(text: str, waiting: FakeCluster) -> None:
    assert main(["approve", "shop", "--revision", text, "--yes"]) == 0
    assert spec(waiting)["approvedRevision"] == OTHER


def test_a_revision_that_does_not_wait_is_approved_in_advance(
    waiting: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = "sha256:" + "c" * 64
    assert main(["approve", "shop", "--revision", digest]) == 0
    assert "It does not wait for approval" in capsys.readouterr().err
    assert spec(waiting)["approvedRevision"] == digest


def test_what_has_changed_meanwhile_is_not_approved(
    waiting: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    third = {**PENDING, "revision": "sha256:" + "c" * 64}
    monkeypatch.setattr(command, "ask", lambda _without: waiting.patch(PATH, {"status": {"pending": third}}))
    assert main(["approve", "shop"]) == 1
    assert '"shop" has changed meanwhile; run the command again' in capsys.readouterr().err
    assert spec(waiting)["approvedRevision"] == DIGEST


def test_a_changed_spec_is_not_approved_either(
    waiting: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = {"metadata": {"generation": 7}, "spec": {"serviceAccountName": "admin"}}
    monkeypatch.setattr(command, "ask", lambda _without: waiting.patch(PATH, change))
    assert main(["approve", "shop"]) == 1
    assert "has changed meanwhile" in capsys.readouterr().err


def test_a_status_that_has_changed_does_not_matter(waiting: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ask", lambda _without: waiting.patch(PATH, {"status": {"managedState": "x"}}))
    assert main(["approve", "shop"]) == 0
    assert spec(waiting)["approvedRevision"] == OTHER


def test_another_failure_is_reported(
    waiting: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ApiError(403, "Forbidden", 'you need the verb "approve"')

    monkeypatch.setattr(waiting, "merge_patch", refuse)
    assert main(["approve", "shop"]) == 1
    assert 'you need the verb "approve"' in capsys.readouterr().err


def test_waiting_ends_when_another_revision_waits(waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "AwaitingApproval", "message": "revision ccc waits"}
    about = {"observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    waiting.patch(PATH, {"status": {"conditions": [{**condition, **about}]}})
    assert main(["approve", "shop", "--wait", "--timeout=5h"]) == 1
    assert "waiting cannot help: AwaitingApproval: revision ccc waits" in capsys.readouterr().err


def test_a_denial_is_awaited(waiting: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deny", "shop", "--wait", "--timeout=1ms"]) == 1
    assert "waiting for the controller" in capsys.readouterr().err


OUTCOMES = {"a": "Healthy", "b": "Failed", "c": "RolledBack", "d": "Superseded"}


def test_outcomes_in_the_history_have_colors(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    history = [{"revision": f"sha256:{letter * 64}", "outcome": outcome} for letter, outcome in OUTCOMES.items()]
    cluster.patch(PATH, {"status": {"history": history}})
    assert main(["history", "shop", "--color=always"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("\x1b[")[2].partition("\x1b")[0] for line in lines] == [
        "", "32mHealthy", "31mFailed", "31mRolledBack", ""
    ]  # fmt: skip
    assert main(["history", "shop"]) == 0
    assert "\x1b" not in capsys.readouterr().out
