"""The story of a newcomer: `hack/demo` shows everything, and leaves nothing behind; `--keep` leaves all of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.demonstration.page import SETTLED
from hack.demonstration.picture import TRANSCRIPT as PICTURED
from hack.demonstration.picture import excerpt
from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.processes import take_away, wait_for
from rukpak.controller.playground.programs import CONTROL_PLANE, Settings
from tests.support.browser import find_program

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = 128 + signal.SIGINT
SYSTEM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rukpak-system"}}
"""There before the demonstration, if only since a test before this one has used the cluster."""

# All of it takes half a minute, but four times as long on a machine that does other work; each command has a deadline.
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

# The essential line of each step, in order: a command, and below it what came back.
TRANSCRIPT = [
    r"\$ kubectl apply --server-side -k config/crd",
    r".*bundledeployments\.core\.rukpak\.io condition met",
    r"\$ hack/run .*",
    r"\$ rukpak install demo hack/demonstration/bundle/v1 -n demo --yes --wait",
    r"  the cluster: 5 to create",
    r"bundledeployment\.core\.rukpak\.io/demo created",
    r"\$ rukpak status",
    r"demo +plain +false +True +Ready +[0-9a-f]{12} +4/4 .*",
    r"\$ rukpak tree demo",
    r"├─ Deployment demo/web .*",
    r'\$ .* patch deployment web -p \'{"spec": {"replicas": 7}}\' .*',
    r"7",
    r"\$ .* --for=jsonpath='{\.spec\.replicas}'=2 deployment/web",
    r"deployment\.apps/web condition met",
    r"\$ rukpak install demo hack/demonstration/bundle/v2 --yes --wait",
    r"  the cluster: 1 to create, 2 to change, 1 to delete, 1 unchanged",
    r"    -  greeting: hello",
    r"    \+  greeting: welcome",
    r"  Deleted: ConfigMap demo/banner",
    r"bundledeployment\.core\.rukpak\.io/demo configured",
    r"\$ .* --for=delete configmap/banner",
    r"\$ rukpak history demo",
    r"[0-9a-f]{12} +installed +Healthy .*",
    r"[0-9a-f]{12} +kept +Healthy .*",
    r"\$ rukpak install demo \S+/wrong --yes --wait .*",
    r'    \+ +image: "registry\.k8s\.io/pause:missing"',
    r"bundledeployment\.core\.rukpak\.io/demo configured",
    r"rukpak install: demo: .*PullBackOff.*|rukpak install: demo: .*ErrImagePull.*",
    r"not ready",
    r"\$ rukpak rollback demo --wait",
    r"new content and config are ignored until the rollback is undone: rukpak rollback demo --undo",
    r"bundledeployment\.core\.rukpak\.io/demo rolled back to revision [0-9a-f]{12}",
    r"\$ rukpak push hack/demonstration/bundle/v2 demo",
    r"bundledeployment\.core\.rukpak\.io/demo pushed sha256:[0-9a-f]{64}",
    r"\$ rukpak rollback demo --undo --yes --wait",
    r"demo: revision sha256:[0-9a-f]{64} compared with the cluster: no difference, 4 unchanged",
    r"bundledeployment\.core\.rukpak\.io/demo rollback undone",
    r"\$ rukpak pause demo --wait",
    r"bundledeployment\.core\.rukpak\.io/demo paused",
    r"5",
    r"\$ .* --for=condition=Drifted bd/demo",
    r"bundledeployment\.core\.rukpak\.io/demo condition met",
    r"\$ rukpak status demo .*",
    r"Drifted: Paused: .*",
    r"  repair modified objects: .*",
    r"\$ rukpak resume demo",
    r"bundledeployment\.core\.rukpak\.io/demo resumed",
    r"deployment\.apps/web condition met",
    r"\$ rukpak push hack/demonstration/bundle/v3 demo",
    r"\$ rukpak permissions demo --new",
    r"  ServiceAccount demo/default: get,list secrets in namespace demo",
    r"\$ rukpak diff demo .*",
    r"demo: revision sha256:[0-9a-f]{64} compared with the cluster: 2 to create, 4 unchanged",
    r"created Role demo/reader",
    r"\$ rukpak approve demo --yes --wait",
    r"  Changes:   2 to create",
    r"bundledeployment\.core\.rukpak\.io/demo revision [0-9a-f]{12} approved",
    r"\$ kubectl apply -n demo -f hack/demonstration/bundle/legacy",
    r"\$ rukpak adopt legacy --from kubectl -n demo -l app=legacy --yes",
    r"  Take over: Deployment demo/legacy, unchanged .*",
    r"bundledeployment\.core\.rukpak\.io/legacy adopted 2 objects from kubectl",
    r"\$ rukpak package .*",
    r"pushed 127\.0\.0\.1:\d+/demo:chart@sha256:[0-9a-f]{64}, which renders 1 object",
    r"\$ rukpak install shop oci://.*",
    r"bundledeployment\.core\.rukpak\.io/shop created",
    r"bundledeployment\.core\.rukpak\.io/greeter created",
    r"\$ rukpak status",
    r"demo +plain +false +True +.*",
    r"greeter +registry-v1 +false +True +.*",
    r"legacy +plain +false +True +.*",
    r"shop +helm +false +True +.*",
    r"job\.batch/shop-stock configmap/shop-till deployment\.apps/greeter",
    r"secret/login created",
    r"bundledeployment\.core\.rukpak\.io/three created",
    r"bundledeployment\.core\.rukpak\.io/three condition met",
    r"configmap/from-git configmap/from-http configmap/from-image",
    r'bundledeployment\.core\.rukpak\.io "three" deleted',
]
DELETED = [
    r"\$ kubectl delete bd demo .*",
    r'bundledeployment\.core\.rukpak\.io "demo" deleted',
    r'bundledeployment\.core\.rukpak\.io "shop" deleted',
    r'bundledeployment\.core\.rukpak\.io "greeter" deleted',
    r"\$ .* get deployment,service,.*",
    r"",
    r"\$ rukpak uninstall --delete --yes|== Cleaned up: .*",
    r"== Cleaned up: .*",
]


def pictured_commands() -> set[str]:
    """Return the commands that the picture of README.md shows, except shortened ones."""
    lines = excerpt(PICTURED.read_text(encoding="utf-8"))
    return {line for line in lines if line.startswith("$ ") and not line.endswith("…")}


@pytest.fixture(scope="module", autouse=True)
def _programs(binaries: Binaries) -> None:
    """Obtain here what takes minutes: the deadlines of tests are shorter."""
    binaries.obtain([*CONTROL_PLANE, "kwok", "registry"])


@contextmanager
def demo(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Start hack/demo; whatever becomes of the test, it cleans up."""
    with subprocess.Popen(
        [ROOT / "hack" / "demo", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.thorough
def test_shows_each_step_and_leaves_nothing_behind(own_kubeconfig: Path | None, settings: Settings) -> None:
    options = [f"--kubeconfig={own_kubeconfig}"] if own_kubeconfig else []
    with demo(*options) as process:
        said, complaint = process.communicate()
    assert process.returncode == 0, said + complaint
    assert missing_line(said, [*TRANSCRIPT, *DELETED]) is None, said
    assert pictured_commands() <= set(said.splitlines())
    assert not folders_of(process.pid, settings)


@pytest.mark.thorough
@pytest.mark.own_cluster
@pytest.mark.timeout(900)
def test_keep_leaves_it_running_and_says_how_to_use_and_end_it(tmp_path: Path) -> None:
    pictures = [f"--pictures={tmp_path}"] if find_program() else []
    with demo("--keep", *pictures) as process:
        said, complaint = process.communicate()
    assert process.returncode == 0, said + complaint
    taken = {path.name for path in tmp_path.iterdir()}
    pictured = {f"page-{view}-{scheme}.png" for view in SETTLED for scheme in ("light", "dark")}
    assert taken == (pictured if pictures else set())
    use, end = said.partition("To use it:\n")[2].split("\nTo stop it:\n")
    try:
        deployments = bash(f"{use}\nkubectl rukpak status")
        is_paused = "true" if pictures else "false"  # the pictures show what has drifted
        assert re.search(rf"demo +plain +{is_paused} +True", deployments)
    finally:
        bash(end)
    assert not Path(bash(f"{use}\necho $KUBECONFIG").strip()).exists()


@pytest.mark.thorough
def test_takes_away_from_a_cluster_that_one_has_what_it_brought(kwok_cluster: Cluster) -> None:
    kwok_cluster.kubectl("apply", "-f", "-", input=json.dumps(SYSTEM))
    with demo(f"--kubeconfig={kwok_cluster.kubeconfig}") as process:
        said, complaint = process.communicate()
    assert process.returncode == 0, said + complaint
    assert missing_line(said, [*TRANSCRIPT, *DELETED[:1]]) is None, said
    left = kwok_cluster.kubectl("get", "namespace", "demo", "rukpak-system", "--ignore-not-found", "--output=name")
    assert left.split() == ["namespace/rukpak-system"]


@pytest.mark.thorough
def test_refuses_a_cluster_where_its_namespace_is_somebody_elses(kwok_cluster: Cluster) -> None:
    kwok_cluster.kubectl("create", "namespace", "demo")
    try:
        with demo(f"--kubeconfig={kwok_cluster.kubeconfig}") as process:
            _, complaint = process.communicate()
        assert (process.returncode, 'already has a namespace "demo"' in complaint) == (1, True), complaint
    finally:
        kwok_cluster.kubectl("delete", "namespace", "demo")


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_ctrl_c_cleans_up(settings: Settings) -> None:
    with demo() as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        next(line for line in lines if line.startswith("$ kubectl apply"))
        process.send_signal(signal.SIGINT)
        rest = "".join(lines)
    assert process.returncode == INTERRUPTED, rest
    assert not folders_of(process.pid, settings)


@pytest.mark.thorough
@pytest.mark.own_cluster
def test_a_failure_is_told_and_cleaned_up(settings: Settings) -> None:
    with demo() as process:
        wait_for(lambda: folders_of(process.pid, settings), 60, "the folder of the demonstration")
        # A folder that is deleted while its owner writes in it would be there again.
        process.send_signal(signal.SIGSTOP)
        take_away(folders_of(process.pid, settings)[0])
        process.send_signal(signal.SIGCONT)
        _, complaint = process.communicate()
    assert process.returncode == 1
    assert re.search(r"^hack/demo: .+", complaint, re.MULTILINE)
    assert not folders_of(process.pid, settings)


@pytest.mark.parametrize(
    ("options", "status", "complaint"),
    [
        pytest.param(["--kubeconfig=nowhere"], 1, "nowhere", id="a kubeconfig that is not there"),
        pytest.param(["--what"], 2, "--what", id="an option that there is not"),
    ],
)
def test_misuse_is_told_at_once(options: list[str], status: int, complaint: str) -> None:
    with demo(*options) as process:
        said, told = process.communicate()
    assert (process.returncode, said) == (status, "")
    assert complaint in told.splitlines()[-1]


def bash(commands: str) -> str:
    return subprocess.check_output(["bash", "-c", commands], cwd=ROOT, text=True)


def missing_line(said: str, expected: list[str]) -> str | None:
    """Return the first expected line that does not come after the one before it; None if all do."""
    lines = iter(said.splitlines())
    return next((each for each in expected if not any(re.fullmatch(each, line) for line in lines)), None)


def folders_of(process: int, settings: Settings) -> list[Path]:
    return [path for path in settings.running.glob(f"demo-{process}*") if path.is_dir()]
