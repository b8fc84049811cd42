"""SOURCE of `rukpak render`: what is rendered from a file, an archive, stdin, a registry or a URL."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controller.cli import main
from controller.cli.render import guess_format

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
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
    (tmp_path / "plain.tar.gz").write_bytes(archive({"a.json": json.dumps(CONFIG_MAP)}))
    (tmp_path / "a.yaml").write_text(json.dumps(CONFIG_MAP))
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
        {"web-1.0.0.tgz": archive(CHART), "a.yaml": json.dumps(CONFIG_MAP).encode()},
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


@pytest.mark.parametrize("address", ["git@example.com:a/b", "https://example.com/a/b.git", "ssh://git@example.com/a"])
def test_a_git_repository_needs_more_than_its_address(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", address]) == 2
    assert "a git repository is rendered from a BundleDeployment; use -f FILE" in capsys.readouterr().err


def test_a_registry_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "oci://127.0.0.1:1/shop:v1"]) == 1
    assert capsys.readouterr().err.startswith('Unreachable: spec.sources[0].image.ref: cannot read from "127.0.0.1:1"')
