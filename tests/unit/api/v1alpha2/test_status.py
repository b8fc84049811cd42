"""A status is dumped so that two dumps are equal if nothing changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from rukpak.api.v1alpha2.status import Condition, Display, NotReady, ObjectCounts, SourcePin, Status, dump

NOON = datetime(2026, 1, 2, 12, 0, 0, 987654, tzinfo=timezone(timedelta(hours=2)))
COUNTS = {
    "total": 0,
    "healthy": 0,
    "progressing": 0,
    "failed": 0,
    "drifted": 0,
    "retained": 0,
    "strays": 0,
    "handedOver": 0,
}


def condition(moment: datetime = NOON) -> Condition:
    return Condition(type="Ready", status="False", reason="Applying", last_transition_time=moment)


def test_what_is_empty_is_left_out_and_numbers_stay() -> None:
    assert dump(Status()) == {"observedGeneration": -1, "objects": COUNTS, "notReadyTruncated": False}


def test_members_are_dumped_in_camel_case() -> None:
    pin = SourcePin(
        kind="git", resolved="a@b", digest="sha1:b", spec_digest="v1:sha256:c", origin="v1:sha256:d", resolved_at=NOON
    )
    status = dump(Status(sources=(pin,), managed_kinds=("v1/Pod",), display=Display(objects="1/1")))
    assert status["sources"] == [
        {
            "kind": "git",
            "resolved": "a@b",
            "digest": "sha1:b",
            "specDigest": "v1:sha256:c",
            "origin": "v1:sha256:d",
            "resolvedAt": "2026-01-02T10:00:00Z",
        }
    ]
    assert (status["managedKinds"], status["display"]) == (["v1/Pod"], {"objects": "1/1"})


def test_a_fraction_of_a_second_is_no_change() -> None:
    rounded = NOON.astimezone(UTC).replace(microsecond=0)
    assert dump(Status(conditions=(condition(),))) == dump(Status(conditions=(condition(rounded),)))


def test_a_status_that_was_read_is_dumped_as_it_was_written() -> None:
    item = NotReady(api_version="apps/v1", kind="Deployment", namespace="a", name="b", reason="LessReady")
    written = dump(Status(conditions=(condition(),), not_ready=(item,), objects=ObjectCounts(total=1, failed=1)))
    assert dump(Status.model_validate(written)) == written


def test_what_a_newer_controller_wrote_is_ignored() -> None:
    assert dump(Status.model_validate({"somethingNew": 1})) == dump(Status())


def test_a_change_shows() -> None:
    assert dump(Status(not_ready_truncated=True)) != dump(Status())


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        condition(datetime(2026, 1, 2))  # noqa: DTZ001 - that is the point
