"""A real Prometheus scrapes a run with failure, drift, pause and another leader: metrics move as their help says.

The last test looks back on the run of all tests before it: every metric there is has moved.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.control_plane.prometheus import Prometheus
from rukpak.api.names import GROUP, PLURAL
from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import free_ports, make_owned_folder, take_away, wait_for
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, Deployed, World, config_map, image, new_name, new_world
from tests.support.charts import repository_of
from tests.support.controller import Controller
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.inside import ApiError
from tests.support.objects import deployment
from tests.support.private_sources import FORGE, archive_of, commit_bundle
from tests.support.registry import LocalRegistry
from tests.support.web_servers import FaultyServer

SECONDS = 60.0
RULES = ROOT / "config/prometheus/rules.yaml"
DOCUMENTED = {
    name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
    for name, kind, labels in re.findall(
        r"^\| `(\w+)` \| (counter|gauge|histogram) \| (.*?) \|", (ROOT / "config/README.md").read_text(), re.MULTILINE
    )
}
"""The metrics that users are told of, with type and labels, but for those of every process."""
PROCESS_METRICS = frozenset(re.findall(r"`(process_\w+)`", (ROOT / "config/README.md").read_text()))
TESTS_OF_RULES = sorted((ROOT / "tests/data/prometheus").glob("*.yaml"))
NAMES = re.compile(r"\b((?:rukpak|controller_runtime|workqueue|rest_client|leader_election|process)_[a-z_]+)\b")


def rules_file(folder: Path) -> Path:
    """Write the rules as Prometheus itself reads them, without the object that the operator reads."""
    resource = yaml.load(RULES.read_text(), yaml.CSafeLoader)  # noqa: TID251 - a file of ours
    path = folder / "rukpak.yaml"
    path.write_text(json.dumps(resource["spec"]))
    return path


def test_the_rules_do_what_they_say(prometheus: Mapping[str, Path], tmp_path: Path) -> None:
    rules_file(tmp_path)
    done = subprocess.run(
        [prometheus["promtool"], "test", "rules", *(shutil.copy(each, tmp_path) for each in TESTS_OF_RULES)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    tested = {
        name for each in TESTS_OF_RULES for name in re.findall(r"alertname: (\w+)\n    exp_alerts", each.read_text())
    }
    assert alerts == tested


@pytest.mark.parametrize("name", ["rules.yaml", "dashboard.json"])
def test_rules_and_dashboard_name_metrics_that_there_are(name: str) -> None:
    known = {*DOCUMENTED, "process_resident_memory_bytes"}
    known |= {f"{name}_bucket" for name, (kind, _) in DOCUMENTED.items() if kind == "histogram"}
    text = (ROOT / "config/prometheus" / name).read_text()
    expressions = re.sub(r"rukpak:[\w:]+", "", text)
    assert set(NAMES.findall(expressions)) <= known


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Two controllers, and a Prometheus that scrapes them."""

    world: World
    standby: Controller
    prometheus: Prometheus
    ports: dict[str, str]
    """Of the leader's and the standby's metrics."""

    def wait_for(self, expression: str, value: float = 1) -> None:
        """Wait until an expression is at least a value, or is 0 if that is asked for."""

        def holds() -> bool:
            found = self.prometheus.value(expression)
            return found is not None and (found >= value if value else found == 0)

        wait_for(holds, SECONDS, lambda: f"{expression} is {self.prometheus.value(expression)}, wanted {value}")

    def condition(self, deployed: Deployed, kind: str) -> str:
        return f'max(rukpak_bundledeployment_condition{{name="{deployed.name}",type="{kind}"}})'


@pytest.fixture(scope="module")
def watched(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, prometheus: Mapping[str, Path]
) -> Iterator[Watched]:
    ports = dict(zip(("leader", "standby"), map(str, free_ports(2)), strict=True))
    folder = make_owned_folder(settings.running, "prometheus")
    other = make_owned_folder(settings.running, "controller")
    address = "--metrics-address=127.0.0.1:"
    with new_world(fresh_cluster, registry, settings.running, address + ports["leader"], is_shared=False) as world:
        world.wait(lambda: '"msg": "leading"' in world.controller.log, "a leader")
        standby = Controller(other, fresh_cluster.kubeconfig, address + ports["standby"], environment={})
        targets = [f"127.0.0.1:{port}" for port in ports.values()]
        server = Prometheus(folder, prometheus["prometheus"], targets, rules_file(folder))
        try:
            standby.start()
            server.start()
            yield Watched(world=world, standby=standby, prometheus=server, ports=ports)
        finally:
            server.stop()
            standby.kill()
            print(standby.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)
    take_away(other)


def leads(watched: Watched, who: str) -> str:
    return f'leader_election_master_status{{name="rukpak",instance="127.0.0.1:{watched.ports[who]}"}}'


def phase(name: str, outcome: str = "success") -> str:
    return f'sum(rukpak_phase_duration_seconds_count{{phase="{name}",outcome="{outcome}"}})'


def source(result: str, kind: str = "image") -> str:
    return f'sum(rukpak_source_requests_total{{kind="{kind}",result="{result}"}})'


pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
DETECTED, REPAIRED = "sum(rukpak_drift_detected_total)", "sum(rukpak_drift_repaired_total)"
POLLED = ("image", "git", "http")
STATUSES = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": [f"{PLURAL}/status"]}
"""What an admission rule is about."""
QUEUE = '{name="bundledeployment",controller="bundledeployment"}'


def test_a_process(watched: Watched) -> None:
    watched.wait_for(leads(watched, "leader"))
    watched.wait_for(leads(watched, "standby"), 0)
    watched.wait_for('count(rukpak_build_info{version!=""})', 2)
    watched.wait_for('sum(rest_client_requests_total{code="200",method="GET"})')
    watched.wait_for("sum(process_resident_memory_bytes)")


@pytest.fixture(scope="module")
def polled(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployed, FaultyServer]]:
    """A BundleDeployment that polls a source of each kind, and the server of the file."""
    world, name, root = watched.world, new_name(), tmp_path_factory.mktemp("git")
    with GitHttpServer(root) as git, FaultyServer() as files:
        commit_bundle(GitRepository(root / "shop.git", config=FORGE), config_map("of-git"))
        files.add("/shop.tar.gz", archive_of(config_map("of-http")), tag='"1"')
        for path, body in repository_of("web", "1.0.0", folder="/charts").items():
            files.add(path, body)
        sources = [
            image(world.push(name, config_map("of-image")), "a"),
            {"kind": "git", "destination": "b", "git": {"repository": f"{git.url}/shop.git", "directory": "deploy"}},
            {"kind": "http", "destination": "c", "http": {"url": f"{files.address}/shop.tar.gz"}},
        ]
        yield world.deploy(ref="none", name=name, sources=[{**each, "pollInterval": "30s"} for each in sources]), files


def test_every_kind_of_source(watched: Watched, polled: tuple[Deployed, FaultyServer]) -> None:
    polled[0].wait_ready()
    for kind in POLLED:
        watched.wait_for(source("resolved", kind))
        # a file is in the store once its digest is known
        watched.wait_for(source("reused" if kind == "http" else "fetched", kind))


def test_charts_and_local_content(watched: Watched, polled: tuple[Deployed, FaultyServer]) -> None:
    chart = {"repository": f"{polled[1].address}/charts", "name": "web", "version": "1.0.0"}
    deployed = watched.world.deploy(ref="none", format="helm", sources=[{"kind": "chart", "chart": chart}])
    local = watched.world.deploy(ref="none", sources=[{"kind": "configMap", "configMap": {"name": "content"}}])
    local.wait_for("Unpacked", "False", "NotFound")
    watched.wait_for(source("error", "configMap"))
    deployed.wait_ready()
    watched.wait_for(source("resolved", "chart"))


def test_an_install_and_an_upgrade(watched: Watched) -> None:
    world = watched.world
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others"))
    deployed.wait_ready()
    watched.wait_for(watched.condition(deployed, "Ready"))
    watched.wait_for('sum(rukpak_managed_objects{state="healthy"})', 2)
    for name in ("resolve", "fetch", "render", "apply"):
        watched.wait_for(phase(name))
    watched.wait_for(source("resolved"))
    watched.wait_for(source("fetched"))
    watched.wait_for("max(rukpak_content_store_bytes)")
    watched.wait_for("rukpak:bundledeployments_ready:sum")

    before = deployed.status()["installedRevision"]
    ref = world.push(deployed.name, config_map("settings", color="blue"), tag="v2")
    deployed.change(sources=[{"kind": "image", "image": {"ref": ref}}])
    deployed.wait_installed(before)
    watched.wait_for(phase("prune"))
    deployed.request_reconcile("now")
    watched.wait_for(source("reused"))


def test_objects_that_progress_await_prune_and_fail(watched: Watched) -> None:
    world, objects = watched.world, 'sum(rukpak_managed_objects{{state="{}"}})'.format
    deployed = world.deploy(config_map("settings"), config_map("others"), progressDeadline="3s")
    deployed.wait_ready()
    ref = world.push(deployed.name, config_map("settings"), deployment("never", replicas=1), tag="v2")
    deployed.change(sources=[image(ref)])
    watched.wait_for(objects("progressing"))
    watched.wait_for(objects("retained"))
    watched.wait_for(objects("failed"))
    watched.wait_for(objects("progressing"), 0)
    deployed.delete()
    watched.wait_for(objects("failed"), 0)
    watched.wait_for(objects("retained"), 0)


def test_more_to_do_than_workers(watched: Watched) -> None:
    with slow_statuses(watched.world):
        for _ in range(8):
            watched.world.deploy(config_map("settings"))
        watched.wait_for(f"sum(workqueue_depth{QUEUE})")
        watched.wait_for("sum(controller_runtime_active_workers)", 4)
        watched.wait_for(f"sum(workqueue_longest_running_processor_seconds{QUEUE})", 2)
        watched.wait_for(f"sum(workqueue_unfinished_work_seconds{QUEUE})", 5)
    watched.wait_for(f"sum(workqueue_depth{QUEUE})", 0)
    watched.wait_for("sum(controller_runtime_active_workers)", 0)


@contextmanager
def slow_statuses(world: World) -> Iterator[None]:
    """Let every write of a status take some seconds: the API server asks a webhook that is silent, and goes on."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as silent:
        webhook = {
            "name": "slow.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{silent.getsockname()[1]}/"},
            "rules": [STATUSES],
            "timeoutSeconds": 4,
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        apply(world, "ValidatingWebhookConfiguration", "slow-statuses", webhooks=[webhook])
        try:
            yield
        finally:
            world.cluster.kubectl("delete", "validatingwebhookconfiguration", "slow-statuses")


def apply(world: World, kind: str, name: str, **content: Any) -> None:
    """Apply an object of the group of admission."""
    manifest = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **content}
    world.cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))


def test_an_api_server_that_refuses_a_status(watched: Watched) -> None:
    deployed = watched.world.deploy(config_map("settings"))
    deployed.wait_ready()
    errors = 'sum(controller_runtime_reconcile_errors_total{controller="bundledeployment"})'
    before = watched.prometheus.value(errors) or 0
    with refused_status(watched.world, deployed):
        deployed.change(paused=True)
        watched.wait_for(errors, before + 1)
        watched.wait_for(f"sum(workqueue_retries_total{QUEUE})")
        watched.wait_for('sum(controller_runtime_reconcile_total{result="error"})', before + 1)
    deployed.wait_for("Paused")
    deployed.change(paused=False)
    deployed.wait_ready()


@contextmanager
def refused_status(world: World, deployed: Deployed) -> Iterator[None]:
    """Let the API server refuse every status of one BundleDeployment."""
    name, kinds = deployed.name, ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    refusal = {"expression": f"object.metadata.name != '{name}'"}
    apply(world, kinds[0], name, spec={"matchConstraints": {"resourceRules": [STATUSES]}, "validations": [refusal]})
    apply(world, kinds[1], name, spec={"policyName": name, "validationActions": ["Deny"]})
    try:
        deployed.wait(lambda: is_status_refused(deployed), "the policy in force")
        yield
    finally:
        world.cluster.kubectl("delete", ",".join(kinds), name)


def is_status_refused(deployed: Deployed) -> bool:
    try:
        deployed.client.merge_patch(f"{deployed.path}/status", {"status": {"warnings": ["probe"]}}, manager="tests")
    except ApiError as error:
        return error.status == 422
    return False


def test_a_failure(watched: Watched) -> None:
    missing = watched.world.deploy(ref=f"{watched.world.registry.host}/{new_name()}:v1")
    missing.wait_for("Unpacked", "False", "NotFound")
    watched.wait_for(watched.condition(missing, "Stalled"))
    watched.wait_for(watched.condition(missing, "Ready"), 0)
    watched.wait_for(source("error"))
    watched.wait_for(phase("resolve", "error"))
    missing.delete()
    watched.wait_for(f'absent(rukpak_bundledeployment_condition{{name="{missing.name}"}})')


def test_drift_and_a_pause(watched: Watched) -> None:
    deployed = watched.world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    detected, repaired = watched.prometheus.value(DETECTED) or 0, watched.prometheus.value(REPAIRED) or 0
    deployed.edit("settings", color="red")
    watched.wait_for(DETECTED, detected + 1)
    watched.wait_for(REPAIRED, repaired + 1)
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")

    deployed.change(paused=True)
    watched.wait_for("rukpak_bundledeployments_paused")
    deployed.edit("settings", color="green")
    watched.wait_for(DETECTED, detected + 2)
    watched.wait_for(watched.condition(deployed, "Drifted"))
    watched.wait_for('sum(rukpak_managed_objects{state="drifted"})')
    deployed.change(paused=False)
    watched.wait_for(REPAIRED, repaired + 2)
    watched.wait_for("rukpak_bundledeployments_paused", 0)


def test_what_the_dashboards_of_controller_runtime_show(watched: Watched) -> None:
    watched.world.deploy(config_map("settings")).wait_ready()
    bundle = 'controller="bundledeployment"'
    watched.wait_for(f'sum(controller_runtime_reconcile_total{{{bundle},result="success"}})')
    watched.wait_for(f"sum(controller_runtime_reconcile_time_seconds_count{{{bundle}}})")
    watched.wait_for(f"max(controller_runtime_max_concurrent_reconciles{{{bundle}}})", 4)
    watched.wait_for(f"sum(workqueue_adds_total{QUEUE})")
    watched.wait_for(f"sum(workqueue_queue_duration_seconds_count{QUEUE})")
    watched.wait_for(f"sum(workqueue_work_duration_seconds_count{QUEUE})")


def test_polls_of_what_has_not_changed(watched: Watched, polled: tuple[Deployed, FaultyServer]) -> None:
    for kind in POLLED:
        watched.wait_for(source("not modified", kind))
    assert '"1"' in polled[1].sent("If-None-Match")


def test_since_when_a_revision_waits_for_approval(watched: Watched) -> None:
    deployed = watched.world.deploy(config_map("settings", color="blue"), approval="Manual")
    waiting = f'rukpak_bundledeployment_pending_timestamp_seconds{{name="{deployed.name}"}}'
    watched.wait_for(f"max({waiting})")
    first = deployed.status()["pending"]
    since = watched.prometheus.value(f"max({waiting})") or 0.0
    wait_for(lambda: time.time() > since + 1, SECONDS, "the next second, since the metric has no fractions")
    deployed.change(sources=[image(watched.world.push(deployed.name, config_map("settings", color="red"), tag="v2"))])
    watched.wait_for(f"max(max_over_time({waiting}[5m]) - min_over_time({waiting}[5m]))")
    second = deployed.status()["pending"]
    assert second["revision"] != first["revision"]
    deployed.change(approvedRevision=second["revision"])
    deployed.wait_ready()
    watched.wait_for(f"absent({waiting})")


def test_another_leader_tells_what_the_first_told(watched: Watched) -> None:
    deployed = watched.world.deploy(config_map("settings"))
    deployed.wait_ready()
    watched.wait_for(watched.condition(deployed, "Ready"))
    watched.world.controller.stop()
    watched.wait_for(leads(watched, "standby"))
    instance = f"127.0.0.1:{watched.ports['standby']}"
    watched.wait_for(f'rukpak_bundledeployment_condition{{name="{deployed.name}",type="Ready",instance="{instance}"}}')


DO_NOT_MOVE = {
    "controller_runtime_max_concurrent_reconciles": "an option of the process",
    "controller_runtime_reconcile_panics_total": "counts bugs, of which the run is to have none",
    "process_max_fds": "a limit of the process",
    "process_start_time_seconds": "when the process began",
    "rukpak_build_info": "always 1: its label is what it tells",
    "rukpak_confinement": "what the kernel has",
    "rukpak_plugin_abandoned_calls": "of plug-ins of other packages, of which there are none",
    "rukpak_plugin_failures_total": "of plug-ins of other packages, of which there are none",
    "rukpak_plugin_info": "always 1: its labels are what it tells",
    "rukpak_preparations": "none waits for a turn here, and none takes as long as from one scrape to the next",
    "rukpak_thread_deaths_total": "counts bugs, of which the run is to have none",
}
FEW = frozenset({"kind", "outcome", "phase", "result", "state"})
"""Labels each value of which is there from the start: for each something has to have happened."""


def movements(name: str) -> Iterator[str]:
    """Yield expressions each of whose samples is above 0 if a metric moved during the whole run."""
    kind, labels = DOCUMENTED.get(name, ("", frozenset()))
    if name == "rukpak_bundledeployment_condition":  # its series come and go
        yield f"changes(count({name})[1h:1s])"
        return
    shown = f"{name}_count" if kind == "histogram" else name
    for label in sorted(FEW & labels) or ["job"]:
        yield f"max by ({label}) (max_over_time({shown}[1h]) - min_over_time({shown}[1h]))"


def test_every_metric_has_moved(watched: Watched) -> None:
    assert DO_NOT_MOVE.keys() < DOCUMENTED.keys() | PROCESS_METRICS
    samples = {
        f"{name}: {expression}": watched.prometheus.query(expression)
        for name in {*DOCUMENTED, *PROCESS_METRICS} - set(DO_NOT_MOVE)
        for expression in movements(name)
    }
    still = {
        said: [labels for labels, value in found if not value]
        for said, found in samples.items()
        if not found or not all(value for _, value in found)
    }
    assert still == {}


def test_what_does_not_move_is_told_all_the_same(watched: Watched) -> None:
    for name in DO_NOT_MOVE:
        assert watched.prometheus.query(f"max_over_time({name}[1h])"), name
    assert watched.prometheus.value("max(max_over_time(controller_runtime_reconcile_panics_total[1h]))") == 0
