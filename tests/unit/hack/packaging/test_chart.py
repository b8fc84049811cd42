"""The chart config/chart, as the real Helm renders it: the objects of config/, and what its values change."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from hack.packaging.chart import as_template, combine, expression, statement, write_templates
from hack.packaging.manifests import Manifest, render
from rukpak.controller.formats.manifests import read_documents
from tests.support.bundles import ROOT
from tests.support.other_programs import CHART, helm

ADDED = "{{- if .Values.restricted }}\n%s\n{{- end }}\n"


@pytest.mark.parametrize(
    ("plain", "restricted", "text"),
    [
        ({"a": 1}, {"a": 1}, "a: 1\n"),
        ({"a": 1}, {"a": 1, "b": 2}, "a: 1\n" + ADDED % "b: 2"),
        ({"a": [1]}, {"a": [1, 2]}, "a:\n- 1\n" + ADDED % "- 2"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, "a:\n- b: 1\n" + ADDED % "  c: 2"),
    ],
    ids=["the same", "a field", "an item", "a field of an item"],
)
def test_what_is_added_is_conditional(plain: Any, restricted: Any, text: str) -> None:
    assert write_templates([combine(plain, restricted)]) == text


@pytest.mark.parametrize(
    ("plain", "restricted"),
    [({"a": 1}, {"a": 2}), ({"a": 1}, {}), ([1, 2], [1]), ([1], [2, 1])],
    ids=["another value", "a field less", "an item less", "an item before the others"],
)
def test_other_changes_are_refused(plain: Any, restricted: Any) -> None:
    with pytest.raises(ValueError, match="the chart can only add to it"):
        combine(plain, restricted)


def test_braces_of_others_are_not_for_helm() -> None:
    assert as_template({"a": ["{{ $labels.name }} of rukpak-system"]}) == {
        "a": ["{{`{{`}} $labels.name }} of {{.Release.Namespace}}"]
    }


def test_statements_and_expressions_become_the_template_language() -> None:
    manifest = {statement("if .a", "x"): None, "b": expression(".b | quote"), statement("end", "x"): None}
    text = "{{- if .a }}\nb: {{ .b | quote }}\n{{- end }}\n"
    assert write_templates([manifest]) == text
    assert write_templates([manifest], "not .c") == f"{{{{- if not .c }}}}\n{text}{{{{- end }}}}\n"


CONFIG = ROOT / "config"
NAMESPACE = "rukpak-system"
VERSION = "--kube-version=1.36.3"
Key = tuple[str, str]


def template(*values: str, namespace: str = NAMESPACE) -> list[Manifest]:
    """Return the objects that the chart renders."""
    flags = [f"--set={value}" for value in values]
    text = helm("template", "rukpak", str(CHART), f"--namespace={namespace}", VERSION, *flags)
    return [document.value for document in read_documents(text.encode(), "chart")]


def by_key(manifests: list[Manifest]) -> dict[Key, Manifest]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    assert len(found) == len(manifests)
    return found


def of_config(*folders: str) -> dict[Key, Manifest]:
    """Return the objects of folders of config/ as the chart has them."""
    found = by_key([copy.deepcopy(each) for folder in folders for each in render(CONFIG / folder)])
    del found["Namespace", NAMESPACE]
    for (kind, _), manifest in found.items():
        if kind == "CustomResourceDefinition":
            manifest["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
        if kind == "Deployment":
            manifest["spec"]["template"]["spec"]["containers"][0]["args"].append(f"--namespace={NAMESPACE}")
    return found


@pytest.mark.parametrize(
    ("values", "folders"),
    [
        ((), ["default"]),
        (["policies=true"], ["default", "policy"]),
        (["restricted=true"], ["restricted"]),
        (["restricted=true", "policies=true"], ["restricted"]),
        (["finalizerPolicy=true"], ["default", "finalizer"]),
        (["strictPolicies=true", "prometheus=true"], ["default", "policy/strict", "prometheus"]),
    ],
    ids=lambda value: ", ".join(value) or "no values",
)
def test_it_installs_what_is_in_config(values: tuple[str, ...], folders: list[str]) -> None:
    assert by_key(template(*values)) == of_config(*folders)


def test_it_is_without_fault() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", VERSION, str(CHART))


def deployment(*values: str) -> Manifest:
    found: Manifest = by_key(template(*values))["Deployment", "rukpak"]["spec"]
    return found


def test_values_change_the_deployment() -> None:
    spec = deployment("image.repository=example.com/x", "image.tag=v9", "image.pullSecrets={a,b}", "replicas=1")
    pod = spec["template"]["spec"]
    assert (spec["replicas"], pod["containers"][0]["image"]) == (1, "example.com/x:v9")
    assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert "imagePullSecrets" not in deployment()["template"]["spec"]


FLAGS = {
    "log-level=debug": "--log-level=debug",
    "relist-interval=1000000": "--relist-interval=1000000",
    "allow-loopback=no": "--allow-loopback=no",
    "require-service-account=true": "--require-service-account=true",
    "allowed-hosts=it's\\,*.example.com": "--allowed-hosts=it's,*.example.com",
}


def test_flags_are_options_of_the_controller() -> None:
    [container] = deployment(*(f"flags.{flag}" for flag in FLAGS))["template"]["spec"]["containers"]
    assert sorted(container["args"][-len(FLAGS) :]) == sorted(FLAGS.values())


def test_everything_follows_the_namespace_of_the_release() -> None:
    found = template("restricted=true", "strictPolicies=true", "prometheus=true", namespace="elsewhere")
    assert NAMESPACE not in str(found)
    accounts = by_key(found)["ValidatingAdmissionPolicy", "rukpak-accounts"]["spec"]
    assert "system:serviceaccount:elsewhere:rukpak" in accounts["matchConditions"][0]["expression"]


@pytest.mark.parametrize("value", ["flags.wrokers=2", "replica=2", "image.name=x", "restricted=yes"])
def test_a_value_that_does_not_exist_is_refused(value: str) -> None:
    assert "values don't meet the specifications" in helm(
        "template", "rukpak", str(CHART), VERSION, f"--set={value}", status=1
    )


def test_its_version_is_that_of_the_release() -> None:
    [chart] = [document.value for document in read_documents((CHART / "Chart.yaml").read_bytes(), "Chart.yaml")]
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert {chart["version"], chart["appVersion"]} == {release}


def test_the_proxy_of_sources_is_in_a_secret() -> None:
    key = ("Secret", "rukpak-proxy")
    assert key not in by_key(template())
    secret = by_key(template("proxy.httpsProxy=http://robot:canary@proxy.example:3128"))[key]
    assert secret["stringData"] == {
        "HTTPS_PROXY": "http://robot:canary@proxy.example:3128",
        "HTTP_PROXY": "",
        "NO_PROXY": ".svc,.cluster.local",
    }
