"""Which chart is rendered, and which of its files Helm gets."""

from __future__ import annotations

import json
import os
import tarfile
import time
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import ContentTree, Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.helm.chart import Chart, find_chart, gather_chart, read_rules, refuse_foreign_references
from tests.support.archives import Link, Special, tarball
from tests.support.charts import chart_of, files_of, pack, write

PACKED = pack(chart_of({}))
YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def find(root: Path, *destinations: str) -> Chart:
    return find_chart(ContentTree(root=root, destinations=destinations or ("",)), Limits())


def gather(root: Path, tmp_path: Path, chart: Chart, limits: Limits | None = None) -> dict[str, bytes]:
    for refusal in gather_chart(root, chart, tmp_path / "gathered", limits or Limits()).values():
        raise BundleError(refusal.reason, refusal.problem)
    return files_of(tmp_path / "gathered")


@dataclass(frozen=True)
class Found:
    name: str
    files: dict[str, bytes]
    path: str
    destinations: tuple[str, ...] = ("",)


# fmt: off
FOUND = [
    Found("a chart at the root", {"Chart.yaml": b""}, ""),
    Found("a chart anywhere", {"a/b/Chart.yaml": b"", "README.md": b""}, "a/b"),
    Found("an archive", {"c-1.0.0.tgz": PACKED}, "c-1.0.0.tgz"),
    Found("an archive anywhere", {"a/c.tgz": PACKED}, "a/c.tgz"),
    Found("an archive with the other suffix", {"a/c.tar.gz": PACKED}, "a/c.tar.gz"),
    Found("beside another archive of something else", {"a/Chart.yaml": b"", "x.tar.gz": pack({"x/y": b""})}, "a"),
    Found("beside an archive of something else", {"a/Chart.yaml": b"", "x.tgz": pack({"x/y": b""})}, "a"),
    Found("beside a damaged archive", {"a/Chart.yaml": b"", "x.tgz": b"x"}, "a"),
    Found("charts in a chart are a part of it", {"Chart.yaml": b"", "charts/d/Chart.yaml": b"", "x/Chart.yaml": b""},
         ""),
    Found("so are archives", {"c/Chart.yaml": b"", "c/charts/d.tgz": PACKED}, "c"),
    Found("so is a dependency that another source brings", {"Chart.yaml": b"", "charts/d/Chart.yaml": b""}, "",
         ("", "charts/d")),
]
# fmt: on


@pytest.mark.parametrize("case", FOUND, ids=attrgetter("name"))
def test_the_chart_is_found(case: Found, tmp_path: Path) -> None:
    assert find(write(tmp_path, case.files), *case.destinations).path == case.path


@dataclass(frozen=True)
class Missed:
    name: str
    files: dict[str, bytes]
    reason: Reason
    message: str
    destinations: tuple[str, ...] = ("",)


NONE = "no chart found: neither a directory with Chart.yaml nor a .tgz or .tar.gz archive of one"
# fmt: off
MISSED = [
    Missed("two charts", {"a/Chart.yaml": b"", "b/Chart.yaml": b""}, Reason.INVALID_BUNDLE,
         'found 2 charts: "a", "b";'),
    Missed("a chart and an archive", {"a/Chart.yaml": b"", "c.tgz": PACKED}, Reason.INVALID_BUNDLE, '"c.tgz", "a"'),
    Missed("many charts", {f"{n}/Chart.yaml": b"" for n in range(9)}, Reason.INVALID_BUNDLE, '"4" and 4 more;'),
    Missed("two charts of two sources, one below the other", {"Chart.yaml": b"", "other/Chart.yaml": b""},
         Reason.INVALID_BUNDLE, '".", "other"', ("", "other")),
    Missed("nothing", {}, Reason.NO_CONTENT, f"{NONE}; add the chart, or correct the directory"),
    Missed("plain manifests", {"x/manifests/a.yaml": YAML}, Reason.NO_CONTENT,
         f'{NONE}; found "x/manifests/a.yaml", which looks like plain manifests: set spec.format to "plain"'),
    Missed("package manifests of an operator",
         {"etcd.package.yaml": b"packageName: a\nchannels: [{currentCSV: b}]", "0.9.2/csv.yaml": YAML},
         Reason.NO_CONTENT, f'{NONE}; found "etcd.package.yaml", the package manifest of an operator'),
    Missed("an imgpkg bundle", {".imgpkg/images.yml": b"kind: ImagesLock", "config/a.yml": YAML}, Reason.NO_CONTENT,
         f'{NONE}; found ".imgpkg/images.yml", which belongs to an imgpkg bundle: render its files with ytt and'),
    Missed(
        "an operator bundle",
        {"manifests/a.yaml": YAML, "metadata/annotations.yaml": b"a: registry+v1"},
        Reason.NO_CONTENT,
        f'{NONE}; found "metadata/annotations.yaml", which looks like a registry-v1 bundle: '
        'set spec.format to "registry-v1"',
    ),
]
# fmt: on


@pytest.mark.parametrize("case", MISSED, ids=attrgetter("name"))
def test_no_chart_or_several_are_refused(case: Missed, tmp_path: Path) -> None:
    with pytest.raises(BundleError) as raised:
        find(write(tmp_path, case.files), *case.destinations)
    assert raised.value.reason is case.reason
    assert case.message in raised.value.message


# files that Helm gets


def test_helm_gets_all_files_of_a_chart(tmp_path: Path) -> None:
    files = {"Chart.yaml": b"x", ".helmignore": b"y", "templates/a.yaml": b"{{ }}", "files/charts/kept.tgz": PACKED}
    assert gather(write(tmp_path / "tree", files), tmp_path, Chart("")) == files


def test_helm_gets_all_files_of_an_archive(tmp_path: Path) -> None:
    archive = pack({"./c/Chart.yaml": b"x", "c/.helmignore": b"*", "c/templates/.helmignore": b"z"})
    root = write(tmp_path / "tree", {"c.tgz": archive})
    expected = {"Chart.yaml": b"x", "templates/.helmignore": b"z"}
    assert gather(root, tmp_path, Chart("c.tgz", is_packed=True)) == expected


def test_packaged_dependencies_that_are_ignored_are_left_out(tmp_path: Path) -> None:
    kept = {"Chart.yaml": b"x", ".helmignore": b"# not these\ncharts/old-*.tgz\n", "charts/d/Chart.yaml": b"x"}
    old = {"charts/old-1.tgz": PACKED, "charts/old-2.tgz": b"damaged"}
    gathered = gather(write(tmp_path / "tree", {**kept, **old, "charts/new-1.tgz": PACKED}), tmp_path, Chart(""))
    assert gathered.keys() == {"Chart.yaml", "charts/d/Chart.yaml", "charts/new-1.unpacked/Chart.yaml"}


def test_what_is_ignored_in_a_chart_is_not_in_its_packaged_dependencies(tmp_path: Path) -> None:
    rules = b"notes.txt\nold/\n/templates/a.yaml\n"
    own = dict.fromkeys(("Chart.yaml", "notes.txt", "files/old/x", "files/older", "templates/a.yaml", "old.txt"), b"x")
    inner = ("d/Chart.yaml", "d/notes.txt", "d/old/x", "d/templates/a.yaml")
    packed = pack(dict.fromkeys(inner, b"x"))
    gathered = gather(
        write(tmp_path / "tree", {**own, ".helmignore": rules, "charts/d-1.tgz": packed}), tmp_path, Chart("")
    )
    assert gathered.keys() == {
        "Chart.yaml",
        "files/older",
        "old.txt",
        *(f"charts/d-1.unpacked/{name.removeprefix('d/')}" for name in inner),
    }


def test_rules_that_helm_refuses_are_left_to_helm(tmp_path: Path) -> None:
    files = {"Chart.yaml": b"x", ".helmignore": b"**/x\n", "charts/d-1.tgz": PACKED}
    assert ".helmignore" in gather(write(tmp_path / "tree", files), tmp_path, Chart(""))


def test_packaged_dependencies_are_unpacked_recursively(tmp_path: Path) -> None:
    inner = pack(chart_of({}, "inner"))
    outer = pack({"outer/Chart.yaml": b"o", "outer/charts/inner-1.tgz": inner})
    files = {"Chart.yaml": b"x", "charts/outer-1.tgz": outer, "charts/plain/charts/inner.tgz": inner}
    found = gather(write(tmp_path / "tree", files), tmp_path, Chart(""))
    assert sorted(found) == [
        "Chart.yaml",
        "charts/outer-1.unpacked/Chart.yaml",
        "charts/outer-1.unpacked/charts/inner-1.unpacked/Chart.yaml",
        "charts/plain/charts/inner.unpacked/Chart.yaml",
    ]


def test_files_that_helm_skips_in_charts_are_not_unpacked(tmp_path: Path) -> None:
    files = {"charts/._d.tgz": b"\0", "charts/_old.tgz": b"x", "charts/.d/charts/d.tgz": b"y"}
    assert gather(write(tmp_path / "tree", files), tmp_path, Chart("")) == files


def nested(times: int) -> bytes:
    archive = PACKED
    for _ in range(times):
        archive = pack({"c/charts/c.tgz": archive})
    return archive


@dataclass(frozen=True)
class Rejected:
    name: str
    files: dict[str, bytes]
    message: str
    limits: Limits = field(default_factory=Limits)


def archive_of(*items: tuple[str, bytes | Link | Special]) -> dict[str, bytes]:
    return {"charts/d.tgz": tarball(("d/Chart.yaml", b""), *items)}


# fmt: off
REJECTED = [
    Rejected("a damaged archive", {"charts/d.tgz": b"x" * 600}, '"charts/d.tgz": this is not a tar archive'),
    Rejected("a link in an archive", archive_of(("d/x", Link("/etc/passwd"))),
         'entry "d/x" is a link; replace it with the file itself'),
    Rejected("a hard link in an archive", archive_of(("d/x", Link("d/Chart.yaml", hard=True))),
         'entry "d/x" is a link'),
    Rejected("a device in an archive", archive_of(("d/x", Special(tarfile.CHRTYPE))), "character device"),
    Rejected("a path that leaves an archive", archive_of(("d/../../x", b"")), 'entry "d/../../x" leaves its directory'),
    Rejected("an absolute path in an archive", archive_of(("/etc/x", b"")), "has an absolute path"),
    Rejected("a file beside the chart in an archive", archive_of(("x", b"")),
         "entry \"x\" is outside the chart's directory"),
    Rejected("an archive in an archive, and so on", {"charts/d.tgz": nested(12)}, "is nested in more than 8 archives"),
    Rejected("an archive over the budget", {"charts/d.tgz": pack({"d/x": bytes(9)})}, "exceeds the limit of 8 bytes",
         Limits(file_bytes=8)),
]
# fmt: on


@pytest.mark.parametrize("case", REJECTED, ids=attrgetter("name"))
def test_helm_never_sees(case: Rejected, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", case.files)
    with pytest.raises(BundleError) as raised:
        gather(root, tmp_path, Chart(""), case.limits)
    assert raised.value.reason is Reason.INVALID_BUNDLE
    assert raised.value.message.startswith("the chart: ")
    assert case.message in raised.value.message


@pytest.mark.parametrize("target", ["Chart.yaml", "/etc/hostname", "nowhere", ".."])
def test_helm_never_sees_a_link(target: str, tmp_path: Path) -> None:
    root = write(tmp_path / "tree", {"c/Chart.yaml": b""})
    os.symlink(target, root / "c" / "link")
    with pytest.raises(BundleError) as raised:
        gather(root, tmp_path, Chart("c"))
    assert raised.value.message == '"c": "link" is not a regular file; replace it with the file itself'


# schemas


@dataclass(frozen=True)
class Schema:
    name: str
    schema: object
    message: str = ""


# fmt: off
SCHEMAS = [
    Schema("a reference to itself", {"$ref": "#/definitions/x"}),
    Schema("a byte order mark", b"\xef\xbb\xbf{}"),
    Schema("a property of that name", {"properties": {"$ref": {"type": "string"}}}),
    Schema("the drafts that Helm knows",
         {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "http://x/y"}),
    Schema("an address", {"allOf": [{"$ref": "https://example.com/x"}]}, '$ref refers to "https://example.com/x"'),
    Schema("a file", {"x": {"$ref": "file:///dev/zero"}}, '$ref refers to "file:///dev/zero"'),
    Schema("a file beside it", {"x": {"$ref": "other.json#/x"}}, '$ref refers to "other.json#/x"'),
    Schema("a dynamic reference", {"$dynamicRef": "http://x"}, '$dynamicRef refers to "http://x"'),
    Schema("a draft of somebody's own", {"$schema": "http://127.0.0.1/x"}, '$schema refers to "http://127.0.0.1/x"'),
    Schema("the first of two keys", b'{"$ref": "http://x", "$ref": "#"}', '$ref refers to "http://x"'),
    Schema("an escape", b'{"\\u0024ref": "http://x"}', '$ref refers to "http://x"'),
    Schema("no JSON", b"{", "not JSON; correct or remove it"),
    Schema("JSON without end", b"[" * 100_000, "not JSON"),
]
# fmt: on


@pytest.mark.parametrize("where", ["values.schema.json", "charts/d.unpacked/values.schema.json"])
@pytest.mark.parametrize("case", SCHEMAS, ids=attrgetter("name"))
def test_a_schema_may_refer_to_itself_alone(case: Schema, where: str, tmp_path: Path) -> None:
    text = case.schema if isinstance(case.schema, bytes) else json.dumps(case.schema).encode()
    write(tmp_path, {where: text})
    if not case.message:
        refuse_foreign_references(tmp_path, "c")
        return
    with pytest.raises(BundleError) as raised:
        refuse_foreign_references(tmp_path, "c")
    assert raised.value.message.startswith(f'"c": {where}: {case.message}')


PATH = "charts/old-1.2.tgz"


class Case(NamedTuple):
    name: str
    text: str
    expect: bool | None


# fmt: off
CASES = [
    Case("nothing", "", False),
    Case("comments and blank lines", "# charts/*\n\n   \n", False),
    Case("a name", "old-1.2.tgz", True),
    Case("a name with a mark and blanks", "\ufeff  old-1.2.tgz \n", True),
    Case("a pattern of names", "*.tgz", True),
    Case("a pattern of other names", "*.tar", False),
    Case("a part of the name", "old", False),
    Case("a path", "charts/old-?.?.tgz", True),
    Case("a path from the root", "/charts/old*", True),
    Case("a name at the root", "/old-1.2.tgz", False),
    Case("a star does not cross folders", "/*.tgz", False),
    Case("two stars in a row", "o*-*.tgz", True),
    Case("stars that do not fit", "*old*old*", False),
    Case("a class", "old-[0-9].[!-3].tgz", True),
    Case("a class that is negated", "old-[^2-9]*", True),
    Case("a class that does not fit", "old-[^0-9]*", False),
    Case("an escaped character", r"old\-1.2.tgz", True),
    Case("a dot is a dot", "old-1x2.tgz", False),
    Case("folders only", "charts/old*/", False),
    Case("the second rule", "a\n*.tgz", True),
    Case("all but others", "!*.zip", True),
    Case("all but this", "!*.tgz", False),
    Case("all but this, and then this", "!*.tgz\nold*", True),
    Case("a rule that Helm refuses", "*.tgz\n**/x", None),
    Case("a class that does not end", "*.tgz\n[a", None),
    Case("a range of nothing", "*.tgz\n[z-a]", None),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_rules(case: Case) -> None:
    ignores = read_rules(case.text.encode())
    assert (ignores and ignores(PATH, False)) is case.expect


FOLDERS = [
    Case("a name", "old", True),
    Case("a name of folders only", "old/", True),
    Case("a path of folders only", "files/old/", True),
    Case("a path from the root", "/files/old", True),
    Case("a name at the root", "/old/", False),
    Case("all but other folders", "!new/", True),
    Case("all but this folder", "!old/", False),
]


@pytest.mark.parametrize("case", FOLDERS, ids=attrgetter("name"))
def test_rules_about_a_folder(case: Case) -> None:
    ignores = read_rules(case.text.encode())
    assert ignores
    assert ignores("files/old", True) is case.expect


def test_a_pattern_of_many_stars_takes_linear_time() -> None:
    ignores = read_rules(b"*a" * 200 + b"b")
    started = time.thread_time()
    assert ignores
    assert not ignores("charts/" + "a" * 1000, False)
    assert time.thread_time() - started < 1
