"""Fixtures and settings of unit tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from rukpak.api.v1alpha2.types import BundleDeployment
from rukpak.conformance import contracts
from rukpak.controller.building import entry_points
from tests.support.clock import Clock
from tests.support.tables import as_table, is_combined

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Set how many inputs hypothesis draws for a property that does not say so; keep what a program makes once."""
    examples = 100 if config.getoption("--all") else 10
    # By wall-clock time, it would fail a property if one input takes 0.2 s, as on a busy machine.
    settings.register_profile(
        "unhurried", deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("unhurried")
    # The program sets it when it imports git, which may first be within a test.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    # A program makes the schema of the API and looks through what is installed once, while tests do a hundred times.
    patch = pytest.MonkeyPatch()
    patch.setattr(BundleDeployment, "model_json_schema", cache(BundleDeployment.model_json_schema))
    found = cache(lambda _path, **wanted: metadata.entry_points(**wanted))
    patch.setattr(entry_points, "entry_points", lambda **wanted: found(tuple(sys.path), **wanted))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> pytest.Function | None:
    """Make one test of a table, unless somebody wants to see each case."""
    if collector.config.getoption("--all") or not isinstance(collector, pytest.Module):
        return None
    return as_table(collector, name, obj)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out combinations of rows that are tried without each other, unless somebody wants to see each case."""
    if config.getoption("--all"):
        return
    left_out = [item for item in items if isinstance(item, pytest.Function) and _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    chosen = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in chosen]


def _is_left_out(test: pytest.Function) -> bool:
    return HERE in test.path.parents and not is_combined(test)


ANSWERER = """
import os, pathlib, sys, traceback
import rukpak.controller.building.builder
from rukpak.conformance.contracts import answer

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            answer(pathlib.Path(line.rstrip(chr(10))))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def one_other_process() -> Iterator[None]:
    """Fork each process in which contracts are tried once more from one, instead of starting and loading it anew."""
    variables = {**os.environ, "PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LANG": "C"}
    variables["PYTHONPATH"] = os.pathsep.join(sys.path)
    words, pipe = [sys.executable, "-c", ANSWERER], subprocess.PIPE
    with subprocess.Popen(words, cwd="/", env=variables, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        sink, source = process.stdin, process.stdout

        def run(command: list[str], *, cwd: str, env: Mapping[str, str], **_: object) -> SimpleNamespace:
            assert (cwd, env["PYTHONHASHSEED"], env["TZ"], env["LANG"]) == ("/", "4242", "Asia/Kathmandu", "C")
            assert source
            print(command[-1], file=sink, flush=True)
            return SimpleNamespace(returncode=int(source.readline()), stderr=b"stderr says why")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contracts, "subprocess", SimpleNamespace(run=run))
            yield


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test sets."""
    return Clock()
