from __future__ import annotations

from pathlib import Path

import pytest

from hack.control_plane.builds import (
    BuildError,
    build_control_plane,
    build_helm,
    build_registry,
    make_go_mod,
    make_prometheus_go_mod,
)
from hack.control_plane.programs import CONTROL_PLANE
from hack.control_plane.settings import Settings
from tests.unit.hack.test_installed import install

KUBERNETES = """\
module k8s.io/kubernetes

go 1.26.0

require (
\tgo.etcd.io/etcd/client/v3 v3.6.8
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubectl => ./staging/src/k8s.io/kubectl
)
"""
EXPECTED = """\
module controlplane
go 1.26.0
require k8s.io/kubernetes v1.36.3
require k8s.io/kubectl v0.36.3
require go.etcd.io/etcd/server/v3 v3.6.8
replace k8s.io/api => k8s.io/api v0.36.3
replace k8s.io/kubectl => k8s.io/kubectl v0.36.3
"""
# Stands for Go: it writes down how it is called, and makes what it is asked for.
GO = """\
echo "$@" >> {folder}/calls
case "$1 $2" in
"mod download") echo '{{"GoMod": "{folder}/kubernetes.mod"}}' ;;
"build -trimpath") cp go.mod {folder}/used.mod; for last; do out=$previous; previous=$last; done; touch "$out" ;;
"install "*) echo "$CGO_ENABLED" >> {folder}/cgo; touch "$GOBIN/registry" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Go of ours, which comes first in PATH."""
    folder = tmp_path / "go"
    install(folder, "go", GO.format(folder=folder))
    (folder / "kubernetes.mod").write_text(KUBERNETES)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_staging_modules_are_replaced_by_their_published_versions() -> None:
    assert make_go_mod(KUBERNETES, "1.36.3") == EXPECTED


def test_a_go_mod_of_something_else_is_refused() -> None:
    with pytest.raises(BuildError, match="no Go version or no etcd client"):
        make_go_mod("module example.com/other\n", "1.36.3")


def test_one_binary_goes_by_the_names_of_all_components(go: Path, tmp_path: Path) -> None:
    folder = tmp_path / "built"
    folder.mkdir()
    build_control_plane(folder, Settings(cache=tmp_path))
    assert (go / "used.mod").read_text() == EXPECTED
    assert {path.name for path in folder.iterdir()} == {"controlplane", *CONTROL_PLANE}
    assert (folder / "etcd").resolve() == folder / "controlplane"


def test_prometheus_is_required_with_what_it_replaces() -> None:
    theirs = """module github.com/prometheus/prometheus

go 1.25.0

require github.com/a/b v1.0.0

replace github.com/a/b => github.com/c/b v1.2.3

replace (
\tgithub.com/d/e => github.com/f/e v0.0.1 // why
\tgithub.com/g/h => ./internal/h
)
"""
    ours = make_prometheus_go_mod(theirs, "v0.315.0")
    assert ours.splitlines() == [
        "module prometheus",
        "go 1.25.0",
        "require github.com/prometheus/prometheus v0.315.0",
        "replace github.com/a/b => github.com/c/b v1.2.3",
        "replace github.com/d/e => github.com/f/e v0.0.1",
    ]


def test_what_is_no_go_mod_is_refused() -> None:
    with pytest.raises(BuildError, match="has no Go version"):
        make_prometheus_go_mod("", "v0.315.0")


def test_the_registry_is_installed_in_the_wanted_version(go: Path, tmp_path: Path) -> None:
    build_registry(tmp_path, Settings(cache=tmp_path, registry_version="3.1.2"))
    assert (tmp_path / "registry").exists()
    assert (go / "calls").read_text() == "install github.com/distribution/distribution/v3/cmd/registry@v3.1.2\n"


def test_helm_reports_its_version_and_is_built_without_cgo(go: Path, tmp_path: Path) -> None:
    build_helm(tmp_path, Settings(cache=tmp_path, helm_version="4.3.1"))
    flags = "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1"
    assert (go / "calls").read_text() == f"install -trimpath -ldflags {flags} helm.sh/helm/v4/cmd/helm@v4.3.1\n"
    assert (go / "cgo").read_text() == "0\n"


def test_the_last_line_of_a_failing_build_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "go", "go", "echo first >&2; echo module not found >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "go"))
    with pytest.raises(BuildError, match=r"^go install failed: module not found$"):
        build_registry(tmp_path, Settings(cache=tmp_path))


def test_a_machine_without_go_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"^Go is not installed$"):
        build_registry(tmp_path, Settings(cache=tmp_path))
