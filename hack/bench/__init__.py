"""What the controller costs on a real control plane, beside what the bare API server needs for the same objects.

Reading order: `workloads` (what is installed) → `testbed` (control plane, registry and one controller) → `api`, `raw`
(a bare client, and what it does) → `audit`, `usage` (what is counted and weighed) → `scenarios` (one run) → `figures`
(which figures there are, and their budget) → `table`. `__main__` is the command `hack/bench/run`.

Nothing here asserts: what is deterministic is asserted in tests/integration/test_costs.py.
"""
