"""Which revisions may be applied."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from rukpak.api.v1alpha2.types import Spec
from rukpak.controller.building.revision import Revision, Terms
from rukpak.controller.revisions.approval import NEW, REPLACED, Decision, decide
from tests.support.deployments import manifest

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
GO, AWAIT, ACCOUNT, DENY = Decision.GO_AHEAD, Decision.AWAIT, Decision.AWAIT_ACCOUNT, Decision.DENY


def revision(digest: str, held: str = "", account: str = "") -> Revision:
    terms = Terms(inputs="", install_namespace="shop", held=held, service_account_name=account)
    return Revision(digest=digest, objects=(), terms=terms)


def spec(**fields: Any) -> Spec:
    return Spec.model_validate({**manifest("shop")["spec"], "installNamespace": "shop", **fields})


class Case(NamedTuple):
    name: str
    spec: Mapping[str, str]
    expect: Decision
    wanted: Revision = revision(B, NEW)
    target: Revision | None = revision(A)
    adds: bool = True


MANUAL = {"approval": "Manual"}
NEW_ONES = {"approval": "NewPermissions"}
APPROVED = {**MANUAL, "approvedRevision": B}
CASES = [
    Case("without a policy everything goes ahead", {}, GO, revision(B)),
    Case("nor does a first revision wait", {}, GO, revision(B), None),
    Case("a policy that was removed holds nothing", {"approval": "Automatic"}, GO),
    Case("a new revision waits", MANUAL, AWAIT),
    Case("a first revision waits", MANUAL, AWAIT, target=None),
    Case("one that was stored under another policy waits", MANUAL, AWAIT, revision(B)),
    Case("what is on the cluster does not wait", MANUAL, GO, revision(A)),
    Case("an approved one goes ahead", APPROVED, GO),
    Case("also as the first", APPROVED, GO, target=None),
    Case("also if it was installed before", APPROVED, GO, revision(B, REPLACED)),
    Case("one that was replaced waits", MANUAL, AWAIT, revision(B, REPLACED)),
    Case("approved is another one", {**MANUAL, "approvedRevision": A}, AWAIT),
    Case("a denied one is not applied", {**MANUAL, "deniedRevision": B}, DENY),
    Case("nor without a policy", {"deniedRevision": B}, DENY, revision(B)),
    Case("nor if it is approved, too", {**APPROVED, "deniedRevision": B}, DENY),
    Case("denied is another one", {"deniedRevision": A}, GO, revision(B)),
    Case("what is on the cluster cannot be denied", {**MANUAL, "deniedRevision": A}, GO, revision(A)),
    Case("another account for what is on the cluster waits",
         {**MANUAL, "serviceAccountName": "y"}, ACCOUNT, revision(A, account="x"), revision(A, account="x")),
    Case("no account any more waits as well", MANUAL, ACCOUNT, revision(A, account="x"), revision(A, account="x")),
    Case("an approval from before is for the account from before",
         {**MANUAL, "approvedRevision": A, "serviceAccountName": "y"}, ACCOUNT,
         revision(A, account="x"), revision(A, account="x")),
    Case("another account is approved by name",
         {**MANUAL, "approvedRevision": A, "approvedServiceAccountName": "y", "serviceAccountName": "y"}, GO,
         revision(A, account="x"), revision(A, account="x")),
    Case("the account of the controller is approved by an empty name",
         {**MANUAL, "approvedRevision": A, "approvedServiceAccountName": ""}, GO,
         revision(A, account="x"), revision(A, account="x")),
    Case("a new revision is approved with the account that it was first seen with",
         {**APPROVED, "serviceAccountName": "y"}, GO, revision(B, NEW, "y"), revision(A, account="x")),
    Case("once it was let pass, another account waits",
         {**APPROVED, "serviceAccountName": "z"}, AWAIT, revision(B, "", "y"), revision(A, account="x")),
    Case("also after it was held for that",
         {**APPROVED, "serviceAccountName": "z"}, AWAIT, revision(B, REPLACED, "y"), revision(A, account="x")),
    Case("a named account is the only one that is approved",
         {**APPROVED, "approvedServiceAccountName": "x", "serviceAccountName": "y"}, AWAIT, revision(B, NEW, "y")),
    Case("new permissions wait", NEW_ONES, AWAIT),
    Case("without any it goes ahead", NEW_ONES, GO, adds=False),
    Case("the first revision always waits", NEW_ONES, AWAIT, target=None, adds=False),
    Case("so does one for another account",
         {**NEW_ONES, "serviceAccountName": "y"}, AWAIT, revision(B, NEW, "y"), revision(A, account="x"), adds=False),
    Case("and what is installed, for another account",
         {**NEW_ONES, "serviceAccountName": "y"}, ACCOUNT, revision(A, account="x"), revision(A, account="x"),
         adds=False),
    Case("new permissions are approved", {**NEW_ONES, "approvedRevision": B}, GO),
    Case("a denial counts without any", {**NEW_ONES, "deniedRevision": B}, DENY, adds=False),
    Case("by hand even what adds none waits", MANUAL, AWAIT, adds=False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_revisions_may_be_applied(case: Case) -> None:
    assert decide(spec(**case.spec), case.wanted, case.target, adds_permissions=case.adds) is case.expect
