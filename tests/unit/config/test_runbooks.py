"""Each alert has a runbook, each reason is in the page for troubleshooting, and links between pages lead there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rukpak.api.v1alpha2.conditions import Reason, Retry
from rukpak.controller.formats.manifests import read_documents

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"
RULES = CONFIG / "prometheus/rules.yaml"
FOLDERS = (".github", "api", "config", "controller", "hack")
PAGES = [
    *ROOT.glob("*.md"),
    ROOT / "tests/README.md",
    *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md")),
]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def alerts() -> dict[str, str]:
    """Return the annotation `runbook` of each alert."""
    [rules] = [document.value for document in read_documents(RULES.read_bytes(), RULES.name)]
    found = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    return {rule["alert"]: rule["annotations"].get("runbook", "") for rule in found}


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def anchor_of(heading: str) -> str:
    """Return the anchor that forges give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_each_alert_has_a_runbook_and_the_other_way_round() -> None:
    assert headings(CONFIG / "runbooks.md")[1:] == list(alerts())


@pytest.mark.parametrize("alert", alerts())
def test_each_alert_names_its_runbook(alert: str) -> None:
    assert alerts()[alert] == f"config/runbooks.md#{anchor_of(alert)}"


def test_each_reason_that_can_be_trouble_is_found_by_its_symptom() -> None:
    page = (CONFIG / "troubleshooting.md").read_text(encoding="utf-8")
    fine = {Reason.UNPACKED, Reason.INSTALLED, Reason.HEALTHY, Reason.READY}
    assert [reason.value for reason in Reason if f"`{reason.value}`" not in page and reason not in fine] == []
    assert not {reason for reason in fine if reason.retry is not Retry.NONE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        file = (page.parent / target) if target else page
        assert file.exists(), target
        if anchor:
            assert anchor in map(anchor_of, headings(file)), (target, anchor)
