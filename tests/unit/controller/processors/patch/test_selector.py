from __future__ import annotations

import pytest

from controller.processors.patch.target import parse_selector

LABELS = {"app": "web", "example.com/tier": "front", "empty": ""}
MATCHING = [
    *("app", "!other", "app=web", "app==web", "app = web", "app!=api", "other!=web", "app in (web, api)", "empty="),
    *(
        "app notin (api)",
        "other notin (api)",
        "example.com/tier=front",
        "app=web,example.com/tier",
        "app in (a,web),!x",
    ),
]
OTHERS = ["other", "!app", "app=api", "app!=web", "app in (api)", "app notin (web,api)", "app=web,other", "app="]
MALFORMED = ["", "=a", "app=web,", "app in web", "app in (we b)", "a=b=c", "app>1", "-a", "a/b/c", "(app)"]


@pytest.mark.parametrize("text", MATCHING)
def test_labels_that_match(text: str) -> None:
    assert parse_selector(text)(LABELS)


@pytest.mark.parametrize("text", OTHERS)
def test_labels_that_do_not_match(text: str) -> None:
    assert not parse_selector(text)(LABELS)


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a requirement"):
        parse_selector(text)
