"""Benchmarks of the controller on a real control plane, compared to the bare API server with the same objects.

Reading order: `workloads` (what is installed) → `testbed` (control plane, registry and one controller) → `api`, `raw`
(a bare client, and what it does) → `audit`, `usage` (requests and resources) → `scenarios` (one run) → `figures`
(figures and their limits) → `table`. `__main__` is the command `hack/bench/run`. `crowd`, with the `copies` that it
writes to etcd, stands beside these.

Nothing is asserted here; tests/integration/test_costs.py asserts deterministic figures.
"""
