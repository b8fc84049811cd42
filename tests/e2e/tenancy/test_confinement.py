"""The story of a tenant who would read the controller's files: a chart is rendered, and finds nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.bundles import World
from tests.support.charts import chart_of
from tests.support.tenants import ANN, BEN, OWN, Tenants

pytestmark = pytest.mark.timeout(300)
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {seen: {{ .Values | toJson | quote }}}
"""
OF_BEN = "canary-of-ben"


def kubeconfig(world: World) -> Path:
    return world.store.parent / "kubeconfig"


def content_of_another_tenant(world: World) -> Path:
    found = [path for path in world.store.glob("entries/*/content/**/secret.yaml") if OF_BEN in path.read_text()]
    return found[0]


@pytest.fixture(scope="module")
def theirs(tenants: Tenants) -> None:
    """What the other tenant has installed: a chart with a password in a file of values."""
    files = {**chart_of({"templates/a.yaml": TEMPLATE}), "secret.yaml": f"password: {OF_BEN}".encode()}
    tenants.world.registry.push_image("tenants/theirs-chart", "v1", [files])
    ref = f"{tenants.world.registry.host}/tenants/theirs-chart:v1"
    own = {"installNamespace": "other", "serviceAccountName": "installer"}
    tenants.apply(BEN, "theirs-chart", ref, **own, format="helm", config={"valuesFiles": ["secret.yaml"]}).wait_ready()


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize("file", [kubeconfig, content_of_another_tenant])
def test_a_file_of_values_is_named_so_that_helm_reads_another(tenants: Tenants, file: Callable[[World], Path]) -> None:
    """Helm splits `x,/path` at the comma; content may have a file `x` beside a folder `x,`."""
    name = f"x,{file(tenants.world)}"
    files = {**chart_of({"templates/a.yaml": TEMPLATE}), "x": b"a: 1", name: b"color: red"}
    comma = f"comma-{file.__name__.replace('_', '-')}"
    tenants.world.registry.push_image(f"tenants/{comma}", "v1", [files])
    ref = f"{tenants.world.registry.host}/tenants/{comma}:v1"
    tenants.apply(ANN, comma, ref, **OWN, format="helm", config={"valuesFiles": [name]}).wait_ready()
    path = f"/api/v1/namespaces/tenant/configmaps/{comma}"
    assert json.loads(tenants.world.client.get(path).value["data"]["seen"]) == {"color": "red"}


def test_what_confines_the_programs_is_in_the_log(tenants: Tenants) -> None:
    tenants.world.restart()  # it is said at the start

    def find() -> list[str]:
        return [line for line in tenants.world.controller.log.splitlines() if "confinement of git" in line]

    told = [json.loads(line) for line in tenants.world.wait(find, "it is said")]
    assert {"confinement", "files", "network"} <= set(told[0])
