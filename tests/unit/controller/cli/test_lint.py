"""`rukpak lint`: what is found in a bundle without a cluster, where, and what is not checked."""

from __future__ import annotations

import builtins
import io
import json
import sys
import textwrap
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.cli import main
from rukpak.controller.cli.lint import write_path
from rukpak.controller.cli.schemas import Schemas, close
from tests.support.operator_bundles import deployment, service_version, write_bundle
from tests.support.web_servers import FileServer
from tests.support.wrong_objects import DEFINITION, GOOD, SHELF, WRONG, Wrong, changed

DATA = Path(__file__).parents[3] / "data"
SCHEMAS = Schemas("1.36", [DEFINITION])


def kind_of(item: dict[str, Any]) -> tuple[str, str, str]:
    group, _, version = item["apiVersion"].rpartition("/")
    return group, version, item["kind"]


def found_in(item: dict[str, Any]) -> tuple[str, ...]:
    kind = kind_of(item)
    if SCHEMAS.contains(kind):
        problems = SCHEMAS.find_problems(kind, item)
    else:
        problem = SCHEMAS.explain_unknown(kind)
        problems = [problem] if problem else []
    return tuple(f"{write_path(path)}: {text}" for path, text in problems)


@pytest.mark.parametrize("case", WRONG, ids=attrgetter("name"))
def test_what_is_wrong_with_an_object(case: Wrong) -> None:
    assert found_in(case.item) == case.expect


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_wrong_with_a_good_object(name: str) -> None:
    assert found_in(GOOD[name]) == ()


CLOSED = [
    ("null where it is allowed", {"type": "string", "nullable": True, "enum": ["a"]},
     {"type": ["string", "null"], "enum": ["a", None]}),
    ("unknown fields that are kept", {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
     {"type": ["object"]}),
    ("all keys allowed", {"type": "object", "additionalProperties": True}, {"type": ["object"]}),
    ("no fields", {"type": "object", "description": "x"}, {"type": ["object"]}),
    ("fields", {"type": "object", "properties": {"a": {"type": "string"}}},
     {"type": ["object"], "properties": {"a": {"type": ["string"]}}, "additionalProperties": False}),
    ("anything", {"x-kubernetes-preserve-unknown-fields": True}, {}),
    ("conditions refuse no fields",
     {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"a": {"maxProperties": 1}}}],
      "not": {"required": ["b"]}},
     {"type": ["object"], "additionalProperties": False,
      "properties": {"a": {"type": ["string"]}},
      "anyOf": [{"properties": {"a": {"maxProperties": 1}}}], "not": {"required": ["b"]}}),
    ("an exclusive maximum", {"type": "number", "maximum": 2, "exclusiveMaximum": True},
     {"type": ["number"], "exclusiveMaximum": 2}),
    ("a maximum that is not exclusive", {"type": "number", "maximum": 2, "exclusiveMaximum": False},
     {"type": ["number"], "maximum": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expect"), [row[1:] for row in CLOSED], ids=[row[0] for row in CLOSED])
def test_a_structural_schema_becomes_a_strict_one(schema: dict[str, Any], expect: dict[str, Any]) -> None:
    assert close(schema, metadata={}) == expect


def test_a_pattern_is_matched_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": "^(a+)+$"}}}
    versions = [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}]
    definition = {**DEFINITION, "spec": {**DEFINITION["spec"], "versions": versions}}
    schemas = Schemas("1.36", [definition])
    problems = schemas.find_problems(kind_of(SHELF), {**SHELF, "spec": "a" * 100_000 + "!"})
    assert problems == [(("spec",), 'does not match the pattern "^(a+)+$"')]


def test_a_schema_that_is_nested_too_deep_is_told() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"a": schema}}
    path = "spec/versions/0/schema/openAPIV3Schema/properties/spec"
    assert found_in(changed(DEFINITION, path, schema)) == (": is nested too deep to be checked",)


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


WEB = """\
    # the shop
    ---
    apiVersion: v1
    kind: List
    items:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: settings}
    - apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: web
        namespace: shop
      spec:
        replica: 2
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec:
            containers:
            - name: web
              ports:
              - containerPort: "80"
    """
REPLICA = 'Deployment shop/web: spec.replica: unknown field; did you mean "replicas"?'
PORT = (
    "Deployment shop/web: spec.template.spec.containers[0].ports[0].containerPort: must be an integer, not a string; "
    "remove the quotes"
)


def test_a_folder_is_checked_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, {"manifests/web.yaml": WEB})
    assert lint(capsys, source) == (
        1,
        [f"manifests/web.yaml:15: {REPLICA}", f"manifests/web.yaml:23: {PORT}"],
        "objects: 2, problems: 2, by the schemas of Kubernetes 1.36\n",
    )


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = '{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "foo"}}'
    source = write(tmp_path, {"web.yaml": WEB.replace('"80"', "80"), "foo.json": foreign})
    status, lines, _ = lint(capsys, source, "-o", "json", "--kubernetes-version", "1.30")
    assert status == 1
    assert json.loads("\n".join(lines)) == {
        "kubernetesVersion": "1.30",
        "objects": 3,
        "findings": [
            {
                "file": "web.yaml",
                "line": 15,
                "group": "apps",
                "kind": "Deployment",
                "namespace": "shop",
                "name": "web",
                "field": "spec.replica",
                "problem": 'unknown field; did you mean "replicas"?',
            }
        ],
        "notChecked": [{"group": "example.com", "version": "v1", "kind": "Foo", "objects": 1}],
    }


def test_what_is_not_checked_is_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: {}\nkind: {}\nmetadata: {{name: {}}}\n---\n"
    kinds = [("example.com/v1", "Foo", "a"), ("example.com/v1", "Foo", "b"), ("v1", "ConfigMap", "c")]
    source = write(tmp_path, {"a.yaml": "".join(text.format(*each) for each in kinds)})
    counts = "objects: 3, problems: 0, by the schemas of Kubernetes 1.36"
    expect = f"{counts}; not checked, without a schema: Foo.example.com (2)\n"
    assert lint(capsys, source) == (0, [], expect)


def test_a_kind_that_the_cluster_serves_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(
        tmp_path,
        {
            "b/a.yaml": "apiVersion: policy/v1beta1\nkind: Ancient\nmetadata: {name: a}\n",
            "served.yaml": "kubernetesVersion: v1.27.3\nkinds:\n"
            "- {group: policy, version: v1beta1, kind: Ancient, scope: Namespaced}\n",
        },
    )
    assert lint(capsys, f"{source}/b")[0] == 1
    status, lines, told = lint(capsys, f"{source}/b", "--capabilities", f"{source}/served.yaml")
    assert (status, lines) == (0, [])
    assert told.startswith("objects: 1, problems: 0, by the schemas of Kubernetes 1.27; not checked, ")


def test_a_template_has_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = """\
        apiVersion: v1
        kind: Service
        metadata:
          name: {{ .Release.Name }}
        spec: {port: {{ .Values.port }}}
        """
    static = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: fixed\ndat: {}\n"
    files = {
        "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
        "templates/a.yaml": template,
        "templates/b.yaml": static,
        "values.yaml": "port: 80\n",
    }
    status, lines, _ = lint(capsys, write(tmp_path, files), "--name", "shop", "--install-namespace", "prod")
    assert status == 1
    assert sorted(lines) == [
        'Service prod/shop: spec.port: unknown field; did you mean "ports"?',
        'templates/b.yaml:5: ConfigMap prod/fixed: dat: unknown field; did you mean "data"?',
    ]


def test_a_registry_v1_bundle_is_checked_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"port": 80}}
    write_bundle(tmp_path, service_version(deployments=[deployment()]), service)
    status, lines, _ = lint(capsys, str(tmp_path), "--install-namespace", "prod")
    assert status == 1
    assert lines == ['manifests/00.json:1: Service prod/web: spec.port: unknown field; did you mean "ports"?']


def test_a_custom_object_is_checked_by_the_definition_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also as a folder that kubectl reads with -R."""
    shelf = "apiVersion: lint.example.com/v1\nkind: Shelf\nmetadata: {name: shelf}\nspec:\n  width: 30\n  hight: 1\n"
    source = write(tmp_path, {"crds/shelf.json": json.dumps(DEFINITION), "shop/shelf.yaml": shelf})
    assert lint(capsys, source) == (
        1,
        [
            "shop/shelf.yaml:6: Shelf default/shelf: spec.hight: unknown field",
            "shop/shelf.yaml:5: Shelf default/shelf: spec.width: must be at most 10",
        ],
        "objects: 2, problems: 2, by the schemas of Kubernetes 1.36\n",
    )


def test_two_files_with_an_object_of_the_same_name_are_told_apart_by_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s}\n%s"
    files = {"a.yaml": text % ("one", ""), "b.yaml": text % ("two", "dat: {}\n")}
    assert lint(capsys, write(tmp_path, files))[1] == [
        'b.yaml:4: ConfigMap two/a: dat: unknown field; did you mean "data"?'
    ]


def test_a_bundle_deployment_is_checked_without_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"web.yaml": WEB})
    with FileServer().serving() as server:
        server.files["/web.yaml"] = textwrap.dedent(WEB).encode()
        block = {"url": f"{server.address}/web.yaml", "insecureSkipTLSVerify": True}
        spec = {"format": "plain", "sources": [{"kind": "http", "http": block}], "installNamespace": "prod"}
        value = {"apiVersion": "core.rukpak.io/v1alpha2", "kind": "BundleDeployment", "metadata": {"name": "foo"}}
        (tmp_path / "bd.json").write_text(json.dumps({**value, "spec": spec}))
        assert lint(capsys, "-f", str(tmp_path / "bd.json"))[:2] == (1, [REPLICA, PORT])


def test_a_download_is_checked_without_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with FileServer().serving() as server:
        server.files["/web.yaml"] = textwrap.dedent(WEB).encode()
        words = [f"{server.address}/web.yaml", "--insecure-skip-tls-verify"]
        assert lint(capsys, *words)[:2] == (1, [REPLICA, PORT])


def test_objects_from_stdin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(textwrap.dedent(WEB).encode())))
    assert lint(capsys, "-")[:2] == (1, [REPLICA, PORT])


MISTAKES = [
    ([], "specify either SOURCE or -f FILE"),
    (["{}", "-f", "bd.yaml"], "specify either SOURCE or -f FILE"),
    (["-", "--config", "-"], "only one file can be read from stdin"),
    (["{}", "--kubernetes-version", "1.2"], '--kubernetes-version: no schemas of "1.2"; there are those of 1.25, '),
    (["{}/none"], "No such file or directory"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES)
def test_a_mistake_is_misuse(words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, told = lint(capsys, *(word.replace("{}", str(tmp_path)) for word in words))
    assert (status, lines) == (2, [])
    assert says in told


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_schemas(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == "kubernetes_validate":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.delitem(sys.modules, "rukpak.controller.cli.schemas")
    monkeypatch.setattr(builtins, "__import__", without_schemas)
    told = 'rukpak lint: the schemas of Kubernetes are missing; run: pip install "rukpak[lint]"\n'
    assert lint(capsys, write(tmp_path, {"web.yaml": WEB})) == (2, [], told)


INCOMPLETE = {
    "corners": [f"Deployment default/web: spec.{name}: required field is missing" for name in ("selector", "template")]
}
"""What a bundle lacks that only shows how manifests are read."""
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
    expect = INCOMPLETE.get(bundle, [])
    assert (status, lines) == (int(bool(expect)), expect), told
