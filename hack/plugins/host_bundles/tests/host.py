"""A host for tests: a root folder with the programs of this machine, in user and mount namespaces of its own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import rukpak_hosts
import rukpak_hosts_agent as agent

OS_RELEASE = 'PRETTY_NAME="A host"\nID=debian\nVERSION_ID="12"\n'
ARCHITECTURE = agent.ARCHITECTURES[os.uname().machine]
Call = Sequence[Any]
"""The name of a function of the agent, and its arguments but the root."""
NEVER = (0, 0)


def write_content(folder: Path, **scripts: str) -> Path:
    """Write a bundle: install="…" becomes install.sh. None of them is executable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host-bundle.yaml").write_text("kind: HostBundle\n")
    for name, text in scripts.items():
        (folder / f"{name}.sh").write_text(f"#!/bin/sh -e\n{text}\n")
    return folder


def make_plan(content: Path, **changes: Any) -> dict[str, Any]:
    """Return a plan for content. Fields of `install` can be changed as others; another name is of another owner."""
    if "name" in changes:
        changes = {"owner": f"{changes['name']}/{changes['name']}", **changes}
    plan: dict[str, Any] = {
        "install": {
            "owner": "k3s/k3s",
            "name": "k3s",
            "version": "v1",
            "type": "Scripts",
            "digest": agent.digest_of_folder(content),
            "env": {},
        },
        "hosts": [{"id": "debian", "versionIDs": ["11", "12"]}],
        "architectures": [ARCHITECTURE],
        "timeoutSeconds": 20,
        "reboot": "Never",
        "allowReboot": False,
    }
    for name, value in changes.items():
        (plan["install"] if name in plan["install"] else plan)[name] = value
    return plan


def replace_program(name: str, script: str) -> list[str]:
    """Return mounts with a program of the host that is another."""
    lines = ["#!/bin/sh -e", script]
    return [
        "mount -t tmpfs t $ROOT/usr/local; mkdir $ROOT/usr/local/bin",
        f"printf '%s\\n' {shlex.join(lines)} > $ROOT/usr/local/bin/{name}; chmod +x $ROOT/usr/local/bin/{name}",
    ]


class Results(NamedTuple):
    """What calls have printed, and the "value" or "error" of each."""

    output: str
    each: list[dict[str, Any]]

    def get(self) -> Any:
        """Return the value of the last call. Raises: HostError, with the output as a note."""
        if "error" not in self.each[-1]:
            return self.each[-1]["value"]
        error = agent.HostError(self.each[-1]["error"])
        error.add_note(self.output)
        raise error


class Calls(NamedTuple):
    """Calls that were started, in a process."""

    process: int
    output: int
    results: int

    def wait(self) -> Results:
        with os.fdopen(self.output) as output, os.fdopen(self.results) as results:
            found = Results(output.read(), json.loads(results.read()))
        os.waitpid(self.process, 0)
        return found

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.output)
        os.close(self.results)


class Host:
    """The root folder keeps what was done from call to call.

    Args:
        root: a new folder.
        mounts: commands that run before the agent is called, with the root folder as `$ROOT`.
        by_namespaces: whether the agent enters the namespaces of a process, as in a pod, and not the root folder.
    """

    def __init__(self, root: Path, mounts: Sequence[str] = (), *, by_namespaces: bool = False) -> None:
        self.root, self.state, self._mounts = root, root / "var/lib/rukpak/hosts", mounts
        self._by_namespaces = by_namespaces
        for name in ("etc", "tmp", "root", "var/lib"):
            (root / name).mkdir(parents=True)
        (root / "etc/os-release").write_text(OS_RELEASE)

    def start(self, *calls: Call, kill: tuple[int, int] = NEVER) -> Calls:
        """Start calls, one after the other. With `kill`: which is killed, before which of its changes."""
        (output, printing), (results, writing) = os.pipe(), os.pipe()
        process = os.fork()
        if not process:
            self._call(calls, kill, printing, writing)
        os.close(printing)
        os.close(writing)
        return Calls(process, output, results)

    def call_all(self, *calls: Call, kill: tuple[int, int] = NEVER) -> list[dict[str, Any]]:
        """Return the "value" or "error" of each call."""
        return self.start(*calls, kill=kill).wait().each

    def call(self, *calls: Call) -> Any:
        """Return what the last of some calls returns. Raises: HostError."""
        return self.start(*calls).wait().get()

    def install(self, content: Path, plan: Mapping[str, Any] | None = None) -> None:
        self.call(["install", plan or make_plan(content), content])

    def read(self, path: str) -> str:
        """Return the text of a file of the host; nothing if it is missing."""
        return (self.root / path).read_text() if (self.root / path).exists() else ""

    def journal(self, name: str = "k3s") -> Any:
        return json.loads((self.state / name / "journal.json").read_text())

    def _call(self, calls: Sequence[Call], kill: tuple[int, int], printing: int, writing: int) -> None:
        """Do the calls in this process, which ends."""
        try:
            os.dup2(printing, 1)
            os.close(printing)
            rukpak_hosts.enter_namespaces(as_user=True)
            rukpak_hosts.mount_programs(self.root)
            env = {**os.environ, "ROOT": str(self.root)}
            subprocess.run(["sh", "-ec", "\n".join(self._mounts)], check=True, env=env)
            root = None if self._by_namespaces else self.root
            if self._by_namespaces:
                _start_process_of_host(env)
            results = _call_each(calls, root, kill)
            os.close(1)
            with os.fdopen(writing, "w") as file:
                file.write(json.dumps(results))
        except BaseException:  # noqa: BLE001 - this process ends here, whatever happens
            traceback.print_exc()
        finally:
            os._exit(0)


def _call_each(calls: Sequence[Call], root: Path | None, kill: tuple[int, int]) -> list[dict[str, Any]]:
    counter = _Counter()
    results = []
    for index, (name, *arguments) in enumerate(calls):
        counter.left = kill[1] if index == kill[0] else 0
        try:
            results.append({"value": getattr(agent, name)(*arguments, root=root)})
        except agent.HostError as error:
            results.append({"error": str(error)})
    return results


class _Counter:
    """Kills the process of a call before the change after which none is `left`."""

    def __init__(self) -> None:
        self.left, self._caller = 0, os.getpid()
        sys.addaudithook(self._count)

    def _count(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.left and os.getpid() != self._caller and _is_change(event, arguments):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


def _is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        return isinstance(arguments[0], str) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
    return event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.symlink", "subprocess.Popen")


def _start_process_of_host(env: Mapping[str, str]) -> None:
    """Start what is taken for process 1 of the host, and ends with this process."""
    script = """
    mount --rbind "$ROOT" "$ROOT"
    cd "$ROOT"
    mkdir -p old
    pivot_root . old
    umount -l old
    hostname the-host
    echo started
    exec cat
    """
    process = subprocess.Popen(
        ["unshare", "--mount", "--uts", "--ipc", "--net", "sh", "-ec", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    assert process.stdout
    assert process.stdout.readline() == b"started\n"
    agent._HOST_PROCESS = process.pid


needs_user_namespaces = pytest.mark.skipif(
    subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], check=False).returncode != 0,
    reason="needs user namespaces: without them scripts would change this machine",
)
