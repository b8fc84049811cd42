"""The format plain: where manifests are read, in which order, and the messages if they are in other places."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, ContentTree, Format, Refusal, Rendering, RenderRequest
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.formats.plain import PlainFormat, needs_recursive

DATA = Path(__file__).parents[3] / "data" / "plain"
FORMAT: Format = PlainFormat()


def manifest(name: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"


def rendering(tree: ContentTree, **config: Any) -> Rendering:
    capabilities = Capabilities(kubernetes_version="v1.36.3")
    return FORMAT.render(
        RenderRequest(name="b", install_namespace="default", tree=tree, config=config, capabilities=capabilities)
    )


def render(root: Path, *destinations: str, **config: Any) -> Sequence[dict[str, Any]]:
    return rendering(ContentTree(root=root, destinations=destinations or ("",)), **config).objects


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def refusal(root: Path, *destinations: str, **config: Any) -> tuple[Reason, str]:
    with pytest.raises(BundleError) as raised:
        render(root, *destinations, **config)
    return raised.value.reason, raised.value.message


@dataclass(frozen=True)
class Case:
    name: str
    files: dict[str, str]
    expect: str
    destinations: tuple[str, ...] = ("",)


PLAIN_BUNDLE = "annotations:\n  # not registry+v1\n  operators.operatorframework.io.bundle.mediatype.v1: plain+v0\n"
# fmt: off
ORDER = [
    Case("manifests/ at the root is read", {"manifests/a.yaml": manifest("a")}, "a"),
    Case("files come in name order, not in that of names without suffix",
         {"manifests/b.yaml": manifest("b"), "manifests/10.yaml": manifest("t"), "manifests/9.json": manifest("m")},
         "tmb"),
    Case("documents come in file order", {"manifests/a.yaml": manifest("z") + "---\n" + manifest("a")}, "za"),
    Case(
        "the three suffixes are read, all others ignored",
        {
            "manifests/a.yaml": manifest("a"),
            "manifests/b.yml": manifest("b"),
            "manifests/c.json": json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
            "manifests/d.txt": "{{",
            "manifests/README.md": "---",
            "manifests/e.yaml.bak": "-",
        },
        "abc",
    ),
    Case("beside manifests/ nothing is read", {"manifests/a.yaml": manifest("a"), "x.yaml": manifest("x")}, "a"),
    Case("without manifests/ the top level is read as it is", {"b.yaml": manifest("b"), "a.yml": manifest("a")}, "ab"),
    Case("hidden files and folders are ignored",
         {"a.yaml": manifest("a"), "._a.yaml": "\0", ".golangci.yml": "run: {}", ".github/workflows/ci.yaml": "on: x"},
         "a"),
    Case(
        "what only shares its name with the file of kustomize is read",
        {
            "kustomization.yaml": "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
            "metadata: {name: flux}\n"
        },
        "flux",
    ),
    Case("a subfolder without manifests is ignored", {"manifests/a.yaml": manifest("a"), "manifests/doc/x.md": ""},
         "a"),
    Case("a file of comments is skipped", {"manifests/a.yaml": "# nothing\n---\n", "manifests/b.yaml": manifest("b")},
         "b"),
    Case("destinations come in source order",
         {"b/manifests/x.yaml": manifest("b"), "a/manifests/y.yaml": manifest("a"), "c/z.yaml": manifest("c")}, "cba",
         ("c", "b", "a")),
    Case("a destination within another is read on its own",
         {"manifests/a.yaml": manifest("a"), "manifests/more/b.yaml": manifest("b")}, "ab", ("", "manifests/more")),
    Case("a destination within another may come first",
         {"a.yaml": manifest("a"), "more/manifests/b.yaml": manifest("b")}, "ba", ("more", "")),
    Case("two destinations that lead to one folder are read once", {"manifests/a.yaml": manifest("a")}, "a",
         ("", "manifests")),
    Case("what no source brought is not read", {"a/x.yaml": manifest("a"), "b/x.yaml": manifest("b")}, "a", ("a",)),
    Case("a bundle that says that it is plain",
         {"manifests/a.yaml": manifest("a"), "metadata/annotations.yaml": PLAIN_BUNDLE}, "a"),
    Case("a destination may bring nothing", {"a/x.yaml": manifest("a"), "b/README.md": ""}, "a", ("a", "b", "c")),
]
# fmt: on


@pytest.mark.parametrize("case", ORDER, ids=attrgetter("name"))
def test_what_is_read_and_in_which_order(case: Case, tmp_path: Path) -> None:
    objects = render(write(tmp_path, case.files), *case.destinations)
    assert "".join(item["metadata"]["name"] for item in objects) == case.expect


def test_a_hidden_manifest_causes_a_warning(tmp_path: Path) -> None:
    files = {"a.yaml": manifest("a"), ".b.yaml": manifest("b"), ".ci.yaml": "on: push", ".github/c.yaml": manifest("c")}
    tree = ContentTree(root=write(tmp_path, files), destinations=("",))
    assert rendering(tree).warnings == [".b.yaml: ignored because it is hidden; remove the dot from its name"]


def test_a_manifest_next_to_manifests_causes_a_warning(tmp_path: Path) -> None:
    files = {"a/manifests/a.yaml": manifest("a"), "a/b.yaml": manifest("b"), "a/d.yml": "x: y", "c.yml": manifest("c")}
    tree = ContentTree(root=write(tmp_path, files), destinations=("", "a"))
    assert rendering(tree).warnings == ['a/b.yaml: ignored because a directory "manifests" exists; move it there']


def test_a_chart_around_manifests_causes_a_warning(tmp_path: Path) -> None:
    files = {"manifests/a.yaml": manifest("a"), "Chart.yaml": "name: c", "templates/b.yaml": "{{ x }}"}
    tree = ContentTree(root=write(tmp_path, files), destinations=("",))
    assert rendering(tree).warnings == [
        'Chart.yaml: ignored because a directory "manifests" exists; for the chart, set spec.format to "helm"'
    ]


HELM = 'which looks like a Helm chart: set spec.format to "helm"'
REGISTRY = 'which looks like a registry-v1 bundle: set spec.format to "registry-v1"'
ANNOTATIONS = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n"
PACKAGE = "packageName: etcd\nchannels:\n- {name: alpha, currentCSV: etcdoperator.v0.9.2}\n"
CONVERT = (
    "the package manifest of an operator, which is not supported: convert the folder with "
    '"operator-sdk pkgman-to-bundle", and publish one of the bundles'
)
EMPTY = "is empty, or has only comments or an empty List: write objects in it"
RECURSIVE = "set spec.config.recursive: true, "
ELSEWHERE = 'move it to "manifests", or remove its parent directories with git.directory or http.stripComponents'
# fmt: off
NO_CONTENT = [
    Case("manifests two levels down", {"deploy/prod/a.yaml": manifest("a"), "deploy/a.yaml": "replicas: 2\n"},
         f'no objects in the .yaml, .yml and .json files of "."; found "deploy/prod/a.yaml": {RECURSIVE}{ELSEWHERE}'),
    Case("an archive with a leading folder", {"app-1.0/manifests/a.yaml": manifest("a")},
         'no objects in the .yaml, .yml and .json files of "."; found "app-1.0/manifests/a.yaml": '
         f"{RECURSIVE}{ELSEWHERE}"),
    Case("manifests beside the only destination", {"a/README.md": "", "b/a.yaml": manifest("a")},
         f'no objects in the .yaml, .yml and .json files of "a"; found "b/a.yaml": {ELSEWHERE}', ("a",)),
    Case("manifests of a forge", {".github/a.yaml": manifest("a")},
         f'no objects in the .yaml, .yml and .json files of "."; found ".github/a.yaml": {ELSEWHERE}'),
    Case("an empty tree", {},
         'no objects in the .yaml, .yml and .json files of "."; put manifests in a directory "manifests"'),
    Case("an empty manifests/", {"a/manifests/x.md": ""},
         'no objects in the .yaml, .yml and .json files of "a/manifests", "b"; '
         'put manifests in a directory "manifests"', ("a", "b")),
    Case("an empty List", {"manifests/a.yaml": "apiVersion: v1\nkind: List\nitems: []\n"},
         f'no objects in the .yaml, .yml and .json files of "manifests"; "manifests/a.yaml" {EMPTY}'),
    Case("nothing but comments", {"b.yaml": "# nothing\n", "c.yaml": ""},
         f'no objects in the .yaml, .yml and .json files of "."; "b.yaml" {EMPTY}'),
    Case(
        "many destinations",
        {},
        'no objects in the .yaml, .yml and .json files of "a", "b", "c", "d", "e" and 3 more; '
        'put manifests in a directory "manifests"',
        tuple("abcdefgh"),
    ),
    Case("a chart", {"c/Chart.yaml": "name: c\n", "c/values.yaml": "a: b\n"},
         f'no plain manifests in "c"; found "c/Chart.yaml", {HELM}', ("c",)),
    Case("a chart in a folder of its own", {"podinfo/Chart.yaml": "name: c\n"},
         f'no objects in the .yaml, .yml and .json files of "."; found "podinfo/Chart.yaml", {HELM}'),
    Case("a chart beside manifests of another source", {"manifests/a.yaml": manifest("a"), "c/Chart.yaml": ""},
         f'no plain manifests in "c"; found "c/Chart.yaml", {HELM}', ("", "c")),
    Case("a registry-v1 bundle, though it has manifests/",
         {"manifests/a.yaml": manifest("a"), "metadata/annotations.yaml": ANNOTATIONS},
         f'no plain manifests in "."; found "metadata/annotations.yaml", {REGISTRY}'),
    Case("a registry-v1 bundle in a folder of its own", {"b/metadata/annotations.yaml": ANNOTATIONS},
         f'no objects in the .yaml, .yml and .json files of "."; found "b/metadata/annotations.yaml", {REGISTRY}'),
    Case("a chart in manifests/", {"manifests/Chart.yaml": "name: c\n", "manifests/templates/a.yaml": manifest("a")},
         f'no plain manifests in "."; found "manifests/Chart.yaml", {HELM}'),
    Case("package manifests of an operator",
         {"etcd.package.yaml": PACKAGE, "0.9.2/etcd.clusterserviceversion.yaml": manifest("a")},
         f'no plain manifests in "."; found "etcd.package.yaml", {CONVERT}'),
    Case("package manifests in manifests/",
         {"manifests/package.json": '{"packageName": "a", "channels": [{"currentCSV": "b"}]}'},
         f'no plain manifests in "."; found "manifests/package.json", {CONVERT}'),
    Case("package manifests in a folder of their own",
         {"operators/etcd/etcd-package.yml": PACKAGE, "operators/etcd/0.9.2/csv.yaml": manifest("a")},
         'no objects in the .yaml, .yml and .json files of "."; found "operators/etcd/etcd-package.yml", ' + CONVERT),
    Case("an imgpkg bundle",
         {".imgpkg/images.yml": "apiVersion: imgpkg.carvel.dev/v1alpha1\nkind: ImagesLock\n",
          "config/a.yml": manifest("a")},
         'no objects in the .yaml, .yml and .json files of "."; found ".imgpkg/images.yml", which belongs to an imgpkg '
         'bundle: render its files with ytt and "kbld -f .imgpkg/images.yml", and publish the output'),
]
# fmt: on


@pytest.mark.parametrize("case", NO_CONTENT, ids=attrgetter("name"))
def test_no_content_names_the_places_that_were_searched(case: Case, tmp_path: Path) -> None:
    assert refusal(write(tmp_path, case.files), *case.destinations) == (Reason.NO_CONTENT, case.expect)


KUSTOMIZE = (
    "is for kustomize; set spec.format to kustomize.rukpak.io/v1 (package rukpak-kustomize), publish the output of "
    '"kubectl kustomize", or remove the file'
)
# fmt: off
INVALID = [
    Case("a manifests/ that holds nothing but a subfolder with manifests", {"manifests/a/b.yaml": manifest("a")},
         'manifests/a/b.yaml: manifests in subdirectories are not read; '
         'set spec.config.recursive: true, or move the file to "manifests"'),
    Case("a manifest in a subfolder", {"manifests/a.yaml": manifest("a"), "manifests/crds/deep/b.yml": manifest("b")},
         'manifests/crds/deep/b.yml: manifests in subdirectories are not read; '
         'set spec.config.recursive: true, or move the file to "manifests"'),
    Case("a manifest below a top level that is read as it is", {"a.yaml": manifest("a"), "more/b.json": "{}"},
         'more/b.json: manifests in subdirectories are not read; '
         'set spec.config.recursive: true, or move the file to "."'),
    Case("a file of kustomize",
         {"manifests/a.yaml": manifest("a"), "manifests/kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\n"},
         f"manifests/kustomization.yaml: {KUSTOMIZE}"),
    Case("a component of kustomize, whatever the name of its file",
         {"c.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"}, f"c.yaml: {KUSTOMIZE}"),
    Case("two equal objects in two destinations",
         {"a/x.yaml": manifest("a"), "b/manifests/y.yaml": "---\n" + manifest("a")},
         "b/manifests/y.yaml:2: ConfigMap a: already defined at a/x.yaml:1; remove one", ("a", "b")),
    Case("a document that is no object", {"manifests/a.yaml": manifest("a") + "---\n\nkind: ConfigMap\n"},
         "manifests/a.yaml:6: apiVersion: missing"),
    Case("text that is not YAML", {"manifests/a.yaml": "a: 1\nb: c: d\n"},
         "manifests/a.yaml:2: not YAML: mapping values are not allowed in this context"),
    Case("a duplicate key", {"manifests/a.yaml": "a: 1\na: 2\n"},
         'manifests/a.yaml:2: duplicate key "a"; remove one'),
]
# fmt: on


@pytest.mark.parametrize("case", INVALID, ids=attrgetter("name"))
def test_an_invalid_bundle_is_refused_with_file_and_line(case: Case, tmp_path: Path) -> None:
    assert refusal(write(tmp_path, case.files), *case.destinations) == (Reason.INVALID_BUNDLE, case.expect)


def test_plain_manifests_are_never_templated(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {t: '{{ .Values.x }}'}\n"
    (item,) = render(write(tmp_path, {"manifests/a.yaml": text}))
    assert item["data"] == {"t": "{{ .Values.x }}"}


def test_a_link_to_a_file_outside_of_the_tree_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"secret.yaml": manifest("a"), "tree/manifests/b.yaml": manifest("b")})
    (tmp_path / "tree/manifests/a.yaml").symlink_to(tmp_path / "secret.yaml")
    expected = "manifests/a.yaml: not a regular file; replace it with the file itself"
    assert refusal(tmp_path / "tree") == (Reason.INVALID_BUNDLE, expected)


def test_a_link_to_a_folder_outside_of_the_tree_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"secrets/a.yaml": manifest("a"), "tree/README.md": ""})
    (tmp_path / "tree/manifests").symlink_to(tmp_path / "secrets")
    assert refusal(tmp_path / "tree")[0] is Reason.NO_CONTENT


@pytest.mark.parametrize("bundle", sorted(DATA.iterdir()), ids=attrgetter("name"))
def test_rendering_twice_gives_equal_bytes(bundle: Path) -> None:
    first, second = render(bundle / "bundle"), render(bundle / "bundle")
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize("bundle", sorted(DATA.iterdir()), ids=attrgetter("name"))
def test_a_bundle_renders_to_the_expected_objects(bundle: Path) -> None:
    objects = render(bundle / "bundle")
    assert objects == json.loads((bundle / "expected.json").read_text())
    assert revision_digest(objects) == revision_digest(json.loads((bundle / "expected.json").read_text()))


# fmt: off
RECURSIVELY = [
    Case("the files of subfolders",
         {"manifests/crds/deep/b.yml": manifest("b"), "manifests/a.yaml": manifest("a")}, "ab"),
    Case("subfolders come where their name does, as from kubectl apply -R",
         {"manifests/a.yaml": manifest("c"), "manifests/a/z.yaml": manifest("a"), "manifests/a-b/x.yaml": manifest("b"),
          "manifests/b/x.yaml": manifest("d")}, "abcd"),
    Case("beside manifests/ nothing is read", {"manifests/d/a.yaml": manifest("a"), "more/x.yaml": manifest("x")}, "a"),
    Case("without manifests/ all of the content is read",
         {"deploy/prod/a.yaml": manifest("a"), "b/manifests/b.yaml": manifest("b"), "docs/x.md": "# x"}, "ba"),
    Case("a folder without subfolders", {"a.yaml": manifest("a")}, "a"),
    Case("hidden files and folders are ignored",
         {"d/a.yaml": manifest("a"), "d/._a.yaml": "\0", ".github/workflows/ci.yaml": "on: x", "d/.x/y.yaml": "on: x"},
         "a"),
    Case("a destination within another is read on its own",
         {"manifests/a.yaml": manifest("a"), "manifests/more/d/b.yaml": manifest("b")}, "ba", ("manifests/more", "")),
    Case("a directory manifests within that of another destination is read once",
         {"manifests/manifests/a.yaml": manifest("a"), "manifests/d/b.yaml": manifest("b")}, "ba", ("", "manifests")),
    Case("what no source brought is not read", {"a/d/x.yaml": manifest("a"), "b/x.yaml": manifest("b")}, "a", ("a",)),
]
# fmt: on


@pytest.mark.parametrize("case", RECURSIVELY, ids=attrgetter("name"))
def test_what_is_read_recursively_and_in_which_order(case: Case, tmp_path: Path) -> None:
    objects = render(write(tmp_path, case.files), *case.destinations, recursive=True)
    assert "".join(item["metadata"]["name"] for item in objects) == case.expect


def test_false_and_null_read_no_subfolders(tmp_path: Path) -> None:
    write(tmp_path, {"manifests/d/a.yaml": manifest("a")})
    assert refusal(tmp_path) == refusal(tmp_path, recursive=False) == refusal(tmp_path, recursive=None)


# fmt: off
RECURSIVELY_REFUSED = [
    Case("a chart in a subfolder", {"deploy/a.yaml": manifest("a"), "charts/c/Chart.yaml": "name: c\n"},
         f'no plain manifests in "charts/c"; found "charts/c/Chart.yaml", {HELM}'),
    Case("a registry-v1 bundle in a subfolder", {"a.yaml": manifest("a"), "b/metadata/annotations.yaml": ANNOTATIONS},
         f'no plain manifests in "b"; found "b/metadata/annotations.yaml", {REGISTRY}'),
    Case("a kustomization in a subfolder", {"a/kustomization.yaml": "resources: [a.yaml]\n"},
         f"a/kustomization.yaml: {KUSTOMIZE}"),
    Case("a subfolder with another kind of YAML", {"a.yaml": manifest("a"), "b/values.yaml": "replicas: 2\n"},
         "b/values.yaml:1: apiVersion: missing"),
    Case("nothing but hidden manifests", {".a/b.yaml": manifest("a")},
         f'no objects in the .yaml, .yml and .json files of "."; found ".a/b.yaml": {ELSEWHERE}'),
    Case("the same object in two subfolders", {"a/x.yaml": manifest("a"), "b/x.yaml": manifest("a")},
         "b/x.yaml:1: ConfigMap a: already defined at a/x.yaml:1; remove one"),
]
# fmt: on


@pytest.mark.parametrize("case", RECURSIVELY_REFUSED, ids=attrgetter("name"))
def test_what_is_refused_in_subfolders(case: Case, tmp_path: Path) -> None:
    assert refusal(write(tmp_path, case.files), recursive=True)[1] == case.expect


def test_a_link_in_a_subfolder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"secret/a.yaml": manifest("a"), "tree/manifests/d/b.yaml": manifest("b")})
    (tmp_path / "tree/manifests/e").symlink_to(tmp_path / "secret")
    assert [item["metadata"]["name"] for item in render(tmp_path / "tree", recursive=True)] == ["b"]
    (tmp_path / "tree/manifests/d/c.yaml").symlink_to(tmp_path / "secret/a.yaml")
    expected = "manifests/d/c.yaml: not a regular file; replace it with the file itself"
    assert refusal(tmp_path / "tree", recursive=True) == (Reason.INVALID_BUNDLE, expected)


def test_content_that_is_refused_in_a_subfolder_is_refused_if_that_is_read(tmp_path: Path) -> None:
    refused = {"d/b.yaml": Refusal(problem="spec.sources[0].image: d/b.yaml: a device; remove it")}
    tree = ContentTree(root=write(tmp_path, {"d/a.yaml": manifest("a")}), destinations=("",), refused=refused)
    with pytest.raises(BundleError, match="a device") as raised:
        rendering(tree, recursive=True)
    assert raised.value.reason is Reason.CONTENT_REJECTED


def test_a_hidden_manifest_in_a_subfolder_causes_a_warning_if_that_is_read(tmp_path: Path) -> None:
    files = {"a.yaml": manifest("a"), "d/.b.yaml": manifest("b"), ".github/c.yaml": manifest("c")}
    tree = ContentTree(root=write(tmp_path, files), destinations=("",))
    assert rendering(tree, recursive=True).warnings == [
        "d/.b.yaml: ignored because it is hidden; remove the dot from its name"
    ]
    assert rendering(tree).warnings == []


# fmt: off
NEEDS = [
    ("a flat directory manifests", {"manifests/a.yaml": manifest("a"), "docs/x.yaml": manifest("x")}, False),
    ("a flat folder", {"a.yaml": manifest("a"), "docs/x.md": ""}, False),
    ("an empty folder", {}, False),
    ("manifests in a subfolder of manifests/", {"manifests/a.yaml": manifest("a"), "manifests/d/b.yml": manifest("b")},
     True),
    ("manifests only in subfolders", {"deploy/prod/a.json": manifest("a"), "README.md": ""}, True),
    ("manifests on top and in a subfolder", {"a.yaml": manifest("a"), "d/a.yaml": manifest("a")}, True),
    ("hidden manifests", {"a.yaml": manifest("a"), ".d/a.yaml": manifest("a"), "d/.a.yaml": manifest("a")}, False),
    ("other YAML in a subfolder", {"a.yaml": manifest("a"), "d/values.yaml": "replicas: 2\n"}, False),
]
# fmt: on


@pytest.mark.parametrize(("files", "expect"), [row[1:] for row in NEEDS], ids=[row[0] for row in NEEDS])
def test_which_content_needs_to_be_read_recursively(files: dict[str, str], expect: bool, tmp_path: Path) -> None:
    assert needs_recursive(write(tmp_path, files)) is expect


KNOWN = 'unknown key; the format "plain" has the key recursive'
CONFIGS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"recursive": True}, []),
    ({"recursive": False}, []),
    ({"recursive": None}, []),
    ({"values": {}, "a": 1}, [f"spec.config.a: {KNOWN}", f"spec.config.values: {KNOWN}"]),
    ({"Recursive": True}, [f"spec.config.Recursive: {KNOWN}"]),
    ({"recursive": "true"}, ["spec.config.recursive: must be true or false, not a string"]),
    ({"recursive": 1, "a": 1},
     ["spec.config.recursive: must be true or false, not a number", f"spec.config.a: {KNOWN}"]),
    ({"recursive": {}}, ["spec.config.recursive: must be true or false, not a mapping"]),
    ({"\x1b[2J": 1}, [f'spec.config["\\u001b[2J"]: {KNOWN}']),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expect"), CONFIGS)
def test_the_errors_of_a_config(config: dict[str, Any], expect: list[str]) -> None:
    assert FORMAT.validate(config) == expect


def test_the_default_namespace_is_that_of_kubectl(tmp_path: Path) -> None:
    assert FORMAT.suggest_namespace(ContentTree(root=tmp_path, destinations=("",)), {}) == "default"
