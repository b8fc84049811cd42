"""Benchmarks of the controller on a real control plane, compared to the bare API server with the same objects.

Reading order: `workloads` (what is installed) → `testbed` (control plane, registry and one controller) → `api`, `raw`
(a bare client, and what it does; requests in the audit log) → `scenarios` (one run) → `figures` (figures, limits and
their table). `__main__` is the command `hack/bench/run`. The others are
commands of their own; `rows` has their tables.

Nothing is asserted here; tests/integration/test_costs.py and tests/unit/controller/sources/test_requests.py assert
deterministic figures.
"""
