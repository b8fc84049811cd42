"""Where Helm 3 and Helm 4 render a chart differently: nowhere but in what controller/formats/helm/README.md lists."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Limits, Means, RenderRequest
from rukpak.controller.building.builder import Builder
from rukpak.controller.building.rendering import Task
from rukpak.controller.building.rendering import render as render_revision
from rukpak.controller.building.request import BuildSettings, Request
from rukpak.controller.content.store import ContentStore
from tests.support.charts import CAPABILITIES, DATA, chart_of, packaged_helm, render, write
from tests.support.deployments import RESOLVED_AT, request, spec
from tests.unit.controller.building.test_builder import SHELF, Shelf, serve, whole

README = Path(__file__).parents[5] / "controller/formats/helm/README.md"
CORPUS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent")) / "helm"
CHARTS = [path.parent for path in sorted([*DATA.glob("*/Chart.yaml"), *CORPUS.glob("*/Chart.yaml")])]
SHOW = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {shown: %s}\n"
FIXED = {"shop": {"password": "correct horse"}}
"""Values of charts that would generate them."""


@pytest.mark.parametrize("chart", CHARTS, ids=attrgetter("name"))
def test_a_chart_gives_the_same_revision(chart: Path, helm: Path, tmp_path: Path) -> None:
    ours, theirs = (revision_of(chart, program, tmp_path) for program in (helm, packaged_helm()))
    assert ours.warnings == theirs.warnings
    assert (ours.objects, ours.hooks, ours.digest) == (theirs.objects, theirs.hooks, theirs.digest)


def revision_of(chart: Path, program: Path, tmp_path: Path) -> Any:
    scratch = tmp_path / f"scratch-{len(list(tmp_path.iterdir()))}"
    scratch.mkdir()
    request = RenderRequest(
        name="web",
        install_namespace="shop",
        tree=ContentTree(root=chart, destinations=("",)),
        config={"values": FIXED.get(chart.name, {})},
        capabilities=CAPABILITIES,
        means=Means(scratch=scratch, programs={"helm": str(program)}),
    )
    return render_revision(Task("helm", request))


@dataclass(frozen=True)
class Difference:
    name: str
    """As in the README."""
    template: str
    helm_3: str
    helm_4: str
    files: Mapping[str, str] = field(default_factory=dict)


# fmt: off
DIFFERENCES = [
    Difference("a block scalar that keeps its line breaks (`|+`) at the end of a template",
         SHOW.replace("{shown: %s}", "\n  shown: |+\n    x\n\n"), "x\n", "x\n\n\n\n",
         {"templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}"}),
    Difference("a null in the values of a chart", SHOW % "'{{ toJson .Values }}'",
         '{"a":null,"b":1}', '{"b":1}', {"values.yaml": "a: null\nb: 1"}),
    Difference("a null for a value of a dependency in the chart's `values.yaml`", "", "{}", '{"a":1}',
         {"values.yaml": "d: {a: null}", "charts/d/Chart.yaml": "apiVersion: v2\nname: d\nversion: 1.0.0",
          "charts/d/values.yaml": "a: 1",
          "charts/d/templates/a.yaml": SHOW % "'{{ toJson (omit .Values \"global\") }}'"}),
    Difference("large numbers in `toToml`", SHOW % "{{ toToml .Values | quote }}",
         "a = 12345678901234567000.0\n", "a = 1.2345678901234567e+19\n", {"values.yaml": "a: 12345678901234567890"}),
    Difference("`toJson .Chart`", SHOW % "'{{ toJson .Chart | trunc 28 }}'",
         '{"name":"c","version":"1.0.0', '{"APIVersion":"v2","Annotati'),
    Difference("`.Capabilities.HelmVersion`", SHOW % "{{ .Capabilities.HelmVersion.Version | trunc 2 }}", "v3", "v4"),
    Difference("the number of `.Capabilities.APIVersions`", SHOW % "'{{ len .Capabilities.APIVersions }}'", "60", "61"),
    Difference("functions such as `mustToYaml`", SHOW % "{{ mustToYaml 1 | quote }}",
         'RenderFailed: "c": c/templates/a.yaml:4: function "mustToYaml" not defined', "1"),
    Difference("`apiVersion: v3` in `Chart.yaml`", SHOW % "x", "x", 'RenderFailed: "c": invalid chart apiVersion',
         {"Chart.yaml": "apiVersion: v3\nname: c\nversion: 1.0.0"}),
    Difference("`format` in `values.schema.json`", SHOW % "x",
         """InvalidConfig: spec.config.values: rejected by the schema of "c": c: a: Does not match format 'email'""",
         "x",
         {"values.schema.json": '{"properties": {"a": {"format": "email"}}}', "values.yaml": "a: b"}),
]
DRAFT_7 = '{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "email"}}}'
# fmt: on


@pytest.mark.parametrize("case", DIFFERENCES, ids=attrgetter("name"))
def test_they_differ_in(case: Difference, helm: Path, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", chart_of({"templates/a.yaml": case.template, **case.files}))
    assert shown(root, helm, tmp_path) == (case.helm_3 if helm == packaged_helm() else case.helm_4)


def shown(root: Path, helm: Path, tmp_path: Path) -> str:
    try:
        data: dict[str, str] = render(root, tmp_path, programs={"helm": str(helm)}).objects[0]["data"]
    except BundleError as error:
        return str(error)
    return data["shown"]


def test_a_null_in_the_config_removes_a_default_of_a_dependency_with_both(helm: Path, tmp_path: Path) -> None:
    files = next(case.files for case in DIFFERENCES if "dependency" in case.name)
    root = write(tmp_path / "tree", chart_of({**files, "values.yaml": "{}"}))
    config = {"values": {"d": {"a": None}}}
    rendering = render(root, tmp_path, config=config, programs={"helm": str(helm)})
    assert rendering.objects[0]["data"] == {"shown": "{}"}


def test_a_format_of_draft_7_is_checked_by_both(helm: Path, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", chart_of({"values.schema.json": DRAFT_7, "values.yaml": "a: b"}))
    assert shown(root, helm, tmp_path).startswith("InvalidConfig: spec.config.values: rejected by the schema")


# the inputs of a revision


@dataclass(frozen=True)
class Upgraded:
    name: str
    shown: str
    """By the template, or by the revision."""
    is_new: bool
    """With Helm 4 after Helm 3."""


UPGRADED = [
    Upgraded("what both render the same is the same revision", "{{ .Release.Name }}", is_new=False),
    Upgraded("a random value is kept", "{{ randAlphaNum 20 }}", is_new=False),
    Upgraded("what they render differently is a new revision", "{{ toJson .Chart | quote }}", is_new=True),
]


@pytest.mark.parametrize("case", UPGRADED, ids=attrgetter("name"))
def test_a_reconcile_is_requested_after_helm_was_upgraded(
    case: Upgraded, helm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, Shelf({"c": chart_of({"templates/a.yaml": SHOW % case.shown})}))
    old, new = (builder_with(program, tmp_path / name) for program, name in ((packaged_helm(), "old"), (helm, "new")))
    before = whole(old.build(requested("once"), CAPABILITIES, threading.Event()))
    after = whole(new.build(requested("again"), CAPABILITIES, threading.Event(), kept=[before]))
    assert before.terms.rendered_from == after.terms.rendered_from
    assert (before.digest != after.digest) is (case.is_new and helm != packaged_helm())


def builder_with(program: Path, store: Path) -> Builder:
    means = Means(programs={"helm": str(program)})
    settings = BuildSettings(store_bytes=1 << 20, limits=Limits(), timeout=60, means=means)
    return Builder(ContentStore(store), settings, lambda: RESOLVED_AT)


def requested(at: str) -> Request:
    return request(spec({"kind": SHELF, "parameters": {"name": "c"}}, format="helm"), requested_at=at)


def test_the_readme_lists_them() -> None:
    section = README.read_text(encoding="utf-8").partition("## Which Helm")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| (.*?) \| .* \| .* \|$", section.replace("\\|", "PIPE"), re.MULTILINE)
    assert [row.replace("PIPE", "|") for row in listed if row != "chart"] == [case.name for case in DIFFERENCES]
