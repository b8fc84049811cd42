"""config/install.yaml has all objects of config/default, and the namespace before what is in it."""

from __future__ import annotations

from controller.formats.manifests import read_documents
from hack.packaging.kustomization import render
from tests.support.bundles import ROOT


def test_it_has_the_objects_of_config_default() -> None:
    text = (ROOT / "config/install.yaml").read_bytes()
    found = [document.value for document in read_documents(text, "install.yaml")]
    assert found[0]["kind"] == "Namespace"
    assert sorted(found, key=str) == sorted(render(ROOT / "config/default"), key=str)
