"""The guarded child: what git sees, what it may use, and that nothing of it is left.

What git, curl and ssh complain of: real words of theirs, and the reason for each.

Which repositories come too slowly."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import KIBIBYTE, Access, Limits, Network
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.playground.processes import wait_for
from rukpak.controller.sources.git import process as git_process
from rukpak.controller.sources.git.connection import Connection
from rukpak.controller.sources.git.process import (
    GitFailed,
    GitPace,
    GitRunner,
    NotServedError,
    check_served,
    processor_seconds,
    translate,
)
from rukpak.controller.sources.hosts import Place
from tests.support.clock import Clock

# Git runs a command line for an alias that begins with "!": any program stands for git and its children here.
SHELL = {"alias.program": '!f() { eval "$1"; }; f'}


@pytest.fixture
def access(tmp_path: Path) -> Access:
    (tmp_path / "repository").mkdir()
    return Access(path="spec.git", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=tmp_path)


def shell(access: Access, command: str, lines: tuple[str, ...] = ()) -> str:
    runner = GitRunner(access, access.scratch / "repository", Connection(config=SHELL))
    return runner.run("program", command, lines=lines).decode()


def stays(pid: int) -> bool:
    """Return whether a process goes on; what was killed is gone as soon as the kernel gets to it."""
    until = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < until:
        pass
    return is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_of_our_environment_is_seen(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_SSH", "GIT_CONFIG_PARAMETERS", "https_proxy", "LD_LIBRARY_PATH", "RUKPAK_SECRET"):
        monkeypatch.setenv(name, "canary")
    seen = shell(access, "env")
    assert "canary" not in seen
    names = {line.partition("=")[0] for line in seen.splitlines() if "=" in line}
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    ours = {"PATH", *git_process._ENVIRONMENT, *of_the_shell}
    assert {name for name in names if not name.startswith("GIT_")} <= ours


def test_settings_are_not_in_argv(access: Access) -> None:
    runner = GitRunner(
        access, access.scratch / "repository", Connection(config={**SHELL, "http.extraHeader": "canary"})
    )
    looked = access.scratch / "looked"
    os.mkfifo(looked)
    with runner.start("program", f"echo $PPID; cat {looked}") as child:
        assert b"canary" not in Path(f"/proc/{int(child.read_line())}/cmdline").read_bytes()
        looked.write_bytes(b"")
    assert runner.run("config", "http.extraHeader") == b"canary\n"


def test_input_and_output(access: Access) -> None:
    assert shell(access, "cat", ("one", "two")) == "one\ntwo\n"


def test_a_failure_carries_what_git_complains_of(access: Access) -> None:
    with pytest.raises(GitFailed) as caught:
        shell(access, "echo why >&2; exit 3")
    assert "why" in caught.value.complaint
    assert "why" not in str(caught.value)


def test_a_flood_of_complaints_is_cut(access: Access) -> None:
    with pytest.raises(GitFailed) as caught:
        shell(access, "yes | head -c 3000000 >&2; echo last >&2; exit 3")
    assert len(caught.value.complaint) <= git_process._COMPLAINT_BYTES
    assert caught.value.complaint.endswith("last\n")


def test_a_flood_of_output_is_refused(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "OUTPUT_BYTES", 100_000)
    with pytest.raises(BundleError) as caught:
        shell(access, "yes")
    assert caught.value.reason is Reason.CONTENT_REJECTED


@pytest.mark.parametrize("how", ["deadline", "cancelled"])
def test_the_whole_group_is_killed(how: str, access: Access) -> None:
    note = access.scratch / "pid"
    seconds = 0.5
    while not (note.exists() and note.read_text()):  # on a busy machine a group takes its time to begin
        access = replace(access, deadline=time.monotonic() + (seconds if how == "deadline" else 250))
        access.cancelled.clear()
        if how == "cancelled":
            threading.Timer(seconds, access.cancelled.set).start()
        with pytest.raises(BundleError) as caught:
            shell(access, f"sh -c 'echo $$ > {note}; exec sleep 60' & wait")
        assert caught.value.reason is Reason.UNREACHABLE
        seconds *= 2
    assert not stays(int(note.read_text()))


def test_a_server_that_keeps_git_waiting_is_given_up(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "RATE_SECONDS", 0.3)
    network = Network(idle_seconds=0.3)
    connection = Connection(protocol="ssh", config=SHELL)
    runner = GitRunner(replace(access, network=network), access.scratch / "repository", connection)
    started = time.monotonic()
    with pytest.raises(BundleError, match="it sends less than 16 KiB/s") as caught:
        runner.run("program", "exec sleep 60")
    assert caught.value.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 50


def test_what_git_works_on_alone_takes_its_time(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_process, "RATE_SECONDS", 0.1)
    assert shell(replace(access, network=Network(idle_seconds=0.1)), "sleep 0.5; echo done") == "done\n"


def test_what_git_leaves_behind_is_killed(access: Access) -> None:
    pid = int(shell(access, "sleep 60 > /dev/null 2>&1 & echo $!"))
    assert not stays(pid)


def test_a_child_that_keeps_the_pipes_open_is_killed(access: Access) -> None:
    access = replace(access, deadline=time.monotonic() + 1)
    with pytest.raises(BundleError):  # its output never ends
        shell(access, "sleep 60 & echo $!")


@pytest.mark.parametrize("where", ["one", "two"])
def test_the_folder_has_a_budget(where: str, access: Access) -> None:
    access = replace(access, limits=Limits(compressed_bytes=1_000_000))
    folder = access.scratch / "repository"
    command = {
        "one": f"head -c 5000000 /dev/zero > {folder}/one",  # stopped by the kernel
        "two": f"for n in 1 2; do head -c 600000 /dev/zero > {folder}/$n; done; sleep 60",
    }
    with pytest.raises(BundleError) as caught:
        shell(access, command[where])
    assert caught.value.reason is Reason.CONTENT_REJECTED
    assert "the repository exceeds the limit of 976.6 KiB" in caught.value.message
    assert git_process.folder_bytes(folder) <= 1_200_000


def test_memory_has_a_budget(access: Access) -> None:
    access = replace(access, limits=replace(access.limits, program_bytes=50_000_000))
    (access.scratch / "repository" / "big").write_bytes(bytes(80_000_000))
    with pytest.raises(GitFailed) as caught:
        shell(
            access,
            f"git -c core.bigFileThreshold=1g hash-object --no-filters -t blob -w {access.scratch}/repository/big",
        )
    assert "emory" in caught.value.complaint


def test_a_watcher_that_fails_does_not_let_git_go_on(access: Access) -> None:
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shell(replace(access, progress=fail), "sleep 60")


def test_progress_is_what_is_on_disk(access: Access) -> None:
    told: list[tuple[int, int]] = []
    access = replace(access, progress=lambda done, total: told.append((done, total)))
    shell(access, f"head -c 5000 /dev/zero > {access.scratch}/repository/x; sleep 0.3")
    assert told[-1] == (5000, 0)


def test_no_transport_but_the_one_that_is_named(access: Access) -> None:
    for url in ("ext::sh -c true", f"file://{access.scratch}", "git://127.0.0.1/x", "http://127.0.0.1:1/x"):
        with pytest.raises(GitFailed) as caught:
            GitRunner(access, access.scratch / "repository", Connection(protocol="https")).run("ls-remote", "--", url)
        assert "not allowed" in caught.value.complaint


def test_without_git_it_is_no_error_of_the_user(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("env", "prlimit"):
        os.symlink(shutil.which(name) or name, access.scratch / name)
    monkeypatch.setenv("PATH", str(access.scratch))
    with pytest.raises(RuntimeError, match="install git"):
        GitRunner(access, access.scratch / "repository").run("version")


PLACE = Place(subject="spec.sources[0].git.repository", host="example.org:8443")
HOST = "https://example.org:8443/x/"
NOT_TRUSTED = "SSL certificate verification failed: The certificate is NOT trusted."

COMPLAINTS = [
    (f"fatal: unable to access '{HOST}': Could not resolve host: example.org", "its name cannot be resolved"),
    (
        f"fatal: unable to access '{HOST}': Failed to connect to x port 1 after 0 ms: Connection refused",
        "refuses the connection",
    ),
    (f"fatal: unable to access '{HOST}': Couldn't connect to server", "refuses the connection"),
    (f"fatal: unable to access '{HOST}': Operation timed out after 1 ms", "it timed out"),
    (f"fatal: unable to access '{HOST}': Operation too slow. Less than 1000 bytes/sec", "it timed out"),
    ("ssh: connect to host h port 22: Connection timed out", "it timed out"),
    ("Timeout, server h not responding.", "it timed out"),
    (f"fatal: unable to access '{HOST}': The requested URL returned error: 429", "limits the rate of requests"),
    (f"fatal: unable to access '{HOST}': The requested URL returned error: 502", "returned a server error"),
    ("error: RPC failed; curl 18 transfer closed with outstanding read data remaining", "was closed"),
    ("fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF", "was closed"),
    ("fatal: something that nobody knows yet", "was closed"),
    ("server certificate verification failed. CAfile: none CRLfile: none", Reason.TLS_VERIFICATION_FAILED),
    ("SSL certificate problem: self-signed certificate", Reason.TLS_VERIFICATION_FAILED),
    ("SSL certificate problem: certificate has expired", "has a certificate that has expired by the clock of this"),
    ("SSL certificate problem: certificate is not yet valid", "has a certificate that is not valid yet by the clock"),
    (
        f"{NOT_TRUSTED} The certificate chain uses expired certificate.  (CAfile: /x CRLfile: none)",
        "has a certificate that has expired by the clock",
    ),
    (
        f"{NOT_TRUSTED} The certificate chain uses not yet valid certificate.  (CAfile: /x CRLfile: none)",
        "has a certificate that is not valid yet by the clock",
    ),
    ("server certificate expiration date has passed.", "has a certificate that has expired by the clock"),
    ("server certificate not activated yet.", "has a certificate that is not valid yet by the clock"),
    ("SSL: no alternative certificate subject name matches target host name 'h'", Reason.TLS_VERIFICATION_FAILED),
    ("gnutls_handshake() failed: An unexpected TLS packet was received.", "the TLS handshake failed"),
    (f"fatal: could not read Username for '{HOST}': terminal prompts disabled", Reason.UNAUTHORIZED),
    (f"fatal: Authentication failed for '{HOST}'", Reason.UNAUTHORIZED),
    ("The requested URL returned error: 403", Reason.UNAUTHORIZED),
    ("git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.", Reason.UNAUTHORIZED),
    (f"fatal: repository '{HOST}' not found", Reason.NOT_FOUND),
    ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", Reason.NOT_FOUND),
    ("fatal: '/x' does not appear to be a git repository", Reason.NOT_FOUND),
    (f"fatal: {HOST}info/refs not valid: is this a git repository?", Reason.NOT_FOUND),
    ("The requested URL returned error: 301", Reason.INSECURE_REFUSED),
    ('Protocol "http" not supported or disabled in libcurl', Reason.INSECURE_REFUSED),
    (
        "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.",
        Reason.HOST_KEY_MISMATCH,
    ),
    ("No ED25519 host key is known for h and you have requested strict checking.", Reason.HOST_KEY_UNKNOWN),
    ('Load key "/x": error in libcrypto', Reason.SECRET_INVALID),
    ("fatal: dumb http transport does not support shallow capabilities", Reason.UNSUPPORTED_CONTENT),
    ("fatal: write error: No space left on device", Reason.STORAGE_FULL),
    ("fatal: Out of memory, malloc failed (tried to allocate 1 bytes)", Reason.CONTENT_REJECTED),
    ("error: object 1: hasDotgit: contains '.git'\nfatal: fsck error in packed object", Reason.CONTENT_REJECTED),
    ("fatal: pack is corrupted (SHA1 mismatch)", Reason.DIGEST_MISMATCH),
    ("fatal: inflate: data stream error (incorrect data check)", Reason.DIGEST_MISMATCH),
]


@pytest.mark.parametrize(("complaint", "expected"), COMPLAINTS, ids=[row[0][-70:] for row in COMPLAINTS])
def test_complaints(complaint: str, expected: Reason | str) -> None:
    error = translate(complaint, PLACE)
    subject = "spec.sources[0].git.repository: "
    if isinstance(expected, Reason):
        assert error.reason is expected
        assert error.message.startswith(f'{subject}"example.org:8443" ')
    elif expected.startswith("has a certificate that"):
        assert error.reason is Reason.TLS_VERIFICATION_FAILED
        assert error.message.startswith(f'{subject}"example.org:8443" {expected}')
    else:
        assert error.reason is Reason.UNREACHABLE
        assert error.message.startswith(f'{subject}cannot read from "example.org:8443": ')
        assert expected in error.message


WHERE = "certificateData, or ca.crt in the Secret of auth"
SET, CHECK = f"set {WHERE}, to the certificate of the authority that has signed it", f"check {WHERE}"
DATES = "; check the dates of the certificate and the clock, too"


@pytest.mark.parametrize(
    ("complaint", "has_authority", "remedy"),
    [
        ("SSL certificate problem: unable to get local issuer certificate", False, SET),
        ("SSL certificate problem: unable to get local issuer certificate", True, CHECK),
        (f"{NOT_TRUSTED} The certificate issuer is unknown.", False, SET),
        ("server certificate verification failed. CAfile: none CRLfile: none", False, f"{SET}{DATES}"),
        ("server certificate verification failed. CAfile: none CRLfile: none", True, f"{CHECK}{DATES}"),
        (
            "SSL: no alternative certificate subject name matches target 'h'",
            False,
            "use a name that the certificate has",
        ),
        ("SSL: certificate subject name 'a' does not match target 'h'", True, "use a name that the certificate has"),
    ],
)
def test_the_remedy_for_a_certificate_is_what_can_be_done(complaint: str, has_authority: bool, remedy: str) -> None:
    assert translate(complaint, PLACE, has_authority=has_authority).message.endswith(f"; {remedy}")


@pytest.mark.parametrize(
    ("complaint", "is_absent"),
    [
        ("fatal: remote error: upload-pack: not our ref 1234", True),
        ("error: Server does not allow request for unadvertised object 1234", False),
        ("fatal: remote error: want 1234 not valid", False),
    ],
)
def test_an_object_that_is_not_served(complaint: str, is_absent: bool) -> None:
    with pytest.raises(NotServedError) as caught:
        check_served(complaint)
    assert caught.value.is_absent is is_absent


def test_other_complaints_say_nothing_about_the_object() -> None:
    check_served("fatal: early EOF")


def test_what_a_server_dictates_decides_nothing() -> None:
    complaint = "remote: Host key verification failed\nfatal: Authentication failed for 'x'"
    assert translate(complaint, PLACE).reason is Reason.UNAUTHORIZED


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    growth: float = 0
    """KiB/s, from the beginning on."""
    starts: float = 0
    """Seconds until it grows."""
    computing: float = 0
    """Processor seconds a second."""
    slow_after: int | None = None
    """Seconds; None: it keeps up."""


CASES = [
    Case(name="a quick one", growth=1000),
    Case(name="one that is just quick enough", growth=16),
    Case(name="one that drips", growth=1, slow_after=30),
    Case(name="one that drips, once it begins", growth=1, starts=50, slow_after=51),
    Case(name="one that is silent", slow_after=120),
    Case(name="one that thinks for a minute, and is quick then", growth=1000, starts=60),
    Case(name="one that has come, and is worked on", growth=0, computing=0.5),
    Case(name="one that is waited for by a busy loop of a few ticks", growth=1, computing=0.02, slow_after=30),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_repository_grows_or_is_worked_on(case: Case) -> None:
    clock = Clock()
    pace = GitPace(1, Network(), clock, lambda _: case.computing * (clock.now - 1000))
    found: int | None = None
    for second in range(300):
        clock.now = 1000.0 + second
        size = 5000 + int(max(0, second - case.starts) * case.growth * KIBIBYTE)
        if pace.problem(size):
            found = second
            break
    assert found == case.slow_after


def test_the_limits_are_the_administrators() -> None:
    clock = Clock()
    pace = GitPace(1, Network(idle_seconds=30, bytes_per_second=2048), clock, lambda _: 0.0)
    assert pace.problem(0) == ""
    clock.now += 30
    assert pace.problem(30 * 2048) == ""
    clock.now += 30
    assert pace.problem(60 * 2048 - 1) == "it sends less than 2 KiB/s"


def test_the_processor_time_of_a_session() -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) as child:
        wait_for(lambda: processor_seconds(child.pid) >= 0.1, 60.0, "a tenth of a second")
        child.kill()
    assert processor_seconds(os.getpid() + (1 << 30)) == 0
