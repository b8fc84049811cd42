"""Bad input: what is refused, with which reason and message, and what happens to everything else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rukpak.api.v1alpha2.conditions import UNPACKED_REASONS, Reason
from tests.support.archives import Link, tarball
from tests.support.bundles import Deployed, Manifest, World, bundle_of, config_map, definition, exists, image, new_name
from tests.support.faulty_registry import FaultyRegistry
from tests.support.objects import labelled
from tests.support.registry import Layer, LocalRegistry
from tests.support.tenants import make_namespace

MIB = 1 << 20
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HELM = {"meta.helm.sh/release-name": "web"}


# what the controller refuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    name: str
    reason: Reason
    saying: str
    """Where, and the rule or the limit."""
    layers: Sequence[Sequence[Layer]]
    """Of each source: an image."""


A, B, C = "manifests/a.yaml", "manifests/b.yaml", json.dumps(config_map("one"))
GOOD = (A, C.encode())
# fmt: off
BAD = [
    Bad(name="two sources that bring one path", layers=[[bundle_of(config_map("one"))], [bundle_of(config_map("two"))]],
         reason=Reason.CONTENT_CONFLICT,
         saying='spec.sources[1]: path "manifests/0000.json" conflicts with spec.sources[0]'),
    Bad(name="a link out of the tree", layers=[[tarball(GOOD, (B, Link("../../etc/passwd")))]],
         reason=Reason.CONTENT_REJECTED, saying=f'entry "{B}" links to "../../etc/passwd", outside the tree'),
    Bad(name="a path that leaves its directory", layers=[[tarball(GOOD, ("../escaped.yaml", C.encode()))]],
         reason=Reason.CONTENT_REJECTED, saying='entry "../escaped.yaml" leaves its directory'),
    Bad(name="a bomb by ratio", layers=[[tarball(("zeros", bytes(64 * MIB)))]], reason=Reason.CONTENT_REJECTED,
         saying="unpacks to more than the limit of 200 times its size"),
    Bad(name="YAML that does not parse", layers=[[{A: b"apiVersion: v1\nkind: [ConfigMap\n"}]],
         reason=Reason.INVALID_BUNDLE, saying=f"{A}:3: "),
    Bad(name="two equal objects", layers=[[{A: f"{C}\n---\n{C}\n".encode()}]], reason=Reason.INVALID_BUNDLE,
         saying=f"{A}:3: "),
    Bad(name="an empty bundle", layers=[[{"manifests/README.md": b"nothing here"}]], reason=Reason.NO_CONTENT,
         saying='.yaml, .yml and .json files of "manifests"'),
]
# fmt: on
"""Some of what unit/controller/content and unit/controller/formats have refused."""


def push(registry: LocalRegistry, case: Bad) -> list[Manifest]:
    """Push one image for each source, and return the sources."""
    repository = new_name()
    sources = []
    for index, layers in enumerate(case.layers):
        registry.push_image(repository, f"v{index}", layers)
        sources.append(image(f"{registry.host}/{repository}:v{index}"))
    return sources


def test_nothing_is_applied_of_what_is_bad(world: World, registry: LocalRegistry) -> None:
    deployed = [(case, world.deploy(config_map("unused"), sources=push(registry, case))) for case in BAD]
    for case, each in deployed:
        wait_refused(each, case.reason, case.saying)
        assert not exists(world.client, f"/api/v1/namespaces/{each.namespace}"), case.name
        assert each.revisions() == [], case.name
    # The controller looks for its programs there while it starts.
    world.wait(lambda: not [*world.store.glob("scratch/*"), *world.store.glob("staging/*")], "nothing left on disk")
    assert not list(world.store.rglob("escaped.yaml"))


def wait_refused(deployed: Deployed, reason: Reason, saying: str) -> None:
    """Wait until every condition says what a failure of this reason means."""
    deployed.wait_for("Installed", "False", reason.value, saying)
    deployed.wait_for("Ready", "False", reason.value, saying)
    deployed.wait_for("Stalled" if reason.retry.stalls else "Reconciling", "True", reason.value, saying)
    unpacked = deployed.conditions()["Unpacked"]
    assert (unpacked["status"] == "False") is (reason in UNPACKED_REASONS)


# what was installed


def missing_tag(registry: FaultyRegistry) -> str:
    return f"{registry.host}/bundle:missing"


def missing_digest(registry: FaultyRegistry) -> str:
    return f"{registry.host}/bundle@sha256:{'0' * 64}"


def registry_that_lies(registry: FaultyRegistry) -> str:
    digest = registry.add_image("v2", tarball((A, json.dumps(config_map("settings", unique=new_name())).encode())))
    media_type, body = registry.manifests[digest]
    registry.manifests[digest] = (media_type, body.replace(b'"size"', b'"Size"'))
    return f"{registry.host}/bundle@{digest}"


SOURCES: dict[str, tuple[Callable[[FaultyRegistry], str], Reason]] = {
    "a tag that does not exist": (missing_tag, Reason.NOT_FOUND),
    "a digest that does not exist": (missing_digest, Reason.NOT_FOUND),
    "content of another digest": (registry_that_lies, Reason.DIGEST_MISMATCH),
}


def test_what_was_installed_survives_all_of_it_and_is_repaired(world: World, registry: LocalRegistry) -> None:
    # Another one for each repair: what is modified again and again is repaired ever later.
    objects = iter([f"settings-{number}" for number in range(10)])
    deployed = world.deploy(*[config_map(f"settings-{number}", color="blue") for number in range(10)])
    installed = deployed.wait_ready()

    def check(reason: Reason, saying: str, *sources: Manifest) -> None:
        before = deployed.versions()
        deployed.change(sources=sources)
        wait_refused(deployed, reason, saying)
        assert deployed.versions() == before
        name = next(objects)
        deployed.edit(name, color="red")
        deployed.wait(lambda: deployed.data(name) == {"color": "blue"}, "repair of what is installed")
        assert deployed.status()["installedRevision"] == installed["installedRevision"]
        assert deployed.conditions()["Healthy"]["status"] == "True"

    # One of each reason: what follows from a reason is the same for all that it is about.
    for case in {case.reason: case for case in BAD}.values():
        check(case.reason, case.saying, *push(registry, case))
    with FaultyRegistry() as faulty:
        for make, reason in SOURCES.values():
            check(reason, "spec.sources[0].image", image(make(faulty)))

        faulty.faults.status = 503
        check(Reason.UNREACHABLE, "spec.sources[0].image", image(f"{faulty.host}/bundle:v2"))
        faulty.add_image("v2", tarball(GOOD))
        faulty.faults.status = 0
        deployed.wait_installed(installed["installedRevision"])
        world.wait(lambda: set(deployed.objects()) == {"one"}, "what is not in the bundle is pruned")


# single objects


def test_a_kind_that_is_not_served_is_named_and_applied_when_it_appears(world: World) -> None:
    group = f"{new_name()}.example.com"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    deployed = world.deploy(config_map("settings"), thing, config_map("others"))

    wait_refused(deployed, Reason.KIND_NOT_SERVED, "Thing one: the cluster does not serve")
    assert set(deployed.objects()) == {"settings", "others"}
    crd = definition(group, "Thing")
    world.client.create(CRDS, crd)

    deployed.wait_ready()
    assert exists(world.client, deployed.path_of("one", "things", f"/apis/{group}/v1"))
    deployed.delete()
    deployed.wait_gone()
    world.client.delete(f"{CRDS}/{crd['metadata']['name']}")


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


def test_objects_that_are_there_already_are_refused_and_others_are_applied(world: World) -> None:
    """In which words, for each owner: unit/controller/apply/test_ownership.py."""
    name = new_name()
    make_namespace(world, name)
    for there in (labelled(config_map("first", color="red"), annotations=HELM), config_map("second", color="red")):
        world.client.create(f"/api/v1/namespaces/{name}/configmaps", there)
    deployed = world.deploy(*map(config_map, ("first", "second", "others")), name=name)

    wait_refused(
        deployed, Reason.COLLISION, f'ConfigMap {name}/first: already exists and belongs to Helm release "web"'
    )

    assert deployed.data("first") == deployed.data("second") == {"color": "red"}
    assert set(deployed.objects()) == {"others"}


def test_an_object_that_the_api_server_refuses_is_named_without_its_values(world: World) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "broken"}, "data": {"key": "pl4nted!"}}
    deployed = world.deploy(config_map("settings"), secret)

    deployed.wait_for("Installed", "False", "Refused", saying=f"Secret {deployed.namespace}/broken: ")

    assert set(deployed.objects()) == {"settings"}
    assert "pl4nted" not in json.dumps(deployed.status())
    assert "pl4nted" not in world.controller.log
