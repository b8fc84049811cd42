"""`lookup` in charts: what a template gets for each way to call it, from both Helms, and what is asked."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Answers, Lookup, Rendering
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.helm.lookups import UnansweredError, find_calls, rewrite, rewrite_files
from tests.support.charts import DATA, chart_of, render, write

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "db", "namespace": "shop", "labels": {"a.b/c": "}} {{ \"d\" `e` 'f'"}},
    "data": {"password": "c2VjcmV0"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "generation": 3},
    "spec": {"replicas": 3, "paused": False, "big": 12345678901, "ratio": 0.5, "none": None, "args": ["a", 1, {}]},
}
CLUSTER: Answers = {
    Lookup("v1", "Secret", "shop", "db"): SECRET,
    Lookup("v1", "Secret", "other", "db"): {**SECRET, "data": {"password": "b3RoZXI="}},
    Lookup("apps/v1", "Deployment", "shop", "web"): DEPLOYMENT,
    Lookup("v1", "ConfigMap", "shop", ""): {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"a": 1}, {"a": 2}]},
    Lookup("v1", "Namespace", "", "shop"): {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    Lookup("v1", "ConfigMap", "shop", "odd"): {"data": {"text": 'a"b\\c\nd\te$1é😀\u2028<&>}}{{/* x */}}'}},
}
CORPUS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent")) / "helm"
CHARTS = [path.parent for path in sorted([*DATA.glob("*/Chart.yaml"), *CORPUS.glob("*/Chart.yaml")])]
FIXED = {"shop": {"password": "correct horse"}}
"""Values of charts that would generate them."""
PASSWORD = '(lookup "v1" "Secret" "shop" "db").data.password'


@dataclass(frozen=True)
class Way:
    name: str
    template: str
    expect: Any
    files: Mapping[str, str] = field(default_factory=dict)


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# fmt: off
WAYS = [
    Way("a field of what is found", f"{{{{ {PASSWORD} }}}}", "c2VjcmV0"),
    Way("without spaces", '{{(lookup "v1" "Secret" "shop" "db").data.password}}', "c2VjcmV0"),
    Way("over several lines",
        '{{\n (lookup "v1"\n\t"Secret" "shop"\n "db"\n).data.password\n}}', "c2VjcmV0"),
    Way("raw strings", "{{ (lookup `v1` `Secret` `shop` `db`).data.password }}", "c2VjcmV0"),
    Way("a name that is piped in", '{{ "db" | lookup "v1" "Secret" "shop" | dig "kind" "x" }}', "Secret"),
    Way("a pipeline that goes on", '{{ lookup "v1" "Secret" "shop" "db" | dig "data" "password" "x" }}', "c2VjcmV0"),
    Way("arguments that are computed",
        '{{ (lookup "v1" "Secret" .Release.Namespace (printf "%s" (list "d" "b" | join ""))).data.password }}',
        "c2VjcmV0"),
    Way("an argument that is a field of another lookup",
        '{{ (lookup "v1" "Secret" (lookup "v1" "Namespace" "" "shop").metadata.name "db").data.password }}',
        "c2VjcmV0"),
    Way("a variable, and what is called like the function",
        '{{ $lookup := lookup "v1" "Secret" "shop" "db" }}{{ $d := dict "lookup" "a" }}'
        '{{ $lookup.data.password }}{{ $d.lookup }}{{ "lookup \\"x\\"" }}', 'c2VjcmV0alookup "x"'),
    Way("a variable that is assigned",
        '{{ $a := 1 }}{{ $a = lookup "v1" "Secret" "shop" "db" }}{{ $a.kind }}', "Secret"),
    Way("with", '{{ with lookup "v1" "Secret" "shop" "db" }}{{ .data.password }}{{ end }}', "c2VjcmV0"),
    Way("if and else if",
        '{{ if lookup "v1" "Secret" "shop" "no" }}a{{ else if lookup "v1" "Secret" "shop" "db" }}b{{ end }}', "b"),
    Way("else with", '{{ with lookup "v1" "Secret" "shop" "no" }}a{{ else }}b{{ end }}', "b"),
    Way("range", '{{ range $k, $v := lookup "v1" "Secret" "shop" "db" }}{{ $k }} {{ end }}x',
        "apiVersion data kind metadata x"),
    Way("a list", '{{ range (lookup "v1" "ConfigMap" "shop" "").items }}{{ add .a 1 }}{{ end }}x', "23x"),
    Way("what does not exist", '{{ lookup "v1" "Secret" "shop" "no" | toJson }}', "{}"),
    Way("what does not exist is empty", '{{ empty (lookup "v1" "Secret" "shop" "no") }}', True),
    Way("another namespace", '{{ (lookup "v1" "Secret" "other" "db").data.password }}', "b3RoZXI="),
    Way("the same call for two objects",
        '{{ range list "shop" "other" }}{{ (lookup "v1" "Secret" . "db").data.password | trunc 3 }}{{ end }}x',
        "c2Vb3Rx"),
    Way("integers stay integers",
        '{{ $s := (lookup "apps/v1" "Deployment" "shop" "web").spec }}{{ gt $s.replicas 1 }} {{ kindOf $s.replicas }} '
        '{{ $s.big }} {{ kindOf $s.ratio }} {{ $s.paused }} {{ kindOf $s.none }} {{ toJson $s.args }}',
        'true int64 12345678901 float64 false invalid ["a",1,{}]'),
    Way("text of any kind",
        '{{ (lookup "v1" "ConfigMap" "shop" "odd").data.text | toJson | b64enc }}', "%s"),
    Way("what looks like the end of an action",
        '{{ index (lookup "v1" "Secret" "shop" "db").metadata.labels "a.b/c" | b64enc }}', "%s"),
    Way("and, or, not and default",
        '{{ and (lookup "v1" "Secret" "shop" "db") (not (lookup "v1" "Secret" "shop" "no")) }}'
        '{{ (lookup "v1" "Secret" "shop" "no").data | default "none" }}', "truenone"),
    Way("in a helper", '{{ include "way" (dict "n" "db") }}', "c2VjcmV0",
        {"_way.tpl": '{{- define "way" -}}\n{{- (lookup "v1" "Secret" "shop" .n).data.password -}}\n{{- end -}}'}),
    Way("in a template that is included with it", '{{ template "w" lookup "v1" "Secret" "shop" "db" }}', "Secret",
        {"_w.tpl": '{{ define "w" }}{{ .kind }}{{ end }}'}),
    Way("in a text that tpl evaluates", "{{ tpl .Values.text . }}", "c2VjcmV0"),
    Way("in a text that tpl evaluates in parentheses", '{{ (tpl (get .Values "text") $) | upper }}', "C2VJCMV0"),
    Way("in a text of a text", "{{ tpl .Values.nested . }}", "c2VjcmV0"),
    Way("several times in a text", "{{ tpl .Values.several . }}", "c2VjcmV0 b3RoZXI= c2VjcmV0"),
    Way("in a file that tpl evaluates", '{{ tpl (.Files.Get "files/a.txt") . }}', "c2VjcmV0"),
    Way("in a text that is shown as it is", "{{ .Values.text | b64enc }}", "%s"),
    Way("in a file that is shown as it is", '{{ .Files.Get "files/a.txt" | b64enc }}', "%s"),
    Way("in a comment, a text and outside of actions",
        '{{/* lookup "a" */}}{{- /* lookup */ -}}{{ "lookup" }} (lookup "v1")', 'lookup (lookup "v1")'),
]
# fmt: on
VALUES = {
    "text": f"{{{{ {PASSWORD} }}}}",
    "nested": "{{ tpl .Values.text . }}",
    "several": f"{{{{ {PASSWORD} }}}} "
    "{{ (lookup `v1` `Secret` (list `other` | first) (printf `%s` (`db`))).data.password }} "
    '{{ with (lookup "v1" "Secret" .Release.Namespace "db") }}{{ .data.password }}{{ end }}',
}
COMPUTED = {
    "text of any kind": base64.b64encode(
        json.dumps(CLUSTER[Lookup("v1", "ConfigMap", "shop", "odd")]["data"]["text"], ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .encode()
    ).decode(),
    "what looks like the end of an action": encode(SECRET["metadata"]["labels"]["a.b/c"]),  # type: ignore[index]
    "in a text that is shown as it is": encode(VALUES["text"]),
    "in a file that is shown as it is": encode(VALUES["text"]),
}


def look_up_all(root: Path, scratch: Path, cluster: Answers, **options: Any) -> tuple[Rendering, Answers]:
    """Render until no question is left, and return what was asked, too."""
    answers: dict[Lookup, Mapping[str, Any]] = {}
    while True:
        try:
            return render(root, scratch, answers=answers, **options), answers
        except UnansweredError as error:
            assert error.lookup not in answers
            answers[error.lookup] = cluster.get(error.lookup, {})


@pytest.fixture(scope="module")
def rendered(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    files = {"values.yaml": yaml.safe_dump(VALUES), "files/a.txt": VALUES["text"]}
    for number, way in enumerate(WAYS):
        text = (
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: way-{number}}}\ndata:\n  a: |-\n    {way.template}\n"
        )
        files[f"templates/way-{number}.yaml"] = text
        files |= {f"templates/{name}": text for name, text in way.files.items()}
    root = tmp_path_factory.mktemp("chart")
    write(root, chart_of(files))
    rendering, _ = look_up_all(root, tmp_path_factory.mktemp("scratch"), CLUSTER, programs={"helm": str(helm)})
    return {item["metadata"]["name"]: item["data"]["a"] for item in rendering.objects}


@pytest.mark.parametrize("way", WAYS, ids=attrgetter("name"))
def test_a_way_to_look_up(way: Way, rendered: dict[str, Any]) -> None:
    found = rendered[f"way-{WAYS.index(way)}"].strip()
    expect = COMPUTED.get(way.name, way.expect)
    assert found == (str(expect).lower() if expect is True else expect)


@dataclass(frozen=True)
class Failing:
    name: str
    template: str
    message: str
    values: str = "{}"


SECRET_CALL = '(lookup "v1" "Secret" "shop" "db") '
FORGED = base64.b64encode(b'["v1","Secret","shop","db"]').decode()
# fmt: off
FAILING = [
    Failing("what is not there", '{{ (lookup "v1" "Secret" "shop" "no").data.password }}',
        '"c": c/templates/a.yaml:2: at <lookup>: nil pointer evaluating interface {}.password'),
    Failing("too few arguments", '{{ lookup "v1" "Secret" "shop" }}',
        '"c": lookup needs four texts: apiVersion, kind, namespace and name; correct the template'),
    Failing("no argument", "{{ lookup }}",
        '"c": lookup needs four texts: apiVersion, kind, namespace and name; correct the template'),
    Failing("an argument that is no text", '{{ lookup "v1" "Secret" "shop" 1 }}',
        '"c": lookup needs four texts: apiVersion, kind, namespace and name; correct the template'),
    Failing("a value that is not set", '{{ lookup "v1" "Secret" "shop" .Values.name }}',
        '"c": lookup needs four texts: apiVersion, kind, namespace and name; correct the template'),
    Failing("a name with a slash", '{{ lookup "v1" "Secret" "shop" "a/b" }}',
        '"c": lookup of "a/b", which is no name; correct the template or its values'),
    Failing("the parent of a collection", '{{ lookup "v1" "Secret" ".." "b" }}',
        '"c": lookup of "..", which is no namespace; correct the template or its values'),
    Failing("an encoded slash", '{{ lookup "v1" "Secret" "shop" "a%2fb" }}',
        '"c": lookup of "a%2fb", which is no name; correct the template or its values'),
    Failing("a query", '{{ lookup "v1?a=b" "Secret" "shop" "b" }}',
        '"c": lookup of "v1?a=b", which is no apiVersion; correct the template or its values'),
    Failing("more calls in an action of a text than tpl supports", "{{ tpl .Values.text . }}",
        "lookup is called in a way that is not supported in what tpl evaluates: at most 8 times in an action, and with "
        "at most 4 levels of parentheses",
        json.dumps({"text": f"{{{{ list {SECRET_CALL * 9}}}}}"})),
    Failing("a question that is answered, as the chart claims",
        f'{{{{ fail "rukpak-lookup-{FORGED}-end" }}}}{{{{ lookup "v1" }}}}',
        '"c": c/templates/a.yaml:2: rukpak-lookup-'),
    Failing("a mistake in a template with calls", '{{ lookup "v1" "Secret" "shop" "db" | nope }}',
        '"c": c/templates/a.yaml:2: function "nope" not defined'),
    Failing("an action without an end", '{{ lookup "v1" "Secret" "shop" "db"',
        '"c": c/templates/a.yaml:3: unclosed action'),
    Failing("a text without an end", '{{ lookup "v1 }}', '"c": c/templates/a.yaml:2: unterminated quoted string'),
    Failing("a parenthesis too many", '{{ lookup "v1" "Secret" "shop" "db")) | quote }}',
        '"c": c/templates/a.yaml:2: unexpected right paren'),
]
# fmt: on


SPELLINGS = {"no argument", "a value that is not set", "an encoded slash", "a text without an end"}
"""Each fails like the case before it."""


@pytest.mark.thorough
@pytest.mark.parametrize("case", [case for case in FAILING if case.name in SPELLINGS], ids=attrgetter("name"))
def test_a_failure_that_is_spelled_otherwise_is_told_as_well(case: Failing, helm: Path, tmp_path: Path) -> None:
    test_a_failure_is_told_in_words_of_the_chart(case, helm, tmp_path)


@pytest.mark.parametrize("case", [case for case in FAILING if case.name not in SPELLINGS], ids=attrgetter("name"))
def test_a_failure_is_told_in_words_of_the_chart(case: Failing, helm: Path, tmp_path: Path) -> None:
    text = f"a: b\nc: {case.template}\n"
    write(tmp_path / "chart", chart_of({"templates/a.yaml": text, "values.yaml": case.values}))
    with pytest.raises(BundleError) as raised:
        look_up_all(tmp_path / "chart", tmp_path / "scratch", CLUSTER, programs={"helm": str(helm)})
    assert raised.value.reason is Reason.RENDER_FAILED
    assert case.message in raised.value.message


CALLS = {
    "none": (b"a: {{ .Values.lookup }} {{/* lookup */}} lookup", []),
    "two on two lines": (
        b'{{ lookup "v1" "Secret" .a "b" }}\n{{ (lookup "apps/v1" .k "" "") }}',
        [
            "1 v1/Secret",
            "2 apps/v1/…",
        ],
    ),
    "one that has a kind piped in": (b'{{ "x" | lookup }}', ["1 …/…"]),
    "one in bytes that are no text": (b'\xff{{ $\xe9 := lookup "v1" "Secret" "" "b" }}\xfe', ["1 v1/Secret"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_template_asks_for(name: str) -> None:
    text, expect = CALLS[name]
    assert [f"{line} {call}" for line, call in find_calls(text)] == expect


UNANSWERED: dict[str, tuple[dict[str, Any], str]] = {
    "not answered": ({}, "templates/a.yaml:4 (v1/Secret)"),
    "answered, and forbidden by the config": (
        {"answers": CLUSTER, "config": {"lookup": "Never"}},
        "templates/a.yaml:4 (v1/Secret)",
    ),
}


@pytest.mark.parametrize("name", UNANSWERED)
def test_a_chart_that_is_not_answered_has_a_warning(name: str, tmp_path: Path) -> None:
    options, where = UNANSWERED[name]
    write(tmp_path / "chart", chart_of({"templates/a.yaml": SHOWN % NO_PASSWORD}))
    rendering = render(tmp_path / "chart", tmp_path / "scratch", **options)
    warning = f"lookup finds nothing in this rendering, and the result may depend on it: {where}"
    assert ([item["data"]["a"] for item in rendering.objects], rendering.warnings) == (["none"], (warning,))


def test_a_chart_without_lookup_is_rendered_as_it_is(tmp_path: Path) -> None:
    files = {"templates/a.yaml": SHOWN % "{{ tpl .Values.a . }}", "values.yaml": "a: x # where to lookup things\n"}
    write(tmp_path / "chart", chart_of(files))
    render(tmp_path / "chart", tmp_path / "scratch", answers={})
    assert "rukpak" not in str([*(tmp_path / "scratch").rglob("*")]).replace(str(tmp_path), "")


SHOWN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: %s}\n"
NO_PASSWORD = '{{ (lookup "v1" "Secret" "shop" "db").a | default "none" }}'


@pytest.mark.skipif(not CHARTS, reason="RUKPAK_CORPUS names no charts")
@pytest.mark.parametrize("chart", CHARTS, ids=attrgetter("name"))
def test_in_an_empty_cluster_a_chart_is_what_it_is_without_one(chart: Path, helm: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"programs": {"helm": str(helm)}, "config": {"values": FIXED.get(chart.name, {})}}
    expect = render(chart, tmp_path, **options)
    found, _ = look_up_all(chart, tmp_path, {}, **options)
    assert (found.objects, found.hooks) == (expect.objects, expect.hooks)


MOST_SECONDS = 2.0
"""Of processor time, for what takes a tenth of that; where each piece makes the next one take longer, it is minutes."""
HOSTILE = {
    "comments without an end": "{{/* }}",
    "actions without an end": "{{ (",
    "calls": '{{ lookup "v1" "Secret" "shop" "db" }}\n',
    "calls in one action": 'lookup "v1" "Secret" "shop" "db" | ',
    "evaluations in one action": "tpl ",
    "parentheses": "(",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_takes_no_longer_than_another(name: str) -> None:
    piece, size = HOSTILE[name], 1 << 15
    text = f"{{{{ {piece * (size // len(piece))}{')' * size}".encode()
    begun = time.thread_time()
    find_calls(text)
    rewrite(text, {})
    assert time.thread_time() - begun < MOST_SECONDS


def test_templates_with_answers_have_a_limit() -> None:
    large = {Lookup("v1", "Secret", "shop", "db"): {"a": "x" * (1 << 20)}}
    with pytest.raises(BundleError, match="too large with what is found"):
        rewrite(b'{{ lookup "v1" "Secret" "shop" "db" }}' * 40, large)


def test_helm_is_given_no_file_that_it_would_not_read(tmp_path: Path) -> None:
    write(tmp_path, chart_of({"templates/a.yaml": '{{ lookup "v1" "Secret" "shop" "db" }}' * 2 + "{{ tpl .a . }}"}))
    answers = {Lookup("v1", "Secret", "shop", "db"): {"a": "x" * (2 << 20)}}
    assert rewrite_files(tmp_path / "c", answers) < 7 << 20  # the answer once in what tpl evaluates
    write(tmp_path, chart_of({"templates/a.yaml": '{{ lookup "v1" "Secret" "shop" "db" }}' * 3}))
    with pytest.raises(BundleError, match="too large with what is found"):
        rewrite_files(tmp_path / "c", answers)
