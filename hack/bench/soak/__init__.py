"""python -m hack.bench.soak: hundreds of bundles that change for an hour while everything around them fails.

`contents` (what the bundles hold) and `sources` (where they are fetched from, over `network`) → `churn` (what people do
to them) and `faults` (what happens to everything else) → `verdict` (whether all is as it should be in the end) and
`trend` (whether the process kept growing).
"""
