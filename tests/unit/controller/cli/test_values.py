"""Values on the command line: each line of the table means what it means to the real Helm, or is refused."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.cli.values import Convert, find_credentials, merge_files, set_values, typed
from tests.support.charts import packaged_helm

BELOW: dict[str, Any] = {"l": [1, {"a": "b"}, [3]], "m": {"x": {"y": 1}}, "s": "t"}
UNTYPED = (
    *("a=1", "a=1,b=2", "a.b.c=x", "a=", "a=1,", "a=b=c", r"a=b\,c", r"a\.b=c", r"a=\\", "a= x ", 'a="x"', "a=ä"),
    *("a={}", "a={x}", "a={x,y}", "a={x,,y}", "a={,}", "a={x},b=1", "a={x}b=1", r"a={x\,y,z}", r"a=\{x\}", "a=[1]"),
    *("a={ x , y }", "a=x{y}"),
    *("a[0]=1", "a[2]=x", "a[0].b=c,a[0].d=e", "a[0][1]=z", "a[0]=", "a[0].b[1].c=1", "a.b[0]=1"),
    *("l[0]=9", "l[1].a=c", "l[1].n=1", "l[2][0]=4", "m.x=null", "m.x.y=2", "m=null"),
)
TYPED = (
    "a={1,true,null,x}",
    *("a=true", "a=True", "a=007", "a=0", "a=-5", "a=+5", "a=-05", "a=-0", "a=1.5", "a=1e3", "a=null", "a=NULL"),
    *("a=9223372036854775807", "a=9223372036854775808"),
)
REFUSED = {
    "a": 'key "a" has no value',
    "a,": 'key "a" has no value',
    ",a=1": 'key "" has no value',
    "a.b": 'key "b" has no value',
    "a={{x}}": 'key "}" has no value',
    "a={x": "a list must end with }",
    "s.x=1": '"s" is not a mapping',
    "a=1,a.b=2": '"a" is not a mapping',
    "s[0]=1": '"s" is not a list',
    "a.=x": 'no key before "="',
    "a..b=x": 'no key before "."',
    "a[x]=1": '"[x]" is not the position of an item',
    "a[]=1": '"[]" is not the position of an item',
    "a[-1]=1": '"[-1]" is not the position of an item',
    "a[70000]=1": '"[70000]" is not the position of an item',
    "a[0": '"[0" is not the position of an item',
    "a[0]x=1": 'item 0 is followed by "x"',
    ".".join("a" * 40) + "=1": "nested more than 30 levels deep",
}
FLAGS: Mapping[str, Convert] = {"--set": typed, "--set-string": str}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart")
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: c, version: 0.1.0}")
    (folder / "templates/a.yaml").write_text("{{ .Values | toJson }}\n")
    return folder


def render(chart: Path, *words: str, below: Mapping[str, Any] = BELOW) -> dict[str, Any] | None:
    """Return the values as Helm has them; None if it refuses the words."""
    (chart / "below.json").write_text(json.dumps(below))
    done = subprocess.run(
        [packaged_helm(), "template", chart, "-f", chart / "below.json", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode else json.loads(done.stdout.partition("a.yaml\n")[2])


def without_nulls(value: Any) -> Any:
    """Return values without what is null, which Helm may remove."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return value


@pytest.mark.parametrize(("flag", "texts"), [("--set", (*UNTYPED, *TYPED)), ("--set-string", TYPED)])
def test_values_are_those_of_helm(flag: str, texts: tuple[str, ...], chart: Path) -> None:
    """Each text is about a mapping of its own, so that Helm is run once."""
    values = {f"p{number}": copy.deepcopy(BELOW) for number in range(len(texts))}
    words = [f"p{number}.{text}" for number, text in enumerate(texts)]
    found = render(chart, *(word for text in words for word in (flag, text)), below=values)
    assert found is not None
    for text in words:
        set_values(values, text, FLAGS[flag])
    for name, text in zip(values, words, strict=False):
        assert without_nulls(values[name]) == without_nulls(found[name]), text
    assert without_nulls(values) == without_nulls(found)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        set_values(copy.deepcopy(BELOW), text, typed)
    assert REFUSED[text] in str(caught.value)


@pytest.mark.repeats
@pytest.mark.parametrize("text", [text for text in REFUSED if text != ",a=1"])  # which Helm ignores
def test_helm_refuses_it_as_well(text: str, chart: Path) -> None:
    assert render(chart, "--set", text) is None


CREDENTIALS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a password": ({"auth": {"adminPassword": "x"}}, ["spec.config.auth.adminPassword"]),
    "a number": ({"password": 1234}, ["spec.config.password"]),
    "a token in a list": ({"users": [{"api_token": "x"}]}, ["spec.config.users[0].api_token"]),
    "an environment variable": ({"env": [{"name": "DB_PASSWORD", "value": "x"}]}, ["spec.config.env[0].value"]),
    "a variable from a Secret": ({"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}, []),
    "a client secret and a key": (
        {"clientSecret": "x", "AWS_SECRET_ACCESS_KEY": "x"},
        ["spec.config.clientSecret", "spec.config.AWS_SECRET_ACCESS_KEY"],
    ),
    "no password": ({"password": "", "token": None}, []),
    "names of Secrets": ({"existingSecret": "x", "imagePullSecret": "x", "secretName": "x", "passwordKey": "x"}, []),
    "switches and limits": ({"automountToken": True, "maxTokens": 5, "tokenTTL": "5m"}, []),
}


@pytest.mark.parametrize("case", CREDENTIALS)
def test_what_is_a_credential_by_its_name(case: str) -> None:
    config, expected = CREDENTIALS[case]
    assert [path for path, _ in find_credentials(config)] == expected


def test_a_later_file_wins_and_mappings_are_merged() -> None:
    files: list[dict[str, Any]] = [{"a": {"b": 1, "c": 1}, "d": [1]}, {"a": {"c": 2}, "d": [2], "e": None}]
    assert merge_files(files) == {"a": {"b": 1, "c": 2}, "d": [2], "e": None}
