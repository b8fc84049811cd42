"""The page about signatures: its example is valid, and its table names each kind of signature."""

from __future__ import annotations

import re
from pathlib import Path

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.api.v1alpha2.verification import ChartVerification, GitVerification, HttpVerification, ImageVerification
from rukpak.controller.formats.manifests import read_documents

PAGE = (Path(__file__).parents[3] / "config/signatures.md").read_text(encoding="utf-8")


def test_the_example_is_valid() -> None:
    block = re.search(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert block
    deployment, secret = (document.value for document in read_documents(block[1].encode(), "signatures.md"))
    [source] = BundleDeployment.model_validate(deployment).spec.sources
    assert isinstance(source.verification, GitVerification)
    assert source.verification.secret.name == secret["metadata"]["name"]


def test_the_table_has_each_way_to_verify() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    for verification in (ImageVerification, HttpVerification, ChartVerification):
        for way in verification.model_fields.keys() - {"signature_url", "version"}:
            assert [row for row in rows if f"`{way}: " in row]
