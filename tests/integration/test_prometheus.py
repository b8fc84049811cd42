"""A real Prometheus scrapes a run with failure, drift, pause and another leader: metrics move as their help says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from controller.manager.descriptions import DESCRIBED
from hack.control_plane.binaries import Binaries
from hack.control_plane.cluster import ControlPlane
from hack.control_plane.folders import make_owned_folder, take_away
from hack.control_plane.ports import free_ports
from hack.control_plane.prometheus import Prometheus
from hack.control_plane.settings import Settings
from hack.control_plane.waiting import wait_for
from tests.support.bundles import ROOT, Deployed, World, config_map, new_name, new_world
from tests.support.controller import Controller
from tests.support.registry import LocalRegistry

SECONDS = 60.0
RULES = ROOT / "config/prometheus/rules.yaml"
NAMES = re.compile(r"\b((?:rukpak|controller_runtime|workqueue|rest_client|leader_election|process)_[a-z_]+)\b")


def rules_file(folder: Path) -> Path:
    """Write the rules as Prometheus itself reads them, without the object that the operator reads."""
    resource = yaml.load(RULES.read_text(), yaml.CSafeLoader)  # noqa: TID251 - a file of ours
    path = folder / "rukpak.yaml"
    path.write_text(json.dumps(resource["spec"]))
    return path


def test_the_rules_do_what_they_say(binaries: Binaries, tmp_path: Path) -> None:
    promtool = binaries.obtain(["promtool"])["promtool"]
    rules_file(tmp_path)
    shutil.copy(ROOT / "tests/data/prometheus/rules.yaml", tmp_path / "tests.yaml")
    done = subprocess.run(
        [promtool, "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    tested = set(
        re.findall(r"alertname: (\w+)\n    exp_alerts", (ROOT / "tests/data/prometheus/rules.yaml").read_text())
    )
    assert alerts == tested


@pytest.mark.parametrize("name", ["rules.yaml", "dashboard.json"])
def test_rules_and_dashboard_name_metrics_that_there_are(name: str) -> None:
    known = {*DESCRIBED, "process_resident_memory_bytes"}
    known |= {f"{each.name}_bucket" for each in DESCRIBED.values() if each.type == "histogram"}
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
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, binaries: Binaries
) -> Iterator[Watched]:
    ports = dict(zip(("leader", "standby"), map(str, free_ports(2)), strict=True))
    program = binaries.obtain(["prometheus"])["prometheus"]
    folder = make_owned_folder(settings.running, "prometheus")
    other = make_owned_folder(settings.running, "controller")
    address = "--metrics-address=127.0.0.1:"
    with new_world(fresh_cluster, registry, settings.running, address + ports["leader"], is_shared=False) as world:
        world.wait(lambda: '"msg": "leading"' in world.controller.log, "a leader")
        standby = Controller(other, fresh_cluster.kubeconfig, address + ports["standby"], environment={})
        targets = [f"127.0.0.1:{port}" for port in ports.values()]
        prometheus = Prometheus(folder, program, targets, rules_file(folder))
        try:
            standby.start()
            prometheus.start()
            yield Watched(world=world, standby=standby, prometheus=prometheus, ports=ports)
        finally:
            prometheus.stop()
            standby.kill()
            print(standby.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)
    take_away(other)


def leads(watched: Watched, who: str) -> str:
    return f'leader_election_master_status{{name="rukpak",instance="127.0.0.1:{watched.ports[who]}"}}'


def phase(name: str, outcome: str = "success") -> str:
    return f'sum(rukpak_phase_duration_seconds_count{{phase="{name}",outcome="{outcome}"}})'


def source(result: str) -> str:
    return f'sum(rukpak_source_requests_total{{kind="image",result="{result}"}})'


pytestmark = pytest.mark.timeout(300)
DETECTED, REPAIRED = "sum(rukpak_drift_detected_total)", "sum(rukpak_drift_repaired_total)"
QUEUE = '{name="bundledeployment",controller="bundledeployment"}'


def test_a_process(watched: Watched) -> None:
    watched.wait_for(leads(watched, "leader"))
    watched.wait_for(leads(watched, "standby"), 0)
    watched.wait_for('count(rukpak_build_info{version!=""})', 2)
    watched.wait_for('sum(rest_client_requests_total{code="200",method="GET"})')
    watched.wait_for("sum(process_resident_memory_bytes)")


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
    known = {metric["__name__"] for metric, _ in watched.prometheus.query('last_over_time({job="rukpak"}[10m])')}
    assert {name for name, each in DESCRIBED.items() if each.type != "histogram"} - known == set()


def test_another_leader_tells_what_the_first_told(watched: Watched) -> None:
    deployed = watched.world.deploy(config_map("settings"))
    deployed.wait_ready()
    watched.wait_for(watched.condition(deployed, "Ready"))
    watched.world.controller.stop()
    watched.wait_for(leads(watched, "standby"))
    instance = f"127.0.0.1:{watched.ports['standby']}"
    watched.wait_for(f'rukpak_bundledeployment_condition{{name="{deployed.name}",type="Ready",instance="{instance}"}}')
