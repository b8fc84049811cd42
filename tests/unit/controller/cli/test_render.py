"""`rukpak render`: from a folder without cluster or network, from a BundleDeployment with them."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.cli import main
from controller.formats.applicable import revision_digest

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A folder with a plain bundle of one object."""
    folder = tmp_path / "bundle"
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests" / "a.json").write_text(json.dumps(CONFIG_MAP))
    return folder


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such-file"))


def placed(namespace: str) -> dict[str, Any]:
    return {**CONFIG_MAP, "metadata": {"name": "a", "namespace": namespace}}


class Form(NamedTuple):
    name: str
    options: list[str]
    expect: str


YAML = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: {}\ndata:\n  x: "1"\n'
FORMS = [
    Form("yaml by default", [], YAML.format("default")),
    Form("into a namespace", ["--install-namespace=shop"], YAML.format("shop")),
    Form("names as kubectl has them", ["-o", "name"], "configmap/a\n"),
    Form("the revision", ["-o", "revision"], revision_digest([placed("default")]) + "\n"),
    Form("a List in JSON", ["-o", "json"],
         json.dumps({"apiVersion": "v1", "kind": "List", "items": [placed("default")]}, indent=4) + "\n"),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMS, ids=attrgetter("name"))
def test_a_folder_is_shown(case: Form, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(bundle), *case.options]) == 0
    assert capsys.readouterr() == (case.expect, "")


def test_the_folder_of_git_and_what_a_link_leads_to_are_as_a_source_would_bring_them(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle / ".git").mkdir()
    (bundle / ".git" / "config").write_text("x")
    (bundle / "shared.json").write_text(json.dumps({**CONFIG_MAP, "metadata": {"name": "b"}}))
    (bundle / "manifests" / "b.json").symlink_to("../shared.json")
    assert main(["render", str(bundle), "-o", "name"]) == 0
    assert capsys.readouterr().out == "configmap/a\nconfigmap/b\n"


def test_of_what_a_folder_contains_only_what_the_format_reads_is_judged(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle / "README.md").symlink_to("../../README.md")
    (bundle / "a\\b").write_text("x")
    assert main(["render", str(bundle), "-o", "name"]) == 0
    assert capsys.readouterr() == ("configmap/a\n", "")
    (bundle / "manifests" / "b.yaml").symlink_to("/etc/hostname")
    assert main(["render", str(bundle), "-o", "name"]) == 1
    told = f'{bundle}: entry "manifests/b.yaml" links to "/etc/hostname", outside the tree; link to something inside it'
    assert told in capsys.readouterr().err


class Mistake(NamedTuple):
    name: str
    words: list[str]
    status: int
    says: str


MISTAKES = [
    Mistake("nothing is named", [], 2, "specify either SOURCE, -f FILE or --revision"),
    Mistake("both are named", ["{}", "-f", "x.yaml"], 2, "specify either SOURCE, -f FILE or --revision"),
    Mistake("two files from stdin", ["{}", "--config=-", "--capabilities=-"], 2,
            "only one file can be read from stdin"),
    Mistake("a folder that is not there", ["/no/such"], 2, 'rukpak render: "/no/such": No such file or directory'),
    Mistake("a file that is not there", ["-f", "/no/such"], 2, 'rukpak render: "/no/such": No such file or directory'),
    Mistake("a form that there is not", ["{}", "-o", "table"], 2,
            '-o/--output: "table" is not one of yaml, json, name, revision'),
    Mistake("a mirror that is none", ["{}", "--registry-mirror=x"], 2, '--registry-mirror: "x" is not HOST=MIRROR'),
    Mistake("a format that there is not", ["{}", "--format=a.b/c"], 1, "UnknownFormat: spec.format: no plug-in for"),
    Mistake("a config that the format does not take", ["{}", "--config={}/config.yaml"], 1,
            'InvalidConfig: spec.config.a: unknown key; the format "plain" has no config, remove it\n'),
    Mistake("a config that is no mapping", ["{}", "--config={}/list.yaml"], 1, "must contain a single mapping"),
    Mistake("content that is not there", ["{}/empty"], 1, "NoContent: no objects in the .yaml, .yml and .json files"),
    Mistake("capabilities that are none", ["{}", "--capabilities={}/config.yaml"], 1, "kubernetesVersion: "),
    Mistake("a file without a BundleDeployment", ["-f", "{}/config.yaml"], 1, "InvalidConfig: "),
]  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES, ids=attrgetter("name"))
def test_a_mistake_is_told_on_stderr(case: Mistake, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "config.yaml").write_text("a: 1\n")
    (bundle / "list.yaml").write_text("[1]\n")
    (bundle / "empty").mkdir()
    words = ["render", *(word.replace("{}", str(bundle)) for word in case.words)]
    try:
        status = main(words)
    except SystemExit as end:
        status = int(str(end.code))
    out, err = capsys.readouterr()
    assert (status, out) == (case.status, "")
    assert case.says in err


GOOD = {"kind": "http", "http": {"url": "http://127.0.0.1:1/a.yaml"}}


def deployment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "core.rukpak.io/v1alpha2",
        "kind": "BundleDeployment",
        "metadata": {"name": "foo"},
        "spec": {"format": "plain", "sources": [GOOD], **spec},
    }


def test_what_is_wrong_with_a_bundle_deployment_is_told_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bd.yaml"
    path.write_text(json.dumps(deployment(pasued=True, sources=[GOOD, {"kind": "image", "image": {"reff": "x"}}])))
    assert main(["render", "-f", str(path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f'InvalidConfig: {path}: spec.sources[1].image.reff: unknown field; see "kubectl explain bd.spec"',
        f'InvalidConfig: {path}: spec.pasued: unknown field; see "kubectl explain bd.spec"',
        f"InvalidConfig: {path}: spec.sources[1].image.ref: field required",
    ]


def test_a_source_that_does_not_answer_is_told_as_in_the_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bd.json"
    path.write_text(json.dumps(deployment()))
    assert main(["render", "-f", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Unreachable: spec.sources[0].http")
