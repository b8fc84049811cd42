"""Limits of a program that is started, and what it may reach."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials, Means
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.programs import run_program
from rukpak.controller.processes import kernel
from rukpak.controller.processes.programs import NICENESS, Mechanisms, ProcessGroup, View, confined, read_pipes
from rukpak.controller.sources.git.connection import Connection, connect, parse_repository
from rukpak.controller.sources.git.process import GitRunner
from tests.support.processes import wait_for_end

SHOWN = "import resource as r; print([r.getrlimit(x) for x in (r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_CPU)])"


def said(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_limits_are_those_of_the_program_and_cannot_be_raised_again() -> None:
    command = confined(["python3", "-S", "-c", SHOWN], fsize=1000, nofile=99, cpu=7)
    assert said(command) == "[(1000, 1000), (99, 99), (7, 7)]"


def test_what_it_starts_has_them_too() -> None:
    assert said(confined(["sh", "-c", "prlimit --output=HARD --noheadings --nofile"], nofile=99)) == "99"


def test_more_than_we_may_have_ourselves_is_not_asked_for() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert f"--nofile={hard}" in confined(["true"], nofile=hard + 1)


def test_arguments_are_not_options_of_ours() -> None:
    assert said(confined(["echo", "--version", "-p"], core=0)) == "--version -p"


@pytest.mark.parametrize(("program", "status"), [("/nonexistent", 127), ("/etc/passwd", 126)])
def test_a_program_that_cannot_be_started_is_told_by_the_status(program: str, status: int) -> None:
    assert subprocess.run(confined([program], core=0), check=False, capture_output=True).returncode == status


def test_without_prlimit_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RuntimeError, match="install util-linux"):
        confined(["true"], core=0)


@contextmanager
def again_and_again(*calls: Callable[[], object]) -> Iterator[None]:
    """Make each call on a thread of its own, over and over until the end of the block."""
    ended = threading.Event()

    def go_on(call: Callable[[], object]) -> None:
        while not ended.is_set():
            call()

    threads = [threading.Thread(target=go_on, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_what_is_written_to_be_started_can_be_while_other_programs_are(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    access = Access(path="s", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=tmp_path)
    repository = parse_repository("ssh://git@127.0.0.1/x")
    known = Credentials(ssh_private_key="key", known_hosts="hosts")
    ours = Access(path="s", deadline=access.deadline, cancelled=access.cancelled, scratch=tmp_path, credentials=known)

    def helm() -> object:
        return run_program(["/bin/true"], Means(scratch=tmp_path), subject="c")

    def git() -> object:
        return GitRunner(access, tmp_path).run("version")

    with again_and_again(helm, helm, git, git):
        for _ in range(30 if pytestconfig.getoption("--all") else 10):
            program = connect(repository, {}, ours).program or ""
            subprocess.run([program, "-V"], check=True, capture_output=True)


# what a program that is started may reach: one that is hostile from its first instruction stands for Helm and git

CONFINED = pytest.mark.skipif(bool(Mechanisms.found().lack()), reason="the kernel lacks Landlock or seccomp")
PYTHON = str(Path(sys.executable).resolve())
ATTACKS = {
    "a file of the system": "open('/etc/shadow').read()",
    "the environment of the controller": "open('/proc/{pid}/environ').read()",
    "the list of processes": "os.listdir('/proc')",
    "a kubeconfig": "open('{secret}').read()",
    "a kubeconfig, from where it is": "os.chdir('{outside}'); open('secret').read()",
    "a link to it": "os.symlink('{secret}', 'link'); open('link').read()",
    "the folder of another call": "os.listdir('{outside}')",
    "a file beside its folder": "open('../secret').read()",
    "a new file outside": "open('{outside}/new', 'w')",
    "a file to be emptied": "os.truncate('{secret}', 0)",
    "a file to be emptied by opening it": "os.open('{secret}', os.O_RDONLY | os.O_TRUNC)",
    "a file to be removed": "os.remove('{secret}')",
    "a file to be moved to where it can be read": "os.rename('{secret}', 'mine')",
    "a file to be linked to where it can be read": "os.link('{secret}', 'mine')",
    "a program that is no program of the system": "os.execv('{outside}/program', ['x'])",
    "TCP": "socket.create_connection(('127.0.0.1', {port}), 5)",
    "UDP": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
    "a Unix socket": "socket.socket(socket.AF_UNIX).connect('{outside}/socket')",
    "an abstract Unix socket": "socket.socket(socket.AF_UNIX).connect('\\0' + '{port}')",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "multipath TCP": "socket.socket(proto=262).connect(('127.0.0.1', {port}))",
    "io_uring": "call(425, 8, ctypes.create_string_buffer(120))",
    "the memory of the controller": "call(101 if x86 else 117, 0x4206, {pid}, 0, 0)",
    "a signal to the controller": "os.kill({pid}, 0)",
    "a server": "socket.create_server(('127.0.0.1', 0))",
}
BEGINNING = """
import ctypes, os, platform, socket
x86 = platform.machine() == "x86_64"
def call(*arguments):
    if ctypes.CDLL(None).syscall(*arguments) < 0:
        raise OSError(*arguments)
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> Iterator[dict[str, object]]:
    """What there is beside the folder of a call: a secret, a program, and listeners on every kind of socket."""
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "program").write_bytes(Path(shutil.which("true") or "").read_bytes())
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "call").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        port = tcp.getsockname()[1]
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(type=socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", port))
            abstract.bind(f"\0{port}")
            with contextlib.chdir(tmp_path):  # the path of a socket has 107 bytes
                unix.bind("socket")
            for each in (unix, abstract):
                each.listen()
            yield {"outside": tmp_path, "secret": tmp_path / "secret", "port": port, "pid": os.getpid()}


def script_of(attack: str, surroundings: dict[str, object]) -> str:
    return BEGINNING + ATTACKS[attack].format(**surroundings)


TRYING = """
reached = []
for name, attack in {attacks}:
    os.chdir({folder!r})
    try:
        exec(attack)
    except OSError:
        continue
    reached.append(name)
print(reached)
"""
FORKING = """
for name, attack in {attacks}:
    with open("../secret", "w") as secret:
        secret.write("canary")
    for made in os.listdir():
        os.unlink(made)
    child = os.fork()
    if not child:
        exec(attack)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def script_of_all(way: str, folder: Path, attacks: Iterable[str], surroundings: dict[str, object]) -> str:
    """Return a program that tries all attacks, one after the other."""
    chosen = [(name, ATTACKS[name].format(**surroundings)) for name in attacks]
    return BEGINNING + way.format(attacks=repr(chosen), folder=str(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="some of them are kept from others than root anyway")
def test_who_is_not_confined_reaches_everything(surroundings: dict[str, object]) -> None:
    folder = Path(str(surroundings["outside"])) / "call"
    script = script_of_all(FORKING, folder, ATTACKS, surroundings)
    subprocess.run([PYTHON, "-I", "-S", "-c", script], check=True, cwd=folder)


@CONFINED
def test_a_hostile_helm_reaches_nothing(surroundings: dict[str, object]) -> None:
    scratch = Path(str(surroundings["outside"])) / "call"
    script = script_of_all(TRYING, scratch, ATTACKS, surroundings)
    result = run_program([PYTHON, "-I", "-S", "-c", script], Means(scratch=scratch), subject="c")
    assert (result.status, result.output) == (0, b"[]\n"), result.stderr
    assert Path(str(surroundings["secret"])).read_text() == "canary"


@CONFINED
@pytest.mark.parametrize("port", [0, 1], ids=["files", "sockets"])
def test_a_hostile_git_reaches_nothing(port: int, surroundings: dict[str, object]) -> None:
    """What uses sockets is tried with a repository at a port of a server, which git reaches; the rest without one."""
    scratch = Path(str(surroundings["outside"])) / "call"
    (scratch / "repository").mkdir()
    chosen = [name for name, attack in ATTACKS.items() if ("socket." in attack) is bool(port)]
    (scratch / "attack.py").write_text(script_of_all(TRYING, scratch, chosen, surroundings))
    access = Access(path="s", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=scratch)
    alias = {"alias.attack": f"!{PYTHON} -I -S {scratch}/attack.py"}
    # An alias is a command line to git; what is beside Python is in its view, as if it had brought that along.
    runner = GitRunner(access, scratch / "repository", Connection(config=alias, port=port, program=Path(PYTHON)))
    assert runner.run("attack") == b"[]\n"
    assert Path(str(surroundings["secret"])).read_text() == "canary"


@pytest.mark.skipif(Mechanisms.found().landlock < 4, reason="Landlock does not know TCP before ABI 4")
def test_git_reaches_the_port_of_its_repository(surroundings: dict[str, object]) -> None:
    scratch = Path(str(surroundings["outside"])) / "call"
    access = Access(path="s", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=scratch)
    alias = {"alias.attack": f"!{PYTHON} -I -S -c {shlex.quote(script_of('TCP', surroundings))}"}
    port = int(str(surroundings["port"]))
    assert GitRunner(access, scratch, Connection(config=alias, port=port, program=Path(PYTHON))).run("attack") == b""


@pytest.mark.parametrize("abi", range(1, 8))
def test_rulesets_are_made_of_what_a_kernel_knows(abi: int, tmp_path: Path) -> None:
    if abi > Mechanisms.found().landlock:
        pytest.skip("the kernel is older")
    with kernel.ruleset(View(change=(tmp_path,), port=443).rights(), (443,), abi=abi) as descriptor:
        assert descriptor > 0


@pytest.mark.parametrize(
    ("landlock", "seccomp", "said"), [(0, True, "has no Landlock"), (7, False, "has no seccomp filters")]
)
def test_what_cannot_be_confined_is_not_started(
    landlock: int, seccomp: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Mechanisms(landlock=landlock, seccomp=seccomp, network_namespace=False)
    monkeypatch.setattr(Mechanisms, "found", lambda: found)
    with pytest.raises(BundleError, match=said) as caught:
        run_program(["/bin/true"], Means(scratch=tmp_path, confinement_required=True), subject="c")
    assert caught.value.reason is Reason.NOT_SUPPORTED
    assert "--confinement=best-effort" in caught.value.message


def test_what_cannot_be_confined_is_started_if_the_administrator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mechanisms, "found", lambda: Mechanisms(landlock=0, seccomp=False, network_namespace=False))
    means = Means(scratch=tmp_path, confinement_required=False)
    assert run_program(["/bin/cat", "/etc/hostname"], means, subject="c").status == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/ssl/certs/ca-certificates.crt", "/usr/share/zoneinfo/UTC"])
def test_public_files_are_seen(path: str, tmp_path: Path) -> None:
    if not Path(path).exists():
        pytest.skip("this system has it elsewhere, or not at all")
    assert run_program(["/bin/cat", path], Means(scratch=tmp_path), subject="c").output == Path(path).read_bytes()


def test_the_controller_is_not_confined_by_starting_a_program(tmp_path: Path) -> None:
    (tmp_path / "call").mkdir()
    run_program(["/bin/true"], Means(scratch=tmp_path / "call"), subject="c")
    (tmp_path / "new").write_text("x")
    with socket.socket(type=socket.SOCK_DGRAM):
        assert (tmp_path / "new").read_text() == "x"


KILLED = -9


def start(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)


def nothing() -> None:
    pass


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -15 $$", -15)])
@pytest.mark.parametrize("check", [None, nothing], ids=["waiting", "checking"])
def test_how_the_program_ended_is_returned(script: str, status: int, check: None) -> None:
    with ProcessGroup(start(script)) as group:
        assert group.wait(check) == status


@pytest.mark.parametrize("check", [None, nothing], ids=["waiting", "checking"])
def test_what_the_program_leaves_is_killed_when_it_has_ended(check: None) -> None:
    with ProcessGroup(start("sleep 1061 >&- & exit 0")) as group:
        assert group.wait(check) == 0
    wait_for_end("sleep\x001061")


def test_the_whole_group_is_killed_when_the_block_fails() -> None:
    process = start("trap '' TERM; sleep 1062 & wait")
    with pytest.raises(ZeroDivisionError), ProcessGroup(process):
        raise ZeroDivisionError
    assert process.returncode == KILLED
    wait_for_end("sleep\x001062")


def test_a_check_that_raises_ends_the_wait() -> None:
    def check() -> None:
        raise TimeoutError

    process = start("sleep 1063")
    with pytest.raises(TimeoutError), ProcessGroup(process) as group:
        group.wait(check)
    assert process.returncode == KILLED


def test_nothing_is_killed_once_the_program_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProcessGroup(start("exit 0")) as group:
        group.wait()
        monkeypatch.setattr("os.killpg", lambda *_: pytest.fail("its number may be that of another process"))
        group.kill()


def test_pipes_are_closed_at_the_end() -> None:
    process = start("exit 0")
    with ProcessGroup(process):
        pass
    assert cast("BinaryIO", process.stdout).closed


def test_all_that_comes_is_handed_on() -> None:
    taken = bytearray()
    process = start("echo one; sleep 0.1; echo two")
    with ProcessGroup(process):
        read_pipes({cast("BinaryIO", process.stdout): taken.extend}, nothing)
    assert taken == b"one\ntwo\n"


def test_a_pipe_that_somebody_holds_open_is_not_waited_for_once_all_has_ended() -> None:
    taken, ended = bytearray(), threading.Event()
    ended.set()
    process = start("echo one; sleep 1064")
    with ProcessGroup(process):
        while not taken:
            read_pipes({cast("BinaryIO", process.stdout): taken.extend}, nothing, ended)
    assert taken == b"one\n"


class EndsWhenAsked(threading.Event):
    """Set when it is asked for, after the last words of a program: a busy machine lets the reader go on then."""

    def __init__(self, pipe: int) -> None:
        super().__init__()
        self._pipe = pipe

    def is_set(self) -> bool:
        if not super().is_set():
            os.write(self._pipe, b"last words")
            self.set()
        return True


def test_what_a_program_writes_just_before_its_end_is_handed_on() -> None:
    taken = bytearray()
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as pipe, open(writing, "wb"):
        read_pipes({cast("BinaryIO", pipe): taken.extend}, nothing, EndsWhenAsked(writing))
    assert taken == b"last words"


def test_a_check_is_called_while_nothing_comes() -> None:
    def check() -> None:
        raise TimeoutError

    process = start("sleep 1065")
    with pytest.raises(TimeoutError), ProcessGroup(process):
        read_pipes({cast("BinaryIO", process.stdout): lambda _: None}, check)


def test_what_a_program_computes_waits_for_what_the_controller_computes() -> None:
    process = start("sleep 60 & sleep 60")
    with ProcessGroup(process):
        assert os.getpriority(os.PRIO_PGRP, process.pid) == NICENESS
