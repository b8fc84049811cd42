"""An editor without the verb `approve` cannot have an unapproved revision applied, by any sequence of writes.

RukPak is installed as config/restricted says, with config/policy/approval. Ann may write BundleDeployments, and in the
second test also their status. Only an administrator approves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from rukpak.api import names
from tests.support.bundles import DEPLOYMENTS, Deployed, Manifest, config_map
from tests.support.inside import ApiError, Client
from tests.support.tenants import ANN, OWN, RBAC, Tenants, make, refused

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
DENIED = 'the verb "approve"'
TENANT = {"kind": "Group", "name": "tenant"}


@pytest.fixture(scope="module")
def approving(tenants: Tenants) -> Iterator[Tenants]:
    """Tenants on a cluster where nothing is installed without approval."""
    refusal = partial(tenants.find_refusal, ANN, approval="Automatic", **OWN)
    with tenants.enforced("policy/approval", lambda: "must be Manual" in refusal()):
        yield tenants


def approve(deployed: Deployed) -> str:
    """Approve what waits as an administrator, and return its digest."""
    digest = wait_pending(deployed)
    deployed.change(approvedRevision=digest)
    return digest


def wait_pending(deployed: Deployed) -> str:
    deployed.wait_for("Installed", "False", "AwaitingApproval")
    digest: str = deployed.status()["pending"]["revision"]
    return digest


def settings(tenants: Tenants, name: str = "mine") -> Manifest:
    found: Manifest = tenants.world.client.get(f"/api/v1/namespaces/tenant/configmaps/{name}").value["data"]
    return found


def wait_with_evil(approving: Tenants, name: str) -> Deployed:
    """Return a bundle of Ann's that an administrator has approved; evil content of its tag waits beside it."""
    ref = approving.push(name, config_map(name, color="blue"))
    deployed = approving.apply(ANN, name, ref, approval="Manual", **OWN)
    approve(deployed)
    deployed.wait_ready()
    approving.push(name, config_map(name, color="evil"))
    deployed.request_reconcile("now")
    wait_pending(deployed)
    return deployed


@pytest.fixture
def approved(approving: Tenants) -> Iterator[Deployed]:
    deployed = wait_with_evil(approving, "mine")
    yield deployed
    deployed.delete()
    deployed.wait_gone()


MINE = f"{DEPLOYMENTS}/mine"


def merge(**spec: object) -> Callable[[Client], object]:
    return lambda client: client.merge_patch(MINE, {"spec": spec})


def metadata(**fields: object) -> Callable[[Client], object]:
    return lambda client: client.merge_patch(MINE, {"metadata": fields})


def json_patch(*operations: Manifest) -> Callable[[Client], object]:
    return lambda client: client.json_patch(MINE, operations)


def delete(propagation: str) -> Callable[[Client], object]:
    return lambda client: client.delete(MINE, propagation=propagation)


OWNER = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": "gone", "uid": "no-such-uid"}
OTHER = "sha256:" + "0" * 64
REFUSED: dict[str, Callable[[str], Callable[[Client], object]]] = {
    "to approve it": lambda digest: merge(approvedRevision=digest),
    "to deny it": lambda digest: merge(deniedRevision=digest),
    "to withdraw the approval": lambda _: merge(approvedRevision=None),
    "to approve another account": lambda _: merge(approvedServiceAccountName="default"),
    "to approve the account of the controller": lambda _: merge(approvedServiceAccountName=""),
    "to turn approval off": lambda _: merge(approval="Automatic"),
    "to remove it by null": lambda _: merge(approval=None),
    "to remove it by JSON patch": lambda _: json_patch({"op": "remove", "path": "/spec/approval"}),
    "to approve among other changes": lambda digest: json_patch(
        {"op": "add", "path": "/spec/prune", "value": "AfterApply"},
        {"op": "add", "path": "/spec/approvedRevision", "value": digest},
    ),
    "to delete it": lambda _: delete("Background"),
    "to delete it without its objects": lambda _: delete("Orphan"),
    "to have the garbage collector delete it": lambda _: json_patch(
        {"op": "add", "path": "/metadata/ownerReferences", "value": [OWNER]}
    ),
}


def test_what_takes_the_verb_approve(approving: Tenants, approved: Deployed) -> None:
    digest, before = wait_pending(approved), approved.read()["spec"]

    client = approving.world.client.acting_as(ANN)
    for attempt in REFUSED.values():
        with refused(DENIED):
            attempt(digest)(client)

    without = approving.manifest("mine", approved.ref, **OWN)
    with suppress(ApiError):  # an apply may also leave what another one has set
        client.apply(MINE, without, manager="kubectl", force=True)
    without["metadata"]["resourceVersion"] = approved.read()["metadata"]["resourceVersion"]
    with refused("spec.approval"):
        client.request("PUT", MINE, body=without)
    approved.request_reconcile("after all")
    approved.wait(lambda: approved.status()["lastHandledReconcileAt"] == "after all", "a pass")
    assert approved.read()["spec"] == before
    assert settings(approving) == {"color": "blue"}


def test_what_may_be_changed_applies_nothing(approving: Tenants, approved: Deployed) -> None:
    client = approving.world.client.acting_as(ANN)
    for change in (
        merge(paused=True),
        merge(paused=False),
        merge(prune="AfterApply", collisionProtection="None", crdUpgradeSafety={"enforcement": "None"}),
        metadata(annotations={names.RECONCILE_REQUESTED_AT: "again"}),
        metadata(labels={"a": "b"}),
        merge(sources=[{"kind": "image", "image": {"ref": approved.ref}}]),
        json_patch({"op": "replace", "path": "/metadata/finalizers", "value": []}),
    ):
        change(client)
        approved.wait_for("Installed", "False", "AwaitingApproval")
        assert settings(approving) == {"color": "blue"}


FORGED: list[Callable[[str], Manifest]] = [
    lambda _: {"pending": None},
    lambda digest: {"revision": digest, "managedState": None},
    lambda digest: {"revision": digest, "installedRevision": digest},
    lambda _: {"revision": None, "installedRevision": None, "pending": None, "managedState": None},
]


def test_a_status_approves_nothing(approving: Tenants) -> None:
    rules = [{"apiGroups": [names.GROUP], "resources": [f"{names.PLURAL}/status"], "verbs": ["get", "patch"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "status-writer"}}
    made = [f"{RBAC}/clusterroles/status-writer"]
    make(approving.world, made[0], {**role, "rules": rules})
    made.append(approving.bind("status-writer", "status-writer", TENANT))
    waiting = [wait_with_evil(approving, f"forged-{index}") for index in range(len(FORGED))]
    digests = [wait_pending(each) for each in waiting]
    write = partial(approving.patch, ANN, subresource="status")
    approving.world.wait(lambda: _succeeds(lambda: write(waiting[0].name, {})), "the right")

    approving.world.controller.kill()
    for forge, each, digest in zip(FORGED, waiting, digests, strict=True):
        write(each.name, {"status": forge(digest)})
    before = len(approving.world.controller.log)
    approving.world.controller.start()

    def passes() -> set[str]:
        lines = [line for line in approving.world.controller.log[before:].splitlines() if "pass ended" in line]
        return {each.name for each in waiting if any(f'"{each.name}"' in line for line in lines)}

    approving.world.wait(lambda: len(passes()) == len(waiting), "a pass of each")
    for each, digest in zip(waiting, digests, strict=True):
        each.wait(partial(is_pending, each, digest), "the status as it was")
        assert settings(approving, each.name) == {"color": "blue"}
        each.delete()
        each.wait_gone()
    for path in made:
        approving.world.client.delete(path)


def is_pending(deployed: Deployed, digest: str) -> bool:
    return bool((deployed.status().get("pending") or {}).get("revision") == digest)


CREATED: dict[str, Manifest] = {
    "approved at once": {"approval": "Manual", "approvedRevision": OTHER},
    "with a denial": {"approval": "Manual", "deniedRevision": OTHER},
    "with an approved account": {"approval": "Manual", "approvedServiceAccountName": "installer"},
    "without approval": {},
    "with approval in so many words": {"approval": "Automatic"},
    "with null": {"approval": None},
}


@pytest.mark.parametrize("trick", CREATED)
def test_what_may_not_be_created(approving: Tenants, trick: str) -> None:
    with refused(DENIED, "must be Manual"):
        approving.apply(ANN, "trick", "example.com/a:v1", **OWN, **CREATED[trick])


def test_nor_with_an_owner(approving: Tenants) -> None:
    body = approving.manifest("trick", "example.com/a:v1", approval="Manual", **OWN)
    body["metadata"]["ownerReferences"] = [OWNER]
    with refused(DENIED):
        approving.world.client.acting_as(ANN).create(DEPLOYMENTS, body)


def test_whoever_has_the_verb_approves_and_deletes(approving: Tenants, approved: Deployed) -> None:
    binding = approving.bind("approver", "rukpak-approver", TENANT)
    digest = wait_pending(approved)
    approving.world.wait(lambda: _succeeds(lambda: approving.change(ANN, "mine", approvedRevision=digest)), "the right")
    approving.world.wait(lambda: settings(approving) == {"color": "evil"}, "the upgrade")
    approving.world.client.delete(binding)


def _succeeds(request: Callable[[], object]) -> bool:
    try:
        request()
    except ApiError:
        return False
    return True
