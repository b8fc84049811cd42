"""The image of the Dockerfile runs in pods: installed in each way, it fetches, renders, hands over and is removed.

No registry can be reached, so its base is the distribution and the Python of this machine (hack/image/build.py), and
where it fetches from listens on a node.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hack.control_plane.images import TINY
from hack.control_plane.nodes import Node, NodeError, find_node
from hack.image.build import NAME, obtain_image
from rukpak.controller.playground.binaries import MissingError
from rukpak.controller.playground.cluster import ControlPlane, KubectlError
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, Manifest, bundle_of, new_name
from tests.support.charts import chart_of, entry_of, files_of, index_of, pack, packaged_helm
from tests.support.controller import Rukpak, command
from tests.support.git_servers import GitHttpServer, GitRepository, GitSshServer, serve_ssh
from tests.support.inside import Client, connect
from tests.support.installations import ACCOUNT, NAMESPACE
from tests.support.private_sources import FORGE, commit_bundle, secret_manifest
from tests.support.registry import LocalRegistry
from tests.support.running import container, deployment_of, job_of, pod_of
from tests.support.web_servers import FileServer

pytestmark = [pytest.mark.thorough, pytest.mark.long, pytest.mark.timeout(600)]

SECONDS = 60.0
OPERATOR = ROOT / "hack/demonstration/bundle/operator"
INSECURE = {"insecureSkipTLSVerify": True}
ROLLOUT = ("rollout", "status", "deployment", ACCOUNT, f"--namespace={NAMESPACE}", "--timeout=150s")
REPOSITORY, _, TAG = NAME.rpartition(":")


class Site(NamedTuple):
    """A cluster with two nodes that have the image, and servers that its pods reach."""

    cluster: ControlPlane
    client: Client
    nodes: list[Node]
    registry: LocalRegistry
    files: FileServer
    git: GitHttpServer
    ssh: GitSshServer

    def at(self, port: int | str) -> str:
        """Return host and port of a server, for pods."""
        return f"{self.nodes[0].address}:{port}"

    def deploy(self, name: str = "", **spec: Any) -> Deployed:
        name = name or new_name()
        metadata = {"name": name}
        body = {"format": "plain", "installNamespace": name, **spec}
        manifest = {
            "apiVersion": "core.rukpak.io/v1alpha2",
            "kind": "BundleDeployment",
            "metadata": metadata,
            "spec": body,
        }
        self.cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(manifest))
        return Deployed(client=self.client, name=name, ref="", wait=lambda found, what: wait_for(found, SECONDS, what))

    def image(self, repository: str, *layers: dict[str, bytes]) -> Manifest:
        """Push an image; return the source that names it."""
        self.registry.push_image(repository, "v1", [*layers])
        ref = f"{self.at(self.registry.host.rpartition(':')[2])}/{repository}:v1"
        return {"kind": "image", "image": {"ref": ref, **INSECURE}}


@pytest.fixture(scope="module")
def site(
    fresh_node_cluster: ControlPlane,
    settings: Settings,
    registry: LocalRegistry,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    try:
        archive = obtain_image(settings)
    except MissingError as error:
        pytest.skip(str(error))
    nodes = [find_node(fresh_node_cluster.folder, f"node-{number}") for number in (1, 2)]
    for node in nodes:
        node.import_images(archive)
    repositories = tmp_path_factory.mktemp("git")
    commit_bundle(GitRepository(repositories / "shop.git", config=FORGE), deployment_of("serve"))
    client = connect(kubeconfig=str(fresh_node_cluster.kubeconfig), user_agent="tests")
    with ExitStack() as stack:
        files = stack.enter_context(FileServer().serving())
        git, ssh = stack.enter_context(GitHttpServer(repositories)), stack.enter_context(serve_ssh(repositories))
        ports = [int(each.rpartition(":")[2]) for each in (registry.host, files.address)]
        relay = nodes[0].expose(*ports, git.port, ssh.port)
        stack.callback(relay.kill)
        yield Site(fresh_node_cluster, client, nodes, registry, files, git, ssh)


@pytest.fixture(scope="module")
def rukpak(site: Site) -> Rukpak:
    return command(site.cluster.kubeconfig)


@pytest.fixture(scope="module")
def installed(site: Site, rukpak: Rukpak) -> str:
    """Return what `rukpak install-controller` said. It is upgraded and uninstalled by the tests below."""
    return rukpak("install-controller", f"--image={NAME}", "--yes", "--wait", "--timeout=80s").stderr


def pods_of_controller(site: Site) -> list[Manifest]:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    found = site.client.list(path, label_selector=f"app.kubernetes.io/name={ACCOUNT}")
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def are_ready(site: Site) -> bool:
    conditions = [pod["status"].get("conditions", ()) for pod in pods_of_controller(site)]
    ready = [any(each["type"] == "Ready" and each["status"] == "True" for each in of_pod) for of_pod in conditions]
    return len(ready) == 2 and all(ready)


def holder_of(site: Site) -> str:
    """Return the name of the pod whose controller is active."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{ACCOUNT}"
    return str(site.client.get(path).value["spec"].get("holderIdentity") or "").partition("_")[0]


def test_install_controller_waits_until_both_pods_are_ready(site: Site, installed: str) -> None:
    assert are_ready(site)
    assert "failed" not in installed
    assert {pod["spec"]["nodeName"] for pod in pods_of_controller(site)} == {"node-1", "node-2"}


# what it installs


def from_image(site: Site) -> Manifest:
    return {"sources": [site.image("plain", bundle_of(deployment_of("serve")))]}


def from_helm(site: Site) -> Manifest:
    chart = chart_of({"templates/x.yaml": json.dumps(deployment_of("serve"))})
    return {"format": "helm", "sources": [site.image("helm", chart)]}


def from_registry_v1(site: Site) -> Manifest:
    files = files_of(OPERATOR)
    operator = files["manifests/operator.yaml"].replace(b"registry.k8s.io/pause:3.10", TINY.encode())
    return {
        "format": "registry-v1",
        "sources": [site.image("operator", {**files, "manifests/operator.yaml": operator})],
    }


def from_git(site: Site) -> Manifest:
    source = {"repository": f"http://{site.at(site.git.port)}/shop.git", "ref": "main", "directory": "deploy"}
    return {"sources": [{"kind": "git", "git": {**source, **INSECURE}}]}


def from_git_over_ssh(site: Site, name: str) -> Manifest:
    host_key = f"[{site.nodes[0].address}]:{site.ssh.port} {site.ssh.host_key}\n"
    secret = secret_manifest(name, "key", {"ssh-privatekey": site.ssh.private_key, "known_hosts": host_key})
    site.cluster.kubectl("create", "namespace", name)
    site.cluster.kubectl("apply", "-f", "-", input=json.dumps(secret))
    source = {"repository": f"ssh://git@{site.at(site.ssh.port)}/shop.git", "ref": "main", "directory": "deploy"}
    return {"sources": [{"kind": "git", "git": {**source, "auth": {"secret": {"name": "key"}}}}]}


def from_chart_repository(site: Site) -> Manifest:
    archive = pack(chart_of({"templates/x.yaml": json.dumps(deployment_of("serve"))}, "shop"))
    site.files.files |= {"/shop-1.0.0.tgz": archive, "/index.yaml": index_of([entry_of("shop", "1.0.0", archive)])}
    repository = f"http://{site.at(site.files.address.rpartition(':')[2])}"
    return {
        "format": "helm",
        "sources": [{"kind": "chart", "chart": {"repository": repository, "name": "shop", **INSECURE}}],
    }


KINDS: dict[str, Callable[[Site], Manifest]] = {
    "plain, an image": from_image,
    "helm": from_helm,
    "registry-v1": from_registry_v1,
    "git over http": from_git,
    "a chart repository": from_chart_repository,
}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", KINDS)
def test_it_installs(kind: str, site: Site) -> None:
    site.deploy(**KINDS[kind](site)).wait_ready()


@pytest.mark.usefixtures("installed")
def test_it_installs_git_over_ssh(site: Site) -> None:
    name = new_name()
    site.deploy(name, **from_git_over_ssh(site, name)).wait_ready()


@pytest.mark.usefixtures("installed")
def test_hooks_are_jobs_that_run(site: Site) -> None:
    def chart(*steps: str) -> Manifest:
        hook = job_of(pod_of(container(*steps)), backoffLimit=0)
        hook["metadata"]["annotations"] = {"helm.sh/hook": "pre-install"}
        templates = {"templates/hook.yaml": json.dumps(hook), "templates/x.yaml": json.dumps(deployment_of("serve"))}
        return {"format": "helm", "sources": [site.image(f"hooks-{steps[-1]}", chart_of(templates))]}

    site.deploy(**chart("exit", "0")).wait_ready()
    failed = site.deploy(**chart("tell", "cannot migrate", "exit", "2"))
    failed.wait_for("Installed", "False", saying="cannot migrate")


# the pod


def processes_of(site: Site, pod: Manifest) -> tuple[Node, list[int]]:
    """Return the node of a pod, and the processes in its containers there, the controller itself first."""
    node = next(each for each in site.nodes if each.name == pod["spec"]["nodeName"])
    script = f"grep -l pod{pod['metadata']['uid']} /proc/[0-9]*/cgroup | cut -d/ -f3"
    pids = [int(line) for line in node.run("sh", "-c", script).split()]
    lines = {pid: command_line(node, pid) for pid in pids}
    return node, [pid for pid in pids if "-m rukpak" in lines[pid]]


def command_line(node: Node, pid: int) -> str:
    try:
        return node.run("cat", f"/proc/{pid}/cmdline").replace("\0", " ")
    except NodeError:
        return ""  # it has ended


@pytest.mark.usefixtures("installed")
def test_it_has_neither_root_nor_capabilities_nor_a_root_folder_to_write_to(site: Site) -> None:
    node, [pid, *_] = processes_of(site, pods_of_controller(site)[0])
    status = dict(line.split(":\t", 1) for line in node.run("cat", f"/proc/{pid}/status").splitlines())
    assert status["Uid"].split() == ["65532"] * 4
    assert (status["CapEff"], status["CapBnd"]) == ("0" * 16, "0" * 16)
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    mounts = {line.split()[4]: line.split()[5] for line in node.run("cat", f"/proc/{pid}/mountinfo").splitlines()}
    assert mounts["/"].startswith("ro")
    assert {"/tmp", "/var/cache/rukpak"} <= {path for path, options in mounts.items() if options.startswith("rw")}


# fail-over


def delete_pod(site: Site, pod: Manifest) -> None:
    site.cluster.kubectl("delete", "pod", pod["metadata"]["name"], f"--namespace={NAMESPACE}", "--wait=false")


def send(signal: str, site: Site, pod: Manifest) -> None:
    node, [pid, *_] = processes_of(site, pod)
    node.run("kill", f"-{signal}", str(pid))


def use_up_memory(site: Site, pod: Manifest) -> None:
    """Take the rest of its limit in its control group, in a process that the kernel spares."""
    node, [pid, *_] = processes_of(site, pod)
    groups = [line.split(":") for line in node.run("cat", f"/proc/{pid}/cgroup").split()]
    own = next(path for _, controllers, path in groups if controllers in ("memory", ""))
    hierarchy = "/sys/fs/cgroup/memory" if Path("/sys/fs/cgroup/memory").is_dir() else "/sys/fs/cgroup"
    tiny = Path(node.run("readlink", "/proc/1/exe").strip())
    take = f"echo $$ > {hierarchy}{own}/cgroup.procs && exec timeout 3 choom -n -1000 -- {tiny} allocate 1010"
    node.call(["sh", "-c", take], quiet=True)


class Loss(NamedTuple):
    cause: Callable[[Site, Manifest], None]
    seconds: float
    """Within which the other one has taken over and worked: at once, or when the Lease is over."""


LOSSES = {
    "its pod is deleted": Loss(delete_pod, 15),
    "it is killed": Loss(partial(send, "KILL"), 45),
    "it has used up its memory": Loss(use_up_memory, 45),
    "it is stopped": Loss(partial(send, "STOP"), 45),
}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("loss", LOSSES)
def test_another_takes_over_when(loss: str, site: Site) -> None:
    wait_for(lambda: are_ready(site), 90, "both are Ready")
    [before] = [pod for pod in pods_of_controller(site) if pod["metadata"]["name"] == holder_of(site)]
    sources = [site.image("fail-over", bundle_of(deployment_of("serve")))]
    LOSSES[loss].cause(site, before)
    begun = time.monotonic()
    site.deploy(sources=sources).wait_ready()
    assert time.monotonic() - begun < LOSSES[loss].seconds
    if loss == "it is stopped":
        assert holder_of(site) != before["metadata"]["name"]
        node, pids = processes_of(site, before)
        for pid in pids:
            node.call(["kill", "-CONT", str(pid)], quiet=True)


@pytest.mark.usefixtures("installed")
def test_a_node_is_drained(site: Site) -> None:
    wait_for(lambda: are_ready(site), 120, "both are Ready")
    drained = site.deploy(sources=[site.image("drained", bundle_of(deployment_of("serve")))])
    drained.wait_ready()
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=110s")
    site.cluster.kubectl("drain", "node-2", *options)
    try:
        wait_for(lambda: are_ready(site), 90, "both are Ready")
        assert {pod["spec"]["nodeName"] for pod in pods_of_controller(site)} == {"node-1"}
        drained.wait_ready()
    finally:
        site.cluster.kubectl("uncordon", "node-2")


# other installations


@pytest.mark.usefixtures("installed")
def test_it_is_upgraded_to_the_restricted_one_and_uninstalled(site: Site, rukpak: Rukpak) -> None:
    # What was installed without an account cannot be removed by a controller that acts with accounts alone.
    site.cluster.kubectl("delete", "bundledeployments", "--all", "--timeout=110s")
    rukpak("install-controller", f"--image={NAME}", "--restricted", "--yes", "--wait", "--timeout=85s")
    assert are_ready(site)
    refused = site.deploy(**from_image(site))
    refused.wait_for("Ready", "False", saying="serviceAccount")
    refused.delete()
    refused.wait_gone()
    rukpak("uninstall", "--yes")
    wait_for(lambda: is_gone(site), SECONDS, "its namespace is gone")


def is_gone(site: Site) -> bool:
    found = site.cluster.kubectl("get", "namespace,crd", "--output=name")
    return NAMESPACE not in found and "rukpak" not in found


def test_the_chart_installs_it(site: Site) -> None:
    values = ["--set", f"image.repository={REPOSITORY}", "--set", f"image.tag={TAG}"]
    helm(
        site, "install", "rukpak", str(ROOT / "config/chart"), "--create-namespace", *values, "--wait", "--timeout=100s"
    )
    assert are_ready(site)
    site.deploy(**from_helm(site)).wait_ready()
    site.cluster.kubectl("delete", "bundledeployments", "--all", "--timeout=110s")
    helm(site, "uninstall", "rukpak", "--wait")
    remove_rest(site)


def helm(site: Site, *words: str) -> None:
    variables = {**os.environ, "KUBECONFIG": str(site.cluster.kubeconfig)}
    line: list[str | Path] = [packaged_helm(), *words, f"--namespace={NAMESPACE}"]
    done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", ["default", "restricted"])
def test_a_kustomization_installs_it(folder: str, site: Site, tmp_path: Path) -> None:
    images = [{"name": "rukpak", "newName": REPOSITORY, "newTag": TAG}]
    resources = os.path.relpath(ROOT / "config" / folder, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [resources], "images": images}))
    site.cluster.kubectl("apply", "-k", str(tmp_path))
    site.cluster.kubectl(*ROLLOUT)
    assert are_ready(site)
    site.cluster.kubectl("delete", "-k", str(tmp_path), "--timeout=110s")
    remove_rest(site)


def remove_rest(site: Site) -> None:
    """Remove what an uninstallation keeps on purpose, such as the API with its objects."""
    for kind, name in (("namespace", NAMESPACE), ("crd", "bundledeployments.core.rukpak.io")):
        try:
            site.cluster.kubectl("delete", kind, name, "--ignore-not-found", "--timeout=60s")
        except KubectlError as error:
            assert "not found" in error.stderr
    wait_for(lambda: is_gone(site), SECONDS, "its namespace is gone")
