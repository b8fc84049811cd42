"""rukpak-hosts, as authors call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import rukpak_hosts
import rukpak_hosts_agent as agent
from host import ARCHITECTURE, needs_user_namespaces

MANIFEST = f"""
apiVersion: hosts.rukpak.io/v1
kind: HostBundle
name: k3s
version: v1.31.4+k3s1
hosts: [{{id: debian}}]
architectures: [{ARCHITECTURE}]
env:
  URL: {{type: string}}
  PODS: {{type: integer, default: 110}}
  DEBUG: {{type: boolean, default: false}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    content = tmp_path / "bundle"
    content.mkdir()
    (content / "host-bundle.yaml").write_text(MANIFEST)
    (content / "install.sh").write_text("#!/bin/sh -e\necho $URL $PODS $DEBUG > /root/log\necho installing\n")
    (content / "uninstall.sh").write_text("#!/bin/sh -e\necho removed $URL >> /root/log\n")
    return content


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("etc", "root"):
        (tmp_path / "host" / name).mkdir(parents=True)
    (tmp_path / "host/etc/os-release").write_text("ID=debian\n")
    return tmp_path / "host"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, rukpak_hosts.__file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_lint_shows_the_bundle_and_its_digest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rukpak_hosts.main(["lint", str(folder)]) == 0
    assert capsys.readouterr() == (f"k3s v1.31.4+k3s1: {agent.digest_of_folder(folder)}\n", "")


def test_lint_warns_of_what_deletion_leaves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "uninstall.sh").unlink()
    assert rukpak_hosts.main(["lint", str(folder)]) == 0
    assert capsys.readouterr().err == "warning: without uninstall.sh, what was installed stays on hosts\n"


MISTAKES = {
    "a field that does not exist": ("host-bundle.yaml", f"{MANIFEST}nodes: 3\n", "nodes"),
    "a script with an error of syntax": ("verify.sh", "#!/bin/sh\nif true; then\n", "verify.sh"),
    "no content": ("host-bundle.yaml", "", "host-bundle.yaml"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_lint_names_the_mistake(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, text, shown = MISTAKES[name]
    (folder / file).write_text(text)
    assert rukpak_hosts.main(["lint", str(folder)]) == 1
    output, error = capsys.readouterr()
    assert (output, error.startswith("error: "), shown in error) == ("", True, True)


def test_lint_names_a_link(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "k3s").symlink_to("install.sh")
    assert rukpak_hosts.main(["lint", str(folder)]) == 1
    assert 'content "k3s": neither a file nor a folder' in capsys.readouterr().err


def test_digest_is_all_that_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rukpak_hosts.main(["digest", str(folder)]) == 0
    assert capsys.readouterr().out == f"{agent.digest_of_folder(folder)}\n"


@needs_user_namespaces
def test_run_and_remove_act_on_the_root_folder_alone(folder: Path, root: Path) -> None:
    result = run("run", folder, "--root", root, "--env", "URL=a=b", "--env", "PODS=7", "--env", "DEBUG=true")
    assert (result.returncode, result.stdout, result.stderr) == (0, "installing\n", "k3s v1.31.4+k3s1: installed\n")
    result = run("remove", folder, "--root", root)
    assert (result.returncode, result.stderr) == (0, "k3s: removed\n")
    assert (root / "root/log").read_text() == "a=b 7 true\nremoved a=b\n"
    assert not any((root / "usr").iterdir())  # mounted only for the scripts
    assert not Path("/root/log").exists()


@needs_user_namespaces
def test_run_refuses_a_host_that_the_bundle_is_not_for(folder: Path, root: Path) -> None:
    (root / "etc/os-release").write_text("ID=fedora\nVERSION_ID=43\n")
    result = run("run", folder, "--root", root, "--env", "URL=x")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "error: the host is fedora 43, and the bundle is for debian; correct the nodeSelector\n"


@pytest.mark.parametrize("env", ["URL", "PORT=1", "PODS=many", "DEBUG=yes"])
def test_wrong_variable_is_refused_before_anything_is_done(env: str, folder: Path, root: Path) -> None:
    result = run("run", folder, "--root", root, "--env", "URL=x", "--env", env)
    assert (result.returncode, env.partition("=")[0] in result.stderr) == (1, True)
    assert not (root / "usr").exists()
