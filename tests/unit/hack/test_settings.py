from __future__ import annotations

from pathlib import Path

import pytest

from hack.control_plane.settings import KUBERNETES_RELEASES, read_settings


def test_everything_has_a_default() -> None:
    settings = read_settings({"PATH": ""})
    assert settings.kubernetes_version == "1.36.3"
    assert settings.kubernetes_releases == "https://dl.k8s.io"
    assert settings.search == ()


def test_versions_and_addresses_come_from_the_environment() -> None:
    environment = {"RUKPAK_KUBERNETES_VERSION": "v1.35.1", "RUKPAK_ETCD_RELEASES": "https://mirror.example/etcd/"}
    settings = read_settings(environment)
    assert settings.kubernetes_version == "1.35.1"
    assert settings.etcd_releases == "https://mirror.example/etcd"


@pytest.mark.parametrize(("minor", "version"), KUBERNETES_RELEASES.items())
def test_a_minor_version_of_kubernetes_is_one_of_its_releases(minor: str, version: str) -> None:
    assert version.startswith(f"{minor}.")
    assert read_settings({"RUKPAK_KUBERNETES_VERSION": minor}).kubernetes_version == version


def test_the_default_version_of_kubernetes_is_one_of_the_tested() -> None:
    assert read_settings({}).kubernetes_version in KUBERNETES_RELEASES.values()
    assert len(KUBERNETES_RELEASES) == 3


def test_the_folder_of_assets_goes_before_the_path() -> None:
    settings = read_settings({"KUBEBUILDER_ASSETS": "/assets", "PATH": "/one:/two:/one"})
    assert settings.search == (Path("/assets"), Path("/one"), Path("/two"))


def test_the_cache_is_where_the_environment_says() -> None:
    assert read_settings({"RUKPAK_CACHE": "/a", "XDG_CACHE_HOME": "/b"}).cache == Path("/a")
    assert read_settings({"XDG_CACHE_HOME": "/b"}).cache == Path("/b/rukpak")
    assert read_settings({}).cache == Path.home() / ".cache/rukpak"
