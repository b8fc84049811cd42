"""How long a small installation takes while another tenant has very much to compute.

`python -m hack.bench.neighbors` measures it. The other tenant changes its BundleDeployments all the time, so that they
are rendered again: in the controller's process, in children, or by Helm. They install nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hack.bench import raw
from hack.bench.api import BUNDLE_DEPLOYMENTS, MERGE
from hack.bench.rows import Row, publish
from hack.bench.scenarios import time_install
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, Manifest, make_bundle

COUNT = 100
"""BundleDeployments of the other tenant."""
INSTALLATIONS = 15
VARIANTS = 8
"""Different contents, so that none is rendered already."""
WARM_SECONDS = 8.0
PAUSE_SECONDS = 0.1
"""Between two changes."""
MOST_SECONDS = 1.0
_LINE = "- {x: 1, y: [1, 2, 3]}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the other tenant renders."""

    title: str
    format: str
    path: str
    text: str


LOADS = (
    Load(title="render here", format="plain", path="manifests/a.yaml", text=f"a:\n{_LINE * 15_000}"),
    Load(title="render in children", format="plain", path="manifests/a.yaml", text=f"a:\n{_LINE * 60_000}"),
    Load(
        title="have Helm render",
        format="helm",
        path="chart/templates/a.yaml",
        text=f"{{{{- range until 9000 }}}}\n{_LINE}{{{{- end }}}}\n",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content(Bundle):
    load: Load

    def files(self) -> dict[str, bytes]:
        chart = {"chart/Chart.yaml": f"apiVersion: v2\nname: {self.load.format}\nversion: 1.0.0\n".encode()}
        return {
            **(chart if self.load.format == "helm" else {}),
            self.load.path: f"# {self.name}\n{self.load.text}".encode(),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.bench.neighbors", description="Measure fairness.")
    parser.add_argument("--count", type=int, default=COUNT, help="BundleDeployments of another tenant [%(default)s]")
    options = parser.parse_args(arguments)
    with make_testbed() as testbed:
        testbed.start_controller()
        return publish(measure(testbed, options.count))


def measure(testbed: Testbed, count: int) -> Iterator[Row]:
    """Yield the median and the maximum of small installations, alone and beside each load.

    The bare client is alone each time.
    """
    bundles = [make_bundle(f"bare-{number}", 1) for number in range(INSTALLATIONS)]
    bare = [raw.install(testbed.api, [each]).seconds for each in bundles]
    yield from _rows("alone", _install(testbed, "alone"), bare)
    for number, load in enumerate(LOADS):
        with _busy(testbed, load, count):
            yield from _rows(f"beside {count} that {load.title}", _install(testbed, f"beside-{number}"), bare)


def _rows(where: str, seconds: Sequence[float], bare: Sequence[float]) -> Iterator[Row]:
    middle, bare_middle = statistics.median(seconds), statistics.median(bare)
    yield Row(title=f"installation of one object {where}, s", value=middle, at_most=MOST_SECONDS, bare=bare_middle)
    yield Row(title="the slowest of them, s", value=max(seconds), at_most=MOST_SECONDS, bare=max(bare))


def _install(testbed: Testbed, prefix: str) -> list[float]:
    deployments = testbed.push(make_bundle(f"{prefix}-{number}", 1) for number in range(INSTALLATIONS))
    return [time_install(testbed.api, [deployment]) for deployment in deployments]


@contextmanager
def _busy(testbed: Testbed, load: Load, count: int) -> Iterator[None]:
    """Have another tenant render a load all the time during the block."""
    variants = testbed.push(
        _Content(name=f"variant-{LOADS.index(load)}-{number}", objects=(), load=load) for number in range(VARIANTS)
    )
    stopped = threading.Event()
    names = [f"busy-{LOADS.index(load)}-{number}" for number in range(count)]

    def _deployment(number: int) -> Manifest:
        variant = variants[(number + number // count) % VARIANTS]
        spec = {**variant["spec"], "format": load.format, "installNamespace": "busy"}
        return {**variant, "metadata": {"name": names[number % count]}, "spec": spec}

    def _change() -> None:
        number = count
        while not stopped.wait(PAUSE_SECONDS):
            body = _deployment(number)
            testbed.api.request("PATCH", f"{BUNDLE_DEPLOYMENTS}/{body['metadata']['name']}", body, MERGE)
            number += 1

    for number in range(count):
        testbed.api.request("POST", BUNDLE_DEPLOYMENTS, _deployment(number))
    changing = threading.Thread(target=_change)
    changing.start()
    try:
        time.sleep(WARM_SECONDS)
        yield
    finally:
        stopped.set()
        changing.join()
        for name in names:
            testbed.api.request("DELETE", f"{BUNDLE_DEPLOYMENTS}/{name}")


if __name__ == "__main__":
    sys.exit(main())
