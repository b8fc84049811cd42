"""What a tenant borrows of others' rights by names and marks: those of a bundle, of an account, or of a namespace.

Any user who may write an object can set marks on it, and a deleted namespace can be recreated for another tenant.
Neither is a reason to act with permissions that were not granted.
"""

from __future__ import annotations

import json

import pytest

from rukpak.api import names
from tests.support.bundles import Deployed, Manifest, config_map, exists
from tests.support.inside import User
from tests.support.objects import claim, secret
from tests.support.tenants import ANN, AUTHENTICATED, BEN, OWN, Tenants, refused

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]
BENS = {"installNamespace": "other", "serviceAccountName": "installer"}
QUICK_SECONDS = 30.0
"""A deletion that waits for nobody; the machine may be busy."""


def claims(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"


def secrets(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets/{name}"


def forge(tenants: Tenants, deployed: Deployed, plural: str, manifest: Manifest, *, reference: bool) -> Manifest:
    """Put an object with all marks of a BundleDeployment into the namespace of ANN, and return it."""
    uid = deployed.read()["metadata"]["uid"]
    owner = {"apiVersion": f"{names.GROUP}/v1alpha2", "kind": names.KIND, "name": deployed.name, "uid": uid}
    metadata = {
        **manifest["metadata"],
        "namespace": "tenant",
        "labels": {names.OWNER_LABEL: deployed.name},
        "annotations": {names.OWNER_UID: uid, names.APPLIED_DIGEST: "v1:sha256:forged", names.PRUNE: "true"},
    }
    if reference:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    path = f"/api/v1/namespaces/tenant/{plural}/{manifest['metadata']['name']}"
    body = {**manifest, "metadata": metadata}
    made: Manifest = tenants.world.client.apply(
        path, body, manager=names.field_manager(deployed.name), force=True, metadata=False
    ).value
    return made


def delete(tenants: Tenants, deployed: Deployed, who: User) -> None:
    tenants.delete(who, deployed.name)
    tenants.world.wait(lambda: not exists(tenants.world.client, deployed.path), "gone", seconds=QUICK_SECONDS)


def events(deployed: Deployed, reason: str) -> str:
    def find() -> str:
        return str(deployed.events().get(reason, ""))

    found: str = deployed.wait(find, f"an Event {reason}")
    return found


# marks


def test_a_forged_claim_is_neither_taken_away_nor_a_reason_to_ask_for_rights(tenants: Tenants) -> None:
    ref = tenants.push("forged-claim", config_map("settings"), claim("data"))
    deployed = tenants.apply(BEN, "forged-claim", ref, **BENS, prune="AfterApply")
    deployed.wait_for("Installed")
    forge(tenants, deployed, "persistentvolumeclaims", claim("planted"), reference=False)
    tenants.push("forged-claim", config_map("new"), claim("data"))
    deployed.request_reconcile("planted")
    settings = "/api/v1/namespaces/other/configmaps/settings"
    tenants.world.wait(lambda: not exists(tenants.world.client, settings), "the upgrade")
    deployed.wait_for("Installed")
    asking = [each for each in deployed.status()["conditions"] if each["reason"] != "Strays"]
    assert "tenant" not in json.dumps(asking)
    delete(tenants, deployed, BEN)
    found = tenants.world.client.get(claims("tenant", "planted")).value["metadata"]
    assert "deletionTimestamp" not in found
    assert found["labels"] == {names.OWNER_LABEL: "forged-claim"}
    assert "PersistentVolumeClaim tenant/planted" in events(deployed, "Stray")


def test_a_forged_secret_ends_no_wait_and_blocks_nothing(tenants: Tenants) -> None:
    """Of a kind that is not watched: what carries the marks is not even seen."""
    deployed = tenants.apply(BEN, "forged-secret", **BENS)
    deployed.wait_ready()
    planted = forge(tenants, deployed, "secrets", secret("planted", key="value"), reference=False)
    delete(tenants, deployed, BEN)
    now = tenants.world.client.get(secrets("tenant", "planted")).value["metadata"]
    assert (now["uid"], now["resourceVersion"]) == (planted["metadata"]["uid"], planted["metadata"]["resourceVersion"])


# a kind that may not be watched


def test_a_bundle_with_a_secret_says_that_its_drift_is_not_seen_and_can_be_deleted(tenants: Tenants) -> None:
    deployed = tenants.apply(
        ANN, "secretive", tenants.push("secretive", config_map("settings"), secret("s", key="value")), **OWN
    )
    status = deployed.wait_ready()
    assert any(text.startswith("v1/Secret: drift is not detected") for text in status["warnings"])
    since = tenants.world.position()
    delete(tenants, deployed, ANN)
    assert not exists(tenants.world.client, secrets("tenant", "s"))
    deletes = [each for each in tenants.world.requests(since) if each.startswith("delete ") and "/secrets/s" in each]
    assert len(deletes) == 1


# an account that is gone


def forbid(tenants: Tenants, *verbs: str) -> None:
    """Let the account of ANN do in her namespace what is left of these verbs, and nothing else."""
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": list(verbs)}]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "less"}, "rules": rules}
    path = f"/apis/{group}/v1/namespaces/tenant"
    tenants.world.client.apply(f"{path}/roles/less", role, manager="tests", force=True)
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "less"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "tenant"}],
    }
    tenants.world.client.delete(f"{path}/rolebindings/installer")
    tenants.world.client.apply(f"{path}/rolebindings/installer", binding, manager="tests", force=True)


def restore(tenants: Tenants, name: str = "tenant") -> None:
    """Do what the administrator does for a tenant, again."""
    with_rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings/installer"
    if exists(tenants.world.client, with_rights):
        tenants.world.client.delete(with_rights)
    tenants.admit_again(name)


def install_claim(tenants: Tenants, name: str) -> Deployed:
    """Install a claim that is to go with its bundle, as ANN; her account may not delete it from then on."""
    goes = claim("data")
    goes["metadata"]["annotations"] = {names.PRUNE: "true"}
    deployed = tenants.apply(ANN, name, tenants.push(name, config_map("settings"), goes), **OWN)
    deployed.wait_for("Installed")
    return deployed


def test_without_its_account_a_claim_is_not_deleted_with_the_rights_of_the_controller(tenants: Tenants) -> None:
    deployed = install_claim(tenants, "accountless")
    before = tenants.world.client.get(claims("tenant", "data")).value
    forbid(tenants, "get", "create", "patch")
    tenants.world.client.delete("/api/v1/namespaces/tenant/serviceaccounts/installer")
    # She may delete a BundleDeployment of that account without there being one: the right is to its name.
    since = tenants.world.position()
    delete(tenants, deployed, ANN)
    after = tenants.world.client.get(claims("tenant", "data")).value
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert [each for each in tenants.world.writes(since) if "/namespaces/tenant/" in each] == []
    assert "PersistentVolumeClaim tenant/data: not deleted" in events(deployed, "ServiceAccountNotFound")
    tenants.world.client.delete(claims("tenant", "data"))
    restore(tenants)


@pytest.mark.thorough
def test_without_the_right_to_delete_a_claim_is_released(tenants: Tenants) -> None:
    deployed = install_claim(tenants, "deleteless")
    forbid(tenants, "get", "create", "patch")
    delete(tenants, deployed, ANN)
    found = tenants.world.client.get(claims("tenant", "data")).value["metadata"]
    assert "deletionTimestamp" not in found
    assert found["annotations"][names.RELEASED_FROM] == "deleteless"
    tenants.world.client.delete(claims("tenant", "data"))
    restore(tenants)


AS_CONTROLLER = {names.TEARDOWN_AS: names.CONTROLLER}


def test_that_the_controller_deletes_takes_its_rights(tenants: Tenants) -> None:
    deployed = tenants.apply(ANN, "as-controller", **OWN)
    deployed.wait_ready()
    with refused("use-controller-rights"):
        tenants.annotate(ANN, "as-controller", **AS_CONTROLLER)
    tenants.annotate(None, "as-controller", **AS_CONTROLLER)
    with refused("use-controller-rights"):
        tenants.change(ANN, "as-controller", paused=True)
    with refused("use-controller-rights"):
        tenants.annotate(ANN, "as-controller", **{names.TEARDOWN_AS: None})
    with refused("use-controller-rights"):
        tenants.delete(ANN, "as-controller")
    tenants.annotate(None, "as-controller", **{names.TEARDOWN_AS: None})
    delete(tenants, deployed, ANN)


# names that now belong to another tenant


LEA = User("lea", ("leaver", AUTHENTICATED))
"""Of the tenant "leaver", who leaves."""


def acted_as(tenants: Tenants, since: int, namespace: str) -> list[str]:
    """Return what the controller asked for since then as the account of a namespace."""
    user = f"system:serviceaccount:{namespace}:installer"
    events = tenants.control_plane.audit_requests(since)
    ours = [event for event in events if (event.get("impersonatedUser") or {}).get("username") == user]
    return [f"{event['verb']} {event['requestURI']}" for event in ours]


def test_a_bundle_of_a_tenant_who_left_does_nothing_in_a_namespace_of_the_same_name(tenants: Tenants) -> None:
    """Nor does it read a Secret there, nor may the one who left say that it is meant."""
    tenants.admit("leaver")
    tenants.put("leaver", "secrets", secret("login", username="robot", password="hers"))
    loses = tenants.push("left", config_map("settings"))
    deployed = tenants.apply(LEA, "left", loses, installNamespace="leaver", serviceAccountName="installer")
    deployed.wait_ready()
    tenants.world.client.delete("/api/v1/namespaces/leaver")
    tenants.world.wait(lambda: not exists(tenants.world.client, "/api/v1/namespaces/leaver"), "the namespace gone")
    deployed.wait_for("Ready", "False", "NamespaceNotFound")
    since = tenants.world.position()
    tenants.admit_another("leaver", people="other")
    deployed.wait_for("Stalled", "True", "NamespaceReplaced")
    private = {"url": f"https://{tenants.world.registry.host}/a.tar", "auth": {"secret": {"name": "login"}}}
    with refused("you need the verb"):
        tenants.change(LEA, "left", sources=[{"kind": "http", "http": private}])
    accepted = deployed.conditions()["Stalled"]["message"].split('"')[3]
    with refused('you need the verb "impersonate"'):
        tenants.annotate(LEA, "left", **{names.ACCEPTED_ACCOUNT: accepted})
    assert acted_as(tenants, since, "leaver") == []
    assert not exists(tenants.world.client, "/api/v1/namespaces/leaver/configmaps/settings")
    tenants.annotate(BEN, "left", **{names.ACCEPTED_ACCOUNT: accepted})
    deployed.wait_ready()
    assert exists(tenants.world.client, "/api/v1/namespaces/leaver/configmaps/settings")
    delete(tenants, deployed, BEN)


def test_an_account_that_was_made_again_is_not_used_until_the_spec_changes(tenants: Tenants) -> None:
    deployed = tenants.apply(ANN, "again", **OWN)
    deployed.wait_ready()
    settings = "/api/v1/namespaces/tenant/configmaps/settings"
    tenants.world.client.delete("/api/v1/namespaces/tenant/serviceaccounts/installer")
    tenants.admit_again("tenant")
    since = tenants.world.position()
    tenants.world.client.delete(settings)
    deployed.wait_for("Stalled", "True", "ServiceAccountReplaced")
    assert acted_as(tenants, since, "tenant") == []
    assert not exists(tenants.world.client, settings)
    tenants.change(ANN, "again", progressDeadline="9m")
    deployed.wait_ready()
    assert exists(tenants.world.client, settings)
    delete(tenants, deployed, ANN)


def test_the_deletion_of_a_bundle_does_nothing_as_an_account_that_was_made_again(tenants: Tenants) -> None:
    deployed = install_claim(tenants, "deleted-again")
    tenants.world.client.delete("/api/v1/namespaces/tenant/serviceaccounts/installer")
    tenants.admit_again("tenant")
    since = tenants.world.position()
    delete(tenants, deployed, ANN)
    assert acted_as(tenants, since, "tenant") == []
    assert "deletionTimestamp" not in tenants.world.client.get(claims("tenant", "data")).value["metadata"]
    assert "PersistentVolumeClaim tenant/data: not deleted" in events(deployed, "ServiceAccountReplaced")
    tenants.world.client.delete(claims("tenant", "data"))
