"""What is built in keeps the promises that packages of plug-ins have to keep: formats and processors."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from rukpak.api.plugins import Hook
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.conformance import FormatContract, Processing, ProcessorContract
from rukpak.controller.formats.helm import format as helm_format
from rukpak.controller.formats.helm.format import HelmFormat
from rukpak.controller.formats.plain import PlainFormat
from rukpak.controller.formats.registry_v1.registry_format import RegistryV1Format
from rukpak.controller.processors.images import ImagesProcessor
from rukpak.controller.processors.metadata import MetadataProcessor
from rukpak.controller.processors.patch import PatchProcessor
from tests.support.bundles import ROOT, bundle_of, config_map
from tests.support.charts import chart_of, files_of

pytestmark = pytest.mark.usefixtures("one_other_process")
BROKEN = {"manifests/a.yaml": b"apiVersion: v1\nkind: [\n"}
FINDER = cache(helm_format.make_finder)
HOOK = Hook(manifest=config_map("hook"), events=("pre-install",))


class TestPlain(FormatContract):
    plugin = PlainFormat
    content = (bundle_of(config_map("a"), config_map("b")),)
    bad_config = (({"recursiv": True}, "spec.config.recursiv"), ({"recursive": "yes"}, "spec.config.recursive"))
    bad_content = ((BROKEN, Reason.INVALID_BUNDLE),)


@pytest.fixture
def _one_finder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each format would run the program for its version, and compute its digest."""
    monkeypatch.setattr(helm_format, "make_finder", FINDER)


@pytest.mark.usefixtures("_one_finder")
class TestHelm(FormatContract):
    plugin = HelmFormat
    content = (chart_of({"templates/a.yaml": json.dumps(config_map("a"))}),)
    good_config = ({"values": {"color": "red"}},)
    bad_config = (({"valuesFiles": 5}, "spec.config.valuesFiles"),)
    bad_content = (
        (chart_of({"templates/a.yaml": "{{ fail `no` }}"}), Reason.RENDER_FAILED),
        ({"a.yaml": b""}, Reason.NO_CONTENT),
    )

    @pytest.mark.repeats  # Helm is started for each
    @pytest.mark.parametrize("data", [b"a: b: c", b"", b"\xff\xfe\x00", b"{" * 2000, b"[]", b"null\n", b"\x00"])
    def test_no_bytes_in_a_file_are_an_exception(self, tmp_path: Path, data: bytes) -> None:
        super().test_no_bytes_in_a_file_are_an_exception(tmp_path, data)


class TestRegistryV1(FormatContract):
    plugin = RegistryV1Format
    content = (files_of(ROOT / "tests/data/registry-v1/hello-operator/bundle"),)
    good_config = ({"certificateProvider": "none"},)
    bad_content = ((BROKEN, Reason.NO_CONTENT), ({"metadata/annotations.yaml": b"["}, Reason.INVALID_BUNDLE))


class TestPatch(ProcessorContract):
    plugin = PatchProcessor
    schema_checked = True
    good = (
        Processing(parameters={"target": {"kind": "ConfigMap"}, "merge": {"data": {"color": "red"}}}, hooks=(HOOK,)),
        Processing(parameters={"target": {"name": "web"}, "json": [{"op": "remove", "path": "/spec/replicas"}]}),
    )
    bad_parameters = (
        ({"target": {"labelSelector": "a in"}, "merge": {}}, "spec.processors[0].parameters.target.labelSelector"),
    )
    bad = (
        (
            Processing(parameters={"target": {"name": "web"}, "json": [{"op": "remove", "path": "/spec/no"}]}),
            Reason.INVALID_CONFIG,
        ),
    )


class TestImages(ProcessorContract):
    plugin = ImagesProcessor
    schema_checked = True
    good = (Processing(parameters={"images": [{"from": "registry.example.com/", "to": "mirror/"}]}, hooks=(HOOK,)),)


class TestMetadata(ProcessorContract):
    plugin = MetadataProcessor
    schema_checked = True
    good = (Processing(parameters={"labels": {"team": "web"}, "podTemplates": True}, hooks=(HOOK,)),)
    bad_parameters = (({}, "spec.processors[0].parameters"),)
    bad = ((Processing(parameters={"labels": {"app": "x"}, "podTemplates": True}), Reason.INVALID_CONFIG),)
