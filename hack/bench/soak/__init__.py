"""python -m hack.bench.soak: hundreds of bundles that change for an hour while everything around them fails.

`churn` (what the bundles hold, and what people do to them) and `faults` (what happens to everything else) → `verdict`
(whether all is as it should be in the end, and whether the process kept growing).
"""
