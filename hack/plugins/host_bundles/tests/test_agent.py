"""The agent on a host of its own: a root folder, in which real scripts run as root of a user namespace."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import rukpak_hosts_agent as agent
from host import ARCHITECTURE, Host, make_plan, needs_user_namespaces, replace_program, write_content

LOG = "echo {} >> /log"


pytestmark = needs_user_namespaces


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "root")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a way to write a bundle into a new folder."""
    count = iter(range(100))
    return lambda **scripts: write_content(tmp_path / f"content-{next(count)}", **scripts)


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


# install, upgrade, roll back, remove


def test_install_runs_both_scripts_as_root_in_the_content(host: Host, write: Any) -> None:
    content = write(install="id -u > /log; cat host-bundle.yaml >> /log", verify=LOG.format("verified"))
    host.install(content)
    assert host.read("log") == "0\nkind: HostBundle\nverified\n"


def test_install_script_runs_once_and_verify_each_time(host: Host, write: Any) -> None:
    content = write(install=LOG.format("installed"), verify=LOG.format("verified"))
    host.install(content)
    host.install(content)
    host.call(["verify", make_plan(content)])
    assert host.read("log").split() == ["installed", "verified", "verified", "verified"]


def test_changed_variables_install_again(host: Host, write: Any) -> None:
    content = write(install="echo $HOST_BUNDLE_VERSION $K3S_URL $HOME ${RUKPAK:-} >> /log")
    for url in ("a b", "c;d"):
        host.install(content, make_plan(content, env={"K3S_URL": url}))
    assert host.read("log") == "v1 a b /root\nv1 c;d /root\n"


def test_upgrade_and_rollback_know_the_version_before(host: Host, write: Any) -> None:
    script = 'echo "$HOST_BUNDLE_PREVIOUS_VERSION -> $HOST_BUNDLE_VERSION" >> /log'
    contents = {version: write(install=f"{script} # {version}") for version in ("v1", "v2", "v3")}
    for version in ("v1", "v2", "v3", "v2"):
        host.install(contents[version], make_plan(contents[version], version=version))
    assert host.read("log").splitlines() == [" -> v1", "v1 -> v2", "v2 -> v3", "v3 -> v2"]


def test_content_before_stays_and_older_goes(host: Host, write: Any) -> None:
    plans = []
    for version in ("v1", "v2", "v3"):
        content = write(install=f"true {version}")
        plans.append(make_plan(content, version=version))
        host.install(content, plans[-1])
    kept = {plan["install"]["digest"].removeprefix("sha256:") for plan in plans[1:]}
    assert {path.name for path in (host.state / "k3s").iterdir()} == {*kept, "journal.json"}


def test_failed_upgrade_is_not_the_version_before(host: Host, write: Any) -> None:
    good, bad = write(install="echo from $HOST_BUNDLE_PREVIOUS_VERSION >> /log"), write(install="exit 3")
    host.install(good)
    with pytest.raises(agent.HostError, match=r"^install.sh: exited with status 3$"):
        host.install(bad, make_plan(bad, version="v2"))
    host.install(good)
    assert host.read("log").splitlines() == ["from", "from v1"]


def test_removal_runs_the_script_of_what_is_installed(host: Host, write: Any) -> None:
    content = write(install="true", uninstall="echo $HOST_BUNDLE_VERSION $K3S_URL > /log")
    host.install(content, make_plan(content, env={"K3S_URL": "old"}))
    other = write(install="true new", uninstall=LOG.format("wrong"))
    host.call(["remove", make_plan(other, version="v2")])
    assert host.read("log") == "v1 old\n"
    assert [path.name for path in host.state.iterdir()] == ["lock"]


def test_removal_without_script_or_installation_leaves_nothing(host: Host, write: Any) -> None:
    content = write(install="true")
    plan = make_plan(content)
    host.call(["remove", plan], ["install", plan, content], ["remove", plan], ["remove", plan])
    assert [path.name for path in host.state.iterdir()] == ["lock"]


def test_failed_removal_can_be_repeated(host: Host, write: Any) -> None:
    content = write(install="true", uninstall="test -e /ready && echo removed > /log")
    host.install(content)
    with pytest.raises(agent.HostError, match=r"^uninstall.sh: exited with status 1$"):
        host.call(["remove", make_plan(content)])
    (host.root / "ready").touch()
    host.call(["remove", make_plan(content)])
    assert host.read("log") == "removed\n"


def test_installed_again_after_a_failed_removal(host: Host, write: Any) -> None:
    content = write(install=LOG.format("installed"), uninstall="false")
    host.install(content)
    with pytest.raises(agent.HostError):
        host.call(["remove", make_plan(content)])
    host.install(content)
    assert host.read("log").split() == ["installed", "installed"]


def test_bundle_of_another_owner_is_refused(host: Host, write: Any) -> None:
    content = write(install="true", uninstall=LOG.format("removed"))
    host.install(content)
    other = make_plan(content, owner="test/k3s")
    for call in (["install", other, content], ["verify", other], ["is_installed", other]):
        with pytest.raises(agent.HostError, match=r'^"k3s" was installed .* by BundleDeployment "k3s/k3s"; delete'):
            host.call(call)
    host.call(["remove", other])  # and so it can be deleted
    assert host.call(["is_installed", make_plan(content)])
    assert not host.read("log")


def test_a_renamed_bundle_is_refused_and_what_was_installed_is_removed(host: Host, write: Any) -> None:
    old, new = write(install="true", uninstall=LOG.format("removed")), write(install=LOG.format("wrong"))
    host.install(old)
    (host.state / "damaged").mkdir()
    (host.state / "damaged/journal.json").write_text("[]")
    plan = make_plan(new, name="k3s-agent", owner="k3s/k3s")
    with pytest.raises(agent.HostError, match=r'^"k3s" was installed .*, and the bundle is called "k3s-agent" now; '):
        host.install(new, plan)
    host.call(["remove", plan])
    assert host.read("log") == "removed\n"
    assert {path.name for path in host.state.iterdir()} == {"lock", "damaged"}


def test_bundles_of_two_names_are_independent(host: Host, write: Any) -> None:
    first, second = write(install=LOG.format("first")), write(install=LOG.format("second"))
    host.install(first)
    host.install(second, make_plan(second, name="driver", owner="drivers/driver"))
    host.call(["remove", make_plan(first)])
    host.call(["verify", make_plan(second, name="driver", owner="drivers/driver")])
    assert host.read("log").split() == ["first", "second"]


# the host


class Refusal(NamedTuple):
    name: str
    release: str
    changes: dict[str, Any]
    message: str


REFUSALS = [
    Refusal(
        "another version",
        'ID=debian\nVERSION_ID="13"\n',
        {},
        "the host is debian 13, and the bundle is for debian 11 12; correct the nodeSelector",
    ),
    Refusal(
        "another distribution, of any version",
        "ID='alpine'\n",
        {"hosts": [{"id": "debian"}, {"id": "flatcar"}]},
        "the host is alpine, and the bundle is for debian, flatcar; correct the nodeSelector",
    ),
    Refusal(
        "an unusual file",
        "# a comment=1\n\nNAME='It's one\nID=\"arch\"\n",
        {},
        "the host is arch, and the bundle is for debian 11 12; correct the nodeSelector",
    ),
    Refusal(
        "no os-release, as on Talos",
        "",
        {},
        "the host is linux, and the bundle is for debian 11 12; correct the nodeSelector",
    ),
    Refusal(
        "another architecture",
        "ID=debian\nVERSION_ID=12\n",
        {"architectures": ["z80", "m68k"]},
        f"the host is {ARCHITECTURE}, and the bundle is for z80, m68k; correct the nodeSelector",
    ),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.name)
def test_host_that_the_bundle_is_not_for_stays_as_it_is(case: Refusal, host: Host, write: Any) -> None:
    (host.root / "etc/os-release").write_text(case.release)
    content = write(install=LOG.format("wrong"))
    with pytest.raises(agent.HostError) as caught:
        host.install(content, make_plan(content, **case.changes))
    assert str(caught.value) == case.message
    assert not host.state.exists()


def test_os_release_may_be_an_absolute_link(host: Host, write: Any) -> None:
    (host.root / "etc/os-release").unlink()
    (host.root / "etc/static").write_text('# NixOS has this\nID=nixos\nVERSION_ID="25.05"\n')
    (host.root / "etc/os-release").symlink_to("/etc/static")
    content = write(install="true")
    host.install(content, make_plan(content, hosts=[{"id": "nixos"}]))


def test_namespaces_of_the_host_are_entered(tmp_path: Path, write: Any) -> None:
    host = Host(tmp_path / "root", by_namespaces=True)
    content = write(install="hostname > /log; ls -d /old/* >> /log || echo nothing of the pod >> /log")
    host.call(["install", make_plan(content), content], ["verify", make_plan(content)])
    assert host.read("log") == "the-host\nnothing of the pod\n"


def test_pod_that_may_not_enter_the_host_says_what_it_needs(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write(install="true")
    monkeypatch.setattr(agent, "_NAMESPACES", ("user",))  # of this process, which nobody can enter once more
    monkeypatch.setattr(agent, "_HOST_PROCESS", os.getpid())
    with pytest.raises(agent.HostError, match=r"^cannot enter the host: .*; the pod must be privileged, with hostPID$"):
        agent.install(make_plan(content), content)


# scripts


def test_message_is_the_end_of_the_output(host: Host, write: Any) -> None:
    content = write(install="seq 100 >&2; printf 'no\\033[1m route'; exit 7")
    with pytest.raises(agent.HostError) as caught:
        host.install(content)
    first, *lines = str(caught.value).splitlines()
    assert first == "install.sh: exited with status 7:"
    assert lines == [*map(str, range(90, 101)), "no [1m route"]
    assert caught.value.__notes__[0].startswith("1\n2\n3\n")  # all of it is in the log


def test_endless_line_does_not_fill_the_memory_or_the_message(host: Host, write: Any) -> None:
    content = write(install="head -c 50000000 /dev/zero | tr '\\0' x; exit 1")
    with pytest.raises(agent.HostError) as caught:
        host.install(content)
    assert len(str(caught.value)) < 4096


def test_failing_verification_fails_the_installation(host: Host, write: Any) -> None:
    content = write(install=LOG.format("installed"), verify="test -e /works")
    with pytest.raises(agent.HostError, match=r"^verify.sh: exited with status 1$"):
        host.install(content)
    assert not host.call(["is_installed", make_plan(content)])
    (host.root / "works").touch()
    host.install(content)
    assert host.read("log").split() == ["installed", "installed"]


def test_script_that_never_ends_is_killed(host: Host, write: Any) -> None:
    content = write(install="trap '' TERM; echo $$ > /pid; echo waiting; while true; do sleep 1; done")
    with pytest.raises(agent.HostError) as caught:
        host.install(content, make_plan(content, timeoutSeconds=1))
    assert str(caught.value) == "install.sh: did not end within 1 s, and was killed:\nwaiting"


def test_processes_that_a_script_leaves_are_killed(host: Host, write: Any) -> None:
    fork = "(setsid sh -c 'sleep 1000 & echo $! >> /pids; sleep 1000' & echo $! >> /pids) &"
    content = write(install=f"{fork}\nwhile [ $(cat /pids | wc -l) -lt 2 ]; do sleep 0.05; done")
    host.install(content)
    pids = [int(line) for line in host.read("pids").split()]
    assert len(pids) == 2
    assert not any(map(is_running, pids))


def test_script_that_forks_until_its_time_is_over_leaves_nothing(host: Host, write: Any) -> None:
    bomb = "f() { sleep 0.3; setsid sh -c 'sleep 987.6' & f & f; }"
    content = write(install=f"{bomb}\nf")
    with pytest.raises(agent.HostError, match="did not end within 2 s"):
        host.install(content, make_plan(content, timeoutSeconds=2))
    assert "987.6" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_script_that_closes_its_output_goes_on_until_its_time_is_over(host: Host, write: Any) -> None:
    content = write(install="exec > /dev/null 2>&1; sleep 0.5; echo done > /log; exec sleep 1000")
    with pytest.raises(agent.HostError, match=r"^install.sh: did not end within 2 s, and was killed$"):
        host.install(content, make_plan(content, timeoutSeconds=2))
    assert host.read("log") == "done\n"


def test_script_cannot_wait_for_input(host: Host, write: Any) -> None:
    content = write(install='read answer || echo "no input" > /log')
    host.install(content)
    assert host.read("log") == "no input\n"


def test_interpreter_of_the_first_line_is_used(host: Host, write: Any) -> None:
    content = write(install="")
    (content / "install.sh").write_text("#!/usr/bin/env -S bash -e\necho ${BASH_VERSION:+bash} > /log\n")
    host.install(content)
    assert host.read("log") == "bash\n"


def test_missing_interpreter_is_named(host: Host, write: Any) -> None:
    content = write(install="")
    (content / "install.sh").write_text("#!/opt/python\n")
    with pytest.raises(agent.HostError, match=r'^install.sh: cannot run "/opt/python" on this host: No such file'):
        host.install(content)


# reboot


def test_reboot_that_a_script_asks_for_is_pending_until_the_next_boot(host: Host, write: Any) -> None:
    content = write(install="touch $HOST_BUNDLE_REBOOT_FILE", verify=LOG.format("verified"))
    plan = make_plan(content, reboot="OnRequest")
    host.install(content, plan)
    assert host.call(["is_installed", plan])
    assert host.call(["needs_reboot", plan])
    assert not host.read("log")  # what does not run yet cannot be verified
    journal = host.state / "k3s/journal.json"
    journal.write_text(json.dumps({**host.journal(), "bootID": "of the boot before"}))
    assert not host.call(["needs_reboot", plan])


def test_reboot_is_always_pending_if_the_bundle_says_so(host: Host, write: Any) -> None:
    content = write(install="true")
    plan = make_plan(content, reboot="Always")
    assert host.call(["install", plan, content], ["needs_reboot", plan])


def test_script_of_a_bundle_without_reboot_cannot_ask_for_one(host: Host, write: Any) -> None:
    content = write(install="echo ${HOST_BUNDLE_REBOOT_FILE-none} > /log")
    host.install(content)
    assert host.read("log") == "none\n"
    assert not host.call(["needs_reboot", make_plan(content)])


def test_reboot_uses_the_service_manager_of_the_host(tmp_path: Path, write: Any) -> None:
    content = write(install="true")
    programs = [
        ["mkdir -p $ROOT/run/systemd/system", *replace_program("systemctl", "echo $0 $* >> /log")],
        replace_program("reboot", "echo $0 >> /log"),
    ]
    for index, mounts in enumerate(programs):
        host = Host(tmp_path / f"root-{index}", mounts)
        host.call(["reboot", make_plan(content)])
        assert host.read("log") == ["/usr/local/bin/systemctl reboot\n", "/usr/local/bin/reboot\n"][index]


def test_pending_reboot_is_no_verification(host: Host, write: Any) -> None:
    content = write(install="true", verify="false")
    plan = make_plan(content, reboot="Always")
    host.call(["install", plan, content], ["install", plan, content])
    with pytest.raises(agent.HostError, match=r"^it takes effect with the next boot only"):
        host.call(["verify", plan])


# system extensions


@pytest.fixture
def sysext_host(tmp_path: Path) -> Host:
    """Return a host with this machine's systemd-sysext. What is merged is gone after each call, as after a boot."""
    if not shutil.which("systemd-sysext"):
        pytest.skip("needs systemd-sysext")
    return Host(tmp_path / "root")


def write_extension(folder: Path, text: str, release: str = "ID=debian\nVERSION_ID=12\n") -> Path:
    usr = folder / "sysext/usr"
    for name, content in {"lib/extension-release.d/extension-release.k3s": release, "lib/k3s/version": text}.items():
        (usr / name).parent.mkdir(parents=True)
        (usr / name).write_text(content)
    return folder


SHOW = "cat /usr/lib/k3s/version >> /log || echo none >> /log"


def test_extension_is_merged_and_merged_again_after_a_boot(sysext_host: Host, write: Any) -> None:
    content = write_extension(write(verify=SHOW), "v1\n")
    plan = make_plan(content, type="Sysext")
    sysext_host.install(content, plan)
    sysext_host.call(["verify", plan])
    assert sysext_host.read("log") == "v1\nv1\n"


def test_extension_is_replaced_and_removed(sysext_host: Host, write: Any) -> None:
    old, new = (write_extension(write(verify=SHOW), f"{version}\n") for version in ("v1", "v2"))
    old_plan, new_plan = make_plan(old, type="Sysext"), make_plan(new, type="Sysext", version="v2")
    show = write(install=SHOW)
    after = make_plan(show, name="show")
    sysext_host.call(
        ["install", old_plan, old], ["install", new_plan, new], ["remove", new_plan], ["install", after, show]
    )
    assert sysext_host.read("log").split() == ["v1", "v2", "none"]
    assert not list((sysext_host.root / "var/lib/extensions").iterdir())


FAKE_SYSEXT = "echo $* >> /log"


class Occupied(NamedTuple):
    """What somebody has put to where systemd-sysext looks, with the command that did, as a sentence."""

    name: str
    command: str
    path: str
    kind: str


OCCUPIED = [
    Occupied("a folder", "mkdir -p {}/usr/lib", "var/lib/extensions/k3s", "a folder"),
    Occupied("an empty folder", "mkdir {}", "var/lib/extensions/k3s", "a folder"),
    Occupied("a file", "echo theirs > {}", "var/lib/extensions/k3s", "a file"),
    Occupied("a raw image", "echo theirs > {}", "var/lib/extensions/k3s.raw", "a file"),
    Occupied("versions of it", "mkdir {}", "var/lib/extensions/k3s.v", "a folder"),
    Occupied("a link", "ln -s /opt/k3s {}", "var/lib/extensions/k3s", 'a link to "/opt/k3s"'),
    Occupied(
        "a link to a raw image", "ln -s /opt/k3s.raw {}", "var/lib/extensions/k3s.raw", 'a link to "/opt/k3s.raw"'
    ),
    Occupied(
        "a link to another bundle",
        "ln -s /var/lib/rukpak/hosts/rke2/00/sysext {}",
        "var/lib/extensions/k3s",
        'a link to "/var/lib/rukpak/hosts/rke2/00/sysext"',
    ),
    Occupied(
        "a link that only looks like one of ours",
        "ln -s /var/lib/rukpak/hosts/k3s/../sysext {}",
        "var/lib/extensions/k3s",
        'a link to "/var/lib/rukpak/hosts/k3s/../sysext"',
    ),
    Occupied("one that would be merged in its place", "mkdir {}", "etc/extensions/k3s", "a folder"),
]


def occupy(host: Host, case: Occupied) -> Path:
    path = host.root / case.path
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["sh", "-ec", case.command.format(path)], check=True)
    return path


@pytest.mark.parametrize("case", OCCUPIED, ids=lambda case: case.name)
def test_extension_of_somebody_else_is_never_replaced(case: Occupied, tmp_path: Path, write: Any) -> None:
    host, content = Host(tmp_path / "root", replace_program("systemd-sysext", FAKE_SYSEXT)), write()
    path = occupy(host, case)
    before = os.lstat(path).st_ino
    plan = make_plan(write_extension(content, "v1\n"), type="Sysext")
    with pytest.raises(agent.HostError) as caught:
        host.install(content, plan)
    assert str(caught.value) == (
        f'"/{case.path}" is {case.kind} that this bundle has not put there; remove it, or give the bundle another name'
    )
    assert os.lstat(path).st_ino == before
    assert not (host.state / "k3s/journal.json").exists()
    assert host.read("log") == ""


IN_PLACE_OF_OURS = [case for case in OCCUPIED if case.path == "var/lib/extensions/k3s"]


@pytest.mark.parametrize("case", IN_PLACE_OF_OURS, ids=lambda case: case.name)
def test_removal_leaves_the_extension_that_somebody_has_put_in_place_of_ours(
    case: Occupied, sysext_host: Host, write: Any
) -> None:
    content = write_extension(write(), "v1\n")
    plan = make_plan(content, type="Sysext")
    sysext_host.install(content, plan)
    (sysext_host.root / case.path).unlink()
    path = occupy(sysext_host, case)
    before = os.lstat(path).st_ino
    with pytest.raises(agent.HostError, match="that this bundle has not put there"):
        sysext_host.call(["verify", plan])
    sysext_host.call(["remove", plan])
    assert os.lstat(path).st_ino == before
    assert not (sysext_host.state / "k3s").exists()


def test_extension_that_is_lost_is_put_back(sysext_host: Host, write: Any) -> None:
    content = write_extension(write(verify=SHOW), "v1\n")
    plan = make_plan(content, type="Sysext")
    sysext_host.install(content, plan)
    (sysext_host.root / "var/lib/extensions/k3s").unlink()
    sysext_host.call(["verify", plan])
    assert sysext_host.read("log") == "v1\nv1\n"


def test_extension_is_ours_also_when_the_journal_is_lost(sysext_host: Host, write: Any) -> None:
    """As the message about a damaged one says."""
    content = write_extension(write(verify=SHOW), "v1\n")
    plan = make_plan(content, type="Sysext")
    sysext_host.install(content, plan)
    (sysext_host.state / "k3s/journal.json").unlink()
    sysext_host.install(content, plan)
    assert sysext_host.read("log") == "v1\nv1\n"


def test_extension_for_another_system_is_not_called_installed(sysext_host: Host, write: Any) -> None:
    """systemd-sysext leaves it out, and exits with 0."""
    content = write_extension(write(), "v1\n", "ID=fedora\n")
    plan = make_plan(content, type="Sysext")
    with pytest.raises(agent.HostError, match=r'^systemd-sysext has not merged "k3s"; compare its extension-release'):
        sysext_host.install(content, plan)
    assert not sysext_host.call(["is_installed", plan])


def test_host_without_systemd_sysext_is_named(tmp_path: Path, write: Any) -> None:
    host = Host(tmp_path / "root", ["mount -t tmpfs t $ROOT/usr"])
    content = write_extension(write(), "v1\n")
    with pytest.raises(
        agent.HostError, match=r'^systemd-sysext: cannot run "systemd-sysext" on this host: No such file'
    ):
        host.install(content, make_plan(content, type="Sysext"))


# content


class Member(NamedTuple):
    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    target: str = ""


def write_parts(folder: Path, members: list[Member], size: int = 700) -> Path:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, kind, target in members:
            header = tarfile.TarInfo(name)
            header.size, header.type, header.linkname = len(data), kind, target
            header.mode = 0o755 if name.endswith(".bin") else 0o644
            tar.addfile(header, io.BytesIO(data))
    folder.mkdir()
    data = archive.getvalue()
    for index in range(0, len(data), size):
        (folder / f"{index // size:04}").write_bytes(data[index : index + size])
    return folder


def list_members(content: Path) -> list[Member]:
    files = sorted(path for path in content.rglob("*") if path.is_file())
    return [Member(path.relative_to(content).as_posix(), path.read_bytes()) for path in files]


def test_parts_of_an_archive_are_the_same_content(host: Host, write: Any, tmp_path: Path) -> None:
    content = write(install="./tools/run.bin > /log")
    (content / "tools").mkdir()
    (content / "tools/run.bin").write_text("#!/bin/sh\necho ran\n" + "#" * 5000)
    (content / "tools/run.bin").chmod(0o755)
    (content / ("long-" * 40)).write_text("a name that needs another header")
    parts = write_parts(tmp_path / "parts", list_members(content))
    host.call(["install", make_plan(content), parts])
    assert host.read("log") == "ran\n"


HOSTILE = {
    "a path that goes up": [Member("../../../../etc/evil", b"x")],
    "a path inside that goes up": [Member("a/../../evil", b"x")],
    "an absolute path": [Member("/etc/evil", b"x")],
    "a symbolic link": [Member("etc", kind=tarfile.SYMTYPE, target="/etc"), Member("etc/evil", b"x")],
    "a hard link": [Member("evil", kind=tarfile.LNKTYPE, target="/etc/os-release")],
    "a device": [Member("evil", kind=tarfile.CHRTYPE)],
    "a fifo": [Member("evil", kind=tarfile.FIFOTYPE)],
    "a file twice": [Member("evil", b"x"), Member("evil", b"y")],
    "a file that is a folder, too": [Member("evil", b"x"), Member("evil/evil", b"y")],
    "no archive": [],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_refused_and_leaves_nothing(name: str, host: Host, write: Any, tmp_path: Path) -> None:
    content = write(install=LOG.format("wrong"))
    parts = write_parts(tmp_path / "parts", [*list_members(content), *HOSTILE[name]])
    if name == "no archive":
        (parts / "0000").write_bytes(b"\x00\xff" * 300)
    with pytest.raises(agent.HostError, match=r"^content"):
        host.call(["install", make_plan(content), parts])
    assert not list(host.root.rglob("evil"))
    assert not host.read("log")
    assert not list((host.state / "k3s").iterdir())


@pytest.mark.parametrize("lost", ["0000", "0001", "0003"])
def test_archive_without_a_part_is_refused(lost: str, host: Host, write: Any, tmp_path: Path) -> None:
    content = write(install=LOG.format("wrong") + "#" * 2000)
    parts = write_parts(tmp_path / "parts", list_members(content))
    (parts / lost).unlink()
    with pytest.raises(agent.HostError, match="content"):
        host.call(["install", make_plan(content), parts])
    assert not host.read("log")


def test_content_with_another_digest_is_never_run(host: Host, write: Any) -> None:
    content = write(install=LOG.format("wrong"))
    plan = make_plan(content)
    (content / "install.sh").chmod(0o755)
    with pytest.raises(agent.HostError, match=r"^the content has the digest sha256:.*; nothing was run$"):
        host.install(content, plan)
    assert not host.read("log")
    assert not list((host.state / "k3s").iterdir())


def test_folder_with_a_link_is_refused(host: Host, write: Any) -> None:
    content = write(install="true")
    plan = make_plan(content)
    (content / "data").symlink_to("/etc/os-release")
    with pytest.raises(agent.HostError, match=r'^content "data": neither a file nor a folder'):
        host.install(content, plan)


def test_content_that_was_changed_on_the_host_is_unpacked_again(host: Host, write: Any) -> None:
    content = write(install="cat data >> /log; echo changed > data; echo more > more; test -e /works")
    (content / "data").write_text("original\n")
    with pytest.raises(agent.HostError):
        host.install(content)
    (host.root / "works").touch()
    host.install(content)
    assert host.read("log") == "original\noriginal\n"


def test_link_that_a_script_leaves_in_its_folder_is_no_reason_to_fail(host: Host, write: Any) -> None:
    content = write(install="ln -s /etc link; test -e /works")
    with pytest.raises(agent.HostError, match=r"^install.sh"):
        host.install(content)
    (host.root / "works").touch()
    host.install(content)


# failures of the machine


def test_full_disk_leaves_what_was_installed(tmp_path: Path, write: Any) -> None:
    small, large = write(install=LOG.format("small")), write(install=LOG.format("large"))
    (large / "image").write_bytes(os.urandom(600_000))
    host = Host(
        tmp_path / "disk", ["mkdir -p $ROOT/var/lib/rukpak", "mount -t tmpfs -o size=512k t $ROOT/var/lib/rukpak"]
    )
    calls = [["install", make_plan(small), small], ["install", make_plan(large, version="v2"), large]]
    with pytest.raises(agent.HostError, match=r"^no space left on the host; make room in /var/lib/rukpak/hosts$"):
        host.call(*calls)
    assert host.call(*calls, ["is_installed", make_plan(small)])
    assert host.call(*calls, ["install", make_plan(small), small]) is None
    assert "large" not in host.read("log")


def test_no_room_for_the_journal_stops_before_the_script(tmp_path: Path, write: Any) -> None:
    content = write(install=LOG.format("wrong"))
    (content / "data").write_bytes(b"x" * 4096 * 6)
    mounts = ["mkdir -p $ROOT/var/lib/rukpak", "mount -t tmpfs -o size=32k t $ROOT/var/lib/rukpak"]
    host = Host(tmp_path / "disk", mounts)
    with pytest.raises(agent.HostError, match="no space left"):
        host.install(content)
    assert not host.read("log")


KILLED = "the agent was killed by signal 9; what it did is done again"


def test_killed_at_any_step_it_installs_when_it_is_started_again(tmp_path: Path, write: Any) -> None:
    old, new = write(install="echo v1 > /installed"), write(install="echo v2 > /installed", verify="grep v2 /installed")
    (new / "data").mkdir()
    (new / "data/file").write_bytes(b"x" * 10_000)
    plan = make_plan(new, version="v2")
    calls = [["install", make_plan(old), old], ["install", plan, new], ["install", plan, new], ["is_installed", plan]]
    for kill_at in range(1, 100):
        host = Host(tmp_path / f"root-{kill_at}")
        _, killed, *after = host.call_all(*calls, kill=(1, kill_at))
        assert host.read("installed") == "v2\n"
        assert host.journal()["previous"]["version"] == "v1"
        assert not list(host.state.rglob("*.partial"))
        assert after == [{"value": None}, {"value": True}]
        if killed == {"value": None}:
            break
        assert killed == {"error": KILLED}
    assert kill_at > 15


def test_killed_at_any_step_it_removes_when_it_is_started_again(tmp_path: Path, write: Any) -> None:
    content = write(install="echo v1 > /installed", uninstall="rm -f /installed")
    plan = make_plan(content)
    for kill_at in range(1, 100):
        host = Host(tmp_path / f"root-{kill_at}")
        calls = [["install", plan, content], ["remove", plan], ["remove", plan]]
        _, killed, after = host.call_all(*calls, kill=(1, kill_at))
        assert not host.read("installed")
        assert [path.name for path in host.state.iterdir()] == ["lock"]
        assert after == {"value": None}
        if killed == {"value": None}:
            break
        assert killed == {"error": KILLED}
    assert kill_at > 8


def test_script_of_a_killed_agent_does_not_go_on(host: Host, write: Any) -> None:
    content = write(install="echo $$ > /pid; exec sleep 1000")
    process = host.start(["install", make_plan(content), content])
    wait_for(lambda: host.read("pid"))
    script = int(host.read("pid"))
    assert is_running(script)
    process.kill()
    wait_for(lambda: not is_running(script))


def test_two_agents_at_once_install_once(host: Host, write: Any) -> None:
    content = write(install="echo begin >> /log; sleep 0.5; echo end >> /log")
    started = [host.start(["install", make_plan(content), content]) for _ in range(2)]
    for process in started:
        process.wait().get()
    assert host.read("log").split() == ["begin", "end"]


def test_scripts_of_two_bundles_never_run_at_once(host: Host, write: Any) -> None:
    contents = [write(install=f"echo {name} >> /log; sleep 0.5; echo {name} >> /log") for name in "ab"]
    plans = [make_plan(content, name=name) for content, name in zip(contents, "ab", strict=True)]
    started = [host.start(["install", plan, content]) for plan, content in zip(plans, contents, strict=True)]
    for process in started:
        process.wait().get()
    first, second, third, fourth = host.read("log").split()
    assert (first == second, third == fourth) == (True, True)


def test_lock_is_held_while_a_process_of_a_script_lives(host: Host, write: Any) -> None:
    """The agent is killed; what its script has started, and the kernel does not kill, keeps others out."""
    content = write(install="sh -c 'echo $$ > /pid; sleep 1000; true' & wait")
    process = host.start(["install", make_plan(content), content])
    wait_for(lambda: host.read("pid"))
    process.kill()
    other = write(install=LOG.format("other"))
    try:
        with pytest.raises(agent.HostError, match=r'^the host is still busy with "k3s" after 1 s$'):
            host.install(other, make_plan(other, name="driver", timeoutSeconds=1))
    finally:
        subprocess.run(["pkill", "-KILL", "-P", host.read("pid").strip()], check=False)
        os.kill(int(host.read("pid")), signal.SIGKILL)
    host.install(other, make_plan(other, name="driver"))


def test_unreadable_journal_is_named(host: Host, write: Any) -> None:
    content = write(install="true")
    host.install(content)
    (host.state / "k3s/journal.json").write_text("{")
    with pytest.raises(agent.HostError, match=r'^"/var/lib/rukpak/hosts/k3s/journal.json" cannot be read; delete it'):
        host.install(content)


def test_verification_of_what_is_not_installed_fails(host: Host, write: Any) -> None:
    content = write(install="true")
    with pytest.raises(agent.HostError, match="not installed on this host"):
        host.call(["verify", make_plan(content)])
