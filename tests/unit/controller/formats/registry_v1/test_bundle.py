"""Files of a bundle: where they are expected, how they are read, and the messages for invalid ones."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from rukpak.api.plugins import ContentTree
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.registry_v1.registry_format import RegistryV1Format
from tests.support.operator_bundles import (
    definition,
    deployment,
    object_of,
    only,
    refusal,
    render,
    service_version,
    write_bundle,
)

CSV = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: op.v1}\nspec:\n"
MODES = "  installModes: [{type: AllNamespaces, supported: y}]\n"
ANNOTATIONS = "annotations: {operators.operatorframework.io.bundle.package.v1: op}\n"
TYPE = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: %s\n"
PACKAGE = "packageName: etcd\nchannels:\n- {name: alpha, currentCSV: etcdoperator.v0.9.2}\n"
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
OLD = json.dumps({**definition(), "apiVersion": "apiextensions.k8s.io/v1beta1"})


def names(root: Path) -> list[str]:
    return [item["metadata"]["name"] for item in render(root).objects]


class Unreadable(NamedTuple):
    name: str
    files: dict[str, str]
    expect: str
    reason: Reason = Reason.INVALID_BUNDLE


# fmt: off
UNREADABLE = [
    Unreadable(
        "a folder below manifests/",
        {"manifests/x/a.yaml": ""},
        'subdirectories are not allowed within the "manifests" directory of the bundle image filesystem: found'
        ' "manifests/x"',
    ),
    Unreadable("no CSV", {"manifests/csv.yaml": OBJECT % "a"}, 'no ClusterServiceVersion found in "manifests"'),
    Unreadable("several CSVs", {"manifests/b.yaml": CSV + MODES},
         '"manifests/b.yaml" and "manifests/csv.yaml": 2 ClusterServiceVersions; a bundle has one, remove the rest'),
    Unreadable("a document without kind", {"manifests/a.txt": "x: 1\n---\nkind: 1\n"},
         'error parsing objects in "manifests/a.txt": line 1: object without kind; set apiVersion and kind'),
    Unreadable("an item without kind", {"manifests/a.yaml": "kind: Foo\nitems: [{a: 1}]\n"},
         'error parsing objects in "manifests/a.yaml": line 1: object without kind; set apiVersion and kind'),
    Unreadable("no YAML", {"manifests/a": "a: 1\n\tb: 2\n"},
         'error parsing objects in "manifests/a": line 2: not YAML: '),
    Unreadable(
        "a CSV with a value of the wrong type",
        {"manifests/csv.yaml": CSV + "  installModes: [{type: AllNamespaces, supported: 'true'}]\n"},
        'error parsing objects in "manifests/csv.yaml": spec.installModes[0].supported: must be a boolean, not a'
        " string",
    ),
    Unreadable(
        "a deployment with a value of the wrong type",
        {"manifests/csv.yaml": CSV + "  install: {spec: {deployments: [{name: a, spec: {replicas: '1'}}]}}\n"},
        'error parsing objects in "manifests/csv.yaml": spec.install.spec.deployments[0].spec.replicas: must be an'
        " integer, not a string",
    ),
    Unreadable("a version that is none", {"manifests/csv.yaml": CSV + MODES + "  version: foo\n"},
         'error parsing objects in "manifests/csv.yaml": spec.version: must be a version such as 1.2.3'),
    Unreadable("a CRD with a value of the wrong type", {"manifests/a.json": json.dumps(definition(group=1))},
         'error parsing objects in "manifests/a.json": spec.group: must be a string, not a number'),
    Unreadable(
        "CRDs of v1beta1",
        {"manifests/a.json": OLD, "manifests/b.json": OLD},
        '"manifests/a.json", "manifests/b.json": apiextensions.k8s.io/v1beta1 is no longer served by Kubernetes; use'
        " apiextensions.k8s.io/v1",
    ),
    Unreadable("annotations.yaml with a package that is no scalar",
         {"metadata/annotations.yaml": "annotations: {operators.operatorframework.io.bundle.package.v1: [a]}\n"},
         "metadata/annotations.yaml: annotations.operators.operatorframework.io.bundle.package.v1: must be a string,"
         " not a list"),
    Unreadable("annotations.yaml that is a list", {"metadata/annotations.yaml": "- a\n"},
         "metadata/annotations.yaml: must be a mapping, not a list"),
    Unreadable("properties.yaml that is none", {"metadata/properties.yaml": "properties: {}\n"},
         "metadata/properties.yaml: properties: must be a list, not a mapping"),
    Unreadable(
        "olm.properties that is no list",
        {
            "metadata/properties.yaml": "properties: [{type: a, value: 1}]\n",
            "manifests/csv.yaml": CSV.replace("op.v1", "op.v1, annotations: {olm.properties: '{}'}") + MODES,
        },
        'metadata.annotations["olm.properties"]: must be a JSON array of {"type", "value"}; correct it in the CSV',
    ),
]
# fmt: on


@pytest.mark.parametrize("case", UNREADABLE, ids=attrgetter("name"))
def test_unreadable(case: Unreadable, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, None, files={"manifests/csv.yaml": CSV + MODES, **case.files})
    reason, message = refusal(root)
    assert reason is case.reason
    assert message.startswith(case.expect)


class Elsewhere(NamedTuple):
    name: str
    files: dict[str, str]
    expect: str
    reason: Reason = Reason.NO_CONTENT


PLAIN_BUNDLES = [
    ("plain+v0", TYPE % "plain+v0", OBJECT % "a"),
    ("with a CSV", TYPE % "plain+v0", CSV + MODES),
    ("in quotes", TYPE % "'plain+v0'", OBJECT % "a"),
    ("after a comment", "# " + TYPE.splitlines()[1] % "registry+v1" + "\n" + TYPE % "plain+v0", OBJECT % "a"),
    ("in JSON", '{"annotations": {"operators.operatorframework.io.bundle.mediatype.v1":"plain+v0"}}', OBJECT % "a"),
    ("as opm writes it", TYPE % "plain", OBJECT % "a"),
]
# fmt: off
ELSEWHERE = [
    Elsewhere(
        "nothing",
        {"README": ""},
        'no registry-v1 bundle found: looked for "metadata/annotations.yaml", "dir/metadata/annotations.yaml"; add'
        " this file and manifests/",
    ),
    Elsewhere("a chart", {"dir/Chart.yaml": ""},
         'found "dir/Chart.yaml", which looks like a Helm chart: set spec.format to "helm"'),
    Elsewhere("plain manifests", {"manifests/a.yaml": OBJECT % "a"},
         'found "manifests/a.yaml", which looks like plain manifests: set spec.format to "plain"'),
    Elsewhere("plain manifests without a folder", {"dir/a.yaml": OBJECT % "a"},
         'found "dir/a.yaml", which looks like plain manifests: set spec.format to "plain"'),
    Elsewhere("no annotations.yaml", {"manifests/a.yaml": CSV},
         'found a ClusterServiceVersion in "manifests": add metadata/annotations.yaml'),
    Elsewhere("a bundle below a folder that is not looked at",
         {"op-1.0/manifests/a.yaml": CSV, "op-1.0/metadata/annotations.yaml": ANNOTATIONS},
         'found "op-1.0/metadata/annotations.yaml": remove its parent directories with git.directory or'
         ' http.stripComponents'),
    Elsewhere("package manifests of an operator", {"etcd.package.yaml": PACKAGE, "0.9.2/csv.yaml": CSV},
         'found "etcd.package.yaml", the package manifest of an operator, which is not supported: convert the folder'
         ' with "operator-sdk pkgman-to-bundle", and publish one of the bundles'),
    Elsewhere("an imgpkg bundle", {"dir/.imgpkg/images.yml": "kind: ImagesLock\n", "dir/config/a.yml": OBJECT % "a"},
         'found "dir/.imgpkg/images.yml", which belongs to an imgpkg bundle: render its files with ytt and'
         ' "kbld -f dir/.imgpkg/images.yml", and publish the output'),
    Elsewhere("a chart that opm has packaged", {"metadata/annotations.yaml": TYPE % "helm", "manifests/Chart.yaml": ""},
         'found "manifests/Chart.yaml", which looks like a Helm chart: set spec.format to "helm"'),
    *(
        Elsewhere(f"a bundle that says that it is plain: {name}",
                  {"metadata/annotations.yaml": text, "manifests/a.yaml": content},
                  'found "metadata/annotations.yaml", which looks like a bundle of plain manifests: set spec.format to'
                  ' "plain"')
        for name, text, content in PLAIN_BUNDLES
    ),
    Elsewhere("no manifests/", {"metadata/annotations.yaml": ANNOTATIONS},
         'found "metadata/annotations.yaml" but no directory "manifests"; add it', Reason.INVALID_BUNDLE),
    Elsewhere("two bundles",
         {f"{place}{name}": ANNOTATIONS for place in ("", "dir/") for name in ("metadata/annotations.yaml",
         "manifests/a.yaml")}, 'found 2 bundles: "." and "dir"; create a BundleDeployment for each',
         Reason.INVALID_BUNDLE),
]
# fmt: on


@pytest.mark.parametrize("case", ELSEWHERE, ids=attrgetter("name"))
def test_no_bundle(case: Elsewhere, tmp_path: Path) -> None:
    for name, text in case.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    reason, message = refusal(tmp_path, destinations=("dir",))
    assert reason is case.reason
    assert message.endswith(case.expect)


@pytest.mark.parametrize("says", ["registry+v1", "plain", "helm", "something", ""])
def test_a_bundle_with_a_csv_is_one_whatever_opm_took_it_for(says: str, tmp_path: Path) -> None:
    package = "  operators.operatorframework.io.bundle.package.v1: op\n"
    files = {"metadata/annotations.yaml": TYPE % says + package}
    assert names(write_bundle(tmp_path, service_version(), object_of("ConfigMap", "here"), files=files)) == ["here"]


def test_a_bundle_beside_a_plain_one_is_found(tmp_path: Path) -> None:
    write_bundle(tmp_path, service_version(), object_of("ConfigMap", "here"))
    plain = {"metadata/annotations.yaml": TYPE % "plain+v0"}
    write_bundle(tmp_path / "plain", None, object_of("ConfigMap", "there"), files=plain)
    assert render(tmp_path, destinations=("", "plain")).objects[0]["metadata"]["name"] == "here"


def test_a_bundle_may_be_at_a_destination(tmp_path: Path) -> None:
    write_bundle(tmp_path / "a/b", service_version(), object_of("ConfigMap", "here"))
    assert render(tmp_path, destinations=("x", "a/b")).objects[0]["metadata"]["name"] == "here"


def test_a_link_in_manifests_is_refused(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version())
    (root / "manifests/link.yaml").symlink_to("csv.json")
    assert refusal(root) == (
        Reason.INVALID_BUNDLE,
        "manifests/link.yaml: not a regular file; replace it with the file itself",
    )


def test_files_are_read_in_byte_order_whatever_their_suffix(tmp_path: Path) -> None:
    files = {
        "manifests/b.txt": OBJECT % "b1" + "---\n---\n# only a comment\n---\n" + OBJECT % "b2",
        "manifests/B.yaml": OBJECT % "upper",
        "manifests/é": OBJECT % "last",
        "manifests/a": OBJECT % "a",
    }
    assert names(write_bundle(tmp_path, service_version(), files=files)) == ["upper", "a", "b1", "b2", "last"]


def test_everything_with_items_is_a_list(tmp_path: Path) -> None:
    nested = {"kind": "List", "items": [object_of("ConfigMap", "c")]}
    listed = {"kind": "Anything", "items": [object_of("ConfigMap", "a"), nested, object_of("ConfigMap", "b")]}
    typed = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "d"}}]}
    assert names(write_bundle(tmp_path, service_version(), listed, typed)) == ["a", "b", "c", "d"]


def test_the_last_of_duplicate_keys_wins_and_a_date_is_a_string(tmp_path: Path) -> None:
    csv = (
        CSV.replace("op.v1", "op.v1, annotations: {createdAt: 2024-05-01}")
        + MODES
        + "  displayName: a\n  displayName: b\n"
    )
    csv += "  install: {spec: {deployments: [{name: a, spec: {}}]}}\n"
    root = write_bundle(tmp_path, None, files={"manifests/csv.yaml": csv})
    assert only(render(root), "Deployment")["spec"]["template"]["metadata"]["annotations"]["createdAt"] == "2024-05-01"


def test_a_block_scalar_that_ends_with_its_file_ends_its_line(tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(), files={"manifests/a.yaml": OBJECT % "a" + "data:\n  k: |\n    v"})
    assert only(render(root), "ConfigMap")["data"] == {"k": "v\n"}


class Properties(NamedTuple):
    name: str
    annotation: str | None
    file: str | None
    expect: str | None


# fmt: off
PROPERTIES = [
    Properties("neither", None, None, None),
    Properties("no file", "no JSON", None, "no JSON"),
    Properties("an empty file", "no JSON", "", "no JSON"),
    Properties("an empty list", "no JSON", "properties: []", "no JSON"),
    Properties("a file alone", None, "properties: [{type: a, value: {c: 1, b: '<'}, x: 1}]",
         r'[{"type":"a","value":{"b":"\u003c","c":1}}]'),
    Properties("keys in other case and a type that is a number", None,
         "Properties: [{Type: 1, VALUE: a}, {type: true}]",
         r'[{"type":"1","value":"a"},{"type":"true","value":null}]'),
    Properties("those of the annotation come first and as they stand",
         '[ {"value": {"z": 1.0, "a": ">"}, "type": "t", "more": 1} ]',
         "properties: [{type: a, value: 1.0}, {type: b}]",
         r'[{"type":"t","value":{"z":1.0,"a":"\u003e"}},{"type":"a","value":1},{"type":"b","value":null}]'),
]
# fmt: on


@pytest.mark.parametrize("case", PROPERTIES, ids=attrgetter("name"))
def test_properties(case: Properties, tmp_path: Path) -> None:
    annotations = {} if case.annotation is None else {"olm.properties": case.annotation}
    files = {} if case.file is None else {"metadata/properties.yaml": case.file}
    csv = service_version(deployments=[deployment()], annotations=annotations)
    made = only(render(write_bundle(tmp_path, csv, files=files)), "Deployment")
    assert made["spec"]["template"]["metadata"]["annotations"].get("olm.properties") == case.expect


PACKAGE = "operators.operatorframework.io.bundle.package.v1"
# fmt: off
ANNOTATIONS_FILES = [
    ("a key of others with a boolean", f"{PACKAGE}: op, com.redhat.delivery.operator.bundle: true", "op"),
    ("keys of others with anything", f"a: 1, b: {{c: [1]}}, {PACKAGE}: op, d: null", "op"),
    ("a package that is a number", f"{PACKAGE}: 12", "12"),
    ("a package that is a float", f"{PACKAGE}: 1.50", "1.5"),
    ("a package that is a boolean", f"{PACKAGE}: yes", "true"),
    ("a package in other case", f"{PACKAGE.upper()}: op", "op"),
]
# fmt: on


@pytest.mark.parametrize(
    ("text", "package"), [case[1:] for case in ANNOTATIONS_FILES], ids=[c[0] for c in ANNOTATIONS_FILES]
)
@pytest.mark.parametrize("key", ["annotations", "Annotations"])
def test_annotations_are_read_as_go_reads_them(key: str, text: str, package: str, tmp_path: Path) -> None:
    files = {"metadata/annotations.yaml": f"{key}: {{{text}}}\n"}
    root = write_bundle(tmp_path, service_version(), files=files)
    assert render(root).warnings == ()
    tree = ContentTree(root=root, destinations=("",))
    assert RegistryV1Format().suggest_namespace(tree, {}) == f"{package}-system"


@pytest.mark.parametrize(
    ("annotations", "expect"),
    [({"operatorframework.io/suggested-namespace": "there"}, "there"), ({}, "op-system")],
    ids=["the CSV suggests one", "it does not"],
)
def test_suggested_namespace(annotations: dict[str, str], expect: str, tmp_path: Path) -> None:
    root = write_bundle(tmp_path, service_version(annotations=annotations), files={"manifests/broken.yaml": "{{"})
    assert RegistryV1Format().suggest_namespace(ContentTree(root=root, destinations=("",)), {}) == expect


class Template(NamedTuple):
    name: str
    text: str
    expect: dict[str, dict[str, str]]
    warned: bool = False


# fmt: off
TEMPLATES = [
    Template("labels and annotations",
         '{"metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {}}',
         {"labels": {"a": "b"}, "annotations": {"c": "d"}}),
    Template("none", '{"kind": "Namespace"}', {}),
    Template("what only the controller may say", '{"metadata": {"labels": {"core.rukpak.io/x": "b"}}}', {}),
    Template("no JSON", "{", {}, warned=True),
    Template("no object", "[]", {}, warned=True),
    Template("a label that is no string", '{"metadata": {"labels": {"a": 1}}}', {}, warned=True),
]
# fmt: on


@pytest.mark.parametrize("case", TEMPLATES, ids=attrgetter("name"))
def test_template_of_the_namespace(case: Template, tmp_path: Path) -> None:
    name = "operatorframework.io/suggested-namespace-template"
    rendering = render(write_bundle(tmp_path, service_version(annotations={name: case.text})))
    assert rendering.namespace == case.expect
    warning = f'metadata.annotations["{name}"]: ignored because it is not a Namespace in JSON'
    assert list(rendering.warnings) == [warning] * case.warned
