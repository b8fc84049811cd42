"""The command: install, let everything change and fail, wait until nothing is left to do, and judge."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hack.bench.figures import describe_machine, publish
from hack.bench.soak.churn import Churn, serve_sources
from hack.bench.soak.faults import Fault, Faults
from hack.bench.soak.verdict import Sample, Trend, count_revisions, find_faults, find_trends, take_sample
from hack.bench.testbed import Testbed, make_testbed
from rukpak.controller.kube.client import ApiError, Client
from rukpak.controller.playground.processes import wait_for
from tests.support.registry import RegistryClient
from tests.support.weather import Weather

FAULT_SECONDS = 10.0
"""A fault lasts so long, and the next one begins as much later."""
SAMPLE_SECONDS = 5.0
SETTLE_SECONDS = 900.0
IDLE_SECONDS = 60.0
BUNDLES = 300
PUBLISHED_MINUTES = 30
"""The results of a soak of at least this length are written to the page of figures, whatever they are."""
LEAST_SAMPLES = 3
TRACEBACK = "Traceback (most recent call last)"


@dataclass(kw_only=True)
class Soak:
    """A run, and what it has seen so far."""

    testbed: Testbed
    client: Client
    churn: Churn
    faults: Faults
    samples: list[Sample] = field(default_factory=list)
    """Of the last two thirds, and of the current process."""
    process: tuple[int, float] = (0, 0.0)
    """The controller that runs or ran last, and since when it has been seen."""
    exits: int = 0
    """How often the controller exited, as it does when it loses its Lease, and was started again."""

    def install(self) -> None:
        """Install every bundle, and wait until all is as it should be."""
        self.faults.start_controller()
        self.churn.install_all()
        self._wait_until_settled()

    def run(self, seconds: float, rate: float) -> None:
        """Let everything change and fail.

        Args:
            seconds: for how long.
            rate: operations a second.
        """
        start = operation = sampled = changed = time.monotonic()
        fault: Fault | None = None
        while (now := time.monotonic()) < start + seconds:
            is_restarting = now <= start + seconds / 3
            self._supervise(fault)
            is_measured = not is_restarting and self._age(now) > seconds / 6
            if now >= changed + FAULT_SECONDS:
                fault, changed = self._change_fault(fault, restarting=is_restarting), time.monotonic()
            if is_measured and now >= sampled + SAMPLE_SECONDS:
                self._sample()
                sampled = now
            if now >= operation:
                self.churn.step()
                operation = max(operation + 1 / rate, now)
            time.sleep(max(0.0, min(operation - time.monotonic(), SAMPLE_SECONDS)))
        if fault:
            fault.end()

    def _age(self, now: float) -> float:
        """Return for how long the controller has run, in seconds.

        It starts threads and opens connections when it needs them: right away, since all is edited at once then.
        """
        if self.testbed.is_controller_running() and self.testbed.controller_id() != self.process[0]:
            self.process = (self.testbed.controller_id(), now)
            self.churn.edit_all()
        return now - self.process[1]

    def _supervise(self, fault: Fault | None) -> None:
        """Start a controller that has ended again, as a kubelet does."""
        if self.testbed.is_controller_running() or (fault and fault.kills):
            return
        self.exits += 1
        self.samples.clear()
        self.faults.start_controller()

    def settle(self) -> list[str]:
        """Wait until nothing is left to do; return what is wrong then."""
        self.churn.resume_all()
        try:
            self._wait_until_settled()
        except TimeoutError:
            return find_faults(self.client)
        since = self.testbed.position()
        time.sleep(IDLE_SECONDS)
        idle = self.testbed.requests(since).without_watches()
        tracebacks = self.testbed.log_of_controller().count(TRACEBACK)
        return [
            *([f"{idle.total} requests in {IDLE_SECONDS:g} s: {_list(idle.by_object)}"] if idle.total else []),
            *([f"{tracebacks} tracebacks in the log"] if tracebacks else []),
        ]

    def _change_fault(self, fault: Fault | None, *, restarting: bool) -> Fault | None:
        if fault is None:
            return self.faults.begin(restarting=restarting)
        fault.end()
        return None

    def _sample(self) -> None:
        try:
            revisions = count_revisions(self.client)
        except ApiError:  # the API server is being restarted
            return
        self.samples.append(take_sample(self.testbed.controller_id(), self.testbed.store, revisions))

    def _wait_until_settled(self) -> None:
        def is_settled() -> bool:
            self._supervise(None)
            return not find_faults(self.client)

        wait_for(is_settled, SETTLE_SECONDS, "everything as it should be")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print what happened, and publish it if it took long enough.

    Returns: the exit status, 1 if anything is wrong or has kept growing.
    """
    options = _parser().parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        testbed = stack.enter_context(make_testbed())
        authority = testbed.cluster.folder / "ca.crt"
        weather = stack.enter_context(Weather(testbed.cluster.server, authority))
        registry = RegistryClient(testbed.registry.host)
        sources = stack.enter_context(serve_sources(folder, registry, options.seed))
        client = testbed.connect()
        churn = Churn(client, sources, options.bundles, options.seed)
        faults = Faults(testbed, weather, sources, client, options.seed)
        soak = Soak(testbed=testbed, client=client, churn=churn, faults=faults)
        soak.install()
        soak.run(60 * options.minutes, options.rate)
        wrong = soak.settle()
    trends = find_trends(soak.samples) if len(soak.samples) >= LEAST_SAMPLES else {}
    values = {
        "operations": f"{soak.churn.done.total():,}",
        "faults": f"{soak.faults.done.total():,}",
        **{f"{key}.{name}": f"{value:.2f}" for key, each in trends.items() for name, value in asdict(each).items()},
    }
    is_whole = options.minutes >= PUBLISHED_MINUTES and options.bundles >= BUNDLES
    publish("soak", describe(options, soak, trends, wrong), values, None, is_whole=is_whole)
    return int(bool(wrong) or not all(trend.is_flat for trend in trends.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hack.bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="of changes and faults [%(default)s]")
    parser.add_argument("--bundles", type=int, default=BUNDLES, help="BundleDeployments [%(default)s]")
    parser.add_argument("--rate", type=float, default=2, help="operations a second [%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of operations and faults [%(default)s]")
    return parser


def describe(options: argparse.Namespace, soak: Soak, trends: dict[str, Trend], wrong: Sequence[str]) -> str:
    """Return the report in Markdown."""
    rows = [
        f"| {key} | {each.mean:.2f} | {each.change:+.2f} | {each.deviation:.2f} | {'yes' if each.is_flat else 'no'} |"
        for key, each in trends.items()
    ]
    machine = ", ".join(describe_machine().values())
    lines = [
        f"{options.bundles} bundles, {options.minutes:g} minutes, seed {options.seed}; {machine}.",
        "",
        f"- {soak.churn.done.total():,} operations: {_list(soak.churn.done)}",
        f"- {soak.faults.done.total():,} faults: {_list(soak.faults.done)}",
        f"- the controller exited {soak.exits} times",
        f"- afterwards: {'; '.join(wrong) or 'everything as it should be, idle without a request'}",
        "",
        "| last two thirds | mean | change | noise | flat |",
        "| --- | ---: | ---: | ---: | --- |",
        *rows,
        "",
    ]
    return "\n".join(lines)


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{title} {count:,}" for title, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
