"""A controller that is killed at each of its writes, one after the other: nothing is lost, and nothing is done twice.

It is cut off before a write is carried out, or (by default only of a hand-over) after that, before it hears of it;
killed; and started again. By default at every write of an install, of taking released objects back and of a hand-over;
with RUKPAK_STORMS above 1 at those of an upgrade with prune, of one that waits for approval, of taking over list items,
of migrating entries of older versions, and of a deletion, too.

In the same manner, each of these writes fails once, or its reply does, and the controller goes on: of what takes more
than one request for one object, what unit/controller/reconcile/test_interruptions.py cannot do without a real server.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.bundles import (
    Deployed,
    Manifest,
    World,
    config_map,
    definition,
    exists,
    image,
    new_name,
)
from tests.support.inside import ApiError
from tests.support.mortal import Cut, Severing
from tests.support.objects import custom, deployment, make, namespace, service, webhook
from tests.support.weather import Fault

FULL = int(os.environ.get("RUKPAK_STORMS", "1")) > 1
CUTS = {"before it is carried out": Fault.CUT, "before its reply is heard": Fault.LOST}
FAILURES = {
    "409": Fault.CONFLICT,
    "500": Fault.BROKEN,
    "503": Fault.UNAVAILABLE,
    "504 although it was carried out": Fault.TIMED_OUT,
    "no reply": Fault.LOST,
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MOST = 60
"""Writes, and so points; more are a defect of their own."""
STATUS = "PATCH /apis/core.rukpak.io/v1alpha2/bundledeployments/NAME/status"
REPEATED = Counter({STATUS: 1, "PATCH /api/v1/namespaces/rukpak-system/secrets/revision": 1})
"""What may be written once more than without a kill: the one tells news, the other has no effect."""
OMITTED = Counter({STATUS: 2})
"""What may be left out: one status may tell what two or three would have told without a kill."""

pytestmark = [pytest.mark.timeout(600), pytest.mark.long(minutes=4), pytest.mark.thorough]


# a small bundle of all stages


def first_bundle(name: str) -> list[Manifest]:
    return [
        webhook(name),
        custom(group_of(name), "Foo", "thing", spec={"size": 1}),
        deployment("web"),
        config_map("settings", color="blue"),
        config_map("old"),
        role("get"),
        make("v1", "ServiceAccount", "account", automountServiceAccountToken=False),
        definition(group_of(name), "Foo"),
        namespace(name),
    ]


def second_bundle(name: str) -> list[Manifest]:
    """Return what some objects of the first one have become; one is gone and one is new."""
    fresh = [config_map("settings", color="red"), config_map("new"), role("list")]
    fresh.append(custom(group_of(name), "Foo", "thing", spec={"size": 2}))
    changed = {"old", *(each["metadata"]["name"] for each in fresh)}
    return [*fresh, *(each for each in first_bundle(name) if each["metadata"]["name"] not in changed)]


def role(verb: str) -> Manifest:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]
    return make("rbac.authorization.k8s.io/v1", "Role", "role", rules=rules)


def group_of(name: str) -> str:
    return f"{name}.example.com"


def collections(name: str) -> dict[str, str]:
    """Return where the objects of a bundle are, by kind."""
    inside = f"namespaces/{name}"
    return {
        "ConfigMap": f"/api/v1/{inside}/configmaps",
        "ServiceAccount": f"/api/v1/{inside}/serviceaccounts",
        "Role": f"{RBAC}/{inside}/roles",
        "Service": f"/api/v1/{inside}/services",
        "Deployment": f"/apis/apps/v1/{inside}/deployments",
        "Foo": f"/apis/{group_of(name)}/v1/{inside}/foos",
        "Namespace": "/api/v1/namespaces",
        "CustomResourceDefinition": CRDS,
        "ValidatingWebhookConfiguration": HOOKS,
    }


def paths_of(bundle: list[Manifest], name: str) -> dict[str, Manifest]:
    """Return the objects of a bundle by their paths, as a list of them has them: without kind."""
    places, kind = collections(name), ("apiVersion", "kind")
    return {
        f"{places[each['kind']]}/{each['metadata']['name']}": {key: each[key] for key in each if key not in kind}
        for each in bundle
    }


def held(world: World, name: str) -> dict[str, Manifest]:
    """Return all objects on the cluster that carry the label of a BundleDeployment, by path."""
    found: dict[str, Manifest] = {}
    for place in collections(name).values():
        with suppress(ApiError):  # its kind is not served
            objects = world.client.list(place, label_selector=f"core.rukpak.io/bundle-deployment={name}")
            found |= {f"{place}/{each['metadata']['name']}": each for each in objects}
    return found


def contains(live: Any, wanted: Any) -> bool:
    """Whether an object is as a manifest says; the server adds fields."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(contains(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(contains, live, wanted))
    return bool(live == wanted)


# what is killed in the midst


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Something that a controller does with one BundleDeployment in several writes."""

    prepare: Callable[[World, str], Deployed]
    begin: Callable[[World, Deployed], None]
    is_done: Callable[[Deployed], bool]
    ends_with: Callable[[str], list[Manifest]]
    """The objects that are there then."""
    repeated: Counter[str] = field(default_factory=Counter)
    """Writes that may be repeated after a kill, because they are one step with the write that was cut."""
    needs: Counter[str] = field(default_factory=Counter)
    """Writes without which it was not done in the way that is tested."""


def is_at_rest(deployed: Deployed) -> bool:
    conditions, status = deployed.conditions(), deployed.status()
    ready = conditions.get("Ready", {}).get("status") == "True" and "Reconciling" not in conditions
    return bool(ready and status["installedRevision"] == status["revision"] and status.get("managedState"))


def is_gone(deployed: Deployed) -> bool:
    return not exists(deployed.client, deployed.path)


def name_it(world: World, name: str) -> Deployed:
    """Return a BundleDeployment that is not there yet."""
    return Deployed(client=world.client, name=name, ref=world.push(name, *first_bundle(name)), wait=world.wait)


def install(world: World, deployed: Deployed) -> None:
    world.deploy(name=deployed.name, ref=deployed.ref, revisionHistoryLimit=0)


def install_and_rest(world: World, name: str) -> Deployed:
    deployed = name_it(world, name)
    install(world, deployed)
    world.wait(lambda: is_at_rest(deployed), "installed")
    return deployed


def upgrade(world: World, deployed: Deployed) -> None:
    ref = world.push(deployed.name, *second_bundle(deployed.name), tag="v2")
    deployed.change(sources=[image(ref)])


def install_guarded(world: World, name: str) -> Deployed:
    """Install a bundle whose upgrades wait for approval."""
    deployed = install_and_rest(world, name)
    deployed.change(approval="NewPermissions")
    world.wait(lambda: is_at_rest(deployed) and is_observed(deployed), "at rest")
    return deployed


def is_observed(deployed: Deployed) -> bool:
    return bool(deployed.status()["observedGeneration"] == deployed.read()["metadata"]["generation"])


def approve_and_rest(deployed: Deployed) -> bool:
    """Approve what waits; return whether it is installed and nothing is left to do."""
    digest = (deployed.status().get("pending") or {}).get("revision", "")
    if digest and not deployed.read()["spec"].get("approvedRevision"):
        assert (deployed.data("settings"), deployed.data("new")) == ({"color": "blue"}, None)
        deployed.change(approvedRevision=digest)
    return bool(deployed.read()["spec"].get("approvedRevision")) and is_at_rest(deployed)


def delete(_: World, deployed: Deployed) -> None:
    deployed.delete()


def released_bundle(name: str) -> list[Manifest]:
    return [namespace(name), config_map("settings", color="blue"), config_map("more")]


def release(world: World, name: str) -> Deployed:
    """Install a bundle and delete its BundleDeployment, so that the objects remain and belong to none."""
    ref = world.push(name, *released_bundle(name))
    deployed = Deployed(client=world.client, name=name, ref=ref, wait=world.wait)
    world.deploy(name=name, ref=ref, deletionPolicy="Orphan", revisionHistoryLimit=0)
    world.wait(lambda: is_at_rest(deployed), "installed")
    deployed.delete()
    world.wait(lambda: is_gone(deployed), "released")
    return deployed


def served_bundle(name: str) -> list[Manifest]:
    return [namespace(name), service("web", 80)]


def install_service(world: World, name: str) -> Deployed:
    deployed = Deployed(client=world.client, name=name, ref=world.push(name, *served_bundle(name)), wait=world.wait)
    install(world, deployed)
    world.wait(lambda: is_at_rest(deployed), "installed")
    return deployed


def renumber(_: World, deployed: Deployed) -> None:
    """Change the key of a list item: ours beside the new one would be a duplicate name."""
    change = [{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]
    path = deployed.path_of("web", "services")
    deployed.client.json_patch(path, change, manager="x")


def is_renumbered(deployed: Deployed) -> bool:
    ports = (deployed.get("web", "services") or {"spec": {"ports": []}})["spec"]["ports"]
    return [port["port"] for port in ports] == [80] and is_at_rest(deployed)


def versioned_bundle(name: str, size: int = 2, **fields: Manifest) -> list[Manifest]:
    """Return a bundle with an object at the second version of its kind, which alone has some fields."""
    kind, thing = definition(group_of(name), "Foo"), custom(group_of(name), "Foo", "thing", spec={"size": size})
    versions = [version("v1"), version("v2", **fields)]
    thing["apiVersion"] = f"{group_of(name)}/v2"
    return [namespace(name), {**kind, "spec": {**kind["spec"], "versions": versions}}, thing]


def version(name: str, **fields: Manifest) -> Manifest:
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, **fields}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": name == "v2", "schema": schema}


THING = "PATCH /apis/NAME.example.com/v2/namespaces/NAME/foos/thing"
DEFAULTED: Manifest = {"type": "string", "default": "d"}


def outgrow(world: World, name: str) -> Deployed:
    """Have an object that does not fit the version of another client's entry any more."""
    deployed = Deployed(
        client=world.client, name=name, ref=world.push(name, *versioned_bundle(name, 1)), wait=world.wait
    )
    install(world, deployed)
    world.wait(lambda: is_at_rest(deployed), "installed")
    path = deployed.path_of("thing", "foos", f"/apis/{group_of(name)}/v1")
    world.client.merge_patch(path, {"metadata": {"labels": {"x": "y"}}}, manager="somebody")
    ref = world.push(name, *versioned_bundle(name, 1, color=DEFAULTED), tag="v2")
    before = deployed.status()["installedRevision"]
    deployed.change(sources=[image(ref)])
    deployed.wait_installed(before)
    world.wait(
        lambda: world.client.get(path.replace("/v1/", "/v2/")).value["spec"].get("color"), "the new schema counts"
    )
    return deployed


def resize(world: World, deployed: Deployed) -> None:
    ref = world.push(deployed.name, *versioned_bundle(deployed.name, color=DEFAULTED), tag="v3")
    deployed.change(sources=[image(ref)])


def is_resized(deployed: Deployed) -> bool:
    thing = deployed.get("thing", "foos", f"/apis/{group_of(deployed.name)}/v2")
    return thing is not None and thing["spec"]["size"] == 2 and is_at_rest(deployed)


def handed_bundle(name: str) -> list[Manifest]:
    """Return objects with and without owner reference."""
    return [namespace(name), config_map("settings", color="blue"), config_map("more")]


def give(world: World, name: str) -> Deployed:
    """Install a bundle with another BundleDeployment, pause that, and return the one that takes over."""
    ref, giver_name = world.push(name, *handed_bundle(name)), new_name()
    giver = Deployed(client=world.client, name=giver_name, ref=ref, wait=world.wait)
    world.apply(giver.name, sources=[image(ref)], installNamespace=name, revisionHistoryLimit=0)
    world.wait(lambda: is_at_rest(giver), "installed")
    giver.change(paused=True)
    giver.wait_for("Paused")
    return Deployed(client=world.client, name=name, ref=ref, wait=world.wait)


def take_over(world: World, deployed: Deployed) -> None:
    path = f"/api/v1/namespaces/{deployed.name}"
    giver = world.client.get(path, metadata=True).value["metadata"]["labels"]["core.rukpak.io/bundle-deployment"]
    world.deploy(name=deployed.name, ref=deployed.ref, revisionHistoryLimit=0, takeOver=[{"name": giver}])


INSTALL = Work(prepare=name_it, begin=install, is_done=is_at_rest, ends_with=first_bundle)
TAKE_BACK = Work(
    prepare=release,
    begin=install,
    is_done=is_at_rest,
    ends_with=released_bundle,
    # Applied while the mark of the release is still on the object, which only the next write removes.
    repeated=Counter(
        f"PATCH /api/v1/namespaces/NAME{path}" for path in ("", "/configmaps/settings", "/configmaps/more")
    ),
)
TAKE_OVER = Work(
    prepare=give,
    begin=take_over,
    is_done=is_at_rest,
    ends_with=handed_bundle,
    needs=Counter(
        {f"PATCH /api/v1/namespaces/NAME{path}": 2 for path in ("", "/configmaps/settings", "/configmaps/more")}
    ),
)
WORKS = {
    "an install": INSTALL,
    "taking back": TAKE_BACK,
    "a hand-over": TAKE_OVER,
    "an upgrade with prune": Work(prepare=install_and_rest, begin=upgrade, is_done=is_at_rest, ends_with=second_bundle),
    "an upgrade that waits for approval": Work(
        prepare=install_guarded,
        begin=upgrade,
        is_done=approve_and_rest,
        ends_with=second_bundle,
        # One that no status names yet is deleted after a restart, and made again.
        repeated=Counter({"DELETE /api/v1/namespaces/rukpak-system/secrets/revision": 1}),
    ),
    "taking over items": Work(
        prepare=install_service,
        begin=renumber,
        is_done=is_renumbered,
        ends_with=served_bundle,
        needs=Counter({"PATCH /api/v1/namespaces/NAME/services/web": 2}),
    ),
    "migrating entries": Work(
        prepare=outgrow,
        begin=resize,
        is_done=is_resized,
        ends_with=lambda name: versioned_bundle(name, color=DEFAULTED),
        repeated=Counter({THING: 1}),  # the one that is refused
        needs=Counter({THING: 3}),
    ),
    "a deletion": Work(prepare=install_and_rest, begin=delete, is_done=is_gone, ends_with=lambda _: []),
}


OFTEN = ("an install", "taking back", "a hand-over")
POINTS = {
    f"{work}, {cut}": (WORKS[work], CUTS[cut])
    for work in WORKS
    for cut in CUTS
    # Before the next write is carried out, the cluster is as it is before the reply to this one is heard.
    if FULL or (work in OFTEN and (cut == "before it is carried out" or work == "a hand-over"))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a work has ended."""

    writes: Counter[str]
    """That were carried out in all, by the controller that was killed and by the one after it."""
    was_cut: bool
    at: str
    """Where: the write that was the last one."""


def carry_out(world: World, severing: Severing, work: Work, cut: Cut) -> Ended:
    """Have a work done, killed at its n-th write if it has as many, and check how it has ended."""
    deployed = work.prepare(world, cut.name)
    severing.arm(cut)
    work.begin(world, deployed)

    def is_done() -> bool:
        return work.is_done(deployed)

    wait_cut_or_over(world, severing, is_done)
    was_cut, written = severing.severed.is_set(), severing.written(cut.name)
    if was_cut:
        world.controller.kill()
    severing.restore()
    if was_cut:
        world.controller.start()
        world.wait(is_done, f"done after the controller was killed at write {cut.nth}, after {written}")
    assert_ended(world, work, deployed)
    writes = Counter(shorten(each, cut.name) for each in severing.written(cut.name))
    take_off(world, deployed)
    return Ended(writes=writes, was_cut=was_cut, at=(written or ["none"])[-1])


def wait_cut_or_over(world: World, severing: Severing, is_done: Callable[[], bool]) -> None:
    """Wait until a controller is cut off, or has dealt with all that was there to see: something may follow the end."""
    world.wait(lambda: severing.severed.is_set() or is_done(), "cut off or done")
    if not severing.severed.is_set():
        bystander = world.deploy(config_map("last"))
        world.wait(lambda: severing.severed.is_set() or is_at_rest(bystander), "cut off or over")


def assert_ended(world: World, work: Work, deployed: Deployed) -> None:
    wanted = paths_of(work.ends_with(deployed.name), deployed.name)
    found = held(world, deployed.name)
    assert found.keys() == wanted.keys()
    assert [path for path, manifest in wanted.items() if not contains(found[path], manifest)] == []
    if wanted:
        status, total = deployed.status(), len(wanted)
        assert {what: count for what, count in status["objects"].items() if count} == {"total": total, "healthy": total}
        assert deployed.conditions().keys() == {"Unpacked", "Installed", "Healthy", "Ready"}
        assert not status.get("notReady")
    assert len(deployed.revisions()) == (1 if wanted else 0)


def take_off(world: World, deployed: Deployed) -> None:
    """Take a BundleDeployment and what it has installed off the cluster without waiting for it."""
    name = deployed.name
    gone = [deployed.path, f"{HOOKS}/{name}", f"{CRDS}/foos.{group_of(name)}", f"/api/v1/namespaces/{name}"]
    for path in gone:
        with suppress(ApiError):
            world.client.delete(path)
            world.client.merge_patch(path, {"metadata": {"finalizers": None}})


def shorten(write: str, name: str) -> str:
    """Return a write without what differs from one BundleDeployment to the next: its name, and digests of revisions."""
    return re.sub(r"revision\..*", "revision", write).replace(name, "NAME")


@pytest.mark.parametrize(("work", "fault"), POINTS.values(), ids=POINTS)
def test_a_controller_that_is_killed_at_any_write_loses_nothing_and_does_nothing_twice(
    mortal_world: World, severing: Severing, work: Work, fault: Fault
) -> None:
    needed = carry_out(mortal_world, severing, work, Cut(name=new_name(), nth=MOST, fault=fault))
    assert not needed.was_cut
    assert not work.needs - needed.writes
    for nth in range(1, MOST):
        ended = carry_out(mortal_world, severing, work, Cut(name=new_name(), nth=nth, fault=fault))
        more, less = ended.writes - needed.writes - REPEATED - work.repeated, needed.writes - ended.writes - OMITTED
        assert (dict(more), dict(less)) == ({}, {}), f"killed at write {nth}, after {ended.at}"
        if not ended.was_cut:
            break
    assert nth > len(needed.writes)


SEVERAL = {name: WORKS[name] for name in ("taking over items", "migrating entries")}
"""Each of these sends several writes for one object."""


FAILING = (
    FAILURES if FULL else {name: FAILURES[name] for name in ("409", "504 although it was carried out", "no reply")}
)
"""A 500 and a 503 are tried again as a 504 is, and have no other effect."""


@pytest.mark.parametrize("fault", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("work", SEVERAL.values(), ids=SEVERAL)
def test_a_write_that_fails_changes_nothing_about_the_end(
    mortal_world: World, severing: Severing, work: Work, fault: Fault
) -> None:
    for nth in range(1, MOST):
        name = new_name()
        deployed = work.prepare(mortal_world, name)
        severing.arm(Cut(name=name, nth=nth, fault=fault, severs=False))
        work.begin(mortal_world, deployed)
        # The last write deletes the superseded revision, when status says already that nothing is left to do.
        is_over = lambda: work.is_done(deployed) and len(deployed.revisions()) == 1  # noqa: B023, E731 - called at once
        mortal_world.wait(is_over, f"done although write {nth} failed")
        severing.restore()
        assert_ended(mortal_world, work, deployed)
        take_off(mortal_world, deployed)
        if not severing.faults():
            break
    assert nth > sum(work.needs.values())
