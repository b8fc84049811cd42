from __future__ import annotations

from pathlib import Path

import pytest

from hack.control_plane import builds
from hack.control_plane.builds import (
    BUILDS,
    COMPILER_BYTES,
    build_control_plane,
    build_helm,
    build_kwok,
    build_registry,
    count_compilers,
    make_go_mod,
    make_kwok_go_mod,
    make_prometheus_go_mod,
)
from rukpak.controller.playground.binaries import BuildError
from rukpak.controller.playground.programs import CONTROL_PLANE, PROGRAMS, Settings
from rukpak.controller.processes.memory_limit import MemoryLimit
from tests.unit.controller.playground.test_binaries import install

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
KWOK = """\
module sigs.k8s.io/kwok

go 1.26.0

require k8s.io/client-go v0.36.1
"""
# Stands for Go: it writes down how it is called, and makes what it is asked for.
GO = """\
echo "$@" >> {folder}/calls
case "$1" in
mod) echo "{{\\"GoMod\\": \\"{folder}/$(echo "$4" | tr -c 'a-z0-9\\n' _).mod\\"}}" ;;
list) echo fmt; echo k8s.io/api ;;
build)
  cp go.mod {folder}/used.mod; ls > {folder}/sources; echo "$CGO_ENABLED" > {folder}/cgo
  echo go: downloading >&2; echo fmt >&2; echo k8s.io/api >&2
  for last; do output=$previous; previous=$last; done
  touch "$output/$(sed -n 's/^module //p' go.mod)" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Go of ours, which comes first in PATH."""
    folder = tmp_path / "go"
    install(folder, "go", GO.format(folder=folder))
    for module, text in {"k8s_io_kubernetes_v1_36_3": KUBERNETES, "sigs_k8s_io_kwok_v0_8_0": KWOK}.items():
        (folder / f"{module}.mod").write_text(text)
    for module in ("github_com_distribution_distribution_v3_v3_1_2", "helm_sh_helm_v4_v4_3_1"):
        (folder / f"{module}.mod").write_text("go 1.26.0\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_staging_modules_are_replaced_by_their_published_versions() -> None:
    assert make_go_mod("controlplane", KUBERNETES, "1.36.3") == EXPECTED


def test_one_binary_goes_by_the_names_of_all_components(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "built"
    folder.mkdir()
    told: list[str] = []
    monkeypatch.setattr(builds, "TELL_SECONDS", 0)
    build_control_plane(folder, Settings(cache=tmp_path), told.append)
    assert told[-2:] == ["1 of 2 packages are compiled", "2 of 2 packages are compiled"], "not downloads"
    assert (go / "sources").read_text().split() == ["go.mod", "main.go"]
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


def test_the_registry_is_built_without_storage_in_clouds(go: Path, tmp_path: Path) -> None:
    build_registry(tmp_path, Settings(cache=tmp_path, registry_version="3.1.2"), print)
    assert (tmp_path / "registry").exists()
    required = "require github.com/distribution/distribution/v3 v3.1.2"
    assert (go / "used.mod").read_text().splitlines() == ["module registry", "go 1.26.0", required]
    main = (Path(builds.__file__).parent / "small_registry" / "main.go").read_text()
    assert "driver/filesystem" in main
    assert "driver/s3-aws" not in main


def test_kwok_is_built_from_the_packages_of_the_control_plane(go: Path, tmp_path: Path) -> None:
    build_kwok(tmp_path, Settings(cache=tmp_path), print)
    assert (go / "used.mod").read_text().splitlines() == [
        "module kwok",
        "go 1.26.0",
        "require sigs.k8s.io/kwok v0.8.0",
        "replace go.etcd.io/etcd/client/v3 => go.etcd.io/etcd/client/v3 v3.6.8",
        "replace k8s.io/api => k8s.io/api v0.36.3",
        "replace k8s.io/kubectl => k8s.io/kubectl v0.36.3",
    ]


def test_kwok_keeps_its_modules_beside_another_minor_version_of_kubernetes() -> None:
    ours = make_kwok_go_mod(KWOK, "v0.8.0", KUBERNETES, "1.35.2")
    assert ours.splitlines() == ["module kwok", "go 1.26.0", "require sigs.k8s.io/kwok v0.8.0"]


def test_programs_share_compiled_packages_because_their_flags_are_the_same(go: Path, tmp_path: Path) -> None:
    build_registry(tmp_path, Settings(cache=tmp_path), print)
    build_helm(tmp_path, Settings(cache=tmp_path), print)
    calls = [line for line in (go / "calls").read_text().splitlines() if line.startswith("build ")]
    assert len({line.split(" -ldflags ")[0] for line in calls}) == 1
    assert " -gcflags=all=-dwarf=false " in calls[0]
    assert "-trimpath" not in calls[0], "replaced modules would be compiled for each program"
    assert (go / "cgo").read_text() == "0\n"


@pytest.mark.parametrize(
    ("gibibytes", "processors", "compilers"),
    [
        pytest.param(8, 2, 2, id="two processors are busy within 8 GiB"),
        pytest.param(8, 16, 4, id="of many processors, 8 GiB are enough for four"),
        pytest.param(64, 16, 16, id="with enough memory, all are busy"),
        pytest.param(1, 4, 1, id="one compiler always runs"),
    ],
)
def test_compilers_are_as_many_as_memory_allows(
    gibibytes: int, processors: int, compilers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = MemoryLimit(bytes=gibibytes * COMPILER_BYTES, origin="a test")
    monkeypatch.setattr("hack.control_plane.builds.find_limit", lambda _: limit)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    assert count_compilers() == compilers


def test_every_program_can_be_built() -> None:
    assert BUILDS.keys() == {program.part for program in PROGRAMS.values()}


def test_the_last_line_of_a_failing_build_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "go", "go", "echo first >&2; echo module not found >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "go"))
    with pytest.raises(BuildError, match=r"^go mod failed: module not found$"):
        build_registry(tmp_path, Settings(cache=tmp_path), print)


def test_the_last_line_of_a_failing_compiler_is_told(go: Path, tmp_path: Path) -> None:
    program = go / "go"
    program.write_text(program.read_text().replace("build)", "build) echo undefined: x >&2; exit 1 ;; never)"))
    with pytest.raises(BuildError, match=r"^go build failed: undefined: x$"):
        build_registry(tmp_path, Settings(cache=tmp_path), print)
