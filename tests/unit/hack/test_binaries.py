from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hack.control_plane.binaries import Binaries, MissingError
from hack.control_plane.builds import BUILDS
from hack.control_plane.go import BuildError, Report
from hack.control_plane.settings import Settings
from tests.support.file_server import FileServer
from tests.unit.hack.test_installed import install

PROGRAM = b"#!/bin/sh\n"
PATH = "/v1.36.3/bin/linux/amd64"


def settings(root: Path, server: FileServer) -> Settings:
    return Settings(
        cache=root / "cache",
        search=(root / "installed",),
        kubernetes_releases=server.address,
        etcd_releases=server.address,
        registry_releases=server.address,
    )


def publish(server: FileServer, name: str, *, digest: str = "") -> None:
    server.files[f"{PATH}/{name}"] = PROGRAM
    server.files[f"{PATH}/{name}.sha256"] = (digest or hashlib.sha256(PROGRAM).hexdigest()).encode()


def refuse(_folder: Path, _settings: Settings, _report: Report) -> None:
    raise BuildError("Go is not installed")


def make_all(folder: Path, _settings: Settings, _report: Report) -> None:
    for name in ("kubectl", "kube-apiserver", "etcd"):
        (folder / name).touch()


@pytest.fixture
def told() -> list[str]:
    return []


def test_what_is_installed_is_neither_downloaded_nor_built(
    tmp_path: Path, file_server: FileServer, told: list[str]
) -> None:
    path = install(tmp_path / "installed", "kubectl", "echo Client Version: v1.36.1")
    assert Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl"]) == {"kubectl": path}
    assert not told
    assert not file_server.requested


def test_what_is_not_installed_is_downloaded_once(tmp_path: Path, file_server: FileServer, told: list[str]) -> None:
    publish(file_server, "kubectl")
    first = Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl"])
    again = Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl"])
    assert first == again
    assert first["kubectl"].read_bytes() == PROGRAM
    assert told == ["downloading kubectl 1.36.3"]


def test_what_cannot_be_downloaded_is_built_and_it_is_said_that_it_takes_minutes(
    tmp_path: Path, file_server: FileServer, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILDS, "control-plane", make_all)
    found = Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl", "kube-apiserver"])
    assert all(path.exists() for path in found.values())
    assert told[1:] == [
        f"kubectl could not be downloaded: {file_server.address}{PATH}/kubectl.sha256: 404 Not Found",
        "building kubectl, kube-apiserver from Go modules, once: takes about 5 min 30 s",
        "built control-plane in 0 s",
    ]
    assert len(file_server.requested) == 1, "once one program of a part is missing, the others are not asked for"


def test_what_has_a_wrong_checksum_is_built_instead(
    tmp_path: Path, file_server: FileServer, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILDS, "control-plane", make_all)
    publish(file_server, "kubectl", digest="0" * 64)
    found = Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl"])
    assert found["kubectl"].read_bytes() == b""
    assert f"published is {'0' * 64}; not used" in told[1]


def test_what_was_built_is_used_again(
    tmp_path: Path, file_server: FileServer, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILDS, "control-plane", make_all)
    first = Binaries(settings(tmp_path, file_server), told.append).obtain(["etcd"])
    monkeypatch.setitem(BUILDS, "control-plane", refuse)
    told.clear()
    assert Binaries(settings(tmp_path, file_server), told.append).obtain(["etcd"]) == first
    assert not told


def test_another_version_is_obtained_anew(tmp_path: Path, file_server: FileServer, told: list[str]) -> None:
    publish(file_server, "kubectl")
    Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl"])
    other = Settings(cache=tmp_path / "cache", kubernetes_version="1.35.0", kubernetes_releases=file_server.address)
    file_server.files |= {path.replace("1.36.3", "1.35.0"): data for path, data in file_server.files.items()}
    assert "1.35.0" in str(Binaries(other, told.append).obtain(["kubectl"])["kubectl"])


def test_what_cannot_be_had_at_all_is_told_with_the_ways_to_get_it(
    tmp_path: Path, file_server: FileServer, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILDS, "registry", refuse)
    with pytest.raises(MissingError, match=r"^registry: not on PATH .* \(Go is not installed\); install Go or"):
        Binaries(settings(tmp_path, file_server), told.append).obtain(["registry"])


def test_builds_run_in_the_order_in_which_they_share_most_and_say_what_follows(
    tmp_path: Path, file_server: FileServer, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build(part: str, _folder: Path, _settings: Settings, _report: Report) -> None:
        built.append(part)

    for part in ("control-plane", "registry", "kwok"):
        monkeypatch.setitem(BUILDS, part, partial(build, part))
    given = replace(settings(tmp_path, file_server), kwok_releases=file_server.address)
    Binaries(given, told.append).obtain(["kwok", "registry", "etcd"])
    assert built == ["control-plane", "registry", "kwok"]
    begun = [line.split("; ")[-1] for line in told if line.startswith("building ")]
    assert begun[:2] == ["then registry, kwok (about 1 min 5 s)", "then kwok (about 20 s)"]
