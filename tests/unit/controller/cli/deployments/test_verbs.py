"""Verbs that show and change BundleDeployments, over a cluster in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from api.v1alpha2.types import BundleDeployment
from controller.cli import main
from controller.cli.deployments import access, changes, description, events, status, table, tree, waiting
from controller.kube.errors import ApiError, ConfigurationError
from controller.kube.lease import LEASES
from controller.kube.resources import DEPLOYMENTS
from tests.support import deployments
from tests.support.deployments import DIGEST
from tests.support.fake_cluster import FakeCluster

NOW = "2026-01-01T00:00:00Z"
OTHER = "sha256:" + "b" * 64


def condition(kind: str, value: str, reason: str, message: str = "m", generation: int = 1) -> dict[str, Any]:
    about = {"observedGeneration": generation, "lastTransitionTime": NOW}
    return {"type": kind, "status": value, "reason": reason, "message": message, **about}


def manifest(name: str = "shop", *, status: Mapping[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """Return a BundleDeployment whose status is about its spec."""
    return deployments.manifest(name, status={"observedGeneration": 1, **(status or {})}, **parts)


READY = condition("Ready", "True", "Ready", "revision aaa is installed and healthy")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with one BundleDeployment, `shop`, that is Ready."""
    made = FakeCluster()
    made.put(manifest(status={"conditions": [READY], "revision": DIGEST, "installedRevision": DIGEST}))
    for module in (changes, events, status, tree):
        monkeypatch.setattr(module, "connect", lambda _options: made.client)
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.001)
    return made


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
    assert err == (
        "rukpak reconcile: shop: timed out: sources are not re-resolved yet: waiting for the "
        'controller; "rukpak check" shows whether one is running\n'
    )


@pytest.mark.parametrize("is_terminal", [True, False], ids=["a terminal", "a pipe"])
def test_progress_is_shown_on_a_terminal_only(
    is_terminal: bool, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    path = DEPLOYMENTS.path(name="shop")
    states = [
        condition("Ready", "False", "Applying", "a"),
        condition("Ready", "False", "Applying", "a"),
        condition("Ready", "False", "Progressing", "b"),
        READY,
    ]

    def read(asked: str) -> Any:
        cluster.patch(path, {"status": {"conditions": [states.pop(0)], "notReady": [NOT_READY]}})
        return cluster._reply(cluster.objects[asked])

    cluster.get = read  # type: ignore[method-assign, assignment]
    assert main(["status", "shop", "--wait", "-o", "name"]) == 0
    out, err = capsys.readouterr()
    assert out == "bundledeployment.core.rukpak.io/shop\n"
    shown = [text for text in err.split("\r\x1b[K") if text]
    assert shown == [
        "shop: Applying: a; not ready: Deployment web",
        "shop: Progressing: b; not ready: Deployment web",
    ] * (is_terminal)


class Wait(NamedTuple):
    name: str
    status: dict[str, Any]
    spec: dict[str, Any]
    says: str


STALLED = [condition("Ready", "False", "NotFound", "no tag"), condition("Stalled", "True", "NotFound", "no tag")]
WAITS = [
    Wait("one that is stalled", {"conditions": STALLED}, {}, "waiting cannot help: NotFound: no tag"),
    Wait("a paused one with changes",
         {"conditions": [condition("Ready", "False", "PausedWithChanges", "revision b will be applied"),
                         condition("Installed", "False", "PausedWithChanges", "revision b will be applied")]},
         {"paused": True},
         'waiting cannot help: paused: revision b will be applied; run "rukpak resume shop"'),
    Wait("a paused one that is not healthy yet", {"conditions": [condition("Ready", "False", "Progressing", "0 of 1")]},
         {"paused": True}, "timed out: Progressing: 0 of 1 (paused)"),
    Wait("one that was stalled before the last change",
         {"conditions": [{**each, "observedGeneration": 0} for each in STALLED]}, {},
         "timed out: waiting for the controller"),
]  # fmt: skip


@pytest.mark.parametrize("case", WAITS, ids=attrgetter("name"))
def test_a_wait_ends_at_once_where_it_cannot_help(
    case: Wait, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(manifest(status=case.status, spec=case.spec))
    limit = "5h" if "cannot help" in case.says else "1ms"
    assert main(["status", "shop", "--wait", "-o", "name", f"--timeout={limit}"]) == 1
    assert capsys.readouterr().err.startswith(f"rukpak status: shop: {case.says}")


def test_a_failure_that_is_described_is_not_repeated(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.put(manifest(status={"conditions": STALLED}))
    assert main(["status", "shop", "--wait"]) == 1
    out, err = capsys.readouterr()
    assert (out + err).count("no tag") == 1
    assert err == "rukpak status: shop: waiting cannot help\n"


def test_one_that_is_deleted_or_gone_is_not_waited_for(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(manifest(metadata={"deletionTimestamp": NOW}, status={"conditions": [READY]}))
    assert main(["status", "shop", "--wait", "-o", "name"]) == 1
    assert "shop: waiting cannot help: it is being deleted" in capsys.readouterr().err


def test_all_are_waited_for_together(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.put(manifest("a", status={"conditions": [condition("Ready", "False", "Progressing", "0 of 1")]}))
    cluster.put(manifest("b", status={"conditions": STALLED}))
    assert main(["status", "--wait", "--timeout=1ms", "-o", "name"]) == 1
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "rukpak status: a: timed out: Progressing: 0 of 1",
        "rukpak status: b: waiting cannot help: NotFound: no tag",
    ]


@pytest.mark.parametrize(
    ("words", "chosen"),
    [(["--all"], ["shop", "till"]), (["-A"], ["shop", "till"]), (["-l", "team=till"], ["till"]), (["shop"], ["shop"])],
    ids=str,
)
def test_which_ones_a_verb_changes(
    words: list[str], chosen: list[str], cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(manifest("till", metadata={"labels": {"team": "till"}}))
    assert main(["pause", *words]) == 0
    assert capsys.readouterr().out.splitlines() == [f"bundledeployment.core.rukpak.io/{name} paused" for name in chosen]


def test_a_condition_of_the_spec_before_the_change_does_not_end_a_wait(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(manifest(metadata={"generation": 2}, status={"conditions": [READY]}))
    assert main(["resume", "shop", "--wait", "--timeout=0"]) == 1
    assert "shop: timed out: waiting for the controller" in capsys.readouterr().err


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


# status


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


def test_a_field_is_printed_by_its_path(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    template = 'jsonpath={.metadata.name}: {.status.conditions[?(@.type=="Ready")].reason}{"\\n"}'
    assert main(["status", "shop", "-o", template]) == 0
    assert capsys.readouterr().out == "shop: Ready\n"


def test_where_there_is_none_it_says_so(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.objects.clear()
    assert main(["status"]) == 0
    assert capsys.readouterr() == ("", "no BundleDeployments found\n")


def described(*, paused: bool = False, metadata: Mapping[str, Any] | None = None, **more: Any) -> list[str]:
    state = {"conditions": [READY], "revision": DIGEST, "installedRevision": DIGEST, **more}
    return description.fit(
        description.describe(
            BundleDeployment.model_validate(manifest(spec={"paused": paused}, metadata=metadata, status=state))
        )
    ).splitlines()


PIN = {"kind": "image", "resolved": f"x@{DIGEST}", "digest": DIGEST, "specDigest": OTHER, "resolvedAt": NOW}
NOT_READY = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "reason": "Progressing"}
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
    Shown("its sources with digests", described(sources=[PIN]),
          ["Sources:", "  image x", f"    {DIGEST}"]),
    Shown("what is not ready, and why", described(notReady=[{**NOT_READY, "message": "0 of 1"}]),
          ["Not ready:", "  Deployment shop/web: Progressing: 0 of 1"]),
    Shown("what others have taken over", described(objects={"handedOver": 2}, conditions=[READY, TAKEN]),
          ["Objects:   0/0 healthy, 2 handed over", f"Installed: Installed: {TAKEN['message']}"]),
    Shown("a revision that waits", described(paused=True, revision=OTHER),
          [f"Desired:   {OTHER}", "Resuming would:", f"  install revision {OTHER}"]),
    Shown("what a resume reverts", described(paused=True, conditions=[READY, DRIFTED]),
          ["Resuming would:", "  repair modified objects: ConfigMap shop/a"]),
    Shown("that a resume changes nothing", described(paused=True), ["Resuming would:", "  change nothing"]),
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
    assert max(map(len, lines)) <= description.WIDTH
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
    made = BundleDeployment.model_validate(manifest(metadata={"creationTimestamp": NOW}))
    ages = [table.row(made, datetime(2026, 1, day, hour, second=second, tzinfo=UTC))[-1]
            for day, hour, second in ((1, 0, 5), (1, 3, 0), (9, 0, 0))]  # fmt: skip
    assert ages == ["5s", "3h", "8d"]


# crd


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_definition_is_the_one_of_config(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    from api.v1alpha2.schema import crd  # noqa: PLC0415
    from controller.formats.yaml.manifests import read_documents  # noqa: PLC0415

    assert main(["crd", "-o", form]) == 0
    (document,) = read_documents(capsys.readouterr().out.encode(), "crd")
    assert document.value == json.loads(json.dumps(crd()))


# one that cannot be read

BAD_URL = {"sources": [{"kind": "http", "http": {"url": "http://127.0.0.1\u0085:9/a"}}]}


@pytest.fixture
def odd(cluster: FakeCluster) -> FakeCluster:
    """The same cluster with one whose spec, and one whose status cannot be read."""
    cluster.put(manifest("odd", spec=BAD_URL))
    cluster.put(manifest("odder", spec={"installNamespace": "A B"}))
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


def test_one_that_cannot_be_read_is_not_waited_for(odd: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pause", "odder", "--wait"]) == 1
    assert "odder: waiting cannot help: cannot be read: spec.installNamespace: " in capsys.readouterr().err


# control characters

HOSTILE = "\x1b[2J\x1b]0;pwn\x07 \u009b31m \u202egpj\nshop True"
WRITTEN_OUT = "\\u001b[2J\\u001b]0;pwn\\u0007 \\u009b31m \\u202egpj shop True"


@pytest.mark.parametrize("words", [["status", "shop"], ["status", "shop", "--wait", "--timeout=1ms"]], ids=str)
def test_no_control_character_reaches_the_terminal(
    words: list[str], cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.put(manifest(status={"conditions": [condition("Ready", "False", "InvalidConfig", HOSTILE)]}))
    main(words)
    out, err = capsys.readouterr()
    assert WRITTEN_OUT in out
    assert not set("\x1b\x07\u009b\u202e") & set(out + err)


def put_in_shard(cluster: FakeCluster, shard: str) -> None:
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"metadata": {"labels": {"core.rukpak.io/shard": shard}}})


def test_one_whose_shard_no_controller_serves_is_named(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_shard(cluster, "blue")
    assert main(["status"]) == 0
    assert capsys.readouterr().err == (
        'rukpak status: shop: no controller serves the shard "blue"; start one with "--shard blue", or change the '
        "label core.rukpak.io/shard\n"
    )
    put_in_shard(cluster, "No_Name")
    main(["status"])
    assert '"No_Name"; that cannot be the name of one' in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "tree"])
def test_one_that_no_controller_has_observed_is_named(
    verb: str, cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.patch(DEPLOYMENTS.path(name="shop"), {"metadata": {"generation": 2}})
    assert main([verb, "shop"]) == 0
    assert capsys.readouterr().err == (
        f'rukpak {verb}: shop: no controller acts; "rukpak check" says what is missing\n'
    )


def test_one_whose_shard_is_served_is_not_named(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    put_in_shard(cluster, "blue")
    spec = {"holderIdentity": "pod_1", "renewTime": datetime.now(UTC).isoformat(), "leaseDurationSeconds": 30}
    path = LEASES.path("rukpak-system", "rukpak-blue")
    cluster.objects[path] = {"metadata": {"name": "rukpak-blue", "namespace": "rukpak-system"}, "spec": spec}
    assert main(["status", "shop"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "Shard:     blue, still held by the default one\n" in captured.out


def test_without_the_right_to_read_leases_nothing_is_said(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_shard(cluster, "blue")
    cluster.faults[f"GET {LEASES.path('rukpak-system', 'rukpak-blue')}"] = [ApiError(403, "Forbidden", "no")]
    assert main(["status"]) == 0
    assert capsys.readouterr().err == ""
