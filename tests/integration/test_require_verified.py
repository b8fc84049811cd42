"""Signatures that the administrator demands by option: a spec can neither leave them out nor spell around them."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from controller.playground.cluster import ControlPlane
from controller.playground.settings import Settings
from tests.support.bundles import config_map, image, new_world
from tests.support.registry import LocalRegistry


def test_what_nobody_has_signed_is_not_installed_where_that_is_demanded(
    cluster: ControlPlane, registry: LocalRegistry, settings: Settings, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    (tmp_path / "acme.pub").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    option = f"--require-verified={registry.host}/acme-*={tmp_path}"
    with new_world(cluster, registry, settings.running, option) as world:
        refused = world.deploy(config_map("settings", color="green"), name="acme-shop")
        refused.wait_for("Unpacked", "False", "VerificationFailed")
        free = world.deploy(config_map("settings", color="blue"))
        before = free.wait_ready()
        free.change(sources=[image(refused.ref)])
        free.wait_for("Unpacked", "False", "VerificationFailed")
        # What is installed stays, and is repaired.
        free.edit("settings", color="red")
        free.wait(lambda: (free.data("settings") or {}).get("color") == "blue", "repair")
        assert free.status()["installedRevision"] == before["installedRevision"]
        assert refused.get("settings") is None
