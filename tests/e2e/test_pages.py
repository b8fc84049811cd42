"""Pages: every command is run as it stands there, in order, or listed with the reason why not.

What comes back is what the page shows in the pages that are a story; of the others, commands only have to succeed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rukpak.controller.playground.binaries import Binaries
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import ROOT, World, config_map
from tests.support.charts import files_of
from tests.support.instructions import Step, list_commands, pattern_of, read_steps, run, run_at_terminal, steps_of
from tests.support.other_programs import UnavailableError, helm, obtain_oras
from tests.support.private_sources import PASSWORD, PrivateSources, serve_private_sources
from tests.support.registry import LocalRegistry

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
CONFIG = ROOT / "config"
BUNDLE = ROOT / "hack/demonstration/bundle"
PAGES = [
    ROOT / "README.md",
    *sorted(CONFIG.glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("controller", "controller/cli", "hack", "api")),
]
DOCKER, CLUSTER = "needs docker", "changes the cluster for all: tests/integration/test_install_controller.py runs it"
UNINSTALL = "removes RukPak from the cluster: tests/integration/test_uninstall.py runs it"
FOREIGN = "needs a cluster with that system: tests/integration/test_migration.py has its objects"
TESTS, ENDLESS = "runs tests, of which this is one", "does not end by itself"
PLANE = "starts or stops a control plane: tests/integration/test_cluster.py runs it"
NODE = "needs a real node: tests/node/test_cluster.py has one"
FUZZ, DEMO = "takes minutes, and shows nothing unless something is found", "tests/e2e/test_demo.py runs it"
NOT_RUN: Mapping[str, Mapping[str, str]] = {
    "README.md": {
        "hack/demo": DEMO,
        "rukpak ui": ENDLESS,
        "docker build -t REGISTRY/rukpak:0.1.0 . && docker push REGISTRY/rukpak:0.1.0": DOCKER,
        "hack/test": TESTS,
        "pipx install '.[helm,ui]'": "needs the internet",
        "rukpak install-controller --image REGISTRY/rukpak:0.1.0 --wait": CLUSTER,
        'sed "s|image: rukpak:|image: REGISTRY/rukpak:|" config/install.yaml | kubectl apply -f -': CLUSTER,
        "helm install rukpak config/chart --namespace rukpak-system --create-namespace "
        "--set image.repository=REGISTRY/rukpak": CLUSTER,
    },
    "config/README.md": {
        "pip install '.[helm]'": "needs the internet",
        "rukpak run": ENDLESS,
    },
    "config/migration.md": {
        "kubectl rukpak adopt foo -f foo.yaml --from flux/apps": FOREIGN,
        "kubectl --namespace NAMESPACE delete subscriptions.operators.coreos.com SUBSCRIPTION": FOREIGN,
        "kubectl --namespace NAMESPACE delete csv NAME --cascade=orphan": FOREIGN,
        "kubectl delete clusterextension NAME --cascade=orphan --ignore-not-found": FOREIGN,
        "kubectl get bundledeployments --output name | xargs -I {} kubectl patch {} --type merge "
        """-p '{"metadata":{"finalizers":null}}'""": UNINSTALL,
        "kubectl delete bundledeployments --all --cascade=orphan": UNINSTALL,
        "kubectl delete crd bundledeployments.core.rukpak.io": UNINSTALL,
    },
    "controller/cli/README.md": {
        "kubectl rukpak adopt foo -f foo.yaml --from helm/foo": "needs a release of Helm: migration.md has one",
        "kubectl rukpak events foo -w": ENDLESS,
        "kubectl rukpak ui": ENDLESS,
        "kubectl rukpak uninstall --keep": UNINSTALL,
    },
    "hack/README.md": {
        "hack/test": TESTS,
        "hack/test --all": TESTS,
        "hack/test unit -k archive": TESTS,
        "hack/test integration tests/integration/test_crd.py": TESTS,
        "hack/test integration --kubeconfig ~/.kube/config": TESTS,
        "hack/test integration --kubernetes 1.35": TESTS,
        "hack/test unit --python 3.13": TESTS,
        "hack/test unit --dependencies oldest": TESTS,
        "hack/cluster up": PLANE,
        "hack/cluster up --node": PLANE,
        "kubectl create deployment web --image localhost/tiny:1 -- /tiny serve": NODE,
        "hack/cluster exec rukpak ctr -n k8s.io images import - < image.tar": NODE,
        'eval "$(hack/cluster env)"': PLANE,
        "hack/cluster down": PLANE,
        "hack/run": ENDLESS,
        "hack/fuzz tar yaml --seconds 600": FUZZ,
        "hack/fuzz --seconds 60": FUZZ,
        "hack/demo": DEMO,
        "hack/demo --keep": DEMO,
        "hack/demo --node": "tests/node/test_demo_on_node.py runs it",
        "hack/demo --kubeconfig ~/.kube/config": DEMO,
    },
}
"""Commands by page, without comments: why they are not run."""
IN_STORIES = {
    "README.md": [*steps_of(PAGES[0].read_text(encoding="utf-8").partition("\n## ")[0])],  # tests/e2e/test_install.py
    **{
        f"config/{name}.md": read_steps(CONFIG / f"{name}.md") for name in ("bundles", "migration", "runbooks", "waves")
    },
}
"""Commands by page whose output is compared, too."""
PATCH = "kubectl patch bd NAME --type=merge -p"
READY = "kubectl wait --for=condition=Ready bd/NAME --timeout=2m"
WAITING = (
    f"""{PATCH} '{{"spec":{{"approval":"Manual","pinnedRevision":null}}}}' && """
    """kubectl wait bd/NAME --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=AwaitingApproval"""
)
LABELS = """'{"spec":{"processors":[{"kind":"metadata","metadata":{"labels":{"a":"b"}}}]}}'"""
BEFORE = {
    "rukpak rollback shop --wait": f"{READY} && ".replace("NAME", "shop")
    + "sed -i s/hello/bye/ shop/manifests/01_settings.yaml && rukpak install shop ./shop --yes --wait",
    "rukpak approve shop": WAITING.replace("NAME", "shop"),
    "rukpak adopt shop --from kubectl -n shop": "kubectl delete bd shop && kubectl apply -n shop -f shop/manifests",
    "kubectl rukpak rollback foo --wait": f"{READY} && {PATCH} {LABELS} && rukpak status NAME --wait".replace(
        "NAME", "foo"
    ),
    "rukpak rights -f foo.yaml -o yaml | kubectl apply -f -": "kubectl create serviceaccount deployer -n foo && "
    "sed -i 's/format: plain/serviceAccountName: deployer, format: plain/' foo.yaml",
    "kubectl rukpak approve foo": WAITING.replace("NAME", "foo"),
    "kubectl rukpak adopt foo -f foo.yaml --from kubectl": "kubectl apply -n foo -f bundle/manifests",
    "kubectl rukpak adopt foo-v2 -f foo-v2.yaml --from foo-v1": "kubectl delete bd foo && "
    "sed 's/name: foo}/name: foo-v2}/' foo.yaml > foo-v2.yaml && "
    "sed 's/name: foo}/name: foo-v1}/' foo.yaml | kubectl apply -f - && " + READY.replace("NAME", "foo-v1"),
}
"""What a command needs of those before it."""
FOO = """\
apiVersion: core.rukpak.io/v1alpha2
kind: BundleDeployment
metadata: {name: foo}
spec:
  {format: plain, installNamespace: foo, sources: [{kind: image, image: {ref: "quay.io/foo/bar:v1"}}]}
"""


@pytest.fixture(scope="module")
def oras(settings: Settings) -> Path:
    try:
        return obtain_oras(settings)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def sources(tmp_path: Path, registry: LocalRegistry, binaries: Binaries) -> Iterator[PrivateSources]:
    folder = tmp_path / "servers"
    folder.mkdir()
    with serve_private_sources(folder, binaries.obtain(["registry"])["registry"], registry) as served:
        yield served


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """The folder in which a user works."""
    folder = tmp_path / "desk"
    folder.mkdir()
    return folder


@pytest.fixture
def terminal(world: World, binaries: Binaries, desk: Path) -> dict[str, str]:
    """The environment of a user of the cluster."""
    folders = [binaries.obtain(["kubectl"])["kubectl"].parent, Path(sys.executable).parent]
    return os.environ | {
        "KUBECONFIG": str(world.cluster.kubeconfig),
        "KUBECACHEDIR": str(desk.parent / "cache"),
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
    }


@pytest.fixture
def logged_in(terminal: dict[str, str], sources: PrivateSources, oras: Path, desk: Path) -> dict[str, str]:
    """The environment of a user who has a password of the registry, and trusts its authority."""
    (desk / "password.txt").write_text(PASSWORD, encoding="utf-8")
    (desk / "ca.crt").write_text(sources.authority.pem, encoding="ascii")
    return terminal | {
        "SSL_CERT_FILE": str(desk / "ca.crt"),
        "DOCKER_CONFIG": str(desk.parent / "docker"),
        "PATH": f"{oras.parent}{os.pathsep}{terminal['PATH']}",
    }


def follow(steps: list[Step], desk: Path, environment: dict[str, str], registry: str) -> None:
    for step in steps:
        said = run(step, desk, environment, registry)
        assert re.fullmatch(pattern_of(step.output), said), (step.command, said)


@pytest.mark.thorough
def test_a_bundle_is_published_installed_upgraded_and_rolled_back(
    world: World, logged_in: dict[str, str], sources: PrivateSources, desk: Path
) -> None:
    steps = read_steps(CONFIG / "bundles.md")
    try:
        follow(steps, desk, logged_in, sources.registry.host)
    finally:
        world.cluster.kubectl("delete", "bd", "shop", "--ignore-not-found")
        world.cluster.kubectl("delete", "namespace", "shop", "--ignore-not-found", "--wait=false")


@pytest.mark.thorough
def test_a_release_of_helm_is_adopted_without_touching_its_pods(
    world: World, logged_in: dict[str, str], sources: PrivateSources, desk: Path
) -> None:
    kubectl, kubeconfig = world.cluster.kubectl, world.cluster.kubeconfig
    helm("create", str(desk / "blog"))
    new = ["--namespace=blog", "--create-namespace", "--set=image.tag=1.27"]
    helm("install", "blog", str(desk / "blog"), *new, kubeconfig=kubeconfig)
    host = sources.registry.host
    run(Step(f"oras login {host} -u robot --password-stdin < password.txt", ""), desk, logged_in, host)
    files = ["--from-literal=username=robot", f"--from-file={desk}/ca.crt", f"--from-file=password={desk}/password.txt"]
    kubectl("create", "secret", "generic", "login", "--namespace=blog", *files)
    template = ("get", "deployment", "blog", "--namespace=blog", "--output=jsonpath={.metadata.uid} {.spec.template}")
    before = kubectl(*template)
    try:
        follow(read_steps(CONFIG / "migration.md"), desk, logged_in, host)
        assert kubectl(*template) == before
    finally:
        kubectl("delete", "bd", "blog", "--ignore-not-found")
        kubectl("delete", "namespace", "blog", "--ignore-not-found", "--wait=false")


@pytest.mark.thorough
def test_the_commands_of_the_runbooks_work(world: World, terminal: dict[str, str], desk: Path) -> None:
    world.deploy(config_map("settings"), paused=True).wait_for("Paused")
    steps = read_steps(CONFIG / "runbooks.md")
    assert len(steps) > 5
    for step in steps:
        said = run(step, desk, terminal, "none")
        assert not step.output or re.fullmatch(pattern_of(step.output), said)


@pytest.mark.thorough
def test_a_bundle_in_waves_is_shown_in_their_order(terminal: dict[str, str], desk: Path) -> None:
    follow(read_steps(CONFIG / "waves.md"), desk, terminal, "none")


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page that are no part of a story."""
    told = [step.command for step in IN_STORIES.get(name_of(page), [])]
    return [command for command in list_commands(page.read_text(encoding="utf-8")) if command not in told]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def bare(command: str) -> str:
    """Return a command without its comment."""
    return command.partition(" #")[0].strip()


def run_of(page: Path) -> list[str]:
    return [command for command in commands_of(page) if bare(command) not in NOT_RUN.get(name_of(page), {})]


def test_what_is_not_run_is_in_the_pages_and_the_rest_is_most() -> None:
    listed = {(name, command) for name, commands in NOT_RUN.items() for command in commands}
    assert listed <= {(name_of(page), bare(command)) for page in PAGES for command in commands_of(page)}
    assert BEFORE.keys() <= {bare(command) for page in PAGES for command in run_of(page)}
    assert sum(len(run_of(page)) for page in PAGES) + sum(map(len, IN_STORIES.values())) > 100


@pytest.fixture
def _prepared(world: World, desk: Path) -> Iterator[None]:
    """Folders and images that the pages name; what the commands install is deleted."""
    shutil.copytree(BUNDLE / "v1", desk / "shop")
    shutil.copytree(BUNDLE / "v1", desk / "bundle")
    (desk / "config").symlink_to(CONFIG)
    (desk / "foo.yaml").write_text(FOO.replace("quay.io", world.registry.host), encoding="utf-8")
    world.registry.push_image("foo/bar", "v1", [files_of(BUNDLE / "v1")])
    for repository, tag in (("foo", "v1"), ("foo/chart", "1.2.0")):
        world.registry.push_image(repository, tag, [files_of(BUNDLE / "chart")])
    world.cluster.kubectl("create", "namespace", "foo")
    try:
        yield
    finally:
        names = ("shop", "foo", "foo-v1", "foo-v2")
        world.cluster.kubectl("delete", "bd", *names, "--ignore-not-found")
        world.cluster.kubectl("delete", "namespace", "shop", "foo", "--ignore-not-found")


@pytest.mark.thorough
@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("page", [page for page in PAGES if run_of(page)], ids=name_of)
def test_the_other_commands_of_a_page_work(world: World, terminal: dict[str, str], desk: Path, page: Path) -> None:
    for command in run_of(page):
        if before := BEFORE.get(bare(command)):
            run(Step(before, ""), desk, terminal, "none")
        folder = ROOT if command.startswith("hack/") else desk
        status, shown = run_at_terminal(command.replace("quay.io", world.registry.host), folder, terminal)
        # 1: there are differences, or nobody has to sign a source.
        may_tell = any(verb in command for verb in ("rukpak diff ", "rukpak verify "))
        assert status in ((0, 1) if may_tell else (0,)), (command, shown)
        assert "Traceback" not in shown, (command, shown)
