"""Links of a commit that lead out of a directory: where they lead, and what is bounded."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from operator import attrgetter

import pytest

from rukpak.api.plugins import Limits
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import Rejection
from rukpak.controller.sources.git.objects import LINK, SUBMODULE, Item, may_leave, take_directory

FILE = "100644"
LIMITS = Limits(entries=40, path_bytes=60, path_depth=6)


def take(files: dict[str, str], directory: str, limits: Limits = LIMITS) -> dict[str, str] | None:
    """Take a directory of a commit whose files are named by their paths; a value is the target of a link.

    Returns: by path the object of a file, or why it is refused.
    """
    modes = {"": FILE, "submodule": SUBMODULE}
    items = [Item(path=path, mode=modes.get(target, LINK), name=path) for path, target in files.items()]
    found = take_directory(items, {path: to for path, to in files.items() if to not in modes}, directory, limits)
    return None if found is None else {
        item.path: item.refusal.problem if item.refusal else item.name for item in found
    }  # fmt: skip


@dataclass
class Taken:
    name: str
    files: dict[str, str]
    expect: dict[str, str] | None
    directory: str = "d"


# fmt: off
TAKEN = [
    Taken("files", {"d/a": "", "d/b/c": "", "e/f": ""}, {"a": "d/a", "b/c": "d/b/c"}),
    Taken("a link to a file of the commit", {"d/l": "../e/f", "e/f": ""}, {"l": "e/f"}),
    Taken("a link to a folder of the commit", {"d/l": "../e", "e/f/g": ""}, {"l/f/g": "e/f/g"}),
    Taken("a link in a folder that a link leads to", {"d/l": "../e", "e/m": "../f", "f": ""}, {"l/m": "f"}),
    Taken("a link over links", {"d/l": "../e/m/x", "e": "f", "f/m": "../g", "g/x": ""}, {"l": "g/x"}),
    Taken("a link back into the directory", {"d/l": "../d/a", "d/a": ""}, {"a": "d/a", "l": "d/a"}),
    Taken("the directory by a link", {"d": "e", "e/l": "../f", "f": ""}, {"l": "f"}),
    Taken("below a link", {"x": "e", "e/d/a": ""}, {"a": "e/d/a"}, "x/d"),
    Taken("no link that dangles", {"d/l": "../nowhere", "d/m": "../e/f/g", "e/f": "", "d/a": ""}, {"a": "d/a"}),
    Taken("no link to itself", {"d/l": "../d/m", "d/m": "../d/l", "d/a": ""}, {"a": "d/a"}),
    Taken("no copy of what is being copied", {"d/l": "..", "d/a": "", "b": ""}, {"a": "d/a", "l/b": "b"}),
    Taken("nothing if there is none", {"e/f": ""}, None),
    Taken("nothing if it is a file", {"d": ""}, None),
    Taken("nothing if it dangles", {"d": "e"}, None),
    Taken("a link out", {"d/l": "../../x", "d/a": ""}, {"a": "d/a", "l":
         'entry "d/l" links to "../../x", outside the repository; link to something inside it'}),
    Taken("a link out over another", {"d/l": "../e/..", "e": "../x"}, {"l":
         'entry "e" links to "../x", outside the repository; link to something inside it'}),
    Taken("a link to the root of the machine", {"d/l": "/etc/passwd"}, {"l":
         'entry "d/l" links to "/etc/passwd", outside the repository; link to something inside it'}),
    Taken("a link with a long target", {"d/l": "../" + "a" * 60}, {"l":
         'entry "d/l" has a link target that exceeds the limit of 60 bytes; shorten it'}),
    Taken("a link to a submodule", {"d/l": "../s", "d/m": "../s/x", "s": "submodule"}, dict.fromkeys("lm",
         '"s" is a submodule, to which links of a directory do not lead; '
         "use the whole repository, add that of the submodule as another source, or remove the link")),
    Taken("a long chain of links", {"d/l": "../0", **{f"{i}": f"{i + 1}" for i in range(50)}, "50": ""}, {"l":
         'entry "40" is a chain of more than 40 links; link directly'}),
    Taken("a copy that is too deep", {"d/1/2": "../../e", "e/3/4/5/6/7": "", "e/f": ""},
         {"1/2/f": "e/f", "1/2/3/4/5/6/7":
         'entry "1/2/3/4/5/6/7" is nested deeper than the limit of 6; move it up'}),
]
# fmt: on


@pytest.mark.parametrize("case", TAKEN, ids=attrgetter("name"))
def test_what_is_taken(case: Taken) -> None:
    assert take(case.files, case.directory) == case.expect


def test_what_must_not_be_read_has_the_reason_of_its_kind() -> None:
    items = [Item(path="d/l", mode=LINK, name=""), Item(path="s", mode=SUBMODULE, name="")]
    found = (take_directory(items, {"d/l": "../s"}, "d", LIMITS) or [])[0]
    assert found.refusal
    assert found.refusal.reason is Reason.UNSUPPORTED_CONTENT


def test_a_directory_that_leads_out_is_refused() -> None:
    with pytest.raises(Rejection, match=r'entry "d" links to "\.\./d", outside the repository'):
        take({"d": "../d"}, "d/x")


@dataclass
class Many:
    name: str
    files: dict[str, str] = field(repr=False)


MANY = [
    Many("files", {f"d/{i}": "" for i in range(50)}),
    Many("copies", {"d/l": "../e", **{f"e/{i}": "" for i in range(50)}}),
    Many(
        "folders of links that double",
        {"0/f": "", **{f"{i}/{side}": f"../{i - 1}" for i in range(1, 30) for side in "ab"}, "d/l": "../29"},
    ),
    Many(
        "folders of links that double and lead nowhere",
        {**{f"{i}/{side}": f"../{i - 1}" for i in range(1, 30) for side in "ab"}, "d/l": "../29", "0/x": "nowhere"},
    ),
]


@pytest.mark.parametrize("case", MANY, ids=attrgetter("name"))
def test_too_many_are_refused_at_once(case: Many) -> None:
    started = time.process_time()
    with pytest.raises(Rejection, match="more entries than the limit of 40"):
        take(case.files, "d", Limits(entries=40))
    assert time.process_time() - started < 1


def test_links_are_followed_in_linear_time() -> None:
    long = "../" * 300 + "e/" * 20 + "f"
    files = {f"d/{i}": f"../e/{i}" for i in range(5000)} | {f"e/{i}": f"{i + 1}" for i in range(5000)}
    started = time.process_time()
    take({**files, **{f"l/{i}": long for i in range(5000)}, "e/5000": ""}, "d", Limits())
    assert time.process_time() - started < 10


@pytest.mark.parametrize(("target", "expect"), [("a", False), ("a/..b", False), ("../a", True), ("a/../..", True)])
def test_which_links_may_lead_out(target: str, expect: bool) -> None:
    assert may_leave(["b", target]) is expect
