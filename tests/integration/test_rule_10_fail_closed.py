"""Rule 10: what is not safe, or not known, is refused with a condition that says what to do, and nothing is applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pytest

from tests.support.bundles import World, config_map, exists, image, new_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    reason: str
    saying: str
    """The field that is to blame."""
    spec: dict[str, Any] = field(default_factory=dict)
    ref: str = ""


# fmt: off
CASES = [
    # Left out of account, each of these would apply more, or with more rights, than the spec says.
    Case(name="config that nobody reads", spec={"config": {"values": {}}}, reason="InvalidConfig",
         saying="spec.config.values"),
    Case(name="a format of a plug-in that is not installed", spec={"format": "example.com/jsonnet"},
         reason="UnknownFormat", saying="example.com/jsonnet"),
    Case(name="a source of a plug-in that is not installed",
         spec={"sources": [{"kind": "example.com/s3", "parameters": {"bucket": "b"}}]}, reason="UnknownSourceKind",
         saying="example.com/s3"),
    Case(name="the address of a cloud's metadata", ref="169.254.169.254/latest/meta-data:v1", reason="InsecureRefused",
         saying="spec.sources[0].image"),
    Case(name="a reference that cannot be one", ref="example.com/UPPER:v1", reason="InvalidReference",
         saying="spec.sources[0].image.ref"),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_refused_is(world: World, case: Case) -> None:
    deployed = world.deploy(config_map("settings"), ref=case.ref, **case.spec)

    installed = deployed.wait_for("Installed", "False", case.reason, saying=case.saying)

    ready = deployed.wait_for("Ready", "False", case.reason)
    deployed.wait_for("Stalled", "True", case.reason)
    assert ready["message"] in installed["message"]
    assert not exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")
    assert deployed.revisions() == []


def test_what_becomes_unsafe_later_stops_at_what_is_installed(world: World) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    installed = deployed.wait_ready()

    deployed.change(config={"values": {}})

    deployed.wait_for("Installed", "False", "InvalidConfig")
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair")
    assert deployed.status()["installedRevision"] == installed["installedRevision"]


def test_an_image_from_plain_http_beyond_loopback_is_not_fetched(world: World) -> None:
    port = world.registry.host.rpartition(":")[2]
    name = new_name()
    world.push(name, config_map("settings"))
    deployed = world.deploy(name=name, ref=f"localhost.localdomain.invalid:{port}/{name}:v1")

    deployed.wait_for("Unpacked", "False", "Unreachable")
    deployed.change(sources=[image(f"{world.registry.host}/{name}:v1")])
    deployed.wait_ready()
