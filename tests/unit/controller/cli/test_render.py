"""`rukpak render`: from a folder without cluster or network, from a BundleDeployment with them.

SOURCE of `rukpak render`: what is rendered from a file, an archive, stdin, a registry or a URL.

`rukpak permissions` and `rukpak rights` of a BundleDeployment in a file, without a cluster.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.plugins import Hook, ProcessRequest, Rendering
from rukpak.api.v1alpha2.processors import Processor
from rukpak.api.v1alpha2.reading import try_to_read
from rukpak.controller.building.entry_points import PROCESSORS
from rukpak.controller.cli import main
from rukpak.controller.cli.content import guess_format
from rukpak.controller.cli.permissions import rights_to_read
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.kube.resources import GroupVersionKind, Resource
from tests.support.installed_plugins import install_plugins
from tests.support.web_servers import FileServer

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


def test_waves_are_shown_in_their_order(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    early = {**CONFIG_MAP, "metadata": {"name": "b", "annotations": {names.WAVE: "-1"}}}
    (bundle / "manifests" / "b.json").write_text(json.dumps(early))
    assert main(["render", str(bundle)]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith(("# wave", "  name:"))] == [
        "# wave: -1",
        "  name: b",
        "# wave: 0",
        "  name: a",
    ]


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
            'InvalidConfig: spec.config.a: unknown key; the format "plain" has the key recursive\n'),
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


SOURCE_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
CHART = {
    "shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "shop/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n",
}


def archive(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text)
            tar.addfile(about, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A packed chart, an archive of manifests, a file of manifests, and something else."""
    (tmp_path / "shop-1.0.0.tgz").write_bytes(archive(CHART))
    (tmp_path / "plain.tar.gz").write_bytes(archive({"a.json": json.dumps(SOURCE_MAP)}))
    (tmp_path / "a.yaml").write_text(json.dumps(SOURCE_MAP))
    (tmp_path / "README").write_text("no bundle")
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    """Of the same files."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


CASES = [("shop-1.0.0.tgz", "configmap/bundle\n"), ("plain.tar.gz", "configmap/a\n"), ("a.yaml", "configmap/a\n")]


@pytest.mark.parametrize(("name", "expect"), CASES)
def test_a_file_is_rendered_as_what_it_is(
    name: str, expect: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", str(folder / name), "-o", "name", "--confinement=best-effort"]) == 0
    assert capsys.readouterr() == (expect, "")


@pytest.mark.parametrize(("name", "expect"), CASES)
def test_so_is_stdin(
    name: str, expect: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / name).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(["render", "-", "-o", "name", "--confinement=best-effort"]) == 0
    assert capsys.readouterr() == (expect, "")


@pytest.mark.parametrize(("name", "expect"), CASES)
def test_and_a_url(name: str, expect: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", f"{url}/{name}", "-o", "name", "--confinement=best-effort"]) == 0
    assert capsys.readouterr() == (expect, "")


def test_the_format_can_be_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(folder / "shop-1.0.0.tgz"), "--format=plain"]) == 1
    assert 'set spec.format to "helm"' in capsys.readouterr().err


def test_a_file_that_is_no_bundle_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(folder / "README")]) == 1
    assert "neither a tar archive" in capsys.readouterr().err


def test_a_path_that_looks_like_an_image_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "quay.io/shop/web:v1"]) == 2
    err = capsys.readouterr().err
    assert err.endswith("No such file or directory; for an image or chart in a registry: oci://quay.io/shop/web:v1\n")


def test_another_path_gets_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "bundles/shop"]) == 2
    assert "oci://" not in capsys.readouterr().err


FORMATS = {
    "a packed chart": ({"web-1.0.0.tgz": archive(CHART)}, "helm"),
    "a chart": ({"Chart.yaml": b"name: web"}, "helm"),
    "a packed chart beside manifests": (
        {"web-1.0.0.tgz": archive(CHART), "a.yaml": json.dumps(SOURCE_MAP).encode()},
        "plain",
    ),
    "an archive that is no chart": ({"web.tgz": archive({"a.json": "{}"})}, "plain"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_guessed(name: str, tmp_path: Path) -> None:
    files, expect = FORMATS[name]
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    assert guess_format(tmp_path) == expect


def test_a_registry_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "oci://127.0.0.1:1/shop:v1"]) == 1
    assert capsys.readouterr().err.startswith('Unreachable: spec.sources[0].image.ref: cannot read from "127.0.0.1:1"')


Manifest = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
BUNDLE = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}},
    {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "shop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "shop"}],
    },
    {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}},
]
ADMIN = (
    "ServiceAccount shop/app: all that ClusterRole cluster-admin allows in all namespaces (amounts to cluster-admin)"
)
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """A function that writes a BundleDeployment of a bundle that a server has, and returns the path."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such-file"))
    with FileServer().serving() as server:
        server.files["/bundle.json"] = json.dumps({"apiVersion": "v1", "kind": "List", "items": BUNDLE}).encode()

        def make(**spec: Any) -> str:
            source = {"kind": "http", "http": {"url": f"{server.address}/bundle.json"}}
            value = {
                "apiVersion": "core.rukpak.io/v1alpha2",
                "kind": "BundleDeployment",
                "metadata": {"name": "shop"},
                "spec": {"format": "plain", "installNamespace": "shop", "sources": [source], **spec},
            }
            path = tmp_path / "shop.json"
            path.write_text(json.dumps(value))
            return str(path)

        yield make


def test_permissions_are_shown_by_topic(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "-f", write()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("shop: revision sha256:")
    assert lines[1:] == [
        "Access to the API:",
        f"  {ADMIN}",
        "Objects outside the install namespace:",
        "  1 ClusterRoleBinding in the whole cluster: shop",
        "  bundle: instructs controllers of others by Widget.x.io",
    ]


def test_permissions_are_data_for_programs(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "-f", write(), "-o", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["permissions"][0] == {"topic": "Access to the API", "severity": "Admin", "text": ADMIN}
    assert value["digest"].startswith("sha256:")
    assert value["rolesOnCluster"] == []


def test_rights_are_listed_and_guesses_are_pointed_out(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights", "-f", write(serviceAccountName="installer"), "--use-secrets"]) == 0
    shown, told = capsys.readouterr()
    assert shown.splitlines() == [
        "create,delete,get,patch clusterrolebindings.rbac.authorization.k8s.io",
        'bind clusterroles.rbac.authorization.k8s.io "cluster-admin"',
        'create,delete,get,patch serviceaccounts in namespace "shop"',
        'create,delete,get,patch widgets.x.io in namespace "shop"',
    ]
    assert "warning: x.io/v1/Widget: not served" in told


def _with_secret(path: str) -> Manifest:
    value: Manifest = json.loads(Path(path).read_text())
    value["spec"]["sources"][0]["http"]["auth"] = {"secret": {"name": "login"}}
    return value


def find(kind: GroupVersionKind) -> Resource:
    return Resource(kind.group, kind.version, kind.kind, f"{kind.kind.lower()}s", namespaced=kind.kind != "Node")


def test_rights_include_what_is_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugins(monkeypatch, {(PROCESSORS, "example.com/keys"): Keys})
    value = _with_secret(write())
    references = [{"kind": kind, "name": "values", "key": "a", "path": "a"} for kind in ("ConfigMap", "Secret")]
    value["spec"] |= {"configFrom": references, "processors": [{"kind": "example.com/keys"}]}
    value["spec"]["dependsOn"] = [
        {"name": "other"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cache", "namespace": "caches"},
        {"apiVersion": "v1", "kind": "Node", "name": "a"},
    ]
    deployment, _ = try_to_read(value)
    assert deployment
    assert [str(each) for each in rights_to_read(deployment, find)] == [
        'get secrets "login" in namespace "shop"',
        'get,list,watch configmaps "values" in namespace "shop"',
        'get,list,watch secrets "values" in namespace "shop"',
        'get,list,watch secrets "keys" in namespace "shop"',
        'get,list,watch deployments.apps "cache" in namespace "caches"',
        'get,list,watch nodes "a"',
    ]


def test_rights_that_only_a_missing_plug_in_knows_are_pointed_out(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment, _ = try_to_read(_with_secret(write()))
    assert deployment
    processors = (Processor.model_validate({"kind": "example.com/missing"}),)
    spec = deployment.spec.model_copy(update={"processors": processors})
    found = list(rights_to_read(deployment.model_copy(update={"spec": spec}), find))
    assert [str(each) for each in found] == ['get secrets "login" in namespace "shop"']
    assert 'warning: spec.processors[0].kind: no plug-in for processors of kind "example.com/missing"' in (
        capsys.readouterr().err
    )


def test_secrets_of_sources_are_used_only_with_consent(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(write(serviceAccountName="installer"))
    path.write_text(json.dumps(_with_secret(str(path))))
    assert main(["rights", "-f", str(path)]) == 2  # no terminal to ask
    assert "--use-secrets" in capsys.readouterr().err


def test_roles_are_printed_for_kubectl(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights", "-f", write(), "--service-account=installer", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["kind"] for each in items] == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    assert {each["metadata"]["name"] for each in items} == {"rukpak-shop"}
    assert items[3]["subjects"] == [{"kind": "ServiceAccount", "namespace": "shop", "name": "installer"}]


class ReviewMistake(NamedTuple):
    words: list[str]
    says: str


REVIEW_MISTAKES = {
    "nothing is named": ReviewMistake(["permissions"], "specify NAME or -f FILE"),
    "another is named": ReviewMistake(["rights", "other", "-f", "FILE"], 'is the BundleDeployment "shop", not "other"'),
    "new in a file": ReviewMistake(["permissions", "-f", "FILE", "--new"], "requires NAME"),
    "the store for a file": ReviewMistake(["rights", "-f", "FILE", "--from-cluster"], "--from-cluster requires NAME"),
    "two files from stdin": ReviewMistake(
        ["rights", "-f", "-", "--capabilities", "-"], "only one file can be read from stdin"
    ),
    "no account": ReviewMistake(["rights", "-f", "FILE"], "name an account with --service-account"),
}


@pytest.mark.parametrize("name", REVIEW_MISTAKES)
def test_mistakes_are_explained(name: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    words, says = REVIEW_MISTAKES[name]
    path = write()
    assert main([path if word == "FILE" else word for word in words]) == 2
    assert says in capsys.readouterr().err


class Keyed:
    """A processor that is given keys, and so may decrypt what it changes."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        return []

    def find_secrets(self, parameters: Mapping[str, Any]) -> list[str]:
        return []

    def process(self, request: ProcessRequest) -> Rendering:
        about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}}
        made = {**about, "stringData": {"password": "hunter2"}}
        return replace(request.rendering, objects=[made], hooks=[Hook(manifest=made, events=("pre-install",))])


class Keys(Keyed):
    def find_secrets(self, parameters: Mapping[str, Any]) -> list[str]:
        return ["keys"]


class Unkeyed(Keyed):
    find_secrets = None  # type: ignore[assignment]


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_values_of_secrets_that_a_processor_with_keys_may_have_decrypted_are_printed_only_on_request(
    output: str, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_plugins(
        monkeypatch,
        {(PROCESSORS, "example.com/keyed"): Keyed, (PROCESSORS, "example.com/unkeyed"): Unkeyed},
    )

    assert main(["render", "-f", write(processors=[{"kind": "example.com/keyed"}]), "-o", output]) == 0
    hidden = capsys.readouterr()
    assert (
        main(["render", "-f", write(processors=[{"kind": "example.com/keyed"}]), "-o", output, "--show-secrets"]) == 0
    )
    shown = capsys.readouterr()
    assert main(["render", "-f", write(processors=[{"kind": "example.com/unkeyed"}]), "-o", output]) == 0
    usual = capsys.readouterr()

    assert "aHVudGVyMg==" not in hidden.out
    assert hidden.out.count("7 bytes, hash ") == 2
    assert "--show-secrets prints them" in hidden.err
    assert shown.out == usual.out
    assert shown.out.count("aHVudGVyMg==") == 2
    assert shown.err == usual.err == ""
