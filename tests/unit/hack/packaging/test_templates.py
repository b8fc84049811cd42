"""Objects become templates, whose conditions add to the objects."""

from __future__ import annotations

from typing import Any

import pytest

from hack.packaging.templates import as_template, combine, expression, statement, write_templates

ADDED = "{{- if .Values.restricted }}\n%s\n{{- end }}\n"


@pytest.mark.parametrize(
    ("plain", "restricted", "text"),
    [
        ({"a": 1}, {"a": 1}, "a: 1\n"),
        ({"a": 1}, {"a": 1, "b": 2}, "a: 1\n" + ADDED % "b: 2"),
        ({"a": [1]}, {"a": [1, 2]}, "a:\n- 1\n" + ADDED % "- 2"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, "a:\n- b: 1\n" + ADDED % "  c: 2"),
    ],
    ids=["the same", "a field", "an item", "a field of an item"],
)
def test_what_is_added_is_conditional(plain: Any, restricted: Any, text: str) -> None:
    assert write_templates([combine(plain, restricted)]) == text


@pytest.mark.parametrize(
    ("plain", "restricted"),
    [({"a": 1}, {"a": 2}), ({"a": 1}, {}), ([1, 2], [1]), ([1], [2, 1])],
    ids=["another value", "a field less", "an item less", "an item before the others"],
)
def test_other_changes_are_refused(plain: Any, restricted: Any) -> None:
    with pytest.raises(ValueError, match="the chart can only add to it"):
        combine(plain, restricted)


def test_braces_of_others_are_not_for_helm() -> None:
    assert as_template({"a": ["{{ $labels.name }} of rukpak-system"]}) == {
        "a": ["{{`{{`}} $labels.name }} of {{.Release.Namespace}}"]
    }


def test_statements_and_expressions_become_the_template_language() -> None:
    manifest = {statement("if .a", "x"): None, "b": expression(".b | quote"), statement("end", "x"): None}
    text = "{{- if .a }}\nb: {{ .b | quote }}\n{{- end }}\n"
    assert write_templates([manifest]) == text
    assert write_templates([manifest], "not .c") == f"{{{{- if not .c }}}}\n{text}{{{{- end }}}}\n"
