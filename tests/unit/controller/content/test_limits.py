"""Names and budgets."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.plugins import Limits
from api.v1alpha2.conditions import Reason
from controller.content.limits import Rejection, check_link, check_path, describe_bytes, quote

LIMITS = Limits()
PATHS = st.text(st.sampled_from("a./\\\x00é\udc80\n~"), max_size=12)


@given(name=PATHS)
def test_a_checked_path_is_normal_and_stays_below_its_folder(name: str) -> None:
    try:
        path = check_path(name, LIMITS)
    except Rejection:
        return
    assert check_path(path, LIMITS) == path
    joined = posixpath.normpath(posixpath.join("/root", path))
    assert joined == "/root" + ("/" + path if path else "")


@given(folder=st.lists(st.sampled_from("ab"), max_size=3), target=st.text(st.sampled_from("ab./"), max_size=12))
def test_a_checked_link_stays_below_the_root(folder: list[str], target: str) -> None:
    try:
        check_link("/".join([*folder, "link"]), target, LIMITS)
    except Rejection:
        return
    assert posixpath.normpath(posixpath.join("/root", *folder, target)).startswith("/root")


def test_a_rejection_becomes_an_error_at_a_path() -> None:
    error = Rejection('entry "x" is bad').at("spec.sources[0]")
    assert (error.reason, error.message) == (Reason.CONTENT_REJECTED, 'spec.sources[0]: entry "x" is bad')


@given(name=st.text(max_size=300))
def test_a_quoted_name_is_one_bearable_line(name: str) -> None:
    assert len(quote(name).splitlines()) == 1
    assert quote(name).encode()
    assert len(quote(name)) < 121 * 12


@pytest.mark.parametrize(("count", "text"), [(0, "0 bytes"), (1000, "1000 bytes"), (256 << 20, "256 MiB")])
def test_budgets_are_written_for_people(count: int, text: str) -> None:
    assert describe_bytes(count) == text
