"""The format helm with the real program: the objects of a chart, and the messages if it does not render."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Capabilities, Entry, Limits, Refusal, Rendering
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import read_body, strip_components, write_entries
from rukpak.controller.content.disk import read_folder
from rukpak.controller.content.tar import read_tar
from rukpak.controller.formats.applicable import revision_digest
from rukpak.controller.formats.helm.format import read_output, refuse_unknown_groups
from rukpak.controller.formats.helm.values import MATCHES, name_values_files, read_configuration
from rukpak.controller.formats.manifests import TextBudget, read_documents
from rukpak.controller.sources.chart_registry import read_chart
from tests.support.archives import Link, Special, Value, tarball
from tests.support.charts import DATA, FORMAT, PROGRAMS, chart_of, files_of, pack, packaged_helm, render, write

SHOP = DATA / "shop"
LOOKUP = '{{ $s := lookup "v1" "Secret" .Release.Namespace "db" }}'
NEEDED = (
    '; this template uses "lookup", which finds nothing, because charts are rendered without a cluster: '
    "set what it needs in spec.config.values"
)
FIXED = {"values": {"password": "correct horse"}}


@pytest.fixture(autouse=True)
def each_helm(helm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with Helm 3 and with Helm 4."""
    monkeypatch.setitem(PROGRAMS, "helm", str(helm))


def names_of(rendering: Rendering) -> list[str]:
    return [item["metadata"]["name"] for item in rendering.objects]


def settings_of(rendering: Rendering) -> dict[str, str]:
    data: dict[str, str] = next(item["data"] for item in rendering.objects if "data" in item)
    return data


def test_definitions_precede_the_other_objects_in_helms_order(tmp_path: Path) -> None:
    assert names_of(render(SHOP, tmp_path)) == [
        "widgets.shop.example.com",
        "web-password",
        "web-shelf",
        "web-settings",
    ]


def test_a_chart_sees_a_first_installation_on_the_cluster_and_nothing_else(tmp_path: Path) -> None:
    assert settings_of(render(SHOP, tmp_path)) == {
        "color": "blue",
        "size": "1",
        "release": "web shop true false 1",
        "kubernetes": "v1.36.3",
        "widgets": "true",
        "widget": "true",
        "gadget": "false",
        "looked": "{}",
    }


def test_the_annotation_resource_policy_is_kept(tmp_path: Path) -> None:
    secret = next(item for item in render(SHOP, tmp_path).objects if item["kind"] == "Secret")
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_hooks_are_separate_and_in_order_of_execution(tmp_path: Path) -> None:
    hooks = render(SHOP, tmp_path).hooks
    assert [(hook.manifest["metadata"]["name"], hook.events, hook.weight, hook.delete_policies) for hook in hooks] == [
        ("announce", ("post-install",), -1, ("before-hook-creation",)),
        ("goodbye", ("pre-rollback", "pre-delete"), 0, ("before-hook-creation",)),
        ("undo", ("post-rollback",), 0, ("before-hook-creation",)),
        ("migrate", ("pre-install", "pre-upgrade"), 5, ("hook-succeeded", "hook-failed")),
    ]


def test_equal_requests_give_equal_bytes_whatever_the_order_of_keys(tmp_path: Path) -> None:
    values = {"password": "correct horse", "color": "red", "store": {"enabled": True, "x": 1}}
    turned = {key: values[key] for key in reversed(values)}
    first, second = (render(SHOP, tmp_path, config={"values": each}).objects for each in (values, turned))
    assert revision_digest(first) == revision_digest(second)


# config


@dataclass(frozen=True)
class Configured:
    name: str
    config: dict[str, Any]
    expect: dict[str, str]


# fmt: off
CONFIGURED = [
    Configured("values as a mapping", {"values": {"color": "red"}}, {"color": "red", "size": "1"}),
    Configured("values as YAML text, where no is false", {"values": "color: 'no'\nsize: 2"},
         {"color": "no", "size": "2"}),
    Configured("values that are null", {"values": None}, {"color": "blue"}),
    Configured("a file of values", {"valuesFiles": ["values-large.yaml"]}, {"color": "red", "size": "3"}),
    Configured("values win over a file", {"valuesFiles": ["./values-large.yaml"], "values": {"color": "pink"}},
         {"color": "pink", "size": "3"}),
    Configured("characters that YAML treats otherwise", {"values": {"color": "\x85\u2028😀\n\ufeff"}},
         {"color": "\x85\u2028😀\n\ufeff"}),
    Configured("an upgrade", {"isUpgrade": True}, {"release": "web shop false true 1"}),
    Configured("the name of the release", {"releaseName": "other"}, {"release": "other shop true false 1"}),
]
# fmt: on


@pytest.mark.parametrize("case", CONFIGURED, ids=attrgetter("name"))
def test_a_chart_is_rendered_with(case: Configured, tmp_path: Path) -> None:
    assert case.expect.items() <= settings_of(render(SHOP, tmp_path, config=case.config)).items()


def test_definitions_can_be_left_out(tmp_path: Path) -> None:
    assert "widgets.shop.example.com" not in names_of(render(SHOP, tmp_path, config={"includeCRDs": False}))


def test_hooks_can_be_left_out(tmp_path: Path) -> None:
    assert render(SHOP, tmp_path, config={"disableHooks": True, "skipTests": False}).hooks == []


def test_tests_can_be_run_after_installing_and_upgrading(tmp_path: Path) -> None:
    hooks = render(SHOP, tmp_path, config={"skipTests": False}).hooks
    assert [hook.events for hook in hooks if hook.manifest["metadata"]["name"] == "try"] == [
        ("post-install", "post-upgrade")
    ]


def test_a_values_file_may_come_from_another_source(tmp_path: Path) -> None:
    content = {**files_of(SHOP, "chart/"), "mine/v.yaml": b"color: mine"}
    config = {"valuesFiles": ["mine/v.yaml"]}
    rendering = render(write(tmp_path / "tree", content), tmp_path, "chart", "mine", config=config)
    assert settings_of(rendering)["color"] == "mine"


# places of a chart


def test_a_packed_chart_renders_like_its_folder(tmp_path: Path) -> None:
    root = write(tmp_path / "tree", {"shop-1.2.3.tgz": pack(files_of(SHOP, "shop/")), "shop-1.2.3.tgz.prov": b"signed"})
    packed, unpacked = (render(each, tmp_path, config=FIXED) for each in (root, SHOP))
    assert packed == unpacked
    assert packed.bundle == "shop 1.2.3"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("name: a\nversion: 1.2.0+x", "a 1.2.0+x"),
        ("version: 0.1.0\nname: a\nappVersion: 7", "a 0.1.0"),
        ('name: "a"\nversion: v1.0.0\nname: b', "b v1.0.0"),
    ],
)
def test_a_chart_says_what_it_is(told: str, expected: str, tmp_path: Path) -> None:
    template = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"
    root = write(tmp_path / "tree", {"Chart.yaml": f"apiVersion: v2\n{told}\n".encode(), "templates/c.yaml": template})
    assert render(root, tmp_path).bundle == expected


def test_a_packed_dependency_renders_like_its_folder(tmp_path: Path) -> None:
    files = files_of(SHOP)
    store = {path: files.pop(path) for path in sorted(files) if path.startswith("charts/store/")}
    archive = pack({path.removeprefix("charts/"): data for path, data in store.items()})
    root = write(tmp_path / "tree", {**files, "charts/store-0.1.0.tgz": archive})
    assert render(root, tmp_path, config=FIXED) == render(SHOP, tmp_path, config=FIXED)


def test_what_a_chart_ignores_is_what_helm_ignores_with_packaged_dependencies(helm: Path, tmp_path: Path) -> None:
    def manifest(name: str) -> str:
        return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"

    names = ("kept", "skipped", "old/below")
    inner = chart_of({f"templates/{name}.yaml": manifest(f"inner-{name.replace('/', '-')}") for name in names}, "d")
    outer = chart_of({f"templates/{name}.yaml": manifest(f"outer-{name.replace('/', '-')}") for name in names})
    rules = b"old/\n/templates/skipped.yaml\n"
    root = write(tmp_path / "tree", {**outer, "c/.helmignore": rules, "c/charts/d-1.0.0.tgz": pack(inner)})
    command = [str(helm), "template", "c"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})
    found = {each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout)}  # noqa: TID251 - of Helm
    assert found == {"outer-kept", "inner-kept", "inner-skipped", "inner-old-below"}
    assert set(names_of(render(root, tmp_path))) == found


def test_a_definition_in_two_dependencies_is_rendered_once(tmp_path: Path) -> None:
    definition = (SHOP / "crds" / "widgets.yaml").read_text()
    parts = {f"charts/{name}/Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 1.0.0" for name in "ab"}
    definitions = {f"charts/{name}/crds/w.yaml": definition for name in "ab"}
    root = write(tmp_path / "tree", chart_of({**parts, **definitions}))
    assert names_of(render(root, tmp_path)) == ["widgets.shop.example.com"]


# failures


@dataclass(frozen=True)
class Refused:
    name: str
    files: dict[str, str]
    reason: Reason
    message: str
    config: dict[str, Any] = field(default_factory=dict)
    more: str = ""
    """In Chart.yaml."""
    means: dict[str, Any] = field(default_factory=dict)
    message_of_helm_4: str = ""
    """If it differs."""


FAILED = Reason.RENDER_FAILED
MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
DEPENDENCIES = "dependencies: [{name: d, version: 1.0.0, repository: 'oci://registry.example.com/charts'}]\n"
# fmt: off
REFUSED = [
    Refused("a template that fails", {"templates/a.yaml": '{{ fail "say why" }}'}, FAILED,
         '"c": c/templates/a.yaml:1:3: say why'),
    Refused("a value that is required", {"templates/a.yaml": '{{ required "need it" .Values.x }}'}, FAILED,
         '"c": c/templates/a.yaml:1:3: need it'),
    Refused("the innermost of templates that include one another",
         {"templates/a.yaml": '{{ include "t" . }}',
         "templates/_t.tpl": '{{ define "t" }}{{ .Values.a.b.c }}{{ end }}'}, FAILED,
         '"c": c/templates/_t.tpl:1:26: at <.Values.a.b.c>: nil pointer evaluating interface {}.b'),
    Refused("a template that is none", {"templates/a.yaml": "{{ if"}, FAILED,
         '"c": c/templates/a.yaml:1: unclosed action'),
    Refused("what is not YAML", {"templates/a.yaml": "a: b: c"}, FAILED,
         '"c": c/templates/a.yaml: yaml: mapping values are not allowed in this context'),
    Refused("what is no object", {"templates/a.yaml": "\nkind: ConfigMap"}, Reason.INVALID_BUNDLE,
         "c/templates/a.yaml:1: apiVersion: missing"),
    Refused("two equal objects in a template", {"templates/a.yaml": f"{MAP}\n---\n{MAP}\n"}, Reason.INVALID_BUNDLE,
         "c/templates/a.yaml: ConfigMap a: defined more than once; remove one"),
    Refused("a chart for another Kubernetes", {}, FAILED,
         '"c": chart requires kubeVersion: >=1.99 which is incompatible with Kubernetes v1.36.3',
         more="kubeVersion: '>=1.99'"),
    Refused("a library", {}, FAILED, '"c": library charts are not installable', more="type: library"),
    Refused("a dependency that is not there", {}, Reason.INVALID_BUNDLE,
         '"c": missing dependencies in charts/: d; add them with "helm dependency build" before publishing the chart',
         more=DEPENDENCIES),
    Refused(
        "values that the schema refuses, in the same order each time",
        {"values.schema.json": '{"required":["n"],"properties":{"z":{"type":"integer"},"a":{"enum":["x"]}}}'},
        Reason.INVALID_CONFIG,
        'spec.config.values: rejected by the schema of "c": c: (root): n is required, '
        'c: a: a must be one of the following: "x", c: z: Invalid type. Expected: integer, given: string',
        config={"values": {"z": "hunter22", "a": "tiger333"}},
        message_of_helm_4="""spec.config.values: rejected by the schema of "c": c: at '': missing property 'n', """
        "c: at '/a': value must be 'x', c: at '/z': got string, want integer",
    ),
    Refused("a value that does not match, which Helm 4 quotes",
         {"values.schema.json": '{"properties": {"a": {"pattern": "^x$"}}}'}, Reason.INVALID_CONFIG,
         """spec.config.values: rejected by the schema of "c": c: a: Does not match pattern '^x$'""",
         config={"values": {"a": "tiger333"}},
         message_of_helm_4="""spec.config.values: rejected by the schema of "c": c: at '/a': '…' does not match """
         "pattern '^x$'"),
    Refused("what lookup would find", {"templates/a.yaml": LOOKUP + "{{ $s.data.password }}"}, FAILED,
         '"c": c/templates/a.yaml:1:61: at <$s.data.password>: nil pointer evaluating interface {}.password' + NEEDED),
    Refused("what a template requires of lookup",
         {"templates/a.yaml": '{{ include "p" . }}',
          "templates/_p.tpl": '{{ define "p" }}' + LOOKUP + '{{ required "create Secret db" $s.data }}{{ end }}'},
         FAILED,
         '"c": c/templates/a.yaml:1:3: create Secret db' + NEEDED),
    Refused("an upgrade that lookup finds no password for",
         {"templates/a.yaml": LOOKUP + '{{ if and .Release.IsUpgrade (not $s) }}{{ fail "no password" }}{{ end }}'},
         FAILED, '"c": c/templates/a.yaml:1:99: no password' + NEEDED, config={"isUpgrade": True}),
    Refused("a template that is none, although it uses lookup", {"templates/a.yaml": LOOKUP + "{{ if"}, FAILED,
         '"c": c/templates/a.yaml:1: unclosed action'),
    Refused("a message that would show values",
         {"templates/a.yaml": '{{ with .Values }}{{ fail (printf "%s, %q, %v, %v" .word .word .list .pin) }}{{ end }}'},
         FAILED, '"c": c/templates/a.yaml:1:21: …, "…", [… a], …',
         config={"values": {"word": 'hunter2 "x"\nü', "list": ["tiger", "a"], "pin": 1234567}}),
    Refused("a loop", {"templates/a.yaml": "{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}"},
         Reason.RENDER_LIMIT_EXCEEDED,
         '"c": timed out: helm takes more than 0.5 s; simplify the bundle or raise --render-timeout',
         means={"seconds": 0.5}),
    Refused(
        "what eats memory",
        {"templates/a.yaml": '{{ repeat 900000000 "x" | len }}{{ repeat 900000000 "y" | len }}'},
        Reason.RENDER_LIMIT_EXCEEDED,
        '"c": rendering needs more memory or processor time than allowed; '
        "simplify the chart, or raise --render-mebibytes or --render-timeout",
    ),
    Refused("what prints without end",
         {"templates/a.yaml": '{{ range until 2000 }}\n---\na: "{{ repeat 1000 "x" }}"{{ end }}'},
         Reason.RENDER_LIMIT_EXCEEDED, '"c": output of helm exceeds the limit of 1 MiB; split the bundle',
         means={"output_bytes": 1 << 20}),
    Refused(
        "a file of values that is not there",
        {},
        Reason.INVALID_CONFIG,
        'spec.config.valuesFiles[0]: no file "x.yaml" in the content; '
        "use its path from the root, including the destination",
        config={"valuesFiles": ["x.yaml"]},
    ),
    Refused(
        "a pattern of files of values that matches none",
        {},
        Reason.INVALID_CONFIG,
        'spec.config.valuesFiles[0]: no file matches "x-*.yaml" in the content; '
        "use its path from the root, including the destination",
        config={"valuesFiles": ["x-*.yaml"]},
    ),
    Refused("a file of values that are none", {"v.yaml": "[1]"}, Reason.INVALID_CONFIG,
         "spec.config.valuesFiles[0]: c/v.yaml: must be a mapping, not a list",
         config={"valuesFiles": ["c/v.yaml"]}),
    Refused("a file of values that is not YAML", {"v.yaml": "a: 1\nb: c: d"}, Reason.INVALID_CONFIG,
         "spec.config.valuesFiles[0]: c/v.yaml:2: not YAML: mapping values are not allowed in this context",
         config={"valuesFiles": ["c/v.yaml"]}),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_refused(case: Refused, helm: Path, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", chart_of(case.files, more=case.more))
    with pytest.raises(BundleError) as raised:
        render(root, tmp_path, config=case.config, **case.means)
    message = case.message if helm == packaged_helm() else case.message_of_helm_4 or case.message
    assert (raised.value.reason, raised.value.message) == (case.reason, message)


def test_a_release_needs_a_valid_name(tmp_path: Path) -> None:
    with pytest.raises(BundleError) as raised:
        render(SHOP, tmp_path, name="x" * 54)
    assert raised.value.message == (
        "spec.config.releaseName: required: the name of the BundleDeployment has 54 characters, "
        "but Helm allows 53; set one of at most 53 characters"
    )
    assert render(SHOP, tmp_path, name="x" * 54, config={"releaseName": "x" * 53}).objects


def test_templates_that_include_themselves_are_stopped(tmp_path: Path) -> None:
    root = write(
        tmp_path / "tree",
        chart_of({"templates/a.yaml": '{{ define "t" }}{{ include "t" . }}{{ end }}{{ include "t" . }}'}),
    )
    with pytest.raises(BundleError, match="nested reference name: t"):
        render(root, tmp_path)


def test_rendering_is_canceled_when_its_result_is_no_longer_needed(tmp_path: Path) -> None:
    loop = {"templates/a.yaml": "{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}"}
    cancelled = threading.Event()
    timer = threading.Timer(0.3, cancelled.set)
    timer.start()
    with pytest.raises(BundleError, match="no longer needed"):
        render(write(tmp_path / "tree", chart_of(loop)), tmp_path, cancelled=cancelled)
    timer.join()


def test_a_chart_learns_nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CONTROLLER", "x")
    functions = '{{ env "SECRET_OF_THE_CONTROLLER" }}'
    with pytest.raises(BundleError, match='function "env" not defined'):
        render(write(tmp_path / "a", chart_of({"templates/a.yaml": functions})), tmp_path)
    files = '{{ .Files.Get "/etc/hostname" }}{{ .Files.Get "../outside" }}{{ getHostByName "localhost" }}'
    write(tmp_path / "b", {"outside": b"kind: Leak", **chart_of({"templates/a.yaml": files})})
    assert not render(tmp_path / "b", tmp_path).objects


def test_a_chart_that_renders_nothing_is_a_warning(tmp_path: Path) -> None:
    root = write(tmp_path / "c", chart_of({"templates/a.yaml": "{{ if .Values.on }}x{{ end }}"}))
    rendering = render(root, tmp_path)
    assert (rendering.objects, rendering.hooks) == ([], [])
    assert rendering.warnings == ('"c": chart renders no objects with these values',)


HOOKS = {
    "of Helm 2": ("crd-install", "crd-install", "are left out; CustomResourceDefinitions belong into crds/"),
    "of Helm 2 beside one that counts": ("crd-install,pre-install", "crd-install", "CustomResourceDefinitions belong"),
    "that is misspelt": ("pre-instal", "pre-instal", "are left out; correct helm.sh/hook"),
}


@pytest.mark.parametrize("name", HOOKS)
def test_objects_with_a_hook_that_helm_does_not_know_are_told(tmp_path: Path, name: str) -> None:
    events, unknown, end = HOOKS[name]
    metadata = f'{{"name": "a", "annotations": {{"helm.sh/hook": "{events}"}}}}'
    files = {
        "templates/a.yaml": f'{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {metadata}}}',
        "templates/b.yaml": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}',
    }
    rendering = render(write(tmp_path / "c", chart_of(files)), tmp_path)
    [warning] = rendering.warnings
    assert warning.startswith(f'objects with a hook that Helm does not know ("{unknown}") are left out')
    assert end in warning
    assert (len(rendering.objects), rendering.hooks) == (1, [])


def test_a_chart_may_have_hooks_alone(tmp_path: Path) -> None:
    metadata = '{"name": "a", "annotations": {"helm.sh/hook": "pre-install"}}'
    manifest = f'{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {metadata}}}'
    rendering = render(write(tmp_path / "c", chart_of({"templates/a.yaml": manifest})), tmp_path)
    assert (rendering.objects, len(rendering.hooks), rendering.warnings) == ([], 1, ())


def test_a_chart_that_asks_for_a_group_whose_kinds_are_not_known_is_not_rendered(tmp_path: Path) -> None:
    def capabilities(group: str) -> Capabilities:
        return Capabilities(kubernetes_version="v1.36.3", unknown=frozenset({group}))

    with pytest.raises(BundleError, match=r"shop\.example\.com") as caught:
        render(SHOP, tmp_path, capabilities=capabilities("shop.example.com"))
    assert caught.value.reason is Reason.API_UNAVAILABLE
    assert settings_of(render(SHOP, tmp_path, capabilities=capabilities("other.example.com")))["widget"] == "false"


def test_many_kinds_fit_the_arguments(tmp_path: Path) -> None:
    kinds = {
        (f"group{index}.a-rather-long-domain.example.com", "v1alpha1", f"Kind{index}"): True for index in range(5000)
    }
    kinds["shop.example.com", "v1", "Widget"] = True
    many = Capabilities(kubernetes_version="v1.36.3", kinds=kinds)
    assert settings_of(render(SHOP, tmp_path, capabilities=many))["widget"] == "true"


def test_the_default_namespace_is_that_of_helm() -> None:
    from rukpak.api.plugins import ContentTree  # noqa: PLC0415 - for this test alone

    assert FORMAT.suggest_namespace(ContentTree(root=SHOP, destinations=("",)), {}) == "default"


CORPUS = Path(os.environ.get("RUKPAK_CORPUS", "/nonexistent")) / "helm"


@pytest.mark.parametrize("chart", [path.parent for path in sorted(CORPUS.glob("*/Chart.yaml"))], ids=attrgetter("name"))
def test_a_real_chart_renders_the_same_twice(chart: Path, tmp_path: Path) -> None:
    first, second = render(chart, tmp_path), render(chart, tmp_path)
    assert first.objects
    assert first == second


COLOR = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {color: '{{ .Values.color }}'}\n"


def test_a_name_with_a_comma_reads_no_other_file(tmp_path: Path) -> None:
    """Helm reads `x,/etc/passwd` as two files, the second of which is not in the content."""
    (tmp_path / "kubeconfig").write_text("color: canary")
    name = f"x,{tmp_path}/kubeconfig"
    files = {**chart_of({"templates/a.yaml": COLOR}), name: b"color: red", "x": b"color: green"}
    rendering = render(write(tmp_path / "tree", files), tmp_path, config={"valuesFiles": [name]})
    assert rendering.objects[0]["data"] == {"color": "red"}


def test_whatever_a_file_of_values_is_called(tmp_path: Path) -> None:
    called = ["-", "--post-renderer", "https://127.0.0.1:1/x", "oci:", "a b", "{a,b}", "*.yaml", "ä"]
    template = COLOR.replace("{color: '{{ .Values.color }}'}", "{{ toJson .Values }}")
    values = {name: f"v{number}: red".encode() for number, name in enumerate(called)}
    root = write(tmp_path / "tree", {**chart_of({"templates/a.yaml": template}), **values})
    rendering = render(root, tmp_path, config={"valuesFiles": called})
    assert rendering.objects[0]["data"] == {f"v{number}": "red" for number in range(len(called))}


class Listed(NamedTuple):
    files: tuple[str, ...]
    config: dict[str, Any]
    expect: list[str]


LISTED = {
    "a pattern, in the order of names": Listed(
        ("values-b.yaml", "values-a.yaml", "values-10.yaml", "values.yml", "more/values-c.yaml"),
        {"valuesFiles": ["values-*.yaml"]},
        ["values-10.yaml", "values-a.yaml", "values-b.yaml"],
    ),
    "a file before and one after": Listed(
        ("a.yaml", "b-1.yaml", "b-2.yaml", "z.yaml"),
        {"valuesFiles": ["z.yaml", "b-?.yaml", "a.yaml"]},
        ["z.yaml", "b-1.yaml", "b-2.yaml", "a.yaml"],
    ),
    "a pattern of folders": Listed(
        ("eu/v.yaml", "us/v.yaml", "us/deep/v.yaml", ".git/v.yaml"),
        {"valuesFiles": ["*/v.yaml"]},
        ["eu/v.yaml", "us/v.yaml"],
    ),
    "a set of characters": Listed(
        ("v-a.yaml", "v-b.yaml", "v-c.yaml"), {"valuesFiles": ["v-[ab].yaml"]}, ["v-a.yaml", "v-b.yaml"]
    ),
    "a name with a bracket that exists": Listed(
        ("v-[ab].yaml", "v-a.yaml"), {"valuesFiles": ["v-[ab].yaml"]}, ["v-[ab].yaml"]
    ),
    "a folder that a pattern matches": Listed(("v-a/x", "v-b"), {"valuesFiles": ["v-*"]}, ["v-b"]),
    "missing ones that may be": Listed(
        ("b.yaml",),
        {"valuesFiles": ["a.yaml", "a-*.yaml", "b.yaml"], "ignoreMissingValuesFiles": True},
        ["b.yaml"],
    ),
}


@pytest.mark.parametrize("case", LISTED)
def test_files_of_values_are_read_in_order(case: str, tmp_path: Path) -> None:
    files, config, expect = LISTED[case]
    root = write(tmp_path / "tree", dict.fromkeys(files, b"a: 1"))
    assert [name for _, name in name_values_files(root, read_configuration(config))] == expect


def test_of_several_files_of_values_the_last_one_wins(tmp_path: Path) -> None:
    values = {f"values-{color}.yaml": f"color: {color}".encode() for color in ("red", "blue", "green")}
    root = write(tmp_path / "tree", {**chart_of({"templates/a.yaml": COLOR}), **values})
    rendering = render(root, tmp_path, config={"valuesFiles": ["values-*.yaml"]})
    assert rendering.objects[0]["data"] == {"color": "red"}


def test_a_pattern_that_matches_too_much_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "tree", {f"{number}.yaml": b"a: 1" for number in range(MATCHES + 1)})
    with pytest.raises(BundleError, match="matches more than 256 files"):
        name_values_files(root, read_configuration({"valuesFiles": ["*.yaml"]}))


def test_whatever_the_folder_of_the_content_store_is_called(tmp_path: Path) -> None:
    files = {**chart_of({"templates/a.yaml": COLOR}), "v.yaml": b"color: red"}
    root = write(tmp_path / "a, -b" / "tree", files)
    assert render(root, tmp_path / "a, -b", config={"valuesFiles": ["v.yaml"]}).objects[0]["data"] == {"color": "red"}


def test_kinds_that_helm_would_misread_are_left_out(tmp_path: Path) -> None:
    kinds = {("x.example.com", "v1", 'A"'): True, ("x.example.com", "v1", "B,forged/v1"): True}
    template = COLOR.replace("{{ .Values.color }}", '{{ .Capabilities.APIVersions.Has "forged/v1" }}')
    root = write(tmp_path / "tree", chart_of({"templates/a.yaml": template}))
    capabilities = Capabilities(kubernetes_version="v1.36.3", kinds=kinds)
    assert render(root, tmp_path, capabilities=capabilities).objects[0]["data"] == {"color": "false"}


HAS = '{{ .Capabilities.APIVersions.Has "down.example.com/v1" }}'
INDIRECT = "{{ .Capabilities.APIVersions.Has .Values.api }}"


class Chart(NamedTuple):
    name: str
    files: Mapping[str, str]
    asks: bool = False
    values: bytes = b"{}"


CASES = [
    Chart("one that asks nothing", {"templates/a.yaml": "kind: ConfigMap"}),
    Chart("one that names the group, but asks nothing", {"templates/a.yaml": "apiGroups: [down.example.com]"}),
    Chart("one that asks for another group", {"templates/a.yaml": HAS.replace("down", "up")}),
    Chart("one that asks for it", {"templates/a.yaml": HAS}, asks=True),
    Chart("a dependency that asks for it", {"charts/b-1.0.0.unpacked/templates/_b.tpl": HAS}, asks=True),
    Chart("a name from the default values",
          {"templates/a.yaml": INDIRECT, "values.yaml": "api: down.example.com/v1"}, asks=True),
    Chart("a name from the values of the user", {"templates/a.yaml": INDIRECT}, asks=True,
          values=b'{"api": "down.example.com/v1"}'),
    Chart("one that goes through the list", {"templates/a.yaml": "{{ range .Capabilities.APIVersions }}"}, asks=True),
    Chart("a CRD is no template", {"crds/a.yaml": HAS, "templates/a.yaml": ""}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_charts_wait(case: Chart, tmp_path: Path) -> None:
    for name, text in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    refused = None
    try:
        refuse_unknown_groups(tmp_path, [case.values], {"down.example.com"}, "c")
    except BundleError as error:
        refused = error
    assert (refused is not None) is case.asks
    refuse_unknown_groups(tmp_path, [case.values], (), "c")


def test_the_message_names_chart_and_groups(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{{ range .Capabilities.APIVersions }}")
    with pytest.raises(BundleError) as caught:
        refuse_unknown_groups(tmp_path, [], {"b.io", "a.io"}, "charts/c")
    assert caught.value.reason is Reason.API_UNAVAILABLE
    assert caught.value.message == (
        '"charts/c": asks for API group "a.io", "b.io", whose kinds are not known because its discovery fails; '
        "repair or delete its APIService"
    )


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
FILE = 'data: {x: {{ .Files.Get "dashboards/NAME.json" | quote }}}\n'
DEFINITION = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Foo, plural: foos}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""
INNER = chart_of(
    {
        "templates/test-secret.yaml": CONFIG_MAP.replace("NAME", "inner-secret"),
        "templates/board.yaml": CONFIG_MAP.replace("NAME", "board") + FILE.replace("NAME", "x"),
        "templates/_helpers.tpl": '{{ define "d.x" }}x{{ end }}',
        "dashboards/x.json": "{}",
        "crds/foo.yaml": DEFINITION,
    },
    name="d",
)
OUTER = chart_of(
    {
        "templates/own.yaml": CONFIG_MAP.replace("NAME", "own") + FILE.replace("NAME", "own"),
        "templates/test-own.yaml": CONFIG_MAP.replace("NAME", "own-secret"),
        "dashboards/own.json": "{}",
    },
    more="dependencies: [{name: d, version: 1.0.0}]\n",
)  # fmt: skip
RULES = ["test-*", "dashboards/", "/charts/d/templates", "_helpers.tpl"]
"""Each in another way."""
MORE_RULES = [
    "", "test-*\n", "dashboards", "d", "d/", "charts/d", "*.json", "crds/", "crds", "!*.txt", "!charts", "templates/*",
    "*.yaml", "# test-*", "d-2.*", "Chart.lock",
]  # fmt: skip


def as_chart(archive: bytes, tmp_path: Path) -> Iterator[Entry]:
    return read_chart(
        io.BytesIO(archive),
        Access(path="content", deadline=time.monotonic() + 250, cancelled=threading.Event(), scratch=tmp_path),
    )


def as_body(archive: bytes, strip: int) -> Iterator[Entry]:
    return read_body(io.BytesIO(archive), len(archive), "c-1.0.0.tgz", strip, Limits())


def as_file(archive: bytes) -> Iterator[Entry]:
    yield Entry(path="c-1.0.0.tgz", size=len(archive), data=io.BytesIO(archive))


WAYS: dict[str, Callable[[bytes, Path], Iterator[Entry]]] = {
    "a chart of a repository or registry": as_chart,
    "an archive over http, at configMap and on the command line": lambda archive, _: as_body(archive, 0),
    "an archive over http without its folder": lambda archive, _: as_body(archive, 1),
    "a file in an image, in git or in a folder": lambda archive, _: as_file(archive),
}


def names_and_data(documents: Iterable[Any]) -> list[tuple[str, str, Any]]:
    return sorted((each["kind"], each["metadata"]["name"], json.dumps(each.get("data"))) for each in documents if each)


def helm(folder: Path, *arguments: str) -> str:
    done = subprocess.run([packaged_helm(), *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def template(folder: Path, chart: str) -> list[tuple[str, str, Any]]:
    output = helm(folder, "template", "web", chart, "--include-crds")
    return names_and_data([each.value for each in read_documents(output.encode(), "output", strict=False)])


@pytest.mark.thorough
@pytest.mark.parametrize(("rules", "way"), [*zip(MORE_RULES, cycle(WAYS), strict=False)], ids=str)
def test_by_no_rule_a_packaged_chart_is_rendered_otherwise(rules: str, way: str, tmp_path: Path) -> None:
    test_a_packaged_chart_is_rendered_as_helm_renders_it(rules, way, tmp_path)


@pytest.mark.parametrize(("rules", "way"), [*zip(RULES, WAYS, strict=True)], ids=str)
def test_a_packaged_chart_is_rendered_as_helm_renders_it(rules: str, way: str, tmp_path: Path) -> None:
    inner = {path.replace("d/", "c/charts/d/", 1): data for path, data in INNER.items()}
    archive = pack({**OUTER, "c/.helmignore": rules.encode(), **inner})
    write(tmp_path, {"c-1.0.0.tgz": archive})
    folder = tmp_path / "content"
    folder.mkdir()
    write_entries(WAYS[way](archive, tmp_path), folder, Limits(), "content")
    rendering = render(folder, tmp_path / "scratch")
    found = names_and_data([*rendering.objects, *(hook.manifest for hook in rendering.hooks)])
    assert found == template(tmp_path, "c-1.0.0.tgz")


UNREAD: list[tuple[str, Value]] = [
    ("c/LICENSE", Link("../../LICENSE")), ("c/docs/x", Link("/etc/hostname")),
    ("c/dev", Special(tarfile.CHRTYPE)), ("c/fifo", Special(tarfile.FIFOTYPE)), ("c/docs/a\udcff", b"1"),
    ("c/charts/d/README.md", Link("../../../x")),
]  # fmt: skip


def test_what_nothing_reads_of_a_packaged_chart_is_left_out_as_by_helm(tmp_path: Path) -> None:
    """Helm takes links and devices for empty files; nothing that it renders depends on these."""
    inner = {path.replace("d/", "c/charts/d/", 1): data for path, data in chart_of({}, name="d").items()}
    own = chart_of({"templates/own.yaml": CONFIG_MAP.replace("NAME", "own")})
    archive = gzip.compress(tarball(*own.items(), *inner.items(), *UNREAD))
    write(tmp_path, {"c-1.0.0.tgz": archive})
    wanted = template(tmp_path, "c-1.0.0.tgz")
    assert wanted
    for way, entries in WAYS.items():
        folder = tmp_path / way
        folder.mkdir()
        refused = write_entries(entries(archive, tmp_path), folder, Limits(), "content", records=True)
        rendering = render(folder, tmp_path / "scratch", refused=refused)
        assert names_and_data(rendering.objects) == wanted, way


@pytest.mark.repeats
@pytest.mark.parametrize("rules", ["dashboards/", "test-*", "d"])
def test_to_a_folder_the_rules_apply(rules: str, tmp_path: Path) -> None:
    inner = {path.replace("d/", "c/charts/d/", 1): data for path, data in INNER.items()}
    source = write(tmp_path / "source", {**OUTER, **inner, "c/.helmignore": rules.encode()})
    wanted = run_template(source)
    files = files_of(source)
    layer = read_tar(io.BytesIO(tarball(*files.items())), Limits())
    ways = {
        "a folder": read_folder(source),
        "deeper in an archive": as_body(pack({f"repository/{path}": data for path, data in files.items()}), 1),
        "with a second folder": as_body(pack({**files, "x/y": b""}), 0),
        "layers of an image": strip_components(layer, 0, Limits()),
    }  # fmt: skip
    for way, entries in ways.items():
        folder = tmp_path / way
        folder.mkdir()
        write_entries(entries, folder, Limits(), "content")
        if isinstance(wanted, str):
            continue
        rendering = render(folder, tmp_path / "scratch")
        assert names_and_data(list(rendering.objects)) == wanted, way


def run_template(source: Path) -> list[tuple[str, str, Any]] | str:
    """Return what Helm renders, or what it says if it does not."""
    try:
        return template(source, "c")
    except subprocess.CalledProcessError as error:
        return str(error.stderr)


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("color: red\ncolor: blue\n", 2, "color"),
        ("a: {b: 1, b: 2}\ncolor: blue\n", 1, "b"),
        ('{"color": "red",\n"color": "blue"}\n', 1, "color"),
    ],
)
def test_of_a_key_that_a_values_file_has_twice_the_last_one_counts_with_a_warning(
    text: str, line: int, key: str, tmp_path: Path
) -> None:
    template = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {color: {{ .Values.color }}}\n"
    content = {"chart/templates/a.yaml": template, "chart/Chart.yaml": b"apiVersion: v2\nname: c\nversion: 1.0.0\n"}
    tree = write(tmp_path / "tree", {**content, "more.yaml": text.encode(), "fine.yaml": b"a: 1\n"})
    made = render(tree, tmp_path, "chart", config={"valuesFiles": ["fine.yaml", "more.yaml"]})
    assert settings_of(made)["color"] == "blue"
    assert list(made.warnings) == [f'spec.config.valuesFiles[1]: more.yaml:{line}: duplicate key "{key}"; remove one']


def test_a_values_file_that_could_not_be_decrypted_is_refused_where_it_is_named(tmp_path: Path) -> None:
    """Another one beside it is nobody's matter."""
    content = {
        "chart/Chart.yaml": b"apiVersion: v2\nname: c\nversion: 1.0.0\n",
        "eu.yaml": b"a: 1\n",
        "us.yaml": b"a: 1\n",
    }
    root = write(tmp_path / "tree", content)
    unprepared = {"us.yaml": Refusal(problem="for another key", reason=Reason.INVALID_CONFIG)}
    render(root, tmp_path, "chart", config={"valuesFiles": ["eu.yaml"]}, unprepared=unprepared)
    with pytest.raises(BundleError, match=r"spec.config.valuesFiles\[0\]: for another key"):
        render(root, tmp_path, "chart", config={"valuesFiles": ["us.yaml"]}, unprepared=unprepared)


@pytest.mark.parametrize(("folder", "place"), [("", "values.yaml"), ("chart/", "chart")])
def test_values_of_a_chart_that_could_not_be_decrypted_are_refused(folder: str, place: str, tmp_path: Path) -> None:
    files = {"Chart.yaml": b"apiVersion: v2\nname: c\nversion: 1.0.0\n", "values.yaml": b"a: 1\n"}
    root = write(tmp_path / "tree", {f"{folder}{name}": text for name, text in files.items()})
    unprepared = {f"{folder}values.yaml": Refusal(problem="for another key", reason=Reason.INVALID_CONFIG)}
    with pytest.raises(BundleError, match=f"^InvalidConfig: {place}: for another key"):
        render(root, tmp_path, unprepared=unprepared)


def _hook_of(metadata: str, text: str = "") -> bytes:
    about = f"{{{metadata}, annotations: {{helm.sh/hook: pre-install}}}}"
    lines = ["---", "# Source: c/templates/a.yaml", "apiVersion: v1", "kind: ConfigMap", f"metadata: {about}", text, ""]
    return "\n".join(lines).encode()


def _names_of_hooks(output: bytes) -> list[str]:
    rendering = read_output(output, TextBudget(Limits()), skip_tests=True)
    return [hook.manifest["metadata"]["name"] for hook in rendering.hooks]


def test_a_hook_that_has_only_a_base_is_named_after_what_is_rendered() -> None:
    [name] = _names_of_hooks(_hook_of("generateName: prep-"))
    assert re.fullmatch(r"prep-[0-9a-f]{10}", name)
    assert _names_of_hooks(_hook_of("generateName: prep-")) == [name]
    assert _names_of_hooks(_hook_of("generateName: prep-", "data: {a: b}\n")) != [name]
    assert len(set(_names_of_hooks(_hook_of("generateName: prep-") * 2))) == 2


def test_a_hook_with_a_name_keeps_it_and_a_long_base_is_cut() -> None:
    assert _names_of_hooks(_hook_of("name: own, generateName: prep-")) == ["own"]
    [name] = _names_of_hooks(_hook_of(f"generateName: {'a' * 100}"))
    assert len(name) == 63
