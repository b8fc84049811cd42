"""Real parts for tests: clusters, registries and controllers. README.md says what each fixture offers.

Programs are obtained once the tests are collected, and only those that the selected tests need.
"""

from __future__ import annotations

import gc
import math
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from xdist.remote import Producer, WorkerInteractor  # type: ignore[import-untyped]
from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped]

from hack.control_plane.builds import BUILDS
from hack.control_plane.images import obtain_tiny
from hack.control_plane.nodes import NodePlane, install_needs
from rukpak.api.plugins import Access, Means
from rukpak.controller.kube.client import Client, connect
from rukpak.controller.kube.resources import NAMESPACES
from rukpak.controller.playground.binaries import Binaries, MissingError, tell_person
from rukpak.controller.playground.cluster import Cluster, ControlPlane, Registry, make_control_plane
from rukpak.controller.playground.processes import make_owned_folder, take_away
from rukpak.controller.playground.programs import CONTROL_PLANE, NODE, Settings, read_settings
from rukpak.controller.processes.programs import Mechanisms
from tests.support.bundles import ROOT, delete_namespace
from tests.support.charts import packaged_helm
from tests.support.controller import Controller
from tests.support.leftovers import Surroundings
from tests.support.registry import LocalRegistry
from tests.support.standing import Standing

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "cluster": CONTROL_PLANE,
    "fresh_cluster": CONTROL_PLANE,
    "kwok_cluster": (*CONTROL_PLANE, "kwok"),
    "fresh_kwok_cluster": (*CONTROL_PLANE, "kwok"),
    "restricted_cluster": (*CONTROL_PLANE, "kwok"),
    "registry": ("registry",),
    "fresh_registry": ("registry",),
}
"""What a fixture needs."""
RARE: Mapping[str, tuple[str, ...]] = {"prometheus": ("prometheus", "promtool"), "sops": ("sops",)}
"""What a fixture needs that takes minutes to build: without `--all`, its tests are skipped if it is not there."""
HELM_4: Mapping[str, tuple[str, ...]] = {"helm": ("helm",), "helm_4": ("helm",)}
"""The same, but that its tests are skipped with `--all`, too, if it can be neither downloaded nor built."""
OPTIONAL: Mapping[str, tuple[str, ...]] = {}
"""What a fixture skips tests without."""
if os.geteuid() == 0:
    OPTIONAL = {"node_cluster": (*CONTROL_PLANE, *NODE), "fresh_node_cluster": (*CONTROL_PLANE, *NODE)}
GO = {"GOGC": "400", "GOMAXPROCS": "1"}
"""Variables of programs that are written in Go."""
ON_CLUSTERS = ("tests/integration", "tests/e2e", "tests/node")
TOGETHER_DEPTH = 2
"""Folders that are deeper, such as `tests/e2e/tenancy`, stay on one worker."""
NODES = "tests/node/"
"""So does this one: two clusters of real nodes would take from each other what their seconds need."""
FAKE_NODES = re.compile(r"\bkwok_cluster|\bstanding_kwok_world")
"""Matches files that use the shared cluster with a fake node; they share one worker with all of `tests/e2e`."""
BINARIES = pytest.StashKey[Binaries]()
LEFT_OUT = pytest.StashKey[list[str]]()
LATE = pytest.StashKey[float]()
"""Monotonic time after which tests that only `--all` adds are skipped."""
SURROUNDINGS = pytest.StashKey[Surroundings]()
RESET_BEFORE_TLS = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
"""An API server that is killed resets connections before their TLS handshake. CPython leaves these to the garbage
collector (`SSLSocket._create`, where `getpeername` fails), and the caller never gets a socket to close."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubeconfig", type=Path, help="use this cluster; tests that kill or audit theirs are left out")
    parser.addoption("--all", action="store_true", help="also what takes long: tests/README.md says what that is")
    parser.addoption("--within", type=float, default=math.inf, help="skip what only --all adds after so many minutes")
    parser.addoption("--obtain", action="store_true", help="with --collect-only: obtain the programs of these tests")


def pytest_configure(config: pytest.Config) -> None:
    if Mechanisms.found().lack():
        _go_on_unconfined()
    config.stash[LATE] = time.monotonic() + 60 * config.getoption("--within")
    config.stash[SURROUNDINGS] = Surroundings()
    config.stash[BINARIES] = Binaries(read_settings(), _teller(config), builds=BUILDS)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have workers not tell that a test was set up or torn down, which only some reports show."""
    options = session.config.option
    if options.durations or options.xmlpath or options.verbose > 0:
        return
    for worker in session.config.pluginmanager.get_plugins():
        if isinstance(worker, WorkerInteractor):
            worker.sendevent = partial(_send, worker.sendevent)


def _send(send: Callable[..., None], name: str, **content: Any) -> None:
    data = content.get("data", {})
    is_step = name == "testreport" and data["outcome"] == "passed" and data["when"] != "call"
    if not is_step and name != "logstart":
        send(name, **content)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what lasts, which it would look through each time, and let it run rarely."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put folders and long files first; leave out what takes long, and tests that could harm the user's own cluster."""
    thorough = [*_find_thorough(items)]
    if config.getoption("--all"):
        for item in thorough:
            item.add_marker(pytest.mark.thorough)
    else:
        config.hook.pytest_deselected(items=thorough)
        left_out = set(map(id, thorough))
        items[:] = [item for item in items if id(item) not in left_out]
        _skip_without_programs(config.stash[BINARIES], items)
    # Stable: a file's tests stay together.
    items.sort(key=lambda item: (not _group_of(item.nodeid.partition("::")[0]), -_minutes_of(item)))
    rough = [item for item in items if _needs_own_cluster(item)]
    for item in rough:
        item.add_marker(RESET_BEFORE_TLS)
    if not config.getoption("kubeconfig"):
        return
    config.stash[LEFT_OUT] = [item.nodeid for item in rough]
    config.hook.pytest_deselected(items=rough)
    items[:] = [item for item in items if item not in rough]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Keep files that share what they start on one worker."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadfile" else None


class GroupScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file stays on one worker, and so do all files that share what is started for them alone."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _group_of(file) or file


@cache
def _group_of(file: str) -> str:
    """Return what a file shares with others: a folder like `tests/e2e/tenancy`, real nodes, or a fake one."""
    folder = file.rpartition("/")[0]
    if not folder.startswith(ON_CLUSTERS):
        return ""
    if folder.count("/") >= TOGETHER_DEPTH or file.startswith(NODES):
        return folder
    is_e2e = folder == "tests/e2e"
    return "a fake node" if is_e2e or FAKE_NODES.search((ROOT / file).read_text(encoding="utf-8")) else ""


def _minutes_of(item: pytest.Item) -> float:
    marker = item.get_closest_marker("long")
    minutes: float = marker.kwargs.get("minutes", 1) if marker else 0
    return minutes


def _find_thorough(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield what only `--all` runs: what is marked `thorough`, and all cases but the first of what `repeats`."""
    seen = set[str]()
    for item in items:
        name = item.nodeid.partition("[")[0]
        is_repeated = name in seen and item.get_closest_marker("repeats") is not None
        seen.add(name)
        if is_repeated or item.get_closest_marker("thorough") is not None:
            yield item


def _skip_without_programs(binaries: Binaries, items: list[pytest.Item]) -> None:
    for fixture, programs in {**RARE, "helm_4": HELM_4["helm_4"]}.items():
        needing = [item for item in items if fixture in fixtures_of(item)]
        missing = set(programs) - binaries.find(programs).keys() if needing else set[str]()
        for item in needing if missing else []:
            reason = f"{', '.join(sorted(missing))}: missing, and takes minutes to build; hack/test --all does"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what only `--all` adds once the time for it has passed."""
    if time.monotonic() > item.config.stash[LATE] and item.get_closest_marker("thorough") is not None:
        # Unlike pytest.skip, which would list all of them as skips of this file.
        item.add_marker(pytest.mark.skip(reason="the minutes of --within have passed"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Obtain what the selected tests need, before the first of them waits for it."""
    if session.config.option.collectonly and not session.config.getoption("--obtain"):
        return
    fixtures = {name for item in session.items for name in fixtures_of(item)}
    rare, helm_4 = (RARE, HELM_4) if session.config.getoption("--all") else ({}, {})
    needed, optional = _needed({**PROGRAMS, **rare}, fixtures), _needed({**OPTIONAL, **helm_4}, fixtures)
    if session.config.getoption("kubeconfig"):
        needed = {program: None for program in needed if program not in CONTROL_PLANE or program == "kubectl"}
    try:
        session.config.stash[BINARIES].obtain(needed)
    except MissingError as error:
        raise pytest.UsageError(str(error)) from None
    with suppress(MissingError):
        session.config.stash[BINARIES].obtain(optional)
    # API servers spent a quarter of their time on collecting garbage, and idle programs most of theirs on waking up
    # threads of which there is nothing to do. Not before: builds use all processors.
    for variable, value in GO.items():
        os.environ.setdefault(variable, value)


def fixtures_of(item: pytest.Item) -> Collection[str]:
    """Return the names of all fixtures that a test uses."""
    found: Collection[str] = getattr(item, "fixturenames", ())
    return found


def _needed(programs: Mapping[str, tuple[str, ...]], fixtures: Collection[str]) -> dict[str, None]:
    return dict.fromkeys(program for fixture in programs.keys() & fixtures for program in programs[fixture])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left_out := config.stash.get(LEFT_OUT, []):
        terminalreporter.section("left out: these kill or audit their cluster")
        for name in left_out:
            terminalreporter.write_line(name)


def _needs_own_cluster(item: pytest.Item) -> bool:
    fresh = {"fresh_cluster", "fresh_kwok_cluster", "restricted_cluster", "node_cluster", "fresh_node_cluster"}
    return item.get_closest_marker("own_cluster") is not None or not fresh.isdisjoint(fixtures_of(item))


def _go_on_unconfined() -> None:
    """Allow unconfined programs, as an administrator would on such a kernel: in controllers and in direct calls."""
    os.environ.setdefault("RUKPAK_CONFINEMENT", "best-effort")
    for made in (Access, Means):
        (made.__init__.__kwdefaults__ or {})["confinement_required"] = False


def _teller(config: pytest.Config) -> Callable[[str], None]:
    def tell(line: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter and not config.getoption("--obtain"):
            reporter.ensure_newline()
            reporter.write_line(line)
        else:
            tell_person(line)

    return tell


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Count what fixtures of a file or the session start as what was there, also if a test asks for them late."""
    result = yield
    if fixturedef.scope != "function":
        request.config.stash[SURROUNDINGS].begin()
    return result


@pytest.fixture(autouse=True)
def _nothing_left(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail a test that leaves something behind; its other fixtures end before this one, those of the file live on."""
    surroundings = pytestconfig.stash[SURROUNDINGS]
    surroundings.begin()
    yield
    if left := surroundings.find_left():
        pytest.fail("the test has left something behind: " + "; ".join(left), pytrace=False)


@pytest.fixture(scope="session")
def settings() -> Settings:
    """Versions and folders of what is started."""
    return read_settings()


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """The programs."""
    return pytestconfig.stash[BINARIES]


@pytest.fixture(scope="session", params=["Helm 3", pytest.param("Helm 4", marks=pytest.mark.thorough)])
def helm(request: pytest.FixtureRequest) -> Path:
    """Helm 3 of the Python package, then Helm 4, which tests are skipped without."""
    found: Path = packaged_helm() if request.param == "Helm 3" else request.getfixturevalue("helm_4")
    return found


@pytest.fixture(scope="session")
def helm_4(binaries: Binaries) -> Path:
    """Helm 4, which tests are skipped without."""
    try:
        return binaries.obtain(["helm"])["helm"]
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def sops(binaries: Binaries) -> Path:
    """SOPS, for the plug-in in hack/plugins/sops."""
    return binaries.obtain(["sops"])["sops"]


@pytest.fixture(scope="session")
def prometheus(binaries: Binaries) -> Mapping[str, Path]:
    """Prometheus and promtool, by name."""
    return binaries.obtain(RARE["prometheus"])


@pytest.fixture(scope="session")
def own_kubeconfig(pytestconfig: pytest.Config) -> Path | None:
    """The kubeconfig of a cluster that the user has."""
    path: Path | None = pytestconfig.getoption("kubeconfig")
    return path.resolve(strict=True) if path else None


@pytest.fixture(scope="session")
def cluster(
    own_kubeconfig: Path | None, settings: Settings, binaries: Binaries, standing: Standing
) -> Iterator[Cluster]:
    """A real cluster without nodes, shared by all tests of the session: objects are stored, pods stay Pending."""
    with _cluster(own_kubeconfig, settings, binaries, CONTROL_PLANE) as started:
        yield started
        standing.end("cluster")


@pytest.fixture(scope="session")
def kwok_cluster(
    own_kubeconfig: Path | None, settings: Settings, binaries: Binaries, standing: Standing
) -> Iterator[Cluster]:
    """A real cluster with a fake node, shared by all tests: pods become Ready immediately, Jobs succeed."""
    with _cluster(own_kubeconfig, settings, binaries, (*CONTROL_PLANE, "kwok")) as started:
        yield started
        standing.end("kwok_cluster")


@pytest.fixture(scope="session")
def restricted_cluster(settings: Settings, binaries: Binaries, standing: Standing) -> Iterator[ControlPlane]:
    """A control plane with a fake node and RukPak as config/restricted installs it, for all files about tenants."""
    with _control_plane(settings, binaries, (*CONTROL_PLANE, "kwok")) as started:
        started.kubectl("apply", "-k", str(ROOT / "config" / "restricted"))
        yield started
        standing.end("restricted_cluster")


@pytest.fixture(scope="module")
def fresh_cluster(settings: Settings, binaries: Binaries) -> Iterator[ControlPlane]:
    """A new control plane for the tests of one file, which may kill it."""
    with _control_plane(settings, binaries, CONTROL_PLANE) as started:
        yield started


@pytest.fixture(scope="module")
def fresh_kwok_cluster(settings: Settings, binaries: Binaries) -> Iterator[ControlPlane]:
    """A new control plane with a fake node for the tests of one file: RukPak is installed into it as a whole."""
    with _control_plane(settings, binaries, (*CONTROL_PLANE, "kwok")) as started:
        yield started


@pytest.fixture(scope="session")
def node_cluster(settings: Settings, binaries: Binaries) -> Iterator[ControlPlane]:
    """A real cluster with one real node, shared by all tests of the session; they are skipped without root."""
    with _node_plane(settings, binaries, 1) as started:
        yield started


@pytest.fixture(scope="module")
def fresh_node_cluster(settings: Settings, binaries: Binaries) -> Iterator[ControlPlane]:
    """A new control plane with two real nodes for the tests of one file, which may drain and kill them."""
    with _node_plane(settings, binaries, 2) as started:
        yield started


STANDING: Mapping[str, str] = {"cluster": "standing_world", "kwok_cluster": "standing_kwok_world"}
"""By the fixture of a cluster that of its standing controller."""


@pytest.fixture(scope="session")
def standing() -> Standing:
    """The controllers that files of the session share; each cluster ends its own."""
    return Standing()


@pytest.fixture(scope="module", autouse=True)
def _alone(request: pytest.FixtureRequest) -> None:
    """End the standing controller of a cluster that a file uses without it, perhaps with a controller of its own."""
    # Of unit tests there are thousands, which have no cluster.
    tests = [] if "unit" in request.path.parts else request.session.items
    fixtures = {name for item in tests if item.path == request.path for name in fixtures_of(item)}
    for cluster, world in STANDING.items():
        if cluster in fixtures and world not in fixtures:
            request.getfixturevalue("standing").end(cluster)


@pytest.fixture(scope="session")
def cluster_client(cluster: Cluster) -> Client:
    """A client of `cluster`, with all rights."""
    return connect(kubeconfig=str(cluster.kubeconfig), user_agent="tests")


@pytest.fixture
def namespace(cluster: Cluster, cluster_client: Client) -> Iterator[str]:
    """A new namespace in `cluster`. Not by kubectl: to start it takes longer than many a test."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    cluster_client.create(NAMESPACES.path(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    delete_namespace(cluster, cluster_client, name)


@pytest.fixture(scope="session")
def registry(settings: Settings, binaries: Binaries) -> Iterator[LocalRegistry]:
    """A real OCI registry, shared by all tests of the session: push to a repository of your own."""
    with _registry(settings, binaries) as started:
        yield started


@pytest.fixture
def fresh_registry(settings: Settings, binaries: Binaries) -> Iterator[LocalRegistry]:
    """A real OCI registry for one test, which may stop it."""
    with _registry(settings, binaries) as started:
        yield started


class StartController(Protocol):
    """What the fixture `controller` gives."""

    def __call__(self, kubeconfig: Path, *options: str, environment: Mapping[str, str] | None = None) -> Controller: ...


@pytest.fixture
def controller(settings: Settings) -> Iterator[StartController]:
    """Start controllers as processes of their own; killed when the test ends; a failure shows their logs."""
    started: list[Controller] = []
    folders: list[Path] = []

    def start(kubeconfig: Path, *options: str, environment: Mapping[str, str] | None = None) -> Controller:
        folders.append(make_owned_folder(settings.running, "controller"))
        started.append(Controller(folders[-1], kubeconfig, *options, environment=environment or {}))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.kill()
        print(one.log)  # noqa: T201 -- pytest shows it where the test has failed
    for folder in folders:
        take_away(folder)


@contextmanager
def _cluster(
    own_kubeconfig: Path | None, settings: Settings, binaries: Binaries, programs: tuple[str, ...]
) -> Iterator[Cluster]:
    if own_kubeconfig is None:
        with _control_plane(settings, binaries, programs) as started:
            yield started
        return
    with _folder(settings, "kubectl") as folder:
        yield Cluster(kubeconfig=own_kubeconfig, kubectl=binaries.obtain(["kubectl"])["kubectl"], cache=folder)


@contextmanager
def _control_plane(settings: Settings, binaries: Binaries, programs: tuple[str, ...]) -> Iterator[ControlPlane]:
    with _folder(settings, "cluster") as folder:
        started = make_control_plane(folder, binaries.obtain(programs), audit=True)
        try:
            started.start()
            yield started
        finally:
            started.stop()


@contextmanager
def _node_plane(settings: Settings, binaries: Binaries, count: int) -> Iterator[ControlPlane]:
    try:
        install_needs(settings.cache)
        programs, tiny = binaries.obtain([*CONTROL_PLANE, *NODE]), obtain_tiny(settings)
    except MissingError as error:
        pytest.skip(str(error))
    with _folder(settings, "cluster") as folder:
        started = NodePlane(folder, programs, tiny, count=count, audit=True)
        try:
            started.start()
            yield started.plane
        finally:
            started.stop()


@contextmanager
def _registry(settings: Settings, binaries: Binaries) -> Iterator[LocalRegistry]:
    with _folder(settings, "registry") as folder:
        process = Registry(folder, binaries.obtain(["registry"])["registry"])
        try:
            process.start()
            yield LocalRegistry(process)
        finally:
            process.stop()


@contextmanager
def _folder(settings: Settings, prefix: str) -> Iterator[Path]:
    folder = make_owned_folder(settings.running, prefix)
    try:
        yield folder
    finally:
        take_away(folder)
