"""A machine whose clock is years off, at start or while the controller works: it says so, and nothing stays broken.

The API server and the tests have the right time. The clock of the controller is set by a preloaded library, which also
moves what OpenSSL compares the dates of certificates with.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.processes import make_owned_folder, take_away
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, config_map, image, new_world
from tests.support.controller import Controller
from tests.support.processes import YEAR, SetClock
from tests.support.registry import LocalRegistry
from tests.support.weather import Weather

NOT_VALID_YET = "the certificate of the API server is not valid yet by the clock of this machine; check the clock"
EXPIRED = "the certificate of the API server has expired by the clock of this machine; check the clock"
OFF = [pytest.param(-10 * YEAR, NOT_VALID_YET, id="back"), pytest.param(10 * YEAR, EXPIRED, id="ahead")]
SIGNS_SECONDS = 90.0
"""Readiness fails after 15 s of silence; the rest is for a busy machine."""

pytestmark = [pytest.mark.own_cluster, pytest.mark.long, pytest.mark.thorough]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> SetClock:
    return SetClock(tmp_path_factory.mktemp("clock"))


def make_controller(clock: SetClock, folder: Path, kubeconfig: Path, *options: str, environment: Any) -> Controller:
    return Controller(folder, kubeconfig, *options, environment={**environment, **clock.environment})


@pytest.fixture
def timed_world(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, clock: SetClock
) -> Iterator[World]:
    """A world whose controller talks TLS to the API server, and does not exit while that is impossible."""
    patient = ("--lease-duration=900", "--renew-deadline=800")
    make = partial(make_controller, clock)
    with new_world(fresh_cluster, registry, settings.running, *patient, make=make) as world:
        yield world
        clock.set(0)
        print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed


@pytest.fixture
def plain_world(
    fresh_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, clock: SetClock
) -> Iterator[World]:
    """A world whose controller talks plain http to a proxy, so that it works whatever its clock says."""
    folder = make_owned_folder(settings.running, "weather")
    make = partial(make_controller, clock)
    with Weather(fresh_cluster.server, fresh_cluster.folder / "ca.crt") as weather:
        kubeconfig = weather.write_kubeconfig(folder / "kubeconfig")
        with new_world(fresh_cluster, registry, settings.running, kubeconfig=kubeconfig, make=make) as world:
            yield world
            clock.set(0)
            print(world.controller.log)  # noqa: T201 -- pytest shows it where the test has failed
    take_away(folder)


def probe(world: World, path: str) -> tuple[int, str]:
    """Return status and body of a probe."""
    try:
        with urllib.request.urlopen(f"{world.controller.address('--probe-address')}{path}", timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_told(world: World, problem: str, since: int) -> None:
    """Wait until readiness, health and the log say what is wrong; a restart would not help, so health does not fail."""

    def is_told() -> bool:
        ready, health = probe(world, "/readyz"), probe(world, "/healthz")
        log = [line for line in world.controller.log[since:].splitlines() if problem in line]
        has_logged = all(
            any(logger in line for line in log) for logger in ("rukpak.controller.kube.watch", "kube.lease")
        )
        return has_logged and problem in ready[1] and problem in health[1] and (ready[0], health[0]) == (503, 200)

    world.wait(is_told, f"probes and log say: {problem}", seconds=SIGNS_SECONDS)


def wait_over(world: World) -> None:
    world.wait(lambda: probe(world, "/readyz") == (200, "ok\n"), "ready again")
    assert probe(world, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize(("ahead", "problem"), OFF)
def test_a_clock_that_is_set_while_it_runs_is_named_until_it_is_right_again(
    timed_world: World, fresh_cluster: ControlPlane, clock: SetClock, ahead: float, problem: str
) -> None:
    deployed = timed_world.deploy(config_map("a"))
    installed = deployed.wait_ready()["installedRevision"]
    said = len(timed_world.controller.log)

    clock.set(ahead)
    fresh_cluster.stop("kube-apiserver")  # ends the connections that were made before
    fresh_cluster.start("kube-apiserver")
    wait_told(timed_world, problem, said)
    deployed.edit("a", color="red")
    deployed.change(sources=[image(timed_world.push(deployed.name, config_map("a"), config_map("b"), tag="v2"))])
    clock.set(0)

    wait_over(timed_world)
    deployed.wait_installed(installed)
    timed_world.wait(lambda: deployed.data("a") == deployed.data("b") == {"color": "blue"}, "drift repaired")


@pytest.mark.parametrize(("ahead", "problem"), OFF)
def test_a_clock_that_is_wrong_at_the_start_is_named_until_it_is_right(
    timed_world: World, clock: SetClock, ahead: float, problem: str
) -> None:
    timed_world.controller.kill()
    said = len(timed_world.controller.log)
    clock.set(ahead)
    timed_world.controller.start()
    timed_world.controller.wait_for(
        lambda: "listening" in timed_world.controller.log[said:], SIGNS_SECONDS, "its probes are served"
    )
    deployed = timed_world.deploy(config_map("a"))

    wait_told(timed_world, problem, said)
    clock.set(0)

    wait_over(timed_world)
    deployed.wait_ready()


@pytest.mark.parametrize("ahead", [-10 * YEAR, 10 * YEAR], ids=["back", "ahead"])
def test_whatever_the_clock_says_bundles_are_installed_upgraded_repaired_and_deleted(
    plain_world: World, clock: SetClock, ahead: float
) -> None:
    kept, deleted = (plain_world.deploy(config_map("a")) for _ in range(2))
    installed = kept.wait_ready()["installedRevision"]
    deleted.wait_ready()

    clock.set(ahead)
    kept.change(sources=[image(plain_world.push(kept.name, config_map("b"), tag="v2"))])
    installed = kept.wait_installed(installed)["installedRevision"]
    kept.edit("b", color="red")
    deleted.delete()
    new = plain_world.deploy(config_map("a"))
    deleted.wait_gone()
    new.wait_ready()
    clock.set(0)

    plain_world.restart()
    plain_world.wait(lambda: kept.data("b") == {"color": "blue"}, "drift repaired")
    for each, name in ((kept, "c"), (new, "d")):
        each.change(sources=[image(plain_world.push(each.name, config_map(name), tag="v3"))])
    kept.wait_installed(installed)
    assert kept.objects().keys() == {"c"}
    plain_world.wait(lambda: new.objects().keys() == {"d"}, "the new one upgraded")


def test_a_deadline_that_expired_only_by_the_clock_has_not_once_that_is_right(
    plain_world: World, clock: SetClock
) -> None:
    pod = {"containers": [{"name": "web", "image": "example.com/web"}]}  # there is no node
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    }
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    deployed = plain_world.deploy(web, progressDeadline="1h")
    deployed.wait_for("Healthy", "False", "Progressing")
    plain_world.controller.kill()
    clock.set(10 * YEAR)
    plain_world.controller.start()
    deployed.wait_for("Healthy", "False", "ProgressDeadlineExceeded")

    clock.set(0)

    plain_world.wait(
        lambda: deployed.conditions()["Healthy"]["reason"] == "Progressing",
        "progressing again",
        seconds=SIGNS_SECONDS * 2,
    )
