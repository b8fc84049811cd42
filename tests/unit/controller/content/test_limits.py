"""Names and budgets."""

from __future__ import annotations

import io
import posixpath
import threading
from collections.abc import Callable
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Entry, Limits, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import write_entries
from rukpak.controller.content.limits import (
    BLOCK,
    DiskShares,
    Rejection,
    Use,
    budget_of,
    check_link,
    check_path,
    describe_bytes,
    quote,
)
from rukpak.controller.content.store import count_stored, write_index

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


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1000, "1000 bytes"),
        (1024, "1 KiB"),
        (1025, "1.1 KiB"),
        (1500, "1.5 KiB"),
        ((1 << 20) - 1, "1024 KiB"),
        (1 << 20, "1 MiB"),
        ((1 << 20) + 1, "1.1 MiB"),
        (123_456_789, "117.8 MiB"),
        (256 << 20, "256 MiB"),
        (1600 << 20, "1600 MiB"),
    ],
)
def test_budgets_are_written_for_people(count: int, text: str) -> None:
    assert describe_bytes(count) == text


SMALL = Limits(compressed_bytes=100, total_bytes=1000, entries=10)
ANN, BEN = 'namespace "ann"', 'namespace "ben"'
REJECTED, FULL = Reason.CONTENT_REJECTED, Reason.STORAGE_FULL


def reason_of(*calls: Callable[[], None]) -> Reason | None:
    """Return the reason by which the last call is refused; the others are not."""
    for call in calls[:-1]:
        call()
    try:
        calls[-1]()
    except BundleError as error:
        assert error.message.startswith("spec.sources: ")
        return error.reason
    return None


class Case(NamedTuple):
    name: str
    calls: Callable[[Use], tuple[Callable[[], None], ...]]
    expect: Reason | None


TOGETHER = [
    Case("two files of half the budget", lambda use: (lambda: use.add_file(500), lambda: use.add_file(500)), None),
    Case("a byte more", lambda use: (lambda: use.add_file(500), lambda: use.add_file(501)), REJECTED),
    Case("as many files as there may be", lambda use: (use.add_node,) * 10, None),
    Case("one more", lambda use: (use.add_node,) * 11, REJECTED),
    Case("two sources packed", lambda use: (lambda: use.receive(0, 50), lambda: use.receive(1, 50)), None),
    Case("a byte more of them", lambda use: (lambda: use.receive(0, 50), lambda: use.receive(1, 51)), REJECTED),
    Case("what comes of one", lambda use: (lambda: use.receive(0, 60), lambda: use.receive(0, 100)), None),
    Case(
        "what starts again",
        lambda use: (lambda: use.receive(0, 90), lambda: use.receive(0, 1), lambda: use.receive(1, 20)),
        REJECTED,
    ),
]


@pytest.mark.parametrize("case", TOGETHER, ids=attrgetter("name"))
def test_all_sources_have_one_budget(case: Case) -> None:
    with DiskShares().use(ANN, SMALL) as use:
        assert reason_of(*case.calls(use)) is case.expect


class Disk(NamedTuple):
    name: str
    takes: tuple[tuple[str, int], ...]
    """Of tenants, all at the same time."""
    expect: Reason | None


DISK = [
    Disk("a tenant's share", ((ANN, 60),), None),
    Disk("a byte more", ((ANN, 61),), FULL),
    Disk("in two pieces of work", ((ANN, 30), (ANN, 31)), FULL),
    Disk("one tenant's full share, and another's work", ((ANN, 60), (BEN, 40)), None),
    Disk("more than there is for all", ((ANN, 60), (BEN, 41)), FULL),
]


@pytest.mark.parametrize("case", DISK, ids=attrgetter("name"))
def test_a_tenant_has_a_share_of_the_disk(case: Disk) -> None:
    shares = DiskShares(total=100, share=60)
    with ExitStack() as stack:
        uses = [(stack.enter_context(shares.use(tenant, SMALL)), size) for tenant, size in case.takes]
        assert reason_of(*(lambda use=use, size=size: use.occupy(size) for use, size in uses)) is case.expect
    assert shares._taken.total() == 0


def test_what_was_refused_is_not_counted() -> None:
    shares = DiskShares(total=100, share=60)
    with shares.use(ANN, SMALL) as use:
        assert reason_of(lambda: use.occupy(61)) is FULL
        assert shares._taken.total() == 0


@pytest.mark.parametrize("mebibytes", [1, 2048, 8192])
def test_what_is_within_its_budget_always_has_room_alone(mebibytes: int) -> None:
    limits = Limits()
    shares = DiskShares.of_store(mebibytes << 20, limits)
    with shares.use(ANN, limits) as use:
        use.occupy(budget_of(limits))
        assert shares._taken.total() == budget_of(limits)


def test_half_of_a_large_store_is_for_one_tenant() -> None:
    shares = DiskShares.of_store(8 << 30, Limits())
    with shares.use(ANN, SMALL) as mine, shares.use(BEN, SMALL) as theirs:
        assert reason_of(lambda: mine.occupy(4 << 30), lambda: mine.occupy(1)) is FULL
        assert reason_of(lambda: theirs.occupy(4 << 30)) is None


def test_a_message_says_whose_share_it_is_and_what_to_do() -> None:
    with DiskShares(100 << 20, 1 << 20).use(ANN, SMALL) as use, pytest.raises(BundleError) as caught:
        use.occupy(2 << 20)
    assert caught.value.message == (
        'spec.sources: fetches for namespace "ann" exceed its share of the disk, 1 MiB; will be retried when other '
        "fetches have finished; make the content smaller, or ask the administrator to raise --store-mebibytes"
    )


def test_what_is_written_is_counted_before_it_is_on_disk(tmp_path: Path) -> None:
    entries = [Entry(path=name, size=600, data=io.BytesIO(b"x" * 600)) for name in ("a", "b")]
    with DiskShares().use(ANN, SMALL) as use, pytest.raises(BundleError) as caught:
        write_entries(entries, tmp_path, Limits(), "spec.sources[0].image", use)
    assert caught.value.message == (
        "spec.sources: together the sources exceed the limit of 1000 bytes; make them smaller, or remove some"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_is_stored_counts_while_it_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"x" * 500)
    shares = DiskShares()
    with shares.use(ANN, SMALL) as use:
        count_stored(tmp_path, use)
        assert shares._taken.total() == 500 + 2 * BLOCK
        assert reason_of(lambda: use.add_file(501)) is REJECTED


def test_what_was_left_out_of_stored_content_counts_as_well(tmp_path: Path) -> None:
    (tmp_path / "content").mkdir()
    write_index(tmp_path, {f"{number}": Refusal(problem="bad") for number in range(11)})
    with DiskShares().use(ANN, SMALL) as use:
        assert reason_of(lambda: count_stored(tmp_path / "content", use)) is REJECTED


def test_sources_that_work_at_the_same_time_are_counted_right() -> None:
    shares = DiskShares()
    with shares.use(ANN, Limits()) as use:

        def write() -> None:
            for _ in range(1000):
                use.add_file(1)

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert shares._taken.total() == 8000
