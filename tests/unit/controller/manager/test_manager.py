from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import Means
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building import entry_points
from rukpak.controller.kube.errors import ConfigurationError
from rukpak.controller.manager import manager
from rukpak.controller.manager.assemble import assemble
from rukpak.controller.manager.manager import Manager
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.settings import Settings
from tests.support.fake_api import FakeApi

DEPLOYMENTS = "/apis/core.rukpak.io/v1alpha2/bundledeployments"
REVISIONS = "/api/v1/namespaces/rukpak-system/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/rukpak-system/leases"
WAITED_FOR = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/api/v1/namespaces",
)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(DEPLOYMENTS, REVISIONS, LEASES, *WAITED_FOR) as served:
        yield served


@pytest.fixture
def settings(api: FakeApi, tmp_path: Path) -> Settings:
    return Settings(
        kubeconfig=api.kubeconfig(tmp_path / "kubeconfig"),
        store=str(tmp_path / "store"),
        metrics_address="127.0.0.1:0",
        probe_address="127.0.0.1:0",
    )


class Running:
    """A manager at work."""

    def __init__(self, settings: Settings) -> None:
        self.stop = threading.Event()
        self.manager: Manager = assemble(settings)
        self.thread = threading.Thread(target=self.manager.run, args=(self.stop,), daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def test_making_a_controller_asks_the_cluster_for_nothing(api: FakeApi, settings: Settings) -> None:
    manager = assemble(replace(settings, metrics_address="off", probe_address="off"))
    assert not api.received
    manager.services.applier.stop()


def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        assemble(Settings(kubeconfig=str(tmp_path / "missing"), store=str(tmp_path / "store")))


def test_it_watches_until_it_is_stopped(api: FakeApi, settings: Settings) -> None:
    with Running(settings) as running:
        wait_for(lambda: api.watches() >= 1 + len(WAITED_FOR), 60, "everything is watched")
        wait_for(lambda: running.manager.services.watches.deployments.synced, 60, "BundleDeployments are known")
    assert running.stop.is_set()


def test_one_that_is_stopped_while_it_starts_leaves_the_garbage_collector_as_it_was(settings: Settings) -> None:
    callbacks = list(gc.callbacks)
    with Running(settings):
        pass
    assert gc.callbacks == callbacks


def test_threads_that_compute_let_those_that_answer_go_on(settings: Settings) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)  # Python's own
    try:
        with Running(settings) as running:
            wait_for(lambda: running.manager.services.watches.deployments.synced, 60, "BundleDeployments are known")
            assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(before)


def test_the_helm_in_use_is_logged_at_startup(settings: Settings, helm: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    entry_points._LOADED.clear()

    def is_logged() -> bool:
        found = [record for record in caplog.records if record.message == "program found"]
        return any(record.__dict__["path"] == str(helm) for record in found)

    with Running(replace(settings, helm=str(helm))):
        wait_for(is_logged, 60, "Helm is logged")


def test_that_there_is_no_helm_is_logged_at_startup(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with Running(replace(settings, helm="/nonexistent/helm")):
        wait_for(lambda: "program of a plug-in not available" in caplog.messages, 60, "the missing Helm is logged")
    record, *_ = [record for record in caplog.records if record.message == "program of a plug-in not available"]
    assert record.__dict__["plugin"] == "helm"
    assert record.__dict__["problem"].startswith('spec.format: no program "/nonexistent/helm"; install Helm 3 or 4')


@pytest.mark.parametrize("failure", [RuntimeError("a bug"), BundleError(Reason.STORAGE_FULL, "no space")], ids=repr)
def test_a_failure_to_find_programs_stops_nothing(
    failure: Exception, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_means: Means) -> None:
        raise failure

    monkeypatch.setattr(manager, "find_programs", fail)
    caplog.set_level("INFO")
    said = {"thread died", "programs not checked"}
    with Running(settings) as running:
        wait_for(lambda: said & set(caplog.messages), 60, "the failure is logged")
        wait_for(lambda: running.manager.services.watches.deployments.synced, 60, "BundleDeployments are known")
    assert len([message for message in caplog.messages if message in said]) == 1


HERE, GONE, ODD = (f"revision.{name}.0123456789abcdef.0" for name in ("here", "gone", "odd"))


def test_at_start_the_revisions_of_what_is_gone_are_removed_and_no_others(api: FakeApi, settings: Settings) -> None:
    api.put(DEPLOYMENTS, "here")
    for name, owner in ((HERE, "here"), (GONE, "gone")):
        api.put(REVISIONS, name, about={"labels": {names.REVISION_LABEL: owner}})
    with Running(settings):
        wait_for(lambda: GONE not in api.objects[REVISIONS], 60, "the orphan is removed")
    assert set(api.objects[REVISIONS]) == {HERE}


def test_before_the_bundle_deployments_are_known_nothing_is_an_orphan(api: FakeApi, settings: Settings) -> None:
    api.put(REVISIONS, HERE, about={"labels": {names.REVISION_LABEL: "here"}})
    api.stall_watches = True
    with Running(settings):
        wait_for(lambda: api.watches() >= 1, 60, "the watch has begun")
    assert HERE in api.objects[REVISIONS]


def test_an_unreadable_bundle_deployment_still_has_its_revisions(api: FakeApi, settings: Settings) -> None:
    api.put(DEPLOYMENTS, "odd", spec={"format": 3})
    api.put(REVISIONS, ODD, about={"labels": {names.REVISION_LABEL: "odd"}})
    with Running(settings) as running:
        wait_for(
            lambda: running.manager.services.watches.deployments.synced and api.lists(REVISIONS),
            10,
            "orphans were looked for",
        )
    assert ODD in api.objects[REVISIONS]


def test_a_refusal_of_that_look_is_no_end(api: FakeApi, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    del api.objects[REVISIONS]
    with Running(settings) as running:
        wait_for(lambda: "failed to delete revisions" in caplog.text, 60, "it is said")
        assert running.thread.is_alive()
