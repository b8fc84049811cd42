from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import pytest

from rukpak.api.plugins import MEBIBYTE, Limits
from rukpak.controller.formats.manifests import estimate
from rukpak.controller.processes.memory_limit import MemoryLimit, find_limit
from tests.support.other_programs import UnavailableError, build_reader

MACHINE = "the memory of the machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    membership: str
    groups: Mapping[str, str] = field(default_factory=dict)
    option: int = 0
    expect: tuple[int, str] | None
    """MiB, and where that stands; None: the memory of the machine."""


TWO, ONE = "memory.max", "memory.limit_in_bytes"
# fmt: off
CASES = [
    Case(name="nothing says anything", membership="", expect=None),
    Case(name="of version 2, in a container", membership="0::/", groups={TWO: "1073741824"}, expect=(1024, TWO)),
    Case(name="none", membership="0::/", groups={TWO: "max"}, expect=None),
    Case(name="the least on the way up", membership="0::/a/b",
         groups={f"a/b/{TWO}": "max", f"a/{TWO}": "536870912", TWO: "1073741824"}, expect=(512, f"a/{TWO}")),
    Case(name="from another namespace of groups", membership="0::/../../a", groups={TWO: "536870912"},
         expect=(512, TWO)),
    Case(name="of version 1", membership="9:cpu:/x\n4:cpuset,memory:/a\n0::/",
         groups={f"memory/a/{ONE}": "268435456", f"memory/{ONE}": "9223372036854771712"},
         expect=(256, f"memory/a/{ONE}")),
    Case(name="what is no number", membership="0::/", groups={TWO: "lots"}, expect=None),
    Case(name="the option", membership="", option=64, expect=(64, "--memory")),
    Case(name="an option below the group's", membership="0::/", groups={TWO: "1073741824"}, option=64,
         expect=(64, "--memory")),
    Case(name="an option above it", membership="0::/", groups={TWO: "67108864"}, option=512, expect=(64, TWO)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_the_least_limit_counts(case: Case, tmp_path: Path) -> None:
    for name, text in {
        "proc/self/cgroup": case.membership,
        **{f"groups/{n}": t for n, t in case.groups.items()},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    limit = find_limit(case.option, processes=tmp_path / "proc", groups=tmp_path / "groups")
    if case.expect is None:
        assert limit.origin == MACHINE
    else:
        assert (limit.bytes // MEBIBYTE, limit.origin.removeprefix(f"{tmp_path}/groups/")) == case.expect


@pytest.mark.parametrize("mebibytes", [128, 256, 512, 1024, 4096, 65536])
def test_a_revision_as_large_as_the_budgets_allow_fits_in_what_is_there_for_work(mebibytes: int) -> None:
    limit = MemoryLimit(bytes=mebibytes * MEBIBYTE, origin="")
    limits = limit.limits(Limits())
    assert estimate(1 << 40, limits) <= limit.work_bytes
    assert limits.program_bytes <= limit.work_bytes


def test_from_1_gib_on_budgets_are_the_usual_ones() -> None:
    limits = MemoryLimit(bytes=1024 * MEBIBYTE, origin="").limits(Limits())
    assert (limits.manifest_bytes, limits.text_bytes, limits.nodes) == (16 * MEBIBYTE, 32 * MEBIBYTE, 500_000)


@pytest.fixture(scope="module")
def program() -> Path:
    """A small program in Go: it needs less address space than Helm, and starts where Helm does not, and conversely."""
    try:
        return build_reader()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("mebibytes", [256, 512, 1024, 1280, 1536, 2048, 4096])
def test_a_go_program_starts_whatever_the_limit_is(mebibytes: int, program: Path) -> None:
    space = MemoryLimit(bytes=mebibytes * MEBIBYTE, origin="").program_address_space
    command = ["prlimit", f"--as={space}", "--", str(program)]
    started = [subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False) for _ in range(4)]
    assert [done.returncode for done in started] == [0] * 4, started[0].stderr[:300]
