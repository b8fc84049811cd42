"""What an administrator runs into: ports, missing rights and kinds, disks, and who may see the metrics."""

from __future__ import annotations

import base64
import http.client
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.integration.test_leader import probe
from tests.support.bundles import ROOT, World, config_map, new_world
from tests.support.controller import Controller
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.own_cluster, pytest.mark.timeout(300), pytest.mark.long]

Start = Callable[..., Controller]


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Start controllers; they end with the test."""
    folders: list[Path] = []
    started: list[Controller] = []

    def start(kubeconfig: Path, *options: str) -> Controller:
        folders.append(make_owned_folder(settings.running, "controller"))
        started.append(Controller(folders[-1], kubeconfig, *options, environment={}))
        started[-1].start()
        return started[-1]

    yield start
    for controller in started:
        if controller.is_running():
            controller.stop()
        print(controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    for folder in folders:
        take_away(folder)


@pytest.mark.thorough
def test_a_missing_definition_is_said_and_waited_for(fresh_cluster: ControlPlane, start: Start) -> None:
    controller = start(fresh_cluster.kubeconfig)
    controller.wait_for(lambda: "watched kind is not served, waiting for it" in controller.log, 60, "it is said")
    controller.wait_for(lambda: probe(controller, "readyz").startswith("503"), 30, "it is not ready")
    assert "/apis/core.rukpak.io/v1alpha2/bundledeployments" in probe(controller, "readyz")
    assert probe(controller, "healthz") == "200 ok"
    fresh_cluster.kubectl("apply", "--server-side", "-k", str(ROOT / "config" / "crd"))
    controller.wait_for(lambda: probe(controller, "readyz") == "200 ok", 60, "it is ready")


def test_a_port_in_use_is_named(cluster: ControlPlane, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        controller = start(cluster.kubeconfig, f"--probe-address={address}")
        assert controller._process.wait(60) == 1
    assert f"rukpak run: --probe-address {address}: the port is in use; choose another address or off" in controller.log


def account(cluster: ControlPlane, namespace: str, folder: Path) -> Path:
    """Make an account without rights, and return a kubeconfig for it."""
    kubectl = cluster.kubectl
    kubectl("create", "serviceaccount", "powerless", "--namespace", namespace)
    where = "--output=jsonpath={.clusters[0].cluster.certificate-authority-data}"
    authority = folder / "ca.crt"
    authority.write_bytes(base64.b64decode(kubectl("config", "view", "--raw", "--flatten", "--minify", where)))
    path = folder / "kubeconfig"
    config = [f"--kubeconfig={path}", "config"]
    kubectl(*config, "set-cluster", "c", f"--server={cluster.server}", f"--certificate-authority={authority}")
    kubectl(*config, "set-credentials", "u", f"--token={token_of(cluster, namespace, 'powerless')}")
    kubectl(*config, "set-context", "c", "--cluster=c", "--user=u")
    kubectl(*config, "use-context", "c")
    return path


def token_of(cluster: ControlPlane, namespace: str, name: str) -> str:
    return cluster.kubectl("create", "token", name, "--namespace", namespace).strip()


def is_told(controller: Controller, text: str) -> bool:
    return text in controller.log


def test_missing_rights_are_named(cluster: ControlPlane, namespace: str, start: Start, tmp_path: Path) -> None:
    controller = start(account(cluster, namespace, tmp_path))
    missing = (
        'cannot get resource \\"leases\\" in API group \\"coordination.k8s.io\\"',
        'cannot watch resource \\"bundledeployments\\" in API group \\"core.rukpak.io\\" at the cluster scope',
    )
    for right in missing:
        controller.wait_for(partial(is_told, controller, right), 60, right)
    assert "watch forbidden, waiting for permission" in controller.log
    # Probes are listened for by a thread of their own, maybe after the first refusals.
    controller.wait_for(lambda: probe(controller, "readyz").startswith("503"), 60, "not ready")
    assert probe(controller, "healthz") == "200 ok"


def get_metrics(address: str, token: str) -> str:
    """Return status and beginning of the body."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # self-signed
    host, _, port = address.removeprefix("https://").rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=trust, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        reply = connection.getresponse()
        return f"{reply.status} {reply.read().decode()[:200]}"
    finally:
        connection.close()


def test_metrics_over_https_are_for_who_may_get_them(cluster: ControlPlane, namespace: str, start: Start) -> None:
    kubectl = cluster.kubectl
    kubectl("apply", "-f", str(ROOT / "config/prometheus/reader.yaml"))
    for name in ("prometheus", "stranger"):
        kubectl("create", "serviceaccount", name, "--namespace", namespace)
    binding = ("create", "clusterrolebinding", namespace, "--clusterrole=rukpak-metrics-reader")
    kubectl(*binding, f"--serviceaccount={namespace}:prometheus")
    controller = start(cluster.kubeconfig, "--metrics-secure=yes")
    controller.wait_for(lambda: controller.address("--metrics-address"), 60, "it listens")
    address = controller.address("--metrics-address")
    assert address.startswith("https://")

    def is_let_in() -> bool:
        return get_metrics(address, token_of(cluster, namespace, "prometheus")).startswith("200 # HELP")

    wait_for(is_let_in, 30, "the binding counts")
    assert get_metrics(address, token_of(cluster, namespace, "stranger")).startswith("403")
    assert get_metrics(address, "nonsense").startswith("401")
    assert get_metrics(address, "").startswith("401")


# the disk of the store


@pytest.fixture
def world(cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    with new_world(cluster, registry, settings.running) as started:
        yield started
        print(started.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


@contextmanager
def disk(folder: Path, options: str) -> Iterator[None]:
    """Mount a disk of its own at a folder; who may not mount cannot run the test."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("disks may not be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.repeats
@pytest.mark.parametrize("state", ["full", "read-only"])
def test_a_disk_that_takes_nothing_is_said_and_what_is_installed_is_repaired(world: World, state: str) -> None:
    installed = world.deploy(config_map("settings", color="blue"))
    installed.wait_ready()
    world.controller.stop()
    with disk(world.store, "size=1m"):
        if state == "full":
            fill(world.store / "filler")
        else:
            subprocess.run(["mount", "-o", "remount,ro", world.store], check=True)
        world.controller.start()
        installed.edit("settings", color="red")
        world.wait(lambda: installed.data("settings") == {"color": "blue"}, "repair")
        another = world.deploy(config_map("settings"))
        another.wait_for("Unpacked", "False", "StorageFull" if state == "full" else "StorageBroken", saying=state)

        subprocess.run(["mount", "-o", "remount,rw", world.store], check=True)
        (world.store / "filler").unlink(missing_ok=True)
        world.wait(lambda: another.conditions().get("Ready", {}).get("status") == "True", "it recovers", 60)
        world.controller.stop()
    world.controller.start()


@pytest.mark.thorough
def test_a_store_that_is_removed_while_the_controller_runs_is_opened_again(world: World) -> None:
    first = world.deploy(config_map("settings", color="blue"))
    first.wait_ready()
    shutil.rmtree(world.store)
    second = world.deploy(config_map("settings"))
    second.wait_ready()
    first.request_reconcile("again")
    world.wait(lambda: first.status().get("lastHandledReconcileAt") == "again", "it was resolved")
    first.wait_ready()
    assert "content store was removed or replaced; opened it again" in world.controller.log
    assert "Reconciler error" not in world.controller.log


def test_a_store_that_a_read_only_disk_hides_while_the_controller_runs_is_named_until_it_is_back(world: World) -> None:
    installed = world.deploy(config_map("settings", color="blue"))
    installed.wait_ready()
    with disk(world.store, "size=1m,ro"):  # mounted over the one in use
        another = world.deploy(config_map("settings"))
        problem = f'content store "{world.store}": the disk is read-only; make it writable'
        another.wait_for("Unpacked", "False", "StorageBroken", saying=problem)
        installed.edit("settings", color="red")
        world.wait(lambda: installed.data("settings") == {"color": "blue"}, "repair")
    world.wait(lambda: another.conditions().get("Ready", {}).get("status") == "True", "it recovers", 60)
    assert "Reconciler error" not in world.controller.log


def fill(path: Path) -> None:
    """Write until a disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(os.urandom(1 << 16))
        except OSError:
            pass


def test_content_that_was_corrupted_is_fetched_again(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    world.controller.stop()
    (stored,) = (world.store / "entries").glob("*/content/manifests/0000.json")
    stored.write_text("{}")
    world.controller.start()
    deployed.request_reconcile("again")
    world.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "again", "it was resolved")
    world.wait(lambda: "removed damaged content from the store" in world.controller.log, "it is noticed")
    deployed.wait_ready()
    assert deployed.data("settings") == {"color": "blue"}
