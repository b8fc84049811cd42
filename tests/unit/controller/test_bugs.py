from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason, Retry
from rukpak.controller.telemetry import InternalError, keep_first, reconcile_id


def internal(bug: BaseException, identity: str = "") -> InternalError:
    token = reconcile_id.set(identity)
    try:
        return InternalError(bug)
    finally:
        reconcile_id.reset(token)


FIRST = internal(KeyError("a"), "111")
AGAIN = internal(KeyError("b"), "222")
OTHER = internal(ValueError(), "333")
FAILURE = BundleError(Reason.NOT_FOUND, "no such tag")


class Case(NamedTuple):
    name: str
    last: BundleError | None
    error: BundleError
    expect: BundleError


CASES = [
    Case("the first bug", None, FIRST, FIRST),
    Case("the same bug again", FIRST, AGAIN, FIRST),
    Case("another bug", FIRST, OTHER, OTHER),
    Case("a bug after a failure", FAILURE, FIRST, FIRST),
    Case("a failure after a bug", FIRST, FAILURE, FAILURE),
]


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_which_error_is_shown(case: Case) -> None:
    assert keep_first(case.last, case.error) is case.expect


def test_a_bug_is_named_by_its_type_and_its_pass() -> None:
    assert FIRST.message == (
        "reconcileID 111: the controller has a bug (KeyError); report it with the traceback that its log contains "
        "under this ID; will be retried"
    )
    assert (FIRST.reason, FIRST.reason.retry) == (Reason.INTERNAL_ERROR, Retry.TRANSIENT)


def test_a_bug_outside_any_pass() -> None:
    assert internal(KeyError()).message.startswith("reconcileID unknown: ")
