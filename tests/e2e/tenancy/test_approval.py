"""An editor without the verb `approve` cannot have an unapproved revision applied, by any sequence of writes.

RukPak is installed as config/restricted says, with config/policy/approval. Ann may write BundleDeployments, and in the
second test also their status. Only an administrator approves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from rukpak.api import names
from rukpak.controller.playground.cluster import KubectlError
from tests.support.bundles import ROOT, Deployed, Manifest, config_map
from tests.support.inside import ApiError
from tests.support.tenants import ANN, OWN, Tenants

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
REQUIRED = ROOT / "config/policy/approval"
KIND = f"bundledeployments.{names.GROUP}"
DENIED = 'the verb "approve"'


@pytest.fixture(scope="module")
def approving(tenants: Tenants) -> Iterator[Tenants]:
    """Tenants on a cluster where nothing is installed without approval."""
    kubectl = tenants.world.cluster.kubectl
    kubectl("apply", "-k", str(REQUIRED))
    spec = {"approval": "Automatic", **OWN}

    def is_enforced() -> bool:
        try:
            tenants.apply(ANN, "probe", "example.com/a:v1", **spec)
        except KubectlError as error:
            return "must be Manual" in error.stderr
        tenants.world.client.delete(f"/apis/{names.GROUP}/v1alpha2/{names.PLURAL}/probe")
        return False

    tenants.world.wait(is_enforced, "the policy")
    yield tenants
    kubectl("delete", "-k", str(REQUIRED))
    tenants.world.wait(lambda: not is_enforced(), "the policy out of force")  # which takes the API server a moment


def approve(deployed: Deployed) -> str:
    """Approve what waits as an administrator, and return its digest."""
    digest = wait_pending(deployed)
    deployed.change(approvedRevision=digest)
    return digest


def wait_pending(deployed: Deployed) -> str:
    deployed.wait_for("Installed", "False", "AwaitingApproval")
    digest: str = deployed.status()["pending"]["revision"]
    return digest


def settings(tenants: Tenants) -> Manifest:
    found: Manifest = tenants.world.client.get("/api/v1/namespaces/tenant/configmaps/settings").value["data"]
    return found


@pytest.fixture
def approved(approving: Tenants) -> Iterator[Deployed]:
    """A bundle of Ann's that an administrator has approved; a tag with evil content waits beside it."""
    approving.push("mine", config_map("settings", color="blue"))
    deployed = approving.apply(
        ANN, "mine", f"{approving.world.registry.host}/tenants/mine:v1", approval="Manual", **OWN
    )
    approve(deployed)
    deployed.wait_ready()
    approving.push("mine", config_map("settings", color="evil"))
    deployed.request_reconcile("now")
    wait_pending(deployed)
    yield deployed
    deployed.delete()
    deployed.wait_gone()


def merge(**spec: object) -> list[str]:
    return ["patch", KIND, "mine", "--type=merge", f"--patch={json.dumps({'spec': spec})}"]


def json_patch(*operations: Manifest) -> list[str]:
    return ["patch", KIND, "mine", "--type=json", f"--patch={json.dumps(operations)}"]


OWNER = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": "gone", "uid": "no-such-uid"}
OTHER = "sha256:" + "0" * 64
REFUSED: dict[str, Callable[[str], list[str]]] = {
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
    "to delete it": lambda _: ["delete", KIND, "mine", "--wait=false"],
    "to delete all": lambda _: ["delete", KIND, "--all", "--wait=false"],
    "to delete it without its objects": lambda _: ["delete", KIND, "mine", "--cascade=orphan", "--wait=false"],
    "to have the garbage collector delete it": lambda _: json_patch(
        {"op": "add", "path": "/metadata/ownerReferences", "value": [OWNER]}
    ),
}


def test_what_takes_the_verb_approve(approving: Tenants, approved: Deployed) -> None:
    digest, before = wait_pending(approved), approved.read()["spec"]

    for attempt in REFUSED.values():
        approving.may_not(ANN, *attempt(digest), saying=DENIED)

    without = approving.manifest("mine", approved.ref, **OWN)
    for force in ([], ["--server-side", "--force-conflicts"]):
        with suppress(KubectlError):  # an apply may also leave what another one has set
            approving.world.cluster.kubectl("apply", *force, *ANN, "-f", "-", input=without)
    with pytest.raises(KubectlError, match=r"spec[.]approval"):
        approving.world.cluster.kubectl("replace", *ANN, "-f", "-", input=without)
    approved.request_reconcile("after all")
    approved.wait(lambda: approved.status()["lastHandledReconcileAt"] == "after all", "a pass")
    assert approved.read()["spec"] == before
    assert settings(approving) == {"color": "blue"}


def test_what_may_be_changed_applies_nothing(approving: Tenants, approved: Deployed) -> None:
    kubectl = approving.world.cluster.kubectl
    for change in (
        merge(paused=True),
        merge(paused=False),
        merge(prune="AfterApply", collisionProtection="None", crdUpgradeSafety={"enforcement": "None"}),
        ["annotate", KIND, "mine", f"{names.RECONCILE_REQUESTED_AT}=again", "--overwrite"],
        ["label", KIND, "mine", "a=b"],
        merge(sources=[{"kind": "image", "image": {"ref": approved.ref}}]),
        json_patch({"op": "replace", "path": "/metadata/finalizers", "value": []}),
    ):
        kubectl(*change, *ANN)
        approved.wait_for("Installed", "False", "AwaitingApproval")
        assert settings(approving) == {"color": "blue"}


def test_a_status_approves_nothing(approving: Tenants, approved: Deployed) -> None:
    kubectl = approving.world.cluster.kubectl
    kubectl("create", "clusterrole", "status-writer", "--verb=get,patch", f"--resource={KIND}/status")
    kubectl("create", "clusterrolebinding", "status-writer", "--clusterrole=status-writer", "--group=tenant")
    digest = wait_pending(approved)
    write = ("patch", KIND, "mine", "--subresource=status", "--type=merge", *ANN)
    approving.world.wait(lambda: _succeeds(lambda: kubectl(*write, "--patch={}")), "the right")
    forged = [
        {"pending": None},
        {"revision": digest, "managedState": None},
        {"revision": digest, "installedRevision": digest},
        {"revision": None, "installedRevision": None, "pending": None, "managedState": None},
    ]
    for status in forged:
        approving.world.controller.kill()
        kubectl(*write, f"--patch={json.dumps({'status': status})}")
        approving.world.controller.start()
        approving.world.wait(lambda: "pending" in approved.status(), "the status as it was")
        assert settings(approving) == {"color": "blue"}
    kubectl("delete", "clusterrolebinding,clusterrole", "status-writer")


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
    with pytest.raises(KubectlError, match=rf"{DENIED}|must be Manual"):
        approving.apply(ANN, "trick", "example.com/a:v1", **OWN, **CREATED[trick])


def test_nor_with_an_owner(approving: Tenants) -> None:
    body = json.loads(approving.manifest("trick", "example.com/a:v1", approval="Manual", **OWN))
    body["metadata"]["ownerReferences"] = [OWNER]
    with pytest.raises(KubectlError, match=DENIED):
        approving.world.cluster.kubectl("create", *ANN, "-f", "-", input=json.dumps(body))


def test_whoever_has_the_verb_approves_and_deletes(approving: Tenants, approved: Deployed) -> None:
    kubectl = approving.world.cluster.kubectl
    kubectl("create", "clusterrolebinding", "approver", "--clusterrole=rukpak-approver", "--group=tenant")
    digest = wait_pending(approved)
    approving.world.wait(lambda: _succeeds(lambda: kubectl(*merge(approvedRevision=digest), *ANN)), "the right")
    approving.world.wait(lambda: settings(approving) == {"color": "evil"}, "the upgrade")
    kubectl("delete", "clusterrolebinding", "approver")


def _succeeds(request: Callable[[], object]) -> bool:
    try:
        request()
    except (KubectlError, ApiError):
        return False
    return True
