"""python -m hack.bench.expressions: what expressions about objects cost; no cluster.

An object is judged in three steps that are measured together: its request is written, the child evaluates, and the
answer is read. Then the same beside a tenant whose expressions are killed at their limit, one after the other.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rukpak.controller.observe.evaluation import Evaluations, Evaluator
from rukpak.controller.observe.records import ObjectKey
from rukpak.controller.processes.supervision import Supervisor

EXPRESSIONS = (
    "status.conditions.filter(c, c.type == 'Issuing').exists(c, c.status == 'True')",
    "status.conditions.exists(c, c.type == 'Ready' && c.status == 'False')",
    "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
)
HOSTILE = "self.items.all(a, self.items.all(b, self.items.all(c, self.items.map(d, d) != [])))"
LABELS = {f"example.com/label-{number}": "x" * 20 for number in range(20)}
OBJECT = {
    "apiVersion": "cert-manager.io/v1",
    "kind": "Certificate",
    "metadata": {"name": "web", "namespace": "shop", "labels": LABELS},
    "status": {"conditions": [{"type": name, "status": "True", "message": "x" * 80} for name in ("Ready", "Issued")]},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the figures."""
    options = _parser().parse_args(arguments)
    evaluator = Evaluator()
    first = _seconds(lambda: evaluator.evaluate(EXPRESSIONS, OBJECT))
    each = _seconds(lambda: [evaluator.evaluate(EXPRESSIONS, OBJECT) for _ in range(options.objects)])
    print(f"first object, with the start of the child: {first:.3f} s")
    print(f"each of {options.objects} objects with three expressions: {each / options.objects * 1e6:.0f} µs")
    for hostile in (0, options.hostile):
        print(f"an object of a tenant beside {hostile} hostile ones: {_delay(evaluator, hostile):.3f} s")
    evaluator.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench.expressions", description=(__doc__ or "").partition(":")[2]
    )
    parser.add_argument("--objects", type=int, default=5000, help="objects to judge [%(default)s]")
    parser.add_argument("--hostile", type=int, default=100, help="objects of the other tenant [%(default)s]")
    return parser


def _seconds(measured: Callable[[], object]) -> float:
    started = time.perf_counter()
    measured()
    return time.perf_counter() - started


def _delay(evaluator: Evaluator, hostile: int) -> float:
    """Return how long the only object of a tenant waits for its verdict behind those of another one."""
    judged = threading.Event()
    large: Mapping[str, Any] = {"items": list(range(10_000))}

    def _judge(key: ObjectKey) -> None:
        if key.namespace == "hostile":
            evaluator.evaluate([HOSTILE], large)
        else:
            evaluator.evaluate(EXPRESSIONS, OBJECT)
            judged.set()

    evaluations = Evaluations(_judge, lambda owner: owner, Supervisor)
    for number in range(hostile):
        evaluations.add("hostile", ObjectKey("", "ConfigMap", "hostile", str(number)))

    def _ask() -> None:
        evaluations.add("shop", ObjectKey("", "ConfigMap", "shop", "web"))
        judged.wait()

    return _seconds(_ask)


if __name__ == "__main__":
    sys.exit(main())
