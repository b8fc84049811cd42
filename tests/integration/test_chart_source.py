"""Charts from chart repositories and registries: chosen as Helm does, and installed, followed and shared."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Credentials
from tests.support.bundles import Deployed, World, new_name
from tests.support.charts import (
    CHART,
    CHART_CONFIG,
    VERSIONS,
    entry_of,
    index_of,
    packed_chart,
    repository_of,
)
from tests.support.inside import source_of
from tests.support.private_sources import BASIC, PASSWORD, USER, Authority, secret_manifest
from tests.support.registry import MANIFEST, LocalRegistry, RegistryClient, digest_of
from tests.support.web_servers import FaultyServer

pytestmark = pytest.mark.timeout(300)


def put(server: FaultyServer, files: dict[str, bytes], **options: object) -> None:
    """Serve files, each with a tag that changes with it."""
    for path, body in files.items():
        server.add(path, body, **{"tag": f'"{hash(body)}"', **options})


# Helm


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def charts(authority: Authority) -> Iterator[FaultyServer]:
    """A repository over https that wants a password, with one chart in all versions."""
    with FaultyServer(authority.server_context()) as server:
        put(server, repository_of("web", *VERSIONS), authorization=BASIC)
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = str(tmp_path_factory.mktemp("helm"))
    return {**os.environ, **dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"), folder)}


def by_helm(helm: Path, charts: FaultyServer, authority: Authority, text: str, home: dict[str, str]) -> str | None:
    login = [f"--username={USER}", f"--password={PASSWORD}", f"--ca-file={authority.folder / 'ca.crt'}"]
    return run_helm([str(helm), "template", "web", "--repo", charts.address, f"--version={text}", *login], home)


def run_helm(command: list[str], home: dict[str, str]) -> str | None:
    """Return the version that is rendered; None if Helm finds none."""
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)
    chosen = [line for line in done.stdout.splitlines() if line.startswith("data: ")]
    return chosen[0].split('"')[1] if chosen else None


def by_us(charts: FaultyServer, authority: Authority, text: str, scratch: Path) -> str | None:
    parameters = {"repository": charts.address, "certificateData": authority.pem, "version": text}
    return resolve(parameters, scratch, Credentials(username=USER, password=PASSWORD))


def resolve(
    parameters: dict[str, str], scratch: Path, credentials: Credentials | None = None, **means: Any
) -> str | None:
    """Return the version that a source is resolved to; None for none."""
    source, parameters = source_of("chart"), {**parameters, "name": "web"}
    if source.validate(parameters, "spec.sources[0].chart"):
        return None
    access = Access(
        path="spec.sources[0].chart",
        deadline=time.monotonic() + 20,
        cancelled=threading.Event(),
        scratch=scratch,
        credentials=credentials,
        **means,
    )
    try:
        pinned = source.resolve(parameters, access).pinned
    except BundleError:
        return None
    return pinned.partition("@")[0].rpartition(":")[2]


SOME_RANGES = ["1.2.3", "=1.2.3", "1.x", "~1.2", "~1.2.4-0", "foo"]
"""Of those that test_versions.py compares."""


@pytest.mark.parametrize("text", ["", *SOME_RANGES])
def test_the_version_that_helm_chooses_is_chosen(
    text: str, *, helm_4: Path, charts: FaultyServer, authority: Authority, home: dict[str, str], tmp_path: Path
) -> None:
    assert by_us(charts, authority, text, tmp_path) == by_helm(helm_4, charts, authority, text, home)


def test_an_index_is_read_in_a_place_for_what_computes_long(authority: Authority, tmp_path: Path) -> None:
    places: list[str] = []

    @contextmanager
    def _place() -> Iterator[None]:
        places.append("taken")
        yield
        places.append("left")

    with FaultyServer(authority.server_context()) as server:
        put(server, repository_of("web", *VERSIONS))
        parameters = {"repository": server.address, "certificateData": authority.pem, "version": ""}
        assert resolve(parameters, tmp_path, computing=_place)
    assert places == ["taken", "left"]


@pytest.fixture(scope="module")
def pushed(
    helm_4: Path, registry: LocalRegistry, home: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A folder of a registry with one chart in all versions, of which Helm has pushed those that are no tags."""
    folder, repository = tmp_path_factory.mktemp("packed"), f"oci://{registry.host}/{new_name()}"
    for version in VERSIONS:
        push_chart(registry, f"{repository.rpartition('/')[2]}/web", version)
    for version in WITH_BUILD:
        archive = folder / f"web-{version}.tgz"
        archive.write_bytes(packed_chart("web", version))
        subprocess.run(
            [str(helm_4), "push", "--plain-http", str(archive), repository], env=home, capture_output=True, check=True
        )
    return repository


WITH_BUILD = ["0.5.0+build.1"]
BY_TAG = {"v1.2.3": "1.2.3", "1": "1.10.0", "1.2": "1.2.3"}
"""What Helm takes for a tag, which it does not look for among the versions; in a repository with an index it does."""


@pytest.mark.parametrize("text", [*SOME_RANGES, *BY_TAG, *WITH_BUILD, "~0.5", ""])
def test_the_version_that_helm_chooses_in_a_registry_is_chosen(
    text: str, helm_4: Path, pushed: str, home: dict[str, str], tmp_path: Path
) -> None:
    by_helm_there = run_helm([str(helm_4), "template", f"{pushed}/web", "--plain-http", f"--version={text}"], home)
    assert by_helm_there is None or text not in BY_TAG
    expected = BY_TAG.get(text, by_helm_there)
    assert resolve({"repository": pushed, "version": text}, tmp_path) == expected


# a controller


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A world, and a repository over https that wants a password."""

    world: World
    server: FaultyServer
    authority: Authority

    def publish(self, name: str, *versions: str) -> None:
        """Have these versions of the only chart of a repository, in a folder of its name."""
        put(self.server, repository_of("web", *versions, folder=f"/{name}"), authorization=BASIC)

    def source(self, folder: str, **fields: Any) -> dict[str, Any]:
        """Return the entry of the spec for the chart in a folder."""
        poll = {"pollInterval": fields.pop("pollInterval")} if "pollInterval" in fields else {}
        chart = {"repository": f"{self.server.address}/{folder}", "name": "web", **fields}
        login = {"secret": {"name": "login"}}
        return {"kind": "chart", **poll, "chart": {**chart, "certificateData": self.authority.pem, "auth": login}}

    def deploy(self, name: str, **fields: Any) -> Deployed:
        """Apply a BundleDeployment of that chart, and its login."""
        self.make_login(name)
        return self.world.deploy(name=name, ref="-", format="helm", sources=[self.source(name, **fields)])

    def make_login(self, namespace: str) -> None:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        self.world.client.apply(f"/api/v1/namespaces/{namespace}", body, manager="tests", force=True)
        body = secret_manifest(namespace, "login", {"username": USER, "password": PASSWORD})
        self.world.client.apply(f"/api/v1/namespaces/{namespace}/secrets/login", body, manager="tests", force=True)

    def asked(self, path: str) -> list[str | None]:
        """Return the tags that requests for a path were conditional on."""
        return [seen.headers.get("If-None-Match") for seen in self.server.requests if seen.path == path]


@pytest.fixture(scope="module")
def shop(shared_world: World, authority: Authority) -> Iterator[Shop]:
    with FaultyServer(authority.server_context()) as server:
        yield Shop(world=shared_world, server=server, authority=authority)


def test_a_range_is_followed_upwards_and_downwards_only_as_the_spec_says(shop: Shop) -> None:
    name = new_name()
    shop.publish(name, "1.0.0", "1.2.0", "2.0.0")
    deployed = shop.deploy(name, version="1.x")
    before = deployed.wait_ready()
    assert deployed.data("settings") == {"version": "1.2.0", "chart": "web"}
    [pin] = before["sources"]
    assert pin["resolved"] == f"{shop.server.address}/{name}/web:1.2.0@{pin['digest']}"
    assert (pin["kind"], pin["version"]) == ("chart", "1.2.0")

    shop.publish(name, "1.0.0", "1.2.0", "1.3.0", "2.0.0")
    deployed.request_reconcile("again")
    before = deployed.wait_installed(before["installedRevision"])
    assert (deployed.data("settings") or {})["version"] == "1.3.0"
    assert shop.asked(f"/{name}/web-2.0.0.tgz") == []

    shop.publish(name, "1.0.0")
    deployed.request_reconcile("once more")
    found = deployed.wait_for("Installed", "False", "Downgrade")
    assert 'the range leads to "1.0.0", which is lower than "1.3.0"' in found["message"]
    deployed.change(allowDowngrade=True)
    before = deployed.wait_installed(before["installedRevision"])
    assert (deployed.data("settings") or {})["version"] == "1.0.0"

    # What the spec names is no downgrade.
    shop.publish(name, "1.0.0", "1.2.0")
    deployed.change(allowDowngrade=False, sources=[shop.source(name, version="1.2.0")])
    before = deployed.wait_installed(before["installedRevision"])
    assert "version" not in before["sources"][0]
    deployed.change(sources=[shop.source(name, version="1.0.0")])
    deployed.wait_installed(before["installedRevision"])


def test_what_is_wrong_is_told(shop: Shop) -> None:
    name = new_name()
    shop.publish(name, "1.0.0", "1.1.0", "1.2.0", "1.3.0")
    deployed = shop.deploy(name, version=">=2")
    near = 'no version in the range ">=2"; the nearest are "1.3.0", "1.2.0", "1.1.0"'
    deployed.wait_for("Unpacked", "False", "NotFound", near)
    deployed.change(sources=[shop.source(name, name="wbe")])
    deployed.wait_for("Unpacked", "False", "NotFound", 'has no chart "wbe"; similar names are "web"')
    without = shop.source(name)
    del without["chart"]["auth"]
    deployed.change(sources=[without])
    deployed.wait_for("Unpacked", "False", "Unauthorized", "denies access to")


def test_dependencies_that_are_not_packed_are_named(shop: Shop) -> None:
    name = new_name()
    more = "dependencies:\n- {name: common, version: 2.x.x, repository: 'https://charts.example.com'}\n"
    archive = packed_chart("web", "1.0.0", more=more)
    files = {f"/{name}/index.yaml": index_of([entry_of("web", "1.0.0", archive)]), f"/{name}/web-1.0.0.tgz": archive}
    put(shop.server, files, authorization=BASIC)
    deployed = shop.deploy(name)
    deployed.wait_for("Installed", "False", saying="missing dependencies in charts/: common")


def test_a_chart_of_a_registry_is_installed_and_followed(shop: Shop) -> None:
    name = new_name()
    registry = shop.world.registry
    push_chart(registry, f"{name}/web", "1.0.0")
    source = {"kind": "chart", "chart": {"repository": f"oci://{registry.host}/{name}", "name": "web", "version": "^1"}}
    deployed = shop.world.deploy(name=name, ref="-", format="helm", sources=[source])
    before = deployed.wait_ready()
    [pin] = before["sources"]
    assert pin["resolved"] == f"oci://{registry.host}/{name}/web:1.0.0@{pin['digest']}"
    assert (pin["version"], pin["digest"]) == ("1.0.0", digest_of(packed_chart("web", "1.0.0")))
    push_chart(registry, f"{name}/web", "1.1.0")
    deployed.request_reconcile("again")
    deployed.wait_installed(before["installedRevision"])
    assert deployed.data("settings") == {"version": "1.1.0", "chart": "web"}


def push_chart(registry: RegistryClient, name: str, version: str) -> None:
    config = registry.push_blob(name, CHART_CONFIG, f'{{"name": "web", "version": "{version}"}}'.encode())
    layer = registry.push_blob(name, CHART, packed_chart("web", version))
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config.as_json(), "layers": [layer.as_json()]}
    registry.push_manifest(name, version, manifest)


COUNT = 30
SHORTEST, LONGEST = 27.0, 33.0
"""Seconds between two polls: 30, more or less a tenth."""
OWN_NAME = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n"


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_index_is_asked_for_once_per_poll_whoever_uses_it(shop: Shop) -> None:
    repository = new_name()
    path = f"/{repository}/index.yaml"

    def publish(*versions: str) -> None:
        archives = {version: packed_chart("web", version, template=OWN_NAME) for version in versions}
        files = {f"/{repository}/web-{version}.tgz": archive for version, archive in archives.items()}
        files[path] = index_of(entry_of("web", version, archive) for version, archive in archives.items())
        put(shop.server, files, authorization=BASIC)

    publish("1.0.0")
    shop.make_login(repository)
    deployed = [
        shop.world.deploy(
            name=f"{repository}-{number}",
            ref="-",
            format="helm",
            installNamespace=repository,
            sources=[shop.source(repository, pollInterval="30s")],
        )
        for number in range(COUNT)
    ]
    for each in deployed:
        each.wait_ready()

    start, before = time.monotonic(), len(shop.asked(path))
    shop.world.wait(lambda: time.monotonic() > start + 3 * LONGEST, "three polls of each", 4 * LONGEST)
    asked = shop.asked(path)
    assert 3 <= len(asked) - before <= 3 * LONGEST / SHORTEST + 1
    assert asked.count(None) == 1

    publish("1.0.0", "1.1.0")
    for each in deployed:
        shop.world.wait(lambda: each.status()["sources"][0]["version"] == "1.1.0", each.name)  # noqa: B023
    asked_for = [seen.method for seen in shop.server.requests if seen.path == f"/{repository}/web-1.1.0.tgz"]
    assert asked_for.count("GET") == 1
    assert 1 <= asked_for.count("HEAD") <= 2 * LONGEST / SHORTEST + 1
    shop.world.client.delete(f"/api/v1/namespaces/{repository}")
