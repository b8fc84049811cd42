"""A host for tests: a root folder with the programs of this machine, in user and mount namespaces of its own.

As a program, it enters them, and calls the agent as its standard input says.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rukpak_hosts_agent as agent

OS_RELEASE = 'PRETTY_NAME="A host"\nID=debian\nVERSION_ID="12"\n'
ARCHITECTURE = agent.ARCHITECTURES[os.uname().machine]
SCRIPTS = "Scripts"


def write_content(folder: Path, **scripts: str) -> Path:
    """Write a bundle: install="…" becomes install.sh. None of them is executable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host-bundle.yaml").write_text("kind: HostBundle\n")
    for name, text in scripts.items():
        (folder / f"{name}.sh").write_text(f"#!/bin/sh -e\n{text}\n")
    return folder


def make_plan(content: Path, **changes: Any) -> dict[str, Any]:
    """Return a plan for content; names of `install` can be changed as well as others."""
    plan: dict[str, Any] = {
        "install": {
            "owner": "k3s/k3s",
            "name": "k3s",
            "version": "v1",
            "type": SCRIPTS,
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


class Host:
    """The root folder keeps what was done from call to call.

    Args:
        root: an empty folder.
        mounts: commands that run before the agent is called, with the root folder as `$ROOT`.
        by_namespaces: whether the agent enters the namespaces of a process, as in a pod, and not the root folder.
    """

    def __init__(self, root: Path, mounts: Sequence[str] = (), *, by_namespaces: bool = False) -> None:
        self.root, self.state, self._mounts = root, root / "var/lib/rukpak/hosts", mounts
        self._by_namespaces = by_namespaces
        for name in ("etc", "tmp", "root", "var/lib"):
            (root / name).mkdir(parents=True)
        (root / "etc/os-release").write_text(OS_RELEASE)

    def start(self, *calls: Sequence[Any], kill: tuple[int, int] = (0, 0)) -> subprocess.Popen[str]:
        """Start calls of functions of the agent, one after the other: their names and arguments but the root.

        Args:
            calls: the names of functions, with all arguments but the root.
            kill: which of them is killed, before which of its changes; 0 for none.
        """
        command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, __file__]
        work = {
            "root": str(self.root),
            "mounts": self._mounts,
            "namespaces": self._by_namespaces,
            "calls": calls,
            "kill": kill,
        }
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin
        process.stdin.write(json.dumps(work, default=str))
        process.stdin.close()
        process.stdin = None
        return process

    def call_all(self, *calls: Sequence[Any], kill: tuple[int, int] = (0, 0)) -> list[dict[str, Any]]:
        """Return the "value" or "error" of each call."""
        return read_results(self.start(*calls, kill=kill))[1]

    def call(self, *calls: Sequence[Any]) -> Any:
        """Return what the last of some calls returns. Raises: HostError."""
        return read_result(self.start(*calls))

    def install(self, content: Path, plan: Mapping[str, Any] | None = None) -> None:
        self.call(["install", plan or make_plan(content), content])

    def read(self, path: str) -> str:
        """Return the text of a file of the host; nothing if it is missing."""
        return (self.root / path).read_text() if (self.root / path).exists() else ""

    def journal(self, name: str = "k3s") -> Any:
        return json.loads((self.state / name / "journal.json").read_text())


def read_results(process: subprocess.Popen[str]) -> tuple[str, list[dict[str, Any]]]:
    """Return the output and the results of calls that were started."""
    output, _ = process.communicate(timeout=60)
    printed, _, last = output.rpartition("\n\0")
    return printed, json.loads(last)


def read_result(process: subprocess.Popen[str]) -> Any:
    """Return the result of the last call. Raises: HostError, with the output as a note."""
    printed, (*_, result) = read_results(process)
    if "error" in result:
        error = agent.HostError(result["error"])
        error.add_note(printed)
        raise error
    return result["value"]


# inside


def replace_program(name: str, script: str) -> list[str]:
    """Return mounts with a program of the host that is another."""
    lines = ["#!/bin/sh -e", script]
    return [
        "mount -t tmpfs t $ROOT/usr/local; mkdir $ROOT/usr/local/bin",
        f"printf '%s\\n' {shlex.join(lines)} > $ROOT/usr/local/bin/{name}; chmod +x $ROOT/usr/local/bin/{name}",
    ]


def _mount(root: str, commands: Sequence[str]) -> None:
    lines = []
    for name in ("usr", "bin", "sbin", "lib", "lib64"):
        outside, inside = Path("/", name), Path(root, name)
        if outside.is_symlink() and not inside.is_symlink():
            inside.symlink_to(outside.readlink())
        elif outside.is_dir() and not outside.is_symlink():
            lines.append(f"mkdir -p {inside}; mount --rbind {outside} {inside}; mount -o remount,bind,ro {inside}")
    lines += [f"mkdir -p {root}/{name}; mount --rbind /{name} {root}/{name}" for name in ("dev", "proc")]
    script = "\n".join([*lines, *commands])
    subprocess.run(["sh", "-ec", script], check=True, env={**os.environ, "ROOT": root})


def _main() -> None:
    work = json.load(sys.stdin)
    _mount(work["root"], work["mounts"])
    root: Path | None = Path(work["root"])
    if work["namespaces"]:
        _start_host(work["root"])
        root = None
    killed, kill_at = work["kill"]
    counter = _Counter()
    results = []
    for index, (name, plan, *arguments) in enumerate(work["calls"]):
        counter.left = kill_at if index == killed else 0
        try:
            value = getattr(agent, name)(plan, *map(Path, arguments), root=root)
            results.append({"value": value})
        except agent.HostError as error:
            results.append({"error": str(error)})
    sys.stdout.write(f"\n\0{json.dumps(results)}")


def _start_host(root: str) -> None:
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
        env={**os.environ, "ROOT": root},
    )
    assert process.stdout
    assert process.stdout.readline() == b"started\n"
    agent._HOST_PROCESS = process.pid


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


if __name__ == "__main__":
    _main()
