"""Which charts cannot be rendered while the kinds of an API group are not known."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.formats.helm.output import refuse_unknown_groups

HAS = '{{ .Capabilities.APIVersions.Has "down.example.com/v1" }}'
INDIRECT = "{{ .Capabilities.APIVersions.Has .Values.api }}"


class Chart(NamedTuple):
    name: str
    files: Mapping[str, str]
    asks: bool = False
    values: bytes = b"{}"


CASES = [
    Chart("one that asks nothing", {"templates/a.yaml": "kind: ConfigMap"}),
    Chart("one that names the group, but asks nothing", {"templates/a.yaml": "apiGroups: [down.example.com]"}),
    Chart("one that asks for another group", {"templates/a.yaml": HAS.replace("down", "up")}),
    Chart("one that asks for it", {"templates/a.yaml": HAS}, asks=True),
    Chart("a dependency that asks for it", {"charts/b-1.0.0.unpacked/templates/_b.tpl": HAS}, asks=True),
    Chart("a name from the default values",
          {"templates/a.yaml": INDIRECT, "values.yaml": "api: down.example.com/v1"}, asks=True),
    Chart("a name from the values of the user", {"templates/a.yaml": INDIRECT}, asks=True,
          values=b'{"api": "down.example.com/v1"}'),
    Chart("one that goes through the list", {"templates/a.yaml": "{{ range .Capabilities.APIVersions }}"}, asks=True),
    Chart("a CRD is no template", {"crds/a.yaml": HAS, "templates/a.yaml": ""}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_charts_wait(case: Chart, tmp_path: Path) -> None:
    for name, text in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    refused = None
    try:
        refuse_unknown_groups(tmp_path, [case.values], {"down.example.com"}, "c")
    except BundleError as error:
        refused = error
    assert (refused is not None) is case.asks
    refuse_unknown_groups(tmp_path, [case.values], (), "c")


def test_the_message_names_chart_and_groups(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{{ range .Capabilities.APIVersions }}")
    with pytest.raises(BundleError) as caught:
        refuse_unknown_groups(tmp_path, [], {"b.io", "a.io"}, "charts/c")
    assert caught.value.reason is Reason.API_UNAVAILABLE
    assert caught.value.message == (
        '"charts/c": asks for API group "a.io", "b.io", whose kinds are not known because its discovery fails; '
        "repair or delete its APIService"
    )
