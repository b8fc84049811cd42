"""The story of a tenant who exhausts the controller's memory: its bundles are refused, and no other tenant notices."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from tests.support.bundles import Deployed, config_map, exists
from tests.support.charts import chart_of
from tests.support.tenants import ANN, BEN, OWN, Tenants

pytestmark = pytest.mark.timeout(300)
LIMIT = 384
"""MiB, of the controller and all that it runs."""
REPOSITORY = "tenants/bomb"
MANY = 41 << 20
"""Bytes: what ended a pod of 1 GiB."""
VALUES = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":[%s{}]}'
FLOOD = """{{- range $i, $_ := until 25000 }}
- {a: {}, b: [0, 0, 0, 0, 0, 0, 0, 0]}
{{- end }}
"""
DEEP = 'a: {{ repeat 5000 "[" }}{{ repeat 5000 "]" }}\n'
ALIASES = 'a: &a {{ repeat 1000000 "x" }}\nb: [{{ repeat 9000 "*a, " }}]\n'


REPEATED = f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 9_000}]\n"


def noise(size: int, end: str) -> str:
    """Return numbers, each with an end: a text that shrinks less than an archive may."""
    pieces = (f"{number}{end}" for number in range(10_000_000, 10_000_000 + size // (8 + len(end))))
    return "".join(pieces)


def files(**named: str) -> dict[str, bytes]:
    return {f"manifests/{name.replace('_', '.')}": text.encode() for name, text in named.items()}


def make_bombs() -> dict[str, tuple[str, dict[str, bytes], str]]:
    """Return format, content and what the refusal says. Not a constant, which every worker would make on import."""
    return {
        "one great file of JSON": ("plain", files(a_json=VALUES % noise(MANY, ",[],")), "for one file"),
        "one great file of YAML": ("plain", files(a_yaml="a:\n" + noise(MANY, "\n- ")), "for one file"),
        "many small values of JSON": ("plain", files(a_json=VALUES % ("{}," * 1_500_000)), "more than"),
        "many small values of YAML": ("plain", files(a_yaml="a:\n" + "- {}\n" * 500_000), "more than"),
        "many files": (
            "plain",
            files(**{f"a{i}_yaml": "#" + noise(2 << 20, "\n#") for i in range(20)}),
            "for all files",
        ),
        "a text that aliases repeat": ("plain", files(a_yaml=REPEATED), "aliases"),
        "a chart with many values": ("helm", chart_of({"templates/a.yaml": f"a:\n{FLOOD}"}), "more than|memory"),
        "a deep chart": ("helm", chart_of({"templates/a.yaml": DEEP}), "levels deep"),
        "a chart with aliases": ("helm", chart_of({"templates/a.yaml": ALIASES}), "aliases|memory"),
    }


@pytest.fixture(scope="module")
def controller_options() -> tuple[str, ...]:
    return (f"--memory={LIMIT}",)


def apply_bomb(tenants: Tenants, name: str, format_name: str, content: dict[str, bytes]) -> Deployed:
    tenants.world.registry.push_image(REPOSITORY, name, [content])
    return tenants.apply(ANN, name, f"{tenants.world.registry.host}/{REPOSITORY}:{name}", format=format_name, **OWN)


def is_refused(deployed: Deployed, saying: str) -> bool:
    return bool(re.search(saying, deployed.conditions().get("Installed", {}).get("message", "")))


def resident_mebibytes(tenants: Tenants) -> int:
    """Return the most that the controller has ever had in memory."""
    status = Path(f"/proc/{tenants.world.controller.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def test_bombs_are_refused_while_another_tenant_installs(tenants: Tenants) -> None:
    deployments: dict[str, Deployed] = {}
    sayings: dict[str, str] = {}
    for bomb, (format_name, content, saying) in make_bombs().items():
        deployments[bomb] = apply_bomb(tenants, f"bomb-{len(deployments)}", format_name, content)
        sayings[bomb] = saying
    theirs = tenants.apply(BEN, "theirs", installNamespace="other", serviceAccountName="installer")
    theirs.wait_ready()
    for bomb, deployed in deployments.items():
        tenants.world.wait(partial(is_refused, deployed, sayings[bomb]), f"the refusal of {bomb}")
    assert resident_mebibytes(tenants) < LIMIT
    assert "Quarantined" not in json.dumps([deployed.read() for deployed in deployments.values()])


def test_what_is_large_and_within_the_budgets_is_installed(tenants: Tenants) -> None:
    maps = [config_map(f"great-{index}", **{f"k{key}": "x" * 9_000 for key in range(90)}) for index in range(7)]
    deployed = tenants.apply(ANN, "large", tenants.push("large", *maps), **OWN)
    deployed.wait_ready()
    assert exists(tenants.world.client, "/api/v1/namespaces/tenant/configmaps/great-6")
    assert resident_mebibytes(tenants) < LIMIT
    tenants.delete(ANN, "large")
    deployed.wait_gone()
