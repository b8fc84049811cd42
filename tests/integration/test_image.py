"""The container image: assembled into a folder by the step that the Dockerfile runs, entered by chroot, put to work.

Nothing of this machine is reachable from there but the kernel and the network, as in a container; user, capabilities
and system calls are those of a pod with the runtime's default seccomp profile (tests/support/pod.py).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from hack.image import assemble
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import DEPLOYMENTS, ROOT, SECONDS, Manifest, World, config_map, is_answered, new_name
from tests.support.charts import chart_of, write
from tests.support.controller import Controller
from tests.support.git_servers import GitHttpServer, GitRepository, serve_ssh
from tests.support.inside import Mechanisms, connect, manager, run_command
from tests.support.packages import build_wheel
from tests.support.private_sources import FORGE, commit_bundle, secret_manifest
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(900), pytest.mark.long, pytest.mark.thorough]
MEBIBYTE = 1 << 20
MOST_BYTES = 290_000_000
USER = 65532
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
DEVICES = {"null": 3, "urandom": 9}
"""By name their minor number."""
PLUGINS = [*entry_points(group="rukpak.sources"), *entry_points(group="rukpak.formats")]
TRIALS = (
    "open('/tmp/kubeconfig').read()",
    "os.listdir('/tmp')",
    "os.listdir('..')",
    "os.listdir('/var/cache/rukpak')",
    "open('/tmp/new', 'w')",
    "open('new', 'w')",
    "socket.create_connection(('127.0.0.1', 1))",
    "socket.socket(type=socket.SOCK_DGRAM)",
    "socket.socket(socket.AF_UNIX)",
    "os.kill(os.getppid(), 0)",
)
HOSTILE = f"""#!/usr/local/bin/python
import json, os, socket, sys
if "version" in sys.argv:
    sys.exit(print("v3.99.0"))
came_of = {{}}
for number, trial in enumerate({TRIALS!r}):
    try:
        came_of[f"trial-{{number}}"] = f"done: {{trial}} {{eval(trial)}}"
    except OSError as error:
        came_of[f"trial-{{number}}"] = type(error).__name__
print("---\\n# Source: c/templates/a.yaml")
print(json.dumps({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "data": came_of}}))
"""
"""Stands for Helm, and for whatever somebody makes of it."""
IN_A_POD = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.restype = libc.unshare.restype = ctypes.c_int
seccomp, no_new_privileges = libc.prctl(21, 0, 0, 0, 0), libc.prctl(39, 0, 0, 0, 0)
print(seccomp, no_new_privileges, libc.unshare(0x10000000), ctypes.get_errno(), os.access("/etc", os.W_OK))
"""
TEMPLATE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: '{{ .Values.color }}'}\n"


@pytest.fixture(scope="module")
def image(settings: Settings, helm_4: Path) -> Iterator[Path]:
    """The root file system of the image."""
    folder = make_owned_folder(settings.running, "image")
    try:
        assembling = [sys.executable, str(ROOT / "hack/image/assemble.py"), str(folder / "root"), str(helm_4)]
        subprocess.run(assembling, check=True)
        folder.chmod(0o755)
        add_devices(folder / "root/dev")
        yield folder / "root"
    finally:
        take_away(folder)


def add_devices(folder: Path) -> None:
    """Do what a container runtime does; without the right to it, they are files that `entering` mounts devices over."""
    for name, minor in DEVICES.items():
        try:
            os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        except PermissionError:
            (folder / name).touch()
        (folder / name).chmod(0o666)


def entering(image: Path) -> list[str]:
    """Return the command that enters it: as its user, or, for who may not, as the only user of a namespace."""
    pod = [sys.executable, "-I", str(ROOT / "tests/support/pod.py"), str(image)]
    if os.geteuid() == 0:
        return pod
    mounting = " && ".join(f'mount --bind /dev/{name} "{image}/dev/{name}"' for name in DEVICES)
    namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*namespaces, "/bin/sh", "-c", f'{mounting} && exec "$0" "$@"', *pod]


def run(image: Path, *command: str) -> str:
    """Run a program of the image; return what it said."""
    done = subprocess.run(
        [*entering(image), *command], env=ENVIRONMENT, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_it_is_small(image: Path) -> None:
    sizes = {path: path.lstat().st_size for path in image.rglob("*") if path.is_file() and not path.is_symlink()}
    largest = sorted(sizes, key=lambda path: sizes[path], reverse=True)[:8]
    told = [f"{sizes[path] / MEBIBYTE:.0f} MiB {path.relative_to(image)}" for path in largest]
    print(f"{sum(sizes.values()) / MEBIBYTE:.0f} MiB, of which {told}")  # noqa: T201 -- shown by pytest -s
    assert sum(sizes.values()) < MOST_BYTES


def test_what_it_imports_is_compiled(image: Path) -> None:
    modules = ", ".join((manager.__name__, run_command.__name__, *(point.module for point in PLUGINS)))
    script = f"import sys; from pathlib import Path; import {modules}; loaded = sys.modules.items(); "
    script += "print([name for name, each in loaded if not Path(getattr(each, '__cached__', '') or '/').exists()])"
    assert run(image, "python", "-c", script) == "[]\n"


def test_packages_of_plug_ins_are_added_as_their_dockerfile_does(image: Path, tmp_path: Path) -> None:
    wheel = build_wheel(ROOT / "hack/plugins/kustomize", tmp_path)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"rukpak-kustomize @ {wheel.as_uri()} --hash=sha256:{digest}\n", encoding="utf-8")
    text = (ROOT / "config/plugins/Dockerfile").read_text(encoding="utf-8")
    install, ask = re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    [copy] = re.findall(r"^COPY --from=plugins /plugins/ /(\S+)$", text, re.MULTILINE)
    extended = image.parent / "extended"
    subprocess.run(["cp", "--archive", "--link", str(image), str(extended)], check=True)
    places = {"python": sys.executable, "/plugins": str(tmp_path / "plugins"), "/requirements.txt": str(requirements)}
    command = re.sub(r"python(?= )|/plugins|/requirements.txt", lambda found: places[found[0]], install)
    subprocess.run(["sh", "-c", command], check=True)
    shutil.copytree(tmp_path / "plugins", extended / copy, dirs_exist_ok=True)
    listed = [line.split() for line in run(extended, *json.loads(ask)).splitlines()]
    assert ["format", "kustomize.rukpak.io/v1", "rukpak-kustomize", "0.1.0", "1", "ok"] in listed


def test_equal_modules_have_equal_bytecode(image: Path) -> None:
    made = {path: path.read_bytes() for path in image.rglob("*.pyc")}
    assemble.compile_modules(image)
    assert [str(path) for path, data in made.items() if path.read_bytes() != data] == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("python", "-m", "rukpak", "--help"), "usage: rukpak"),
        (("python", "-m", "rukpak", "run", "--help"), "--lease-duration"),
        (("git", "--version"), "git version"),
        (("ssh", "-V"), "OpenSSH"),
        (("gpgv", "--version"), "gpgv (GnuPG) 2."),
        (("helm", "version", "--short"), f"v{Settings(cache=Path()).helm_version}"),
        (("prlimit", "--as=1000000000", "--", "env", "true"), ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_its_programs_run(image: Path, command: tuple[str, ...], said: str) -> None:
    assert said in run(image, *command)


def test_nothing_in_it_can_be_changed_or_raises_rights(image: Path) -> None:
    modes = {path: path.lstat().st_mode for path in image.rglob("*") if not path.is_symlink()}
    writable = {str(path.relative_to(image)) for path, mode in modes.items() if mode & 0o022}
    assert writable <= {"tmp", "var/cache/rukpak", "dev/null", "dev/urandom"}
    assert not [path for path, mode in modes.items() if mode & (stat.S_ISUID | stat.S_ISGID)]


@pytest.mark.parametrize("program", ["sh", "bash", "dash", "apt-get", "dpkg", "pip", "perl", "curl", "su", "mount"])
def test_it_lacks(image: Path, program: str) -> None:
    assert not list(image.glob(f"**/bin/{program}"))


def test_it_runs_as_in_a_pod(image: Path) -> None:
    assert run(image, "python", "-c", IN_A_POD) == f"2 1 -1 {errno.EPERM} False\n"


def test_the_kernel_confines_programs_in_a_pod(image: Path) -> None:
    script = f"from {Mechanisms.__module__} import Mechanisms as M; print(M.found().landlock, M.found().lack())"
    assert run(image, "python", "-c", script) == f"{Mechanisms.found().landlock} \n"


def test_a_hostile_helm_reaches_nothing_of_a_pod(image: Path) -> None:
    """What --helm names tries all that it can, and tells in an object what came of it."""
    write(image / "tmp/chart", {"Chart.yaml": b"apiVersion: v2\nname: c\nversion: 1.0.0\n"})
    write(image / "tmp", {"helm": HOSTILE.encode(), "kubeconfig": b"canary"})
    (image / "tmp/helm").chmod(0o755)
    rendering = ("/tmp/chart", "--format=helm", "--helm=/tmp/helm", "--output=json")
    text = run(image, "python", "-m", "rukpak", "render", *rendering)
    data = json.loads(text)["items"][0]["data"]
    assert data == {f"trial-{number}": "PermissionError" for number in range(len(TRIALS))}


@pytest.fixture
def world(image: Path, kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings) -> Iterator[World]:
    """A world whose controller runs in the image."""
    text = kwok_cluster.kubectl("config", "view", "--raw", "--minify", "--flatten")
    (image / "tmp/kubeconfig").write_text(text, encoding="utf-8")
    (image / "tmp/kubeconfig").chmod(0o644)
    kwok_cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "config/crd"))
    folder, store = make_owned_folder(settings.running, "controller"), "/var/cache/rukpak"
    environment = {**ENVIRONMENT, "KUBECONFIG": "/tmp/kubeconfig", "RUKPAK_STORE": store}
    program = (*entering(image), "python", "-m", "rukpak")
    controller = Controller(folder, Path("/tmp/kubeconfig"), environment=environment, program=program)
    client = connect(kubeconfig=str(kwok_cluster.kubeconfig), user_agent="tests")
    made = World(cluster=kwok_cluster, registry=registry, controller=controller, store=image / store[1:], client=client)
    try:
        wait_for(lambda: is_answered(client, DEPLOYMENTS), SECONDS, "BundleDeployments served")
        controller.start()
        yield made
        made.clean_up()
        controller.stop()  # hands its Lease over: others use the cluster
    finally:
        controller.kill()
        print(controller.log)  # noqa: T201 -- pytest shows it where the test has failed
        take_away(folder)


def test_the_controller_in_it_fetches_with_git_and_renders_with_helm(world: World, tmp_path: Path) -> None:
    commit_bundle(GitRepository(tmp_path / "shop.git", config=FORGE), config_map("settings"))
    with GitHttpServer(tmp_path) as git:
        plain = world.deploy(ref="unused", name=new_name(), sources=[source_of(f"{git.url}/shop.git")])
        chart = world.deploy(
            chart_of({"templates/settings.yaml": TEMPLATE}), format="helm", config={"values": {"color": "red"}}
        )
        plain.wait_ready()
        chart.wait_ready()
    assert plain.data("settings") == {"color": "blue"}
    assert chart.data("settings") == {"color": "red"}


def source_of(repository: str, **auth: object) -> Manifest:
    """Return the entry of spec.sources for the bundle in a repository."""
    return {"kind": "git", "git": {"repository": repository, "ref": "main", "directory": "deploy", **auth}}


def test_the_controller_in_it_fetches_over_ssh(world: World, tmp_path: Path) -> None:
    commit_bundle(GitRepository(tmp_path / "shop.git", config=FORGE), config_map("settings"))
    name = new_name()
    with serve_ssh(tmp_path) as server:
        secret = {"ssh-privatekey": server.private_key, "known_hosts": server.known_hosts}
        world.cluster.kubectl("create", "namespace", name)
        world.cluster.kubectl("apply", "-f", "-", input=json.dumps(secret_manifest(name, "key", secret)))
        source = source_of(f"ssh://git@127.0.0.1:{server.port}/shop.git", auth={"secret": {"name": "key"}})
        deployed = world.deploy(ref="unused", name=name, sources=[source])
        deployed.wait_ready()
    assert deployed.data("settings") == {"color": "blue"}
