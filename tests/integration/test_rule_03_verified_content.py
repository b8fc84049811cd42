"""Rule 3: content is addressed by digest and verified. The attacks on archives are in test_bad_input.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bundles import World, bundle_of, config_map, exists, image, new_name
from tests.support.faulty_registry import FaultyRegistry
from tests.support.registry import pack


@pytest.fixture
def faulty_registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        yield registry


def test_content_that_is_not_what_its_digest_says_is_never_applied(
    world: World, faulty_registry: FaultyRegistry
) -> None:
    faulty_registry.add_image("v1", pack(bundle_of(config_map("settings", unique=new_name()))))
    (digest,) = faulty_registry.blobs
    faulty_registry.blobs[digest] = bytes(len(faulty_registry.blobs[digest]))

    deployed = world.deploy(ref=f"{faulty_registry.host}/bundle:v1")

    deployed.wait_for("Unpacked", "False", "DigestMismatch", saying=digest)
    assert not exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")
    assert deployed.revisions() == []


def test_stored_content_that_was_changed_is_fetched_again(world: World) -> None:
    unique = new_name()
    deployed = world.deploy(config_map("settings", color=unique))
    deployed.wait_ready()
    world.controller.kill()
    for path in world.store.glob("entries/*/content/manifests/*"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes().replace(unique.encode(), b"planted"))
    world.controller.start()

    deployed.change(sources=[image(deployed.ref, destination="elsewhere")])

    deployed.wait_ready()
    assert deployed.data("settings") == {"color": unique}


def test_a_layer_that_breaks_off_leaves_nothing_and_is_fetched_again(
    world: World, faulty_registry: FaultyRegistry
) -> None:
    unique = new_name()
    faulty_registry.add_image("v1", pack(bundle_of(config_map("settings", color=unique))))
    faulty_registry.faults.where, faulty_registry.faults.cut_after = "/blobs/", 100
    deployed = world.deploy(ref=f"{faulty_registry.host}/bundle:v1")
    deployed.wait_for("Unpacked", "False", "Unreachable")
    assert unique.encode() not in b"".join(path.read_bytes() for path in world.store.rglob("*.json"))

    faulty_registry.faults.cut_after = -1

    deployed.wait_ready()
    assert deployed.data("settings") == {"color": unique}
