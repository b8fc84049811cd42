"""The story of a tenant who nests as deeply as the API server lets him: everybody else's work goes on.

The API server takes ten thousand levels; a reader that does not would see no BundleDeployment any more.
"""

from __future__ import annotations

import json

import pytest

from rukpak.api import names
from tests.support.bundles import DEPLOYMENTS, Deployed, config_map
from tests.support.tenants import ANN, BEN, OWN, Tenants

pytestmark = pytest.mark.timeout(300)

LEVELS = (150, 900, 1500, 9000)
NESTED_TOO_DEEPLY = "spec.config: nested more than 100 levels deep; flatten it"


def nested(levels: int) -> bytes:
    """Return a BundleDeployment whose config is nested that deeply: json.dumps does not write it."""
    source = {"kind": "http", "http": {"url": "http://127.0.0.1:9/a.yaml"}}
    spec = {**OWN, "format": "plain", "config": {"values": "DEEP"}, "sources": [source]}
    about = {"name": f"deep-{levels}"}
    manifest = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "metadata": about, "spec": spec}
    return json.dumps(manifest).replace('"DEEP"', '{"a":' * levels + "1" + "}" * levels).encode()


def test_what_is_nested_too_deeply_hides_nothing_else(tenants: Tenants) -> None:
    for levels in LEVELS:
        tenants.world.client.acting_as(ANN).request("POST", DEPLOYMENTS, body=nested(levels))
    tenants.apply(BEN, "theirs", installNamespace="other", serviceAccountName="installer").wait_ready()
    assert "watch failed" not in tenants.world.controller.log
    for levels in LEVELS:
        deployed = Deployed(client=tenants.world.client, name=f"deep-{levels}", ref="", wait=tenants.world.wait)
        deployed.wait_for("Installed", "False", "InvalidConfig", NESTED_TOO_DEEPLY)


@pytest.mark.thorough
def test_after_a_restart_all_is_as_before(tenants: Tenants) -> None:
    tenants.world.client.acting_as(ANN).request("POST", DEPLOYMENTS, body=nested(5000))
    tenants.world.restart()
    ref = tenants.push("later", config_map("later"))
    tenants.apply(BEN, "later", ref, installNamespace="other", serviceAccountName="installer").wait_ready()
    assert "watch failed" not in tenants.world.controller.log
    tenants.delete(ANN, "deep-5000")
    Deployed(client=tenants.world.client, name="deep-5000", ref="", wait=tenants.world.wait).wait_gone()
