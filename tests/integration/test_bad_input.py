"""Bad input: what is refused, with which reason and message, and what happens to everything else."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import pytest

from rukpak.api.v1alpha2.conditions import UNPACKED_REASONS, Reason
from tests.support.archives import Link, Special, extended, member, tarball
from tests.support.bundles import Deployed, Manifest, World, bundle_of, config_map, definition, exists, image, new_name
from tests.support.faulty_registry import FaultyRegistry
from tests.support.inside import ApiError
from tests.support.registry import Compression, Layer, LocalRegistry

MIB = 1 << 20


# what the API server refuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    name: str
    says: str
    source: Mapping[str, Any] = field(default_factory=lambda: image("example.com/bundle:v1"))
    spec: Mapping[str, Any] = field(default_factory=dict)
    deployment: str = "refused"


GIT = {"repository": "https://example.com/repository"}
REFUSED = [
    Refused(name="an unknown field", spec={"pasued": True}, says=".spec.pasued"),
    Refused(name="an unknown field of a source", source={**image("a"), "reff": "b"}, says=".spec.sources[0].reff"),
    Refused(name="two source blocks", source={**image("a"), "git": GIT}, says="spec.sources[0]"),
    Refused(name="no source block", source={"kind": "image"}, says="spec.sources[0]"),
    Refused(name="the block of another kind", source={"kind": "image", "git": GIT}, says="spec.sources[0]"),
    Refused(name="a kind that cannot be one", source={"kind": "imaeg", "image": {"ref": "a"}}, says="kind"),
    Refused(name="no source", spec={"sources": []}, says="spec.sources"),
    Refused(name="an absolute destination", source=image("a", "/etc"), says="spec.sources[0].destination"),
    Refused(name="a destination above the tree", source=image("a", "a/../.."), says="spec.sources[0].destination"),
    Refused(name="a name over 63 characters", deployment="x" * 64, says="63"),
]


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_the_api_server_refuses(world: World, case: Refused) -> None:
    with pytest.raises(ApiError) as caught:
        world.apply(case.deployment, **{"sources": [dict(case.source)], **case.spec})

    assert case.says in caught.value.message


# what the controller refuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    name: str
    reason: Reason
    saying: str
    """Where, and the rule or the limit."""
    layers: Sequence[Sequence[Layer]]
    """Of each source: an image."""
    compression: Compression = "gzip"


def manifest(text: str) -> dict[str, bytes]:
    return {"manifests/a.yaml": text.encode()}


def claim(size: int) -> bytes:
    """Return an archive with a file that is said to be this long, and is not there."""
    info = member("manifests/a.yaml", b"")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


A, B, C = "manifests/a.yaml", "manifests/b.yaml", json.dumps(config_map("one"))
GOOD = (A, C.encode())
BOMB = "".join(f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]\n" for last, name in pairwise("abcdefghi"))
# fmt: off
BAD = [
    Bad(name="two sources that bring one path", layers=[[bundle_of(config_map("one"))], [bundle_of(config_map("two"))]],
         reason=Reason.CONTENT_CONFLICT,
         saying='spec.sources[1]: path "manifests/0000.json" conflicts with spec.sources[0]'),
    Bad(name="a link out of the tree", layers=[[tarball(GOOD, (B, Link("../../etc/passwd")))]],
         reason=Reason.CONTENT_REJECTED, saying=f'entry "{B}" links to "../../etc/passwd", outside the tree'),
    Bad(name="a hard link out of the tree", layers=[[tarball(GOOD, (B, Link("../../etc/passwd", hard=True)))]],
         reason=Reason.CONTENT_REJECTED, saying=f'entry "{B}" links to "../../etc/passwd", outside the tree'),
    Bad(name="a device", layers=[[tarball(GOOD, ("manifests/null", Special(tarfile.CHRTYPE)))]],
         reason=Reason.CONTENT_REJECTED, saying='entry "manifests/null"'),
    Bad(name="a path that leaves its directory", layers=[[tarball(GOOD, ("../escaped.yaml", C.encode()))]],
         reason=Reason.CONTENT_REJECTED, saying='entry "../escaped.yaml" leaves its directory'),
    Bad(name="an absolute path", layers=[[tarball(GOOD, ("/tmp/escaped.yaml", C.encode()))]],
         reason=Reason.CONTENT_REJECTED, saying='entry "/tmp/escaped.yaml" has an absolute path'),
    Bad(name="a bomb by ratio", layers=[[tarball(("zeros", bytes(64 * MIB)))]], reason=Reason.CONTENT_REJECTED,
         saying="unpacks to more than the limit of 200 times its size"),
    Bad(name="a bomb by bytes", layers=[[claim(300 * MIB)]], reason=Reason.CONTENT_REJECTED,
         saying=f'entry "{A}" exceeds the limit of 256 MiB per file'),
    Bad(name="a bomb by entries", layers=[[member("folder", None).tobuf(tarfile.GNU_FORMAT) * 50_001]],
         compression="none", reason=Reason.CONTENT_REJECTED, saying="more entries than the limit of 50000"),
    Bad(name="a bomb by the size of a header", layers=[[extended(b"x", bytes(9 * MIB))]], compression="none",
         reason=Reason.CONTENT_REJECTED, saying="a header of the archive exceeds the limit of 1 MiB"),
    Bad(name="YAML that does not parse", layers=[[manifest("apiVersion: v1\nkind: [ConfigMap\n")]],
         reason=Reason.INVALID_BUNDLE, saying=f"{A}:3: "),
    Bad(name="duplicate keys",
         layers=[[manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: a\n  x: b\n")]],
         reason=Reason.INVALID_BUNDLE, saying=f'{A}:6: duplicate key "x"'),
    Bad(name="an alias bomb", layers=[[manifest(f"a: &a [x, x, x, x, x, x, x, x, x]\n{BOMB}")]],
         reason=Reason.INVALID_BUNDLE, saying=f"{A}:"),
    Bad(name="an object without kind", layers=[[manifest("# first line\napiVersion: v1\nmetadata: {name: a}\n")]],
         reason=Reason.INVALID_BUNDLE, saying=f"{A}:2: "),
    Bad(name="an object without name", layers=[[manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")]],
         reason=Reason.INVALID_BUNDLE, saying=f"{A}:1: "),
    Bad(name="two equal objects", layers=[[manifest(f"{C}\n---\n{C}\n")]], reason=Reason.INVALID_BUNDLE,
         saying=f"{A}:3: "),
    Bad(name="an empty bundle", layers=[[{"manifests/README.md": b"nothing here"}]], reason=Reason.NO_CONTENT,
         saying='.yaml, .yml and .json files of "manifests"'),
]
# fmt: on


def push(registry: LocalRegistry, case: Bad) -> list[Manifest]:
    """Push one image for each source, and return the sources."""
    repository = new_name()
    sources = []
    for index, layers in enumerate(case.layers):
        registry.push_image(repository, f"v{index}", layers, compression=case.compression)
        sources.append(image(f"{registry.host}/{repository}:v{index}"))
    return sources


@pytest.mark.parametrize("case", BAD, ids=attrgetter("name"))
def test_nothing_is_applied_of(world: World, registry: LocalRegistry, case: Bad) -> None:
    deployed = world.deploy(config_map("unused"), sources=push(registry, case))

    wait_refused(deployed, case.reason, case.saying)

    assert not exists(world.client, f"/api/v1/namespaces/{deployed.namespace}")
    assert deployed.revisions() == []
    # The controller looks for its programs there while it starts.
    world.wait(lambda: not [*world.store.glob("scratch/*"), *world.store.glob("staging/*")], "nothing left on disk")
    assert not list(world.store.rglob("escaped.yaml"))


# One of each reason: what follows from a reason is the same for all that it is about.
@pytest.mark.parametrize("case", {case.reason: case for case in BAD}.values(), ids=attrgetter("reason"))
def test_what_was_installed_stays_and_is_repaired_after(world: World, registry: LocalRegistry, case: Bad) -> None:
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others", color="blue"))
    installed, before = deployed.wait_ready(), deployed.versions()

    deployed.change(sources=push(registry, case))

    wait_refused(deployed, case.reason, case.saying)
    assert deployed.versions() == before
    check_repair(deployed, installed)


def wait_refused(deployed: Deployed, reason: Reason, saying: str) -> None:
    """Wait until every condition says what a failure of this reason means."""
    deployed.wait_for("Installed", "False", reason.value, saying)
    deployed.wait_for("Ready", "False", reason.value, saying)
    deployed.wait_for("Stalled" if reason.retry.stalls else "Reconciling", "True", reason.value, saying)
    unpacked = deployed.conditions()["Unpacked"]
    assert (unpacked["status"] == "False") is (reason in UNPACKED_REASONS)


def check_repair(deployed: Deployed, installed: Manifest) -> None:
    deployed.edit("settings", color="red")
    deployed.wait(lambda: deployed.data("settings") == {"color": "blue"}, "repair of what is installed")
    status = deployed.status()
    assert status["installedRevision"] == installed["installedRevision"]
    assert deployed.conditions()["Healthy"]["status"] == "True"


# sources


def missing_tag(registry: FaultyRegistry) -> str:
    return f"{registry.host}/bundle:missing"


def missing_digest(registry: FaultyRegistry) -> str:
    return f"{registry.host}/bundle@sha256:{'0' * 64}"


def registry_down(registry: FaultyRegistry) -> str:
    registry.faults.status = 503
    return f"{registry.host}/bundle:v2"


def registry_that_lies(registry: FaultyRegistry) -> str:
    digest = registry.add_image("v2", tarball((A, json.dumps(config_map("settings", unique=new_name())).encode())))
    media_type, body = registry.manifests[digest]
    registry.manifests[digest] = (media_type, body.replace(b'"size"', b'"Size"'))
    return f"{registry.host}/bundle@{digest}"


SOURCES: dict[str, tuple[Callable[[FaultyRegistry], str], Reason]] = {
    "a tag that does not exist": (missing_tag, Reason.NOT_FOUND),
    "a digest that does not exist": (missing_digest, Reason.NOT_FOUND),
    "a registry that is down": (registry_down, Reason.UNREACHABLE),
    "content of another digest": (registry_that_lies, Reason.DIGEST_MISMATCH),
}


@pytest.fixture
def faulty_registry() -> Iterator[FaultyRegistry]:
    with FaultyRegistry() as registry:
        yield registry


@pytest.mark.parametrize(("make", "reason"), SOURCES.values(), ids=SOURCES)
def test_what_is_installed_survives(
    world: World, faulty_registry: FaultyRegistry, make: Callable[[FaultyRegistry], str], reason: Reason
) -> None:
    deployed = world.deploy(config_map("settings", color="blue"))
    installed = deployed.wait_ready()

    deployed.change(sources=[image(make(faulty_registry))])

    wait_refused(deployed, reason, "spec.sources[0].image")
    check_repair(deployed, installed)


def test_a_source_that_comes_back_is_used(world: World, faulty_registry: FaultyRegistry) -> None:
    deployed = world.deploy(ref=registry_down(faulty_registry))
    wait_refused(deployed, Reason.UNREACHABLE, "spec.sources[0].image")

    faulty_registry.add_image("v2", tarball(GOOD))
    faulty_registry.faults.status = 0

    deployed.wait_ready()


# single objects


def test_a_kind_that_is_not_served_is_named_and_applied_when_it_appears(world: World) -> None:
    group = f"{new_name()}.example.com"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    deployed = world.deploy(config_map("settings"), thing, config_map("others"))

    wait_refused(deployed, Reason.KIND_NOT_SERVED, "Thing one: the cluster does not serve")
    assert set(deployed.objects()) == {"settings", "others"}
    crd = definition(group, "Thing")
    world.cluster.kubectl("apply", "-f", "-", input=json.dumps(crd))

    deployed.wait_ready()
    assert exists(world.client, deployed.path_of("one", "things", f"/apis/{group}/v1"))
    deployed.delete()
    deployed.wait_gone()
    world.cluster.kubectl("delete", "crd", crd["metadata"]["name"])


def test_an_object_of_another_bundle_deployment_is_refused_and_comes_over_when_it_is_let_go(world: World) -> None:
    first = world.deploy(config_map("settings", color="blue"))
    first.wait_ready()
    second = world.deploy(config_map("settings", color="red"), config_map("others"), installNamespace=first.namespace)

    wait_refused(second, Reason.COLLISION, f'belongs to BundleDeployment "{first.name}"')
    assert first.data("settings") == {"color": "blue"}
    assert first.data("others") == {"color": "blue"}
    first.wait_for("Ready")
    first.delete()

    second.wait_ready()
    assert first.data("settings") == {"color": "red"}


@pytest.mark.parametrize(
    ("marks", "owner"),
    [
        ({}, "already exists; set spec.collisionProtection to"),
        ({"annotations": {"meta.helm.sh/release-name": "web"}}, 'belongs to Helm release "web"'),
        ({"labels": {"app.kubernetes.io/managed-by": "person"}}, "already exists; set spec.collisionProtection to"),
    ],
    ids=["nobody", "Helm", "a person"],
)
def test_an_object_that_is_there_already_is_refused_and_others_are_applied(
    world: World, marks: Manifest, owner: str
) -> None:
    name = new_name()
    world.cluster.kubectl("create", "namespace", name)
    there = config_map("settings", color="red")
    there["metadata"] |= {"namespace": name, **marks}
    world.cluster.kubectl("create", "-f", "-", input=json.dumps(there))
    deployed = world.deploy(config_map("settings", color="blue"), config_map("others"), name=name)

    wait_refused(deployed, Reason.COLLISION, f"ConfigMap {name}/settings: ")

    assert owner in deployed.conditions()["Installed"]["message"]
    assert deployed.data("settings") == {"color": "red"}
    assert set(deployed.objects()) == {"others"}


def test_an_object_that_the_api_server_refuses_is_named_without_its_values(world: World) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "broken"}, "data": {"key": "pl4nted!"}}
    deployed = world.deploy(config_map("settings"), secret)

    deployed.wait_for("Installed", "False", "Refused", saying=f"Secret {deployed.namespace}/broken: ")

    assert set(deployed.objects()) == {"settings"}
    assert "pl4nted" not in json.dumps(deployed.status())
    assert "pl4nted" not in world.controller.log
