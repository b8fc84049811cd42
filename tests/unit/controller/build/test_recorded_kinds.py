"""The kinds that a revision was rendered with stand in for those of a group that fails discovery later."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import pytest

from api.plugins import Capabilities
from controller.build.capabilities import recall_kinds, record_kinds
from controller.build.revision import RecordedKind, Revision, Terms

FOO, BAR, NODE = ("x.io", "v1", "Foo"), ("y.io", "v1", "Bar"), ("", "v1", "Node")
SERVED = {FOO: True, BAR: False, NODE: False}


def capabilities(*kinds: tuple[str, str, str], unknown: str = "") -> Capabilities:
    return Capabilities(
        kubernetes_version="v1.36.3",
        kinds={kind: SERVED[kind] for kind in kinds},
        unknown=frozenset(filter(None, [unknown])),
    )


class Recalled(NamedTuple):
    name: str
    now: Capabilities
    recorded: tuple[RecordedKind, ...] | None
    expect: Capabilities


CASES = [
    Recalled("while all groups answer, the record does not count", capabilities(NODE), ((*FOO, True),),
             capabilities(NODE)),
    Recalled("of a group that fails, the recorded kinds count", capabilities(NODE, unknown="x.io"), ((*FOO, True),),
             capabilities(FOO, NODE)),
    Recalled("of other groups they do not", capabilities(NODE, unknown="x.io"), ((*BAR, False),), capabilities(NODE)),
    Recalled("what was not served then is not served", capabilities(NODE, unknown="x.io"), (), capabilities(NODE)),
    Recalled("for a first installation nothing is recorded", capabilities(NODE, unknown="x.io"), None,
             capabilities(NODE, unknown="x.io")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_what_counts_while_a_group_fails(case: Recalled) -> None:
    assert recall_kinds(case.now, case.recorded) == case.expect


def test_only_kinds_of_other_api_servers_are_recorded() -> None:
    made = Revision(digest="", objects=(), terms=Terms(inputs="", install_namespace=""))
    recorded = record_kinds(made, capabilities(NODE, BAR, FOO), lambda group, kind: (group, kind) == ("x.io", "Foo"))
    assert recorded.terms.kinds == ((*FOO, True),)
