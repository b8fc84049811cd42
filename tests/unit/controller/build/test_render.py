"""From a content tree to a revision, beyond what formats and processors do."""

from __future__ import annotations

from pathlib import Path

from api.plugins import ContentTree, RenderRequest
from controller.build.rendering import render
from tests.support.charts import CAPABILITIES
from tests.support.operator_bundles import object_of, service_version, write_bundle


def request(root: Path) -> RenderRequest:
    tree = ContentTree(root=root, destinations=("",))
    return RenderRequest(name="b", install_namespace="inst", tree=tree, config={}, capabilities=CAPABILITIES)


def test_a_bundle_that_renders_nothing_says_so(tmp_path: Path) -> None:
    made = render("registry-v1", request(write_bundle(tmp_path / "empty", service_version())))
    assert (made.objects, made.warnings) == ((), ("the bundle renders no objects",))
    made = render("registry-v1", request(write_bundle(tmp_path / "b", service_version(), object_of("ConfigMap"))))
    assert (len(made.objects), made.warnings) == (1, ())
