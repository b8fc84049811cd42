"""All parts together: a bundle is rendered, laid out as the kubelet does, and installed on a host by its agent."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import rukpak_hosts_turns as turns
from fake_cluster import serve
from host import ARCHITECTURE, Host, write_content
from rukpak.plugins import Capabilities, ContentTree, Rendering, RenderRequest
from rukpak_host_bundles import HostBundlesFormat
from rukpak_hosts_agent import HostError

BUNDLE = {
    "apiVersion": "hosts.rukpak.io/v1",
    "kind": "HostBundle",
    "name": "tool",
    "version": "v1",
    "hosts": [{"id": "debian"}],
    "architectures": [ARCHITECTURE],
    "env": {"COLOR": {"type": "string"}},
}


@pytest.fixture(scope="session", autouse=True)
def _needs_user_namespaces() -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    if not shutil.which("unshare") or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs user namespaces: without them scripts would change this machine")


def render(content: Path, **env: str) -> Rendering:
    (content / "host-bundle.yaml").write_text(json.dumps(BUNDLE))
    config = {"image": "python:3.13", "allowUnverified": True, "env": env}
    assert HostBundlesFormat().validate(config) == []
    request = RenderRequest(
        name="tool",
        install_namespace="hosts",
        tree=ContentTree(root=content, destinations=("",)),
        config=config,
        capabilities=Capabilities(kubernetes_version="v1.36.0"),
    )
    return HostBundlesFormat().render(request)


def lay_out(made: Rendering, folder: Path) -> None:
    """Write the volumes of the pod of a DaemonSet, each at the path where it is mounted."""
    maps = {each["metadata"]["name"]: each for each in made.objects if each["kind"] == "ConfigMap"}
    (pod,) = (each["spec"]["template"]["spec"] for each in made.objects if each["kind"] == "DaemonSet")
    mounts = {each["name"]: folder / each["mountPath"][1:] for each in pod["containers"][0]["volumeMounts"]}
    for volume in pod["volumes"]:
        target = mounts[volume["name"]]
        target.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            for name, text in maps[volume["configMap"]["name"]]["data"].items():
                (target / name).write_text(text)
        for source in volume.get("projected", {}).get("sources", []):
            part = maps[source["configMap"]["name"]]["binaryData"]["part"]
            (target / source["configMap"]["items"][0]["path"]).write_bytes(base64.b64decode(part))


class Node:
    """What an agent calls, on a host of its own. As soon as it is asked for a second step, its process is to end."""

    def __init__(self, host: Host, stop: turns.Stop) -> None:
        self._host, self._stop = host, stop

    def install(self, plan: Mapping[str, Any], content: Path) -> None:
        self._host.call(["install", plan, content])
        self._stop.set()

    def verify(self, plan: Mapping[str, Any]) -> None:
        self._host.call(["verify", plan])
        self._stop.set()

    def remove(self, plan: Mapping[str, Any]) -> None:
        self._host.call(["remove", plan])
        self._stop.set()

    def reboot(self, plan: Mapping[str, Any]) -> None:
        self._host.call(["reboot", plan])

    def is_installed(self, plan: Mapping[str, Any]) -> bool:
        return bool(self._host.call(["is_installed", plan]))

    def needs_reboot(self, plan: Mapping[str, Any]) -> bool:
        return bool(self._host.call(["needs_reboot", plan]))


def run(made: Rendering, host: Host, folder: Path, *, is_removal: bool = False) -> dict[str, Any]:
    """Run the agent of a rendering until it has done something, and return the entries of the Lease then."""
    lay_out(made, folder)
    plan, stop = json.loads((folder / "agent/plan.json").read_text()), turns.Stop()
    with serve() as cluster:
        if is_removal:
            cluster.client().write(cluster.lease, **{turns.REMOVE: "true"})
        agent = turns.Agent(
            plan, "node", cluster.client(), host=Node(host, stop), content=folder / "content/parts",
            ready=folder / "ready", pace=0.001,
        )  # fmt: skip
        with suppress(HostError):
            agent.run(stop)
        return cluster.entries()


def test_a_bundle_is_installed_upgraded_and_removed(tmp_path: Path) -> None:
    host, log = Host(tmp_path / "root"), "echo {} $COLOR >> /log"
    scripts = {"install": log.format("install"), "verify": log.format("verify"), "uninstall": log.format("uninstall")}
    for color in ("red", "blue"):
        made = render(write_content(tmp_path / color, **scripts), COLOR=color)
        assert run(made, host, tmp_path / f"pod-{color}") == {}
        assert run(made, host, tmp_path / f"pod-{color}") == {}  # as after a restart
    assert run(made, host, tmp_path / "pod-blue", is_removal=True)["node"]["state"] == turns.REMOVED
    done = [f"{what} {color}" for color in ("red", "blue") for what in ("install", "verify", "verify")]
    assert host.read("log").splitlines() == [*done, "uninstall blue"]


def test_a_script_that_fails_says_so_in_the_lease(tmp_path: Path) -> None:
    made = render(write_content(tmp_path / "content", install="echo no room; exit 3"), COLOR="red")
    entry = run(made, Host(tmp_path / "root"), tmp_path / "pod")["node"]
    assert (entry["state"], entry["message"]) == (turns.FAILED, "install.sh: exited with status 3: no room")


def start(made: Rendering, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of the DaemonSet with what is laid out in a folder, and without a cluster."""
    (pod,) = (each["spec"]["template"]["spec"] for each in made.objects if each["kind"] == "DaemonSet")
    _, options, code, *arguments = pod["containers"][0]["command"]
    for path in ("/agent", "/dev/termination-log"):
        (folder / "dev").mkdir(exist_ok=True)
        code = code.replace(f'"{path}"', repr(str(folder / path[1:])))
    missing = f"import sys, rukpak_hosts_turns as turns; turns._TERMINATION_LOG = turns.Path({str(folder / 'log')!r})"
    code = code.replace("sys.exit(module.main", f"{missing}\nsys.exit(module.main")
    command = [sys.executable, options, code, *arguments]
    return subprocess.run(command, env={"NODE_NAME": "n"}, capture_output=True, text=True, check=False)


def lay_out_as_kubelet(made: Rendering, folder: Path) -> Path:
    """Lay out the volumes with the agent as links to a folder that an update would replace, and return that."""
    lay_out(made, folder)
    (folder / "agent").rename(folder / "written")
    (folder / "agent").mkdir()
    (folder / "written").rename(folder / "agent/..2026_11_28")
    (folder / "agent/..data").symlink_to("..2026_11_28")
    for path in (folder / "agent/..data").iterdir():
        (folder / "agent" / path.name).symlink_to(f"..data/{path.name}")
    return folder / "agent/..data"


def test_what_is_mounted_runs_with_nothing_but_python(tmp_path: Path) -> None:
    made = render(write_content(tmp_path / "content", install="true"), COLOR="red")
    lay_out_as_kubelet(made, tmp_path)
    done = start(made, tmp_path)
    assert (done.returncode, "KUBERNETES_SERVICE_HOST" in done.stderr) == (1, True)  # it has come as far as that


EVIL = "open({!r}, 'w'); raise SystemExit(7)\n"
CHANGES = {
    "the agent": "rukpak_hosts_agent.py",
    "what waits for its turn": "rukpak_hosts_turns.py",
    "the plan": "plan.json",
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("how", ["replaced", "appended", "emptied", "missing", "replaced by an update of the volume"])
def test_what_differs_from_what_was_rendered_is_not_run(name: str, how: str, tmp_path: Path) -> None:
    made = render(write_content(tmp_path / "content", install="true"), COLOR="red")
    data, evil = lay_out_as_kubelet(made, tmp_path), EVIL.format(str(tmp_path / "evil"))
    file, before = data / CHANGES[name], (data / CHANGES[name]).read_text()
    if how == "missing":
        file.unlink()
    elif how.endswith("volume"):
        shutil.copytree(data, tmp_path / "agent/..2026_11_29")
        (tmp_path / "agent/..2026_11_29" / CHANGES[name]).write_text(evil)
        data.unlink()
        data.symlink_to("..2026_11_29")
    else:
        file.write_text({"replaced": evil, "appended": before + evil, "emptied": ""}[how])
    done = start(made, tmp_path)
    said = (tmp_path / "dev/termination-log").read_text()
    assert said.startswith(f"n: /agent/{CHANGES[name]} has the SHA-256 ")
    assert said.endswith("and delete it, so that it is made again")
    assert (done.returncode, done.stderr.strip(), (tmp_path / "evil").exists()) == (1, said, False)


@pytest.mark.parametrize("name", ["json.py", "sitecustomize.py", "hashlib.py", "types.py", "__init__.py"])
def test_what_is_added_to_the_config_map_is_not_run(name: str, tmp_path: Path) -> None:
    made = render(write_content(tmp_path / "content", install="true"), COLOR="red")
    (lay_out_as_kubelet(made, tmp_path) / name).write_text(EVIL.format(str(tmp_path / "evil")))
    (tmp_path / "agent" / name).symlink_to(f"..data/{name}")
    done = start(made, tmp_path)
    assert (done.returncode, (tmp_path / "evil").exists()) == (1, False)


@pytest.fixture
def _own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_own_signals")
@pytest.mark.parametrize("role", ["node", "remove"])
def test_the_program_leaves_its_failure_as_a_termination_message(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"install": {}, "timeoutSeconds": -200, "turns": {"lease": "tool", "maxUnavailable": 1, "maxFailures": 1}}

    def fail(*_: object) -> None:
        raise HostError("no room")

    with serve() as cluster:
        cluster.nodes.add("node")
        monkeypatch.setattr(turns, "_in_cluster", lambda lease: {"tool": cluster.client()}[lease])
        monkeypatch.setattr(turns, "_CONTENTS", (tmp_path / "missing", tmp_path))
        monkeypatch.setattr(turns, "_TERMINATION_LOG", tmp_path / "log")
        monkeypatch.setattr(turns.Agent, "run", fail)
        monkeypatch.setenv("NODE_NAME", "node")
        assert turns.main(role, json.dumps(plan).encode()) == 1
    told = {"node": "node: no room", "remove": "1 of 1 nodes still have it: node (its agent does not answer)"}
    assert (tmp_path / "log").read_text() == told[role]
