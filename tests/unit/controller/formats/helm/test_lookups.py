"""Which failures are due to `lookup`, which finds nothing; Helm's messages are in test_format.py."""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest

from controller.formats.helm.failures import needs_lookup
from tests.support.charts import write

CALL = '{{ $s := lookup "v1" "Secret" "a" "b" }}'
HELPER = f'{{{{ define "h" }}}}{CALL}{{{{ end }}}}'
FAILED_IN_A = "execution error at (c/templates/a.yaml:1:3): no"


@dataclass(frozen=True)
class Case:
    name: str
    files: dict[str, str]
    expect: bool
    error: str = FAILED_IN_A


# fmt: off
CASES = [
    Case("the file that failed", {"templates/a.yaml": CALL}, True),
    Case("another file", {"templates/a.yaml": "", "templates/b.yaml": CALL}, False),
    Case("a template that it includes", {"templates/a.yaml": '{{ include "h" . }}', "templates/_h.tpl": HELPER}, True),
    Case("a template that it includes and that is not defined", {"templates/a.yaml": '{{ template "x" . }}'}, False),
    Case("a template of a dependency",
         {"templates/a.yaml": '{{ include "g" . }}',
          "templates/_g.tpl": '{{ define "g" }}{{ include "h" . }}{{ end }}',
          "charts/common-1.unpacked/templates/_h.tpl": HELPER}, True),
    Case("a template that includes itself",
         {"templates/a.yaml": '{{ define "h" }}{{ include "h" . }}{{ end }}'}, False),
    Case("a file of a dependency, by the path that Helm gives it",
         {"charts/d-1.unpacked/templates/s/a.yaml": CALL}, True,
         "template: c/charts/d/templates/s/a.yaml:1:3: executing"),
    Case("one of several files that the error names", {"templates/b.yaml": CALL}, True,
         'c/templates/a.yaml:1:3\n  executing "a" at <b>:\n    error calling include:\nc/templates/b.yaml:1:3\n  x'),
    Case("a value of that name", {"templates/a.yaml": "{{ .Values.lookup.x }} # lookup of names"}, False),
    Case("no file", {"templates/a.yaml": CALL}, False, "chart requires kubeVersion"),
    Case("templates that are too large", {"templates/a.yaml": CALL + " " * (8 << 20)}, False),
    Case("what is no template", {"files/a.yaml": CALL}, False),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_lookup_is_reached_by(case: Case, tmp_path: Path) -> None:
    write(tmp_path, {path: text.encode() for path, text in case.files.items()})
    assert needs_lookup(tmp_path, case.error) is case.expect


@pytest.mark.parametrize("piece", ["templates/", "templates/a:", "a", ":1", "templates/a.yaml:1 "])
def test_no_error_takes_long(piece: str, tmp_path: Path) -> None:
    write(tmp_path, {"templates/b.yaml": CALL.encode()})
    started = time.process_time()
    assert not needs_lookup(tmp_path, piece * (256 * 1024 // len(piece)))
    assert time.process_time() - started < 5
