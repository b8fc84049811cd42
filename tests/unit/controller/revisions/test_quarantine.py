from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.controller.revisions.background import Quarantine
from tests.support.deployments import deployment

ANN, BEN, EVE = deployment("ann"), deployment("ben"), deployment("eve")


class Desk:
    """A folder, and the processes that come and go there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blocks: list[AbstractContextManager[None]] = []
        self.quarantine = self.start()

    def start(self, circumstances: str = "0.1.0 1073741824") -> Quarantine:
        self.quarantine = Quarantine(lambda: self.folder, circumstances)
        return self.quarantine

    def crash(self, *deployments: BundleDeployment, alone: BundleDeployment | None = None) -> Quarantine:
        """Die while something is prepared: no block ends."""
        self._blocks += map(self.quarantine.guard, deployments)
        self._blocks += [self.quarantine.alone(alone)] if alone else []
        for block in self._blocks[-len(deployments) - bool(alone) :]:
            block.__enter__()
        return self.start()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "quarantine")


def is_set_aside(quarantine: Quarantine, asked: BundleDeployment) -> bool:
    try:
        with quarantine.guard(asked):
            return False
    except BundleError as error:
        assert error.reason is Reason.QUARANTINED
        return True


def test_nothing_is_remembered_of_what_ends(desk: Desk) -> None:
    with desk.quarantine.guard(ANN):
        pass
    with pytest.raises(ZeroDivisionError), desk.quarantine.guard(ANN):
        raise ZeroDivisionError
    assert not desk.start().is_suspect(ANN)
    assert [path for path in desk.folder.rglob("*") if path.is_file()] == []


def test_who_was_prepared_when_the_process_died_twice_is_set_aside(desk: Desk) -> None:
    first = desk.crash(ANN)
    assert first.is_suspect(ANN)
    assert not first.is_suspect(BEN)
    assert is_set_aside(desk.crash(ANN), ANN)
    assert is_set_aside(desk.start(), ANN)


def test_once_is_no_proof(desk: Desk) -> None:
    assert not is_set_aside(desk.crash(ANN), ANN)
    assert not is_set_aside(desk.crash(ANN), ANN)  # it was prepared in between


def test_of_many_none_is_set_aside_until_one_has_run_alone(desk: Desk) -> None:
    for _ in range(5):
        quarantine = desk.crash(ANN, BEN, EVE)
    assert [quarantine.is_suspect(each) for each in (ANN, BEN, EVE)] == [True] * 3
    quarantine = desk.crash(ANN, BEN, EVE, alone=BEN)
    with ExitStack() as stack:
        stack.enter_context(quarantine.guard(ANN))
        stack.enter_context(quarantine.guard(EVE))
    assert is_set_aside(quarantine, BEN)
    assert not quarantine.is_suspect(ANN)


def test_who_is_fetched_beside_one_that_is_alone_is_no_suspect(desk: Desk) -> None:
    desk.crash(ANN)
    quarantine = desk.crash(ANN, BEN, alone=ANN)
    assert not quarantine.is_suspect(BEN)


def other(**fields: Any) -> BundleDeployment:
    return ANN.model_copy(update={"metadata": ANN.metadata.model_copy(update=fields)})


OTHERS = {
    "spec": other(generation=2),
    "annotation": other(annotations={names.RECONCILE_REQUESTED_AT: "now"}),
    "object under the name": other(uid="9"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_is_tried_again(desk: Desk, what: str) -> None:
    desk.crash(ANN)
    assert not is_set_aside(desk.crash(ANN), OTHERS[what])


@pytest.mark.parametrize("circumstances", ["0.2.0 1073741824", "0.1.0 2147483648"])
def test_with_another_release_or_more_memory_it_is_tried_again(desk: Desk, circumstances: str) -> None:
    desk.crash(ANN)
    desk.crash(ANN)
    assert not is_set_aside(desk.start(circumstances), ANN)


def test_who_is_stopped_in_order_has_not_crashed(desk: Desk) -> None:
    for _ in range(3):
        with desk.quarantine.guard(ANN):
            desk.quarantine.end()
            desk.start()
    assert not desk.quarantine.is_suspect(ANN)


def test_what_starts_after_an_orderly_stop_is_not_suspected(desk: Desk) -> None:
    desk.quarantine.end()
    assert not desk.crash(ANN).is_suspect(ANN)


def test_two_pieces_of_work_for_one_leave_one_mark(desk: Desk) -> None:
    with desk.quarantine.guard(ANN):
        with desk.quarantine.guard(ANN):
            pass
        assert Quarantine(lambda: desk.folder, "0.1.0 1073741824").is_suspect(ANN)


def test_damaged_files_are_nobody(desk: Desk) -> None:
    for folder in ("preparing", "suspects"):
        (desk.folder / folder / "a").write_text("{")
        (desk.folder / folder / "b").write_text('{"name": 1}')
        (desk.folder / folder / "c.new").write_text("")
    assert not is_set_aside(desk.start(), ANN)


def test_the_message_says_what_to_do(desk: Desk) -> None:
    desk.crash(ANN)
    blocks = desk.crash(ANN).guard(ANN)
    with (
        pytest.raises(BundleError, match="crashed 2 times while it prepared this bundle; make the bundle smaller or"),
        blocks,
    ):
        pass


def test_a_folder_that_cannot_be_written_to_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        Quarantine(lambda: tmp_path / "file" / "folder", "").guard(ANN),
        Quarantine(lambda: None, "").guard(ANN),
    ):
        pass


def test_who_is_read_again_is_the_same(desk: Desk) -> None:
    assert desk.crash(ANN).is_suspect(deployment("ann"))


def test_crashes_are_learned_from_once_the_folder_can_be_used(desk: Desk) -> None:
    desk.crash(ANN)
    found: list[Path] = []
    late = Quarantine(lambda: found[0] if found else None, "0.1.0 1073741824")
    with late.guard(EVE):
        assert not late.is_suspect(ANN)
    found.append(desk.folder)
    with late.guard(BEN):
        assert late.is_suspect(ANN)
        assert desk.start().is_suspect(BEN)
