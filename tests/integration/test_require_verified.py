"""Signatures that the administrator demands by option: a spec can neither leave them out nor spell around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Deployed, World, bundle_of, config_map, image, new_world
from tests.support.cosigned import PrivateKey, make_key, pem_of, signed_bundle, store_bundle
from tests.support.faulty_registry import FaultyRegistry
from tests.support.objects import secret
from tests.support.registry import LocalRegistry, pack

KEY, OWN = make_key(), make_key()


def push(served: FaultyRegistry, color: str, *keys: PrivateKey, tag: str = "v1") -> str:
    digest = served.add_image(tag, pack(bundle_of(config_map("settings", color=color))))
    for key in keys:
        store_bundle(served, digest, signed_bundle(key, digest))
    return digest


def test_what_is_installed_is_checked_when_a_demand_is_new(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, tmp_path: Path
) -> None:
    """The first test: those that follow have one controller, which keeps the Lease.

    Also for a pinned revision no source is asked, so it must have recorded the check itself.
    """
    file = tmp_path / "acme.pub"
    file.write_text(pem_of(KEY), encoding="utf-8")
    with FaultyRegistry() as served, new_world(cluster, registry, settings.running) as world:
        digest = push(served, "blue", KEY, tag="signed")
        push(served, "grey", tag="unsigned")
        push(served, "red", tag="pinned")
        installed = {tag: world.deploy(ref=f"{served.host}/shop/app:{tag}") for tag in ("signed", "unsigned", "pinned")}
        before = {tag: each.wait_ready()["installedRevision"] for tag, each in installed.items()}
        world.controller.stop()
        with new_world(cluster, registry, settings.running, f"--require-verified={served.host}/*={file}") as demanding:
            signed, unsigned, pinned = (replace(each, wait=demanding.wait) for each in installed.values())
            signed.wait(lambda: "verified" in signed.status()["sources"][0], "who has signed it is recorded")
            assert signed.wait_ready()["sources"][0]["digest"] == digest
            unsigned.wait_for("Unpacked", "False", "VerificationFailed")
            for each, color in ((signed, "blue"), (unsigned, "grey")):
                each.edit("settings", color="red")
                each.wait(partial(has_color, each, color), "what is installed is repaired")

            push(served, "blue", KEY, tag="pinned")
            pinned.request_reconcile("signed")
            pinned.wait(lambda: has_color(pinned, "blue"), "what is signed is installed")
            checked = pinned.wait_ready()["installedRevision"]
            pinned.change(pinnedRevision=before["pinned"])
            pinned.wait_for("Installed", "False", "VerificationFailed", "spec.pinnedRevision: revision")
            assert has_color(pinned, "blue"), "what is installed stays"
            push(served, "green", KEY, tag="pinned")
            pinned.change(pinnedRevision="")
            pinned.request_reconcile("without a pin")
            pinned.wait(lambda: has_color(pinned, "green"), "without a pin, sources are asked")
            pinned.change(pinnedRevision=checked)
            pinned.wait(lambda: has_color(pinned, "blue"), "what was checked may be pinned")


def has_color(deployed: Deployed, color: str) -> bool:
    return deployed.data("settings") == {"color": color}


@pytest.fixture(scope="module")
def demanding(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, FaultyRegistry]]:
    """A controller with demands for three repositories, and a registry that has these."""
    file = tmp_path_factory.mktemp("keys") / "acme.pub"
    file.write_text(pem_of(KEY), encoding="utf-8")
    with FaultyRegistry() as served:
        host = served.host
        option = f"--require-verified={host}/shop/*={file},{host}/kept/*=secret:acme,{host}/lost/*={file}.none"
        with new_world(cluster, registry, settings.running, option) as world:
            yield world, served


def own_verify(ref: str) -> dict[str, Any]:
    """Return a source that says itself who must have signed it."""
    return {"kind": "image", "image": {"ref": ref, "verify": {"cosign": {"keys": [{"pem": pem_of(OWN)}]}}}}


def test_what_the_administrator_has_not_signed_is_not_installed(demanding: tuple[World, FaultyRegistry]) -> None:
    world, served = demanding
    ref = f"{served.host}/shop/app:v1"
    push(served, "red", OWN)
    deployed = world.deploy(ref=ref)
    deployed.wait_for("Unpacked", "False", "VerificationFailed", "none of the keys has made the signature")
    deployed.change(sources=[own_verify(ref)])
    deployed.wait_for("Unpacked", "False", "VerificationFailed", "none of the keys has made the signature")
    assert deployed.get("settings") is None

    signed = push(served, "blue", OWN, KEY)
    deployed.request_reconcile("signed by both")
    [pin] = deployed.wait_ready()["sources"]
    assert (pin["digest"], pin["verified"]["by"]) == (signed, "cosign")
    assert deployed.data("settings") == {"color": "blue"}

    push(served, "green", KEY)
    deployed.request_reconcile("signed by the administrator alone")
    deployed.wait_for("Unpacked", "False", "VerificationFailed")
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what is installed is repaired")
    deployed.change(sources=[image(ref)])
    deployed.wait(lambda: deployed.data("settings") == {"color": "green"}, "without a verify, the demand is enough")


def test_keys_in_a_secret_of_the_controller_and_keys_that_are_lost(demanding: tuple[World, FaultyRegistry]) -> None:
    world, served = demanding
    push(served, "blue", KEY)
    kept = world.deploy(ref=f"{served.host}/kept/app:v1")
    kept.wait_for("Unpacked", "False", "VerificationUnavailable", 'Secret "rukpak-system/acme"')
    keys = secret("acme", **{"acme.pub": pem_of(KEY)})
    path = "/api/v1/namespaces/rukpak-system/secrets/acme"
    world.client.apply(path, keys, manager="tests", force=True)
    try:
        kept.request_reconcile("there are keys")
        kept.wait_ready()
    finally:
        world.client.delete(path)
    lost = world.deploy(ref=f"{served.host}/lost/app:v1")
    lost.wait_for("Unpacked", "False", "VerificationUnavailable", "the file of keys cannot be read")
