"""The format kustomize.rukpak.io/v1: what is built, what is refused, and what messages say."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from conftest import Render
from content import means, request_of, tree_of, write
from rukpak.plugins import BundleError, ContentTree, LargeTextError, Reason, Refusal
from rukpak_kustomize import KustomizeFormat, find_message

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.0
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: access}}]
"""
CONFIG_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {color: red}}"
SECRET = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2-is-secret}}"
BASE = {
    "base/kustomization.yaml": """
resources: [deployment.yaml]
generatorOptions: {disableNameSuffixHash: true, labels: {generated: "yes"}}
configMapGenerator: [{name: settings, literals: [color=red, size=big]}]
secretGenerator: [{name: access, files: [token=files/token], envs: [access.env]}]
""",
    "base/deployment.yaml": DEPLOYMENT,
    "base/files/token": "abc",
    "base/access.env": "USER_NAME=admin\n# a comment\nEMPTY\n",
}


def test_an_overlay_is_built_on_a_base_beside_it(render: Render) -> None:
    overlay = """
namespace: shop
namePrefix: prod-
resources: [../../base]
components: [../../components/debug]
configMapGenerator: [{name: settings, behavior: merge, literals: [color=blue]}]
patches:
- {path: replicas.yaml}
- {target: {kind: Deployment}, patch: '[{"op": "add", "path": "/metadata/annotations/a", "value": "b"}]'}
images: [{name: nginx, newTag: "2.0"}]
replacements:
- {source: {kind: ConfigMap, name: settings, fieldPath: data.size},
   targets: [{select: {kind: Deployment}, fieldPaths: [metadata.annotations.size], options: {create: true}}]}
"""
    files = BASE | {
        "overlays/prod/kustomization.yaml": overlay,
        "overlays/prod/replicas.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web},"
        " spec: {replicas: 3}}",
        "components/debug/kustomization.yaml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\n"
        "commonAnnotations: {debug: 'on'}",
        "overlays/prod/Chart.yaml": "name: not-read\n",
    }
    found = {each["kind"]: each for each in render(files, path="overlays/prod").objects}
    deployment = found["Deployment"]
    assert deployment["metadata"] == {
        "name": "prod-web",
        "namespace": "shop",
        "annotations": {"a": "b", "debug": "on", "size": "big"},
    }
    assert deployment["spec"]["replicas"] == 3
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "nginx:2.0"
    assert container["envFrom"][0]["configMapRef"]["name"] == "prod-settings"
    assert found["ConfigMap"]["data"] == {"color": "blue", "size": "big"}
    assert found["Secret"]["data"] == {"token": "YWJj", "USER_NAME": "YWRtaW4=", "EMPTY": ""}
    assert found["Secret"]["metadata"]["labels"] == {"generated": "yes"}


@pytest.mark.parametrize("folder", ["github.com", "github.com/x", "GitHub.com/x"])
def test_a_folder_that_is_named_like_a_host_is_local_without_an_owner_and_a_repository(
    folder: str, render: Render
) -> None:
    files = {"kustomization.yaml": f"resources: [{folder}]", f"{folder}/kustomization.yaml": "resources: [a.yaml]"}
    assert [item["metadata"]["name"] for item in render(files | {f"{folder}/a.yaml": CONFIG_MAP}).objects] == ["a"]


def test_plug_ins_that_are_built_into_kustomize_run(render: Render) -> None:
    files = {
        "kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml, transformers]\ngenerators:\n- |-\n"
        "  {apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: b},"
        " files: [x.txt], options: {disableNameSuffixHash: true}}\n",
        "a.yaml": CONFIG_MAP,
        "x.txt": "text",
        "t.yaml": "{apiVersion: builtin, kind: PrefixTransformer, metadata: {name: t}, prefix: my-, "
        "fieldSpecs: [{path: metadata/name}]}",
        "transformers/kustomization.yaml": "resources: [u.yaml]",
        "transformers/u.yaml": "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: u}, path: p.yaml, "
        "target: {kind: ConfigMap}}",
        "p.yaml": '[{"op": "add", "path": "/metadata/labels", "value": {"patched": "yes"}}]',
    }
    found = render(files).objects
    assert [each["metadata"] for each in found] == [
        {"name": "my-a", "labels": {"patched": "yes"}},
        {"name": "my-b", "labels": {"patched": "yes"}},
    ]


def test_vars_and_patches_in_their_old_fields_are_read(render: Render) -> None:
    files = {
        "kustomization.yml": """
bases: [base]
patchesStrategicMerge:
- p.yaml
- |-
  {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2}}
patchesJson6902: [{target: {group: apps, version: v1, kind: Deployment, name: web}, path: j.json}]
vars: [{name: IMAGE, objref: {apiVersion: apps/v1, kind: Deployment, name: web}}]
""",
        **BASE,
        "p.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, annotations: {name: $(IMAGE)}}}",
        "j.json": '[{"op": "add", "path": "/spec/paused", "value": true}]',
    }
    deployment = next(each for each in render(files).objects if each["kind"] == "Deployment")
    assert (deployment["spec"]["replicas"], deployment["spec"]["paused"]) == (2, True)
    assert deployment["metadata"]["annotations"] == {"name": "web"}


def test_the_only_destination_with_a_kustomization_is_built(render: Render) -> None:
    files = {"app/kustomization.yaml": "resources: [a.yaml]", "app/a.yaml": CONFIG_MAP, "data/x.txt": "x"}
    assert [each["metadata"]["name"] for each in render(files, "data", "app").objects] == ["a"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Content that is refused, and why."""

    name: str
    message: str
    kustomization: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    reason: Reason = Reason.INVALID_BUNDLE


LEAVES = 'leaves the content; write it without ".." and without a leading slash'
REMOTE = (
    "is remote, and is not fetched; add its content as another source with a destination, and refer to it by its path"
)
NO_HELM = "kustomize must not run Helm; install the chart with a BundleDeployment of its own"
REFUSED = [
    Refused(
        name="a base in GitHub",
        kustomization="resources: [github.com/kubernetes-sigs/kustomize//examples/helloWorld?ref=v1.0.6]",
        message=f'resources[0]: "github.com/kubernetes-sigs/kustomize//examples/helloWorld?ref=v1.0.6" {REMOTE}',
    ),
    Refused(
        name="a base in GitHub that is also a folder",
        kustomization="resources: [github.com/acme/shop]",
        files={"github.com/acme/shop/kustomization.yaml": "resources: []"},
        message=f'resources[0]: "github.com/acme/shop" {REMOTE}',
    ),
    Refused(
        name="a file of a generator with several keys",
        kustomization="configMapGenerator: [{name: a, files: [a=b=c.txt]}]",
        files={"c.txt": "a", "b=c.txt": "a"},
        message='configMapGenerator[0].files[0]: "a=b=c.txt" has a key or a file with "=" in its name; rename it',
    ),
    Refused(
        name="a base over https",
        kustomization="bases: [HTTPS://example.com/repo.git]",
        message=f'bases[0]: "HTTPS://example.com/repo.git" {REMOTE}',
    ),
    Refused(
        name="a base over ssh",
        kustomization='components: ["git@example.com:org/repo"]',
        message=f'components[0]: "git@example.com:org/repo" {REMOTE}',
    ),
    Refused(
        name="a base with a forced protocol",
        kustomization='resources: ["git::ssh://example.com/org/repo"]',
        message=f'resources[0]: "git::ssh://example.com/org/repo" {REMOTE}',
    ),
    Refused(
        name="a remote base of a base",
        kustomization="resources: [b]",
        files={"b/kustomization.yaml": "resources: [https://example.com/a.yaml]"},
        message=f'b/kustomization.yaml: resources[0]: "https://example.com/a.yaml" {REMOTE}',
    ),
    Refused(
        name="a remote patch",
        kustomization="patches: [{path: https://example.com/p.yaml}]",
        message=f'patches[0].path: "https://example.com/p.yaml" {REMOTE}',
    ),
    Refused(
        name="a remote file of a generator",
        kustomization="configMapGenerator: [{name: a, files: [k=https://example.com/x]}]",
        message=f'configMapGenerator[0].files[0]: "https://example.com/x" {REMOTE}',
    ),
    Refused(
        name="a remote schema",
        kustomization="openapi: {path: https://example.com/schema.json}",
        message=f'openapi.path: "https://example.com/schema.json" {REMOTE}',
    ),
    Refused(
        name="a remote file of a plug-in",
        kustomization="transformers: [t.yaml]",
        files={"t.yaml": "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: t}, path: 'http://a/b'}"},
        message=f't.yaml: path: "http://a/b" {REMOTE}',
    ),
    Refused(
        name="a chart",
        kustomization="helmCharts: [{name: a, repo: https://example.com}]",
        message=f"helmCharts: {NO_HELM}",
    ),
    Refused(
        name="a chart in the old field",
        kustomization="helmChartInflationGenerator: [{chartName: a}]",
        message=f"helmChartInflationGenerator: {NO_HELM}",
    ),
    Refused(
        name="a chart in a generator",
        kustomization="generators:\n- |-\n  {apiVersion: builtin, kind: HelmChartInflationGenerator}",
        message=f"generators[0]: {NO_HELM}",
    ),
    Refused(
        name="a container",
        kustomization="transformers: [f.yaml]",
        files={
            "f.yaml": "{apiVersion: v1, kind: Fn, metadata: {name: a, annotations: "
            "{config.kubernetes.io/function: 'container: {image: a}'}}}"
        },
        message='f.yaml: "Fn" is a container, a program or a function, which kustomize must not run',
    ),
    Refused(
        name="a program from a folder of validators",
        kustomization="validators: [v]",
        files={
            "v/kustomization.yaml": "resources: [e.yaml]",
            "v/e.yaml": "{apiVersion: team.example.com/v1, kind: Exec, metadata: {name: a}}",
        },
        message='v/e.yaml: "Exec" is a container, a program or a function, which kustomize must not run',
    ),
    Refused(
        name="a path out of the content",
        kustomization="resources: [../../etc/passwd]",
        message='resources[0]: "../../etc/passwd" leaves the content',
    ),
    Refused(
        name="an absolute path",
        kustomization="configMapGenerator: [{name: a, envs: [/proc/self/environ]}]",
        message='configMapGenerator[0].envs[0]: "/proc/self/environ" leaves the content',
    ),
    Refused(
        name="a file that does not exist",
        kustomization="resources: [mian.yaml]",
        message='kustomization.yaml: resources[0]: "mian.yaml" does not exist; correct the path',
    ),
    Refused(
        name="a name that no file can have",
        kustomization=f"resources: [{'a' * 300}]",
        message="does not exist; correct the path",
    ),
    Refused(
        name="a folder without a kustomization",
        kustomization="resources: [b]",
        files={"b/a.yaml": CONFIG_MAP},
        message='resources[0]: "b" is a folder without a kustomization',
    ),
    Refused(
        name="two kustomizations in a folder",
        kustomization="resources: []",
        files={"Kustomization": "resources: []"},
        message="Kustomization: kustomization.yaml is a second kustomization in the same folder; remove one",
    ),
    Refused(
        name="a file of another folder",
        kustomization="resources: [b]",
        files={"b/kustomization.yaml": "resources: [../a.yaml]", "a.yaml": CONFIG_MAP},
        message="b/kustomization.yaml: ",
    ),
    Refused(
        name="a manifest that is no YAML",
        kustomization="resources: [a.yaml]",
        files={"a.yaml": "a: b\nc: [\n"},
        message="a.yaml:",
    ),
    Refused(
        name="an unknown field",
        kustomization="resuorces: [a.yaml]",
        message='kustomization.yaml: invalid Kustomization: json: unknown field "resuorces"',
    ),
    Refused(
        name="a remote base in a field that is not looked up: Go ignores its case",
        kustomization="Resources: [github.com/org/repo]",
        message="lstat github.com: no such file or directory",
    ),
    Refused(
        name="a cycle",
        kustomization="resources: [b]",
        files={"b/kustomization.yaml": "resources: [../b/c]", "b/c/kustomization.yaml": "resources: [../../b]"},
        message="cycle detected",
    ),
    Refused(
        name="a duplicate",
        kustomization="resources: [a.yaml, b.yaml]",
        files={"a.yaml": CONFIG_MAP, "b.yaml": CONFIG_MAP},
        message="may not add resource with an already registered id: ConfigMap.v1.[noGrp]/a.[noNs]",
    ),
    Refused(
        name="content without a kustomization",
        files={"a.yaml": CONFIG_MAP},
        reason=Reason.NO_CONTENT,
        message='no kustomization in "."; add a kustomization.yaml, or correct spec.format',
    ),
    Refused(
        name="a kustomization elsewhere",
        files={"overlays/prod/kustomization.yaml": "resources: []", "base/kustomization.yaml": ""},
        reason=Reason.NO_CONTENT,
        message='no kustomization in "."; set spec.config.path to one of "base", "overlays/prod"',
    ),
    Refused(
        name="a path without a kustomization",
        path="overlays",
        files={"overlays/prod/kustomization.yaml": "resources: []"},
        reason=Reason.NO_CONTENT,
        message='spec.config.path: no kustomization in "overlays"; set spec.config.path to one of "overlays/prod"',
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_what_cannot_be_built_is_refused(case: Refused, render: Render, tmp_path: Path) -> None:
    files = {**({"kustomization.yaml": case.kustomization} if case.kustomization else {}), **case.files}
    with pytest.raises(BundleError) as refused:
        render(files, path=case.path)
    assert case.message in refused.value.message
    assert refused.value.reason is case.reason
    assert str(tmp_path) not in refused.value.message
    assert "\n" not in refused.value.message


def test_several_kustomizations_need_a_path(render: Render) -> None:
    files = {"a/kustomization.yaml": "", "b/kustomization.yaml": ""}
    with pytest.raises(BundleError, match=r'spec.config.path: required: there are kustomizations in "a", "b"'):
        render(files, "a", "b")


@pytest.mark.parametrize(
    "files",
    [
        {"kustomization.yaml": "secretGenerator: [{name: a, literals: [hunter2-is-secret]}]"},
        {"kustomization.yaml": "secretGenerator: [{name: a, literals: [p=hunter2-is-secret], type: [1]}]"},
        {
            "kustomization.yaml": "secretGenerator: [{name: a, literals: [p=hunter2-is-secret], envs: [e]}]",
            "e": "1=hunter2-is-secret",
        },
        {
            "kustomization.yaml": "resources: [s.yaml]\npatches: [{path: s.yaml, target: {kind: '['}}]",
            "s.yaml": SECRET,
        },
        {
            "kustomization.yaml": "resources: [s.yaml]\npatches:\n- target: {kind: Secret}\n  patch: |-\n"
            "    [{op: bad, path: /stringData/password, value: hunter2-is-secret}]",
            "s.yaml": SECRET,
        },
        {
            "kustomization.yaml": "resources: [s.yaml]",
            "s.yaml": SECRET.replace("name: s", "nmae: s"),
        },
        {"kustomization.yaml": f"secretGenerator: [{{name: a, literals: [{'hunter2-is-secret' * 5000}]}}]"},
    ],
    ids=["no pair", "the type", "the key", "a target", "an operation", "no name", "a long one"],
)
def test_a_message_has_no_value_of_a_secret(files: dict[str, str], render: Render) -> None:
    with pytest.raises(BundleError) as refused:
        render(files)
    assert "hunter2" not in refused.value.message
    assert b64encode(b"hunter2-is")[:12].decode() not in refused.value.message


def test_what_is_refused_matters_only_if_it_is_read(render: Render) -> None:
    files = {"kustomization.yaml": "resources: [a.yaml]", "a.yaml": CONFIG_MAP}
    elsewhere = {"b.yaml": Refusal(problem="a link out of the content")}
    assert len(render(files, refused=elsewhere).objects) == 1
    files["kustomization.yaml"] = "resources: [a.yaml, b.yaml]"
    with pytest.raises(BundleError, match="a link out of the content"):
        render(files, refused=elsewhere)


@pytest.mark.parametrize(
    ("generator", "field"),
    [
        ("secretGenerator: [{name: a, files: [key=b.env]}]", "secretGenerator[0].files[0]"),
        ("configMapGenerator: [{name: a, envs: [b.env]}]", "configMapGenerator[0].envs[0]"),
    ],
)
def test_a_file_that_a_processor_could_not_prepare_is_refused_where_a_generator_names_it(
    generator: str, field: str, render: Render
) -> None:
    """As of a file for the key of another cluster, by SOPS."""
    files = {"kustomization.yaml": "resources: [a.yaml]", "a.yaml": CONFIG_MAP, "b.env": "A=ENC[]"}
    unprepared = {"b.env": Refusal(problem="encrypted for another key", reason=Reason.INVALID_CONFIG)}
    assert len(render(files, unprepared=unprepared).objects) == 1
    files["kustomization.yaml"] = generator
    with pytest.raises(BundleError) as caught:
        render(files, unprepared=unprepared)
    assert caught.value.message == f"kustomization.yaml: {field}: encrypted for another key"


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("namespace: shop", "shop"),
        ("resources: []", "default"),
        ("namespace: [a]", "default"),
        ("namespace: Not_Valid", "default"),
        ("{", "default"),
    ],
)
def test_the_namespace_of_the_kustomization_is_suggested(
    text: str, namespace: str, kustomize: KustomizeFormat, tmp_path: Path
) -> None:
    assert kustomize.suggest_namespace(tree_of(write(tmp_path, {"kustomization.yaml": text})), {}) == namespace


def test_without_content_the_default_namespace_is_suggested(kustomize: KustomizeFormat, tmp_path: Path) -> None:
    assert kustomize.suggest_namespace(ContentTree(root=tmp_path, destinations=("",)), {}) == "default"


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ({}, []),
        ({"path": "overlays/prod"}, []),
        ({"path": "."}, []),
        ({"path": 1}, ["spec.config.path: must be a string, the path of a folder in the content"]),
        ({"path": ""}, ['spec.config.path: must not be empty; write "." for the root of the content']),
        ({"path": "/a"}, [f'spec.config.path: "/a" {LEAVES}']),
        ({"path": "a/../.."}, [f'spec.config.path: "a/../.." {LEAVES}']),
        ({"images": []}, ["spec.config.images: unknown key; path is the only one"]),
    ],
)  # fmt: skip
def test_the_config_has_a_path(config: dict[str, Any], problems: list[str], kustomize: KustomizeFormat) -> None:
    assert kustomize.validate(config) == problems


def test_the_program_reports_the_version_of_kustomize(kustomize: KustomizeFormat, tmp_path: Path) -> None:
    assert kustomize.find_program(means(tmp_path)).version.startswith("v5.")


def test_a_program_that_the_administrator_names_is_not_replaced(kustomize: KustomizeFormat, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="install kustomize 5"):
        kustomize.find_program(means(tmp_path, programs={"kustomize": "/bin/true"}))


def test_what_is_too_large_for_this_process_is_built_once(
    kustomize: KustomizeFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {f"{number}.txt": "a" * 900_000 for number in range(6)}
    names = ", ".join(f"{{name: n{number}, files: [{number}.txt]}}" for number in range(6))
    tree = tree_of(write(tmp_path / "content", {"kustomization.yaml": f"configMapGenerator: [{names}]", **data}))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    occupied: list[int] = []
    with pytest.raises(LargeTextError):
        kustomize.render(request_of(tree, {}, means(scratch, inline=True, occupy=occupied.append)))
    assert occupied[0] > 6 * 900_000
    monkeypatch.setenv("PATH", str(tmp_path))  # the child finds no kustomize, and needs none
    assert len(KustomizeFormat().render(request_of(tree, {}, means(scratch))).objects) == 6


def test_a_build_ends_if_nobody_waits_for_it(render: Render) -> None:
    cancelled = Event()
    cancelled.set()
    with pytest.raises(BundleError, match="canceled"):
        render({"kustomization.yaml": "resources: []"}, cancelled=cancelled)


def test_a_build_that_grows_without_end_is_stopped(render: Render) -> None:
    files = {"l0/kustomization.yaml": "resources: [a.yaml]", "l0/a.yaml": CONFIG_MAP}
    for level in range(1, 21):  # each has twice the objects of the one below it
        files[f"l{level}/kustomization.yaml"] = "resources: [left, right]"
        for side in ("left", "right"):
            text = f"namePrefix: {side}-\nresources: [../../l{level - 1}]"
            files[f"l{level}/{side}/kustomization.yaml"] = text
    with pytest.raises(BundleError) as stopped:
        render(files, path="l20", seconds=2.0)
    assert stopped.value.reason is Reason.RENDER_LIMIT_EXCEEDED
    assert "l20/kustomization.yaml" in stopped.value.message


@pytest.mark.parametrize(
    "said",
    [
        'Error: invalid Kustomization: json: unknown field "resource"',
        'error: invalid Kustomization: json: unknown field "resource"',
        '# Warning: a\nError: invalid Kustomization: json: unknown field "resource"',
        r'E1126 21:39:40.2 16387 run.go:72] "failed" err="invalid Kustomization: json: unknown field \"resource\""',
        'E1128 07:30:28.7 19062 run.go:72] "failed" err=<\n\tinvalid Kustomization: json: unknown field "resource"\n >',
        'E1128 07:30:28.7 19062 run.go:72] invalid Kustomization: json: unknown field "resource"',
    ],
)
def test_the_last_error_is_found_in_any_form(said: str) -> None:
    assert find_message(f"{said}\n").strip() == 'invalid Kustomization: json: unknown field "resource"'
