"""Rights that are missing: listed all at once, so that nobody grants them one by one."""

from __future__ import annotations

from api.errors import BundleError
from api.v1alpha2.conditions import Reason
from controller.apply.rights import MissingRightsError, Right, for_apply, list_all

ACCOUNT = "system:serviceaccount:shop:deployer"


def missing(resource: str, *verbs: str, account: str = ACCOUNT) -> MissingRightsError:
    right = Right(namespace="shop", groups=("",), resources=(resource,), verbs=verbs)
    return MissingRightsError(f"{resource}: may not", account, (right,))


def test_all_rights_of_a_pass_are_in_one_message_in_any_order() -> None:
    errors = [missing("services", "patch"), missing("configmaps", "create"), missing("services", "get"), None]
    listed = list_all(errors)
    assert listed is not None
    assert listed.reason is Reason.FORBIDDEN
    where = 'in namespace "shop"'
    assert listed.message == f'"{ACCOUNT}" may not create configmaps {where}; get,patch services {where}; grant it that'
    again = list_all(reversed(errors))
    assert again is not None
    assert again.message == listed.message


def test_without_missing_rights_nothing_is_listed() -> None:
    assert list_all([None, BundleError(Reason.REFUSED, "no")]) is None


def test_an_apply_needs_create_besides_patch() -> None:
    [right] = for_apply(missing("services", "patch").rights)
    assert right.verbs == ("create", "patch")
    assert for_apply(missing("services", "get").rights) == missing("services", "get").rights
