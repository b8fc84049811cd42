from __future__ import annotations

from pathlib import Path

from hack.control_plane.settings import read_settings


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


def test_the_folder_of_assets_goes_before_the_path() -> None:
    settings = read_settings({"KUBEBUILDER_ASSETS": "/assets", "PATH": "/one:/two:/one"})
    assert settings.search == (Path("/assets"), Path("/one"), Path("/two"))


def test_the_cache_is_where_the_environment_says() -> None:
    assert read_settings({"RUKPAK_CACHE": "/a", "XDG_CACHE_HOME": "/b"}).cache == Path("/a")
    assert read_settings({"XDG_CACHE_HOME": "/b"}).cache == Path("/b/rukpak")
    assert read_settings({}).cache == Path.home() / ".cache/rukpak"
