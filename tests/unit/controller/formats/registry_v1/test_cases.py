"""Whole bundles under tests/data, rendered: each case has options and the objects that are expected.

With RUKPAK_CORPUS, a folder with `registry-v1/<bundle>` in it, real ones are rendered, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from api.errors import BundleError
from controller.formats.applicable.applicable import make_applicable
from controller.formats.yaml.manifests import read_documents
from tests.support.operator_bundles import OPENSHIFT, render

DATA = Path(__file__).parents[4] / "data" / "registry-v1"
CASES = sorted(DATA.glob("*/cases/*"))
CORPUS = sorted(Path(os.environ["RUKPAK_CORPUS"]).glob("registry-v1/*")) if os.environ.get("RUKPAK_CORPUS") else []


def read_all(path: Path) -> list[Any]:
    return [document.value for document in read_documents(path.read_bytes(), path.name)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.parent.name}/{case.name}")
def test_case(case: Path) -> None:
    (options,) = read_all(case / "options.yaml")
    kinds = OPENSHIFT if options.get("cluster") == "openshift" else None
    rendering = render(
        case.parent.parent / "bundle", options.get("config"), namespace=options["installNamespace"], kinds=kinds
    )
    assert list(rendering.objects) == read_all(case / "expected.yaml")
    assert list(rendering.warnings) == options.get("warnings", [])


def test_there_are_cases() -> None:
    assert CASES


@pytest.mark.parametrize("bundle", CORPUS, ids=lambda bundle: bundle.name)
def test_a_real_bundle_is_rendered(bundle: Path) -> None:
    try:
        rendering = render(bundle)
    except BundleError as error:  # it demands what only the user knows
        assert 'required field "watchNamespace" is missing' in error.message
        rendering = render(bundle, {"watchNamespace": "inst"})
    made = make_applicable(rendering.objects, install_namespace="inst", is_namespaced=lambda *_: None)
    assert {"Deployment", "ServiceAccount"} <= {item["kind"] for item in made}
