from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from hack.control_plane import nodes
from hack.control_plane.images import make_archive
from rukpak.controller.playground.binaries import MissingError


def test_an_archive_has_one_image_under_all_its_names() -> None:
    with tarfile.open(fileobj=io.BytesIO(make_archive({"tiny": b"program"}, ["a:1", "b:1"], "amd64"))) as tar:
        files = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    described = json.loads(files["index.json"])["manifests"]
    assert [each["annotations"]["io.containerd.image.name"] for each in described] == ["a:1", "b:1"]
    assert len({each["digest"] for each in described}) == 1
    blobs = {name.removeprefix("blobs/sha256/"): content for name, content in files.items() if name.startswith("blobs")}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())


def test_without_root_a_node_is_refused_before_anything_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MissingError, match=r"a node needs root, missing here; --kwok has pods that become Ready"):
        nodes.install_needs(tmp_path)


def test_what_is_missing_is_named_by_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "runc").touch(mode=0o755)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(nodes, "SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(nodes, "PLUGINS", ())
    lacks = ["containerd", "containernetworking-plugins", "iproute2", "iptables", "util-linux"]
    assert nodes.find_lacks() == lacks
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=", ".join(lacks)):
        nodes.install_needs(tmp_path)


def test_another_containerd_is_searched_with_what_is_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ctr").touch(mode=0o755)
    monkeypatch.setenv(nodes.CONTAINERD, str(tmp_path / "containerd"))
    assert nodes._find("ctr") == str(tmp_path / "ctr")
