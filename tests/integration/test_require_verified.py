"""Signatures that the administrator demands by option: a spec can neither leave them out nor spell around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import World, bundle_of, config_map, image, new_world
from tests.support.cosigned import PrivateKey, make_key, pem_of, signed_bundle, store_bundle
from tests.support.faulty_registry import FaultyRegistry
from tests.support.objects import secret
from tests.support.registry import LocalRegistry, pack

KEY, OWN = make_key(), make_key()


@pytest.fixture
def demanding(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, tmp_path: Path
) -> Iterator[tuple[World, FaultyRegistry]]:
    """A controller with demands for three repositories, and a registry that has these."""
    file = tmp_path / "acme.pub"
    file.write_text(pem_of(KEY), encoding="utf-8")
    with FaultyRegistry() as served:
        host = served.host
        option = f"--require-verified={host}/shop/*={file},{host}/kept/*=secret:acme,{host}/lost/*={file}.none"
        with new_world(cluster, registry, settings.running, option) as world:
            yield world, served


def push(served: FaultyRegistry, color: str, *keys: PrivateKey) -> str:
    digest = served.add_image("v1", pack(bundle_of(config_map("settings", color=color))))
    for key in keys:
        store_bundle(served, digest, signed_bundle(key, digest))
    return digest


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


@pytest.mark.parametrize("is_signed", [False, True], ids=["unsigned", "signed"])
def test_what_is_installed_is_checked_when_a_demand_is_new(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, tmp_path: Path, *, is_signed: bool
) -> None:
    file = tmp_path / "acme.pub"
    file.write_text(pem_of(KEY), encoding="utf-8")
    with FaultyRegistry() as served, new_world(cluster, registry, settings.running) as world:
        digest = push(served, "blue", *([KEY] if is_signed else []))
        installed = world.deploy(ref=f"{served.host}/shop/app:v1")
        installed.wait_ready()
        world.controller.stop()
        with new_world(cluster, registry, settings.running, f"--require-verified={served.host}/*={file}") as demanding:
            deployed = replace(installed, wait=demanding.wait)
            if is_signed:
                deployed.wait(lambda: "verified" in deployed.status()["sources"][0], "who has signed it is recorded")
                assert deployed.wait_ready()["sources"][0]["digest"] == digest
            else:
                deployed.wait_for("Unpacked", "False", "VerificationFailed")
            deployed.edit("settings", color="red")
            deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what is installed is repaired")


def test_a_pinned_revision_that_was_made_before_a_demand_is_not_applied(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, tmp_path: Path
) -> None:
    """No source is asked for a pinned revision, so it must have recorded the check itself."""
    file = tmp_path / "acme.pub"
    file.write_text(pem_of(KEY), encoding="utf-8")
    with FaultyRegistry() as served, new_world(cluster, registry, settings.running) as world:
        ref = f"{served.host}/shop/app:v1"
        push(served, "red", KEY)
        installed = world.deploy(ref=ref)
        before = installed.wait_ready()["installedRevision"]
        world.controller.stop()
        with new_world(cluster, registry, settings.running, f"--require-verified={served.host}/*={file}") as demanding:
            deployed = replace(installed, wait=demanding.wait)
            push(served, "blue", KEY)
            deployed.request_reconcile("signed")
            deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what is signed is installed")
            signed = deployed.wait_ready()["installedRevision"]
            deployed.change(pinnedRevision=before)
            deployed.wait_for("Installed", "False", "VerificationFailed", "spec.pinnedRevision: revision")
            assert deployed.data("settings") == {"color": "blue"}, "what is installed stays"
            push(served, "green", KEY)
            deployed.change(pinnedRevision="")
            deployed.request_reconcile("without a pin")
            deployed.wait(lambda: deployed.data("settings") == {"color": "green"}, "without a pin, sources are asked")
            deployed.change(pinnedRevision=signed)
            deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "what was checked may be pinned")
