"""rukpak-host-bundles, installed by pip beside RukPak: its own tests, its example, and ten nodes of a control plane."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, Manifest, World, exists, image, new_name, new_world
from tests.support.controller import Controller
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.kubelet import Nodes, skip_without_namespaces
from tests.support.packages import Environment, Install
from tests.support.private_sources import secret_manifest
from tests.support.registry import LocalRegistry
from tests.support.signing import SshKey, sign_commit

pytestmark = [pytest.mark.timeout(900), pytest.mark.long(minutes=15), pytest.mark.thorough]
FORMAT = "hosts.rukpak.io/v1"
PACKAGE = ROOT / "hack" / "plugins" / "host_bundles"
EXAMPLE = PACKAGE / "examples" / "k3s-agent"
TEN = [f"node-{number}" for number in range(10)]
SECONDS = 300.0
"""For a whole rollout, on a busy machine."""
POLL_SECONDS = 5.0
"""In which each of ten agents looks at the Lease."""
IMAGE = f"quay.io/example/rukpak@sha256:{'0' * 64}"
ENTRIES = "hosts.rukpak.io/nodes"
BEGIN = b"""
echo "begin $HOST_BUNDLE_VERSION $(date +%s%N)" >> /etc/rollout
[ ! -e /etc/hangs ] || sleep 1000
"""
END = b"""
sleep 1
echo "end $HOST_BUNDLE_VERSION $(date +%s%N)" >> /etc/rollout
"""


@pytest.fixture(scope="module")
def environment(environment_with: Install) -> Environment:
    """RukPak and the package."""
    return environment_with(PACKAGE)


@pytest.fixture(scope="module")
def world(
    environment: Environment, fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings
) -> Iterator[World]:
    """A world whose controller has the package, and whose nodes are those of a test."""
    installed = environment

    def make(folder: Path, kubeconfig: Path, *options: str, environment: Mapping[str, str]) -> Controller:
        return installed.controller(folder, kubeconfig, *options, environment=environment)

    with new_world(fresh_cluster, registry, settings.running, is_shared=False, make=make) as started:
        yield started


@contextmanager
def start_nodes(world: World, folder: Path, names: list[str]) -> Iterator[Nodes]:
    skip_without_namespaces()
    started = Nodes(world.client, world.cluster.server, folder)
    with started.running():
        for name in names:
            started.add(name).write("etc/rancher/k3s/token", "a token")
        yield started
        print(started.logs()[-20000:])  # noqa: T201 - pytest shows it where the test has failed
    for node in world.client.list("/api/v1/nodes"):
        world.client.delete(f"/api/v1/nodes/{node['metadata']['name']}")


@pytest.fixture
def nodes(world: World, tmp_path: Path) -> Iterator[Nodes]:
    """Ten nodes."""
    with start_nodes(world, tmp_path, TEN) as started:
        yield started


@pytest.fixture
def few_nodes(world: World, tmp_path: Path) -> Iterator[Nodes]:
    """Three nodes."""
    with start_nodes(world, tmp_path, TEN[:3]) as started:
        yield started


def bundle(name: str, version: str, seconds: int = 20) -> dict[str, bytes]:
    """Return the example with another name and version, which notes when it begins and ends."""
    files = {path.relative_to(EXAMPLE).as_posix(): path.read_bytes() for path in EXAMPLE.rglob("*") if path.is_file()}
    manifest = files["host-bundle.yaml"].replace(b"name: k3s-agent", f"name: {name}".encode())
    manifest = manifest.replace(b"timeoutSeconds: 120", f"timeoutSeconds: {seconds}".encode())
    files |= {"host-bundle.yaml": manifest, "install.sh": b"#!/bin/sh" + BEGIN + files["install.sh"] + END}
    return {path: data.replace(b"v1.31.4+k3s1", version.encode()) for path, data in files.items()}


def deploy(world: World, version: str, sources: list[Manifest] | None = None, **config: Any) -> Deployed:
    name = new_name()
    settings = {"image": "python:3.13", "allowUnverified": True, "env": {"K3S_URL": "https://10.0.0.1:6443"}} | config
    given: dict[str, Any] = {"sources": sources} if sources else {}
    return world.deploy(bundle(name, version), name=name, format=FORMAT, config=settings, **given)


def upgrade(world: World, deployed: Deployed, version: str, seconds: int = 20) -> None:
    ref = world.push(deployed.name, bundle(deployed.name, version, seconds), tag=version)
    deployed.change(sources=[image(ref)])


def versions(nodes: Nodes) -> dict[str, str]:
    """Return the version of k3s that each node has; nothing for those without one."""
    found = {name: host.read("opt/bin/k3s").partition("k3s version ")[2] for name, host in nodes.hosts.items()}
    return {name: text.split()[0] for name, text in found.items() if text}


def wait_for_version(world: World, deployed: Deployed, nodes: Nodes, version: str) -> None:
    """Wait until all nodes have a version, and the BundleDeployment is Ready."""

    def holds() -> bool:
        ready = deployed.conditions().get("Ready", {}).get("status") == "True"
        return ready and versions(nodes) == dict.fromkeys(nodes.hosts, version)

    world.wait(holds, f"{version} on {len(nodes.hosts)} nodes", SECONDS)


def rollout(nodes: Nodes, version: str) -> list[tuple[int, str, str]]:
    """Return the time, the node and what happened there, "begin" or "end", in order."""
    texts = {name: host.read("etc/rollout").splitlines() for name, host in nodes.hosts.items()}
    lines = [(name, line.split()) for name, each in texts.items() for line in each]
    return sorted((int(line[2]), name, line[0]) for name, line in lines if line[1:2] == [version])


def most_at_once(nodes: Nodes, version: str) -> int:
    """Return on how many nodes the scripts of a version ran at the same time."""
    running = most = 0
    for _, _, what in rollout(nodes, version):
        running += 1 if what == "begin" else -1
        most = max(most, running)
    return most


def entries(deployed: Deployed) -> dict[str, dict[str, str]]:
    """Return what the Lease says of nodes."""
    lease = deployed.get(deployed.name, "leases", "/apis/coordination.k8s.io/v1") or {"metadata": {}}
    found: dict[str, dict[str, str]] = json.loads(lease["metadata"].get("annotations", {}).get(ENTRIES, "{}"))
    return found


def test_its_own_tests_pass(environment: Environment) -> None:
    environment.test(PACKAGE)


def test_authors_check_the_example_and_try_it_on_a_folder(environment: Environment, tmp_path: Path) -> None:
    skip_without_namespaces()
    checked = environment.run("rukpak-hosts", "lint", str(EXAMPLE)).stdout
    assert checked.startswith("k3s-agent v1.31.4+k3s1: sha256:")
    assert checked in (PACKAGE / "README.md").read_text()
    (tmp_path / "etc/rancher/k3s").mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text("ID=flatcar\n")
    run = ["run", str(EXAMPLE), f"--root={tmp_path}", "--env", "K3S_URL=https://10.0.0.1:6443"]
    refused = environment.run("rukpak-hosts", *run, status=1)
    assert "/etc/rancher/k3s/token: missing; write the token of the server to it" in refused.stderr
    (tmp_path / "etc/rancher/k3s/token").write_text("a token")
    for _ in range(2):
        environment.run("rukpak-hosts", *run)
    assert 'server: "https://10.0.0.1:6443"' in (tmp_path / "etc/rancher/k3s/config.yaml").read_text()
    environment.run("rukpak-hosts", "remove", str(EXAMPLE), f"--root={tmp_path}")
    assert [*(tmp_path / "opt/bin").iterdir(), *(tmp_path / "etc/systemd/system").iterdir()] == []


def test_only_what_somebody_answers_for_runs_as_root(world: World, tmp_path: Path) -> None:
    key = SshKey.make(tmp_path / "key")
    with GitHttpServer(tmp_path / "git") as server:
        repository = GitRepository(server.root / "repo.git", config={})
        repository.commit(dict(bundle("tool", "v1")))
        sign_commit(repository, key)
        git: Manifest = {"repository": f"{server.url}/repo.git", "ref": "main"}
        config = {"allowUnverified": False, "image": IMAGE, "nodeSelector": {"no": "node"}}
        deployed = deploy(world, "v1", sources=[{"kind": "git", "git": git}], **config)
        deployed.wait_for("Installed", "False", "InvalidConfig", "spec.config.digest: missing; the content has sha256:")

        namespace = f"/api/v1/namespaces/{deployed.namespace}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": deployed.namespace}}
        world.client.apply(namespace, body, manager="tests", force=True)
        body = secret_manifest(deployed.namespace, "keys", {"allowed_signers": key.allowed().decode()})
        world.client.create(f"{namespace}/secrets", body)
        git = {**git, "verify": {"secret": {"name": "keys"}}}
        deployed.change(sources=[{"kind": "git", "git": git}])
        deployed.wait_ready()
    assert deployed.get(deployed.name, "daemonsets", "/apis/apps/v1") is not None


def test_ten_nodes_are_installed_upgraded_and_rolled_back_in_waves(
    world: World, nodes: Nodes, environment: Environment
) -> None:
    deployed = deploy(world, "v1", maxUnavailable=3)
    wait_for_version(world, deployed, nodes, "v1")
    upgrade(world, deployed, "v2")
    wait_for_version(world, deployed, nodes, "v2")
    assert [most_at_once(nodes, version) <= 3 for version in ("v1", "v2")] == [True, True]
    variables = {"KUBECONFIG": str(world.cluster.kubeconfig)}
    said = environment.run("rukpak", "permissions", deployed.name, variables=variables).stdout
    assert "runs privileged in container root-on-host" in said

    broken = {"node-2", "node-5", "node-8"}
    for name in broken:
        (nodes.hosts[name].root / "etc/rancher/k3s/token").unlink()
    deployed.change(config={"maxUnavailable": 1})
    wait_for_version(world, deployed, nodes, "v2")
    upgrade(world, deployed, "v3")
    message = world.wait(lambda: not_ready(deployed, "install.sh: exited with status 1"), "it says why", SECONDS)
    [failed] = [name for name in broken if name in message]
    said = world.wait(lambda: failure(deployed, failed), "it has failed", SECONDS)
    assert f"{failed}: install.sh: exited with status 1: /etc/rancher/k3s/token: missing" in said
    assert f"{failed}: install.sh: exited with status 1" in message
    assert "/etc/rancher/k3s/token: missing" in message
    begun = {name for _, name, _ in rollout(nodes, "v3")}
    time.sleep(5 * POLL_SECONDS)
    assert {name for _, name, _ in rollout(nodes, "v3")} == begun
    assert begun & broken == {failed}
    assert f"waiting: {failed} failed: install.sh: exited with status 1" in nodes.logs()

    before = len(rollout(nodes, "v2"))
    for name in broken:
        nodes.hosts[name].write("etc/rancher/k3s/token", "a token")
    deployed.change(sources=[image(f"{world.registry.host}/{deployed.name}:v2")])
    wait_for_version(world, deployed, nodes, "v2")
    assert len(rollout(nodes, "v2")) == before + 2 * len(begun)  # only where something had begun
    assert entries(deployed) == {}
    deployed.delete()
    world.wait(lambda: not versions(nodes), "nothing left on hosts", SECONDS)
    deployed.wait_gone()


def failure(deployed: Deployed, text: str) -> str:
    """Return the message of an object in `status.notReady` that has failed, and whose message has a text."""
    return not_ready(deployed, text) if deployed.status().get("objects", {}).get("failed") else ""


def test_one_node_is_rid_of_it_within_seconds(world: World, few_nodes: Nodes) -> None:
    deployed = deploy(world, "v1", nodeSelector={"kubernetes.io/hostname": "node-0"})
    world.wait(lambda: versions(few_nodes) == {"node-0": "v1"}, "it is installed", SECONDS)
    deployed.wait_ready()
    begun = time.monotonic()
    deployed.delete()
    deployed.wait_gone()
    assert versions(few_nodes) == {}
    assert time.monotonic() - begun < 30  # it was 150 s; the scripts take one


def test_a_damaged_annotation_stops_no_rollout(world: World, nodes: Nodes) -> None:
    deployed = deploy(world, "v1", maxUnavailable=5)
    wait_for_version(world, deployed, nodes, "v1")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{deployed.namespace}/leases/{deployed.name}"
    for text in ("{", '{"node-0": 1, "node-4": {"state": "Installing"}, "nobody": [], "a,b=c": null}'):
        world.client.merge_patch(lease, {"metadata": {"annotations": {ENTRIES: text}}})
        version = f"v{len(text)}"
        upgrade(world, deployed, version)
        wait_for_version(world, deployed, nodes, version)
        assert most_at_once(nodes, version) <= 5
    # What is damaged of nodes without an agent is dropped when the next one asks for a turn.
    world.wait(lambda: not entries(deployed).keys() & nodes.hosts.keys(), "it is replaced", SECONDS)
    deployed.delete()
    deployed.wait_gone()


def test_an_agent_that_is_not_what_was_rendered_does_nothing_and_status_says_so(world: World, few_nodes: Nodes) -> None:
    few_nodes.changes["INSTALLING, REBOOTING, FAILED ="] = "INSTALLING, REBOOTING, FAILED =\\\n"
    deployed = deploy(world, "v1")
    said = world.wait(lambda: failure(deployed, "SHA-256"), "it says why", SECONDS)
    assert "/agent/rukpak_hosts_turns.py has the SHA-256 " in said
    assert "nothing was run" in said
    assert versions(few_nodes) == {}
    few_nodes.changes.clear()
    wait_for_version(world, deployed, few_nodes, "v1")
    deployed.delete()
    deployed.wait_gone()


def test_an_agent_without_a_way_to_the_api_server_says_so_in_status(world: World, few_nodes: Nodes) -> None:
    few_nodes.variables["KUBERNETES_SERVICE_PORT"] = "1"
    deployed = deploy(world, "v1")
    text = "the API server cannot be used from here, so nobody gives it a turn: GET /apis/coordination.k8s.io/"
    said = world.wait(lambda: not_ready(deployed, text), "it says why", SECONDS)
    assert "Connection refused" in said
    few_nodes.variables["KUBERNETES_SERVICE_PORT"] = str(urlsplit(world.cluster.server).port)
    wait_for_version(world, deployed, few_nodes, "v1")
    deployed.delete()
    deployed.wait_gone()


def not_ready(deployed: Deployed, text: str) -> str:
    """Return the message about an object in `status.notReady` that has a text."""
    messages = (each.get("message", "") for each in deployed.status().get("notReady", []))
    return next((message for message in messages if text in message), "")


def test_a_drained_node_takes_pods_again_once_it_works(world: World, few_nodes: Nodes) -> None:
    pods, selector = "/api/v1/namespaces/default/pods", {"app": "web"}
    container = {"name": "main", "image": "example.com/web:1", "command": ["sleep", "1000"]}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [container]}}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": selector}, "template": template},
    }
    world.client.create("/apis/apps/v1/namespaces/default/replicasets", replica_set)
    before = world.wait(lambda: running(world, pods), "pods run", SECONDS)
    deployed = deploy(world, "v1", maxUnavailable=10, drain={})
    wait_for_version(world, deployed, few_nodes, "v1")
    after = world.wait(lambda: running(world, pods), "pods run again", SECONDS)
    assert not before & after
    assert not [node for node in world.client.list("/api/v1/nodes") if node["spec"].get("unschedulable")]
    world.client.delete("/apis/apps/v1/namespaces/default/replicasets/web")
    deployed.delete()
    deployed.wait_gone()


def running(world: World, pods: str) -> set[str]:
    """Return the names of three pods, once all run."""
    found = [*world.client.list(pods, label_selector="app=web")]
    names = {pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"}
    return names if len(names) == len(found) == 3 else set()


def test_nodes_come_and_go(world: World, nodes: Nodes) -> None:
    deployed = deploy(world, "v1", maxUnavailable=5)
    wait_for_version(world, deployed, nodes, "v1")
    nodes.add("node-10").write("etc/rancher/k3s/token", "a token")
    wait_for_version(world, deployed, nodes, "v1")

    nodes.hosts["node-3"].write("etc/hangs", "")
    deployed.change(config={"maxUnavailable": 1})
    upgrade(world, deployed, "v2", seconds=600)
    world.wait(lambda: ("begin", "node-3") in begun(nodes, "v2"), "node-3 has the only place", SECONDS)
    nodes.cut_off("node-3")
    world.client.delete("/api/v1/nodes/node-3")
    wait_for_version(world, deployed, nodes, "v2")
    deployed.delete()
    deployed.wait_gone()
    assert versions(nodes) == {}


def begun(nodes: Nodes, version: str) -> set[tuple[str, str]]:
    return {(what, name) for _, name, what in rollout(nodes, version)}


def test_a_removal_names_nodes_that_do_not_answer_and_waits_for_none_that_is_gone(
    world: World, few_nodes: Nodes
) -> None:
    deployed = deploy(world, "v1", maxUnavailable=10)
    wait_for_version(world, deployed, few_nodes, "v1")
    # The Job that removes it is not to be scheduled to a node that is taken for alive for another forty seconds.
    world.client.merge_patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": True}})
    few_nodes.cut_off("node-2")
    deployed.delete()
    world.wait(lambda: not versions(few_nodes), "nothing left on the other nodes", SECONDS)
    said = "1 of 3 nodes still have it: node-2 (its agent does not answer)"
    world.wait(lambda: said in condition(deployed, "HookFailed"), "it names the node", SECONDS)
    world.client.delete("/api/v1/nodes/node-2")
    pods = f"/api/v1/namespaces/{deployed.namespace}/pods"
    world.wait(lambda: not [*world.client.list(pods, field_selector="spec.nodeName=node-2")], "pod collected", SECONDS)
    deployed.request_reconcile("now")
    world.wait(lambda: not exists(world.client, deployed.path), "gone", SECONDS)


def condition(deployed: Deployed, reason: str) -> str:
    """Return the message of a condition that is False for a reason."""
    found: list[Manifest] = deployed.status().get("conditions", [])
    return next((each["message"] for each in found if each["reason"] == reason), "")
