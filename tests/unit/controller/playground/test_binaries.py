from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from rukpak.controller.playground import binaries
from rukpak.controller.playground.binaries import (
    Binaries,
    BuildError,
    Cache,
    DownloadError,
    MissingError,
    Tell,
    download,
    find_checksum,
    find_installed,
)
from rukpak.controller.playground.programs import KUBERNETES_RELEASES, PROGRAMS, Release, Settings, read_settings
from tests.support.web_servers import FileServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    program: str
    says: str
    fits: bool
    file: str = ""


CASES = [
    Case(name="a component of the same minor fits", program="kube-apiserver", says="Kubernetes v1.36.0", fits=True),
    Case(name="a component of another minor does not", program="kube-apiserver", says="Kubernetes v1.35.3", fits=False),
    Case(name="kubectl one minor below fits", program="kubectl", says="Client Version: v1.35.9", fits=True),
    Case(name="kubectl one minor above fits", program="kubectl", says="Client Version: v1.37.0-rc.1", fits=True),
    Case(name="kubectl two minors away does not", program="kubectl", says="Client Version: v1.34.0", fits=False),
    Case(name="etcd 3.5 fits", program="etcd", says="etcd Version: 3.5.0\nGit SHA: a1.2.3", fits=True),
    Case(name="etcd 3.4 does not", program="etcd", says="etcd Version: 3.4.30", fits=False),
    Case(name="a newer etcd fits", program="etcd", says="etcd Version: 4.0.1", fits=True),
    Case(
        name="a distribution's registry fits under its name",
        program="registry",
        says="docker-registry github.com/distribution/distribution/v3 3.0.0+ds1",
        file="docker-registry",
        fits=True,
    ),
    Case(
        name="a registry that cannot check tokens does not",
        program="registry",
        says="docker-registry github.com/docker/distribution 2.8.2+ds1",
        file="docker-registry",
        fits=False,
    ),
    Case(name="another program named registry does not", program="registry", says="usage: registry", fits=False),
    Case(name="an older kwok does not", program="kwok", says="kwok version v0.7.0 go1.24", fits=False),
    Case(name="a newer kwok fits", program="kwok", says="kwok version v0.9.1 go1.25", fits=True),
    Case(name="Prometheus 2 does not", program="prometheus", says="prometheus, version 2.53.3+ds1 (x)", fits=False),
    Case(name="its promtool does not", program="promtool", says="promtool, version 2.53.3+ds1 (x)", fits=False),
    Case(name="Prometheus 3 fits", program="prometheus", says="prometheus, version 3.0.1 (branch: x)", fits=True),
    Case(name="a kubelet of another minor does not", program="kubelet", says="Kubernetes v1.35.4", fits=False),
    Case(name="another Helm 4 fits", program="helm", says="v4.0.1", fits=True),
    Case(name="Helm 3 does not", program="helm", says="v3.19.0", fits=False),
    Case(name="SOPS 3.9 fits", program="sops", says="sops 3.9.0", fits=True),
    Case(name="an older SOPS does not", program="sops", says="sops 3.8.1 (latest)", fits=False),
]


def install(folder: Path, name: str, script: str) -> Path:
    """Write a program that runs a script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_is_installed_is_used_if_its_version_fits(case: Case, tmp_path: Path) -> None:
    told: list[str] = []
    path = install(tmp_path, case.file or case.program, f"echo '{case.says}'")
    found = find_installed(PROGRAMS[case.program], Settings(cache=tmp_path, search=(tmp_path,)), told.append)
    assert found == (path if case.fits else None)
    assert len(told) == (0 if case.fits else 1)


def test_what_does_not_fit_is_named_and_passed_over(tmp_path: Path) -> None:
    told: list[str] = []
    old = install(tmp_path / "old", "etcd", "echo etcd Version: 3.3.1")
    broken = install(tmp_path / "broken", "etcd", "exit 1")
    good = install(tmp_path / "good", "etcd", "echo etcd Version: 3.6.8")
    settings = Settings(cache=tmp_path, search=(old.parent, broken.parent, tmp_path / "missing", good.parent))
    assert find_installed(PROGRAMS["etcd"], settings, told.append) == good
    assert told == [
        f"{old}: 3.3.1, not used: need 3.5 or newer",
        f"{broken}: unknown version, not used: need 3.5 or newer",
    ]


def test_what_cannot_do_all_that_is_asked_of_it_is_passed_over_for_the_next_place(tmp_path: Path) -> None:
    told: list[str] = []
    debian = install(tmp_path / "debian", "docker-registry", "echo docker-registry distribution 2.8.2+ds1")
    settings = Settings(cache=tmp_path / "cache", search=(debian.parent,))
    built = settings.cache / "bin" / "built-registry-3.1.2-amd64"
    built.mkdir(parents=True)
    assert Binaries(settings, told.append).obtain(["registry"]) == {"registry": built / "registry"}
    assert told == [f"{debian}: 2.8.2, not used: need 3.0 or newer"]


def test_a_folder_that_cannot_be_looked_into_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)  # as root there is no other that cannot be
    settings = Settings(cache=tmp_path, search=(folder, tmp_path))
    path = install(tmp_path, "etcd", "echo 'etcd Version: 3.5.0'")
    assert find_installed(PROGRAMS["etcd"], settings, print) == path


def fill(folder: Path) -> None:
    (folder / "file").write_text("content")


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "bin", print)
    assert cache.find("etcd") is None
    made = cache.obtain("etcd", fill)
    assert (made / "file").read_text() == "content"
    assert cache.obtain("etcd", lambda _: pytest.fail("made twice")) == made


def test_what_fails_half_way_is_not_seen_and_is_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise OSError("no space left")

    cache = Cache(tmp_path, print)
    with pytest.raises(OSError, match="no space left"):
        cache.obtain("etcd", fail)
    assert cache.find("etcd") is None
    assert cache.obtain("etcd", fill).is_dir()


def test_what_a_killed_process_left_behind_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".etcd.partial").mkdir()
    (tmp_path / ".etcd.partial" / "half").touch()
    made = Cache(tmp_path, print).obtain("etcd", fill)
    assert [path.name for path in made.iterdir()] == ["file"]


def test_two_at_once_make_it_once_and_the_second_says_that_it_waits(tmp_path: Path) -> None:
    told: list[str] = []
    waiting, made = threading.Event(), threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        waiting.set()

    def make(folder: Path) -> None:
        second.start()
        assert waiting.wait(60)
        fill(folder)
        made.set()

    def ask() -> None:
        Cache(tmp_path, tell).obtain("etcd", lambda _: pytest.fail("made twice"))
        assert made.is_set()

    second = threading.Thread(target=ask)
    Cache(tmp_path, print).obtain("etcd", make)
    second.join(60)
    assert told == ["waiting for another process to obtain etcd"]


PROGRAM = b"#!/bin/sh\n"
DIGEST = hashlib.sha256(PROGRAM).hexdigest()


def archive_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def release(server: FileServer, *, member: str = "") -> Release:
    return Release(url=f"{server.address}/program", checksum_url=f"{server.address}/sums", member=member)


def test_a_program_is_downloaded_and_may_be_run(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": PROGRAM, "/sums": DIGEST.encode()}
    download(release(file_server), tmp_path / "program")
    assert (tmp_path / "program").read_bytes() == PROGRAM
    assert (tmp_path / "program").stat().st_mode & 0o777 == 0o755


def test_a_program_is_taken_out_of_an_archive(file_server: FileServer, tmp_path: Path) -> None:
    archive = archive_of({"etcd-v3/etcdctl": b"other", "etcd-v3/etcd": PROGRAM})
    sums = f"{'0' * 64}  other\n{hashlib.sha256(archive).hexdigest()} *program\n"
    file_server.files |= {"/program": archive, "/sums": sums.encode()}
    download(release(file_server, member="etcd-v3/etcd"), tmp_path / "etcd")
    assert (tmp_path / "etcd").read_bytes() == PROGRAM
    assert [path.name for path in tmp_path.iterdir()] == ["etcd"]


def test_a_program_with_a_wrong_checksum_is_not_kept(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": b"something else", "/sums": DIGEST.encode()}
    with pytest.raises(DownloadError, match=f"published is {DIGEST}; not used"):
        download(release(file_server), tmp_path / "program")
    assert not list(tmp_path.iterdir())


def test_an_archive_without_the_program_is_refused(file_server: FileServer, tmp_path: Path) -> None:
    archive = archive_of({"other": b""})
    file_server.files |= {"/program": archive, "/sums": hashlib.sha256(archive).hexdigest().encode()}
    with pytest.raises(DownloadError, match="'etcd' not found"):
        download(release(file_server, member="etcd"), tmp_path / "etcd")


def test_nothing_is_downloaded_without_a_published_checksum(file_server: FileServer, tmp_path: Path) -> None:
    file_server.files |= {"/program": PROGRAM}
    with pytest.raises(DownloadError, match="/sums: 404 Not Found"):
        download(release(file_server), tmp_path / "program")
    assert file_server.requested == ["/sums"]


def test_a_refused_connection_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/program"
        with pytest.raises(DownloadError, match="Connection refused"):
            download(Release(url=url, checksum_url=url), tmp_path / "program")


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "FIRST_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/program"
        begun = time.monotonic()
        with pytest.raises(DownloadError):
            download(Release(url=url, checksum_url=url), tmp_path / "program")
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    "text",
    ["", "no digest here", f"{DIGEST}  another-program\n", "abc  program\n"],
    ids=["an empty file", "another text", "the digest of another file", "half a digest"],
)
def test_a_checksum_file_without_the_digest_is_refused(text: str) -> None:
    with pytest.raises(DownloadError, match="no SHA-256 of program is published"):
        find_checksum(text, "https://releases.example/v1/program")


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


def refuse(_folder: Path, _settings: Settings, _tell: Tell) -> None:
    raise BuildError("Go is not installed")


def make_all(folder: Path, _settings: Settings, _tell: Tell) -> None:
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
    tmp_path: Path, file_server: FileServer, told: list[str]
) -> None:
    binaries = Binaries(settings(tmp_path, file_server), told.append, builds={"control-plane": make_all})
    found = binaries.obtain(["kubectl", "kube-apiserver"])
    assert all(path.exists() for path in found.values())
    assert told[1:] == [
        f"kubectl could not be downloaded: {file_server.address}{PATH}/kubectl.sha256: 404 Not Found",
        "building kubectl, kube-apiserver from Go modules, once: takes minutes",
    ]
    assert len(file_server.requested) == 1, "once one program of a part is missing, the others are not asked for"


def test_what_cannot_be_had_at_all_is_told_with_the_ways_to_get_it(
    tmp_path: Path, file_server: FileServer, told: list[str]
) -> None:
    binaries = Binaries(settings(tmp_path, file_server), told.append, builds={"registry": refuse})
    with pytest.raises(MissingError, match=r"^registry: not on PATH .* \(Go is not installed\); install Go or"):
        binaries.obtain(["registry"])


def test_without_builds_the_addresses_that_failed_are_named(
    tmp_path: Path, file_server: FileServer, told: list[str]
) -> None:
    with pytest.raises(MissingError) as raised:
        Binaries(settings(tmp_path, file_server), told.append).obtain(["kubectl", "etcd", "registry"])
    assert str(raised.value) == (
        "kubectl, etcd, registry: not on PATH or in KUBEBUILDER_ASSETS, and not downloaded "
        f"({file_server.address}{PATH}/kubectl.sha256: 404 Not Found; "
        f"{file_server.address}/v3.1.2/registry_3.1.2_linux_amd64.tar.gz.sha256: 404 Not Found); "
        "allow the downloads, install what is missing, or run hack/demo in a clone of RukPak, which builds it"
    )
    assert told == ["downloading kubectl 1.36.3", "downloading registry 3.1.2"]


def test_builds_run_in_the_order_in_which_they_share_most(
    tmp_path: Path, file_server: FileServer, told: list[str]
) -> None:
    built: list[str] = []

    def build(part: str, _folder: Path, _settings: Settings, _tell: Tell) -> None:
        built.append(part)

    builds = {part: partial(build, part) for part in ("control-plane", "registry", "kwok")}
    given = replace(settings(tmp_path, file_server), kwok_releases=file_server.address)
    Binaries(given, told.append, builds=builds).obtain(["kwok", "registry", "etcd"])
    assert built == ["control-plane", "registry", "kwok"]


def test_versions_and_addresses_come_from_the_environment() -> None:
    environment = {"RUKPAK_KUBERNETES_VERSION": "v1.35.1", "RUKPAK_ETCD_RELEASES": "https://mirror.example/etcd/"}
    settings = read_settings(environment)
    assert settings.kubernetes_version == "1.35.1"
    assert settings.etcd_releases == "https://mirror.example/etcd"


@pytest.mark.parametrize(("minor", "version"), KUBERNETES_RELEASES.items())
def test_a_minor_version_of_kubernetes_is_one_of_its_releases(minor: str, version: str) -> None:
    assert version.startswith(f"{minor}.")
    assert read_settings({"RUKPAK_KUBERNETES_VERSION": minor}).kubernetes_version == version


def test_the_folder_of_assets_goes_before_the_path() -> None:
    settings = read_settings({"KUBEBUILDER_ASSETS": "/assets", "PATH": "/one:/two:/one"})
    assert settings.search == (Path("/assets"), Path("/one"), Path("/two"))


def test_the_cache_is_where_the_environment_says() -> None:
    assert read_settings({"RUKPAK_CACHE": "/a", "XDG_CACHE_HOME": "/b"}).cache == Path("/a")
    assert read_settings({"XDG_CACHE_HOME": "/b"}).cache == Path("/b/rukpak")
    assert read_settings({}).cache == Path.home() / ".cache/rukpak"
