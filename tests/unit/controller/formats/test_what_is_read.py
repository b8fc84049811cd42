"""What each format reads of a tree: what must not be read is refused there, and left out everywhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Means, Refusal, RenderRequest
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.building import rendering
from rukpak.controller.building.rendering import Task, render
from tests.support.archives import Link, Special, Value, tarball
from tests.support.charts import CAPABILITIES, chart_of, pack, write
from tests.support.operator_bundles import service_version, write_bundle

MANIFEST = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
OTHER = MANIFEST.replace(b"a}", b"b}")
DEVICE = Special(b"3")


@dataclass(frozen=True)
class Case:
    name: str
    files: Mapping[str, bytes]
    read: tuple[str, ...]
    """Paths at which something is refused, each of which refuses the tree."""
    left_out: tuple[str, ...]
    """Paths at which it does not, all of them together."""
    format: str = "plain"
    destinations: tuple[str, ...] = ("",)
    config: Mapping[str, Any] = field(default_factory=dict)


PLAIN = {"manifests/a.yaml": MANIFEST}
FLAT = {"a.yaml": MANIFEST}
CHART = {"Chart.yaml": chart_of({})["c/Chart.yaml"], "templates/a.yaml": MANIFEST}
BUNDLE = {"README.txt": b""}  # and what `write_bundle` writes
USUAL = ("dev/console", "run/initctl", "usr/systemd/a\\x2db.swap", "a\udcff", "etc/mtab", "large.bin", "README.md")


def within(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names)


# fmt: off
CASES = [
    Case("plain manifests in their folder", PLAIN,
         ("manifests", "manifests/b.yaml", "manifests/b.yml", "manifests/c.json", "manifests/d/e.yaml",
          "manifests/null", "manifests/README.md", "manifests/.b", "manifests/d", "manifests/a\\b", "metadata",
          "metadata/annotations.yaml"),
         (*USUAL, "b.yaml", "Chart.yaml", "tests/b.yaml", "metadata/other.yaml", "manifests.yaml", "charts/d.tgz")),
    Case("plain manifests at the top", FLAT,
         ("manifests", "b.yaml", "d/e.yaml", "a\\b/c.yaml", "metadata/annotations.yaml", "Chart.yaml"),
         (*USUAL, ".b.yaml", ".github/ci.yaml", "d/e.md", "charts/d.tgz")),
    Case("plain manifests in a destination", {"x/manifests/a.yaml": MANIFEST, "y/b.yaml": OTHER},
         ("x", "x/manifests", "x/manifests/b.yaml", "y", "y/c.yaml", "y/Chart.yaml", "y/manifests"),
         (*USUAL, "manifests", "manifests/b.yaml", "b.yaml", "x/b.yaml", "x/README.md", "y/README.md", "z/b.yaml"),
         destinations=("x", "y")),
    Case("a destination within manifests is read on its own",
         {**PLAIN, "manifests/x/manifests/b.yaml": OTHER},
         ("manifests/x", "manifests/x/manifests/c", "manifests/c", "manifests/z/c.yaml"),
         ("manifests/x/c.yaml", "manifests/x/y/c.yaml"), destinations=("", "manifests/x")),
    Case("an OLM bundle", BUNDLE,
         ("manifests/b.yaml", "manifests/README.md", "manifests/.b", "manifests/d", "manifests/a\\b", "metadata",
          "metadata/properties.yaml", "metadata/dependencies.yaml"),
         (*USUAL, "b.yaml", "tests/scorecard/config.yaml", "metadata/other.yaml", "Chart.yaml", "c.tgz", "manifests.a"),
         "registry-v1"),
    Case("an OLM bundle in a destination", {f"x/{path}": data for path, data in BUNDLE.items()},
         ("x", "x/manifests/b", "x/metadata", "manifests", "metadata/annotations.yaml"),
         (*USUAL, "x/tests/a.yaml", "y/manifests", "manifests/a", "metadata/properties.yaml"), "registry-v1", ("x",)),
    Case("a chart", CHART,
         ("Chart.lock", "requirements.yaml", "requirements.lock", "values.yaml", "values.schema.json",
          "templates/b.yaml", "templates/README.md", "templates", "crds", "crds/a.yaml", "charts", "charts/d",
          "charts/d/Chart.yaml", "charts/d/templates/x", "charts/d/charts/e/values.yaml", "charts/d.tgz",
          ".helmignore"),
         (*USUAL, "docs/x", "ci/values.yaml", "files/x", "charts/.d", "charts/_d/Chart.yaml", "charts/d/README.md",
          "charts/d/charts/e/docs/x", "x/Chart.yaml", "c.tgz", "x/templates/a.yaml"), "helm"),
    Case("a chart in a folder", {f"x/{path}": data for path, data in CHART.items()},
         ("x/values.yaml", "x/templates/b.yaml", "y/Chart.yaml", "Chart.yaml"),
         (*USUAL, "values.yaml", "templates/b.yaml", "y/values.yaml", "c.tgz", "y/c.tar.gz", "x/README.md", "y"),
         "helm"),
    Case("a chart whose templates read files", {**CHART, "templates/b.yaml": b'# {{ .Files.Get "x" }}\n'},
         ("docs/x", "README.md", "charts/d/README.md", "a\\b"), (), "helm"),
    Case("a chart whose templates get at files in another way",
         {**CHART, "templates/b.yaml": b'# {{ get . "Files" }}\n'}, ("docs/x",), (), "helm"),
    Case("a chart whose values read files", {**CHART, "values.yaml": b'x: "{{ .Files.Get `x` }}"\n'}, ("docs/x",), (),
         "helm"),
    Case("a chart in a folder whose templates read files",
         {f"x/{path}": data for path, data in {**CHART, "templates/b.yaml": b"# {{ .Files.Lines }}\n"}.items()
          if path != "templates/b.yaml"} | {"x/templates/b.yaml": b'# {{ .Files.Glob "x" }}\n'},
         ("x/docs/x",), (*USUAL, "docs/x"), "helm"),
    Case("a chart that only writes about files", {**CHART, "README.md": b"Files", "NOTES.md": b".Files.Get"}, (), USUAL,
         "helm"),
    Case("values that read files", CHART, ("docs/x",), (), "helm", config={"values": {"x": '{{ .Files.Get "x" }}'}}),
    Case("values files", {**CHART, "v.yaml": b"", "x/v.yaml": b""}, ("v.yaml", "x/v.yaml", "x"), USUAL, "helm",
         config={"valuesFiles": ["v.yaml", "x/v.yaml"]}),
    Case("values files that a pattern matches", {**CHART, "v-a.yaml": b"", "x/v-b.yaml": b""},
         ("v-a.yaml", "v-c.yaml", "x/v-b.yaml", "x", "x/v-a.yaml"), (*USUAL, "w.yaml", "x/y/v-a.yaml", ".git/v-a.yaml"),
         "helm", config={"valuesFiles": ["v-*.yaml", "x*/v-*.yaml"]}),
    Case("what a chart ignores", {**CHART, ".helmignore": b"docs/\n*.lock\n", "templates/b.yaml": b"# {{ .Files }}\n"},
         ("values.yaml", "README.md"), ("docs/x", "docs/y/z", "Chart.lock", "x/y.lock"), "helm"),
    Case("a packed chart", {"c.tgz": pack(chart_of({"templates/a.yaml": MANIFEST.decode()}))}, ("Chart.yaml",),
         (*USUAL, "d.tgz", "values.yaml"), "helm"),
]
# fmt: on


def request(case: Case, tmp_path: Path, *refused: str) -> RenderRequest:
    root = write(tmp_path / "tree", case.files)
    for destination in case.destinations if case.format == "registry-v1" else ():
        write_bundle(root / destination, service_version())
    (tmp_path / "scratch").mkdir(exist_ok=True)
    refusals = {
        path: Refusal(problem=f"spec.sources[0]: {path!r}", reason=Reason.UNSUPPORTED_CONTENT) for path in refused
    }
    return RenderRequest(
        name="b",
        install_namespace="n",
        tree=ContentTree(root=root, destinations=case.destinations, refused=refusals),
        config=case.config,
        capabilities=CAPABILITIES,
        means=Means(scratch=tmp_path / "scratch"),
    )


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_no_format_reads_is_left_out(case: Case, tmp_path: Path) -> None:
    made = render(Task(case.format, request(case, tmp_path, *case.left_out)))
    (tmp_path / "again").mkdir()
    assert made == render(Task(case.format, request(case, tmp_path / "again")))


@pytest.mark.parametrize(
    ("case", "path"),
    [(case, path) for case in CASES for path in case.read],
    ids=lambda each: getattr(each, "name", each),
)
def test_what_a_format_reads_is_refused(case: Case, path: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        render(Task(case.format, request(case, tmp_path, path, *case.left_out)))
    assert (caught.value.reason, caught.value.message) == (Reason.UNSUPPORTED_CONTENT, f"spec.sources[0]: {path!r}")


NOTHING = [
    (Case("no manifests", {"x.md": b""}, (), ()), "no objects in the .yaml, .yml and .json files"),
    (Case("no bundle", {"x.md": b""}, (), (), "registry-v1", ()), "no registry-v1 bundle found"),
    (Case("no chart", {"x.md": b""}, (), (), "helm"), "no chart found"),
]


@pytest.mark.parametrize(("case", "told"), NOTHING, ids=lambda each: getattr(each, "name", ""))
@pytest.mark.parametrize(
    ("paths", "left"),
    [(["y"], "an entry that cannot be used was left out"), (["y", "z"], "2 entries that cannot be used were left out")],
)
def test_what_was_left_out_is_named_if_nothing_is_found(
    case: Case, told: str, paths: list[str], left: str, tmp_path: Path
) -> None:
    with pytest.raises(BundleError) as caught:
        render(Task(case.format, request(case, tmp_path, *paths)))
    assert caught.value.reason is Reason.NO_CONTENT
    assert caught.value.message.startswith(told)
    assert caught.value.message.endswith(f"; {left}: spec.sources[0]: 'y'")


def test_an_archive_of_a_chart_that_must_not_be_read_is_refused_if_there_is_no_other(tmp_path: Path) -> None:
    for path in ("c.tgz", "x/c.tar.gz"):
        with pytest.raises(BundleError, match=re.escape(path)):
            render(Task("helm", request(Case("none", {"x.md": b""}, (), (), "helm"), tmp_path, path, "a.bin")))


class OutOfTree:
    """A format that does not say what it reads."""

    def render(self, request: RenderRequest) -> Any:  # pragma: no cover - it must not be called
        raise AssertionError


def test_a_format_that_does_not_say_what_it_reads_reads_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "format_of", lambda _: OutOfTree())
    with pytest.raises(BundleError, match=r"README\.md"):
        render(Task("example.com/format", request(Case("any", PLAIN, (), ()), tmp_path, "README.md")))


# packed charts


def packed(*items: tuple[str, Value], line: str = "") -> bytes:
    return tarball(*chart_of({"templates/a.yaml": f"{MANIFEST.decode()}{line}"}).items(), *items)


DEPENDENCY = tarball(*chart_of({}, "d").items(), ("d/docs/x", Link("../../../x")), ("d/dev", DEVICE), ("d/a\\b", b""))
# fmt: off
USED: list[tuple[str, str, Value, str]] = [
    ("a template that is a link", "c/templates/b.yaml", Link("../../x"), 'entry "c/templates/b.yaml" is a link'),
    ("values that are a link inside", "c/values.yaml", Link("Chart.yaml"), 'entry "c/values.yaml" is a link'),
    ("a template that is a device", "c/templates/b", DEVICE, 'entry "c/templates/b" is a character device'),
    ("a dependency that is a link", "c/charts/d.tgz", Link("../../x"), 'entry "c/charts/d.tgz" is a link'),
    ("a template of a dependency", "c/charts/d.tgz", tarball(("d/Chart.yaml", b""), ("d/templates/x", DEVICE)),
     '"charts/d.tgz": entry "d/templates/x" is a character device'),
]
# fmt: on


@pytest.mark.parametrize(("path", "value", "told"), [case[1:] for case in USED], ids=[case[0] for case in USED])
def test_what_helm_reads_of_a_packed_chart_is_refused(path: str, value: Value, told: str, tmp_path: Path) -> None:
    case = Case("packed", {"c.tgz": packed((path, value))}, (), (), "helm")
    with pytest.raises(BundleError) as caught:
        render(Task("helm", request(case, tmp_path)))
    assert caught.value.reason is Reason.INVALID_BUNDLE
    assert caught.value.message.startswith(f'"c.tgz": {told}; ')


UNUSED: list[tuple[str, Value]] = [
    ("c/docs/x", Link("../../../x")), ("c/docs/y", Link("x")), ("c/LICENSE", Link("c/Chart.yaml", hard=True)),
    ("c/dev", DEVICE), ("c/docs/a\\b", b"1"), ("c/docs/a\udcff", b"1"), ("c/charts/d.tgz", DEPENDENCY),
]  # fmt: skip


@pytest.mark.parametrize("item", UNUSED, ids=lambda item: item[0])
def test_what_helm_does_not_read_of_a_packed_chart_is_left_out(item: tuple[str, Value], tmp_path: Path) -> None:
    case = Case("packed", {"c.tgz": packed(item)}, (), (), "helm")
    assert render(Task("helm", request(case, tmp_path))).warnings == ()
    case = Case("packed", {"c.tgz": packed(item, line='x: {{ .Files.Get "docs/x" | quote }}')}, (), (), "helm")
    with pytest.raises(BundleError) as caught:
        render(Task("helm", request(case, tmp_path / "again")))
    assert caught.value.reason is Reason.INVALID_BUNDLE
