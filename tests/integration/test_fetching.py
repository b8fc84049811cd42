"""Fetching: together, once, shown while it lasts, given up when nobody waits, and never half."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest

from tests.support.bundles import Deployed, Manifest, World, bundle_of, config_map, image, new_name
from tests.support.faulty_registry import Faults as RegistryFaults
from tests.support.faulty_registry import FaultyRegistry
from tests.support.git_servers import Faults as GitFaults
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.private_sources import FORGE, commit_bundle
from tests.support.registry import LocalRegistry, pack
from tests.support.web_servers import FaultyServer

MEBIBYTE = 1 << 20
BLUE = config_map("settings", color="blue")
BODY = pack(bundle_of(BLUE))
LARGE = pack({"other.bin": bytes(12 * MEBIBYTE), **bundle_of(BLUE)})
# Slow to send in steps, and within the budget of 512 MiB: what is over it is refused before it begins.


class Gate:
    """A web server that lets a test decide when a body goes on.

    Attributes:
        together: how many requests have to be there before any gets an answer.
        go_on: is called after each MiB of a body, and may wait.
        begun: the first MiB of a body was sent.
        hung_up: a client went in the middle of a body.
    """

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.together = threading.Barrier(1)
        self.go_on: Callable[[], object] = lambda: None
        self.begun = threading.Event()
        self.hung_up = threading.Event()
        self.end = threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gate.answer(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = self.bodies[request.path]
        with suppress(threading.BrokenBarrierError):
            self.together.wait(15)
        if self.together.broken:
            request.send_error(400)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        try:
            for start in range(0, len(body), MEBIBYTE):
                request.wfile.write(body[start : start + MEBIBYTE])
                self.begun.set()
                self.go_on()
        except OSError:
            self.hung_up.set()

    def put(self, name: str, body: bytes) -> Manifest:
        """Have a body; return the entry of the spec."""
        self.bodies[f"/{name}"] = body
        return {"kind": "http", "http": {"url": f"{self.address}/{name}"}}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as started:
        yield started


def deploy(world: World, *sources: Manifest) -> Deployed:
    return world.deploy(name=new_name(), ref="none", sources=list(sources))


def staged(world: World) -> list[Path]:
    """Return what is being written in the content store."""
    return [path for name in ("staging", "scratch") for path in (world.store / name).glob("*")]


def entries(world: World) -> set[str]:
    return {path.name for path in (world.store / "entries").glob("*")}


def test_sources_are_asked_at_the_same_time(world: World, gate: Gate) -> None:
    gate.together = threading.Barrier(3)
    names = ("a", "b", "c")
    bodies = {name: pack(bundle_of(config_map(name))) for name in names}
    deployed = deploy(world, *({**gate.put(name, bodies[name]), "destination": name} for name in names))
    deployed.wait_ready()
    assert set(deployed.objects()) == set(names)


def test_equal_content_is_fetched_once_and_each_asks_for_itself(world: World, registry: LocalRegistry) -> None:
    name = new_name()
    digest = registry.push_image(name, "v1", [bundle_of(BLUE)])
    ref = f"{registry.host}/{name}@{digest}"
    both = [deploy(world, image(ref)) for _ in range(2)]
    for each in both:
        each.wait_ready()
    asked = [line for line in registry.log.splitlines() if '"' in line and f" /v2/{name}/" in line]
    heads = [line for line in asked if f'"HEAD /v2/{name}/manifests/{digest} ' in line]
    blobs = [line for line in asked if f'"GET /v2/{name}/blobs/' in line]
    assert (len(heads), len(blobs)) == (2, 1)


def test_a_fetch_that_nobody_waits_for_any_more_is_given_up(world: World, gate: Gate) -> None:
    gate.go_on = lambda: gate.end.wait(0.2)
    deployed = deploy(world, gate.put("large", LARGE * 40))
    assert gate.begun.wait(60)
    other = new_name()
    ref = world.push(other, BLUE)
    deployed.change(sources=[image(ref)])
    deployed.wait_ready()
    assert gate.hung_up.wait(40)
    deployed.wait(lambda: not staged(world), "nothing left")


def test_the_fetch_of_a_bundle_deployment_that_is_deleted_is_abandoned(world: World, gate: Gate) -> None:
    gate.go_on = lambda: gate.end.wait(0.2)
    deployed = deploy(world, gate.put("large", LARGE * 40))
    assert gate.begun.wait(60)
    deployed.delete()
    deployed.wait_gone()
    assert gate.hung_up.wait(40)


def test_a_fetch_whose_spec_becomes_unservable_is_abandoned(world: World, gate: Gate) -> None:
    gate.go_on = lambda: gate.end.wait(0.2)
    deployed = deploy(world, gate.put("large", LARGE * 40))
    assert gate.begun.wait(60)
    deployed.change(config={"unknown": True})
    deployed.wait_for("Installed", "False", "InvalidConfig")
    assert gate.hung_up.wait(40)


@pytest.mark.thorough
def test_a_long_fetch_tells_how_far_it_is_every_five_seconds(world: World, gate: Gate) -> None:
    gate.go_on = lambda: gate.end.wait(1)
    since = world.position()
    deployed = deploy(world, gate.put("large", LARGE))
    total = len(LARGE) // MEBIBYTE

    found = deployed.wait_for("Unpacked", "False", "Fetching", f" of {total} MiB")
    assert "spec.sources[0]: " in found["message"]
    deployed.wait_ready()

    written = [request for request in world.requests(since) if f"/{deployed.name}/status" in request]
    # the beginning, two reports in 12 s, the pin, the revision before and after it is applied, and the end
    assert 4 <= len(written) <= 8, written


def test_a_kill_in_the_middle_leaves_no_half_content(world: World, gate: Gate) -> None:
    gate.go_on = lambda: gate.end.wait(0.5)
    before = entries(world)
    deployed = deploy(world, gate.put("large", LARGE + bytes(512)))  # content that no other test has
    assert gate.begun.wait(60)
    world.controller.kill()
    assert entries(world) == before

    gate.go_on = lambda: None
    world.controller.start()

    deployed.wait_ready()
    assert len(entries(world)) == len(before) + 1
    deployed.wait(lambda: not staged(world), "nothing left")


# cuts


@dataclass(kw_only=True)
class Cut:
    """A source whose network is cut in the middle of its content, until it is restored."""

    source: Manifest
    restore: Callable[[], None]


@dataclass(kw_only=True)
class Stuck(Cut):
    """A source that hangs in the middle of its content, until it is restored."""

    is_stuck: Callable[[], object]


@pytest.fixture
def cut_image() -> Iterator[Cut]:
    with FaultyRegistry() as registry:
        registry.add_image("v1", LARGE, compression="")
        registry.faults = RegistryFaults(where="/blobs/", cut_after=MEBIBYTE)

        def restore() -> None:
            registry.faults = RegistryFaults()

        yield Cut(source=image(f"{registry.host}/bundle:v1"), restore=restore)


@pytest.fixture
def cut_git(tmp_path: Path) -> Iterator[Cut]:
    with GitHttpServer(tmp_path / "git") as server:
        repository = GitRepository(tmp_path / "git" / "bundle.git", config=FORGE)
        commit_bundle(repository, BLUE, *(config_map(f"other-{number}", x="y" * 10_000) for number in range(20)))
        server.faults = GitFaults(where="/git-upload-pack", cut_after=600)

        def restore() -> None:
            server.faults = GitFaults()

        address = {"repository": f"{server.url}/bundle.git", "ref": "main", "directory": "deploy"}
        yield Cut(source={"kind": "git", "git": address}, restore=restore)


@pytest.fixture
def stuck_image() -> Iterator[Stuck]:
    with FaultyRegistry() as registry:
        registry.add_image("v1", LARGE + bytes(1024), compression="")  # content that no other test has
        registry.faults = RegistryFaults(where="/blobs/", trickle="body")

        def restore() -> None:
            registry.faults = RegistryFaults()

        def is_stuck() -> bool:
            return any("/blobs/" in path for _, path, _ in registry.requests)

        yield Stuck(source=image(f"{registry.host}/bundle:v1"), restore=restore, is_stuck=is_stuck)


@pytest.fixture
def stuck_git(tmp_path: Path) -> Iterator[Stuck]:
    with GitHttpServer(tmp_path / "git") as server:
        repository = GitRepository(tmp_path / "git" / "bundle.git", config=FORGE)
        commit_bundle(repository, config_map("settings", only="here"))
        server.faults = GitFaults(where="/git-upload-pack", hang_after=600)

        def restore() -> None:
            server.faults = GitFaults()

        address = {"repository": f"{server.url}/bundle.git", "ref": "main", "directory": "deploy"}
        yield Stuck(source={"kind": "git", "git": address}, restore=restore, is_stuck=server.hanging.is_set)


@pytest.fixture
def cut_http() -> Iterator[Cut]:
    with FaultyServer() as server:
        file = server.add("/bundle", LARGE, cuts=[1000] * 1000)
        yield Cut(source={"kind": "http", "http": {"url": f"{server.address}/bundle"}}, restore=file.cuts.clear)


@pytest.mark.repeats
@pytest.mark.parametrize("kind", ["image", "git", "http"])
def test_a_network_that_is_cut_in_the_middle_is_survived(
    kind: str, world: World, request: pytest.FixtureRequest
) -> None:
    cut: Cut = request.getfixturevalue(f"cut_{kind}")
    before = entries(world)
    deployed = deploy(world, cut.source)
    deployed.wait_for("Unpacked", "False", "Unreachable")
    assert entries(world) == before

    cut.restore()

    deployed.wait_ready()
    assert "settings" in deployed.objects()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["image", "git"])
def test_a_kill_during_a_fetch_leaves_nothing_behind(kind: str, world: World, request: pytest.FixtureRequest) -> None:
    stuck: Stuck = request.getfixturevalue(f"stuck_{kind}")
    before = entries(world)
    deployed = deploy(world, stuck.source)
    world.wait(stuck.is_stuck, "the middle")
    world.controller.kill()
    assert entries(world) == before

    stuck.restore()
    world.controller.start()

    deployed.wait_ready()
    assert len(entries(world)) == len(before) + 1
    deployed.wait(lambda: not staged(world), "nothing left")


def test_a_file_that_is_cut_is_continued(world: World) -> None:
    with FaultyServer() as server:
        file = server.add("/bundle", LARGE, tag='"1"', cuts=[5 * MEBIBYTE, 5 * MEBIBYTE])
        deployed = deploy(world, {"kind": "http", "http": {"url": f"{server.address}/bundle"}})
        deployed.wait_ready()
        assert not file.cuts
        assert server.sent("Range") == [None, f"bytes={5 * MEBIBYTE}-", f"bytes={10 * MEBIBYTE}-"]


# others


def test_sources_that_hang_hold_up_nobody_else(world: World, gate: Gate, tmp_path: Path) -> None:
    gate.go_on = gate.end.wait
    with GitHttpServer(tmp_path / "git") as server:
        server.faults = GitFaults(silent=True)
        repository = {"kind": "git", "git": {"repository": f"{server.url}/x.git"}}
        hanging = [deploy(world, gate.put("large", LARGE)), deploy(world, repository)]
        assert gate.begun.wait(60)
        deploy(world, image(world.push(new_name(), BLUE))).wait_ready()
        reasons = [each.wait_for("Unpacked", "False")["reason"] for each in hanging]
        assert reasons == ["Fetching", "Fetching"]
        for each in hanging:
            each.delete()
        for each in hanging:
            each.wait_gone()


def test_a_slow_registry_does_not_hold_up_who_has_equal_content_elsewhere(world: World) -> None:
    layer = pack(bundle_of(config_map("settings", color=new_name())))
    with FaultyRegistry() as slow, FaultyRegistry() as quick:
        for registry in (slow, quick):
            registry.add_image("v1", layer)
        slow.faults = RegistryFaults(where="/blobs/", trickle="body")
        first = deploy(world, image(f"{slow.host}/bundle:v1"))
        first.wait(lambda: any("/blobs/" in path for _, path, _ in slow.requests), "the slow fetch has begun")
        second = deploy(world, image(f"{quick.host}/bundle:v1"))
        world.wait(lambda: second.conditions().get("Ready", {}).get("status") == "True" or None, "Ready", 40)
        first.delete()
        first.wait_gone()
