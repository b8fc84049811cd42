"""hack/bench/run: measure, and write the table and the JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hack.bench import circumstances, crowd, growth, neighbors, page, private, startup
from hack.bench.figures import (
    HERE,
    Results,
    Sample,
    as_json,
    as_markdown,
    describe_machine,
    publish,
    values_of,
)
from hack.bench.rows import check_idle, publish_part, tell
from hack.bench.scenarios import SCENARIOS, Scenario, run
from hack.bench.testbed import Testbed, make_testbed
from rukpak.controller.playground.binaries import MissingError

RUNS = 5
IDLE_SECONDS = 60.0
QUICK_RUNS = 1
QUICK_IDLE_SECONDS = 10.0
OTHER_MINUTES = 25
"""Of everything but the scenarios."""
QUICK_OTHER_MINUTES = 10
QUICK_COUNT = 5
"""BundleDeployments of the other tenant."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        _measure(options)
    except (MissingError, TimeoutError, RuntimeError) as error:
        _tell(f"hack/bench/run: {error}")
        return 1
    return 0


def _measure(options: argparse.Namespace) -> None:
    scenarios = [scenario for scenario in SCENARIOS if options.only in (None, scenario.name)]
    runs, idle_seconds = (QUICK_RUNS, QUICK_IDLE_SECONDS) if options.quick else (options.runs, IDLE_SECONDS)
    others = 0 if options.only else QUICK_OTHER_MINUTES if options.quick else OTHER_MINUTES
    if not options.quick:
        check_idle()
    minutes = _minutes(scenarios, runs, idle_seconds) + others
    _tell(f"takes about {minutes} minutes; do not use the machine in the meantime")
    with make_testbed() as testbed:
        testbed.apply_finalizer_policy()
        samples = {each.name: _run_all(testbed, each, runs, idle_seconds) for each in scenarios}
        _publish(samples, options.output)
        if options.only:
            return
        private.publish(private.measure(testbed, QUICK_RUNS if options.quick else private.RUNS), options.output)
        _publish_rest(testbed, options.output, is_quick=options.quick)
    growth.run(options.output, is_quick=options.quick)
    crowd.run(options.output, is_quick=options.quick)
    page.run(options.output, is_quick=options.quick)


def _publish_rest(testbed: Testbed, output: Path | None, *, is_quick: bool) -> None:
    with testbed.running_controller():
        rows = tell(neighbors.measure(testbed, QUICK_COUNT if is_quick else neighbors.COUNT))
    rows += tell(
        circumstances.measure(testbed, QUICK_COUNT, QUICK_IDLE_SECONDS) if is_quick else circumstances.measure(testbed)
    )
    rows += tell(startup.rows(QUICK_RUNS if is_quick else startup.RUNS))
    publish_part("rest", rows, output, is_whole=not is_quick)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/bench/run", description="Measure the performance of the controller.")
    parser.add_argument("--only", choices=[scenario.name for scenario in SCENARIOS], help="run one scenario")
    parser.add_argument("--quick", action="store_true", help="one short run of everything, on a busy machine, too")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each scenario, for a median [%(default)s]")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="write tables and results to this folder, and do not change the pages",
    )
    return parser


def _minutes(scenarios: Sequence[Scenario], runs: int, idle_seconds: float) -> int:
    return round(runs * sum(idle_seconds + scenario.seconds for scenario in scenarios) / 60) + 1


def _run_all(testbed: Testbed, scenario: Scenario, runs: int, idle_seconds: float) -> list[Sample]:
    samples = []
    for number in range(runs):
        _tell(f"{scenario.title}: run {number + 1} of {runs}")
        samples.append(run(testbed, scenario, number, idle_seconds))
    return samples


def _publish(samples: dict[str, list[Sample]], output: Path | None) -> None:
    """Publish the table, and write the JSON beside it."""
    results = Results(
        machine=describe_machine(),
        titles={scenario.name: scenario.title for scenario in SCENARIOS},
        samples=samples,
        limits={scenario.name: scenario.limits for scenario in SCENARIOS},
    )
    is_whole = len(samples) == len(SCENARIOS) and min(map(len, samples.values())) > QUICK_RUNS
    publish("installation", as_markdown(results), values_of(samples), output, is_whole=is_whole)
    if output or is_whole:
        ((output or HERE) / "results.json").write_text(as_json(results), encoding="utf-8")
    else:
        _tell("not everything was measured: the pages are unchanged; use --output to write elsewhere")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
