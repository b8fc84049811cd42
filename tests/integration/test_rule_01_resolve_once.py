"""Rule 1: a source is resolved once; from then on nothing goes out to the network for it until somebody asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.support.bundles import Deployed, Manifest, World, bundle_of, config_map, image, new_name
from tests.support.git_servers import GitHttpServer, GitRepository
from tests.support.private_sources import FORGE, archive_of, commit_bundle
from tests.support.registry import LocalRegistry
from tests.support.web_servers import FaultyServer

BLUE, RED = config_map("settings", color="blue"), config_map("settings", color="red")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where bundles come from, and what was asked of it."""

    entry: Callable[[str], Manifest]
    """Of spec.sources, for the name of a bundle."""
    put: Callable[[str, Manifest], object]
    """Have a bundle under a name, in place of what is there."""
    asked: Callable[[str], list[str]]
    """What was asked so far about a name."""

    def deploy(self, world: World, **spec: object) -> Deployed:
        """Deploy a bundle with one blue ConfigMap."""
        name = new_name()
        self.put(name, BLUE)
        return world.deploy(name=name, ref="none", sources=[self.entry(name)], **spec)


@pytest.fixture
def image_origin(registry: LocalRegistry) -> Origin:
    return Origin(
        entry=lambda name: image(f"{registry.host}/{name}:v1"),
        put=lambda name, value: registry.push_image(name, "v1", [bundle_of(value)]),
        asked=registry.requests_to,
    )


@pytest.fixture(scope="module")
def git_origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    root = tmp_path_factory.mktemp("git")
    made: dict[str, GitRepository] = {}

    def put(name: str, value: Manifest) -> str:
        made[name] = made.get(name) or GitRepository(root / f"{name}.git", config=FORGE)
        return commit_bundle(made[name], value)

    with GitHttpServer(root) as server:
        yield Origin(
            entry=lambda name: {
                "kind": "git",
                "git": {"repository": f"{server.url}/{name}.git", "ref": "main", "directory": "deploy"},
            },
            put=put,
            asked=lambda name: [path for _, path, _ in server.requests if f"/{name}.git/" in path],
        )


@pytest.fixture(scope="module")
def http_origin() -> Iterator[Origin]:
    with FaultyServer() as server:
        yield Origin(
            entry=lambda name: {"kind": "http", "http": {"url": f"{server.address}/{name}"}},
            put=lambda name, value: server.add(f"/{name}", archive_of(value)),
            asked=lambda name: [seen.method for seen in server.requests if seen.path == f"/{name}"],
        )


@pytest.fixture(params=["image", "git", "http"])
def origin(request: pytest.FixtureRequest) -> Origin:
    found: Origin = request.getfixturevalue(f"{request.param}_origin")
    return found


def wait_for_drift_repair(deployed: Deployed) -> None:
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")


def pause_and_resume(deployed: Deployed) -> None:
    deployed.change(paused=True)
    deployed.wait_for("Paused")
    deployed.change(paused=False)
    deployed.wait_ready()


def change_the_config(deployed: Deployed) -> None:
    deployed.change(config={"color": "red"})
    deployed.wait_for("Installed", "False", "InvalidConfig")
    deployed.change(config=None)
    deployed.wait_ready()


def render_anew(deployed: Deployed) -> None:
    (source,) = deployed.read()["spec"]["sources"]
    deployed.change(sources=[{**source, "destination": "elsewhere"}])
    deployed.wait_ready()


def look_again(deployed: Deployed) -> None:
    deployed.change(metadata={"finalizers": ["core.rukpak.io/teardown", "example.com/held"]})
    deployed.change(metadata={"finalizers": ["core.rukpak.io/teardown"]})


CASES: dict[str, Callable[[Deployed], None]] = {
    "a look at what has not changed": look_again,
    "drift": wait_for_drift_repair,
    "a pause": pause_and_resume,
    "a change of config": change_the_config,
    "another destination": render_anew,
}


@pytest.mark.repeats
@pytest.mark.parametrize("happens", CASES.values(), ids=CASES)
def test_nothing_goes_out_after_the_first_resolution_for(
    world: World, origin: Origin, happens: Callable[[Deployed], None]
) -> None:
    deployed = origin.deploy(world)
    pins = deployed.wait_ready()["sources"]
    before = origin.asked(deployed.name)
    assert before

    happens(deployed)
    world.wait_until_looked_at()

    assert origin.asked(deployed.name) == before
    found = deployed.status()["sources"]
    assert [pin["resolved"] for pin in found] == [pin["resolved"] for pin in pins]
    assert [pin["resolvedAt"] for pin in found] == [pin["resolvedAt"] for pin in pins]


@pytest.mark.repeats
def test_nothing_goes_out_after_a_restart(world: World, origin: Origin) -> None:
    deployed = origin.deploy(world)
    deployed.wait_ready()
    before = origin.asked(deployed.name)

    world.restart()
    wait_for_drift_repair(deployed)

    assert origin.asked(deployed.name) == before


def lose_content(world: World) -> None:
    world.controller.stop()
    shutil.rmtree(world.store)
    world.controller.start()


def test_an_image_that_was_lost_is_fetched_by_its_digest(world: World, image_origin: Origin) -> None:
    deployed = image_origin.deploy(world)
    digest = deployed.wait_ready()["sources"][0]["digest"]
    image_origin.put(deployed.name, RED)
    before = len(image_origin.asked(deployed.name))
    lose_content(world)

    render_anew(deployed)

    asked = image_origin.asked(deployed.name)[before:]
    assert any(f"/manifests/{digest}" in line for line in asked)
    assert not any("/manifests/v1" in line for line in asked)
    assert deployed.data("settings") == {"color": "blue"}


@pytest.mark.thorough
def test_a_commit_that_was_lost_is_fetched_by_its_name(world: World, git_origin: Origin) -> None:
    deployed = git_origin.deploy(world)
    deployed.wait_ready()
    git_origin.put(deployed.name, RED)
    lose_content(world)

    render_anew(deployed)

    assert deployed.data("settings") == {"color": "blue"}


@pytest.mark.thorough
def test_a_file_that_was_lost_and_is_another_now_is_not_taken_for_it(world: World, http_origin: Origin) -> None:
    deployed = http_origin.deploy(world)
    pins = deployed.wait_ready()["sources"]
    http_origin.put(deployed.name, RED)
    lose_content(world)

    deployed.change(sources=[{**http_origin.entry(deployed.name), "destination": "elsewhere"}])

    deployed.wait_for("Unpacked", "False", "DigestMismatch")
    assert deployed.status()["sources"][0]["digest"] == pins[0]["digest"]
    assert deployed.data("settings") == {"color": "blue"}


def test_what_moves_changes_nothing_until_somebody_asks(world: World, origin: Origin) -> None:
    deployed = origin.deploy(world)
    first = deployed.wait_ready()
    origin.put(deployed.name, RED)
    pause_and_resume(deployed)
    assert deployed.data("settings") == {"color": "blue"}

    deployed.request_reconcile("now")

    second = deployed.wait_installed(first["installedRevision"])
    assert second["lastHandledReconcileAt"] == "now"
    assert second["sources"][0]["digest"] != first["sources"][0]["digest"]
    assert deployed.data("settings") == {"color": "red"}


def test_to_take_the_annotation_off_asks_for_nothing(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    deployed.wait_ready()
    deployed.request_reconcile("once")
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "once", "the request obeyed")
    deployed.wait_ready()
    before = registry.requests_to(deployed.name)

    deployed.change(metadata={"annotations": None})
    world.wait_until_looked_at()

    assert registry.requests_to(deployed.name) == before


def test_a_source_that_comes_back_is_resolved_anew(world: World, registry: LocalRegistry) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    other = world.push(f"{deployed.name}-other", config_map("extra"))
    deployed.change(sources=[image(deployed.ref, "a"), image(other, "b")])
    deployed.wait_ready()
    deployed.change(sources=[image(deployed.ref, "a")])
    deployed.wait_ready()
    assert [pin["destination"] for pin in deployed.status()["sources"]] == ["a"]
    world.push(f"{deployed.name}-other", config_map("extra", color="red"))

    deployed.change(sources=[image(deployed.ref, "a"), image(other, "b")])

    deployed.wait_ready()
    assert deployed.data("extra") == {"color": "red"}
