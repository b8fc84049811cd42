from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from rukpak.api import names
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.building.revision import Terms
from rukpak.controller.revisions.accounts import Account, Identity, account_to_keep, is_up_to_date, judge, record
from tests.support import deployments

ACCOUNT = Account("shop", "deployer")
FIRST = Identity(namespace="n1", account="a1")
USED = {"serviceAccountName": "deployer", "namespaceUID": "n1", "serviceAccountUID": "a1", "generation": 3}
KEPT = Terms(
    inputs="",
    install_namespace="shop",
    service_account_name="deployer",
    account={"deploymentUID": "uid-shop", "namespaceUID": "n1", "serviceAccountUID": "a1"},
)
OF_ANOTHER = replace(KEPT, account={**(KEPT.account or {}), "deploymentUID": "uid-before"})
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 4}


def deployment(
    used: dict[str, Any] | None, *, accepted: str = "", name: str = "deployer", **metadata: Any
) -> BundleDeployment:
    annotations = {names.ACCEPTED_ACCOUNT: accepted} if accepted else {}
    return deployments.deployment(
        spec={"serviceAccountName": name},
        metadata={"generation": 3, "annotations": annotations, **metadata},
        status={"account": used} if used else {},
    )


class Case(NamedTuple):
    name: str
    found: Identity
    expect: Reason | None = None
    used: dict[str, Any] | None = USED
    accepted: str = ""
    metadata: Mapping[str, Any] = MappingProxyType({})
    kept: tuple[Terms, ...] = ()


NAMESPACE = Identity(namespace="n2", account="a2")
AGAIN = Identity(namespace="n1", account="a2")
OTHER = Reason.NAMESPACE_REPLACED
JUDGED = [
    Case("the same are the same", FIRST),
    Case("what was never used is whatever it is", NAMESPACE, used=None),
    Case("another namespace is another's", NAMESPACE, OTHER),
    Case("so is another account in the same", AGAIN, Reason.SERVICE_ACCOUNT_REPLACED),
    Case("a later spec accepts it", NAMESPACE, metadata={"generation": 4}),
    Case("a deletion, which is a later generation, does not", NAMESPACE, OTHER, metadata=GOING),
    Case("the annotation accepts what it names", NAMESPACE, accepted="n2/a2"),
    Case("also while it is being deleted", NAMESPACE, accepted="n2/a2", metadata=GOING),
    Case("and nothing that comes after that", Identity(namespace="n3", account="a3"), OTHER, accepted="n2/a2"),
    Case("what status has lost a revision knows", NAMESPACE, OTHER, used=None, kept=(KEPT,)),
    Case("a later spec is no word about that", NAMESPACE, OTHER, None, metadata={"generation": 9}, kept=(KEPT,)),
    Case("of one that had the name before it says nothing", NAMESPACE, used=None, kept=(OF_ANOTHER,)),
    Case("what status says of another account says nothing", NAMESPACE, used={**USED, "serviceAccountName": "x"}),
]


@pytest.mark.parametrize("case", JUDGED, ids=attrgetter("name"))
def test_whether_an_account_is_still_the_same(case: Case) -> None:
    refusal = judge(deployment(case.used, accepted=case.accepted, **case.metadata), ACCOUNT, case.found, case.kept)
    assert (refusal.reason if refusal else None) is case.expect


def test_a_refusal_says_how_to_accept_what_has_come() -> None:
    refusal = judge(deployment(USED), ACCOUNT, NAMESPACE)
    assert refusal
    assert refusal.message == (
        'spec.installNamespace: namespace "shop" was deleted and recreated; the controller no longer acts as this '
        "account; if its new owner wants this bundle, change the spec or set the annotation "
        'core.rukpak.io/accepted-account to "n2/a2"; otherwise delete the BundleDeployment'
    )


CURRENT = {
    "what was recorded for this spec": (deployment(USED), True),
    "what was recorded for an older one": (deployment(USED, generation=4), False),
    "nothing was recorded": (deployment(None), False),
    "there is no account": (deployment(None, name=""), True),
    "another account was recorded": (deployment({**USED, "serviceAccountName": "x"}), False),
    "somebody asks for another to be accepted": (deployment(USED, accepted="n2/a2"), False),
    "somebody asked for what was recorded since": (deployment(USED, accepted="n1/a1"), True),
}


@pytest.mark.parametrize("case", CURRENT)
def test_whether_status_says_which_account_is_used(case: str) -> None:
    asked, expected = CURRENT[case]
    assert is_up_to_date(asked) is expected


def test_what_is_recorded_is_what_was_found_for_this_spec() -> None:
    asked = deployment(None)
    used = record(asked, ACCOUNT, FIRST)
    assert used.model_dump(by_alias=True) == USED


def test_a_revision_keeps_what_status_says_and_what_it_kept_where_status_says_nothing() -> None:
    assert account_to_keep(deployment(USED), None) == KEPT.account
    assert account_to_keep(deployment(None), KEPT) == KEPT.account
    assert account_to_keep(deployment(None), None) is None
    assert account_to_keep(deployment(None, name="other"), KEPT) is None
