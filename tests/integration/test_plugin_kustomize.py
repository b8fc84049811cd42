"""rukpak-kustomize, installed by pip beside RukPak: its own tests, and bundles on a real control plane."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.cluster import Cluster
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, image, new_world
from tests.support.controller import Controller
from tests.support.other_programs import obtain_kustomize
from tests.support.packages import Environment, Install
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(600), pytest.mark.long, pytest.mark.thorough]
FORMAT = "kustomize.rukpak.io/v1"
PACKAGE = ROOT / "hack" / "plugins" / "kustomize"
BUNDLE = {
    "base/kustomization.yaml": b"""
resources: [account.yaml]
configMapGenerator: [{name: settings, literals: [color=red, size=big]}]
secretGenerator: [{name: access, envs: [access.env]}]
""",
    "base/account.yaml": b"""
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
imagePullSecrets: [{name: access}]
""",
    "base/access.env": b"password=hunter2\n",
    "overlays/blue/kustomization.yaml": b"""
namePrefix: blue-
resources: [../../base]
configMapGenerator: [{name: settings, behavior: merge, literals: [color=blue]}]
patches: [{target: {kind: ServiceAccount}, patch: '[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]'}]
""",
}


@pytest.fixture(scope="module")
def environment(environment_with: Install) -> Environment:
    """RukPak and the package."""
    return environment_with(PACKAGE)


@pytest.fixture(scope="module")
def path(environment: Environment, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH with the kubectl of the control plane first, then what the environment has."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "kubectl").symlink_to(binaries.obtain(["kubectl"])["kubectl"])
    return os.pathsep.join(map(str, (folder, environment.folder / "bin", os.environ["PATH"])))


@pytest.fixture(scope="module")
def shared_world(
    cluster: Cluster, registry: LocalRegistry, settings: Settings, environment: Environment, path: str
) -> Iterator[World]:
    """A world whose controller has the package."""

    def make(folder: Path, kubeconfig: Path, *options: str, **_: Mapping[str, str]) -> Controller:
        return environment.controller(folder, kubeconfig, *options, environment={"PATH": path})

    with new_world(cluster, registry, settings.running, "--workers=1", make=make) as world:
        yield world


def test_its_own_tests_pass(environment: Environment, path: str) -> None:
    environment.test(PACKAGE, variables={"PATH": path})


def test_kustomize_comes_before_kubectl(environment: Environment, path: str, settings: Settings) -> None:
    kustomize = obtain_kustomize(settings)
    variables = {"PATH": f"{kustomize.parent}{os.pathsep}{path}"}
    find = "print(KustomizeFormat().find_program(Means(scratch=Path.cwd(), confinement_required=False)).path)"
    imports = "from pathlib import Path; from rukpak.plugins import Means; from rukpak_kustomize import KustomizeFormat"
    found = environment.run("python", "-c", f"{imports}; {find}", variables=variables)
    assert found.stdout.strip() == str(kustomize.resolve())
    environment.test(PACKAGE, "-k", "test_kustomize.py", variables=variables)


def test_an_overlay_is_installed_upgraded_and_removed(world: World) -> None:
    bundle = world.deploy(BUNDLE, format=FORMAT, config={"path": "overlays/blue"})
    before = bundle.wait_ready()["installedRevision"]
    [(old, settings)] = bundle.objects().items()
    assert old.startswith("blue-settings-")
    assert settings["data"] == {"color": "blue", "size": "big"}
    account = bundle.get("blue-web", "serviceaccounts")
    assert account is not None
    assert account["metadata"]["labels"]["a"] == "b"
    secret = bundle.get(account["imagePullSecrets"][0]["name"], "secrets")
    assert secret is not None
    assert secret["data"] == {"password": "aHVudGVyMg=="}

    path = "overlays/blue/kustomization.yaml"
    changed = BUNDLE | {path: BUNDLE[path].replace(b"color=blue", b"color=navy")}
    bundle.change(sources=[image(world.push(bundle.name, changed, tag="v2"))])
    bundle.wait_installed(before)
    [(new, settings)] = bundle.objects().items()
    assert new != old
    assert settings["data"]["color"] == "navy"
    assert bundle.get(old) is None

    bundle.delete()
    bundle.wait_gone()
    assert bundle.get("blue-web", "serviceaccounts") is None


def test_what_was_installed_stays_if_a_base_becomes_remote(world: World) -> None:
    bundle = world.deploy(BUNDLE, format=FORMAT, config={"path": "base"})
    bundle.wait_ready()
    remote = BUNDLE | {"base/kustomization.yaml": b"resources: [github.com/example/repository?ref=v1]"}
    bundle.change(sources=[image(world.push(bundle.name, remote, tag="v2"))])
    refused = bundle.wait_for("Installed", "False", "InvalidBundle")
    place = 'base/kustomization.yaml: resources[0]: "github.com/example/repository?ref=v1"'
    assert f"{place} is remote, and is not fetched" in refused["message"]
    assert bundle.get("web", "serviceaccounts") is not None


def test_a_failure_of_kustomize_names_the_file(world: World) -> None:
    patch = b"patches: [{path: gone.yaml}]"
    bundle = world.deploy({"kustomization.yaml": patch}, format=FORMAT)
    bundle.wait_for("Installed", "False", "InvalidBundle", 'kustomization.yaml: patches[0].path: "gone.yaml" does not')
    unknown = {"kustomization.yaml": b"resuorces: []"}
    bundle.change(sources=[image(world.push(bundle.name, unknown, tag="v2"))])
    message = 'kustomization.yaml: invalid Kustomization: json: unknown field "resuorces"'
    bundle.wait_for("Installed", "False", "InvalidBundle", message)
