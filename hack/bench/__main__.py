"""hack/bench/run: measure, and write the table and the JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hack.bench import crowd, private
from hack.bench.figures import Results, Sample, as_json, as_markdown, describe_machine, insert_table
from hack.bench.scenarios import SCENARIOS, Scenario, run
from hack.bench.testbed import Testbed, make_testbed
from rukpak.controller.playground.binaries import MissingError

HERE = Path(__file__).parent
RUNS = 5
IDLE_SECONDS = 60.0
QUICK_RUNS = 1
QUICK_IDLE_SECONDS = 10.0
OTHER_MINUTES = 15
"""Of private sources and 10,000 BundleDeployments."""


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
    is_all = not (options.only or options.quick)
    runs, idle_seconds = (QUICK_RUNS, QUICK_IDLE_SECONDS) if options.quick else (options.runs, IDLE_SECONDS)
    minutes = _minutes(scenarios, runs, idle_seconds) + (OTHER_MINUTES if is_all else 0)
    _tell(f"takes about {minutes} minutes; do not use the machine in the meantime")
    with make_testbed() as testbed:
        testbed.apply_finalizer_policy()
        samples = {each.name: _run_all(testbed, each, runs, idle_seconds) for each in scenarios}
        _publish(samples, options.output)
        if is_all:
            private.publish(private.measure(testbed, private.RUNS), options.output)
    if is_all:
        crowd.run(options.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/bench/run", description="Measure the performance of the controller.")
    parser.add_argument("--only", choices=[scenario.name for scenario in SCENARIOS], help="run one scenario")
    parser.add_argument("--quick", action="store_true", help="one short run of each scenario")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each scenario, for a median [%(default)s]")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="write table.md and results.json to this folder, and do not change the README",
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
    """Print the table, and write it and the JSON to a folder; by default this one, if everything was measured."""
    results = Results(
        machine=describe_machine(),
        titles={scenario.name: scenario.title for scenario in SCENARIOS},
        samples=samples,
        limits={scenario.name: scenario.limits for scenario in SCENARIOS},
    )
    table = as_markdown(results)
    print(table)
    if output:
        output.mkdir(parents=True, exist_ok=True)
        (output / "table.md").write_text(table, encoding="utf-8")
        (output / "results.json").write_text(as_json(results), encoding="utf-8")
    elif len(samples) == len(SCENARIOS) and min(map(len, samples.values())) > QUICK_RUNS:
        insert_table(HERE / "README.md", table)
        (HERE / "results.json").write_text(as_json(results), encoding="utf-8")
    else:
        _tell("not everything was measured: README.md and results.json are unchanged; use --output to write elsewhere")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
