"""`rukpak crd`."""

from __future__ import annotations

import json

import pytest

from api.v1alpha2.schema import crd
from controller.cli import main
from controller.formats.yaml.manifests import read_documents


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_definition_is_the_one_of_config(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "-o", form]) == 0
    (document,) = read_documents(capsys.readouterr().out.encode(), "crd")
    assert document.value == json.loads(json.dumps(crd()))
