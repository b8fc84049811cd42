"""`rukpak package`: a folder becomes an image in a real registry, with and without credentials."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rukpak.controller.playground.binaries import Binaries
from tests.support.bundles import World, config_map, image, new_name
from tests.support.controller import Rukpak, command
from tests.support.private_sources import PASSWORD, USER, Authority, GuardedRegistry, TokenServer, password_auth
from tests.support.registry import LocalRegistry

CHART = b"apiVersion: v2\nname: shop\nversion: 1.0.0\n"


@pytest.fixture
def rukpak(world: World) -> Rukpak:
    return command(world.cluster.kubeconfig)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifests = tmp_path / "shop" / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "settings.json").write_text(json.dumps(config_map("settings", color="blue")))
    return manifests.parent


def digest_in(printed: str) -> str:
    return printed.strip().rpartition("@")[2]


def test_a_folder_is_pushed_and_installed(
    world: World, registry: LocalRegistry, rukpak: Rukpak, folder: Path, tmp_path: Path
) -> None:
    ref = f"{registry.host}/{new_name()}:v1"
    pushed = rukpak("package", str(folder), ref).stdout
    assert pushed.startswith(f"pushed {ref}@sha256:")
    assert pushed.endswith(", which renders 1 object\n")
    deployed = world.deploy(sources=[image(ref)])
    deployed.wait_ready()
    assert deployed.data("settings") == {"color": "blue"}

    # The same files elsewhere are the same image, and the registry has its blobs.
    copy = tmp_path / "copy"
    (copy / "manifests").mkdir(parents=True)
    (copy / "manifests" / "settings.json").write_bytes((folder / "manifests" / "settings.json").read_bytes())
    before = len(registry.log)
    again = rukpak("package", str(copy), ref, "-o", "name").stdout
    assert digest_in(again) in pushed
    assert not [line for line in registry.log[before:] if "POST" in line]


@pytest.mark.parametrize(
    ("format_name", "says"),
    [("helm", "Chart.yaml"), ("registry-v1", "metadata"), ("plain", "manifests/broken.yaml")],
)
def test_what_would_not_render_is_not_pushed(
    registry: LocalRegistry, rukpak: Rukpak, folder: Path, format_name: str, says: str
) -> None:
    if format_name == "plain":
        (folder / "manifests" / "broken.yaml").write_text("kind: [")
    before = registry.log
    refused = rukpak("package", str(folder), f"{registry.host}/{new_name()}:v1", "--format", format_name, status=1)
    assert says in refused.stderr
    assert registry.log == before


def test_a_chart_is_rendered_with_its_config_and_pushed(
    world: World, registry: LocalRegistry, rukpak: Rukpak, tmp_path: Path
) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_bytes(CHART)
    template = {**config_map("settings"), "data": {"color": "{{ required `no color` .Values.color }}"}}
    (chart / "templates" / "settings.yaml").write_text(json.dumps(template))
    ref = f"{registry.host}/{new_name()}:v1"
    assert "no color" in rukpak("package", str(chart), ref, "--format", "helm", status=1).stderr

    (tmp_path / "config.yaml").write_text("values: {color: green}")
    rukpak("package", str(chart), ref, "--format", "helm", "--config", str(tmp_path / "config.yaml"))
    deployed = world.deploy(sources=[image(ref)], format="helm", config={"values": {"color": "green"}})
    deployed.wait_ready()
    assert deployed.data("settings") == {"color": "green"}


@pytest.mark.parametrize("ref", ["{host}/x", "{host}/x@sha256:" + 64 * "0", "{host}/UPPER:v1", "https://{host}/x:v1"])
def test_only_a_tag_is_pushed_to(registry: LocalRegistry, rukpak: Rukpak, folder: Path, ref: str) -> None:
    given = ref.format(host=registry.host)
    done = rukpak("package", str(folder), given, "-o", "name", status=0 if given.endswith("/x") else 2)
    assert done.stdout.startswith(f"{given}:latest@") if given.endswith("/x") else "image reference" in done.stderr


# registries that ask who pushes


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=["password", "token"])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, binaries: Binaries, authority: Authority
) -> Iterator[GuardedRegistry]:
    program = binaries.obtain(["registry"])["registry"]
    folder, content = tmp_path_factory.mktemp("registry"), tmp_path_factory.mktemp("content")
    with TokenServer(authority) as tokens:
        auth: Callable[[Path], dict[str, Any]] = password_auth if request.param == "password" else tokens.auth
        with GuardedRegistry(folder, program, content, authority, auth(folder)) as started:
            yield started


def test_credentials_of_a_docker_configuration_and_of_the_command_line(
    guarded: GuardedRegistry, authority: Authority, rukpak: Rukpak, folder: Path, tmp_path: Path
) -> None:
    trust = ["--certificate-authority", str(authority.folder / "ca.crt"), "-o", "name"]
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {guarded.host: {"auth": login}}, "credsStore": "none"}))
    by_file = rukpak("package", str(folder), f"{guarded.host}/a:v1", *trust, "--registry-config", str(config))
    by_stdin = rukpak("package", str(folder), f"{guarded.host}/b:v1", *trust, "--username", USER, stdin=f"{PASSWORD}\n")
    assert digest_in(by_file.stdout) == digest_in(by_stdin.stdout)
    assert PASSWORD not in by_file.stderr + by_stdin.stderr


@pytest.mark.repeats
def test_refusals_name_the_remedy(
    guarded: GuardedRegistry, authority: Authority, rukpak: Rukpak, folder: Path, tmp_path: Path
) -> None:
    trust = ["--certificate-authority", str(authority.folder / "ca.crt")]
    ref = f"{guarded.host}/refused:v1"
    empty = tmp_path / "config.json"
    empty.write_text('{"credsStore": "desktop"}')

    assert "without credentials; log in" in rukpak("package", str(folder), ref, *trust, status=1).stderr
    wrong = rukpak("package", str(folder), ref, *trust, "--username", USER, stdin="wrong\n", status=1)
    assert "with these credentials; correct them" in wrong.stderr
    assert "requires the password on stdin" in rukpak("package", str(folder), ref, "--username", USER, status=2).stderr
    helpers = rukpak("package", str(folder), ref, *trust, "--registry-config", str(empty), status=2)
    assert "credential helpers are not run" in helpers.stderr
    untrusted = rukpak("package", str(folder), ref, "--username", USER, stdin=f"{PASSWORD}\n", status=1)
    assert untrusted.stderr.startswith("TLSVerificationFailed: image")
