"""config/gitops.md: how Argo CD and Flux judge a BundleDeployment with what is to be pasted there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.status.report import Deletion, Report
from rukpak.controller.status.summary import summarize
from tests.support.deployments import deployment, manifest
from tests.support.other_programs import UnavailableError, build_judge, judge
from tests.support.reports import (
    CHANGED,
    COLLISION,
    CRASHING,
    DONE,
    GOOD,
    HOOK,
    INVALID,
    LATE,
    NEW,
    NOT_FOUND,
    NOW,
    ROLLING,
    UNAVAILABLE,
    outcome,
)

pytestmark = pytest.mark.thorough  # builds a program with Go first

PAGE = (Path(__file__).parents[3] / "config/gitops.md").read_text(encoding="utf-8")
BLOCKS = [
    next(iter(read_documents(text.encode(), "gitops.md"))).value
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
]
[LUA] = [block["data"][key] for block in BLOCKS if "data" in block for key in block["data"]]
[[EXPRESSIONS]] = [block["spec"]["healthCheckExprs"] for block in BLOCKS if "healthCheckExprs" in block.get("spec", {})]


class Case(NamedTuple):
    name: str
    report: Report
    argo: str
    flux: str
    by_expressions: str
    spec: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}


CASES = [
    Case("installed and healthy", DONE, "Healthy", "Current", "Current"),
    Case("rolling out", replace(DONE, progress=ROLLING), "Progressing", "InProgress", "InProgress"),
    Case("a pod crashes", replace(DONE, progress=CRASHING), "Degraded", "Failed", "Failed"),
    Case("a rollout is late", replace(DONE, progress=LATE), "Degraded", "Failed", "Failed"),
    Case("the tag does not exist", Report(failure=NOT_FOUND), "Degraded", "Failed", "Failed"),
    Case(
        "the new bundle is invalid, the old one healthy",
        Report(revision=NEW, applied=True, progress=GOOD, failure=INVALID), "Degraded", "Failed", "Failed",
    ),
    Case(
        "an object belongs to others",
        replace(DONE, applied=False, outcomes=(outcome(COLLISION),)), "Progressing", "InProgress", "InProgress",
    ),
    Case(
        "the API server does not answer",
        replace(DONE, applied=False, outcomes=(outcome(UNAVAILABLE),)), "Progressing", "InProgress", "InProgress",
    ),
    Case("a hook runs", replace(DONE, applied=False, failure=HOOK), "Progressing", "InProgress", "InProgress"),
    Case("drifted and not repaired", replace(DONE, conflicts=(CHANGED,)), "Healthy", "Current", "Current"),
    Case("paused", DONE, "Suspended", "Current", "InProgress", {"paused": True}),
    Case("paused while failed", replace(DONE, progress=CRASHING), "Degraded", "Failed", "InProgress", {"paused": True}),
    Case("the spec is newer", DONE, "Progressing", "InProgress", "InProgress", {}, {"generation": 2}),
]  # fmt: skip


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return build_judge()
    except UnavailableError as error:
        pytest.skip(str(error))


def object_of(case: Case) -> dict[str, Any]:
    status = summarize(deployment(spec=case.spec), case.report, NOW)
    dumped = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return manifest(spec=case.spec, metadata=case.metadata, status=dumped)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_each_tool_judges_by_the_conditions(program: Path, case: Case) -> None:
    value = object_of(case)
    argo, flux, expressions = judge(
        program, [{"object": value, "lua": LUA}, {"object": value}, {"object": value, **EXPRESSIONS}]
    )
    assert (argo["status"], flux["status"], expressions["status"]) == (case.argo, case.flux, case.by_expressions)
    assert not {answer.get("error") for answer in (argo, flux, expressions)} - {None}


def test_argo_shows_the_message(program: Path) -> None:
    [answer] = judge(program, [{"object": object_of(CASES[4]), "lua": LUA}])
    assert answer["message"] == NOT_FOUND.message


@pytest.mark.parametrize("status", [None, {}], ids=["no status", "an empty status"])
def test_a_new_one_is_progressing_in_argo(program: Path, status: dict[str, Any] | None) -> None:
    value = {key: each for key, each in (manifest() | {"status": status}).items() if each is not None}
    [answer] = judge(program, [{"object": value, "lua": LUA}])
    assert (answer["status"], answer.get("error")) == ("Progressing", None)


def test_one_that_is_being_deleted_is_progressing_in_argo(program: Path) -> None:
    before = deployment()
    status = summarize(before, Deletion(remaining=2), NOW).model_dump(mode="json", by_alias=True)
    value = manifest(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=status)
    [answer] = judge(program, [{"object": value, "lua": LUA}])
    assert answer["status"] == "Progressing"


def test_the_oracle_tells_of_mistakes(program: Path) -> None:
    wrong = [{"object": manifest(), "lua": "return nope.x"}, {"object": manifest(), "current": "("}]
    assert all(answer["error"] for answer in judge(program, wrong))
