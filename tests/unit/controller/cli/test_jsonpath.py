"""Templates of -o jsonpath=, with the values that kubectl 1.36 prints for them."""

from __future__ import annotations

import pytest

from controller.cli.command import MisuseError
from controller.cli.jsonpath import evaluate

VALUE = {
    "kind": "List",
    "paused": True,
    "count": 3,
    "nothing": None,
    "labels": {"app.kubernetes.io/name": "a"},
    "items": [{"name": "a", "type": "Ready", "n": 1}, {"name": "b", "type": "Healthy", "n": 2}],
}


@pytest.mark.parametrize(
    ("template", "expect"),
    [
        ("{.kind}", "List"),
        (".kind", "List"),
        ("{$.kind}", "List"),
        ("{.paused} {.count}", "true 3"),
        ("{.nothing}", ""),
        ("{.missing.too}", ""),
        ("{.items[0].name}{.items[-1].name}", "ab"),
        ("{.items[7].name}", ""),
        ("{.items[*].name}", "a b"),
        ('{.items[?(@.type=="Ready")].name}', "a"),
        ("{.items[?(@.type!='Ready')].name}", "b"),
        ("{.items[?(@.n==2)].name}", "b"),
        ("{.labels.app\\.kubernetes\\.io/name}", "a"),
        ("{.labels['app.kubernetes.io/name']}", "a"),
        ('a{"\\t"}b{"\\n"}', "a\tb\n"),
        ("{.labels}", '{"app.kubernetes.io/name": "a"}'),
    ],
)
def test_what_a_template_prints(template: str, expect: str) -> None:
    assert evaluate(template, VALUE) == expect


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{range .items[*]}{.name}{end}", "not supported"),
        ("{.items[0:1]}", "not supported"),
        ("{.kind", "braces are not balanced"),
        ("{.items[?(@.n>1)]}", "not supported"),
    ],
)
def test_what_kubectl_has_beyond_that_is_refused(template: str, says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        evaluate(template, VALUE)
