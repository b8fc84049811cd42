"""`rukpak pause`, `resume` and `reconcile` over a cluster in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from controller.cli import main
from controller.kube.errors import ApiError, ConfigurationError
from controller.kube.resources import DEPLOYMENTS
from tests.support.deployments import observed
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
    assert err == (
        "rukpak reconcile: shop: timed out: sources are not re-resolved yet: waiting for the "
        'controller; "rukpak check" shows whether one is running\n'
    )


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
