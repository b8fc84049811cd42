"""Hooks of charts on a real control plane: real Jobs, whose pods a test lets succeed or fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rukpak.controller.playground.cluster import ControlPlane
from rukpak.controller.playground.programs import Settings
from tests.support.bundles import Deployed, Manifest, World, config_map, new_name
from tests.support.controller import command
from tests.support.mortal import new_mortal_world
from tests.support.registry import LocalRegistry
from tests.support.weather import Fault, Weather

pytestmark = pytest.mark.long

CHART = b"apiVersion: v2\nname: shop\nversion: 1.0.0\n"
JOBS = "/apis/batch/v1"
KEPT, DROPPED = "before-hook-creation", "before-hook-creation,hook-succeeded"


def hook(name: str, events: str, policy: str = KEPT, weight: int = 0, **more: Any) -> Manifest:
    annotations = {
        "helm.sh/hook": events,
        "helm.sh/hook-delete-policy": policy,
        "helm.sh/hook-weight": str(weight),
    }
    container = {"name": "main", "image": "example.com/main:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "annotations": annotations}
    spec = {"backoffLimit": 0, "template": template, **more}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def chart(*manifests: Manifest) -> dict[str, bytes]:
    templates = {f"templates/{index}.yaml": json.dumps(each).encode() for index, each in enumerate(manifests)}
    return {"Chart.yaml": CHART, **templates}


def job(deployed: Deployed, name: str) -> Manifest | None:
    return deployed.get(name, "jobs", JOBS)


def end(world: World, deployed: Deployed, name: str, phase: str = "Succeeded", message: str = "") -> None:
    """Let the pod of a Job end, as a kubelet does."""
    code = 0 if phase == "Succeeded" else 1
    terminated = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z", "message": message}
    report(world, deployed, name, phase, container(terminated=terminated))


def container(restarts: int = 0, **state: Any) -> Manifest:
    about = {"name": "main", "ready": False, "restartCount": restarts, "image": "", "imageID": "", "state": state}
    return {**about, "lastState": {"terminated": {"exitCode": 1}}} if restarts else about


def report(world: World, deployed: Deployed, name: str, phase: str, main: Manifest) -> None:
    """Report the state of the pod of a Job, or of a Pod, as a kubelet does."""
    path = f"/api/v1/namespaces/{deployed.namespace}/pods"

    def find() -> Manifest | None:
        found = job(deployed, name)
        pods = world.client.list(path)
        return next((pod for pod in pods if is_owned(pod, found) or pod["metadata"]["name"] == name), None)

    pod = world.wait(find, f"the pod of {name}")
    key = "initContainerStatuses" if main["name"] == "init" else "containerStatuses"
    world.client.merge_patch(f"{path}/{pod['metadata']['name']}/status", {"status": {"phase": phase, key: [main]}})


def is_owned(pod: Manifest, owner: Manifest | None) -> bool:
    references = pod["metadata"].get("ownerReferences") or []
    return owner is not None and any(reference["uid"] == owner["metadata"]["uid"] for reference in references)


def deploy(world: World, *manifests: Manifest) -> Deployed:
    return world.deploy(chart(*manifests), format="helm")


def upgrade(world: World, deployed: Deployed, *manifests: Manifest) -> None:
    name = new_name()
    world.registry.push_image(name, "v1", [chart(*manifests)])
    deployed.change(sources=[{"kind": "image", "image": {"ref": f"{world.registry.host}/{name}:v1"}}])


def waiting(reason: str, restarts: int = 0) -> Manifest:
    return container(restarts, waiting={"reason": reason})


DEADLINE = "10m"
"""Longer than it takes a busy machine to show all of them while they run."""
SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main:1"}]}
# How a kubelet reports the pod of a hook, and what status says.
TROUBLES: list[tuple[Manifest | None, str]] = [
    (waiting("ErrImagePull"), 'ErrImagePull: container "main"'),
    ({**waiting("ErrImagePull"), "name": "init"}, 'ErrImagePull: init container "init"'),
    (waiting("CrashLoopBackOff", 4), 'CrashLoopBackOff: container "main"'),
    (None, "Unschedulable: no node can run the pod"),
]
BACK_OFF = (waiting("ImagePullBackOff"), 'ImagePullBackOff: container "main"')
CASES = [
    *(("pre-install", "Job", trouble) for trouble in TROUBLES[::2]),
    *(("pre-install", "Pod", trouble) for trouble in TROUBLES[1::2]),
    *((event, "Job", BACK_OFF) for event in ("post-install", "pre-upgrade", "post-upgrade", "pre-delete")),
]


def wait_for_color(deployed: Deployed, color: str) -> None:
    deployed.wait(lambda: deployed.data("settings") == {"color": color}, f"the revision of {color}")


def wait_idle(deployed: Deployed) -> None:
    deployed.wait(lambda: "Reconciling" not in deployed.conditions(), "nothing is left to do")


def wait_handled(deployed: Deployed, requested: str) -> None:
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == requested, "another pass")


def start(
    world: World, event: str, kind: str = "Job", policy: str = KEPT, deadline: str = DEADLINE, **spec: Any
) -> Deployed:
    """Deploy, upgrade or delete something with a hook, which begins to run."""
    migrate = hook("migrate", event, policy)
    if kind == "Pod":
        migrate = {**migrate, "apiVersion": "v1", "kind": "Pod", "spec": SPEC}
    is_first = "install" in event or event == "pre-delete"
    before = [config_map("settings", color="blue"), *([migrate] if is_first else [])]
    deployed = world.deploy(chart(*before), format="helm", progressDeadline=deadline, **spec)
    if "install" not in event:
        deployed.wait_ready()
    if event == "pre-delete":
        deployed.delete()
    elif not is_first:
        upgrade(world, deployed, config_map("settings", color="red"), migrate)
    deployed.wait_for("Ready", "False", "WaitingForHook")
    return deployed


def start_badly(world: World, event: str, kind: str, main: Manifest | None) -> Deployed:
    """Start a hook whose pod a kubelet reports as waiting, or not at all."""
    deployed = start(world, event, kind)
    if main:
        report(world, deployed, "migrate", "Pending", main)
    return deployed


def test_a_hook_that_does_not_start_says_why_and_has_failed_by_the_deadline(world: World) -> None:
    found = []
    for event, kind, (main, said) in CASES:
        deployed = start_badly(world, event, kind, main)
        found.append((event, deployed, f"{kind} {deployed.namespace}/migrate: {event} hook", said))
    rolled_back = [start(world, e, onFailure={"action": "RollBack"}) for e in ("pre-upgrade", "post-upgrade")]
    for deployed in rolled_back:
        report(world, deployed, "migrate", "Pending", BACK_OFF[0])
    hopeless = start(world, "pre-install")
    report(world, hopeless, "migrate", "Pending", waiting("InvalidImageName"))

    for _, deployed, name, said in found:
        deployed.wait_for("Ready", "False", "WaitingForHook", f"{name} is still running ({said}")
    hopeless.wait_for("Ready", "False", "HookFailed", 'pre-install hook failed (InvalidImageName: container "main"')
    for deployed in [*rolled_back, *(deployed for _, deployed, _, _ in found)]:
        deployed.change(progressDeadline="1s")
    for event, deployed, name, said in found:
        deployed.wait_for("Ready", "False", "HookFailed", f"{name} failed (ProgressDeadlineExceeded: {said}")
        if event != "pre-delete":
            assert deployed.conditions()["Stalled"]["reason"] == "HookFailed"
    for deployed in rolled_back:
        deployed.wait_for("RolledBack", "True", "HookFailed", BACK_OFF[1])
        wait_for_color(deployed, "blue")
    # A hook that is late is left running, also when somebody asks, and counts if it succeeds after all.
    for event, deployed, *_ in found[-4:]:
        late = job(deployed, "migrate")
        deployed.request_reconcile("again")
        if event != "pre-delete":
            wait_handled(deployed, "again")
        assert late
        assert (job(deployed, "migrate") or late)["metadata"]["uid"] == late["metadata"]["uid"]
        end(world, deployed, "migrate")
        deployed.wait_gone() if event == "pre-delete" else deployed.wait_ready()


@pytest.mark.thorough
def test_another_revision_replaces_a_hook_that_was_not_started_and_waits_for_one_that_was(world: World) -> None:
    policies, events = (KEPT, "hook-succeeded", "hook-failed"), ("pre-install", "pre-upgrade", "post-upgrade")
    cases = [("pre-upgrade", policy, True) for policy in policies]
    cases += [(event, policy, False) for event in events for policy in policies]
    found = []
    for event, policy, started in cases:
        deployed = start(world, event, policy=policy, deadline="30s")
        if started:
            report(world, deployed, "migrate", "Running", container(running={"startedAt": "2026-01-01T00:00:00Z"}))
        before = job(deployed, "migrate")
        assert before
        upgrade(world, deployed, config_map("settings", color="green"), hook("migrate", event, policy, suspend=False))
        found.append((deployed, policy, started, before))
    for deployed, _, started, before in found:
        if started:
            deployed.wait_for("Ready", "False", "WaitingForHook", "of another revision, which has started, to end")
            assert job(deployed, "migrate") == before
        else:
            wait_for_another(deployed, before)
            end(world, deployed, "migrate")
            deployed.wait_ready()
            assert deployed.data("settings") == {"color": "green"}
    for deployed, policy, started, before in found:  # the deadline ends the wait
        if started and policy == KEPT:
            wait_for_another(deployed, before)
        elif started:
            deployed.wait_for("Ready", "False", "Collision", "the object of an earlier run still exists; delete it")


def test_hooks_run_around_a_first_install_also_with_a_restart_in_the_middle(world: World) -> None:
    deployed = deploy(
        world, config_map("settings"), hook("before", "pre-install", DROPPED), hook("after", "post-install")
    )
    deployed.wait_for("Installed", "False", "WaitingForHook", "Job")
    assert deployed.get("settings") is None

    end(world, deployed, "before")
    found = deployed.wait(lambda: job(deployed, "after"), "the hook after the objects")
    assert deployed.get("settings")
    assert not deployed.status().get("installedRevision")

    world.controller.kill()
    world.controller.start()
    end(world, deployed, "after")
    deployed.wait_ready()
    again = job(deployed, "after")
    assert again
    assert again["metadata"]["uid"] == found["metadata"]["uid"], "a restart neither forgets nor repeats it"
    deployed.wait(lambda: job(deployed, "before") is None, "the first hook goes")


def test_a_hook_without_a_name_gets_one_of_its_base_and_of_the_revision(world: World) -> None:
    def prepare(color: str) -> list[Manifest]:
        made = hook("", "pre-install,pre-upgrade", "hook-succeeded")
        metadata = {"generateName": "prep-", "annotations": made["metadata"]["annotations"]}
        return [config_map("settings", color=color), {**made, "metadata": metadata}, {**made, "metadata": metadata}]

    def run(known: set[str]) -> set[str]:
        """Let the next hook succeed, and return the names of all so far."""

        def find() -> list[str]:
            found = deployed.client.list(f"{JOBS}/namespaces/{deployed.namespace}/jobs")
            return [each["metadata"]["name"] for each in found if each["metadata"]["name"] not in known]

        [name] = deployed.wait(find, "the next hook")
        end(world, deployed, name)
        return {*known, name}

    deployed = deploy(world, *prepare("blue"))
    first = run(run(set()))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, *prepare("red"))
    both = run(run(first))
    deployed.wait_installed(before)
    assert len(both) == 4
    assert all(re.fullmatch(r"prep-[0-9a-f]{10}", name) for name in both)


def test_an_upgrade_waits_for_its_hook_and_what_is_installed_is_repaired_meanwhile(world: World) -> None:
    deployed = deploy(world, config_map("settings", color="blue"))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, config_map("settings", color="red"), hook("migrate", "pre-upgrade"))
    deployed.wait_for("Installed", "False", "WaitingForHook", "pre-upgrade hook is still running")

    world.client.merge_patch(deployed.path_of("settings"), {"data": {"color": "edited"}})
    deployed.wait(lambda: (deployed.data("settings") or {}).get("color") == "blue", "the repair")
    assert deployed.status()["installedRevision"] == before

    end(world, deployed, "migrate")
    deployed.wait(lambda: (deployed.data("settings") or {}).get("color") == "red", "the upgrade")
    deployed.wait_ready()


@pytest.mark.thorough
def test_an_upgrade_still_waits_for_its_hook_after_a_repair_that_was_refused_and_a_restart(world: World) -> None:
    deployed = deploy(world, config_map("settings", color="blue"))
    before = deployed.wait_ready()["installedRevision"]
    upgrade(world, deployed, config_map("settings", color="red"), config_map("more"), hook("migrate", "pre-upgrade"))
    deployed.wait_for("Installed", "False", "WaitingForHook")

    edit = {"data": {"color": "edited"}, "immutable": True}
    world.client.merge_patch(deployed.path_of("settings"), edit)
    # Nothing but the repair that was begun takes the state away.
    deployed.wait(lambda: not deployed.status().get("managedState"), "the repair")
    deployed.request_reconcile("again")
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "again", "another pass")
    world.controller.kill()
    world.controller.start()
    deployed.request_reconcile("after the restart")
    deployed.wait(lambda: deployed.status().get("lastHandledReconcileAt") == "after the restart", "another pass")
    assert deployed.get("more") is None
    assert deployed.status()["installedRevision"] == before

    end(world, deployed, "migrate")
    deployed.wait(lambda: deployed.get("more"), "the upgrade")


def test_a_hook_that_fails_is_told_and_run_again_when_somebody_asks(world: World) -> None:
    deployed = deploy(world, config_map("settings"), hook("migrate", "pre-install"))
    end(world, deployed, "migrate", "Failed", message="no table named\norders")
    found = deployed.wait_for("Installed", "False", "HookFailed")
    why = 'BackoffLimitExceeded; ContainerFailed: container "main" ended with exit code 1: no table named orders'
    assert f"migrate: pre-install hook failed ({why}); check the logs of its pods" in found["message"]
    assert deployed.conditions()["Stalled"]["reason"] == "HookFailed"

    failed = job(deployed, "migrate")
    assert failed
    deployed.request_reconcile("again")
    deployed.wait(lambda: (job(deployed, "migrate") or failed)["metadata"]["uid"] != failed["metadata"]["uid"], "a run")
    end(world, deployed, "migrate")
    deployed.wait_ready()


def test_hooks_run_around_a_teardown(world: World) -> None:
    deployed = deploy(world, config_map("settings"), hook("before", "pre-delete"), hook("after", "post-delete"))
    deployed.wait_ready()
    deployed.delete()
    deployed.wait(lambda: job(deployed, "before"), "the hook before")
    assert deployed.get("settings")
    end(world, deployed, "before")
    deployed.wait(lambda: job(deployed, "after"), "the hook after")
    assert deployed.get("settings") is None
    end(world, deployed, "after")
    deployed.wait_gone()


def wait_for_another(deployed: Deployed, found: Manifest) -> Manifest:
    """Wait for a Job with the name of a known one."""

    def find() -> Manifest | None:
        now = job(deployed, found["metadata"]["name"])
        return now if now and now["metadata"]["uid"] != found["metadata"]["uid"] else None

    another: Manifest = deployed.wait(find, "another Job of that name")
    return another


def test_a_hook_under_way_is_not_awaited_once_the_upgrade_is_given_up(world: World) -> None:
    deployed = deploy(world, config_map("settings", color="blue"))
    before = deployed.wait_ready()["installedRevision"]
    first = deployed.read()["spec"]["sources"]
    upgrade(world, deployed, config_map("settings", color="red"), hook("migrate", "pre-upgrade"))
    deployed.wait_for("Installed", "False", "WaitingForHook")
    found = job(deployed, "migrate")

    second = deployed.read()["spec"]["sources"]
    deployed.change(sources=first)
    deployed.wait_ready()
    kept = job(deployed, "migrate")
    assert found
    assert kept
    assert (deployed.status()["installedRevision"], kept["metadata"]["uid"]) == (before, found["metadata"]["uid"])

    deployed.change(sources=second)
    deployed.wait_for("Installed", "False", "WaitingForHook")
    end(world, deployed, "migrate")
    deployed.wait_installed(before)
    again = job(deployed, "migrate")
    assert again
    assert again["metadata"]["uid"] == found["metadata"]["uid"]


def test_a_hook_under_way_is_not_awaited_once_the_bundle_is_deleted_and_runs_again_when_it_is_back(
    world: World,
) -> None:
    deployed = deploy(world, config_map("settings"), hook("migrate", "post-install"))
    found = deployed.wait(lambda: job(deployed, "migrate"), "the hook")
    deployed.delete()
    deployed.wait_gone()
    assert deployed.get("settings") is None
    assert job(deployed, "migrate")

    world.deploy(name=deployed.name, ref=deployed.ref, format="helm")
    wait_for_another(deployed, found)
    end(world, deployed, "migrate")
    deployed.wait_ready()


@pytest.mark.parametrize("event", ["pre-install", "pre-delete"])
def test_a_hook_runs_as_soon_as_its_name_is_free(event: str, world: World) -> None:
    name = new_name()
    world.client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    jobs, foreign = f"{JOBS}/namespaces/{name}/jobs", hook("migrate", event)
    del foreign["metadata"]["annotations"]
    world.client.create(jobs, foreign)
    ref = world.push(name, chart(config_map("settings"), hook("migrate", event)))
    deployed = world.deploy(name=name, ref=ref, format="helm")
    if event == "pre-delete":
        deployed.wait_ready()
        deployed.delete()
        deployed.wait_for("Ready", "False", "Collision", "is not from this bundle")
    else:
        deployed.wait_for("Installed", "False", "Collision", "is not from this bundle")

    world.client.delete(f"{jobs}/migrate")

    end(world, deployed, "migrate")
    if event == "pre-delete":
        deployed.wait_gone()
    else:
        deployed.wait_ready()


def test_what_a_refused_hook_holds_up_says_the_way_out(world: World) -> None:
    deployed = deploy(world, config_map("settings"), hook("before", "pre-delete", template={}))
    deployed.wait_ready()
    deployed.delete()
    deployed.wait_for("Ready", "False", saying="to delete without hooks and keep all objects")
    deployed.change(deletionPolicy="Orphan")
    deployed.wait_gone()
    assert deployed.get("settings")


def test_no_other_namespace_than_the_install_namespace_is_made_for_a_hook(world: World) -> None:
    elsewhere = hook("before", "pre-install")
    elsewhere["metadata"]["namespace"] = missing = new_name()
    deployed = deploy(world, config_map("settings"), elsewhere)
    deployed.wait_for("Installed", "False", "NamespaceNotFound", f'namespace "{missing}" does not exist')
    assert missing not in [each["metadata"]["name"] for each in world.client.list("/api/v1/namespaces")]


def test_a_chart_of_hooks_alone_runs_them_and_is_installed(world: World) -> None:
    deployed = deploy(world, hook("before", "pre-install,pre-upgrade"), hook("after", "post-install"))
    deployed.wait_for("Installed", "False", "WaitingForHook", "Job")
    end(world, deployed, "before")
    deployed.wait(lambda: job(deployed, "after"), "the second hook")
    end(world, deployed, "after")
    deployed.wait_ready()

    upgrade(world, deployed, config_map("settings"))
    deployed.wait(lambda: deployed.get("settings"), "the upgrade")
    deployed.wait_ready()
    upgrade(world, deployed, hook("before", "pre-install,pre-upgrade"))
    deployed.wait_for("Installed", "False", "NoContent", "renders no objects")
    assert deployed.get("settings")


def test_a_chart_that_renders_nothing_is_installed_with_a_warning(world: World) -> None:
    deployed = deploy(world)
    assert "renders no objects" in deployed.wait_ready()["warnings"][0]


def test_hooks_and_their_pods_are_in_the_tree(world: World) -> None:
    account = {**config_map("account"), "metadata": hook("account", "pre-install", weight=-1)["metadata"]}
    deployed = deploy(world, config_map("settings"), account, hook("migrate", "pre-install"))
    deployed.wait_for("Ready", "False", "WaitingForHook")
    report(world, deployed, "migrate", "Pending", waiting("ErrImagePull"))
    rukpak, viewer = command(world.cluster.kubeconfig), new_name()
    role = ["--verb=get,list", "--resource=bundledeployments.core.rukpak.io,configmaps,jobs.batch,pods"]
    world.cluster.kubectl("create", "clusterrole", viewer, *role)
    world.cluster.kubectl("create", "clusterrolebinding", viewer, f"--clusterrole={viewer}", f"--user={viewer}")

    def shown(*options: str) -> dict[str, Any]:
        root = json.loads(rukpak("tree", deployed.name, "-o", "json", *options).stdout)
        children = {each["name"]: [(at["kind"], at["health"]) for at in each["children"]] for each in root["children"]}
        return {each["name"]: (each["health"], each["message"], children[each["name"]]) for each in root["children"]}

    health, message, pods = running = shown()["migrate"]
    assert (health, pods) == ("ErrImagePull", [("Pod", "ErrImagePull")])
    assert message.startswith("pre-install hook: ")
    assert shown()["account"] == ("Healthy", "pre-install hook", [])
    found = shown(f"--as={viewer}")
    assert found["migrate"] == running
    assert "account" not in found  # who may not read revisions sees the hooks that run
    end(world, deployed, "migrate")
    deployed.wait_ready()
    assert shown()["migrate"] == ("Healthy", "pre-install hook", [("Pod", "Healthy")])


# deletions that fail


class Refusing(Weather):
    """Answers 500 to deletions of hooks, which have `hook` in their names, while it is told to."""

    refuses = True

    def meet(self, verb: str, path: str) -> Fault | None:
        return Fault.BROKEN if self.refuses and verb == "DELETE" and "/hook-" in path else None


@pytest.fixture
def refusing(fresh_kwok_cluster: ControlPlane) -> Iterator[Refusing]:
    with Refusing(fresh_kwok_cluster.server, fresh_kwok_cluster.folder / "ca.crt") as started:
        yield started


@pytest.fixture
def refused_world(
    fresh_kwok_cluster: ControlPlane, registry: LocalRegistry, settings: Settings, refusing: Refusing
) -> Iterator[World]:
    with new_mortal_world(fresh_kwok_cluster, registry, settings, refusing) as made:
        yield made


@pytest.mark.thorough
def test_finished_hooks_whose_deletion_fails_are_deleted_later(refused_world: World, refusing: Refusing) -> None:
    world, events = refused_world, ("pre-install", "post-install", "pre-delete", "post-delete")
    found = {}
    for event in events:
        more = hook("hook-data", event, "hook-succeeded", weight=-1)
        data = {**config_map("hook-data"), "metadata": more["metadata"]}
        found[event] = deploy(world, config_map("settings"), data, hook("hook-job", event, "hook-succeeded"))
    for event, deployed in found.items():
        deployed.wait_ready()
        if "delete" in event:
            deployed.delete()
            deployed.wait_for("Ready", "False", "APIUnavailable", "the API server answered 500")
        else:
            deployed.wait_for("Reconciling", "True", "PrunePending", "the API server answered 500")
    deleted = deploy(world, config_map("settings"), hook("hook-job", "post-install", "hook-succeeded"))
    deleted.wait_for("Reconciling", "True", "PrunePending", "the API server answered 500")
    world.restart()
    deleted.delete()
    deleted.wait_for("Ready", "False", "APIUnavailable", "Job ")
    refusing.refuses = False
    for event, deployed in found.items():
        if "delete" in event:
            deployed.wait_gone()
        else:
            wait_idle(deployed)
        assert job(deployed, "hook-job") is None
        assert deployed.get("hook-data") is None
    deleted.wait_gone()
    assert job(deleted, "hook-job") is None
