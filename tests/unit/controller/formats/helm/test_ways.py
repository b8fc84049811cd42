"""One packaged chart gives the same objects by every way it comes, which are those of `helm template`.

`helm package` has applied `.helmignore`; the archive still contains it, and in `charts/` what it names.
"""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.plugins import Access, Entry, Limits
from controller.content.archive import write_entries
from controller.content.folder import read_folder
from controller.content.tar import read_tar
from controller.formats.yaml.manifests import read_documents
from controller.sources.chart.chart import read_chart
from controller.sources.http.source import read_body, strip_components
from tests.support.archives import Link, Special, Value, tarball
from tests.support.charts import chart_of, files_of, pack, packaged_helm, render, write

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
RULES = [
    "", "test-*", "test-*\n", "dashboards/", "dashboards", "d", "d/", "charts/d", "/charts/d/templates", "*.json",
    "crds/", "crds", "_helpers.tpl", "!*.txt", "!charts", "templates/*", "*.yaml", "# test-*", "d-2.*", "Chart.lock",
]  # fmt: skip


def as_chart(archive: bytes, tmp_path: Path) -> Iterator[Entry]:
    return read_chart(
        io.BytesIO(archive),
        Access(path="content", deadline=time.monotonic() + 60, cancelled=threading.Event(), scratch=tmp_path),
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


@pytest.mark.parametrize("rules", RULES)
def test_a_packaged_chart_is_rendered_as_helm_renders_it(rules: str, tmp_path: Path) -> None:
    inner = {path.replace("d/", "c/charts/d/", 1): data for path, data in INNER.items()}
    archive = pack({**OUTER, "c/.helmignore": rules.encode(), **inner})
    write(tmp_path, {"c-1.0.0.tgz": archive})
    wanted = template(tmp_path, "c-1.0.0.tgz")
    for way, entries in WAYS.items():
        folder = tmp_path / way
        folder.mkdir()
        write_entries(entries(archive, tmp_path), folder, Limits(), "content")
        rendering = render(folder, tmp_path / "scratch")
        assert names_and_data([*rendering.objects, *(hook.manifest for hook in rendering.hooks)]) == wanted, way


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


@pytest.mark.parametrize("rules", ["test-*", "dashboards/", "d"])
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
