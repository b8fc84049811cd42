"""Any chart, config or output of Helm gives a rendering or a BundleError."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Limits, ProgramResult
from rukpak.controller.formats.helm.chart import find_chart, gather_chart, refuse_foreign_references
from rukpak.controller.formats.helm.failures import explain
from rukpak.controller.formats.helm.format import read_output
from rukpak.controller.formats.helm.values import find_problems, read_configuration, write_values
from rukpak.controller.formats.manifests import TextBudget
from tests.support.charts import chart_of, pack, render, write

KEYS = st.sampled_from(
    ["values", "valuesFiles", "releaseName", "includeCRDs", "skipTests", "disableHooks", "isUpgrade", "x"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [
        b"---\n# Source: c/templates/a.yaml\n",
        b"---\n# Source: c/crds/a.yaml\n",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n",
        b"  annotations:\n    helm.sh/hook: pre-install,test\n",
        b"    helm.sh/hook-weight: 1e9\n",
        b"kind: List\nitems: [1]\n",
        b"metadata: {annotations: {helm.sh/hook: {}}}\n",
        b"a: *b\n",
        b"{\n",
        b"\xff",
    ]
)
COMPLAINTS = st.sampled_from(
    [
        "Error: ",
        "template: c/templates/a.yaml:1:2: ",
        "execution error at (",
        'c/templates/a.yaml:1:2\n  executing "c" at <.a>:\n    ',
        "missing in charts/ directory: ",
        "\n",
        "(",
        ")",
    ]
)
FILES = st.dictionaries(
    st.sampled_from(["Chart.yaml", "values.schema.json", "charts/d.tgz", "templates/a.yaml", "charts/e/charts/f.tgz"]),
    st.binary(max_size=30) | st.just(pack(chart_of({}))) | st.just(b'{"$ref": 1, "a": [{"$ref": "x"}]}'),
)


PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PATIENT
@given(st.dictionaries(KEYS, JSON))
def test_any_config_is_refused_or_can_be_read(config: dict[str, Any]) -> None:
    if not find_problems(config):
        with contextlib.suppress(BundleError):
            write_values(read_configuration(config).values)


@PATIENT
@given(st.lists(PIECES | st.binary(max_size=10)), st.booleans())
def test_any_output_is_refused_or_can_be_read(pieces: list[bytes], skip_tests: bool) -> None:
    with contextlib.suppress(BundleError):
        read_output(b"".join(pieces), TextBudget(Limits()), skip_tests=skip_tests)


@PATIENT
@given(st.lists(COMPLAINTS | st.text(max_size=10)), st.integers(-9, 3), st.dictionaries(st.text(), JSON))
def test_any_stderr_becomes_one_line_without_values(pieces: list[str], status: int, values: dict[str, Any]) -> None:
    message = explain(ProgramResult(status=status, output=b"", stderr="".join(pieces)), "c", [values]).message
    assert message.isprintable()
    assert len(message) < 2000


@PATIENT
@given(st.text(st.characters(categories=["L", "N", "P"]), min_size=4, max_size=20))
def test_no_complaint_shows_a_text_that_was_given(secret: str) -> None:
    assume(secret not in "c/templates/a.yaml:1:3:")  # a part of the path is hidden there, too
    result = ProgramResult(
        status=1, output=b"", stderr=f"Error: execution error at (c/templates/a.yaml:1:3): x {secret} y"
    )
    assert explain(result, "c", [{"a": [{"b": secret}]}]).message == '"c": c/templates/a.yaml:1:3: x … y'


@PATIENT
@given(FILES)
def test_any_chart_is_refused_or_can_be_gathered(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(BundleError):
        root = write(Path(folder) / "tree", {"README.md": b"", **files})
        chart = find_chart(ContentTree(root=root, destinations=("",)), Limits())
        gather_chart(root, chart, Path(folder) / "gathered", Limits())
        refuse_foreign_references(Path(folder) / "gathered", chart.path)


@PATIENT
@given(st.binary(max_size=40), st.binary(max_size=40), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_any_template_is_rendered_or_refused(template: bytes, values: bytes, given_values: dict[str, Any]) -> None:
    files = {**chart_of({}), "c/templates/a.yaml": b"{{ .Values.x }}" + template, "c/values.yaml": values}
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(BundleError):
        render(write(Path(folder) / "tree", files), Path(folder), config={"values": given_values})
