"""The error that a user can cause."""

from __future__ import annotations

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason


def test_an_error_reads_as_its_reason_and_message() -> None:
    assert str(BundleError(Reason.NOT_FOUND, 'no tag "v2"')) == 'NotFound: no tag "v2"'


def test_an_error_carries_what_the_controller_needs() -> None:
    error = BundleError(Reason.UNREACHABLE, "503", retry_after=7.5)
    assert (error.reason.retry.stalls, error.message, error.retry_after) == (False, "503", 7.5)
