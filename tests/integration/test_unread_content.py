"""What a format does not read is left out without being judged; what it reads is refused. From each kind of source."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.v1alpha2.conditions import Reason
from tests.support.archives import Link, Special, Value, ZipSpecial, tarball, zipped
from tests.support.bundles import Deployed, Manifest, World, config_map, image, new_name
from tests.support.charts import chart_of
from tests.support.controller import command
from tests.support.git_servers import LINK, SUBMODULE, GitHttpServer, GitRepository
from tests.support.operator_bundles import deployment, service_version, write_bundle
from tests.support.registry import MANIFEST
from tests.support.tenants import ACCOUNT, CONFIG_MAPS, tenant
from tests.support.web_servers import FileServer

FORGE = {"uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"}
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
DEVICE = Special(tarfile.CHRTYPE)
UNIT = "usr/lib/systemd/system/dev-disk-by\\x2dlabel-swap.swap"
BASE: list[tuple[str, Value]] = [
    ("dev/", None), ("dev/console", DEVICE), ("dev/sda", Special(tarfile.BLKTYPE)),
    ("run/initctl", Special(tarfile.FIFOTYPE)), (UNIT, b"[Swap]"), ("etc/ssl/certs/F\udc91tan\udcfas\udcedtv.pem", b""),
    ("etc/mtab", Link("../../proc/self/mounts")), ("etc/os-release", b"ID=base"),
    ("bin/sh", Link("bash")), ("bin/bash", b""),
]  # fmt: skip
"""What images of usual distributions contain."""
TEMPLATE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: blue}\n"
PLAIN = {"manifests/a.json": json.dumps(config_map("settings", color="blue")).encode()}
CHART = chart_of({"templates/a.yaml": TEMPLATE}, "shop")


@pytest.fixture(scope="module")
def files() -> Iterator[FileServer]:
    with FileServer().serving() as server:
        yield server


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHttpServer]:
    with GitHttpServer(tmp_path_factory.mktemp("git")) as server:
        yield server


def repository(forge: GitHttpServer, files: Mapping[str, Any], **block: Any) -> Manifest:
    """Make a repository; return the entry of spec.sources."""
    name = new_name()
    GitRepository(forge.root / f"{name}.git", config=FORGE).commit(dict(files.items()))
    insecure = {"insecureSkipTLSVerify": True}
    return {"kind": "git", "git": {"repository": f"{forge.url}/{name}.git", **insecure, **block}}


def download(files: FileServer, name: str, body: bytes, **block: Any) -> Manifest:
    files.files[f"/{name}"] = body
    return {"kind": "http", "http": {"url": f"{files.address}/{name}", "insecureSkipTLSVerify": True, **block}}


def assert_only_files(store: Path) -> None:
    """Nothing in the store is anything else than a folder or a file, or has a name that is refused."""
    for path in store.glob("entries/*/content/**/*"):
        assert stat.S_IFMT(path.lstat().st_mode) in (stat.S_IFREG, stat.S_IFDIR), path
        os.fsencode(path).decode("utf-8")
        assert "\\" not in path.name


# images


def bundle_files(tmp_path: Path) -> dict[str, bytes]:
    root = write_bundle(tmp_path / "bundle", service_version(deployments=[deployment()]))
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format_name", ["plain", "helm", "registry-v1"])
def test_an_image_from_a_usual_base_is_installed(format_name: str, world: World, tmp_path: Path) -> None:
    content = {"plain": lambda: PLAIN, "helm": lambda: CHART, "registry-v1": lambda: bundle_files(tmp_path)}[
        format_name
    ]()
    name = new_name()
    world.registry.push_image(name, "v1", [tarball(*BASE), content])
    deployed = world.deploy(ref=f"{world.registry.host}/{name}:v1", format=format_name)
    deployed.wait_for("Installed")
    if format_name != "registry-v1":
        deployed.wait_ready()
        assert deployed.data("settings") == {"color": "blue"}
    assert_only_files(world.store)


def test_one_content_is_judged_by_each_format_and_after_a_restart(world: World) -> None:
    """The content is stored once, with what must not be read: a format that reads that is refused, before and after."""
    name = new_name()
    bad = tarball(("shop/templates/b.yaml", Link("../../../../etc/passwd")))
    world.registry.push_image(name, "v1", [bad, {**PLAIN, **CHART}])
    ref = f"{world.registry.host}/{name}:v1"
    plain = world.deploy(ref=ref)
    plain.wait_ready()
    told = 'spec.sources[0]: entry "shop/templates/b.yaml" links to "../../../../etc/passwd", outside the tree'
    chart = world.deploy(ref=ref, format="helm")
    chart.wait_for("Unpacked", "False", "ContentRejected", told)
    chart.wait_for("Stalled", "True", "ContentRejected", told)
    recorded = [path for path in world.store.glob("entries/*/index") if "shop/templates/b.yaml" in path.read_text()]
    assert len(recorded) == 1

    world.restart()
    chart.request_reconcile("again")
    chart.wait_for("Unpacked", "False", "ContentRejected", told)
    chart.change(format="plain")
    chart.wait_for("Unpacked")


def test_subdirectories_are_read_once_that_is_asked_for(world: World) -> None:
    files = {
        "manifests/base/a.json": json.dumps(config_map("settings", color="blue")).encode(),
        "manifests/base/deep/b.json": json.dumps(config_map("more", color="green")).encode(),
        "manifests/.github/workflow.yaml": b"on: push\n",
    }
    deployed = world.deploy(files)
    told = "manifests/base/a.json: manifests in subdirectories are not read; set spec.config.recursive: true, or move"
    deployed.wait_for("Installed", "False", "InvalidBundle", told)
    deployed.change(config={"recursive": "yes"})
    told = "spec.config.recursive: must be true or false, not a string"
    deployed.wait_for("Installed", "False", "InvalidConfig", told)
    deployed.change(config={"recursive": True})
    deployed.wait_ready()
    assert deployed.data("settings") == {"color": "blue"}
    assert deployed.data("more") == {"color": "green"}


# archives


def packed_chart(*items: tuple[str, Value]) -> bytes:
    return gzip.compress(tarball(*CHART.items(), *items), mtime=0)


def packed_zip(*items: tuple[str, Value]) -> bytes:
    device = ZipSpecial(stat.S_IFCHR)
    return zipped(*((path, device if isinstance(value, Special) else value) for path, value in items))


ARCHIVES = {"tar.gz": lambda *items: gzip.compress(tarball(*items), mtime=0), "zip": packed_zip}


@pytest.mark.parametrize("suffix", ARCHIVES)
@pytest.mark.parametrize("strip", [0, 1])
def test_an_archive_over_http(suffix: str, strip: int, world: World, files: FileServer) -> None:
    prefix = "shop-1.0/" if strip else ""
    unread = [("README.md", Link("../../../README.md")), ("docs/a\\b", b"1"), ("dev/null", DEVICE)]
    items = [(f"{prefix}{path}", value) for path, value in [*PLAIN.items(), *unread]]
    body = ARCHIVES[suffix](*items)
    deployed = world.deploy(
        ref="unused", sources=[download(files, f"{new_name()}.{suffix}", body, stripComponents=strip)]
    )
    deployed.wait_ready()
    assert_only_files(world.store)

    body = ARCHIVES[suffix](*items, (f"{prefix}manifests/b.yaml", Link("../../../b.yaml")))
    deployed.change(sources=[download(files, f"{new_name()}.{suffix}", body, stripComponents=strip)])
    told = 'spec.sources[0]: entry "manifests/b.yaml" links to "../../../b.yaml", outside the tree'
    deployed.wait_for("Unpacked", "False", "ContentRejected", told)


def test_an_archive_in_a_config_map(world: World, tmp_path: Path) -> None:
    name = tenant(world, CONFIG_MAPS)
    folder = tmp_path / "folder"
    for path, data in PLAIN.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "README.md").symlink_to("../../README.md")
    (folder / "shared.json").write_text(json.dumps(config_map("shared", color="red")))
    (folder / "manifests" / "b.json").symlink_to("../shared.json")
    sources = [{"kind": "configMap", "configMap": {"name": "content"}}]
    deployed = world.deploy(name=name, ref="unused", serviceAccountName=ACCOUNT, sources=sources)
    command(world.cluster.kubeconfig)("push", str(folder), name)
    deployed.wait_ready()
    assert deployed.data("shared") == {"color": "red"}


@pytest.mark.parametrize("way", ["http", "image"])
def test_a_packed_chart_with_a_link_that_leaves_it(way: str, world: World, files: FileServer) -> None:
    def source(*items: tuple[str, Value]) -> Manifest:
        body, name = packed_chart(*items), new_name()
        if way == "http":
            return download(files, f"{name}.tgz", body)
        config = json.dumps({"name": "shop", "version": "1.0.0"}).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": world.registry.push_blob(name, "application/vnd.cncf.helm.config.v1+json", config).as_json(),
            "layers": [
                world.registry.push_blob(name, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", body).as_json()
            ],
        }
        world.registry.push_manifest(name, "1.0.0", manifest)
        return image(f"{world.registry.host}/{name}:1.0.0")

    deployed = world.deploy(ref="unused", format="helm", sources=[source(("shop/LICENSE", Link("../../LICENSE")))])
    deployed.wait_ready()
    deployed.change(sources=[source(("shop/templates/b.yaml", Link("../../../b.yaml")))])
    reason = Reason.CONTENT_REJECTED if way == "http" else Reason.INVALID_BUNDLE
    deployed.wait_for("Stalled", "True", reason.value, 'entry "shop/templates/b.yaml"')


# repositories

LIBRARY = chart_of({"templates/_x.tpl": '{{ define "x" }}{{ end }}'}, "lib")
DEPENDS = "dependencies: [{name: lib, version: 1.0.0}]\n"
APPS: dict[str, Any] = {
    **{f"apps/{path}": data for path, data in CHART.items()},
    "apps/shop/Chart.yaml": CHART["shop/Chart.yaml"] + DEPENDS.encode(),
    "apps/shop/charts/lib": (LINK, b"../../../library/lib"),
    "apps/shop/README.md": (LINK, b"../../README.md"),
    **{f"library/{path}": data for path, data in LIBRARY.items()},
    "apps/shop/templates/b.yaml": TEMPLATE.replace("settings", "other").encode() + b'# {{ include "x" . }}\n',
    "README.md": b"apps",
    "model.bin": LFS,
}


def test_with_several_charts_in_a_repository_the_messages_lead_to_one(world: World, forge: GitHttpServer) -> None:
    """Without `directory` there are several charts; with it, links lead to the rest of the commit."""
    source = repository(forge, APPS)
    deployed = world.deploy(ref="unused", format="helm", sources=[source])
    told = 'found 2 charts: "apps/shop", "library/lib"; select one with the directory'
    deployed.wait_for("Installed", "False", "InvalidBundle", told)
    deployed.change(sources=[{**source, "git": {**source["git"], "directory": "apps/shop"}}])
    deployed.wait_ready()
    assert deployed.objects().keys() == {"settings", "other"}


def test_a_link_out_of_the_commit_is_refused_where_the_format_reads_it(world: World, forge: GitHttpServer) -> None:
    unread = {**APPS, "apps/shop/LICENSE": (LINK, b"../../../LICENSE")}
    deployed = world.deploy(ref="unused", format="helm", sources=[repository(forge, unread, directory="apps/shop")])
    deployed.wait_ready()
    read = {**unread, "apps/shop/values.yaml": (LINK, b"../../../values.yaml")}
    deployed.change(sources=[repository(forge, read, directory="apps/shop")])
    told = 'spec.sources[0]: entry "apps/shop/values.yaml" links to "../../../values.yaml", outside the repository'
    deployed.wait_for("Unpacked", "False", "ContentRejected", told)


def test_a_pointer_of_lfs_is_refused_where_the_format_reads_it(world: World, forge: GitHttpServer) -> None:
    unread = {**PLAIN, "model.bin": LFS, "docs/large.yaml": LFS}
    deployed = world.deploy(ref="unused", sources=[repository(forge, dict(unread))])
    deployed.wait_ready()
    deployed.change(sources=[repository(forge, {**unread, "manifests/b.yaml": LFS})])
    told = (
        'spec.sources[0]: "manifests/b.yaml" is a Git LFS pointer, which is not supported; '
        "store the file itself in the repository, or use a directory without it"
    )
    deployed.wait_for("Unpacked", "False", "UnsupportedContent", told)
    assert_only_files(world.store)


def including(forge: GitHttpServer, path: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Make a repository with files; return the files of another one that includes it at a path."""
    name = new_name()
    commit = GitRepository(forge.root / f"{name}.git", config=FORGE).commit(dict(files.items()))
    modules = f'[submodule "{path}"]\n\tpath = {path}\n\turl = ../{name}.git\n'.encode()
    return {".gitmodules": modules, path: (SUBMODULE, commit.encode())}


@pytest.mark.parametrize("path", ["manifests", "manifests/more"])
def test_a_submodule_is_refused_where_the_format_reads_it_unless_the_spec_has_it_read(
    path: str, world: World, forge: GitHttpServer
) -> None:
    beside = including(forge, "docs/site", {"index.html": b"<html>"})
    deployed = world.deploy(ref="unused", sources=[repository(forge, {**PLAIN, **beside})])
    deployed.wait_ready()
    manifest = json.dumps(config_map("other", color="red")).encode()
    main = {} if path == "manifests" else PLAIN
    source = repository(forge, {**main, **including(forge, path, {"b.json": manifest})})
    deployed.change(sources=[source])
    told = f'spec.sources[0]: "{path}" is a submodule, which is not read; set submodules: true'
    deployed.wait_for("Unpacked", "False", "UnsupportedContent", told)
    if path != "manifests":  # below it, manifests would not be read
        return
    resolved = deployed.status()["sources"]
    deployed.change(sources=[{**source, "git": {**source["git"], "submodules": True}}])
    deployed.wait_ready()
    assert deployed.data("other") == {"color": "red"}
    assert deployed.status()["sources"] == resolved  # the commit of the submodule is part of the commit
    assert_only_files(world.store)


def test_a_library_in_a_submodule_of_a_chart(world: World, forge: GitHttpServer) -> None:
    library = {path.removeprefix("lib/"): data for path, data in LIBRARY.items()}
    chart = {**CHART, "shop/Chart.yaml": CHART["shop/Chart.yaml"] + DEPENDS.encode()}
    source = repository(forge, {**chart, **including(forge, "shop/charts/lib", library)}, directory="shop")
    deployed = world.deploy(ref="unused", format="helm", sources=[source])
    told = 'spec.sources[0]: "shop/charts/lib" is a submodule, which is not read; set submodules: true'
    deployed.wait_for("Unpacked", "False", "UnsupportedContent", told)
    deployed.change(sources=[{**source, "git": {**source["git"], "submodules": True}}])
    deployed.wait_ready()


def test_a_folder_is_rendered_as_a_source_with_it_is_installed(world: World, tmp_path: Path) -> None:
    """`rukpak package` renders a folder, and pushes it, by the same rules."""
    folder = tmp_path / "folder"
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests" / "a.json").write_bytes(PLAIN["manifests/a.json"])
    (folder / "shared.json").write_text(json.dumps(config_map("shared", color="red")))
    (folder / "manifests" / "b.json").symlink_to("../shared.json")
    (folder / "README.md").symlink_to("../../README.md")
    rukpak, ref = command(world.cluster.kubeconfig), f"{world.registry.host}/{new_name()}:v1"
    assert "which renders 2 objects" in rukpak("package", str(folder), ref, "--insecure-skip-tls-verify").stdout
    deployed: Deployed = world.deploy(ref=ref)
    deployed.wait_ready()
    assert deployed.data("shared") == {"color": "red"}
    (folder / "manifests" / "c.json").symlink_to("../../c.json")
    refused = rukpak("package", str(folder), ref, "--insecure-skip-tls-verify", status=1)
    assert 'entry "manifests/c.json" links to "../../c.json", outside the tree' in refused.stderr
