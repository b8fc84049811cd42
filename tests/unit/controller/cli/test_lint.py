"""`rukpak lint`: what is found in a bundle without a cluster, where, and what is not checked."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.building.capabilities import shipped
from rukpak.controller.cli import main
from rukpak.controller.cli.lint import find_problems
from tests.support.operator_bundles import deployment, service_version, write_bundle
from tests.support.web_servers import FileServer
from tests.support.wrong_objects import DEFINITION, GOOD, SHELF, SHELVES, WRONG, Wrong

DATA = Path(__file__).parents[3] / "data"


def found_in(item: dict[str, Any], schema: dict[str, Any] = SHELVES) -> tuple[str, ...]:
    return tuple(f"{field}: {problem}" for field, problem in find_problems(item, schema))


@pytest.mark.parametrize("case", WRONG, ids=attrgetter("name"))
def test_what_is_wrong_with_an_object(case: Wrong) -> None:
    assert found_in(case.item) == case.expect


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_wrong_with_a_good_object(name: str) -> None:
    assert found_in(GOOD[name]) == ()


def spec_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


FIELDS = {"type": "object", "properties": {"a": {"type": "string"}}}
KEPT = {"x-kubernetes-preserve-unknown-fields": True}
UNKNOWN = [
    ("beside known ones", FIELDS, {"b": 1}, ("spec.b: unknown field",)),
    ("without a value", FIELDS, {"b": None}, ("spec.b: unknown field",)),
    ("where all are kept", {**FIELDS, **KEPT}, {"b": 1}, ()),
    ("where no field is known", {"type": "object"}, {"b": 1}, ()),
    ("where all keys are allowed", {"type": "object", "additionalProperties": True}, {"b": 1}, ()),
    ("where only conditions name it", {**FIELDS, "anyOf": [{"properties": {"b": {"maximum": 1}}}]}, {"b": 1},
     ("spec.b: unknown field",)),
    ("below what is kept", {"type": "object", **KEPT, "properties": {"c": FIELDS}}, {"c": {"b": 1}, "d": {"b": 1}},
     ("spec.c.b: unknown field",)),
    ("in values of a mapping", {"type": "object", "additionalProperties": FIELDS}, {"x/y": {"b": 1}},
     ("spec.x/y.b: unknown field",)),
    ("in a list of lists", {"type": "array", "items": {"type": "array", "items": FIELDS}}, [[], [{"b": 1}]],
     ("spec[1][0].b: unknown field",)),
    ("in an embedded object without a schema", {"type": "object", "x-kubernetes-embedded-resource": True},
     {"apiVersion": "v1", "kind": "A", "b": 1}, ("spec.b: unknown field",)),
    ("in a schema that is none", {"properties": [], "items": 1}, {"b": [{"c": 1}]}, ()),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expect"), [row[1:] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN])
def test_a_field_is_unknown(schema: dict[str, Any], value: Any, expect: tuple[str, ...]) -> None:
    assert found_in({**SHELF, "spec": value}, spec_of(schema)) == expect


def test_a_pattern_is_matched_in_linear_time() -> None:
    schema = spec_of({"type": "string", "pattern": "^(a+)+$"})
    problems = found_in({**SHELF, "spec": "a" * 100_000 + "!"}, schema)
    assert problems == ('spec: does not match the pattern "^(a+)+$"',)


@pytest.mark.parametrize("depth", [2000, 20_000])
def test_what_is_nested_too_deep_is_told(depth: int) -> None:
    value: Any = "x"
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        value, schema = {"a": value}, {"type": "object", "properties": {"a": schema}}
    assert found_in({**SHELF, "spec": value}, spec_of(schema)) == (": has too many values or levels to be checked",)


def test_values_that_take_too_many_steps_are_told() -> None:
    schema = spec_of({"type": "array", "items": {"enum": list(range(1000))}})
    assert found_in({**SHELF, "spec": [1] * 1000}, schema) == (": has too many values or levels to be checked",)


# the command


def lint(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    status = main(["lint", *words])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return str(root)


SHELF_FILE = """\
    # the library
    ---
    apiVersion: v1
    kind: List
    items:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: settings}
    - apiVersion: lint.example.com/v1
      kind: Shelf
      metadata:
        name: shelf
        namespace: shop
      spec:
        wdth: 3
        width: 3
        books:
        - title: Emma
        - title: 1984
        labels: {a.b: x, a.b/c: 2}
    """
DEFINITION_FILE = json.dumps(DEFINITION)
WDTH = 'Shelf shop/shelf: spec.wdth: unknown field; did you mean "width"?'
TITLE = "Shelf shop/shelf: spec.books[1].title: must be of type string"
LABEL = "Shelf shop/shelf: spec.labels.a.b/c: must be of type string"
ELSEWHERE = (
    "to check the others, run: rukpak render … | kubeconform -strict -ignore-missing-schemas; or rukpak diff …,"
    " which asks the API server\n"
)


def test_a_custom_object_is_checked_by_the_definition_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With file and line; also as a folder that kubectl reads with -R."""
    source = write(tmp_path, {"crds/shelf.json": DEFINITION_FILE, "shop/shelf.yaml": SHELF_FILE})
    status, lines, told = lint(capsys, source)
    assert status == 1
    assert lines == [f"shop/shelf.yaml:19: {TITLE}", f"shop/shelf.yaml:20: {LABEL}", f"shop/shelf.yaml:15: {WDTH}"]
    unchecked = "ConfigMap (1), CustomResourceDefinition.apiextensions.k8s.io (1)"
    counts = f"objects: 3, problems: 3; fields not checked, without a schema in the bundle: {unchecked}\n"
    assert told == counts + ELSEWHERE


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = '{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "foo"}}'
    gone = '{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}'
    source = write(tmp_path, {"web.json": gone, "foo.json": foreign})
    status, lines, _ = lint(capsys, source, "-o", "json")
    assert status == 1
    assert json.loads("\n".join(lines)) == {
        "kubernetesVersion": shipped().kubernetes_version,
        "objects": 2,
        "findings": [
            {
                "file": "web.json",
                "line": 1,
                "group": "apps",
                "kind": "Deployment",
                "namespace": "shop",
                "name": "web",
                "field": "apiVersion",
                "problem": 'apps/v1beta1 has no kind "Deployment"; use apps/v1',
            }
        ],
        "notChecked": [{"group": "example.com", "version": "v1", "kind": "Foo", "objects": 1}],
    }


SHELF_CRD = f"---\n{DEFINITION_FILE}\n"
KINDS = [
    ("one of Kubernetes", "v1", "ConfigMap", "", ""),
    ("one that may be defined elsewhere", "example.com/v1", "Foo", "", ""),
    ("a version that is gone", "policy/v1beta1", "PodDisruptionBudget", "",
     'apiVersion: policy/v1beta1 has no kind "PodDisruptionBudget"; use policy/v1'),
    ("a misspelt kind", "apps/v1", "Deploymnet", "",
     'kind: apps/v1 has no kind "Deploymnet"; did you mean "Deployment"?'),
    ("a misspelt kind of the core group", "v1", "Servce", "", 'kind: v1 has no kind "Servce"; did you mean "Service"?'),
    ("a group that is gone", "extensions/v1beta1", "Ingress", "", 'kind: extensions/v1beta1 has no kind "Ingress"'),
    ("a misspelt kind of a group with dots", "rbac.authorization.k8s.io/v1", "Rol", "",
     'kind: rbac.authorization.k8s.io/v1 has no kind "Rol"; did you mean "Role"?'),
    ("a version that the bundle does not serve", "lint.example.com/v1alpha1", "Shelf", SHELF_CRD,
     'apiVersion: lint.example.com/v1alpha1 has no kind "Shelf"; use lint.example.com/v1'),
    ("a misspelt kind of the bundle", "lint.example.com/v1", "Shelve", SHELF_CRD,
     'kind: lint.example.com/v1 has no kind "Shelve"; did you mean "Shelf"?'),
]  # fmt: skip


@pytest.mark.parametrize("row", [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_a_kind_exists_or_not(row: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api_version, kind, beside, expect = row
    text = f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a, namespace: b}}\n{beside}"
    status, lines, _ = lint(capsys, write(tmp_path, {"a.yaml": text}))
    assert status == bool(expect)
    assert [line.partition(f" {kind} b/a: ")[2] for line in lines] == ([expect] if expect else [])


def test_what_is_not_checked_is_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: {}\nkind: {}\nmetadata: {{name: {}}}\n---\n"
    kinds = [("example.com/v1", "Foo", "a"), ("example.com/v1", "Foo", "b"), ("v1", "ConfigMap", "c")]
    source = write(tmp_path, {"a.yaml": "".join(text.format(*each) for each in kinds)})
    unchecked = "ConfigMap (1), Foo.example.com (2)"
    counts = f"objects: 3, problems: 0; fields not checked, without a schema in the bundle: {unchecked}\n"
    assert lint(capsys, source) == (0, [], counts + ELSEWHERE)


def test_a_kind_that_the_cluster_serves_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ancient = "apiVersion: {}/v1beta1\nkind: Ancient\nmetadata: {{name: a}}\n"
    source = write(
        tmp_path,
        {
            "b/a.yaml": ancient.format("policy"),
            "b/b.yaml": ancient.format("down"),
            "served.yaml": "kubernetesVersion: v1.27.3\nunknownGroups: [down]\nkinds:\n"
            "- {group: policy, version: v1beta1, kind: Ancient, scope: Namespaced}\n",
        },
    )
    assert len(lint(capsys, f"{source}/b")[1]) == 2
    status, lines, told = lint(capsys, f"{source}/b", "--capabilities", f"{source}/served.yaml")
    assert (status, lines) == (0, []), told


def test_a_template_has_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = """\
        apiVersion: lint.example.com/v1
        kind: Shelf
        metadata:
          name: {{ .Release.Name }}
        spec: {width: {{ .Values.width }}}
        """
    static = "apiVersion: lint.example.com/v1\nkind: Shelf\nmetadata:\n  name: fixed\nspec: {width: 3}\nspc: {}\n"
    files = {
        "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
        "crds/shelf.yaml": DEFINITION_FILE,
        "templates/a.yaml": template,
        "templates/b.yaml": static,
        "values.yaml": "width: 80\n",
    }
    status, lines, _ = lint(capsys, write(tmp_path, files), "--name", "shop", "--install-namespace", "prod")
    assert status == 1
    assert sorted(lines) == [
        "Shelf prod/shop: spec.width: is above the maximum 10",
        'templates/b.yaml:6: Shelf prod/fixed: spc: unknown field; did you mean "spec"?',
    ]


def test_a_registry_v1_bundle_is_checked_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budget = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    write_bundle(tmp_path, service_version(deployments=[deployment()]), budget)
    status, lines, _ = lint(capsys, str(tmp_path), "--install-namespace", "prod")
    assert status == 1
    told = 'apiVersion: policy/v1beta1 has no kind "PodDisruptionBudget"; use policy/v1'
    assert lines == [f"manifests/00.json:1: PodDisruptionBudget prod/web: {told}"]


def test_null_is_dropped_as_the_controller_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    item = {**SHELF, "metadata": {"name": "a", "namespace": "b", "creationTimestamp": None, "labels": None}}
    item["spec"] = {
        "width": None,
        "depth": None,
        "owner": None,
        "material": None,
        "books": [None],
        "labels": {"a": None},
    }
    write(tmp_path, {"a.json": json.dumps(item), "crd.json": DEFINITION_FILE})
    assert lint(capsys, str(tmp_path))[1] == [
        "a.json:1: Shelf b/a: spec.books[0]: must be of type object",
        "a.json:1: Shelf b/a: spec.width: is required",
    ]


def test_two_files_with_an_object_of_the_same_name_are_told_apart_by_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "apiVersion: lint.example.com/v1\nkind: Shelf\nmetadata: {name: a, namespace: %s}\nspec:\n  width: %d\n"
    files = {"a.yaml": text % ("one", 3), "b.yaml": text % ("two", 11), "crd.json": DEFINITION_FILE}
    assert lint(capsys, write(tmp_path, files))[1] == ["b.yaml:5: Shelf two/a: spec.width: is above the maximum 10"]


WHOLE = textwrap.dedent(SHELF_FILE) + SHELF_CRD


def test_a_bundle_deployment_is_checked_without_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FileServer().serving() as server:
        server.files["/web.yaml"] = WHOLE.encode()
        block = {"url": f"{server.address}/web.yaml", "insecureSkipTLSVerify": True}
        spec = {"format": "plain", "sources": [{"kind": "http", "http": block}], "installNamespace": "prod"}
        value = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": "BundleDeployment", "metadata": {"name": "foo"}}
        (tmp_path / "bd.json").write_text(json.dumps({**value, "spec": spec}))
        assert lint(capsys, "-f", str(tmp_path / "bd.json"))[:2] == (1, [TITLE, LABEL, WDTH])


def test_a_download_is_checked_without_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with FileServer().serving() as server:
        server.files["/web.yaml"] = WHOLE.encode()
        words = [f"{server.address}/web.yaml", "--insecure-skip-tls-verify"]
        assert lint(capsys, *words)[:2] == (1, [TITLE, LABEL, WDTH])


def test_objects_from_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(WHOLE.encode())))
    assert lint(capsys, "-")[:2] == (1, [TITLE, LABEL, WDTH])


MISTAKES = [
    ([], "specify either SOURCE or -f FILE"),
    (["{}", "-f", "bd.yaml"], "specify either SOURCE or -f FILE"),
    (["-", "--config", "-"], "only one file can be read from stdin"),
    (["{}/none"], "No such file or directory"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES)
def test_a_mistake_is_misuse(words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, told = lint(capsys, *(word.replace("{}", str(tmp_path)) for word in words))
    assert (status, lines) == (2, [])
    assert says in told


CONFIG = {"plain": "{}", "registry-v1": "certificateProvider: none\n"}


@pytest.mark.parametrize(
    ("format_name", "bundle"),
    [(name, path.parent.name) for name in CONFIG for path in sorted((DATA / name).glob("*/bundle"))],
)
def test_nothing_is_wrong_with_a_good_bundle(
    format_name: str, bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write(tmp_path, {"config.yaml": CONFIG[format_name]}) + "/config.yaml"
    status, lines, told = lint(capsys, str(DATA / format_name / bundle / "bundle"), "--config", config)
    assert (status, lines) == (0, []), told
